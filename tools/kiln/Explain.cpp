//===- Explain.cpp - kiln explain: why this config ------------------------===//
//
// The derivation of one config's estimate, step by step, and what sets it apart
// from the runner-up, term by term.
//
//===----------------------------------------------------------------------===//
#include "Families/Families.h"
#include "Kernel/ClassicRanking.h"
#include "Kernel/GenericChoice.h"
#include "Kernel/ModelKind.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "cli/Report.h"
#include "kiln/Commands.h"
#include "kiln/KernelSection.h"
#include "kiln/PortfolioSection.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace kiln::cli {

namespace {

/// Everything that is reported about one problem.
struct Explanation {
  const Case *which = nullptr;
  const DeviceModel *device = nullptr;
  ModelKind model = ModelKind::Main;
  Allowance allowance;
  size_t ranked = 0, pruned = 0;
  /// The config at hand; its rank from 0, or -1 if it is not in the space.
  Candidate subject;
  int rank = -1;
  std::optional<Rejection> rejection; ///< it cannot run
  Derivation derivation;
  /// The model that estimates it: not all templates are known to all models.
  ModelKind subjectModel = ModelKind::Main;
  /// The best config of another template, tile, split of k or number of stages,
  /// or the first choice where the subject is another; if any.
  std::optional<Candidate> rival;
  int rivalRank = -1;
  std::optional<GenericChoice> generic; ///< where the first choice is
  /// What the cache has for all values of the dynamic extent, if anything.
  std::optional<Portfolio> portfolio;
};

/// A time against work: what it means for the chip.
class SummarySection final : public Report {
public:
  explicit SummarySection(const Explanation &e) : e(e) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  double tflops() const {
    return e.which->named.family->flops(e.which->named.problem) /
           e.subject.estimate.totalNs * 1e-3;
  }
  double bandwidth() const {
    return e.which->named.family->compulsoryBytes(e.which->named.problem) /
           e.subject.estimate.totalNs;
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

/// The command's whole answer.
class ExplainReport final : public Report {
public:
  explicit ExplainReport(const Explanation &e) : e(e) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  const Explanation &e;
};

} // namespace

void SummarySection::print(llvm::raw_ostream &os) const {
  const Estimate &estimate = e.subject.estimate;
  os << e.which->text() << '\n'
     << fmt::format("on {} ({}, {} SMs), {} model\n\n", e.device->name,
                    e.device->archName(), e.device->smCount, nameOf(e.model));
  std::string place = e.rank == 0  ? "is the first choice"
                      : e.rank > 0 ? fmt::format("is number {}", e.rank + 1)
                                   : std::string("is not in the space");
  // Where memory must set the pace, its rate is all there is to tell.
  std::string arithmetic =
      isMemoryBound(*e.which)
          ? ""
          : fmt::format("{} TFLOP/s, and ", formatFigure(tflops()));
  std::string text = fmt::format(
      "{} {} of {} configs that may run; {} were pruned. It is predicted to "
      "take {} us: {}{} GB/s of the bytes that must move at least, {:.0f} % of "
      "what DRAM gives. It is bound by {}.",
      e.subject.config.text(), place, e.ranked, e.pruned,
      formatUs(estimate.totalNs), arithmetic, formatFigure(bandwidth()),
      100 * bandwidth() / e.device->dramGBs, estimate.bound);
  if (e.subjectModel != e.model)
    text += fmt::format(" The {} model knows nothing like {}; its estimate is "
                        "the {} model's.",
                        nameOf(e.model), e.subject.tmpl->name(),
                        nameOf(e.subjectModel));
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

void ExplainReport::print(llvm::raw_ostream &os) const {
  if (e.rejection) {
    os << e.which->text() << '\n'
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
    PortfolioSection(*e.portfolio, e.which->named.problem, *e.device).print(os);
  }
}

llvm::json::Object ExplainReport::toJson() const {
  llvm::json::Object object{{"problem", e.which->text()},
                            {"device", e.device->name},
                            {"arch", e.device->archName()},
                            {"model", nameOf(e.model)},
                            {"ranked", static_cast<int64_t>(e.ranked)},
                            {"pruned", static_cast<int64_t>(e.pruned)}};
  if (e.rejection) {
    object["config"] = e.subject.config.text();
    object["rejected"] = e.rejection->toJson();
    return object;
  }
  object["choice"] = SummarySection(e).toJson();
  object["estimated_by"] = nameOf(e.subjectModel);
  object["derivation"] = DerivationSection(e.derivation).toJson();
  if (e.rival)
    object["rival"] = RivalSection(e).toJson();
  if (e.generic)
    object["generic"] = e.generic->toJson();
  if (e.portfolio)
    object["portfolio"] =
        PortfolioSection(*e.portfolio, e.which->named.problem, *e.device)
            .toJson();
  return object;
}

/// Makes \p config the subject, wherever it stands in \p space.
static void setSubject(Explanation &e, const Space &space,
                       KernelFamily::NamedConfig config) {
  for (auto [i, candidate] : llvm::enumerate(space.ranked))
    if (candidate.tmpl == config.tmpl && candidate.config == config.config) {
      e.subject = candidate;
      e.rank = static_cast<int>(i);
      return;
    }
  const Problem &problem = e.which->named.problem;
  e.subject.tmpl = config.tmpl;
  e.subject.config = std::move(config.config);
  e.rejection = e.subject.tmpl->pruneWithin(e.allowance, problem,
                                            e.subject.config, *e.device);
  if (!e.rejection)
    e.subject.estimate = estimateCandidate(*e.which->named.family, problem,
                                           e.subject, *e.device, e.model);
}

/// What a reader asks after in a config with tiles: the tile, whichever way
/// round, the split of k and the number of stages.
static auto kindOf(const ClassicConfig &config) {
  return std::tuple(std::max(config.blockM, config.blockN),
                    std::min(config.blockM, config.blockN), config.blockK,
                    config.splitK, config.numStages);
}

/// Whether two configs are of another template or kind; where a template has no
/// tiles, of another class. The rest, warps, clusters, rasters or hints, makes
/// twins.
static bool isAnotherKind(const Candidate &a, const Candidate &b) {
  if (a.tmpl != b.tmpl)
    return true;
  auto tileA = classicConfigOf(*a.tmpl, a.config);
  auto tileB = classicConfigOf(*b.tmpl, b.config);
  return tileA && tileB ? kindOf(*tileA) != kindOf(*tileB) : !a.sharesClass(b);
}

/// Chooses what the subject is compared with: its rank in \p space, or -1. Of
/// the first choice that is the best of another kind whose time differs at all;
/// one that the model cannot tell apart teaches nothing.
static int chooseRival(const Explanation &e, const Space &space) {
  constexpr double kVisible = 1e-3;
  if (e.rank != 0)
    return space.ranked.empty() ? -1 : 0;
  double own = e.subject.estimate.totalNs;
  int other = space.ranked.size() > 1 ? 1 : -1; // where there are but twins
  bool isTwin = true;
  for (auto [i, candidate] : llvm::enumerate(space.ranked)) {
    if (!isAnotherKind(candidate, e.subject))
      continue;
    if (std::abs(candidate.estimate.totalNs - own) > kVisible * own)
      return static_cast<int>(i);
    if (std::exchange(isTwin, false))
      other = static_cast<int>(i);
  }
  return other;
}

static llvm::Error fillExplanation(Explanation &e,
                                   const std::optional<std::string> &named) {
  const KernelFamily &family = *e.which->named.family;
  const Problem &problem = e.which->named.problem;
  if (family.isEmpty(problem))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: there is nothing to compute", problem.text());
  auto space = exploreSpace(family, problem, *e.device, e.model,
                            {.keepRejected = true, .allowance = e.allowance});
  if (!space)
    return space.takeError();
  e.ranked = space->ranked.size();
  e.pruned = space->rejected.size();
  if (named) {
    auto config = family.parseConfig(*named);
    if (!config)
      return config.takeError();
    setSubject(e, *space, std::move(*config));
  } else {
    e.subject = space->ranked.front();
    e.rank = 0;
  }
  if (e.rejection)
    return llvm::Error::success();
  e.subject.fillTerms(problem, *e.device);
  e.subjectModel = modelOf(family, problem, e.subject, e.model);
  e.derivation =
      explainCandidate(family, problem, e.subject, *e.device, e.model);
  e.rivalRank = chooseRival(e, *space);
  if (e.rivalRank >= 0) {
    e.rival = space->ranked[static_cast<size_t>(e.rivalRank)];
    e.rival->fillTerms(problem, *e.device);
  }
  if (e.rank == 0 && e.model == ModelKind::Main)
    e.generic = explainGeneric(family, problem, *e.device, *space, e.allowance);
  return llvm::Error::success();
}

static llvm::Expected<int> runExplain(const ParsedOptions &options) {
  const Registry families = makeBuiltinRegistry();
  auto kernel = findKernel(options.operands(), families);
  if (!kernel)
    return kernel.takeError();
  if (*kernel)
    return emit(**kernel, options.wantsJson());
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  const auto &[environment, registry, model, cases, allowance] = *subject;
  if (cases.size() != 1)
    return makeError(ErrorCode::InvalidArgument,
                     "explain: {} problems are given, one is explained",
                     cases.size());
  auto device = chooseDevice(options, environment);
  if (!device)
    return device.takeError();
  Explanation explanation;
  explanation.which = &cases.front();
  explanation.device = &device->model();
  explanation.model = model;
  explanation.allowance = allowance;
  if (llvm::Error error =
          fillExplanation(explanation, options.value("--config")))
    return error;
  auto portfolio = findPortfolio(
      options, environment, *explanation.which->named.family,
      explanation.which->named.problem, *explanation.device, allowance);
  if (!portfolio)
    return portfolio.takeError();
  explanation.portfolio = std::move(*portfolio);
  return emit(ExplainReport(explanation), options.wantsJson());
}

static constexpr OptionSpec kExplainOwnOptions[] = {
    {"--config", "TEXT", "explain this config instead of the first choice"},
};
static constexpr auto kExplainOptions = joinOptions(
    kSubjectOptions, kExplainOwnOptions, kAllowanceOptions, kCacheOptions);

const CommandSpec kExplainCommand = {
    "explain",
    "PROBLEM|KERNEL_NAME",
    "derive the choice for one problem: walls, intensities, waves, bound",
    "Tells step by step how the predicted time of the first choice comes "
    "about, and why it is not the best config of another template, tile, split "
    "of k or number of stages. Where memory must set the pace, "
    "that is how many bytes are in flight of how many must be. If the cache "
    "has a portfolio for a range of the problem, that comes last: its kernels, "
    "where they were measured, and which one this value takes. Needs no GPU "
    "with --device NAME. Of a kernel's name, as profilers show it, tells "
    "family, template and knobs.\n  kiln explain PROBLEM --device h200-sxm",
    kExplainOptions,
    runExplain,
};

} // namespace kiln::cli
