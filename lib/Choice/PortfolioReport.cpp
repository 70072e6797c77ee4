//===- PortfolioReport.cpp ------------------------------------------------===//
#include "Choice/PortfolioReport.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <utility>

namespace kiln {

/// The range over a problem's own dynamic extents that has this point alone,
/// which stored portfolios are found with; nullopt: its family has none.
static std::optional<ProblemRange> rangeOfValue(const KernelFamily &family,
                                                const Problem &problem) {
  if (family.dynamicExtents().empty())
    return std::nullopt;
  const ExtentPoint point = dynamicExtentsOf(family, problem);
  auto ranges =
      rangesOf(family, problem.values, family.dynamicExtents(), point, point);
  if (ranges && !ranges->empty())
    return std::move(ranges->front());
  if (!ranges)
    llvm::consumeError(ranges.takeError());
  return std::nullopt;
}

std::optional<Portfolio> findPortfolioAt(const PortfolioSources &from,
                                         const KernelFamily &family,
                                         const Problem &problem) {
  std::optional<ProblemRange> range = rangeOfValue(family, problem);
  if (!range)
    return std::nullopt;
  auto found = findPortfolio(from, *range);
  if (!found || found->portfolio.empty())
    return std::nullopt;
  return std::move(found->portfolio);
}

static llvm::json::Value pointToJson(llvm::ArrayRef<int64_t> point) {
  if (point.size() == 1)
    return point.front();
  return llvm::json::Array(point);
}

llvm::json::Object portfolioToJson(const Portfolio &portfolio) {
  llvm::json::Array members;
  for (const PortfolioMember &member : portfolio.members()) {
    llvm::json::Array times;
    for (const MemberTime &time : member.times)
      times.push_back(
          llvm::json::Object{{"at", pointToJson(time.point)},
                             {"measured_us", rounded(time.measuredNs * 1e-3)},
                             {"predicted_us", rounded(time.predictedNs * 1e-3)},
                             {"factor", rounded(time.factor(), 4)}});
    members.push_back(llvm::json::Object{{"config", member.config.text()},
                                         {"first", pointToJson(member.low)},
                                         {"last", pointToJson(member.high)},
                                         {"validated", member.validated},
                                         {"times", std::move(times)}});
  }
  return llvm::json::Object{
      {"range", portfolio.range().text()},
      {"kernels", static_cast<int64_t>(portfolio.kernels())},
      {"measured", static_cast<int64_t>(portfolio.measuredMembers())},
      {"complete", portfolio.isComplete},
      {"estimated_regret", rounded(portfolio.regret, 4)},
      {"members", std::move(members)}};
}

PortfolioSection::PortfolioSection(const Portfolio &portfolio,
                                   const Problem &problem,
                                   const DeviceModel &device)
    : portfolio(portfolio), point(portfolio.range().pointOf(problem.values)),
      ranking(portfolio.rank(problem, point, device)) {}

static std::string textOf(llvm::ArrayRef<int64_t> point) {
  return fmt::format("{}", fmt::join(point, ","));
}

/// "137: 1.04, 512: 0.98"
std::string PortfolioSection::timesOf(const PortfolioMember &member) const {
  std::string text;
  for (const MemberTime &time : member.times)
    text += fmt::format("{}{}: {:.3f}", text.empty() ? "" : ", ",
                        textOf(time.point), time.factor());
  return text;
}

std::string PortfolioSection::verdict() const {
  std::string text = fmt::format(
      "The cache has a portfolio for {}: {} kernels, {} of {} configs "
      "measured. "
      "By the estimate none of its values is further than {:.1f} % behind the "
      "best of the space. ",
      portfolio.range().text(), portfolio.kernels(),
      portfolio.measuredMembers(), portfolio.members().size(),
      100 * portfolio.regret);
  if (ranking.empty())
    return text + "None of them may run here.";
  const PortfolioChoice &first = ranking.front();
  const PortfolioMember &member = portfolio.members()[first.member];
  text += fmt::format("Here {} is chosen: predicted {} us, times {:.3f}, which "
                      "is {}, gives {} us.",
                      member.config.text(), formatUs(first.predictedNs),
                      first.expectedNs / first.predictedNs,
                      member.times.empty()
                          ? "the factor of others of its template"
                          : "measured over predicted at the points around",
                      formatUs(first.expectedNs));
  if (ranking.size() > 1)
    text += fmt::format(" The next one, {}, is expected to take {:.1f} % more.",
                        portfolio.members()[ranking[1].member].config.text(),
                        100 * (ranking[1].expectedNs / first.expectedNs - 1));
  return text;
}

void PortfolioSection::print(llvm::raw_ostream &os) const {
  os << wrapText(verdict()) << '\n';
  Table table({"config", ">first", ">last", ">predicted us", ">expected us",
               "measured over predicted at"});
  auto add = [&](size_t place, const PortfolioChoice *choice) {
    const PortfolioMember &member = portfolio.members()[place];
    table.addRow({member.config.text(), textOf(member.low), textOf(member.high),
                  choice ? formatUs(choice->predictedNs) : "",
                  choice ? formatUs(choice->expectedNs) : "",
                  timesOf(member) + (member.times.empty() || member.validated
                                         ? ""
                                         : " (not compared)")});
  };
  for (const PortfolioChoice &choice : ranking)
    add(choice.member, &choice);
  for (size_t place = 0; place < portfolio.members().size(); ++place)
    if (llvm::none_of(ranking, [&](const PortfolioChoice &choice) {
          return choice.member == place;
        }))
      add(place, nullptr);
  table.print(os);
}

llvm::json::Object PortfolioSection::toJson() const {
  llvm::json::Object object = portfolioToJson(portfolio);
  llvm::json::Array choices;
  for (const PortfolioChoice &choice : ranking)
    choices.push_back(llvm::json::Object{
        {"config", portfolio.members()[choice.member].config.text()},
        {"predicted_us", rounded(choice.predictedNs * 1e-3)},
        {"expected_us", rounded(choice.expectedNs * 1e-3)}});
  object["choices"] = std::move(choices);
  return object;
}

} // namespace kiln
