//===- SweepReport.cpp - the worth of the estimator's order ---------------===//
#include "kiln-bench/SweepReport.h"

#include "Support/Error.h"
#include "Support/Json.h"
#include "Trial/Statistics.h"
#include "cli/Console.h"
#include "kiln-bench/Figures.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln::cli {

/// Columns of the table without faults, and the place of the faults: behind
/// "measured".
static constexpr size_t kColumns = 11;
static constexpr int kFaultColumn = 3;

double SweepReport::Group::least() const {
  return withoutFirst > 0 || top1.empty()
             ? 0
             : *std::min_element(top1.begin(), top1.end());
}

/// The line of a group: "rmsnorm: 3 of 4 cases", then the shares of the best
/// that the first choices reach.
std::string SweepReport::Group::text() const {
  std::string text = fmt::format("{}: {} of {} case{}", name, top1.size(),
                                 cases, cases == 1 ? "" : "s");
  if (!top1.empty())
    text += fmt::format("; of the best, the first choice reaches {} % (least "
                        "{:.1f} %), the first {} {} %",
                        percent(geomean(top1)), 100 * least(), kTopFew,
                        percent(geomean(top5)));
  if (withoutFirst > 0)
    text += fmt::format("; in {} the first choice got no time", withoutFirst);
  if (size_t rest = cases - top1.size() - withoutFirst)
    text += fmt::format("; {} not measured to the end", rest);
  return text;
}

std::vector<SweepReport::Group> SweepReport::groups() const {
  std::vector<Group> groups;
  Group all;
  all.name = "all";
  for (const SweepRow &row : rows) {
    if (row.isEmpty())
      continue;
    llvm::StringRef family = row.which->named.family->name();
    auto known =
        std::find_if(groups.begin(), groups.end(),
                     [&](const Group &group) { return group.name == family; });
    if (known == groups.end()) {
      known = groups.emplace(groups.end());
      known->name = family.str();
    }
    for (Group *group : {&*known, &all}) {
      ++group->cases;
      // A space that was cut short was tried in the estimator's order, so its
      // best is only that of the first choices.
      if (row.isDone()) {
        group->top1.push_back(row.result.share(1));
        group->top5.push_back(row.result.share(kTopFew));
      } else if (row.isComplete()) {
        ++group->withoutFirst;
      }
    }
  }
  if (!groups.empty())
    groups.push_back(std::move(all));
  return groups;
}

/// A row of the table without its faults.
static std::vector<std::string> cellsOf(const SweepRow &row) {
  const SweepResult &result = row.result;
  if (!row.error.empty() || result.configs.empty()) {
    std::vector<std::string> cells(kColumns);
    cells.front() = row.which->name;
    cells.back() = !row.error.empty() ? "failed"
                   : row.isEmpty()    ? "empty"
                                      : "incomplete";
    return cells;
  }
  const SweptConfig *best = result.best();
  const SweptConfig &first = result.configs.front();
  return {row.which->name,
          fmt::format("{}", result.configs.size()),
          fmt::format("{}", result.measured()),
          best ? best->result.config : "none",
          best ? formatUs(best->result.medianNs) : "",
          first.result.config,
          first.isMeasured() ? formatUs(first.result.medianNs)
                             : nameOf(first.result.status).str(),
          percent(result.share(1)),
          percent(result.share(kTopFew)),
          fmt::format("{:.2f}", result.correlation()),
          result.isComplete ? "" : "incomplete"};
}

void SweepReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{}; {}, driver {}, {}\n", what, gpu, driver, mode);
  const bool hasFaults = llvm::any_of(
      rows, [](const SweepRow &row) { return row.result.faulty() > 0; });
  std::vector<llvm::StringRef> headers = {
      "problem",  ">configs",     ">measured", "best",
      ">best us", "first choice", ">first us", ">top1 %",
      ">top5 %",  ">rank corr",   ""};
  if (hasFaults)
    headers.insert(headers.begin() + kFaultColumn, ">faulty");
  Table table(headers);
  std::vector<std::string> errors;
  for (const SweepRow &row : rows) {
    std::vector<std::string> cells = cellsOf(row);
    if (hasFaults)
      cells.insert(cells.begin() + kFaultColumn,
                   row.result.configs.empty()
                       ? ""
                       : fmt::format("{}", row.result.faulty()));
    table.addRow(std::move(cells));
    if (!row.error.empty())
      errors.push_back(
          fmt::format("failed: {}: {}", row.which->name, onOneLine(row.error)));
  }
  table.print(os);
  for (const std::string &error : errors)
    os << error << '\n';
  for (const Group &group : groups())
    os << group.text() << '\n';
  os << fmt::format("{} problems in {:.1f} s{}\n", rows.size(),
                    elapsedMs * 1e-3,
                    isInterrupted() ? ", ended before all was measured" : "");
}

