//===- ExplanationReport.cpp ----------------------------------------------===//
#include "Choice/ExplanationReport.h"

#include "Choice/PortfolioReport.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kiln {

namespace {

/// A time against work, and the rates that follow from both.
class SummarySection final : public Report {
public:
  explicit SummarySection(const Explanation &e) : e(e) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  std::string text() const;

private:
  double tflops() const {
    return e.family->flops(*e.problem) / e.subject.estimate.totalNs * 1e-3;
  }
  double shareOf(llvm::StringRef step) const {
    const DerivationStep *found = e.derivation.find(step);
    return found ? found->value() : 0;
  }
  double bandwidth() const {
    return e.family->compulsoryBytes(*e.problem) / e.subject.estimate.totalNs;
  }
  const Explanation &e;
};

/// Walls, waves, floors, total, roofline: numbered steps.
class DerivationSection final : public Report {
public:
  explicit DerivationSection(const Derivation &steps) : steps(steps) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override { return steps.toJson(); }

private:
  const Derivation &steps;
};

/// The limits that other values of each knob would break or lose.
class NeighbourSection final : public Report {
public:
  explicit NeighbourSection(const Explanation &e) : e(e) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  std::string verdict(const Neighbour &neighbour) const;
  const Explanation &e;
};

/// The choices for other sizes and on other devices.
class ChangeSection final : public Report {
public:
  explicit ChangeSection(const Explanation &e) : e(e) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  const Explanation &e;
};

/// Two estimates side by side.
class RivalSection final : public Report {
public:
  explicit RivalSection(const Explanation &e) : e(e) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  /// A term of either estimate, with its value in both.
  struct Row {
    std::string name, unit;
    double subject, rival;
    bool isAddend;
  };
  /// The addends of both times, then what they come from.
  std::vector<Row> rows() const;
  std::string verdict() const;
  const Explanation &e;
};

} // namespace

static llvm::json::Object estimateJson(const Estimate &estimate) {
  return llvm::json::Object{{"total_ns", estimate.totalNs},
                            {"bound", estimate.bound}};
}

std::string SummarySection::text() const {
  const Estimate &estimate = e.subject.estimate;
  std::string place = e.rank == 0  ? "is the first choice"
                      : e.rank > 0 ? fmt::format("is number {}", e.rank + 1)
                                   : std::string("is not in the space");
  // Where memory must set the pace, its rate is all there is to tell.
  std::string arithmetic;
  if (const double share = shareOf("share of the dense peak"); share > 0) {
    const double ofRoof = shareOf("share of the roofline");
    arithmetic = fmt::format(
        "{} TFLOP/s, {:.0f} % of the dense peak and {:.0f} % of {}, and ",
        formatFigure(tflops()), 100 * share,
        100 *
            (ofRoof > share ? ofRoof : shareOf("share of the peak that holds")),
        ofRoof > share ? "the roofline" : "what its clock allows");
  }
  return fmt::format(
      "{} {} of {} configs that may run{}. It is predicted to "
      "take {} us: {}{} GB/s of the bytes that must move at least, {:.0f} % of "
      "the DRAM's pins. It is bound by {}.",
      e.subject.config.text(), place, e.ranked,
      e.pruned > 0 ? fmt::format("; {} were pruned", e.pruned) : "",
      formatUs(estimate.totalNs), arithmetic, formatFigure(bandwidth()),
      100 * shareOf("share of the DRAM's pins"), estimate.bound);
}

void SummarySection::print(llvm::raw_ostream &os) const {
  os << e.text << '\n'
     << fmt::format("on {} ({}, {} SMs)\n\n", e.device->name,
                    e.device->archName(), e.device->smCount)
     << wrapText(text());
}

std::string summaryText(const Explanation &e) {
  return SummarySection(e).text();
}

