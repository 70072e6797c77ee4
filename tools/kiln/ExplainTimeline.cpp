//===- ExplainTimeline.cpp ------------------------------------------------===//
#include "kiln/ExplainTimeline.h"

#include "Support/Format.h"
#include "cli/Plot.h"
#include "kiln/ExplainFormulas.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace kiln::cli {

namespace {

// As many as a reader takes in.
constexpr size_t kTimelines = 4, kRaces = 5;
/// Share of the total below which a repeated result is left out.
constexpr double kVisible = 0.01;
/// From so many times on a result counts as repeated.
constexpr double kRepeated = 1.5;
/// Repetitions of at least this share of a timeline are drawn apart: two pixels
/// of a telephone's.
constexpr double kApart = 0.006;

/// A box of a timeline.
struct Span {
  std::string label; ///< "64 x step of k"
  std::string formula;
  int step = 0; ///< whose result it is, or 0
  unsigned depth = 0, colour = 0;
  double start = 0, ns = 0;
  double times = 1;
};

struct Timeline {
  Figure root;
  double ns = 0;
  std::vector<Span> spans;
};

/// A result that is the largest, or the norm, of several parts.
struct Race {
  Figure figure;
  double share = 0; ///< of the total
};

/// A result that is repeated: the time of one, and its share of the total.
struct Repeated {
  Figure figure;
  double ns = 0, share = 0;
};

/// Where the walk is: one unit of a figure is so many ns of the timeline, and
/// so many times the last result was multiplied.
struct Place {
  double start = 0, scale = 1, times = 1;
  unsigned depth = 0;
};

/// Follows the figures below a total.
class PathWalk {
public:
  explicit PathWalk(const Derivation &steps) : steps(steps) {}
  void run();

  std::vector<Timeline> timelines;
  std::vector<Race> races;

private:
  void follow(const Repeated &root);
  /// Draws \p figure's box, or what it is made of where it has no name.
  void draw(const Figure &figure, Place place);
  /// Draws the parts of \p node. False: they are no path.
  bool drawParts(const Figure::Node &node, Place place);
  void drawBox(const Figure &figure, const Place &place);
  std::string textOf(const Figure &figure) const;

  const Derivation &steps;
  std::vector<Repeated> waiting;
  double sharePerNs = 0; ///< of the timeline in work
};

} // namespace

//===----------------------------------------------------------------------===//
// Figures that are times
//===----------------------------------------------------------------------===//

static bool isTime(const Figure &figure) {
  using enum FigureRule;
  const Figure::Node &node = figure.formula();
  if (!node.name.empty())
    return node.unit == "ns" || node.unit == "clk";
  switch (node.rule) {
  case Value:
  case Ceiling:
    return false;
  case Quotient:
    return isTime(node.parts[0]) && !isTime(node.parts[1]);
  case Product:
    return llvm::count_if(node.parts, isTime) == 1;
  default:
    return llvm::any_of(node.parts, isTime);
  }
}

static const Figure &largestOf(const Figure::Node &node) {
  return *std::max_element(
      node.parts.begin(), node.parts.end(),
      [](const Figure &a, const Figure &b) { return a.value() < b.value(); });
}

