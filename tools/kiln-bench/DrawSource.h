//===- DrawSource.h - where Kiln's side of a drawn case comes from --------===//
//
// A state of a draw is a way to come to a config: by an engine that meets the
// problem, with or without a prepared range, or by the tuner ahead of time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compare/BenchChoice.h"
#include "kiln-bench/DrawReport.h"
#include "kiln-bench/EngineCalls.h"

#include <chrono>
#include <memory>
#include <vector>

namespace kiln::cli {

/// What runs on Kiln's side of one case.
struct DrawChoice : BenchChoice {
  /// Host time of an engine's call, which wrote the outputs; 0: none was made.
  double callMs = 0;
};

/// One state of a draw.
class DrawSource {
public:
  virtual ~DrawSource() = default;
  /// Before the first case, whose calls go to \p stream. Errors: those that
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

/// What all sources of a command share; all of it must outlive them.
struct DrawTools {
  LiveSession &session;
  const Registry &registry;
  const ParsedOptions &options;
  const Environment &environment;
  /// Where engines keep their caches, unless --cache-dir says where.
  const ScratchFolder &folder;
  /// Tuned: for each problem. Prepared: for each layer; 0: the engine's own.
  std::chrono::milliseconds budget{0};
};

/// The source of \p state.
std::unique_ptr<DrawSource> makeDrawSource(DrawState state,
                                           const DrawTools &tools);

} // namespace kiln::cli
