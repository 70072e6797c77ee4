//===- ExplainPage.cpp ----------------------------------------------------===//
#include "kiln/ExplainPage.h"

#include "Choice/ExplanationReport.h"
#include "Choice/PortfolioReport.h"
#include "Support/Format.h"
#include "Support/Json.h"
#include "cli/Plot.h"
#include "kiln/ExplainFormulas.h"
#include "kiln/ExplainPlots.h"
#include "kiln/ExplainTimeline.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kiln::cli {

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

static std::string tileMarkup(llvm::StringRef label, llvm::StringRef value,
                              const Html &more = {}) {
  constexpr size_t kShort = 20; // as many signs as a tile has room for
  return fmt::format("<div{}><dt>{}</dt><dd>{}</dd>{}</div>\n",
                     value.size() > kShort ? " class=\"long\"" : "",
                     markupText(label), markupText(value), more.markup);
}

/// A share as a number and a bar, with its step.
static std::string shareMarkup(const Derivation &steps, llvm::StringRef name) {
  const DerivationStep *step = steps.find(name);
  if (!step)
    return "";
  constexpr double kPerCent = 100;
  const double share = kPerCent * step->value();
  Html more{fmt::format("<dd class=\"meter\"><i style=\"width:{:.1f}%\"></i>"
                        "</dd><dd class=\"source\">",
                        std::clamp(share, 0., kPerCent))};
  more += stepLinks(steps.numberOf(step->figure));
  more.markup += "</dd>";
  return tileMarkup(name, fmt::format("{:.1f} %", share), more);
}

static Html choiceSection(const Explanation &e) {
  const double ns = e.subject.estimate.totalNs;
  Html body = htmlParagraph(summaryText(e));
  std::string tiles = "<dl class=\"tiles\">\n";
  tiles += tileMarkup("config", e.subject.config.text());
  tiles += tileMarkup(
      "predicted time", formatUs(ns) + " us",
      {fmt::format("<dd class=\"source\">{}</dd>",
                   stepLinks(e.derivation.numberOf(e.derivation.total().figure))
                       .markup)});
  tiles += tileMarkup("bound", e.subject.estimate.bound);
  for (llvm::StringRef share :
       {"share of the dense peak", "share of the peak that holds",
        "share of the roofline", "share of the DRAM's pins"})
    tiles += shareMarkup(e.derivation, share);
  body.markup += tiles + "</dl>\n";
  if (e.generic)
    body += htmlParagraph(e.generic->text());
  return body;
}

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

/// The rival's verdict, as the report tells it.
static std::string rivalVerdict(const llvm::json::Object &report) {
  const llvm::json::Object *rival = report.getObject("rival");
  return rival ? rival->getString("verdict").value_or("").str() : "";
}

/// The addends of both totals, the largest first.
static std::vector<Addend> rankedAddends(const Explanation &e) {
  std::vector<Addend> addends = e.derivation.addends();
  for (const Addend &addend : e.rivalDerivation.addends())
    if (llvm::none_of(addends, [&](const Addend &one) {
          return one.name == addend.name;
        }))
      addends.push_back({addend.name, 0});
  llvm::stable_sort(
      addends, [](const Addend &a, const Addend &b) { return a.ns > b.ns; });
  return addends;
}

static Html addendFigure(const Explanation &e) {
  BarPlot plot{"Addends of the total", {"this config"}, {}};
  if (e.rival)
    plot.parts.push_back("the other config");
  for (const Addend &addend : rankedAddends(e)) {
    const double other = e.rivalDerivation.addendOf(addend.name);
    if (addend.ns == 0 && other == 0)
      continue;
    BarRow row{addend.name.str(),
               quantityText(addend.ns, "ns"),
               {std::max(addend.ns, 0.)}};
    if (e.rival) {
      row.value += " / " + quantityText(other, "ns");
      row.below = {std::max(other, 0.)};
    }
    plot.rows.push_back(std::move(row));
  }
  return barFigure(plot);
}

/// The part of the total that is called \p name: "3 x between tiles".
static const Figure *partOf(const Derivation &steps, llvm::StringRef name) {
  const std::vector<Addend> addends = steps.addends();
  for (auto [addend, part] :
       llvm::zip(addends, steps.total().figure.formula().parts))
    if (addend.name == name)
      return &part;
  return nullptr;
}

static Html addendTable(const Explanation &e) {
  static constexpr HtmlColumn kColumns[] = {
      {"addend"},
      {"time", HtmlCell::Figure},
      {"share %", HtmlCell::Figure},
      {"in the total"},
      {"comes from", HtmlCell::Prose},
  };
  const Derivation &steps = e.derivation;
  auto formula = [&](llvm::ArrayRef<FormulaPiece> pieces) {
    return formulaMarkup(pieces, *e.device);
  };
  HtmlTable table("Addends of the total, the largest first", kColumns);
  for (const Addend &addend : rankedAddends(e)) {
    const Figure *part = partOf(steps, addend.name);
    const DerivationStep *step = steps.find(addend.name);
    table.addMarkupRow(
        {{markupText(addend.name)},
         {markupText(quantityText(addend.ns, "ns"))},
         {fmt::format("{:.1f}", 100 * addend.ns / e.subject.estimate.totalNs)},
         part ? formula(steps.piecesOf(*part)) : Html{},
         step ? formula(steps.formulaPieces(steps.numberOf(step->figure)))
              : Html{}});
  }
  return table.html();
}

