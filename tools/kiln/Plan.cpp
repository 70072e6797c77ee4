//===- Plan.cpp - kiln plan: pruned and ranked candidates -----------------===//
#include "Kernel/GenericChoice.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "cli/Report.h"
#include "cli/Stopwatch.h"
#include "kiln/Commands.h"

#include <map>
#include <optional>

namespace kiln::cli {

namespace {

/// The result of planning one problem.
struct PlannedCase {
  const Case *which = nullptr;
  Space space;
  /// One for each candidate that is shown.
  std::vector<Derivation> derivations;
  std::optional<GenericChoice> generic; ///< where the first choice is
  double elapsedMs = 0;
};

/// The parts of a space that are reported.
struct Shown {
  unsigned top = 0; ///< candidates
  bool walls = false, pruned = false;
};

/// Candidates and pruned configs of one problem.
class SpaceReport final : public Report {
public:
  SpaceReport(const PlannedCase &planned, const Shown &shows)
      : planned(planned), shows(shows) {
    for (const Rejected &rejected : planned.space.rejected)
      ++countByReason[nameOf(rejected.rejection.reason)];
  }

  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  llvm::ArrayRef<Candidate> shown() const {
    return llvm::ArrayRef<Candidate>(planned.space.ranked)
        .take_front(shows.top);
  }
  double flops() const {
    return planned.which->named.family->flops(planned.which->named.problem);
  }
  double bytes() const {
    return planned.which->named.family->compulsoryBytes(
        planned.which->named.problem);
  }
  void printRanked(llvm::raw_ostream &os) const;
  void printWalls(llvm::raw_ostream &os) const;
  void printPruned(llvm::raw_ostream &os) const;

  const PlannedCase &planned;
  const Shown shows;
  std::map<llvm::StringRef, size_t> countByReason;
};

/// All problems of a command.
class PlanReport final : public Report {
public:
  PlanReport(const DeviceModel &device, const Subject &subject)
      : device(device), allowance(subject.allowance) {}
  void add(SpaceReport report) { sections.push_back(std::move(report)); }

