//===- CapiExplain.cpp - explanations, candidates, keys -------------------===//
#include "Runtime/Capi.h"

#include "Call/StructAccess.h"
#include "Choice/CandidateFacts.h"
#include "Choice/ExplanationReport.h"
#include "Choice/PortfolioReport.h"
#include "Observe/CallScope.h"
#include "Runtime/Inspection.h"
#include "Runtime/ProblemKeys.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

using namespace kiln;

namespace {
/// kiln_explain_options, read and checked.
struct ExplainOptions {
  bool asJson = false;
  std::optional<std::string> config;
};
} // namespace

static llvm::Expected<ExplainOptions>
readOptions(const kiln_explain_options *given) {
  ExplainOptions options;
  if (!given)
    return options;
  if (auto error = checkInput(*given, "kiln_explain_options"))
    return error;
  if (given->flags || given->reserved0)
    return makeError(ErrorCode::Unsupported,
                     "kiln_explain_options: flags {:#x} are unknown",
                     given->flags);
  if (given->format != KILN_TEXT_PLAIN && given->format != KILN_TEXT_JSON)
    return makeError(ErrorCode::Unsupported, "text format {}", given->format);
  options.asJson = given->format == KILN_TEXT_JSON;
  if (given->config)
    options.config = given->config;
  return options;
}

/// The options of \p call, which explains no config.
static llvm::Expected<ExplainOptions>
readOptions(const kiln_explain_options *given, const char *call) {
  auto options = readOptions(given);
  if (options && options->config)
    return makeError(ErrorCode::InvalidArgument, "{} takes no config, {}", call,
                     *options->config);
  return options;
}

static llvm::Expected<std::string>
explanationText(Engine &engine, const kiln_problem *problem,
                const ExplainOptions &options, kiln_stream stream) {
  auto spec = engine.readProblem(problem);
  if (!spec)
    return spec.takeError();
  const observe::CallScope watched("kiln_explain", &engine.waits(), spec->text);
  auto subject = inspectedProblem(*spec);
  if (!subject)
    return subject.takeError();
  auto inspection = Inspection::open(engine, stream);
  if (!inspection)
    return inspection.takeError();
  const ChoiceSources sources = (*inspection)->sources();
  auto explained = explain({.family = *spec->family,
                            .problem = subject->problem,
                            .device = sources.device,
                            .allowance = {sources.workspaceLimit},
                            .config = options.config});
  if (!explained)
    return explained.takeError();
  explained->text = subject->text;
  tellCompiled(sources.artifacts, *explained);
  explained->portfolio =
      findPortfolioAt(sources.ofPortfolios(), *spec->family, subject->problem);
  engine.deliverMessages();
  return reportText(ExplanationReport(*explained), options.asJson);
}

static llvm::Expected<kiln_candidate>
infoOf(const Candidate &candidate, const CandidateFact &fact, size_t rank) {
  kiln_candidate told = KILN_INIT(kiln_candidate);
  constexpr double kUsPerNs = 1e-3;
  told.rank = static_cast<uint32_t>(rank);
  auto setIf = [&](bool isSo, kiln_candidate_flag flag) {
    told.flags |= isSo ? static_cast<uint32_t>(flag) : 0;
  };
  setIf(fact.isLoaded, KILN_CANDIDATE_LOADED);
  setIf(fact.isOnDisk, KILN_CANDIDATE_ON_DISK);
  setIf(fact.isWrong, KILN_CANDIDATE_WRONG);
  setIf(candidate.tmpl->isGeneric(), KILN_CANDIDATE_GENERIC);
  told.predicted_us = candidate.estimate.totalNs * kUsPerNs;
  told.measured_us = fact.measuredNs * kUsPerNs;
  if (auto error = copyText(candidate.config.text(), told.config))
    return error;
  return told;
}

/// The whole ranking of \p subject; none of an empty problem.
static llvm::Expected<std::vector<Candidate>>
rankingOf(const KernelFamily &family, const InspectedProblem &subject,
          const ChoiceSources &sources) {
  if (subject.isEmpty)
    return std::vector<Candidate>();
  auto space = exploreSpace(family, subject.problem, sources.device,
                            {.allowance = {sources.workspaceLimit}});
  if (!space)
    return space.takeError();
  return std::move(space->ranked);
}

/// Fills what \p candidates has room for; returns the ranking's length.
static llvm::Expected<size_t>
fillCandidates(Engine &engine, const kiln_problem *problem, kiln_stream stream,
               kiln_candidate *candidates, size_t capacity) {
  auto spec = engine.readProblem(problem);
  if (!spec)
    return spec.takeError();
  const observe::CallScope watched("kiln_candidates", &engine.waits(),
                                   spec->text);
  auto subject = inspectedProblem(*spec);
  if (!subject)
    return subject.takeError();
  auto inspection = Inspection::open(engine, stream);
  if (!inspection)
    return inspection.takeError();
  const ChoiceSources sources = (*inspection)->sources();
  auto ranked = rankingOf(*spec->family, *subject, sources);
  if (!ranked)
    return ranked.takeError();
  const size_t filled = std::min(capacity, ranked->size());
  const CandidateFacts facts(sources, *spec->family, subject->problem);
  for (size_t i = 0; i < filled; ++i) {
    const Candidate &candidate = (*ranked)[i];
    auto told = infoOf(candidate, facts.of(candidate), i + 1);
    if (!told)
      return told.takeError();
    fillElement(candidates, i, *told);
  }
  engine.deliverMessages();
  return ranked->size();
}

extern "C" {

kiln_status kiln_explain(kiln_engine *engine, const kiln_problem *problem,
                         kiln_stream stream,
                         const kiln_explain_options *options, char *buffer,
                         size_t capacity, size_t *length) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    auto read = readOptions(options);
    if (!read)
      return read.takeError();
    auto text = explanationText(*engine->engine, problem, *read, stream);
    if (!text)
      return text.takeError();
    return writeText(*text, buffer, capacity, length);
  });
}

kiln_status kiln_candidates(kiln_engine *engine, const kiln_problem *problem,
                            kiln_stream stream,
                            const kiln_explain_options *options,
                            kiln_candidate *candidates, size_t capacity,
                            size_t *count) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    auto read = readOptions(options, "kiln_candidates");
    if (!read)
      return read.takeError();
    if (read->asJson)
      return makeError(ErrorCode::InvalidArgument,
                       "kiln_candidates writes no text and takes no format");
    if (auto error = checkOutputArray(candidates, capacity, "candidates"))
      return error;
    auto total =
        fillCandidates(*engine->engine, problem, stream, candidates, capacity);
    if (!total)
      return total.takeError();
    if (count)
      *count = *total;
    return llvm::Error::success();
  });
}

kiln_status kiln_problem_keys(kiln_engine *engine, const kiln_problem *problem,
                              kiln_stream stream,
                              const kiln_explain_options *options, char *buffer,
                              size_t capacity, size_t *length) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    auto read = readOptions(options, "kiln_problem_keys");
    if (!read)
      return read.takeError();
    auto text = problemKeys(*engine->engine, problem, stream, read->asJson);
    if (!text)
      return text.takeError();
    return writeText(*text, buffer, capacity, length);
  });
}

} // extern "C"
