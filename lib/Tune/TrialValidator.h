//===- TrialValidator.h - is what a candidate computes right? -------------===//
#pragma once

#include "Tune/LoadedPlan.h"
#include "Tune/TrialBuffers.h"
#include "Tune/TrialRunner.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <memory>
#include <string>

namespace kiln {

/// What one validation found.
struct TrialVerdict {
  TrialStatus status = TrialStatus::Ok;
  double maxErrorRatio = 0;
  std::string message; ///< empty if Ok
};

/// Compares all that candidates write with the family's reference, over copy 0
/// of the buffers. The reference is computed once where its memory holds all of
/// it, else slab by slab for each candidate. Uses the context that was current
/// to create(), and waits for its work. A slab is no more than memory holds and
/// no more work than the device does in some tenths of a second. Not
/// thread-safe.
class TrialValidator {
public:
  using Clock = std::chrono::steady_clock;
  /// Enqueues one run of a candidate.
  using Run = llvm::function_ref<llvm::Error(const Arguments &)>;

  /// All references must outlive it. Errors: those of ArtifactStore::get and
  /// KernelLoader::load for the reference.
  static llvm::Expected<TrialValidator>
  create(const Driver &driver, const TrialTools &tools, TrialBuffers &buffers,
         const KernelFamily &family, const Problem &problem,
         const DeviceModel &device, ArtifactStore &artifacts,
         KernelLoader &loader);

  /// Runs a candidate twice over poisoned outputs: every element within the
  /// tolerance, nothing else changed, and the same bits both times. Errors:
  /// those of \p run; InProgress when a wait takes more than \p limit;
  /// ContextDead. A reference of many slabs is left unfinished at \p deadline:
  /// the verdict is Timeout.
  llvm::Expected<TrialVerdict> validate(Run run, CudaStream stream,
                                        std::chrono::milliseconds limit,
                                        Clock::time_point deadline);

  /// The reference's code, to be kept where its context hangs or is dead.
  std::shared_ptr<const LoadedKernel> code() const { return kernel; }

private:
  TrialValidator(const Driver &driver, const TrialTools &tools,
                 TrialBuffers &buffers)
      : driver(&driver), tools(&tools), buffers(&buffers) {}
  llvm::Expected<bool> compareOutputs(CudaStream stream,
                                      std::chrono::milliseconds limit,
                                      Clock::time_point deadline);
  LaunchSpec bindReference(const TrialOutput &output, int64_t begin,
                           int64_t end) const;
  llvm::Error computeReference(const TrialOutput &output, int64_t begin,
                               int64_t end, CudaStream stream);
  llvm::Error compareRows(size_t number, int64_t begin, int64_t end,
                          CudaStream stream);
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
  bool isReferenceThere = false; ///< of all rows of all outputs
  /// Of all rows of an output, the part that one launch of the reference may
  /// compute.
  double slabShare = 1;
};

} // namespace kiln
