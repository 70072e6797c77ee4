// Pages, and the plots on them.
#include "Tools/XmlCheck.h"
#include "cli/Plot.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kiln::cli;
using kiln::testing::isWellFormed;

static size_t countOf(llvm::StringRef text, llvm::StringRef part) {
  return text.count(part);
}

TEST_CASE("text is escaped on its way into a page") {
  CHECK(markupText("a<b & \"c\" > d") == "a&lt;b &amp; &quot;c&quot; &gt; d");
  CHECK(markupText("line\nbreak\x01") == "line\\x0abreak\\x01");
  CHECK(markupText("\xef\xbf\xbf!") == "?!");
  CHECK(htmlParagraph("<script>").markup == "<p>&lt;script&gt;</p>\n");
  HtmlTable table("a & b", {{"<name>"}, {"us", HtmlCell::Figure}});
  CHECK(table.empty());
  table.addRow({"x<y", "1.5"});
  table.addMarkupRow({{"<a href=\"#x\">y</a>"}, {"2"}});
  const std::string markup = table.html().markup;
  CHECK(isWellFormed(markup));
  CHECK(markup.find("<th scope=\"row\"><a href=\"#x\">y</a></th>") !=
        std::string::npos);
  CHECK(htmlPreformatted("a < b\n  c").markup.find("<pre>a &lt; b\n  c\n") !=
        std::string::npos);
  CHECK(markup.find("x&lt;y") != std::string::npos);
  CHECK(markup.find("<td class=\"figure\">1.5</td>") != std::string::npos);
}