  void print(llvm::raw_ostream &os) const override {
    os << fmt::format("{} ({})\n", device.name, device.archName());
    for (const SpaceReport &section : sections) {
      os << '\n';
      section.print(os);
    }
  }
  llvm::json::Object toJson() const override {
    llvm::json::Array problems;
    for (const SpaceReport &section : sections)
      problems.push_back(section.toJson());
    llvm::json::Object object{{"device", device.name},
                              {"arch", device.archName()},
                              {"problems", std::move(problems)}};
    if (allowance.isLimited())
      object["workspace_limit_bytes"] =
          static_cast<int64_t>(allowance.workspaceBytes);
    return object;
  }

private:
  const DeviceModel &device;
  Allowance allowance;
  std::vector<SpaceReport> sections;
};

} // namespace

void SpaceReport::print(llvm::raw_ostream &os) const {
  os << planned.which->text() << '\n';
  const Space &space = planned.space;
  if (space.ranked.empty() && space.rejected.empty()) {
    os << "nothing to compute\n";
    return;
  }
  os << fmt::format("{} configs: {} ranked, {} pruned",
                    space.ranked.size() + space.rejected.size(),
                    space.ranked.size(), space.rejected.size());
  const char *separator = " (";
  for (const auto &[reason, count] : countByReason) {
    os << fmt::format("{}{} {}", separator, reason, count);
    separator = ", ";
  }
  os << (countByReason.empty() ? "" : ")")
     << fmt::format("; {:.2f} ms\n", planned.elapsedMs);
  if (shows.walls)
    printWalls(os);
  else
    printRanked(os);
  if (planned.generic)
    os << planned.generic->text() << '\n';
  if (shows.pruned)
    printPruned(os);
}

/// Terms that add up to the time.
static std::string mainTerms(const Derivation &derivation) {
  std::string text;
  for (const auto &[name, ns] : derivation.addends())
    if (ns > 0)
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", name, formatUs(ns));
  return text;
}

/// The walls that a table compares: names of steps, and its headings.
static constexpr struct {
  llvm::StringLiteral step, heading;
} kWalls[] = {{"intensity of the tile", ">flop/B"},
              {"shared memory", ">shared B"},
              {"registers", ">registers"},
              {"blocks of an SM", ">blocks"},
              {"S_min", ">S_min"},
              {"bytes in flight", ">in flight B"},
              {"bytes to have in flight", ">needed B"}};

/// The value of each wall, or "-".
static std::vector<std::string> wallsOf(const Derivation &derivation) {
  std::vector<std::string> cells;
  for (const auto &wall : kWalls) {
    const DerivationStep *step = derivation.find(wall.step);
    cells.push_back(step ? formatFigure(step->value()) : "-");
  }
  return cells;
}

void SpaceReport::printRanked(llvm::raw_ostream &os) const {
  // The rate that tells how good a candidate is.
  const bool inBytes = isMemoryBound(*planned.which);
  Table table({">rank", "config", ">predicted us",
               inBytes ? ">GB/s" : ">TFLOP/s", "bound", "terms in us"});
  for (auto [i, candidate] : llvm::enumerate(shown())) {
    const double ns = candidate.estimate.totalNs;
    table.addRow(
        {fmt::format("{}", i + 1), candidate.config.text(), formatUs(ns),
         formatFigure(inBytes ? bytes() / ns : flops() / ns * 1e-3),
         candidate.estimate.bound.str(), mainTerms(planned.derivations[i])});
  }
  table.print(os);
}

/// Twins, which the model cannot tell apart, share a row.
void SpaceReport::printWalls(llvm::raw_ostream &os) const {
  llvm::SmallVector<llvm::StringRef, 16> headings{">rank", "config",
                                                  ">predicted us"};
  for (const auto &wall : kWalls)
    headings.push_back(wall.heading);
  headings.push_back("twins");
  Table table(headings);
  std::vector<std::string> row;
  const Candidate *first = nullptr; ///< of its twins
  size_t twins = 0;
  const auto finish = [&] {
    if (row.empty())
      return;
    row.push_back(twins == 0 ? "" : fmt::format("+ {}", twins));
    table.addRow(row);
  };
  for (auto [i, candidate] : llvm::enumerate(shown())) {
    std::vector<std::string> next{fmt::format("{}", i + 1),
                                  candidate.config.text(),
                                  formatUs(candidate.estimate.totalNs)};
    llvm::append_range(next, wallsOf(planned.derivations[i]));
    const bool isTwin =
        first && first->tmpl == candidate.tmpl &&
        first->orderingNs() == candidate.orderingNs() &&
        std::equal(next.begin() + 2, next.end(), row.begin() + 2);
    if (isTwin) {
      ++twins;
      continue;
    }
    finish();
    first = &candidate;
    row = std::move(next);
    twins = 0;
  }
  finish();
  table.print(os);
}

void SpaceReport::printPruned(llvm::raw_ostream &os) const {
  Table table({"pruned", "reason"});
  for (const Rejected &rejected : planned.space.rejected)
    table.addRow({rejected.config.text(), rejected.rejection.text()});
  if (!table.empty()) {
    os << '\n';
    table.print(os);
  }
}

llvm::json::Object SpaceReport::toJson() const {
  llvm::json::Array candidates;
  for (auto [i, candidate] : llvm::enumerate(shown())) {
    const Derivation &derivation = planned.derivations[i];
    llvm::json::Object terms, walls;
    for (const auto &[name, ns] : derivation.addends())
      terms[(name + "_ns").str()] = ns;
    for (const auto &wall : kWalls)
      if (const DerivationStep *step = derivation.find(wall.step))
        walls[wall.step] = step->value();
    llvm::json::Object row{{"rank", static_cast<int64_t>(i + 1)},
                           {"total_ns", candidate.estimate.totalNs},
                           {"bound", candidate.estimate.bound},
                           {"terms", std::move(terms)},
                           {"walls", std::move(walls)}};
    row["config"] = candidate.config.text();
    row["template"] = candidate.tmpl->name();
    row["knobs"] = candidate.config.toJson();
    row["predicted_us"] = rounded(candidate.estimate.totalNs * 1e-3);
    row["gb_per_s"] = rounded(bytes() / candidate.estimate.totalNs);
    candidates.push_back(std::move(row));
  }
  llvm::json::Object byReason;
  for (const auto &[reason, count] : countByReason)
    byReason[reason] = static_cast<int64_t>(count);
  llvm::json::Object pruned{
      {"count", static_cast<int64_t>(planned.space.rejected.size())},
      {"by_reason", std::move(byReason)}};
  if (shows.pruned) {
    llvm::json::Array configs;
    for (const Rejected &rejected : planned.space.rejected) {
      llvm::json::Object row = rejected.rejection.toJson();
      row["config"] = rejected.config.text();
      configs.push_back(std::move(row));
    }
    pruned["configs"] = std::move(configs);
  }
  llvm::json::Object object{
      {"name", planned.which->name},
      {"problem", planned.which->text()},
      {"ranked", static_cast<int64_t>(planned.space.ranked.size())},
      {"candidates", std::move(candidates)},
      {"pruned", std::move(pruned)},
      {"elapsed_ms", rounded(planned.elapsedMs, 3)}};
  if (planned.generic)
    object["generic"] = planned.generic->toJson();
  return object;
}

/// Plans \p which; the first \p top candidates are derived, untimed.
static llvm::Expected<PlannedCase> planCase(const Case &which,
                                            const DeviceModel &device,
                                            unsigned top,
                                            const Allowance &allowance) {
  PlannedCase planned;
  planned.which = &which;
  const KernelFamily &family = *which.named.family;
  if (family.isEmpty(which.named.problem))
    return planned;
  const Stopwatch watch;
  auto space = exploreSpace(family, which.named.problem, device,
                            {.keepRejected = true, .allowance = allowance});
  if (!space)
    return space.takeError();
  planned.elapsedMs = watch.ms();
  planned.space = std::move(*space);
  planned.generic = explainGeneric(family, which.named.problem, device,
                                   planned.space, allowance);
  for (auto [i, candidate] : llvm::enumerate(planned.space.ranked))
    if (i < top)
      planned.derivations.push_back(
          candidate.derive(which.named.problem, device));
  return planned;
}

static llvm::Expected<int> runPlan(const ParsedOptions &options) {
  auto top = options.number("--top", 10);
  if (!top)
    return top.takeError();
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  auto device = chooseDevice(options, subject->environment);
  if (!device)
    return device.takeError();

  std::vector<PlannedCase> planned;
  for (const Case &which : subject->cases) {
    auto one = planCase(which, device->model(), *top, subject->allowance);
    if (!one)
      return one.takeError();
    planned.push_back(std::move(*one));
  }
  PlanReport report(device->model(), *subject);
  for (const PlannedCase &one : planned)
    report.add(SpaceReport(one, {.top = *top,
                                 .walls = options.has("--walls"),
                                 .pruned = options.has("--pruned")}));
  return emit(report, options.wantsJson());
}

static constexpr OptionSpec kPlanOwnOptions[] = {
    {"--top", "N", "show the N best candidates; default 10"},
    {"--walls", nullptr,
     "show each candidate's walls: intensity, shared memory, registers, S_min"},
    {"--pruned", nullptr, "list every pruned config with its reason"},
};
static constexpr auto kPlanOptions = joinOptions(
    kSubjectOptions, kPlanOwnOptions, kAllowanceOptions, kCacheOptions);

const CommandSpec kPlanCommand = {
    "plan",
    "PROBLEM...",
    "show the pruned and ranked candidates of problems",
    "Enumerates the configs of every template, prunes those that break a hard "
    "limit and ranks the rest by predicted time. Unless told otherwise it "
    "allows the workspace that an engine allows. Where a generic kernel is "
    "the first choice, a line says which limits keep others out, and which "
    "similar problem they take. Needs no GPU with --device NAME.\n  kiln plan "
    "PROBLEM --device h200-sxm",
    kPlanOptions,
    runPlan,
};

} // namespace kiln::cli
