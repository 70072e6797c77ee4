//===- TrialValidator.h - compares candidates with the reference ----------===//
#pragma once

#include "Store/LoadedPlan.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialPace.h"
#include "Trial/TrialRunner.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace kiln {

/// The result of one validation.
struct TrialVerdict {
  TrialStatus status = TrialStatus::Ok;
  double maxErrorRatio = 0;
  std::string message; ///< empty if Ok
};

/// The time limits of a validation.
struct ValidationTime {
  using Clock = std::chrono::steady_clock;

  std::chrono::milliseconds hangLimit; ///< of one wait
  Clock::time_point deadline;
  /// Past the deadline the reference is computed if it will be ready by this
  /// time.
  Clock::time_point latest;
  /// Ends the computation of the reference once it is true; may be null.
  const std::atomic<bool> *cancel = nullptr;
  TrialPace *pace = nullptr; ///< of the work; null: all of it runs at once
};

/// Compares all outputs of candidates with the family's reference, over copy 0
/// of the buffers. The reference is computed in slabs of rows. If its memory
/// holds all of it, each slab is computed once, before a candidate runs, and a
/// later validation goes on behind the last slab of an earlier one; otherwise
/// all slabs are computed for each candidate. A slab has the rows that fit the
/// memory, and no more than the device computes in the time of create() unless
/// these are fewer than 64. Uses the context that was current to create(), and
/// waits for its work. Not thread-safe.
class TrialValidator {
public:
  using Clock = ValidationTime::Clock;
  /// Enqueues one run of a candidate.
  using Run = llvm::function_ref<llvm::Error(const Arguments &)>;

  /// All referenced arguments must outlive it. Errors: those of
  /// ArtifactStore::get and KernelLoader::load for the reference.
  static llvm::Expected<TrialValidator>
  create(const Driver &driver, const TrialTools &tools, TrialBuffers &buffers,
         const KernelFamily &family, const Problem &problem,
         const DeviceModel &device, ArtifactStore &artifacts,
         KernelLoader &loader, KernelLifetime lifetime,
         std::chrono::duration<double> slab);

  /// Runs a candidate twice over poisoned outputs: every element within the
  /// tolerance, nothing else changed, and the same bits both times. The verdict
  /// is Timeout if \p time ends before the reference is there; at least one
  /// slab is computed in each call. Errors: those of \p run; InProgress when a
  /// wait takes more than the hang limit; ContextDead.
  llvm::Expected<TrialVerdict> validate(Run run, CudaStream stream,
                                        const ValidationTime &time);

  /// Compares candidates over other data of the same kind from now on.
  llvm::Error renew(CudaStream stream) {
    slabsThere = 0;
    return buffers->renew(stream);
  }

  /// The reference's code, which has to be kept if its context hangs or is
  /// dead.
  std::shared_ptr<const LoadedKernel> code() const { return kernel; }

private:
  TrialValidator(const Driver &driver, const TrialTools &tools,
                 TrialBuffers &buffers)
      : driver(&driver), tools(&tools), buffers(&buffers) {}
  /// Rows of one output, which one launch of the reference computes.
  struct Slab {
    size_t output = 0; ///< in TrialBuffers::outputs()
    int64_t begin = 0, end = 0;
  };

  void cutSlabs(double share);
  bool isTooLate(size_t slabsLeft, const ValidationTime &time) const;
  llvm::Expected<bool> completeReference(CudaStream stream,
                                         const ValidationTime &time);
  llvm::Expected<bool> compareOutputs(CudaStream stream,
                                      const ValidationTime &time);
  LaunchSpec bindReference(const TrialOutput &output, int64_t begin,
                           int64_t end) const;
  llvm::Error computeSlab(const Slab &slab, CudaStream stream);
  llvm::Error compareSlab(const Slab &slab, CudaStream stream);
  llvm::Error runFirst(Run run, CudaStream stream);
  llvm::Error runAgain(Run run, CudaStream stream);
  uint64_t slabOffset(const TrialOutput &output, int64_t begin) const;
  llvm::Expected<TrialVerdict> judge(const TrialFindings &findings,
                                     CudaStream stream,
                                     std::chrono::milliseconds limit) const;
  llvm::Error judgeOutput(const TrialOutput &output,
                          const CompareResult &compare, CudaStream stream,
                          std::chrono::milliseconds limit,
                          TrialVerdict &verdict) const;
  std::string prefixOf(const TrialOutput &output) const;

  const Driver *driver;
  const TrialTools *tools;
  TrialBuffers *buffers;
  std::unique_ptr<Reference> reference;
  std::shared_ptr<const LoadedKernel> kernel;
  std::vector<Slab> slabs;     ///< all rows of all outputs
  size_t slabsThere = 0;       ///< the number of first slabs that are computed
                               ///< and kept
  Clock::duration slabTime{0}; ///< of the last computed slab
};

} // namespace kiln
