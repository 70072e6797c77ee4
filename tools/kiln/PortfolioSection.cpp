//===- PortfolioSection.cpp - the portfolio of a problem, explained -------===//
#include "kiln/PortfolioSection.h"

#include "kiln/RangeReport.h"
#include "kiln/Ranges.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

llvm::Expected<std::optional<Portfolio>>
findPortfolio(const ParsedOptions &options, const Environment &environment,
              const KernelFamily &family, const Problem &problem,
              const DeviceModel &device, const Allowance &allowance) {
  std::optional<ProblemRange> range = rangeAround(family, problem);
  if (!range)
    return std::nullopt;
  std::vector<std::string> notes;
  auto storeOptions = chooseCache(options, environment, notes);
  if (!storeOptions)
    return storeOptions.takeError();
  storeOptions->createsWriteDir = false;
  auto cache = cache::Store::open(std::move(*storeOptions));
  const PortfolioStore portfolios(*cache);
  const RecordStore records(*cache);
  auto found =
      kiln::findPortfolio({portfolios, records, device, deviceClassKey(device),
                           allowance.workspaceBytes},
                          *range);
  if (!found || found->portfolio.empty())
    return std::nullopt;
  return std::move(found->portfolio);
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
                          ? "what others of its template take of theirs"
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

} // namespace kiln::cli
