//===- Plot.cpp -----------------------------------------------------------===//
#include "cli/Plot.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace kiln::cli {

namespace {

// Units of a picture.
constexpr double kWidth = 320, kHeight = 290;
constexpr double kLeft = 40, kRight = 18, kTop = 24, kBottom = 36;
constexpr double kTickGap = 5, kBaseline = 4; ///< of text of 12 units
constexpr double kRangeRow = 34, kBoxTop = 17, kBoxHeight = 11;
constexpr double kKeyWidth = 22, kKeyHeight = 10;
constexpr llvm::StringLiteral kWholeKey = "M0 0h22v10H0z";

/// The rectangle between the axes.
struct Frame {
  double left = kLeft, top = kTop, right = kWidth - kRight,
         bottom = kHeight - kBottom;
};

} // namespace

static std::string colourClass(unsigned colour) {
  return fmt::format("c{}", colour % kPlotColours);
}

static llvm::StringRef markClass(PlotMark mark) {
  switch (mark) {
  case PlotMark::Points:
    return "points";
  case PlotMark::Line:
    return "line";
  case PlotMark::Dashed:
    return "line dashed";
  case PlotMark::Dotted:
    return "line dotted";
  case PlotMark::Area:
    return "area";
  }
  return "";
}

static std::string textAt(double x, double y, llvm::StringRef anchor,
                          llvm::StringRef text, llvm::StringRef kind = "") {
  return fmt::format(
      "<text x=\"{:.4g}\" y=\"{:.4g}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
      anchor, kind.empty() ? "" : fmt::format(" class=\"{}\"", kind),
      markupText(text));
}

static std::string lineFrom(double x1, double y1, double x2, double y2,
                            llvm::StringRef kind) {
  return fmt::format(
      "<path class=\"{}\" d=\"M{:.4g} {:.4g}L{:.4g} {:.4g}\"/>\n", kind, x1, y1,
      x2, y2);
}

static std::string openSvg(double height, llvm::StringRef description) {
  return fmt::format(
      "<svg class=\"plot\" viewBox=\"0 0 {:.4g} {:.4g}\" role=\"img\" "
      "aria-label=\"{}\">\n",
      kWidth, height, markupText(description));
}

static Html figureOf(llvm::StringRef title, llvm::StringRef picture,
                     llvm::StringRef legend) {
  return {fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}{}</figure>\n",
                      markupText(title), picture, legend)};
}

//===----------------------------------------------------------------------===//
// Legends
//===----------------------------------------------------------------------===//

/// One entry, with a picture of the mark: the classes \p kind on \p shape.
static std::string legendEntry(llvm::StringRef label, llvm::StringRef kind,
                               llvm::StringRef shape) {
  return fmt::format("<li><svg viewBox=\"0 0 {} {}\" aria-hidden=\"true\">"
                     "<path class=\"{}\" d=\"{}\"/></svg>{}</li>\n",
                     kKeyWidth, kKeyHeight, kind, shape, markupText(label));
}

static std::string legendEntry(const PlotSeries &series) {
  constexpr double kMiddle = kKeyHeight / 2;
  const std::string kind =
      fmt::format("{} {}", markClass(series.mark), colourClass(series.colour));
  switch (series.mark) {
  case PlotMark::Points:
    return legendEntry(series.label, "key " + kind,
                       fmt::format("M{} {}h0", kKeyWidth / 2, kMiddle));
  case PlotMark::Area:
    return legendEntry(series.label, kind, kWholeKey);
  default:
    return legendEntry(series.label, kind,
                       fmt::format("M0 {}h{}", kMiddle, kKeyWidth));
  }
}

