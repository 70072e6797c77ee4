//===- ExplanationReport.cpp ----------------------------------------------===//
#include "Choice/ExplanationReport.h"

#include "Choice/PortfolioReport.h"
#include "Kernel/MemoryBound.h"

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

private:
  double tflops() const {
    return e.family->flops(*e.problem) / e.subject.estimate.totalNs * 1e-3;
  }
  double bandwidth() const {
    return e.family->compulsoryBytes(*e.problem) / e.subject.estimate.totalNs;
  }
  const Explanation &e;
};

/// Walls, intensities, occupancy, waves, floors, total: numbered steps.
class DerivationSection final : public Report {
public:
  explicit DerivationSection(const Derivation &steps) : steps(steps) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  const Derivation &steps;
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

void SummarySection::print(llvm::raw_ostream &os) const {
  const Estimate &estimate = e.subject.estimate;
  os << e.text << '\n'
     << fmt::format("on {} ({}, {} SMs)\n\n", e.device->name,
                    e.device->archName(), e.device->smCount);
  std::string place = e.rank == 0  ? "is the first choice"
                      : e.rank > 0 ? fmt::format("is number {}", e.rank + 1)
                                   : std::string("is not in the space");
  // Where memory must set the pace, its rate is all there is to tell.
  std::string arithmetic =
      isMemoryBound(*e.family, *e.problem)
          ? ""
          : fmt::format("{} TFLOP/s, and ", formatFigure(tflops()));
  std::string text = fmt::format(
      "{} {} of {} configs that may run; {} were pruned. It is predicted to "
      "take {} us: {}{} GB/s of the bytes that must move at least, {:.0f} % of "
      "what DRAM gives. It is bound by {}.",
      e.subject.config.text(), place, e.ranked, e.pruned,
      formatUs(estimate.totalNs), arithmetic, formatFigure(bandwidth()),
      100 * bandwidth() / e.device->dramGBs, estimate.bound);
  os << wrapText(text);
}

llvm::json::Object SummarySection::toJson() const {
  llvm::json::Object object = e.subject.estimate.toJson();
  object["config"] = e.subject.config.text();
  object["rank"] = e.rank < 0 ? llvm::json::Value(nullptr) : e.rank + 1;
  object["predicted_us"] = rounded(e.subject.estimate.totalNs * 1e-3);
  object["tflops"] = rounded(tflops());
  object["gb_per_s"] = rounded(bandwidth());
  object["dram_share"] = rounded(bandwidth() / e.device->dramGBs, 4);
  return object;
}

void DerivationSection::print(llvm::raw_ostream &os) const {
  auto line = [&](llvm::StringRef lead, llvm::StringRef text) {
    if (!text.empty())
      os << wrapText((lead + text).str(), 78, "    ");
  };
  int number = 0;
  for (const DerivationStep &step : steps) {
    os << fmt::format("{:2} {}\n", ++number, step.title);
    line("", step.formula);
    line("= ", calculationText(step));
    line("-> ", step.verdict);
  }
}

llvm::json::Object DerivationSection::toJson() const { return steps.toJson(); }

std::vector<RivalSection::Row> RivalSection::rows() const {
  std::vector<Row> rows;
  const Estimate &subject = e.subject.estimate, &rival = e.rival->estimate;
  for (const EstimateTerm &term : subject.terms)
    rows.push_back({term.name.str(), term.unit.str(), term.value,
                    rival.term(term.name), term.isAddend});
  // Templates of another kind may have terms of their own.
  for (const EstimateTerm &term : rival.terms) {
    auto isSame = [&](const Row &row) { return row.name == term.name; };
    auto known = llvm::find_if(rows, isSame);
    if (known == rows.end())
      rows.push_back(
          {term.name.str(), term.unit.str(), 0, term.value, term.isAddend});
    else
      known->isAddend |= term.isAddend;
  }
  std::stable_partition(rows.begin(), rows.end(),
                        [](const Row &row) { return row.isAddend; });
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
  if (largest)
    text +=
        fmt::format(" Most of the difference is {}: {:+.2f} us.", largest->name,
                    (largest->rival - largest->subject) * 1e-3);
  return text;
}

void RivalSection::print(llvm::raw_ostream &os) const {
  os << wrapText(verdict()) << '\n';
  Table table({"term", "unit", ">this", e.rank == 0 ? ">runner-up" : ">first",
               ">difference"});
  auto add = [&](llvm::StringRef name, llvm::StringRef unit, double own,
                 double other) {
    // Steps take nanoseconds, the whole microseconds.
    bool inUs = unit == "ns" && !name.starts_with("step");
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
        add(row.name, row.unit, row.subject, row.rival);
  };
  addAll(true);
  add("total", "ns", e.subject.estimate.totalNs, e.rival->estimate.totalNs);
  table.addRow({"of which", "", "", "", ""});
  addAll(false);
  table.print(os);
}

llvm::json::Object RivalSection::toJson() const {
  llvm::json::Object differences;
  for (const Row &row : rows())
    differences[row.unit.empty() ? row.name : row.name + "_" + row.unit] =
        rounded(row.rival - row.subject);
  llvm::json::Object object = e.rival->estimate.toJson();
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