llvm::json::Object SummarySection::toJson() const {
  llvm::json::Object object = estimateJson(e.subject.estimate);
  object["config"] = e.subject.config.text();
  object["rank"] = e.rank < 0 ? llvm::json::Value(nullptr) : e.rank + 1;
  object["predicted_us"] = rounded(e.subject.estimate.totalNs * 1e-3);
  object["tflops"] = rounded(tflops());
  object["gb_per_s"] = rounded(bandwidth());
  object["dram_share"] = rounded(shareOf("share of the DRAM's pins"), 4);
  object["peak_share"] = rounded(shareOf("share of the dense peak"), 4);
  object["roofline_share"] = rounded(shareOf("share of the roofline"), 4);
  return object;
}

void DerivationSection::print(llvm::raw_ostream &os) const {
  constexpr int kWidth = 78;
  auto line = [&](llvm::StringRef lead, llvm::StringRef text) {
    if (!text.empty())
      os << wrapText((lead + text).str(), kWidth, "      ");
  };
  int number = 0;
  llvm::StringRef section;
  for (const DerivationStep &step : steps) {
    if (step.section != section)
      os << (number == 0 ? "" : "\n") << step.section << '\n';
    section = step.section;
    ++number;
    std::string formula = wrapText(steps.formulaText(number), kWidth, "    ");
    formula.replace(0, 3, fmt::format("{:3}", number));
    os << formula;
    line("", step.words.note);
    line("-> ", step.words.verdict);
  }
}

//===----------------------------------------------------------------------===//
// Alternatives
//===----------------------------------------------------------------------===//

std::string NeighbourSection::verdict(const Neighbour &neighbour) const {
  if (neighbour.rejection && neighbour.rejection->hasFigures())
    return neighbour.rejection->text();
  if (neighbour.rejection)
    return neighbour.rejection->text() + ": does not go with the other knobs";
  constexpr double kDigits = 0.1; // that are shown, without a sign of 0
  const double own = e.subject.estimate.totalNs;
  const double ns = neighbour.estimate.totalNs;
  std::string text =
      fmt::format("{} us, {:+.1f} %", formatUs(ns),
                  kDigits * std::round(100 / kDigits * (ns / own - 1)) + 0.0);
  constexpr double kVisible = 1e-3;
  constexpr size_t kTold = 2; // one may give back a part of the other
  llvm::StringRef separator = ": ";
  for (const Addend &change :
       llvm::ArrayRef(neighbour.changes).take_front(kTold))
    if (std::abs(change.ns) > kVisible * own) {
      text += fmt::format("{}{} {:+.2f} us", separator, change.name,
                          change.ns * 1e-3);
      separator = ", ";
    }
  return neighbour.isInSpace ? text : text + " (not in the space)";
}

void NeighbourSection::print(llvm::raw_ostream &os) const {
  Table table({"knob", ">here", ">instead", "what it breaks or costs"});
  for (const Neighbour &neighbour : e.neighbours)
    table.addRow({neighbour.knob, fmt::format("{}", neighbour.from),
                  fmt::format("{}", neighbour.to), verdict(neighbour)});
  if (!table.empty())
    table.print(os);
}

llvm::json::Object NeighbourSection::toJson() const {
  llvm::json::Array rows;
  for (const Neighbour &neighbour : e.neighbours) {
    llvm::json::Object row{{"knob", neighbour.knob},
                           {"from", neighbour.from},
                           {"to", neighbour.to},
                           {"config", neighbour.config.text()},
                           {"in_space", neighbour.isInSpace},
                           {"verdict", verdict(neighbour)}};
    if (neighbour.rejection)
      row["rejected"] = neighbour.rejection->toJson();
    else
      row["predicted_us"] = rounded(neighbour.estimate.totalNs * 1e-3);
    rows.push_back(std::move(row));
  }
  return llvm::json::Object{{"rows", std::move(rows)}};
}

/// The subject where something changes: its time, or why it cannot run.
static std::string subjectText(const ChangedChoice &choice) {
  return choice.rejection ? choice.rejection->text()
                          : formatUs(choice.subject.totalNs) + " us";
}

