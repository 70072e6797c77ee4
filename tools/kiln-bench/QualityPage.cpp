//===- QualityPage.cpp ----------------------------------------------------===//
#include "kiln-bench/QualityPage.h"

#include "Support/Format.h"
#include "kiln-bench/QualityPlots.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <set>

namespace kiln::cli {

namespace {

/// The spaces of one family, by split.
struct FamilySpaces {
  SpaceRefs fit, test;

  std::vector<std::pair<std::string, const SpaceRefs *>> splits() const {
    std::vector<std::pair<std::string, const SpaceRefs *>> some;
    for (auto [name, spaces] :
         {std::pair("fit", &fit), std::pair("test", &test)})
      if (!spaces->empty())
        some.push_back({name, spaces});
    return some;
  }
};

/// By name.
using Families = std::map<std::string, FamilySpaces>;

} // namespace

static Families familiesOf(llvm::ArrayRef<ReplayedSpace> spaces) {
  Families families;
  for (const ReplayedSpace &space : spaces) {
    FamilySpaces &family = families[space.family];
    (space.isTest ? family.test : family.fit).push_back(&space);
  }
  return families;
}

static std::string inPerCent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

//===----------------------------------------------------------------------===//
// Figures
//===----------------------------------------------------------------------===//

static constexpr HtmlColumn kFigureColumns[] = {
    {"spaces of"},
    {"split"},
    {"problems", HtmlCell::Figure},
    {"configs", HtmlCell::Figure},
    {"top1 %", HtmlCell::Figure},
    {"tenth", HtmlCell::Figure},
    {"least", HtmlCell::Figure},
    {"top5 %", HtmlCell::Figure},
    {"its least", HtmlCell::Figure},
    {"choice off %", HtmlCell::Figure},
    {"all off %", HtmlCell::Figure},
};

static void addFigures(HtmlTable &table, llvm::StringRef name,
                       llvm::StringRef split, const SpaceRefs &spaces) {
  const QualityFigures figures = QualityFigures::of(spaces);
  table.addRow(
      {name.str(), split.str(), fmt::format("{}", figures.problems),
       fmt::format("{}", figures.configs), inPerCent(figures.top1.geomean),
       inPerCent(figures.top1.tenth), inPerCent(figures.top1.least),
       inPerCent(figures.top5.geomean), inPerCent(figures.top5.least),
       inPerCent(ChoiceErrors::of(spaces).size), inPerCent(figures.timeError)});
}

/// The rows of the regimes of families that have several.
static Html bandTable(llvm::ArrayRef<ReplayedSpace> spaces) {
  std::map<std::pair<std::string, std::string>, SpaceRefs> bands;
  for (const ReplayedSpace &space : spaces)
    if (space.regime != space.family)
      bands[{space.regime, space.isTest ? "test" : "fit"}].push_back(&space);
  HtmlTable table("Products by band of m", kFigureColumns);
  for (const auto &[key, members] : bands)
    addFigures(table, key.first, key.second, members);
  return table.empty() ? Html{}
                       : htmlFoldout("Products by band of m", table.html());
}

/// A figure of errors for each split, side by side.
static Html errorsGrid(const Families &families) {
  std::map<std::string, std::vector<std::pair<std::string, const SpaceRefs *>>>
      bySplit;
  std::vector<const SpaceRefs *> all;
  for (const auto &[name, family] : families)
    for (const auto &[split, spaces] : family.splits()) {
      bySplit[split].push_back({name, spaces});
      all.push_back(spaces);
    }
  const PlotAxis axis = errorAxis(all);
  std::vector<Html> figures;
  for (const auto &[split, groups] : bySplit)
    figures.push_back(errorFigure(split, groups, axis));
  Html grid = htmlGrid(figures);
  grid += htmlNote(
      "A box is the middle half of the errors, its line the median; whiskers "
      "end at the tenth and at nine tenths. Below 0 the estimate is too fast.");
  return grid;
}

static Html figuresSection(const QualityReport &report,
                           const Families &families) {
  Html body = htmlParagraph(
      "Each recorded space is ordered by today's estimate. top1 is the best "
      "measured time over that of the first choice, top5 over the fastest of "
      "the first five: geometric means over problems, a tenth of which are "
      "below \"tenth\". \"choice off\" is the median size of the error of the "
      "first choice's predicted time, \"all off\" that of all configs' times. "
      "A third of all problems is for tests, selected by the text of the "
      "problem alone: estimates are fitted to the others.");
  HtmlTable table("By family and split", kFigureColumns);
  std::map<std::string, SpaceRefs> all;
  for (const auto &[name, family] : families)
    for (const auto &[split, spaces] : family.splits()) {
      addFigures(table, name, split, *spaces);
      llvm::append_range(all[split], *spaces);
    }
  for (const auto &[split, spaces] : all)
    addFigures(table, "all", split, spaces);
  body += table.html();
  body += bandTable(report.spaces);
  body += errorsGrid(families);
  return body;
}

//===----------------------------------------------------------------------===//
// A family
//===----------------------------------------------------------------------===//

/// The records of \p spaces, with GPU and commit.
static std::string sourcesOf(const QualityReport &report,
                             const FamilySpaces &family) {
  std::set<size_t> used;
  for (const auto &[split, spaces] : family.splits())
    for (const ReplayedSpace *space : *spaces)
      used.insert(space->record);
  std::vector<std::string> texts;
  for (size_t place : used)
    if (place < report.records.size()) {
      const QualityRecord &record = report.records[place];
      // Several commits, or none, are in the description of a record.
      texts.push_back(fmt::format("{} ({}, {})", record.name, record.gpu,
                                  record.commit.empty()
                                      ? "commit: see Records"
                                      : "commit " + record.commit));
    }
  return "Measured times are of " + llvm::join(texts, ", ") + ".";
}

/// The templates of \p family's configs, by their number of configs.
static std::vector<std::string> templatesOf(const FamilySpaces &family) {
  std::map<std::string, size_t> counts;
  for (const auto &[split, spaces] : family.splits())
    for (const ReplayedSpace *space : *spaces)
      for (const ReplayedConfig &one : space->timed)
        ++counts[one.tmpl];
  std::vector<std::string> templates;
  for (const auto &[name, count] : counts)
    templates.push_back(name);
  llvm::stable_sort(templates, [&](const auto &a, const auto &b) {
    return counts.at(a) > counts.at(b);
  });
  return templates;
}

static Html familySection(const QualityReport &report,
                          const FamilySpaces &family) {
  const std::vector<std::string> templates = templatesOf(family);
  std::vector<Html> plots;
  for (const auto &[split, spaces] : family.splits())
    plots.push_back(scatterFigure(split, *spaces, templates));
  size_t parts = 0;
  for (const auto &[split, spaces] : family.splits()) {
    Html plot = regretFigure(split, *spaces);
    parts += llvm::count_if(*spaces, [](auto *one) { return !one->isWhole(); });
    if (!plot.markup.empty())
      plots.push_back(std::move(plot));
  }
  Html body = htmlGrid(plots);
  if (parts > 0)
    body += htmlNote(fmt::format(
        "Spaces with fewer than {} measured configs have no regrets: {}.",
        kWholeSpace, parts));
  body += htmlNote(sourcesOf(report, family));
  return body;
}

//===----------------------------------------------------------------------===//
// Blame
//===----------------------------------------------------------------------===//

/// Spaces with a blame, the largest regret first.
static SpaceRefs worstOf(llvm::ArrayRef<ReplayedSpace> spaces) {
  SpaceRefs worst;
  for (const ReplayedSpace &space : spaces)
    if (space.blame)
      worst.push_back(&space);
  llvm::stable_sort(worst, [](const auto *a, const auto *b) {
    return a->blame->regret > b->blame->regret;
  });
  return worst;
}

static Html worstTable(const QualityReport &report,
                       llvm::ArrayRef<const ReplayedSpace *> worst) {
  static constexpr HtmlColumn kColumns[] = {
      {"problem", HtmlCell::Code},
      {"split"},
      {"regret %", HtmlCell::Figure},
      {"blamed on"},
      {"its us in the first choice", HtmlCell::Figure},
      {"in the best", HtmlCell::Figure},
      {"first choice", HtmlCell::Code},
      {"limited by"},
      {"predicted us", HtmlCell::Figure},
      {"measured us", HtmlCell::Figure},
      {"best", HtmlCell::Code},
      {"limited by"},
      {"predicted us", HtmlCell::Figure},
      {"measured us", HtmlCell::Figure},
      {"record", HtmlCell::Code},
  };
  HtmlTable table("Largest regret first; times in us", kColumns);
  for (const ReplayedSpace *space : worst) {
    const Blame &blame = *space->blame;
    auto termOf = [&](const BlamedConfig &config) {
      return blame.kind == BlameKind::Term ? formatUs(config.addend(blame.term))
                                           : "";
    };
    table.addRow({space->name, space->isTest ? "test" : "fit",
                  inPerCent(blame.regret), blame.cause(), termOf(blame.chosen),
                  termOf(blame.best), blame.chosen.config, blame.chosen.bound,
                  formatUs(blame.chosen.predictedNs),
                  formatUs(blame.chosen.measuredNs), blame.best.config,
                  blame.best.bound, formatUs(blame.best.predictedNs),
                  formatUs(blame.best.measuredNs),
                  space->record < report.records.size()
                      ? report.records[space->record].name
                      : ""});
  }
  return table.html();
}

/// The regrets of \p spaces by family, template pair and cause.
static Html sumsGrid(llvm::ArrayRef<ReplayedSpace> spaces) {
  constexpr size_t kShown = 12;
  auto family = [](const ReplayedSpace &space) { return space.family; };
  auto pair = [](const ReplayedSpace &space) {
    return fmt::format("{}: {}", space.family, space.blame->templatePair());
  };
  auto cause = [](const ReplayedSpace &space) {
    return fmt::format("{}: {}", space.family, space.blame->cause());
  };
  return htmlGrid(
      {blameSumFigure("By family", sumBlames(spaces, family), kShown),
       blameSumFigure("By templates: chosen > best", sumBlames(spaces, pair),
                      kShown),
       blameSumFigure("By blamed term", sumBlames(spaces, cause), kShown)});
}

static Html blameSection(const QualityReport &report) {
  constexpr size_t kListed = 40, kDrawn = 12;
  const SpaceRefs worst = worstOf(report.spaces);
  Html body = htmlParagraph(
      "A regret is the measured time of the first choice over the best, minus "
      "1. Both configs' predicted times are sums of terms. Blamed is the term "
      "in which the best config is charged most in excess of the first choice; "
      "where no term differs by a hundredth of the predicted time, the bounds, "
      "or a tie. That is a lead and no proof: a measured time has no terms.");
  body += htmlHeading("Sums of regrets");
  body += htmlNote(fmt::format("Over the {} problems whose first choice is not "
                               "the best config: the sum, and in how many "
                               "problems.",
                               worst.size()));
  body += sumsGrid(report.spaces);
  body += htmlHeading("The largest regrets");
  body += worstTable(report, llvm::ArrayRef(worst).take_front(kListed));
  std::vector<Html> figures;
  for (const ReplayedSpace *space : llvm::ArrayRef(worst).take_front(kDrawn))
    figures.push_back(blameFigure(
        fmt::format("{} ({}): regret {} %, blamed on {}", space->name,
                    space->isTest ? "test" : "fit",
                    inPerCent(space->blame->regret), space->blame->cause()),
        *space->blame));
  body += htmlGrid(figures);
  return body;
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

static Html recordsSection(const QualityReport &report,
                           const Families &families) {
  static constexpr HtmlColumn kColumns[] = {
      {"record", HtmlCell::Code},
      {"GPU"},
      {"driver"},
      {"commit"},
      {"mode"},
      {"spaces", HtmlCell::Figure},
      {"configs", HtmlCell::Figure},
      {"what", HtmlCell::Prose},
  };
  HtmlTable table("Recorded sweeps", kColumns);
  for (const QualityRecord &record : report.records)
    table.addRow({record.name, record.gpu, record.driver,
                  record.commit.empty() ? "see what" : record.commit,
                  record.mode, fmt::format("{}", record.spaces),
                  fmt::format("{}", record.configs), record.what});
  Html body = table.html();
  std::vector<std::string> missing;
  for (const std::string &family : report.families)
    if (!families.count(family))
      missing.push_back(family);
  if (!missing.empty())
    body += htmlNote("Families without a recorded sweep: " +
                     llvm::join(missing, ", ") + ".");
  if (!report.left.empty()) {
    body += htmlHeading("Spaces that could not be replayed");
    body += htmlList(report.left);
  }
  return body;
}

std::string qualityPage(const QualityReport &report) {
  const Families families = familiesOf(report.spaces);
  size_t configs = 0;
  for (const ReplayedSpace &space : report.spaces)
    configs += space.configs;
  HtmlPage page(
      "Model quality",
      fmt::format("How well the estimator of Kiln orders configs: {} problems "
                  "of {} families with {} measured configs, from {} records of "
                  "sweeps. Times were measured on {}; they are compared with "
                  "{}.",
                  report.spaces.size(), families.size(), configs,
                  report.records.size(), report.joined(&QualityRecord::gpu),
                  report.commit.empty()
                      ? "the estimates of this build"
                      : "the estimates of commit " + report.commit));
  page.addSection("Figures", figuresSection(report, families));
  for (const auto &[name, family] : families)
    page.addSection(name, familySection(report, family));
  page.addSection("Blame", blameSection(report));
  page.addSection("Records", recordsSection(report, families));
  return page.text();
}

} // namespace kiln::cli
