//===- EngineConfig.h - the options of an engine, checked and copied ------===//
#pragma once

#include "Cache/Store.h"
#include "Kernel/EngineLimits.h"
#include "Runtime/Hooks.h"
#include "Runtime/ProfilerWindow.h"
#include "Support/Environment.h"
#include "kiln/kiln.h"

#include <llvm/Support/Error.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// The values of kiln_engine_options, defaults filled in. A plain value that
/// refers to nothing of the caller's except its hooks.
struct EngineConfig {
  kiln_mode mode = KILN_MODE_TUNE; ///< or a frozen one, see ChoiceOrder.h
  bool memoryOnly = false, readOnly = false, exactToolchain = false;
  unsigned threads = 0; ///< 0: as many as fit
  std::chrono::milliseconds tuneBudget{2000};
  std::chrono::milliseconds trialTimeout{20000};
  /// The share of the GPU's time for trials of the mode background.
  double backgroundShare = 0.05;
  uint64_t scratchLimit = 0; ///< 0: the default of InProcessTrials
  uint64_t workspaceLimit = kEngineWorkspaceBytes;
  /// The limit of kernels that are loaded ahead of launches, in one context.
  uint64_t poolLimit = uint64_t(256) << 20;
  uint64_t cacheLimit = cache::kDefaultLimitBytes; ///< or kNoLimit
  std::optional<std::string> cacheDir;
  /// File to which the engine adds what it is asked for, with its "%p".
  std::optional<std::string> history;
  std::vector<std::string> readDirs;
  /// At most one of both is set.
  std::string catalogName, deviceFile;
  /// The environment; the options' paths come before its variables.
  Environment environment;
  std::optional<ProfilerLimits> profilerLimits; ///< KILN_PROFILE
  Hooks hooks;
  std::optional<kiln_allocator> allocator;
  std::optional<kiln_executor> executor;

  /// Checks and copies \p options; null: the defaults. Reads the environment
  /// but no file. Errors: InvalidArgument, Unsupported.
  static llvm::Expected<EngineConfig> parse(const kiln_engine_options *options);

  /// Whether results are to be on disk.
  bool writesToDisk() const { return !memoryOnly && !readOnly; }

  /// Converts a time of the caller's. Longer times than clocks can count also
  /// mean for ever, for which a year suffices.
  static std::chrono::milliseconds timeOf(int64_t milliseconds) {
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
    return std::min(std::chrono::milliseconds(milliseconds), kLongest);
  }
};

} // namespace kiln
