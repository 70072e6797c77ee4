//===- Tuner.cpp - finds the config that is fastest here ------------------===//
#include "Tune/Tuner.h"

#include "Support/EnumName.h"
#include "Tune/TuningSession.h"

namespace kiln {

llvm::StringRef nameOf(ChoiceOrigin origin) {
  using enum ChoiceOrigin;
  static constexpr EnumName<ChoiceOrigin> kNames[] = {{Empty, "empty"},
                                                      {Record, "record"},
                                                      {Measured, "measured"},
                                                      {Estimated, "estimated"}};
  return nameIn(kNames, origin);
}

llvm::StringRef nameOf(StopReason reason) {
  using enum StopReason;
  static constexpr EnumName<StopReason> kNames[] = {
      {Recorded, "recorded"}, {Exhausted, "exhausted"},
      {Bound, "bound"},       {Trials, "trials"},
      {Budget, "budget"},     {Cancelled, "cancelled"},
      {Device, "device"}};
  return nameIn(kNames, reason);
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
