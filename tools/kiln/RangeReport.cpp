//===- RangeReport.cpp - the results of preparing ranges ------------------===//
#include "kiln/RangeReport.h"

#include "Choice/PortfolioReport.h"
#include "Support/Json.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>

#include <deque>

namespace kiln::cli {

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

std::vector<RangeOutcome> prepareRanges(const PortfolioContext &context,
                                        llvm::ArrayRef<RangeCase> cases,
                                        PortfolioOptions options,
                                        std::chrono::milliseconds budget,
                                        llvm::StringRef title) {
  using Clock = PortfolioOptions::Clock;
  const Clock::time_point end =
      budget.count() > 0 ? Clock::now() + budget : Clock::time_point::max();
  ProgressBar bar(title.str());
  size_t done = 0;
  options.progress = [&](const PortfolioProgress &progress) {
    bar.update(done, cases.size(),
               fmt::format("{}: {} of {} kernels, {} of {} points",
                           cases[done].name, progress.kernelsReady,
                           progress.kernels, progress.anchorsDone,
                           progress.anchors));
  };
  // Kernels that are compiled ahead come after those that are measured now.
  SharedKernels kernels;
  PortfolioContext shared = context;
  shared.kernels = &kernels;
  std::deque<std::unique_ptr<PortfolioSession>> sessions;
  int64_t priority = compile_priority::kAhead;
  auto begin = [&](size_t index) {
    if (index >= cases.size())
      return;
    sessions.push_back(std::make_unique<PortfolioSession>(
        shared, cases[index].range, options));
    sessions.back()->begin(priority);
    priority += sessions.back()->priorities();
  };
  std::vector<RangeOutcome> outcomes;
  begin(0);
  for (; done < cases.size(); ++done) {
    bar.update(done, cases.size(), cases[done].name);
    begin(done + 1);
    const Clock::time_point now = Clock::now();
    const Clock::time_point deadline =
        end == Clock::time_point::max()
            ? end
            : now + std::max(end - now, Clock::duration(0)) /
                        static_cast<int64_t>(cases.size() - done);
    RangeOutcome &outcome = outcomes.emplace_back();
    outcome.error = summarize(sessions.front()->finish(deadline));
    outcome.result = sessions.front()->takeResult();
    sessions.pop_front();
  }
  for (RangeOutcome &outcome : outcomes)
    if (outcome.error.code == ErrorCode::Success)
      outcome.missing =
          outcome.result.missingOnDisk(context.artifacts, context.portfolios);
  return outcomes;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

llvm::json::Object RangeReport::toJson() const {
  llvm::json::Array list;
  for (auto [which, outcome] : llvm::zip_equal(cases, outcomes)) {
    const PortfolioResult &result = outcome.result;
    auto number = [](size_t count) { return static_cast<int64_t>(count); };
    llvm::json::Object object{
        {"name", which.name},
        {"problem", which.range.described.text()},
        {"from", nameOf(result.origin)},
        {"stop", nameOf(result.stop)},
        {"compiled", number(result.compiled)},
        {"failed_compiles", number(result.failedCompiles)},
        {"rejected", number(result.rejected)},
        {"points", number(result.anchors)},
        {"trials", number(result.trials.size())},
        {"stored", result.isStored},
        {"missing", jsonText(outcome.missing)},
        {"notes", textsToJson(result.notes)},
        {"cover_ms", rounded(result.coverMs, 4)},
        {"elapsed_ms", rounded(result.elapsedMs, 4)}};
    if (outcome.error.code != ErrorCode::Success)
      object["error"] = jsonText(outcome.error.message);
    else
      object["portfolio"] = portfolioToJson(result.portfolio);
    list.push_back(std::move(object));
  }
  llvm::json::Object object{
      {"device", device.name},
      {"class", deviceClassKey(device)},
      {"ranges", std::move(list)},
      {"unstored_kernels", static_cast<int64_t>(artifacts.notStored)},
      {"elapsed_ms", rounded(elapsedMs, 4)},
      {"interrupted", interrupted}};
  if (peaks)
    object["peak_bytes"] = peaks->toJson();
  return object;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

bool RangeReport::isFailed(const RangeOutcome &outcome) const {
  const PortfolioResult &result = outcome.result;
  if (outcome.error.code != ErrorCode::Success)
    return true;
  const bool isMissing =
      wantsTrials && result.origin == PortfolioOrigin::Estimated;
  const bool isNew = result.stop != StopReason::Recorded;
  return isMissing || (wantsStored && ((isNew && !result.isStored) ||
                                       !outcome.missing.empty()));
}

void RangeReport::printRow(Table &table, size_t index) const {
  const auto &[result, error, missing] = outcomes[index];
  if (error.code != ErrorCode::Success) {
    table.addRow({cases[index].name, cases[index].range.text(), "", "", "", "",
                  "", "", "failed"});
    return;
  }
  const Portfolio &portfolio = result.portfolio;
  table.addRow({cases[index].name, portfolio.range().text(),
                fmt::format("{}", portfolio.kernels()),
                fmt::format("{}", portfolio.members().size()),
                fmt::format("{}", portfolio.measuredMembers()),
                fmt::format("{}", result.anchors),
                fmt::format("{:.1f}", 100 * portfolio.regret),
                fmt::format("{:.2f}", result.elapsedMs * 1e-3),
                nameOf(result.origin).str() +
                    (portfolio.isComplete ? "" : ", in part")});
}

void RangeReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{} ({})\n", device.name, device.archName());
  Table table({"layer", "range", ">kernels", ">configs", ">measured", ">points",
               ">regret %", ">s", "from"});
  OutcomeNotes notes;
  for (size_t i = 0; i < cases.size(); ++i) {
    printRow(table, i);
    notes.add(cases[i].name, outcomes[i].error, outcomes[i].result.notes);
  }
  table.print(os);
  notes.print(os);
  if (wantsStored)
    for (auto [which, outcome] : llvm::zip_equal(cases, outcomes))
      if (!outcome.missing.empty())
        os << fmt::format("{}: {}\n", which.name, onOneLine(outcome.missing));
  if (artifacts.notStored > 0)
    os << fmt::format("not stored: {} kernels: {}\n", artifacts.notStored,
                      onOneLine(artifacts.notStoredReason));
  size_t trials = 0;
  for (const RangeOutcome &outcome : outcomes)
    trials += outcome.result.trials.size();
  os << fmt::format("{} ranges, {} kernels compiled, {} trials in {:.2f} s{}\n",
                    cases.size(), artifacts.compiled, trials, elapsedMs * 1e-3,
                    interrupted ? ", interrupted" : "");
  if (peaks)
    peaks->print(os);
}

int RangeReport::exitCode() const {
  if (!outcomes.empty() &&
      outcomes.front().error.code == ErrorCode::CompilerMissing)
    return kExitNoDevice;
  const bool hasFailed =
      llvm::any_of(outcomes, [&](const auto &one) { return isFailed(one); });
  return interrupted || hasFailed || (wantsStored && artifacts.notStored > 0)
             ? kExitSomeFailed
             : kExitDone;
}

} // namespace kiln::cli