static llvm::json::Object configToJson(const SweptConfig &config) {
  const TrialResult &trial = config.result;
  llvm::json::Object object{{"config", trial.config},
                            {"rank", config.rank + 1},
                            {"predicted_ns", rounded(config.predictedNs)},
                            {"bound", config.bound},
                            {"measured_ns", config.isMeasured()
                                                ? rounded(trial.medianNs)
                                                : llvm::json::Value(nullptr)},
                            {"samples", trial.samples},
                            {"status", nameOf(trial.status)},
                            {"validated", trial.validated},
                            {"playoff", config.inPlayoff}};
  if (!trial.message.empty())
    object["message"] = jsonText(trial.message);
  return object;
}

static llvm::json::Value shareToJson(double share) {
  return share > 0 ? rounded(share, 4) : llvm::json::Value(nullptr);
}

static llvm::json::Object rowToJson(const SweepRow &row) {
  llvm::json::Object object{{"name", row.which->name},
                            {"family", row.which->named.family->name()},
                            {"problem", row.which->text()}};
  if (!row.error.empty()) {
    object["error"] = jsonText(row.error);
    return object;
  }
  const SweepResult &result = row.result;
  llvm::json::Array configs;
  for (const SweptConfig &config : result.configs)
    configs.push_back(configToJson(config));
  const SweptConfig *best = result.best();
  object["complete"] = result.isComplete;
  object["space"] = static_cast<int64_t>(result.spaceSize);
  object["measured"] = static_cast<int64_t>(result.measured());
  object["faulty"] = static_cast<int64_t>(result.faulty());
  object["failed_compiles"] = static_cast<int64_t>(result.failedCompiles);
  object["best"] = best ? llvm::json::Value(best->result.config)
                        : llvm::json::Value(nullptr);
  object["best_ns"] =
      best ? rounded(best->result.medianNs) : llvm::json::Value(nullptr);
  object["best_rank"] =
      best ? llvm::json::Value(best->rank + 1) : llvm::json::Value(nullptr);
  object["top1"] = shareToJson(result.share(1));
  object["top5"] = shareToJson(result.share(kTopFew));
  object["rank_correlation"] = rounded(result.correlation(), 4);
  object["configs"] = std::move(configs);
  return object;
}

llvm::json::Object SweepReport::toJson() const {
  llvm::json::Array cases;
  for (const SweepRow &row : rows)
    cases.push_back(rowToJson(row));
  llvm::json::Object summary;
  for (const Group &group : groups())
    summary[group.name] = llvm::json::Object{
        {"cases", static_cast<int64_t>(group.top1.size())},
        {"of", static_cast<int64_t>(group.cases)},
        {"without_first", static_cast<int64_t>(group.withoutFirst)},
        {"top1", shareToJson(geomean(group.top1))},
        {"top1_least", group.top1.empty() && group.withoutFirst == 0
                           ? llvm::json::Value(nullptr)
                           : rounded(group.least(), 4)},
        {"top5", shareToJson(geomean(group.top5))}};
  return llvm::json::Object{{"what", what},
                            {"commit", commit},
                            {"gpu", gpu},
                            {"driver", driver},
                            {"toolchain", toolchain},
                            {"mode", mode},
                            {"interrupted", isInterrupted()},
                            {"elapsed_ms", rounded(elapsedMs, 4)},
                            {"cases", std::move(cases)},
                            {"summary", std::move(summary)}};
}

int SweepReport::exitCode() const {
  for (const SweepRow &row : rows)
    if (!row.error.empty() || (!row.isEmpty() && !row.isDone()) ||
        row.result.faulty() > 0)
      return kExitSomeFailed;
  return isInterrupted() ? kExitSomeFailed : kExitDone;
}

bool SweepReport::isInterrupted() const {
  return llvm::any_of(
      rows, [](const SweepRow &row) { return !row.result.isComplete; });
}

} // namespace kiln::cli
