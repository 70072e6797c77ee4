//===- TrialRunner.h - the interface of trials ----------------------------===//
//
// A request is a problem with planned and compiled candidates; a result is a
// status, times, and the candidate's loaded code for further use. Tests replace
// the device behind this interface.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"
#include "Kernel/Plan.h"
#include "Store/ArtifactStore.h"
#include "Store/Records.h"
#include "Store/TrialStatus.h"

#include <llvm/Support/Error.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln {

class LoadedPlan;

/// The candidates that are compared with the reference.
enum class TrialValidation {
  None,
  All,
  /// All that may win: the fastest first, until the others are slower than a
  /// valid one by more than the tie band.
  MayWin,
};

/// Candidates whose times differ by less are tied; so are two whose intervals
/// each contain the other's median. Medians of interleaved samples agree to 0.3
/// % from run to run.
inline constexpr double kTieBand = 0.005;

/// A value, such as a NaN, that replaces one element of an input, or some in a
/// row, to see where it goes. Rows are counted through planes and batches.
struct PlantedValue {
  int operand = -1; ///< its index in the operand table; -1: no value is planted
  int64_t row = 0, column = 0;
  float value = 0;
  uint64_t count = 1; ///< elements, of one row

  /// Compares bits, so that NaN equals NaN.
  bool operator==(const PlantedValue &other) const {
    return operand == other.operand && row == other.row &&
           column == other.column && count == other.count &&
           std::bit_cast<uint32_t>(value) ==
               std::bit_cast<uint32_t>(other.value);
  }
};

struct TrialOptions {
  MeasurementMode mode = MeasurementMode::Cold;
  TrialValidation validation = TrialValidation::MayWin;
  TrialData data = TrialData::Usual; ///< the data of the operands
  PlantedValue planted; ///< replaces elements of it; for tests only
  bool measure = true;  ///< false: only validate
  unsigned minSamples = 5, maxSamples = 11;
  /// No new work begins after this time; results so far are reported.
  std::chrono::milliseconds timeLimit{10000};
  /// While no candidate is proven a comparison may begin for this much longer.
  /// It goes on if its reference is expected to be computed by then, judging by
  /// the time of the part before.
  std::chrono::milliseconds extraTime{0};
};

/// One config to try.
struct TrialCandidate {
  Plan plan;                          ///< for the request's problem
  std::vector<ArtifactPtr> artifacts; ///< of plan.kernels, in order
  /// TrialResult::loaded of an earlier request for this plan, so that nothing
  /// is loaded again; may be null.
  std::shared_ptr<const LoadedPlan> loaded;
  /// MayWin takes it as valid without comparing it again, since an earlier
  /// request found it right.
  bool isProven = false;
  /// It is sampled as long as any other, even if it is clearly slower, because
  /// other times are compared with its time.
  bool isKept = false;

  /// "mma.bm128.bn128"
  std::string config() const { return plan.configText(); }
};

/// The candidates to try. The caller has to know that they may run on the
/// device: they are not pruned here.
struct TrialRequest {
  const KernelFamily *family = nullptr; ///< outlives the runner
  Problem problem;
  std::vector<TrialCandidate> candidates;
  TrialOptions options;
};

/// Times are in ns; samples 0: it was not measured.
struct TrialResult {
  std::string config;
  TrialStatus status = TrialStatus::Ok;
  bool validated = false; ///< compared with the reference, and correct; or
                          ///< proven and timed
  double medianNs = 0, ciLowNs = 0, ciHighNs = 0;
  int64_t samples = 0;
  /// The largest error of compared elements over the tolerance; at most 1 if
  /// Ok.
  double maxErrorRatio = 0;
  std::string message; ///< the fault, empty if Ok
  /// If Ok, the plan that ran, in the context of the runner, which it may
  /// outlive. It cannot be used in other contexts, and its code leaves the
  /// device with its last owner unless KernelLoader::adopt() makes it stay. Its
  /// owner may drop it at any time: while a late launch runs, or once the
  /// context died, the runner keeps code that must not be unloaded. Null if
  /// nothing was loaded.
  std::shared_ptr<const LoadedPlan> loaded;
};

/// Runs trials one request after another. Not thread-safe.
class TrialRunner {
public:
  virtual ~TrialRunner() = default;

  /// Runs \p request; returns one result for each candidate in its order.
  /// Comparisons with a reference end soon after any thread set \p cancel,
  /// which may be null, as if time were over. Errors concern no candidate:
  /// InvalidArgument (an empty problem, or a candidate without its artifacts),
  /// DeviceOutOfMemory (no scratch for this problem at all), ContextDead,
  /// CompileFailed and the like for the tools and the reference, InProgress
  /// while work of an earlier trial still runs.
  virtual llvm::Expected<std::vector<TrialResult>>
  run(const TrialRequest &request,
      const std::atomic<bool> *cancel = nullptr) = 0;

  /// Whether there is memory to try \p problem, which is not empty, as far as
  /// is known beforehand.
  virtual bool hasRoom(const KernelFamily &family, const Problem &problem) {
    return true;
  }

  /// False once its context died; then run() returns ContextDead.
  virtual bool isAlive() const = 0;
};

} // namespace kiln