void ChangeSection::print(llvm::raw_ostream &os) const {
  Table table({"if", "first choice", ">us", "bound", "this config"});
  for (const ChangedChoice &choice : e.changed) {
    const bool isSame = choice.first.tmpl == e.subject.tmpl &&
                        choice.first.config == e.subject.config;
    table.addRow({choice.change,
                  isSame ? "the same" : choice.first.config.text(),
                  formatUs(choice.first.estimate.totalNs),
                  choice.first.estimate.bound.str(), subjectText(choice)});
  }
  if (!table.empty())
    table.print(os);
}

llvm::json::Object ChangeSection::toJson() const {
  llvm::json::Array rows;
  for (const ChangedChoice &choice : e.changed) {
    llvm::json::Object row{
        {"change", choice.change},
        {"config", choice.first.config.text()},
        {"predicted_us", rounded(choice.first.estimate.totalNs * 1e-3)},
        {"bound", choice.first.estimate.bound}};
    if (choice.rejection)
      row["rejected"] = choice.rejection->toJson();
    else
      row["this_us"] = rounded(choice.subject.totalNs * 1e-3);
    rows.push_back(std::move(row));
  }
  return llvm::json::Object{{"rows", std::move(rows)}};
}

//===----------------------------------------------------------------------===//
// The rival
//===----------------------------------------------------------------------===//

std::vector<RivalSection::Row> RivalSection::rows() const {
  std::vector<Row> rows;
  const Derivation &subject = e.derivation, &rival = e.rivalDerivation;
  // Templates of another kind may have terms of their own.
  for (const auto &[name, ns] : subject.changesTo(rival)) {
    const double own = subject.addendOf(name);
    rows.push_back({name.str(), "ns", own, own + ns, true});
  }
  for (const DerivationStep &step : subject)
    if (const DerivationStep *other = rival.find(step.name());
        other && other->value() != step.value() && step.name() != "total" &&
        llvm::none_of(rows,
                      [&](const Row &r) { return r.name == step.name(); }))
      rows.push_back({step.name().str(), step.unit().str(), step.value(),
                      other->value(), false});
  return rows;
}

std::string RivalSection::verdict() const {
  double own = e.subject.estimate.totalNs, other = e.rival->estimate.totalNs;
  std::string name =
      e.rank == 0 ? fmt::format("The runner-up of another kind, number {},",
                                e.rivalRank + 1)
                  : "The first choice";
  std::string text = fmt::format(
      "{} {} is predicted to take {} us, {:.1f} % {}.", name,
      e.rival->config.text(), formatUs(other), 100 * std::abs(other / own - 1),
      other < own ? "less" : "more");
  if (!e.rival->candidateClass.ranksByTime &&
      std::max(own, other) <= kEstimateTie * std::min(own, other))
    text += fmt::format(" Within {:.0f} % the model calls it a tie: the "
                        "classes' ranks and the order of the space decide.",
                        100 * (kEstimateTie - 1));
  else if ((other < own) == (e.rank == 0))
    text += " The best of each class goes before the second best of any.";
  const Row *largest = nullptr;
  std::vector<Row> all = rows();
  for (const Row &row : all)
    if (row.isAddend && (row.rival - row.subject) * (other - own) > 0 &&
        (!largest || std::abs(row.rival - row.subject) >
                         std::abs(largest->rival - largest->subject)))
      largest = &row;
  if (!largest)
    return text;
  const double change = largest->rival - largest->subject;
  constexpr double kNoise = 1.01;
  const bool isPart = std::abs(change) <= kNoise * std::abs(other - own);
  text += fmt::format(" {} {}: {:+.2f} us{}.",
                      isPart ? "Most of the difference is"
                             : "The largest change is",
                      largest->name, change * 1e-3,
                      isPart ? "" : ", of which others give back a part");
  return text;
}

