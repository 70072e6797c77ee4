//===- SweepRecord.h - measured times of many configs, kept ---------------===//
//
// The findings of a sweep, small enough to be kept by the hundred: a line for
// each config. A record outlives the space that it was measured in: configs are
// text, and a reader compares them with today's estimate.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln-bench/Sweep.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// One config that is right and has a time.
struct TimedConfig {
  std::string config;
  int rank = 0; ///< when it was measured, from 0
  double ns = 0;
  bool inPlayoff = false; ///< its time is that of the playoff
};

/// The measured times of one problem's space.
struct RecordedSpace {
  std::string name, problem;        ///< the problem's text, with its family
  size_t size = 0;                  ///< configs of the whole space, then
  std::vector<TimedConfig> configs; ///< by rank

  /// Whether it is to test an estimate, and never to fit one: a third of all
  /// problems, told by their text alone.
  bool isTest() const;
  /// The time that counts as the best; 0: no time does.
  double bestNs() const;

  static RecordedSpace of(llvm::StringRef name, llvm::StringRef problem,
                          const SweepResult &result);
};

/// A file of such spaces.
struct SweepRecord {
  std::string what;
  std::string commit; ///< empty: several, or not known; `what` says it
  std::string gpu, driver, toolchain, mode;
  std::string device; ///< its name in the catalog: "h200-sxm"
  std::vector<RecordedSpace> spaces;

  /// JSON with a line for each config, its time in whole ns.
  std::string text() const;
  /// Errors: InvalidArgument, naming \p path.
  static llvm::Expected<SweepRecord> parse(const llvm::json::Value &json,
                                           llvm::StringRef path);
};

} // namespace kiln::cli
