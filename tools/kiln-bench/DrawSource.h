//===- DrawSource.h - the source of a drawn case's config -----------------===//
//
// A state of a draw says which part chooses the config: an engine that meets
// the problem, with or without a prepared range, or the tuner ahead of time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compare/BenchChoice.h"
#include "compare/EngineCalls.h"
#include "kiln-bench/DrawReport.h"

#include <chrono>
#include <memory>
#include <vector>

namespace kiln::cli {

/// The kernel on Kiln's side of one case.
struct DrawChoice : BenchChoice {
  /// Host time of an engine's call, which wrote the outputs; 0: none was made.
  double callMs = 0;
};

/// One state of a draw.
class DrawSource {
public:
  virtual ~DrawSource() = default;
  /// Runs before the first case; calls go to \p stream. Errors: those that
  /// leave nothing to measure.
  virtual llvm::Error prepare(const DrawRequest &draw,
                              const Stream &stream) = 0;
  /// Meets case \p index of the draw, in their order, on copy 0 of \p buffers.
  /// Errors concern this case.
  virtual llvm::Expected<DrawChoice>
  meet(size_t index, const TrialBuffers &buffers, const Stream &stream) = 0;
  /// After the last one.
  virtual DrawCost cost() = 0;
};

/// Objects that all sources of a command share and that must outlive them.
struct DrawTools {
  LiveSession &session;
  const Registry &registry;
  const ParsedOptions &options;
  const Environment &environment;
  /// The folder of the engines' caches, unless --cache-dir names one.
  const ScratchFolder &folder;
  /// Tuned: for each problem. Prepared: for each layer; 0: the engine's own.
  std::chrono::milliseconds budget{0};
};

/// The source of \p state.
std::unique_ptr<DrawSource> makeDrawSource(DrawState state,
                                           const DrawTools &tools);

} // namespace kiln::cli
