//===- Tuner.cpp - finds the config that is fastest here ------------------===//
#include "Tune/Tuner.h"

#include "Tune/TuningSession.h"

#include <llvm/Support/ErrorHandling.h>

namespace kiln {

llvm::StringRef nameOf(ChoiceOrigin origin) {
  switch (origin) {
  case ChoiceOrigin::Empty:
    return "empty";
  case ChoiceOrigin::Record:
    return "record";
  case ChoiceOrigin::Measured:
    return "measured";
  case ChoiceOrigin::Estimated:
    return "estimated";
  }
  llvm_unreachable("unknown origin");
}

llvm::StringRef nameOf(StopReason reason) {
  switch (reason) {
  case StopReason::Recorded:
    return "recorded";
  case StopReason::Exhausted:
    return "exhausted";
  case StopReason::Bound:
    return "bound";
  case StopReason::Trials:
    return "trials";
  case StopReason::Budget:
    return "budget";
  case StopReason::Cancelled:
    return "cancelled";
  case StopReason::Device:
    return "device";
  }
  llvm_unreachable("unknown reason");
}

void TuningChoice::take(const Measurement &stored) {
  validated = true;
  measuredNs = stored.medianNs;
  ciLowNs = stored.ciLowNs;
  ciHighNs = stored.ciHighNs;
}

Tuner::Tuner(const DeviceModel &device, ArtifactStore &artifacts,
             RecordStore &records, TrialRunner *runner)
    : device(&device), artifacts(&artifacts), records(&records),
      runner(runner) {}

llvm::Expected<TuningResult> Tuner::tune(const KernelFamily &family,
                                         const Problem &problem,
                                         const TuningOptions &options) {
  TuningOutcome outcome = attempt(family, problem, options);
  if (outcome.error.code == ErrorCode::Success)
    return std::move(outcome.result);
  return errorOf(outcome.error);
}

TuningOutcome Tuner::attempt(const KernelFamily &family, const Problem &problem,
                             const TuningOptions &options,
                             std::optional<RecordMatch> known) {
  const auto deadline = TuningOptions::Clock::now() + options.budget;
  const TuningContext context{*device, *artifacts, *records, runner,
                              deviceClassKey(*device)};
  TuningSession session(context, family, problem, options, std::move(known));
  session.begin(compile_priority::kAhead);
  TuningOutcome outcome;
  outcome.error = summarize(session.finish(deadline, TuningProgress()));
  outcome.result = session.takeResult();
  return outcome;
}

} // namespace kiln