/// The results that both configs have and that differ.
static Html differenceTable(const Explanation &e) {
  static constexpr HtmlColumn kColumns[] = {
      {"term"},
      {"this config", HtmlCell::Figure},
      {"the other config", HtmlCell::Figure},
      {"difference %", HtmlCell::Figure},
      {"step"},
  };
  constexpr double kNoise = 1e-9; // of sums
  HtmlTable table("Steps that both have and that differ", kColumns);
  std::set<llvm::StringRef> known;
  for (const DerivationStep &step : e.derivation) {
    const DerivationStep *other = e.rivalDerivation.find(step.name());
    const double own = step.value();
    if (!other || !known.insert(step.name()).second ||
        std::abs(other->value() - own) <= kNoise * std::abs(own))
      continue;
    table.addMarkupRow(
        {{markupText(step.name())},
         {markupText(quantityText(own, step.unit()))},
         {markupText(quantityText(other->value(), step.unit()))},
         {own == 0 ? ""
                   : fmt::format("{:+.1f}", 100 * (other->value() / own - 1))},
         stepLinks(e.derivation.numberOf(step.figure))});
  }
  return table.empty() ? Html{} : table.html();
}

static Html termSection(const Explanation &e,
                        const llvm::json::Object &report) {
  Html body;
  if (e.rival)
    body += htmlParagraph(rivalVerdict(report));
  body += htmlPair(addendFigure(e), addendTable(e));
  if (e.rival)
    body += htmlFoldout(
        fmt::format("Step by step beside {}", e.rival->config.text()),
        differenceTable(e));
  return body;
}

//===----------------------------------------------------------------------===//
// Alternatives
//===----------------------------------------------------------------------===//

/// The member \p key of \p row as text: a string or a number.
static std::string memberText(const llvm::json::Object &row,
                              llvm::StringRef key) {
  if (auto text = row.getString(key))
    return text->str();
  if (auto number = row.getNumber(key))
    return fmt::format("{}", *number);
  return "";
}

/// The rows of the section \p name of \p report.
static std::vector<const llvm::json::Object *>
rowsOf(const llvm::json::Object &report, llvm::StringRef name) {
  std::vector<const llvm::json::Object *> rows;
  if (const llvm::json::Object *section = report.getObject(name))
    if (const llvm::json::Array *list = section->getArray("rows"))
      for (const llvm::json::Value &row : *list)
        rows.push_back(row.getAsObject());
  return rows;
}

static Html neighbourTable(const llvm::json::Object &report) {
  static constexpr HtmlColumn kColumns[] = {
      {"knob"},
      {"here", HtmlCell::Figure},
      {"instead", HtmlCell::Figure},
      {"what it breaks or costs", HtmlCell::Prose},
  };
  HtmlTable table("Other values of each knob", kColumns);
  for (const llvm::json::Object *row : rowsOf(report, "neighbours"))
    table.addRow({memberText(*row, "knob"), memberText(*row, "from"),
                  memberText(*row, "to"), memberText(*row, "verdict")});
  return table.empty() ? Html{} : table.html();
}

static Html changeTable(const Explanation &e,
                        const llvm::json::Object &report) {
  static constexpr HtmlColumn kColumns[] = {
      {"if"},    {"first choice", HtmlCell::Code}, {"us", HtmlCell::Figure},
      {"bound"}, {"this config", HtmlCell::Prose},
  };
  HtmlTable table("Other sizes and devices", kColumns);
  const std::string own = e.subject.config.text();
  for (const llvm::json::Object *row : rowsOf(report, "changes")) {
    const llvm::json::Object *rejection = row->getObject("rejected");
    const std::string config = memberText(*row, "config");
    table.addRow({memberText(*row, "change"),
                  config == own ? "the same" : config,
                  memberText(*row, "predicted_us"), memberText(*row, "bound"),
                  rejection ? memberText(*rejection, "detail")
                            : memberText(*row, "this_us") + " us"});
  }
  return table.empty() ? Html{} : table.html();
}

static Html portfolioSection(const Explanation &e) {
  std::string text;
  llvm::raw_string_ostream os(text);
  PortfolioSection(*e.portfolio, *e.problem, *e.device).print(os);
  return htmlPreformatted(text);
}

//===----------------------------------------------------------------------===//
// The page
//===----------------------------------------------------------------------===//

static Html derivationSection(const Explanation &e) {
  Html body = htmlParagraph(
      "From the limits to the total: each result, in the order of the "
      "argument. Marks say where a value comes from.");
  body += marksLegend(e.derivation, *e.device);
  body += stepsMarkup(e.derivation, *e.device);
  return body;
}

std::string explainPage(const Explanation &e,
                        llvm::ArrayRef<Candidate> ranked) {
  HtmlPage page(e.text, fmt::format("{} on {} ({}, {} SMs)",
                                    e.subject.config.text(), e.device->name,
                                    e.device->archName(), e.device->smCount));
  if (e.rejection) {
    page.addSection("Choice", htmlParagraph(fmt::format("{} cannot run: {}",
                                                        e.subject.config.text(),
                                                        e.rejection->text())));
    return page.text();
  }
  const llvm::json::Object report = ExplanationReport(e).toJson();
  page.addSection("Choice", choiceSection(e));
  page.addSection("Limits of the chip", roofMarkup(e, ranked));
  page.addSection("Timeline", timelineMarkup(e.derivation, *e.device));
  if (Html waves = wavesMarkup(e.derivation); !waves.markup.empty())
    page.addSection("Waves", std::move(waves));
  page.addSection("Terms", termSection(e, report));
  page.addSection("Derivation", derivationSection(e));
  page.addSection("Sources", sourcesMarkup(e.derivation, *e.device));
  Html alternatives = neighbourTable(report);
  alternatives += changeTable(e, report);
  page.addSection("Alternatives", std::move(alternatives));
  if (e.portfolio)
    page.addSection("Portfolio", portfolioSection(e));
  return page.text();
}

} // namespace kiln::cli