static std::string inLegend(const std::string &entries) {
  return entries.empty()
             ? ""
             : fmt::format("<ul class=\"legend\">\n{}</ul>\n", entries);
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

/// The bottom axis with its grid, its ticks and its title.
static std::string bottomAxis(const PlotAxis &axis, const PlotScale &scale,
                              const Frame &frame) {
  constexpr double kTickLine = 14, kTitleLine = 30;
  std::string text;
  for (const PlotTick &tick : scale.ticks()) {
    const double x = scale.at(tick.value);
    text += lineFrom(x, frame.top, x, frame.bottom, "grid-line");
    text += textAt(x, frame.bottom + kTickLine, "middle", tick.text);
  }
  return text + textAt(frame.right, frame.bottom + kTitleLine, "end",
                       axis.title, "title");
}

static std::string leftAxis(const PlotAxis &axis, const PlotScale &scale,
                            const Frame &frame) {
  constexpr double kTitleLine = 14;
  std::string text;
  for (const PlotTick &tick : scale.ticks()) {
    const double y = scale.at(tick.value);
    text += lineFrom(frame.left, y, frame.right, y, "grid-line");
    text += textAt(frame.left - kTickGap, y + kBaseline, "end", tick.text);
  }
  // Above the axis and not turned along it, so that it is read like any text.
  return text + textAt(0, kTitleLine, "start", axis.title, "title");
}

static std::string axesOf(const Frame &frame) {
  return fmt::format(
      "<path class=\"axis\" d=\"M{:.4g} {:.4g}V{:.4g}H{:.4g}\"/>\n", frame.left,
      frame.top, frame.bottom, frame.right);
}

//===----------------------------------------------------------------------===//
// Points, lines and areas
//===----------------------------------------------------------------------===//

/// The dots of a series as one path. Dots within half a unit of each other are
/// drawn once, which bounds the size of a page.
static std::string dotsOf(llvm::ArrayRef<PlotPoint> points, const PlotScale &x,
                          const PlotScale &y) {
  constexpr double kGrain = 2;
  std::set<std::pair<int, int>> seen;
  std::string path;
  for (const PlotPoint &point : points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y))
      continue;
    const int column = static_cast<int>(std::lround(kGrain * x.at(point.x)));
    const int row = static_cast<int>(std::lround(kGrain * y.at(point.y)));
    if (seen.insert({column, row}).second)
      path += fmt::format("M{} {}h0", column / kGrain, row / kGrain);
  }
  return path;
}

static std::string outlineOf(llvm::ArrayRef<PlotPoint> points,
                             const PlotScale &x, const PlotScale &y) {
  std::string path;
  for (const PlotPoint &point : points)
    if (std::isfinite(point.x) && std::isfinite(point.y))
      path += fmt::format("{}{:.5g} {:.5g}", path.empty() ? 'M' : 'L',
                          x.at(point.x), y.at(point.y));
  return path;
}

/// The points of a series with titles.
static std::string discsOf(const PlotSeries &series, const PlotScale &x,
                           const PlotScale &y) {
  constexpr double kRadius = 4;
  std::string discs;
  for (auto [point, title] : llvm::zip(series.points, series.titles))
    if (std::isfinite(point.x) && std::isfinite(point.y))
      discs += fmt::format(
          "<circle class=\"disc {}\" cx=\"{:.4g}\" cy=\"{:.4g}\" r=\"{}\">"
          "<title>{}</title></circle>\n",
          colourClass(series.colour), x.at(point.x), y.at(point.y), kRadius,
          markupText(title));
  return discs;
}

static std::string seriesOf(const PlotSeries &series, const PlotScale &x,
                            const PlotScale &y) {
  if (!series.titles.empty())
    return discsOf(series, x, y);
  std::string path = series.mark == PlotMark::Points
                         ? dotsOf(series.points, x, y)
                         : outlineOf(series.points, x, y);
  if (series.mark == PlotMark::Area && !path.empty())
    path += "z";
  return fmt::format("<path class=\"{} {}\" d=\"{}\"/>\n",
                     markClass(series.mark), colourClass(series.colour), path);
}

