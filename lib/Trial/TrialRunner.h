//===- TrialRunner.h - who runs trials, behind plain data -----------------===//
//
// Requests and results are plain data: texts, bytes and numbers. So a runner
// may do its work in this process, or hand it to a child that is thrown away
// when a kernel does harm.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Operand.h"
#include "Store/ArtifactStore.h"
#include "Store/Records.h"
#include "Store/TrialStatus.h"

#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

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

struct TrialOptions {
  MeasurementMode mode = MeasurementMode::Cold;
  TrialValidation validation = TrialValidation::MayWin;
  TrialData data = TrialData::Usual; ///< what the operands hold
  bool measure = true;               ///< false: only validate
  unsigned minSamples = 5, maxSamples = 11;
  /// No new work begins after this time; what has run by then is reported.
  std::chrono::milliseconds timeLimit{10000};
  /// While nothing is proven a comparison may begin for this much longer, and
  /// it goes on where its reference is expected to be computed by then: by the
  /// time that the part before took.
  std::chrono::milliseconds extraTime{0};
};

/// One config to try, with the artifacts of its plan's kernels in order.
struct TrialCandidate {
  std::string config; ///< "mma.bm128.bn128"
  std::vector<ArtifactPtr> artifacts;
  /// MayWin takes it for valid, since an earlier request found it so: it is not
  /// compared again.
  bool isProven = false;
  /// Sampled as long as any other, even where it is clearly slower: what other
  /// times are held against.
  bool isKept = false;
};

struct TrialRequest {
  std::string family;  ///< "gemm"
  std::string problem; ///< "gemm m=1 n=2 k=3": the canonical text
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
};

/// Runs trials one request after another. Not thread-safe.
class TrialRunner {
public:
  virtual ~TrialRunner() = default;

  /// Runs \p request; one result for each candidate in its order. What
  /// compares with a reference ends soon after \p cancel, which may be null,
  /// became true, from any thread: as if time were over. Errors are those that
  /// concern no candidate: InvalidArgument (problem or config that nobody
  /// knows), DeviceOutOfMemory (no scratch for this problem at all),
  /// ContextDead, CompileFailed and the like for the tools and the reference,
  /// InProgress while work of an earlier trial still runs.
  virtual llvm::Expected<std::vector<TrialResult>>
  run(const TrialRequest &request,
      const std::atomic<bool> *cancel = nullptr) = 0;

  /// False once its context died: run() then answers ContextDead.
  virtual bool isAlive() const = 0;
};

} // namespace kiln