TEST_CASE("a page is XML, loads nothing and links to its sections") {
  HtmlPage page("Title <1>", "What it says.");
  page.addSection("First", htmlList({"a", "b"}));
  page.addSection("Second & last", htmlFoldout("more", htmlNote("a note")));
  const std::string text = page.text();
  CHECK(isWellFormed(text));
  for (const char *loaded :
       {"http:", "https:", "<script", "<link", "src=", "@import", "url("})
    CHECK_MESSAGE(text.find(loaded) == std::string::npos, loaded);
  CHECK(text.find("<title>Title &lt;1&gt;</title>") != std::string::npos);
  CHECK(text.find("<a href=\"#section2\">Second &amp; last</a>") !=
        std::string::npos);
  CHECK(text.find("<section id=\"section2\">") != std::string::npos);
  CHECK(text.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(text == page.text());
}

static std::vector<std::string> tickTexts(const PlotScale &scale) {
  std::vector<std::string> texts;
  for (const PlotTick &tick : scale.ticks())
    texts.push_back(tick.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("a linear axis ends at round numbers") {
  const PlotScale scale({}, {3.2, -7.5, 18}, 0, 100);
  CHECK(scale.least() == doctest::Approx(-10));
  CHECK(scale.greatest() == doctest::Approx(20));
  CHECK(scale.at(-10) == doctest::Approx(0));
  CHECK(scale.at(5) == doctest::Approx(50));
  CHECK(scale.at(35) == doctest::Approx(150));
  CHECK(tickTexts(scale) == Texts{"-10", "0", "10", "20"});
  // One number, none, and those that are no numbers.
  for (std::vector<double> values :
       {std::vector<double>{5}, std::vector<double>{},
        std::vector<double>{NAN, INFINITY, 0}}) {
    const PlotScale few({}, values, 0, 1);
    CHECK(few.least() < few.greatest());
    CHECK(std::isfinite(few.at(5)));
    CHECK(few.ticks().size() > 1);
  }
}

TEST_CASE("a logarithmic axis has its decades") {
  const PlotScale scale({.isLog = true}, {0, 1.7, 820, -3}, 100, 0);
  CHECK(scale.least() == doctest::Approx(1));
  CHECK(scale.greatest() == doctest::Approx(1000));
  CHECK(scale.at(1) == doctest::Approx(100));
  CHECK(scale.at(1000) == doctest::Approx(0));
  CHECK(scale.at(std::sqrt(1000.)) == doctest::Approx(50));
  CHECK(scale.at(0) == doctest::Approx(100)); // at the least
  CHECK(tickTexts(scale) == Texts{"1", "10", "100", "1000"});
  CHECK(tickTexts(PlotScale({.isLog = true}, {2, 30}, 0, 1)) ==
        Texts{"2", "5", "10", "20", "50"});
  CHECK(tickTexts(PlotScale({.isLog = true, .least = 3, .greatest = 4}, {}, 0,
                            1)) == Texts{"3", "3.2", "3.4", "3.6", "3.8", "4"});
  CHECK(tickTexts(PlotScale({.isLog = true}, {1e4, 9e6}, 0, 1)) ==
        Texts{"10k", "100k", "1M", "10M"});
  CHECK(tickTexts(PlotScale({.ticks = {1, 2, 4}}, {1, 32}, 0, 1)) ==
        Texts{"1", "2", "4"});
}

TEST_CASE("a plot is a figure with its series and their legend") {
  Plot plot;
  plot.title = "a < b";
  plot.description = "what it shows";
  plot.x = {.title = "measured, us", .isLog = true};
  plot.y = {.title = "predicted, us", .least = 0, .greatest = 10};
  plot.series = {
      {"dots", PlotMark::Points, 9, {{1, 1}, {1, 1}, {2, 2}, {NAN, 3}}},
      {"line", PlotMark::Dashed, 0, {{1, 1}, {2, 3}}},
      {"", PlotMark::Area, kPlotGrey, {{1, 1}, {2, 3}, {2, 1}}}};
  const std::string markup = plotFigure(plot).markup;
  CHECK(isWellFormed(markup));
  CHECK(markup.find("<figcaption>a &lt; b</figcaption>") != std::string::npos);
  CHECK(markup.find("aria-label=\"what it shows\"") != std::string::npos);
  CHECK(markup.find("nan") == std::string::npos);
  // Two dots at one place are one; the other is the second, of colour 9 - 8.
  const size_t dots = markup.find("<path class=\"points c1\"");
  REQUIRE(dots != std::string::npos);
  CHECK(countOf(llvm::StringRef(markup).substr(dots).split('\n').first, "h0") ==
        2);
  CHECK(markup.find("line dashed c0") != std::string::npos);
  CHECK(countOf(markup, "<li>") == 2); // a series without a label has no entry
  // Points with titles are discs.
  plot.series = {
      {"named", PlotMark::Points, 1, {{1, 1}, {2, 2}}, {"a < b", "second"}}};
  const std::string discs = plotFigure(plot).markup;
  CHECK(isWellFormed(discs));
  CHECK(countOf(discs, "<circle class=\"disc c1\"") == 2);
  CHECK(countOf(discs, "<title>a &lt; b</title>") == 1);
  // Without anything to show it is a figure as well.
  CHECK(isWellFormed(plotFigure({}).markup));
}

TEST_CASE("distributions and bars are figures") {
  RangePlot ranges{"errors", "by family", {.title = "%"}, {}};
  ranges.rows.push_back({"gemm (3)", -10, -5, 0, 5, 10, 2});
  const std::string boxes = rangeFigure(ranges).markup;
  CHECK(isWellFormed(boxes));
  CHECK(countOf(boxes, "<rect class=\"box c2\"") == 1);
  CHECK(isWellFormed(rangeFigure({}).markup));

  BarPlot bars{"terms", {"launch", "waves"}, {}};
  bars.rows.push_back({"a > b", "4 us", {1, 3}});
  bars.rows.push_back({"none", "0 us", {0, 0}});
  bars.rows.push_back({"half", "2 us", {2}});
  const std::string markup = barFigure(bars).markup;
  CHECK(isWellFormed(markup));
  CHECK(markup.find("<i class=\"c0\" style=\"width:25.00%\"></i>"
                    "<i class=\"c1\" style=\"width:75.00%\"></i>") !=
        std::string::npos);
  CHECK(countOf(markup, "<i ") == 3);
  // A bar to compare with takes the next colour, and part in the scale.
  bars.rows = {{"both", "1 us / 2 us", {1}, {2}}};
  const std::string pairs = barFigure(bars).markup;
  CHECK(isWellFormed(pairs));
  CHECK(countOf(pairs, "<i class=\"c0\" style=\"width:50.00%\"></i>") == 1);
  CHECK(countOf(pairs, "<i class=\"c1\" style=\"width:100.00%\"></i>") == 1);
  CHECK(isWellFormed(barFigure({}).markup));
}