/// Whether several parts of \p node run side by side.
static bool isRace(const Figure::Node &node) {
  return (node.rule == FigureRule::Max || node.rule == FigureRule::Norm) &&
         llvm::count_if(node.parts, [](const Figure &part) {
           return part.value() > 0;
         }) > 1;
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

std::string PathWalk::textOf(const Figure &figure) const {
  std::string text;
  for (const FormulaPiece &piece : steps.piecesOf(figure))
    text += piece.text;
  return text;
}

/// "3 x ", or nothing for once.
static std::string countText(double times) {
  constexpr double kNoise = 1e-6;
  const double whole = std::round(times);
  if (std::abs(times - 1) < kNoise)
    return "";
  return std::abs(times - whole) < kNoise * whole
             ? fmt::format("{:.0f} x ", whole)
             : quantityText(times, "") + " x ";
}

void PathWalk::drawBox(const Figure &figure, const Place &place) {
  const Figure::Node &node = figure.formula();
  const std::string name = node.name.empty() ? textOf(figure) : node.name.str();
  const int step = steps.numberOf(figure);
  // A part of a result, such as an SM's of that of all, is called like it.
  const bool isPart = place.times < 1 && node.isResult;
  Span span{.label = isPart ? name : countText(place.times) + name,
            .formula = step ? steps.formulaText(step) : textOf(figure),
            .step = step,
            .depth = place.depth,
            .start = place.start,
            .ns = figure.value() * place.scale,
            .times = place.times};
  std::vector<Span> &spans = timelines.back().spans;
  // Boxes below the first row have the colour of the box above them.
  span.colour = static_cast<unsigned>(llvm::count_if(
                    spans, [](const Span &one) { return one.depth == 1; })) -
                (place.depth > 1 ? 1 : 0);
  spans.push_back(std::move(span));
}

void PathWalk::draw(const Figure &figure, Place place) {
  if (!(figure.value() * place.scale > 0))
    return;
  const Figure::Node &node = figure.formula();
  if (node.name.empty()) {
    if (!drawParts(node, place))
      drawBox(figure, place);
    return;
  }
  drawBox(figure, place);
  const double ns = figure.value() * place.scale;
  if (place.times >= kRepeated) {
    if (node.isResult)
      waiting.push_back({figure, ns / place.times, ns * sharePerNs});
    return;
  }
  if (isRace(node))
    races.push_back({figure, ns * sharePerNs});
  // An SM's part of all tiles is shown once for each tile of the SM.
  place.times = std::min(place.times, 1.0);
  ++place.depth;
  drawParts(node, place);
}

bool PathWalk::drawParts(const Figure::Node &node, Place place) {
  using enum FigureRule;
  switch (node.rule) {
  case Sum:
    for (const Figure &part : node.parts) {
      draw(part, place);
      place.start += part.value() * place.scale;
    }
    return true;
  case Product:
    for (const Figure &part : node.parts)
      if (llvm::count_if(node.parts, isTime) == 1 && isTime(part)) {
        const double factor = node.value / part.value();
        place.scale *= factor;
        place.times *= factor;
        draw(part, place);
        return true;
      }
    return false;
  case Quotient: {
    if (!isTime(node.parts[0]) || isTime(node.parts[1]))
      return false;
    const Figure &divisor = node.parts[1];
    place.scale /= divisor.value();
    // A clock makes other units of a time, a number makes a part of it.
    if (divisor.formula().unit.empty())
      place.times /= divisor.value();
    draw(node.parts[0], place);
    return true;
  }
  case Max:
    draw(largestOf(node), place);
    return true;
  default:
    return false;
  }
}

void PathWalk::follow(const Repeated &root) {
  timelines.push_back({root.figure, root.ns, {}});
  sharePerNs = root.share / root.ns;
  const Figure::Node &node = root.figure.formula();
  if (isRace(node))
    races.push_back({root.figure, root.share});
  drawParts(node, {.scale = root.ns / root.figure.value(), .depth = 1});
  // Boxes without neighbours say no more than their names.
  std::map<unsigned, int> boxes;
  for (const Span &span : timelines.back().spans)
    ++boxes[span.depth];
  if (llvm::none_of(boxes, [](const auto &row) { return row.second > 1; }))
    timelines.pop_back();
}

void PathWalk::run() {
  const Figure &total = steps.total().figure;
  waiting.push_back({total, total.value(), 1});
  std::set<llvm::StringRef> known;
  while (!waiting.empty()) {
    auto next = std::max_element(
        waiting.begin(), waiting.end(),
        [](const auto &a, const auto &b) { return a.share < b.share; });
    const Repeated root = *next;
    waiting.erase(next);
    // Waves have results of the same name, which differ little.
    if (root.share >= kVisible && timelines.size() < kTimelines &&
        known.insert(root.figure.formula().name).second)
      follow(root);
  }
  llvm::stable_sort(
      races, [](const Race &a, const Race &b) { return a.share > b.share; });
  std::set<llvm::StringRef> drawn;
  llvm::erase_if(races, [&](const Race &race) {
    return !drawn.insert(race.figure.formula().name).second;
  });
  if (races.size() > kRaces)
    races.resize(kRaces);
}

//===----------------------------------------------------------------------===//
// Markup
//===----------------------------------------------------------------------===//

static std::string boxMarkup(const Span &span, double whole) {
  constexpr double kPerCent = 100;
  constexpr double kReadable = 0.025; // narrower boxes have no room for a word
  const bool isApart =
      span.times >= kRepeated && span.ns / span.times >= kApart * whole;
  return fmt::format(
      "<{0} class=\"box c{1}{2}\" style=\"left:{3:.3f}%;width:{4:.3f}%{5}\" "
      "title=\"{6}\">{7}</{8}>\n",
      span.step ? fmt::format("a href=\"#step{}\"", span.step) : "span",
      span.colour % kPlotColours, isApart ? " apart" : "",
      kPerCent * span.start / whole, kPerCent * span.ns / whole,
      isApart
          ? fmt::format(";background-size:{:.3f}% 100%", kPerCent / span.times)
          : "",
      markupText(fmt::format("{}: {}, {:.1f} %. {}", span.label,
                             quantityText(span.ns, "ns"),
                             kPerCent * span.ns / whole, span.formula)),
      span.ns > kReadable * whole ? markupText(span.label) : "",
      span.step ? "a" : "span");
}

static std::string axisMarkup(double ns) {
  constexpr double kNsPerUs = 1000, kWhole = 100;
  const bool isUs = ns >= kNsPerUs;
  const double end = isUs ? ns / kNsPerUs : ns;
  const PlotScale scale({.least = 0.0, .greatest = end}, {0, end}, 0, kWhole);
  std::string text = "<div class=\"lane ticks\">";
  for (const PlotTick &tick : scale.ticks())
    text += fmt::format("<span style=\"left:{:.3f}%\">{}{}</span>",
                        scale.at(tick.value), tick.text,
                        tick.value == 0 ? (isUs ? " us" : " ns") : "");
  return text + "</div>\n";
}

static Html partsTable(const Timeline &timeline, const Derivation &steps,
                       const DeviceModel &device) {
  static constexpr HtmlColumn kColumns[] = {
      {"part"},
      {"time", HtmlCell::Figure},
      {"each", HtmlCell::Figure},
      {"share %", HtmlCell::Figure},
      {"comes from", HtmlCell::Prose},
  };
  HtmlTable table("Parts in their order", kColumns);
  for (const Span &span : timeline.spans)
    table.addMarkupRow(
        {{fmt::format("<span style=\"padding-left:{}em\">{}</span>",
                      span.depth - 1, markupText(span.label))},
         {quantityText(span.ns, "ns")},
         {quantityText(span.ns / span.times, "ns")},
         {fmt::format("{:.1f}", 100 * span.ns / timeline.ns)},
         span.step ? formulaMarkup(steps.formulaPieces(span.step), device)
                   : Html{markupText(span.formula)}});
  return htmlFoldout("All parts as a table", table.html());
}

static Html timelineFigure(const Timeline &timeline, const Derivation &steps,
                           const DeviceModel &device) {
  const Figure::Node &node = timeline.root.formula();
  unsigned depth = 0;
  for (const Span &span : timeline.spans)
    depth = std::max(depth, span.depth);
  std::string text = fmt::format(
      "<figure class=\"wide\">\n<figcaption>{}: {}{}</figcaption>\n<div "
      "class=\"timeline\">\n",
      markupText(node.name), quantityText(timeline.ns, "ns"),
      &timeline.root.formula() == &steps.total().figure.formula()
          ? ""
          : ", one of those above");
  for (unsigned row = 1; row <= depth; ++row) {
    text += "<div class=\"lane\">\n";
    for (const Span &span : timeline.spans)
      if (span.depth == row)
        text += boxMarkup(span, timeline.ns);
    text += "</div>\n";
  }
  text += axisMarkup(timeline.ns) + "</div>\n<ul class=\"legend\">\n";
  for (const Span &span : timeline.spans)
    if (span.depth == 1)
      text += fmt::format("<li><i class=\"swatch c{}\"></i>{} {}</li>\n",
                          span.colour % kPlotColours, markupText(span.label),
                          quantityText(span.ns, "ns"));
  Html figure{text + "</ul>\n"};
  figure += partsTable(timeline, steps, device);
  figure.markup += "</figure>\n";
  return figure;
}

/// The parts of \p race side by side, and the time that follows.
static Html raceFigure(const Race &race, const Derivation &steps) {
  constexpr unsigned kBeside = 0, kSlowest = 1, kResult = kPlotGrey;
  const Figure::Node &node = race.figure.formula();
  BarPlot plot{fmt::format("{} [{}]: {} of these", node.name,
                           steps.numberOf(race.figure), nameOf(node.rule)),
               {},
               {}};
  auto add = [&](std::string label, double value, llvm::StringRef unit,
                 unsigned colour) {
    BarRow row{std::move(label), quantityText(value, unit), {}};
    row.parts.assign(colour, 0);
    row.parts.push_back(std::max(value, 0.0));
    plot.rows.push_back(std::move(row));
  };
  for (const Figure &part : node.parts) {
    std::string label = part.formula().name.str();
    if (label.empty())
      for (const FormulaPiece &piece : steps.piecesOf(part))
        label += piece.text;
    else if (const int number = steps.numberOf(part))
      label += fmt::format(" [{}]", number);
    add(std::move(label), part.value(), node.unit,
        &part == &largestOf(node) ? kSlowest : kBeside);
  }
  add("= " + node.name.str(), node.value, node.unit, kResult);
  return barFigure(plot);
}

Html timelineMarkup(const Derivation &steps, const DeviceModel &device) {
  PathWalk walk(steps);
  walk.run();
  Html markup = htmlNote(
      "Boxes are to scale, and a box lies above those that it is made of. "
      "\"3 x\" is said of a result that is repeated; one of them is drawn "
      "again "
      "below. Each box leads to its step.");
  for (const Timeline &timeline : walk.timelines)
    markup += timelineFigure(timeline, steps, device);
  if (walk.races.empty())
    return markup;
  markup += htmlHeading("Side by side");
  std::vector<Html> figures;
  for (const Race &race : walk.races)
    figures.push_back(raceFigure(race, steps));
  markup += htmlGrid(figures);
  return markup;
}

} // namespace kiln::cli
