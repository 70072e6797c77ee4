//===- EngineCalls.h - engines as their users call them -------------------===//
#pragma once

#include "Driver/Stream.h"
#include "Trial/TrialBuffers.h"
#include "cli/CommonOptions.h"
#include "kiln/kiln.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

/// A folder that goes with everything in it.
class ScratchFolder {
public:
  static llvm::Expected<ScratchFolder> make();
  ScratchFolder(ScratchFolder &&other) { std::swap(path, other.path); }
  ~ScratchFolder();

  /// A cache below it, which the engine makes with the access rights that it
  /// wants.
  std::string cache(llvm::StringRef name) const;

private:
  ScratchFolder() = default;
  llvm::SmallString<128> path;
};

struct EngineDeleter {
  void operator()(kiln_engine *engine) const { kiln_engine_destroy(engine); }
};
using EnginePtr = std::unique_ptr<kiln_engine, EngineDeleter>;

/// The error of this thread's last call, which answered \p status.
llvm::Error statusError(kiln_status status);

/// Options of one engine, beside those of the command.
struct EngineSetup {
  /// Hears its events; both may be null.
  kiln_event_fn event = nullptr;
  void *user = nullptr;
  uint32_t backgroundPermille = 0;         ///< 0: the engine's default
  std::chrono::milliseconds tuneBudget{0}; ///< 0: the engine's default
};

/// An engine with the folder \p cache (empty: its cache is in memory only) and
/// the compilers and threads of the command's options.
llvm::Expected<EnginePtr> makeEngine(kiln_mode mode, const std::string &cache,
                                     const ParsedOptions &options,
                                     const Environment &environment,
                                     const EngineSetup &setup = {});

/// An engine with the cache, the compilers and the threads of the command's
/// options.
llvm::Expected<EnginePtr> makeSessionEngine(kiln_mode mode,
                                            const ParsedOptions &options,
                                            const Environment &environment);

/// The counts of \p engine.
kiln_statistics statisticsOf(kiln_engine *engine);

/// One problem, called by its text on one copy of buffers. Engine, text and
/// buffers must outlive it; it does not move.
class EngineCall {
public:
  EngineCall(kiln_engine *engine, const std::string &text,
             const TrialBuffers &buffers, unsigned copy = 0);
  EngineCall(const EngineCall &) = delete;
  EngineCall &operator=(const EngineCall &) = delete;

  /// Enqueues one launch; the first may take seconds. Errors: those of
  /// kiln_run.
  llvm::Error launch(CudaStream stream) const;
  /// Like launch(), with the status of kiln_run.
  kiln_status run(kiln_stream stream) const;
  /// Makes its plan. Errors: those of kiln_prepare.
  llvm::Error prepare() const;

private:
  kiln_engine *engine;
  std::vector<void *> operands;
  kiln_problem problem;
  kiln_arguments arguments;
};

/// Calls the problem called \p text once, on copy 0 of \p buffers, and waits
/// for the device; the time until the launch returned, in ms. With \p prepares
/// it is prepared first, within the time.
llvm::Expected<double> callEngine(kiln_engine *engine, const std::string &text,
                                  const TrialBuffers &buffers,
                                  const Stream &stream, bool prepares = false);

/// The time of one call of an engine, as a program sees it, in ns. Each call is
/// waited for; operands are in L2.
struct EngineCallTime {
  std::string config;
  double wallNs = 0; ///< until the device has finished: median
  double hostNs = 0; ///< until the call returned: mean
};

/// Times the problem called \p text on copy 0 of \p buffers. May compile.
llvm::Expected<EngineCallTime> timeEngineCall(kiln_engine *engine,
                                              const std::string &text,
                                              const TrialBuffers &buffers,
                                              const Stream &stream);

/// The config that serves the problem called \p text, which was called.
llvm::Expected<std::string>
configOf(kiln_engine *engine, const std::string &text, const Stream &stream);

} // namespace kiln::cli
