//===- ExplainPlots.cpp ---------------------------------------------------===//
#include "kiln/ExplainPlots.h"

#include "Support/Format.h"
#include "Support/Report.h"
#include "cli/Plot.h"
#include "kiln/ExplainFormulas.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace kiln::cli {

namespace {

/// As many as can be told apart in a plot.
constexpr size_t kShown = 40;
// Colours of plots.
constexpr unsigned kOther = 0, kChosen = 1, kRoof = kPlotGrey, kLowerRoof = 2,
                   kTile = 3;

/// One candidate, with the derivation of its time.
struct ShownCandidate {
  int rank = 0; ///< from 0; -1: it is not in the space
  Candidate candidate;
  Derivation steps;

  /// For the pointer that rests on it.
  std::string title() const {
    return fmt::format(
        "{}{}: {} us, bound by {}",
        rank < 0 ? "not in the space: " : fmt::format("{}. ", rank + 1),
        candidate.config.text(), formatUs(candidate.estimate.totalNs),
        candidate.estimate.bound);
  }
};

/// A position in a plot.
using Spot = std::optional<PlotPoint>;

} // namespace

static std::optional<double> valueAt(const Derivation &steps,
                                     llvm::StringRef name) {
  const DerivationStep *step = steps.find(name);
  return step ? std::optional(step->value()) : std::nullopt;
}

/// The first of each kind of \p ranked beside the subject.
static std::vector<ShownCandidate> kindsOf(const Explanation &e,
                                           llvm::ArrayRef<Candidate> ranked) {
  std::vector<ShownCandidate> kinds;
  for (auto [rank, candidate] : llvm::enumerate(ranked)) {
    const auto isTwin = [&](const ShownCandidate &one) {
      return !isAnotherKind(one.candidate, candidate);
    };
    if (kinds.size() == kShown)
      break;
    if (isAnotherKind(candidate, e.subject) && llvm::none_of(kinds, isTwin))
      kinds.push_back({static_cast<int>(rank), candidate,
                       candidate.derive(*e.problem, *e.device)});
  }
  return kinds;
}

/// The candidates that \p spotOf places, as a series with titles.
template <class SpotOf>
static PlotSeries seriesOf(std::string label,
                           llvm::ArrayRef<ShownCandidate> shown,
                           unsigned colour, SpotOf spotOf) {
  PlotSeries series{std::move(label), PlotMark::Points, colour, {}, {}};
  for (const ShownCandidate &one : shown)
    if (const Spot spot = spotOf(one.steps, one.candidate.estimate.totalNs)) {
      series.points.push_back(*spot);
      series.titles.push_back(one.title());
    }
  return series;
}

/// The subject as a series of one point.
template <class SpotOf>
static PlotSeries subjectSeries(const Explanation &e, std::string label,
                                SpotOf spotOf) {
  const ShownCandidate subject{e.rank, e.subject, e.derivation};
  return seriesOf(std::move(label), subject, kChosen, spotOf);
}

/// The ends of a logarithmic axis that shows \p values with some air.
static void widen(PlotAxis &axis, llvm::ArrayRef<double> values, double air) {
  axis.isLog = true;
  double least = std::numeric_limits<double>::infinity(), greatest = 0;
  for (double value : values)
    if (std::isfinite(value) && value > 0) {
      least = std::min(least, value);
      greatest = std::max(greatest, value);
    }
  axis.least = greatest > 0 ? least / air : 1;
  axis.greatest = greatest > 0 ? greatest * air : 1 + air;
}

