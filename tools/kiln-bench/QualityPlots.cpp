//===- QualityPlots.cpp ---------------------------------------------------===//
#include "kiln-bench/QualityPlots.h"

#include "Support/Format.h"
#include "Support/Report.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln::cli {

static constexpr double kNsPerUs = 1000, kPerCent = 100;

//===----------------------------------------------------------------------===//
// Predicted against measured
//===----------------------------------------------------------------------===//

/// The band of 10 % around equality and its middle, below the dots.
static std::vector<PlotSeries> equality(double least, double greatest) {
  constexpr double kBand = 0.1;
  return {{"within 10 %",
           PlotMark::Area,
           kPlotGrey,
           {{least, least * (1 - kBand)},
            {greatest, greatest * (1 - kBand)},
            {greatest, greatest * (1 + kBand)},
            {least, least * (1 + kBand)}}},
          {"equal",
           PlotMark::Line,
           kPlotGrey,
           {{least, least}, {greatest, greatest}}}};
}

Html scatterFigure(llvm::StringRef title, const SpaceRefs &spaces,
                   llvm::ArrayRef<std::string> templates) {
  std::vector<PlotSeries> dots;
  for (auto [i, name] : llvm::enumerate(templates))
    dots.push_back({name, PlotMark::Points, static_cast<unsigned>(i)});
  std::vector<double> all;
  for (const ReplayedSpace *space : spaces)
    for (const ReplayedConfig &one : space->timed) {
      const PlotPoint point{one.measuredNs / kNsPerUs,
                            one.predictedNs / kNsPerUs};
      const auto series = llvm::find(templates, one.tmpl) - templates.begin();
      dots[static_cast<size_t>(series)].points.push_back(point);
      all.insert(all.end(), {point.x, point.y});
    }
  // Both axes have the same ends, so that equality is the diagonal.
  const PlotScale scale({.isLog = true}, all, 0, 1);
  const PlotAxis axis{
      .isLog = true, .least = scale.least(), .greatest = scale.greatest()};
  Plot plot;
  plot.title = fmt::format("{}: {} configs of {} problems", title,
                           all.size() / 2, spaces.size());
  plot.description = "Predicted against measured times of configs, both "
                     "logarithmic, in microseconds, by template";
  plot.x = plot.y = axis;
  plot.x.title = "measured, us";
  plot.y.title = "predicted, us";
  plot.series = equality(scale.least(), scale.greatest());
  for (PlotSeries &series : dots)
    if (!series.points.empty())
      plot.series.push_back(std::move(series));
  return plotFigure(plot);
}

//===----------------------------------------------------------------------===//
// Regret
//===----------------------------------------------------------------------===//

static PlotSeries curveOf(std::string label, PlotMark mark, unsigned colour,
                          llvm::ArrayRef<double> curve) {
  constexpr double kLeast = 1e-4; // the lower end of the axis
  PlotSeries series{std::move(label), mark, colour};
  for (auto [i, regret] : llvm::enumerate(curve))
    series.points.push_back({static_cast<double>(i + 1),
                             kPerCent * std::max<double>(regret, kLeast)});
  return series;
}