Html plotFigure(const Plot &plot) {
  const Frame frame;
  std::vector<double> xs, ys;
  for (const PlotSeries &series : plot.series)
    for (const PlotPoint &point : series.points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
  const PlotScale x(plot.x, xs, frame.left, frame.right);
  const PlotScale y(plot.y, ys, frame.bottom, frame.top);
  std::string picture = openSvg(kHeight, plot.description);
  picture += bottomAxis(plot.x, x, frame) + leftAxis(plot.y, y, frame);
  // A picture inside of the picture cuts off without a name for the path to
  // cut along, which would have to differ from figure to figure.
  const double width = frame.right - frame.left;
  const double height = frame.bottom - frame.top;
  picture += fmt::format("<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\""
                         " viewBox=\"{0} {1} {2} {3}\">\n",
                         frame.left, frame.top, width, height);
  std::string entries;
  for (const PlotSeries &series : plot.series) {
    picture += seriesOf(series, x, y);
    if (!series.label.empty() && !series.points.empty())
      entries += legendEntry(series);
  }
  picture += "</svg>\n" + axesOf(frame) + "</svg>\n";
  return figureOf(plot.title, picture, inLegend(entries));
}

//===----------------------------------------------------------------------===//
// Distributions
//===----------------------------------------------------------------------===//

/// The label, the whiskers, the box and the median of \p row below \p top.
static std::string rangeOf(const RangeRow &row, const PlotScale &scale,
                           double top) {
  const std::string colour = colourClass(row.colour);
  const double boxTop = top + kBoxTop, middle = boxTop + kBoxHeight / 2;
  const double quarter = scale.at(row.quarter);
  const double median = scale.at(row.median);
  return textAt(0, top + 12, "start", row.label) +
         lineFrom(scale.at(row.least), middle, scale.at(row.greatest), middle,
                  "line " + colour) +
         fmt::format("<rect class=\"box {}\" x=\"{:.4g}\" y=\"{:.4g}\" "
                     "width=\"{:.4g}\" height=\"{:.4g}\"/>\n",
                     colour, quarter, boxTop,
                     scale.at(row.threeQuarters) - quarter, kBoxHeight) +
         lineFrom(median, boxTop - 2, median, boxTop + kBoxHeight + 2,
                  "line " + colour);
}

Html rangeFigure(const RangePlot &plot) {
  Frame frame;
  frame.left = kRight;
  frame.top = 0;
  frame.bottom = kRangeRow * static_cast<double>(plot.rows.size()) + kTickGap;
  std::vector<double> values;
  for (const RangeRow &row : plot.rows)
    for (double value : {row.least, row.greatest})
      values.push_back(value);
  const PlotScale scale(plot.axis, values, frame.left, frame.right);
  std::string picture = openSvg(frame.bottom + kBottom, plot.description) +
                        bottomAxis(plot.axis, scale, frame);
  for (size_t i = 0; i < plot.rows.size(); ++i)
    picture += rangeOf(plot.rows[i], scale, kRangeRow * static_cast<double>(i));
  picture +=
      lineFrom(frame.left, frame.bottom, frame.right, frame.bottom, "axis") +
      "</svg>\n";
  return figureOf(plot.title, picture, "");
}

//===----------------------------------------------------------------------===//
// Bars
//===----------------------------------------------------------------------===//

/// One bar whose parts have the colours from \p colour on.
static std::string trackOf(llvm::ArrayRef<double> parts, double longest,
                           size_t colour, llvm::StringRef kind) {
  constexpr double kWhole = 100; // per cent
  std::string track = fmt::format("<span class=\"{}\">", kind);
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i] > 0)
      track += fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\"></i>",
                           colourClass(static_cast<unsigned>(colour + i)),
                           kWhole * parts[i] / longest);
  return track + "</span>";
}

Html barFigure(const BarPlot &plot) {
  double longest = 0;
  for (const BarRow &row : plot.rows)
    for (const std::vector<double> *parts : {&row.parts, &row.below})
      longest =
          std::max(longest, std::accumulate(parts->begin(), parts->end(), 0.0));
  std::string rows = "<ul class=\"bars\">\n";
  for (const BarRow &row : plot.rows) {
    rows += fmt::format("<li><span>{}</span><span class=\"value\">{}</span>",
                        markupText(row.label), markupText(row.value));
    rows += trackOf(row.parts, longest, 0, "track");
    if (!row.below.empty())
      rows += trackOf(row.below, longest, row.parts.size(), "track below");
    rows += "</li>\n";
  }
  rows += "</ul>\n";
  std::string entries;
  for (size_t i = 0; i < plot.parts.size(); ++i)
    entries += legendEntry(plot.parts[i],
                           "swatch " + colourClass(static_cast<unsigned>(i)),
                           kWholeKey);
  return figureOf(plot.title, rows, inLegend(entries));
}

} // namespace kiln::cli
