//===- Quality.h - the worth of an order of configs -----------------------===//
//
// Replays the measurements of sweeps: today's model orders the configs that
// have a time, and its first choices are compared with the best of them. So a
// change of the estimate is judged without a GPU. The classic model and the
// expectation of a random order stand beside it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Kernel/Registry.h"
#include "kiln-bench/Blame.h"
#include "kiln-bench/Figures.h"
#include "kiln-bench/Regret.h"
#include "kiln-bench/SweepRecord.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// The share of the best that the first choices of an order reach: its time
/// over theirs.
struct OrderShare {
  double top1 = 0, top5 = 0; ///< 0: there is no such order
};

/// The number of configs from which on a space counts as whole.
inline constexpr size_t kWholeSpace = 20;

/// One config of a replayed space.
struct ReplayedConfig {
  std::string tmpl, bound; ///< bound: its limit, by the estimate
  double predictedNs = 0, measuredNs = 0;
};

/// One recorded space, ordered again.
struct ReplayedSpace {
  std::string name, regime; ///< regime: "gemm 65-256", "rmsnorm"
  std::string family;
  size_t record = 0; ///< the place of its record among those of a report
  bool isTest = false;
  size_t configs = 0;       ///< that today's model has a time for
  size_t refused = 0;       ///< that it does not know or allow any more
  OrderShare main, classic; ///< classic: 0 where it cannot describe the problem
  OrderShare random;        ///< expected
  double correlation = 0;   ///< of the ranks of predicted and measured times
  std::vector<double> errors; ///< |predicted / measured - 1| of each config
  /// Today's first choice of the whole space has a time here.
  bool hasFirstChoice = false;
  std::string chosen, best; ///< first of the order, and the fastest
  double chosenNs = 0, bestNs = 0;

  std::vector<ReplayedConfig> timed; ///< the first choice first
  /// Regrets of the first k choices by the estimate and by the classic model
  /// (empty where it cannot describe the problem), and those that a random
  /// order is expected to have.
  std::vector<double> regret, classicRegret, randomRegret;
  /// If the first choice is not the best, and the best has an estimate.
  std::optional<Blame> blame;

  /// Predicted over measured time of the first choice, minus 1.
  double choiceError() const;
  /// Whether enough configs have a time for ranks and regrets to mean
  /// something. Some records have only the fastest configs of a space.
  bool isWhole() const { return configs >= kWholeSpace; }
};

/// Orders the configs of \p space. Errors: InvalidArgument for a problem that
/// no family reads; NoCandidate where fewer than two configs have a time.
llvm::Expected<ReplayedSpace> replay(const RecordedSpace &space,
                                     const Registry &registry,
                                     const DeviceModel &device);

/// Figures of several spaces. Larger is better, except of timeError.
struct QualityFigures {
  size_t problems = 0, configs = 0;
  RatioFigures top1, top5;
  double correlation = 0;     ///< mean
  double timeError = 0;       ///< median over all configs
  OrderShare classic, random; ///< geometric means
  size_t classicProblems = 0;
  size_t withFirstChoice = 0;

  static QualityFigures of(llvm::ArrayRef<const ReplayedSpace *> spaces);
};

/// The distribution of ReplayedSpace::choiceError(): 0 without spaces.
struct ChoiceErrors {
  double tenth = 0, quarter = 0, median = 0, threeQuarters = 0, nineTenths = 0;
  double size = 0; ///< the median of absolute errors

  static ChoiceErrors of(llvm::ArrayRef<const ReplayedSpace *> spaces);
};

/// Figures by split ("fit", "test") and regime, "all" among these.
using QualityTable =
    std::map<std::string, std::map<std::string, QualityFigures>>;
QualityTable tabulate(llvm::ArrayRef<ReplayedSpace> spaces);

} // namespace kiln::cli
