//===- BenchChoice.cpp ----------------------------------------------------===//
#include "compare/BenchChoice.h"

#include "cli/TuneAll.h"

namespace kiln::cli {

llvm::Expected<BenchChoice> namedChoice(const Case &which,
                                        const std::string &config,
                                        const DeviceModel &device,
                                        ArtifactStore &artifacts) {
  const auto &[family, problem] = which.named;
  auto parsed = family->parseConfig(config);
  if (!parsed)
    return parsed.takeError();
  if (auto rejection = parsed->tmpl->prune(problem, parsed->config, device))
    return makeError(ErrorCode::InvalidArgument, "{} cannot run: {}", config,
                     rejection->text());
  BenchChoice choice;
  choice.from = "named";
  choice.plan = parsed->tmpl->plan(problem, parsed->config, device);
  for (const TranslationUnit &unit : choice.plan.kernels) {
    auto artifact = artifacts.get(unit);
    if (!artifact)
      return artifact.takeError();
    choice.artifacts.push_back(std::move(*artifact));
  }
  return choice;
}

llvm::Expected<ChoiceRequest>
ChoiceRequest::read(const ParsedOptions &options) {
  ChoiceRequest request;
  request.config = options.value("--config");
  // Without trials the budget bounds compilation alone.
  constexpr std::chrono::minutes kCompileBudget(30);
  auto budget = options.duration("--budget", kCompileBudget);
  if (!budget)
    return budget.takeError();
  request.tuning.budget = *budget;
  if (!options.has("--budget"))
    request.tuning.maxTrials = 0;
  auto allowance = chooseAllowance(options);
  if (!allowance)
    return allowance.takeError();
  request.tuning.allowance = *allowance;
  if (options.has("--hot"))
    request.tuning.mode = MeasurementMode::Hot;
  return request;
}

BenchChoices::BenchChoices(llvm::ArrayRef<Case> cases,
                           const ChoiceRequest &request, LiveSession &session)
    : cases(cases), request(request), session(session) {
  if (request.config)
    return;
  outcomes = tuneAll(session.tuningContext(request.tuning.maxTrials > 0),
                     problemsOf(cases), request.tuning);
}

llvm::Expected<BenchChoice> BenchChoices::of(size_t index) const {
  if (request.config)
    return namedChoice(cases[index], *request.config, session.model(),
                       *session.artifacts);
  const TuningOutcome &outcome = outcomes[index];
  if (outcome.error.code != ErrorCode::Success)
    return errorOf(outcome.error);
  const TuningChoice &choice = outcome.result.choice;
  if (choice.origin == ChoiceOrigin::Empty)
    return makeError(ErrorCode::InvalidArgument, "there is nothing to compute");
  return BenchChoice{choice.plan, choice.artifacts, nameOf(choice.origin).str(),
                     choice.validated};
}

} // namespace kiln::cli
