//===- TrialRunner.h - who runs trials ------------------------------------===//
//
// A request is a problem with planned and compiled candidates; a result is a
// status, times, and the candidate's code as it was loaded, for who goes on
// with it. Tests play the device behind this interface.
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

/// Which candidates are compared with the reference.
enum class TrialValidation {
  None,
  All,
  /// By time, the fastest first, until what is left is slower than a valid one
  /// by more than the tie band: all that may win.
  MayWin,
};

/// Candidates whose times differ by less are tied; so are two of which each has
/// the other's median within its interval. Medians of interleaved samples agree
/// to 0.3 % from run to run.
inline constexpr double kTieBand = 0.005;

/// A value in place of one element of an input, such as a NaN, to see where it
/// goes, or of some in a row. Rows are counted through planes and batches.
struct PlantedValue {
  int operand = -1; ///< its index in the operand table; -1: no value is planted
  int64_t row = 0, column = 0;
  float value = 0;
  uint64_t count = 1; ///< elements, of one row

  /// The same bits: NaN is like NaN.
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
  TrialData data = TrialData::Usual; ///< what the operands hold
  PlantedValue planted; ///< in place of one element of that; of tests alone
  bool measure = true;  ///< false: only validate
  unsigned minSamples = 5, maxSamples = 11;
  /// No new work begins after this time; what has run by then is reported.
  std::chrono::milliseconds timeLimit{10000};
  /// While nothing is proven a comparison may begin for this much longer, and
  /// it goes on where its reference is expected to be computed by then: by the
  /// time that the part before took.
  std::chrono::milliseconds extraTime{0};
};

/// One config to try.
struct TrialCandidate {
  Plan plan;                          ///< for the request's problem
  std::vector<ArtifactPtr> artifacts; ///< of plan.kernels, in order
  /// TrialResult::loaded of an earlier request for this plan, so that nothing
  /// is loaded again; may be null.
  std::shared_ptr<const LoadedPlan> loaded;
  /// MayWin takes it for valid, since an earlier request found it so: it is not
  /// compared again.
  bool isProven = false;
  /// Sampled as long as any other, even where it is clearly slower: what other
  /// times are held against.
  bool isKept = false;

  /// "mma.bm128.bn128"
  std::string config() const { return plan.configText(); }
};

/// What to try. Whether a config may run on the device is the caller's to know:
/// nothing is pruned here.
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
  /// Largest error over the tolerance of what was compared; at most 1 if Ok.
  double maxErrorRatio = 0;
  std::string message; ///< what is wrong, empty if Ok
  /// If Ok, the plan that ran, in the context of the runner, which it may
  /// outlive. It is no use elsewhere, and its code leaves the device with its
  /// last owner unless KernelLoader::adopt() makes it stay. Its owner may drop
  /// it at any time: while a late launch runs, or once the context died, the
  /// runner keeps what must not be unloaded. Null where nothing was loaded.
  std::shared_ptr<const LoadedPlan> loaded;
};

/// Runs trials one request after another. Not thread-safe.
class TrialRunner {
public:
  virtual ~TrialRunner() = default;

  /// Runs \p request; one result for each candidate in its order. What
  /// compares with a reference ends soon after \p cancel, which may be null,
  /// became true, from any thread: as if time were over. Errors are those that
  /// concern no candidate: InvalidArgument (an empty problem, or a candidate
  /// without its artifacts), DeviceOutOfMemory (no scratch for this problem at
  /// all), ContextDead, CompileFailed and the like for the tools and the
  /// reference, InProgress while work of an earlier trial still runs.
  virtual llvm::Expected<std::vector<TrialResult>>
  run(const TrialRequest &request,
      const std::atomic<bool> *cancel = nullptr) = 0;

  /// Whether there is memory to try \p problem, which is not empty, as far as
  /// that can be told before.
  virtual bool hasRoom(const KernelFamily &family, const Problem &problem) {
    return true;
  }

  /// False once its context died: run() then answers ContextDead.
  virtual bool isAlive() const = 0;
};

} // namespace kiln
