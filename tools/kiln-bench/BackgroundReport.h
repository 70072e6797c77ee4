//===- BackgroundReport.h - costs of the mode background ------------------===//
#pragma once

#include "cli/Report.h"
#include "compare/BenchReport.h"
#include "kiln-bench/Figures.h"
#include "kiln-bench/HostClock.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// A call that took long, and why.
struct SlowCall {
  HostTime time;
  double atSeconds = 0; ///< of the part of the run
  std::string name;
  /// It, or a call since the last wait, looked for a plan, or had its stream's
  /// arena made larger.
  bool isMiss = false, growsArena = false;
};

/// Host times of calls, in us, and the engine's work meanwhile.
struct CallTimes {
  std::vector<double> us;
  double seconds = 0;      ///< in all, waits for the device included
  double trialSeconds = 0; ///< of the GPU for trials, at most
  uint64_t trials = 0, swaps = 0;
  uint64_t pending = 0;          ///< at the end
  std::vector<SlowCall> slowest; ///< the slowest first

  static constexpr size_t kSlowest = 5;
  /// Whether a call of \p us is one of the slowest so far.
  bool isSlow(double us) const {
    return slowest.size() < kSlowest || us > slowest.back().time.us;
  }
  /// Adds one of the slowest.
  void addSlow(SlowCall call);

  /// Share of the GPU's time; 0 where no time went by.
  double share() const { return seconds > 0 ? trialSeconds / seconds : 0; }
};

/// Calls that the foreground makes, alternately with and without trials.
struct Foreground {
  double calls[2] = {}, seconds[2] = {}; ///< [1]: while it is paused
  double trialSeconds = 0;               ///< of seconds[0]

  /// The share of its calls that it loses to the background; 0: not measured.
  double loss() const;
  double share() const {
    return seconds[0] > 0 ? trialSeconds / seconds[0] : 0;
  }
};

/// Calls that had their results compared while plans were swapped, and captures
/// of another thread beside them.
struct CheckedCalls {
  uint64_t calls = 0, wrong = 0, failed = 0, swaps = 0;
  uint64_t captures = 0, notPrepared = 0, failedCaptures = 0;
  double seconds = 0;
  bool isQuiet = false;    ///< no work was left at the end
  double quietSeconds = 0; ///< from the start; 0: it was not
  uint64_t trials = 0, pending = 0;
  double trialSeconds = 0; ///< of the GPU, at most

  bool isGood() const { return wrong + failed + failedCaptures == 0; }
};

/// One value of a layer after quiet, in an engine of the mode and in a tuned
/// one, in us.
struct QuietSpeed {
  std::string name;
  double backgroundUs = 0, tunedUs = 0;
  std::string backgroundConfig, tunedConfig;

  double ratio() const { return backgroundUs > 0 ? tunedUs / backgroundUs : 0; }
};

/// The result file that scripts/updateReadme.py reads, and its table. States
/// that were not reached are missing in both.
class BackgroundReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  BenchSetting setting;
  double share = 0; ///< the duty cycle
  /// Times of the first call of each signature, in us.
  std::vector<double> firstUs;
  std::optional<CallTimes> fresh; ///< the calls right behind these
  std::optional<CallTimes> busy;  ///< calls of the time after
  std::optional<Foreground> foreground;
  std::optional<CheckedCalls> checked;
  std::vector<QuietSpeed> speeds;
  bool interrupted = false;

private:
  RatioFigures ratios() const;
};

} // namespace kiln::cli