static void collect(llvm::ArrayRef<PlotSeries> series, std::vector<double> &xs,
                    std::vector<double> &ys) {
  for (const PlotSeries &one : series)
    for (const PlotPoint &point : one.points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kTileIntensity = "intensity of the tile";

/// The table of what the roofline shows, with the steps behind it.
static Html valuesTable(const Derivation &steps,
                        llvm::ArrayRef<llvm::StringRef> names) {
  static constexpr HtmlColumn kColumns[] = {
      {"in the plot"}, {"value", HtmlCell::Figure}, {"step"}};
  HtmlTable table("Its lines and points", kColumns);
  for (llvm::StringRef name : names)
    if (const DerivationStep *step = steps.find(name))
      table.addMarkupRow(
          {{markupText(name)},
           {markupText(quantityText(step->value(), step->unit()))},
           stepLinks(steps.numberOf(step->figure))});
  return table.html();
}

/// A slope of \p rate bytes/ns up to \p roof flop/ns, from \p least flop/B on.
static PlotSeries slopeOf(std::string label, PlotMark mark, unsigned colour,
                          double rate, double roof, double least) {
  return {std::move(label),
          mark,
          colour,
          {{least, least * rate}, {roof / rate, roof}},
          {}};
}

/// The candidates and the subject, above the intensities of their tiles where
/// they have tiles, and the subject above that of the problem.
static std::vector<PlotSeries>
rooflinePoints(const Explanation &e, llvm::ArrayRef<ShownCandidate> kinds) {
  const double intensity =
      valueAt(e.derivation, "intensity of the problem").value_or(0);
  const double flop = e.family->flops(*e.problem);
  const auto ofTile = [&](const Derivation &of, double ns) -> Spot {
    const auto x = valueAt(of, kTileIntensity);
    return x ? Spot({*x, flop / ns}) : std::nullopt;
  };
  const auto ofProblem = [&](const Derivation &, double ns) -> Spot {
    return Spot({intensity, flop / ns});
  };
  std::vector<PlotSeries> points;
  if (e.derivation.find(kTileIntensity)) {
    points.push_back(seriesOf("candidates, at the intensity of their tiles",
                              kinds, kOther, ofTile));
    points.push_back(subjectSeries(e, "this config's tile", ofTile));
    points.back().colour = kTile;
  } else {
    points.push_back(seriesOf("candidates", kinds, kOther, ofProblem));
  }
  points.push_back(
      subjectSeries(e, "this config, at the problem's intensity", ofProblem));
  return points;
}

static Html rooflineFigure(const Explanation &e,
                           llvm::ArrayRef<ShownCandidate> kinds) {
  const double peak = valueAt(e.derivation, "dense peak").value_or(0);
  const double held =
      valueAt(e.derivation, "peak at the clock that holds").value_or(0);
  const double dram = e.device->dramPeakBytesPerNs(), l2 = e.device->l2GBs;
  const std::vector<PlotSeries> points = rooflinePoints(e, kinds);
  std::vector<double> xs{peak / dram, held / l2}, ys{peak, held};
  collect(points, xs, ys);
  Plot plot{"Roofline",
            fmt::format(
                "Rates in flop/ns over intensities in flop/B. The slope "
                "of the DRAM's pins, {:.0f} GB/s, ends at roofs of {} and {}.",
                dram, quantityText(held, "flop/ns"),
                quantityText(peak, "flop/ns")),
            {.title = "flop/B"},
            {.title = "flop/ns"},
            {}};
  constexpr double kAir = 2;
  widen(plot.x, xs, kAir);
  widen(plot.y, ys, kAir);
  const double least = *plot.x.least, most = *plot.x.greatest;
  auto roofOf = [&](const char *label, PlotMark mark, double rate) {
    return PlotSeries{
        label, mark, kLowerRoof, {{rate / dram, rate}, {most, rate}}, {}};
  };
  plot.series = {slopeOf(fmt::format("DRAM's pins, {:.0f} GB/s", dram),
                         PlotMark::Line, kRoof, dram, peak, least),
                 roofOf("dense peak", PlotMark::Line, peak),
                 roofOf("at the clock under load", PlotMark::Dashed, held)};
  if (e.derivation.find(kTileIntensity))
    plot.series.push_back(slopeOf(fmt::format("L2, {} GB/s", l2),
                                  PlotMark::Dotted, kRoof, l2, peak, least));
  llvm::append_range(plot.series, points);
  return plotFigure(plot);
}

static Html rooflineMarkup(const Explanation &e,
                           llvm::ArrayRef<ShownCandidate> kinds) {
  Html markup =
      htmlPair(rooflineFigure(e, kinds),
               valuesTable(e.derivation,
                           {"intensity of the problem", "ridge of the problem",
                            "dense peak", "peak at the clock that holds",
                            "rate", kTileIntensity, "ridge of the tile",
                            "share of the roofline"}));
  markup += htmlNote(
      "The problem's intensity counts each byte once, and DRAM's slope is its "
      "limit. A tile's counts what its loads ask of L2, so it stands before "
      "L2's slope.");
  return markup;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Bytes in flight of an SM, where \p steps tell of Little's law.
static std::optional<double> inFlightOf(const Derivation &steps) {
  if (!steps.find("bytes to have in flight"))
    return std::nullopt;
  return valueAt(steps, "bytes in flight");
}

/// The bandwidth that the need by Little's law is computed for, in GB/s.
static std::optional<double> bandwidthIn(const Figure &figure) {
  const Figure::Node &node = figure.formula();
  if (node.unit == "GB/s" || node.unit == "B/ns")
    return node.value;
  for (const Figure &part : node.parts)
    if (const auto found = bandwidthIn(part))
      return found;
  return std::nullopt;
}

static Html littleFigure(const Explanation &e,
                         llvm::ArrayRef<ShownCandidate> kinds) {
  const double bytes = e.family->compulsoryBytes(*e.problem);
  const DerivationStep &law = *e.derivation.find("bytes to have in flight");
  const double need = law.value();
  const double rate = bandwidthIn(law.figure).value_or(e.device->dramGBs);
  const double roof = valueAt(e.derivation, "DRAM's rate").value_or(rate);
  const double pins = e.device->dramPeakBytesPerNs();
  const auto spotOf = [&](const Derivation &of, double ns) -> Spot {
    const auto x = inFlightOf(of);
    return x && *x > 0 ? Spot({*x, bytes / ns}) : std::nullopt;
  };
  std::vector<PlotSeries> points{seriesOf("candidates", kinds, kOther, spotOf),
                                 subjectSeries(e, "this config", spotOf)};
  std::vector<double> xs{need}, ys{roof, pins};
  collect(points, xs, ys);
  Plot plot{"Bandwidth over bytes in flight",
            fmt::format("GB/s over bytes in flight of an SM. By Little's law "
                        "{:.0f} B reach the DRAM's {} GB/s.",
                        need, roof),
            {.title = "bytes in flight of an SM"},
            {.title = "GB/s of the bytes that must move"},
            {}};
  constexpr double kAir = 1.5;
  widen(plot.x, xs, kAir);
  widen(plot.y, ys, kAir);
  const double least = *plot.x.least;
  const double most = *plot.x.greatest;
  plot.series = {{fmt::format("pins of the DRAM, {:.0f} GB/s", pins),
                  PlotMark::Dotted,
                  kRoof,
                  {{least, pins}, {most, pins}},
                  {}},
                 {fmt::format("DRAM's rate, {:.0f} GB/s", roof),
                  PlotMark::Line,
                  kRoof,
                  {{need * roof / rate, roof}, {most, roof}},
                  {}},
                 {"bytes in flight / latency",
                  PlotMark::Dashed,
                  kRoof,
                  {{least, rate * least / need}, {need * roof / rate, roof}},
                  {}},
                 {fmt::format("need by Little's law, {:.0f} B", need),
                  PlotMark::Dotted,
                  kLowerRoof,
                  {{need, *plot.y.least}, {need, *plot.y.greatest}},
                  {}}};
  llvm::append_range(plot.series, points);
  return plotFigure(plot);
}

/// Bandwidths alone.
static Html bandwidthFigure(const Explanation &e,
                            llvm::ArrayRef<ShownCandidate> kinds) {
  constexpr size_t kRows = 8;
  const double bytes = e.family->compulsoryBytes(*e.problem);
  BarPlot plot{"GB/s of the bytes that must move", {}, {}};
  auto add = [&](std::string label, double rate, unsigned colour) {
    BarRow row{std::move(label), formatFigure(rate), {}};
    row.parts.assign(colour, 0);
    row.parts.push_back(rate);
    plot.rows.push_back(std::move(row));
  };
  add("pins of the DRAM", e.device->dramPeakBytesPerNs(), kRoof);
  add("DRAM, reading", e.device->dramGBs, kRoof);
  add("this config", bytes / e.subject.estimate.totalNs, kChosen);
  for (const ShownCandidate &one : kinds.take_front(kRows))
    add(one.candidate.config.text(), bytes / one.candidate.estimate.totalNs,
        kOther);
  return barFigure(plot);
}

Html roofMarkup(const Explanation &e, llvm::ArrayRef<Candidate> ranked) {
  const std::vector<ShownCandidate> kinds = kindsOf(e, ranked);
  Html markup;
  if (!kinds.empty())
    markup += htmlNote(fmt::format(
        "Beside this config: {} others, the first of each kind in the ranking; "
        "configs that differ in warps, clusters, rasters or hints alone are "
        "one. A pointer on a point shows its config.",
        kinds.size()));
  if (e.derivation.find("intensity of the problem"))
    markup += rooflineMarkup(e, kinds);
  else if (inFlightOf(e.derivation))
    markup += htmlPair(
        littleFigure(e, kinds),
        valuesTable(e.derivation, {"bytes in flight", "bytes to have in flight",
                                   "latency of a busy DRAM", "DRAM's rate",
                                   "share of the DRAM's pins"}));
  else
    markup += htmlGrid({bandwidthFigure(e, kinds)});
  return markup;
}

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

namespace {

/// Pieces of the work that run in waves.
struct Waves {
  std::string pieces, places; ///< "tiles", "SMs"
  size_t count = 0, placeCount = 1;
  size_t atOnce = 1; ///< pieces of a place

  size_t size() const { return placeCount * atOnce; }
  size_t waves() const { return (count + size() - 1) / size(); }
  /// Pieces of wave \p number, from 0.
  size_t piecesOf(size_t number) const {
    return std::min(size(), count - number * size());
  }
};

} // namespace

/// The waves that the step "room of the waves" counts: pieces and the room
/// left, over places.
static std::optional<Waves> wavesOf(const Derivation &steps) {
  const DerivationStep *room = steps.find("room of the waves");
  if (!room)
    return std::nullopt;
  const Figure::Node &quotient = room->figure.formula();
  if (quotient.rule != FigureRule::Quotient)
    return std::nullopt;
  const Figure::Node &all = quotient.parts[0].formula();
  const Figure::Node &places = quotient.parts[1].formula();
  if (all.rule != FigureRule::Sum || places.value < 1)
    return std::nullopt;
  const Figure::Node &pieces = all.parts[0].formula();
  Waves waves{pieces.name.str(), places.name.str(),
              static_cast<size_t>(pieces.value),
              static_cast<size_t>(places.value), 1};
  // Blocks that stay have one piece at a time.
  if (places.name == "SMs")
    waves.atOnce = static_cast<size_t>(
        std::max(valueAt(steps, "blocks of an SM").value_or(1), 1.0));
  return waves.count > 0 ? std::optional(waves) : std::nullopt;
}

/// One wave: a column for each place, in rows the pieces that it has at once.
static std::string waveMarkup(const Waves &waves, size_t number) {
  // Columns that a screen can tell apart.
  constexpr size_t kColumns = 200;
  const size_t pieces = waves.piecesOf(number);
  const size_t rows = pieces / waves.placeCount;
  const size_t rest = pieces % waves.placeCount;
  std::string full;
  if (rows > 0)
    full += fmt::format("M0 0h{}v{}H0z", waves.placeCount, rows);
  if (rest > 0)
    full += fmt::format("M0 {}h{}v1H0z", rows, rest);
  std::string lines;
  if (waves.placeCount <= kColumns)
    for (size_t place = 1; place < waves.placeCount; ++place)
      lines += fmt::format("M{} 0v{}", place, waves.atOnce);
  for (size_t row = 1; row < waves.atOnce; ++row)
    lines += fmt::format("M0 {}h{}", row, waves.placeCount);
  return fmt::format(
      "<li><span>wave {0}</span><span class=\"value\">{1} {2} of {3}</span>\n"
      "<svg class=\"wave\" viewBox=\"0 0 {4} {5}\" "
      "preserveAspectRatio=\"none\" style=\"height:{6}px\" role=\"img\" "
      "aria-label=\"{1} of {3}\"><path class=\"{8}\" d=\"{7}\"/><path "
      "class=\"cut\" d=\"{9}\"/></svg></li>\n",
      number + 1, pieces, markupText(waves.pieces), waves.size(),
      waves.placeCount, waves.atOnce,
      std::clamp<size_t>(8 * waves.atOnce, 16, 64), full,
      pieces == waves.size() ? "swatch c0" : "swatch c1", lines);
}

Html wavesMarkup(const Derivation &steps) {
  const std::optional<Waves> waves = wavesOf(steps);
  if (!waves)
    return {};
  constexpr size_t kDrawn = 8, kFirst = 4, kLast = 2;
  const size_t all = waves->waves();
  std::string text = fmt::format(
      "<figure class=\"wide\">\n<figcaption>{} {} on {} {}, {} at once on "
      "each</figcaption>\n<ul class=\"bars\">\n",
      waves->count, markupText(waves->pieces), waves->placeCount,
      markupText(waves->places), waves->atOnce);
  for (size_t number = 0; number < all; ++number)
    if (all > kDrawn && number == kFirst) {
      text += fmt::format("<li><span>{} more full waves</span></li>\n",
                          all - kFirst - kLast);
      number = all - kLast - 1;
    } else {
      text += waveMarkup(*waves, number);
    }
  Html markup{text + "</ul>\n</figure>\n"};
  for (llvm::StringRef name : {"room of the waves", "share of a further wave"})
    if (const DerivationStep *step = steps.find(name)) {
      const int number = steps.numberOf(step->figure);
      markup.markup +=
          fmt::format("<p class=\"note\">{} {}</p>\n",
                      stepLink(number, fmt::format("[{}]", number)).markup,
                      markupText(steps.formulaText(number)));
      if (!step->words.note.empty())
        markup += htmlNote(step->words.note);
      if (!step->words.verdict.empty())
        markup.markup += fmt::format("<p class=\"verdict\">{}</p>\n",
                                     markupText(step->words.verdict));
    }
  return markup;
}

} // namespace kiln::cli