void RivalSection::print(llvm::raw_ostream &os) const {
  os << wrapText(verdict()) << '\n';
  Table table({"term", "unit", ">this", e.rank == 0 ? ">runner-up" : ">first",
               ">difference"});
  auto add = [&](llvm::StringRef name, llvm::StringRef unit, double own,
                 double other, bool isAddend) {
    // Steps take nanoseconds, the whole microseconds.
    const bool inUs = unit == "ns" && isAddend;
    double scale = inUs ? 1e-3 : 1;
    double difference = (other - own) * scale;
    constexpr double kNoise = 1e-9; // of sums
    table.addRow({name.str(), inUs ? "us" : unit.str(),
                  formatFigure(own * scale), formatFigure(other * scale),
                  std::abs(difference) < kNoise * std::abs(own * scale)
                      ? ""
                      : fmt::format("{}{}", difference > 0 ? "+" : "",
                                    formatFigure(difference))});
  };
  std::vector<Row> all = rows();
  auto addAll = [&](bool addends) {
    for (const Row &row : all)
      if (row.isAddend == addends && (row.subject != 0 || row.rival != 0))
        add(row.name, row.unit, row.subject, row.rival, addends);
  };
  addAll(true);
  add("total", "ns", e.subject.estimate.totalNs, e.rival->estimate.totalNs,
      true);
  if (llvm::any_of(all, [](const Row &row) { return !row.isAddend; }))
    table.addRow({"of which", "", "", "", ""});
  addAll(false);
  table.print(os);
}

llvm::json::Object RivalSection::toJson() const {
  llvm::json::Object differences;
  for (const Row &row : rows())
    differences[row.unit.empty() ? row.name : row.name + "_" + row.unit] =
        rounded(row.rival - row.subject);
  llvm::json::Object object = estimateJson(e.rival->estimate);
  object["config"] = e.rival->config.text();
  object["rank"] = e.rivalRank + 1;
  object["predicted_us"] = rounded(e.rival->estimate.totalNs * 1e-3);
  object["difference"] = std::move(differences);
  object["verdict"] = verdict();
  return object;
}

void ExplanationReport::print(llvm::raw_ostream &os) const {
  if (e.rejection) {
    os << e.text << '\n'
       << fmt::format("on {} ({})\n\n", e.device->name, e.device->archName())
       << wrapText(fmt::format("{} cannot run: {}", e.subject.config.text(),
                               e.rejection->text()));
    return;
  }
  SummarySection(e).print(os);
  os << '\n';
  DerivationSection(e.derivation).print(os);
  os << '\n';
  NeighbourSection(e).print(os);
  os << '\n';
  ChangeSection(e).print(os);
  if (e.rival) {
    os << '\n';
    RivalSection(e).print(os);
  }
  if (e.generic)
    os << '\n' << wrapText(e.generic->text());
  if (e.portfolio) {
    os << '\n';
    PortfolioSection(*e.portfolio, *e.problem, *e.device).print(os);
  }
}

llvm::json::Object ExplanationReport::toJson() const {
  llvm::json::Object object{{"problem", e.text},
                            {"device", e.device->name},
                            {"arch", e.device->archName()},
                            {"ranked", static_cast<int64_t>(e.ranked)},
                            {"pruned", static_cast<int64_t>(e.pruned)}};
  if (e.rejection) {
    object["config"] = e.subject.config.text();
    object["rejected"] = e.rejection->toJson();
    return object;
  }
  object["choice"] = SummarySection(e).toJson();
  object["derivation"] = DerivationSection(e.derivation).toJson();
  object["neighbours"] = NeighbourSection(e).toJson();
  object["changes"] = ChangeSection(e).toJson();
  if (e.rival)
    object["rival"] = RivalSection(e).toJson();
  if (e.generic)
    object["generic"] = e.generic->toJson();
  if (e.portfolio)
    object["portfolio"] =
        PortfolioSection(*e.portfolio, *e.problem, *e.device).toJson();
  return object;
}

} // namespace kiln