Html regretFigure(llvm::StringRef title, const SpaceRefs &spaces) {
  std::vector<std::vector<double>> main, classic, beside, random;
  for (const ReplayedSpace *space : spaces) {
    if (!space->isWhole())
      continue;
    main.push_back(space->regret);
    random.push_back(space->randomRegret);
    if (space->classicRegret.empty())
      continue;
    classic.push_back(space->classicRegret);
    beside.push_back(space->regret); // over the same problems
  }
  if (main.empty())
    return {};
  Plot plot;
  plot.title = fmt::format("{}: regret of {} problems", title, main.size());
  plot.description = "Mean regret in per cent, logarithmic, of the best of the "
                     "first k choices, against k from 1 to 32";
  plot.x = {.title = "choices, k",
            .isLog = true,
            .least = 1,
            .greatest = kRegretChoices,
            .ticks = {1, 2, 4, 8, 16, 32}};
  plot.y = {.title = "mean regret, %", .isLog = true, .least = 0.01};
  plot.series.push_back(curveOf("random order, expected", PlotMark::Dotted,
                                kPlotGrey, meanCurve(random)));
  if (!classic.empty())
    plot.series.push_back(
        curveOf(fmt::format("classic model ({} problems)", classic.size()),
                PlotMark::Dashed, 1, meanCurve(classic)));
  if (!classic.empty() && classic.size() < main.size())
    plot.series.push_back(
        curveOf(fmt::format("estimate (those {})", classic.size()),
                PlotMark::Dashed, 0, meanCurve(beside)));
  plot.series.push_back(
      curveOf("estimate", PlotMark::Line, 0, meanCurve(main)));
  return plotFigure(plot);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

Html errorFigure(
    llvm::StringRef split,
    llvm::ArrayRef<std::pair<std::string, const SpaceRefs *>> groups,
    const PlotAxis &axis) {
  RangePlot plot;
  plot.title =
      fmt::format("{}: error of first choices' predicted times", split);
  plot.description = "For each family the tenth, the quarter, the median, "
                     "three quarters and nine tenths of the errors";
  plot.axis = axis;
  plot.axis.title = "predicted over measured, minus 1, %";
  for (const auto &[label, spaces] : groups) {
    const ChoiceErrors errors = ChoiceErrors::of(*spaces);
    plot.rows.push_back(
        {fmt::format("{} ({})", label, spaces->size()), kPerCent * errors.tenth,
         kPerCent * errors.quarter, kPerCent * errors.median,
         kPerCent * errors.threeQuarters, kPerCent * errors.nineTenths});
  }
  return rangeFigure(plot);
}

PlotAxis errorAxis(llvm::ArrayRef<const SpaceRefs *> groups) {
  std::vector<double> ends;
  for (const SpaceRefs *spaces : groups) {
    const ChoiceErrors errors = ChoiceErrors::of(*spaces);
    ends.insert(ends.end(),
                {kPerCent * errors.tenth, kPerCent * errors.nineTenths});
  }
  const PlotScale scale({}, ends, 0, 1);
  return {.least = scale.least(), .greatest = scale.greatest()};
}

//===----------------------------------------------------------------------===//
// Blame
//===----------------------------------------------------------------------===//

/// The names of the largest addends of both configs, as estimates order them.
static std::vector<std::string> largestAddends(const Blame &blame,
                                               size_t count) {
  std::vector<std::string> names;
  for (const BlamedConfig *side : {&blame.chosen, &blame.best})
    for (const CostAddend &one : side->addends)
      if (one.ns > 0 && !llvm::is_contained(names, one.name))
        names.push_back(one.name);
  auto sizeOf = [&](const std::string &name) {
    return std::max(blame.chosen.addend(name), blame.best.addend(name));
  };
  std::vector<std::string> sorted = names;
  llvm::stable_sort(sorted, [&](const auto &a, const auto &b) {
    return sizeOf(a) > sizeOf(b);
  });
  sorted.resize(std::min(sorted.size(), count));
  llvm::erase_if(names, [&](const std::string &name) {
    return !llvm::is_contained(sorted, name);
  });
  return names;
}

Html blameFigure(llvm::StringRef title, const Blame &blame) {
  constexpr size_t kNamed = kPlotColours - 2; // beside measured and the rest
  BarPlot plot;
  plot.title = title.str();
  const std::vector<std::string> names = largestAddends(blame, kNamed);
  plot.parts = {"measured"};
  llvm::append_range(plot.parts, names);
  bool hasRest = false;
  for (const auto &[what, side] : {std::pair("first choice", &blame.chosen),
                                   std::pair("best", &blame.best)}) {
    BarRow row{fmt::format("{}: {}", what, side->config),
               fmt::format("predicted {} us", formatUs(side->predictedNs)),
               {0}};
    double named = 0;
    for (const std::string &name : names) {
      row.parts.push_back(std::max(side->addend(name), 0.0));
      named += row.parts.back();
    }
    constexpr double kRestShare = 0.005; // not to be seen
    row.parts.push_back(std::max(side->predictedNs - named, 0.0));
    hasRest |= row.parts.back() > kRestShare * side->predictedNs;
    plot.rows.push_back(std::move(row));
    plot.rows.push_back(
        {fmt::format("limited by {}", side->bound),
         fmt::format("measured {} us", formatUs(side->measuredNs)),
         {side->measuredNs}});
  }
  if (hasRest)
    plot.parts.push_back("other terms");
  return barFigure(plot);
}

Html blameSumFigure(llvm::StringRef title, llvm::ArrayRef<BlameSum> sums,
                    size_t shown) {
  BarPlot plot;
  plot.title = title.str();
  for (const BlameSum &sum : sums.take_front(shown))
    plot.rows.push_back(
        {sum.key,
         fmt::format("{:.0f} % in {}", kPerCent * sum.regret, sum.count),
         {sum.regret}});
  return barFigure(plot);
}

} // namespace kiln::cli
