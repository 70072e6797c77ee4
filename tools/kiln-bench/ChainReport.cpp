//===- ChainReport.cpp ----------------------------------------------------===//
#include "kiln-bench/ChainReport.h"

#include "Support/Json.h"
#include "cli/Console.h"
#include "kiln-bench/Figures.h"

namespace kiln::cli {

static size_t indexOf(ChainLink link) { return static_cast<size_t>(link); }

llvm::StringRef nameOf(ChainLink link) {
  switch (link) {
  case ChainLink::Ordered:
    return "ordered";
  case ChainLink::Dependent:
    return "dependent";
  case ChainLink::Constant:
    return "constant";
  }
  return "";
}

double ChainRow::ratio(ChainLink link) const {
  const SampleSummary &ordered = ns[indexOf(ChainLink::Ordered)];
  const SampleSummary &other = ns[indexOf(link)];
  return ordered.count && other.count ? ordered.median / other.median : 0;
}

std::vector<double> ChainReport::ratios(ChainLink link) const {
  std::vector<double> values;
  for (const ChainRow &row : rows)
    if (double ratio = row.ratio(link); ratio > 0)
      values.push_back(ratio);
  return values;
}

void ChainReport::print(llvm::raw_ostream &os) const {
  setting.print(os);
  Table table({"chain", ">steps", ">ordered us", ">+-%", ">dependent us",
               ">ratio", ">constant us", ">ratio", "same results"});
  auto time = [](const SampleSummary &ns) {
    return ns.count ? formatUs(ns.median) : std::string("n/a");
  };
  auto ratio = [](double value) {
    return value > 0 ? fmt::format("{:.3f}", value) : std::string();
  };
  for (const ChainRow &row : rows)
    table.addRow({row.name, std::to_string(row.steps.size()), time(row.ns[0]),
                  fmt::format("{:.1f}", 100 * spreadOf(row.ns[0])),
                  time(row.ns[1]), ratio(row.ratio(ChainLink::Dependent)),
                  time(row.ns[2]), ratio(row.ratio(ChainLink::Constant)),
                  !row.error.empty() ? "failed"
                  : row.agrees       ? "yes"
                                     : "NO"});
  table.print(os);
  for (const ChainRow &row : rows)
    if (!row.error.empty())
      os << fmt::format("failed: {}: {}\n", row.name, onOneLine(row.error));
  for (ChainLink link : {ChainLink::Dependent, ChainLink::Constant}) {
    const RatioFigures figures = RatioFigures::of(ratios(link));
    if (figures.count)
      os << fmt::format("{}: {} chain{}, ordered over {} geomean {:.3f}, least "
                        "{:.3f}, greatest {:.3f}\n",
                        nameOf(link), figures.count,
                        figures.count == 1 ? "" : "s", nameOf(link),
                        figures.geomean, figures.least, figures.greatest);
  }
}

static llvm::json::Object rowToJson(const ChainRow &row) {
  llvm::json::Array steps;
  for (const ChainStep &step : row.steps) {
    llvm::json::Object one = step.which->named.problem.values.toJson();
    one["name"] = step.which->name;
    one["family"] = step.which->named.family->name();
    one["config"] = step.config;
    one["from"] = step.from;
    steps.push_back(std::move(one));
  }
  llvm::json::Object object{{"name", jsonText(row.name)},
                            {"steps", std::move(steps)},
                            {"launches", row.launches},
                            {"same_results", row.agrees}};
  for (ChainLink link : kChainLinks) {
    const SampleSummary &ns = row.ns[indexOf(link)];
    llvm::json::Object one;
    one["us"] =
        ns.count ? rounded(ns.median * 1e-3) : llvm::json::Value(nullptr);
    one["spread"] = rounded(spreadOf(ns), 3);
    if (link != ChainLink::Ordered && row.ratio(link) > 0)
      one["ratio"] = rounded(row.ratio(link));
    object[nameOf(link)] = std::move(one);
  }
  if (!row.error.empty())
    object["error"] = jsonText(row.error);
  return object;
}

llvm::json::Object ChainReport::toJson() const {
  llvm::json::Array chains;
  for (const ChainRow &row : rows)
    chains.push_back(rowToJson(row));
  llvm::json::Object summary;
  for (ChainLink link : {ChainLink::Dependent, ChainLink::Constant})
    summary[nameOf(link)] = RatioFigures::of(ratios(link)).toJson();
  llvm::json::Object object = setting.toJson();
  object["interrupted"] = interrupted;
  object["chains"] = std::move(chains);
  object["summary"] = std::move(summary);
  return object;
}

int ChainReport::exitCode() const {
  for (const ChainRow &row : rows)
    if (!row.error.empty() || !row.agrees)
      return kExitSomeFailed;
  return interrupted ? kExitSomeFailed : kExitDone;
}

} // namespace kiln::cli
