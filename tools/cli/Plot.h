//===- Plot.h - plots of pages --------------------------------------------===//
//
// A plot is data and a few options; each function here returns a figure for
// Html.h: title, picture, legend. Pictures are SVG of 320 units of width, with
// text of 12 units, so that they are readable on a page of 360 pixels. Colours
// are numbers of the eight of the style sheet; others follow in rotation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cli/Html.h"
#include "cli/PlotScale.h"

#include <string>
#include <vector>

namespace kiln::cli {

inline constexpr unsigned kPlotColours = 8;
/// The colour for bounds and other things to compare with: grey.
inline constexpr unsigned kPlotGrey = 7;

struct PlotPoint {
  double x = 0, y = 0;
};

enum class PlotMark {
  Points, ///< a dot each; dots at one place of the picture are one
  Line,
  Dashed,
  Dotted,
  Area, ///< the points are the corners of a filled area
};

struct PlotSeries {
  std::string label; ///< empty: not in the legend
  PlotMark mark = PlotMark::Points;
  unsigned colour = 0;
  std::vector<PlotPoint> points = {};
  /// The texts that a pointer shows, one for each point. They make each point a
  /// disc of its own.
  std::vector<std::string> titles = {};
};

/// Points, lines and areas over two axes; later series lie above earlier ones.
/// Marks beyond given ends of an axis are cut off.
struct Plot {
  std::string title;
  std::string description; ///< for readers who do not see the picture
  PlotAxis x, y;
  std::vector<PlotSeries> series;
};
Html plotFigure(const Plot &plot);

/// A row of a RangePlot: a box between the quarters of a distribution, a line
/// at the median, whiskers to the ends.
struct RangeRow {
  std::string label;
  double least = 0, quarter = 0, median = 0, threeQuarters = 0, greatest = 0;
  unsigned colour = 0;
};

/// Distributions below each other over one axis.
struct RangePlot {
  std::string title, description;
  PlotAxis axis;
  std::vector<RangeRow> rows;
};
Html rangeFigure(const RangePlot &plot);

/// A row of a BarPlot: parts of one bar, from left to right.
struct BarRow {
  std::string label;
  std::string value;         ///< as text: "12.3 us"
  std::vector<double> parts; ///< not below 0
  /// Parts of a thinner bar below it, to compare with. Their colours follow
  /// those of the parts above.
  std::vector<double> below = {};
};

/// Bars below each other from 0; the longest has the whole width. Texts stand
/// above the bars, so that they may be long.
struct BarPlot {
  std::string title;
  /// The names of the parts, of which the i-th has colour i; empty: no legend.
  std::vector<std::string> parts = {};
  std::vector<BarRow> rows;
};
Html barFigure(const BarPlot &plot);

} // namespace kiln::cli
