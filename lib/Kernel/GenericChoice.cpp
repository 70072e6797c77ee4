//===- GenericChoice.cpp --------------------------------------------------===//
#include "Kernel/GenericChoice.h"

#include "Kernel/Sizes.h"
#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace kiln {

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

/// The distance of the figure of \p rejection from the limit, as a factor;
/// infinite if the limit is not a number.
static double distance(const Rejection &rejection) {
  if (!rejection.allowed.empty() || rejection.value <= 0 ||
      rejection.limit <= 0)
    return INFINITY;
  return std::max(rejection.value / rejection.limit,
                  rejection.limit / rejection.value);
}

/// Returns the most telling of the rejections of one template. A config that
/// only its workspace forbids passes all other limits, so it comes first.
/// Otherwise it is the reason that most configs have, with the figure that is
/// nearest to its limit.
static const Rejection *mostTelling(llvm::ArrayRef<const Rejection *> all) {
  std::map<PruneReason, size_t> counts;
  for (const Rejection *one : all)
    ++counts[one->reason];
  auto placeOf = [&](const Rejection *one) {
    const bool isLast = one->reason == PruneReason::Workspace;
    // Its reason is a better config, and not a limit.
    const bool isOfOthers = one->reason == PruneReason::Dominated;
    return std::tuple(isLast, !isOfOthers, counts[one->reason],
                      -distance(*one));
  };
  const Rejection *best = nullptr;
  for (const Rejection *one : all)
    if (!best || placeOf(best) < placeOf(one))
      best = one;
  return best;
}

std::string TemplateLimit::text() const {
  if (rejection)
    return fmt::format("{}: {}", tmpl->name(), rejection->text());
  return fmt::format("{}: {:.1f} us predicted", tmpl->name(),
                     predictedNs * 1e-3);
}

static std::vector<TemplateLimit> limitsOf(const KernelFamily &family,
                                           const Space &space) {
  std::vector<TemplateLimit> limits;
  for (const auto &tmpl : family.templates()) {
    if (tmpl->isGeneric())
      continue;
    const auto ranked =
        llvm::find_if(space.ranked, [&](const Candidate &candidate) {
          return candidate.tmpl == tmpl.get();
        });
    if (ranked != space.ranked.end()) {
      limits.push_back({tmpl.get(), std::nullopt, ranked->estimate.totalNs});
      continue;
    }
    llvm::SmallVector<const Rejection *> rejections;
    for (const Rejected &rejected : space.rejected)
      if (rejected.tmpl == tmpl.get())
        rejections.push_back(&rejected.rejection);
    if (const Rejection *most = mostTelling(rejections))
      limits.push_back({tmpl.get(), *most});
  }
  return limits;
}

//===----------------------------------------------------------------------===//
// Remedies
//===----------------------------------------------------------------------===//

namespace {

/// Plans neighbours of a problem and keeps the ones that a fast kernel serves.
class RemedySearch {
public:
  RemedySearch(const KernelFamily &family, const Problem &problem,
               const DeviceModel &device, const Allowance &allowance,
               double genericNs)
      : family(family), problem(problem), device(device), allowance(allowance),
        genericNs(genericNs) {}

  void tryWorkspace(const Space &space);
  void tryAlignments();
  void trySizes();
  std::vector<GenericRemedy> take();

private:
  /// A field with another value.
  struct Change {
    int field;
    int64_t value;
  };
  std::optional<GenericRemedy> mended(Change change) const;
  bool tryUp(int index);
  std::string rule(int index, int64_t next) const;
  void tryDown(int index);
  void add(std::optional<GenericRemedy> remedy, std::string change) {
    if (remedy) {
      remedy->change = std::move(change);
      remedies.push_back(std::move(*remedy));
    }
  }
  llvm::StringRef keyOf(int index) const {
    return family.problemSchema().fields()[index].key;
  }

  const KernelFamily &family;
  const Problem &problem;
  const DeviceModel &device;
  const Allowance &allowance;
  double genericNs;
  std::vector<GenericRemedy> remedies;
};

} // namespace

/// The least gain of a change that is reported.
static constexpr double kGain = 2;

/// The first choice after \p change, if a fast kernel serves the changed
/// problem.
std::optional<GenericRemedy> RemedySearch::mended(Change change) const {
  Values values = problem.values;
  values.set(change.field, change.value);
  auto changed = family.canonicalise(std::move(values));
  if (!changed) {
    llvm::consumeError(changed.takeError());
    return std::nullopt;
  }
  if (family.isEmpty(*changed))
    return std::nullopt;
  auto space = exploreSpace(family, *changed, device,
                            {.allowance = {allowance.workspaceBytes, nullptr}});
  if (!space) {
    llvm::consumeError(space.takeError());
    return std::nullopt;
  }
  const Candidate &first = space->ranked.front();
  auto share = [](double part, double whole) {
    return whole > 0 ? part / whole : 1;
  };
  const double less =
      std::min({1.0, share(family.flops(*changed), family.flops(problem)),
                share(family.compulsoryBytes(*changed),
                      family.compulsoryBytes(problem))});
  if (first.tmpl->isGeneric() ||
      first.estimate.totalNs * kGain > genericNs * less)
    return std::nullopt;
  return GenericRemedy{"", first.config.text(), first.estimate.totalNs, less};
}

/// Tries the least workspace of a config that no other limit forbids.
void RemedySearch::tryWorkspace(const Space &space) {
  constexpr double kMiB = double(1 << 20);
  double leastBytes = INFINITY;
  GenericRemedy remedy;
  for (const Rejected &rejected : space.rejected) {
    const Rejection &rejection = rejected.rejection;
    if (rejection.reason != PruneReason::Workspace ||
        rejected.tmpl->isGeneric() || rejection.value >= leastBytes ||
        rejected.tmpl->prune(problem, rejected.config, device))
      continue;
    const double ns =
        rejected.tmpl->estimate(problem, rejected.config, device).totalNs;
    if (ns * kGain > genericNs)
      continue;
    leastBytes = rejection.value;
    remedy = {"", rejected.config.text(), ns, 1};
  }
  if (std::isfinite(leastBytes))
    add(std::move(remedy), fmt::format("a workspace limit of at least {} MiB",
                                       std::ceil(leastBytes / kMiB)));
}

void RemedySearch::tryAlignments() {
  const int index = family.problemSchema().find(FieldRole::Alignment);
  if (index < 0)
    return;
  constexpr int64_t kMost = 16;
  for (int64_t bytes = 2 * problem.values[index]; bytes <= kMost; bytes *= 2)
    if (auto remedy = mended({index, bytes}))
      return add(std::move(remedy), fmt::format("{}={}", keyOf(index), bytes));
}

/// Sizes are taken at multiples of powers of two up to this.
static constexpr int64_t kMostMultiple = 64;

/// Tries the next size, and the next multiples of powers of two.
bool RemedySearch::tryUp(int index) {
  const int64_t value = problem.values[index];
  int64_t last = value;
  for (int64_t unit = 1; unit <= kMostMultiple; unit *= 2) {
    const int64_t next =
        unit == 1 ? value + 1 : int64_t(llvm::alignTo(value, unit));
    if (next == std::exchange(last, next))
      continue;
    if (auto remedy = mended({index, next})) {
      add(std::move(remedy), rule(index, next));
      return true;
    }
  }
  return false;
}

/// The rule behind the size \p next, which follows from the next size that
/// works as well.
std::string RemedySearch::rule(int index, int64_t next) const {
  if (mended({index, next + 1}))
    return fmt::format("{} of at least {}", keyOf(index), next);
  for (int64_t unit = 2; unit <= kMostMultiple && next % unit == 0; unit *= 2)
    if (mended({index, next + unit}))
      return fmt::format("{}={} (a multiple of {})", keyOf(index), next, unit);
  return fmt::format("{}={}", keyOf(index), next);
}

/// Tries the largest size below, by halving. A small part of the problem would
/// be a different problem.
void RemedySearch::tryDown(int index) {
  constexpr int64_t kMostParts = 16;
  const int64_t value = problem.values[index];
  int64_t high = value, low = value;
  std::optional<GenericRemedy> remedy;
  while (!remedy) {
    high = low;
    low /= 2;
    if (low < 1 || low < value / kMostParts)
      return;
    remedy = mended({index, low});
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (auto nearer = mended({index, middle})) {
      low = middle;
      remedy = std::move(nearer);
    } else {
      high = middle;
    }
  }
  add(std::move(remedy), fmt::format("{} of at most {}", keyOf(index), low));
}

void RemedySearch::trySizes() {
  for (auto [i, field] : llvm::enumerate(family.problemSchema().fields())) {
    const auto index = static_cast<int>(i);
    const int64_t value = problem.values[index];
    if (!isSize(field) || value < 1)
      continue;
    // Operands can be padded, but not cut: a smaller head dim would be another
    // model.
    if (!tryUp(index) && field.role != FieldRole::Signature)
      tryDown(index);
  }
}

std::vector<GenericRemedy> RemedySearch::take() {
  constexpr size_t kMost = 3;
  llvm::stable_sort(remedies, [](const auto &a, const auto &b) {
    return a.workShare > b.workShare;
  });
  if (remedies.size() > kMost)
    remedies.resize(kMost);
  return std::move(remedies);
}

//===----------------------------------------------------------------------===//
// The explanation
//===----------------------------------------------------------------------===//

std::optional<GenericChoice> explainGeneric(const KernelFamily &family,
                                            const Problem &problem,
                                            const DeviceModel &device,
                                            const Space &space,
                                            const Allowance &allowance) {
  if (space.ranked.empty() || !space.ranked.front().tmpl->isGeneric())
    return std::nullopt;
  // A family may have only generic templates.
  if (llvm::all_of(family.templates(),
                   [](const auto &tmpl) { return tmpl->isGeneric(); }))
    return std::nullopt;
  const Candidate &first = space.ranked.front();
  GenericChoice choice;
  choice.config = first.config.text();
  choice.limits = limitsOf(family, space);
  RemedySearch search(family, problem, device, allowance,
                      first.estimate.totalNs);
  search.tryWorkspace(space);
  search.tryAlignments();
  search.trySizes();
  choice.remedies = search.take();
  return choice;
}

std::string GenericChoice::text() const {
  std::string text = config + " is generic:";
  const char *separator = " ";
  for (const TemplateLimit &limit : limits)
    text += std::exchange(separator, "; ") + limit.text();
  separator = ". With ";
  for (const GenericRemedy &remedy : remedies)
    text += fmt::format("{}{} it is {} ({:.1f} us)",
                        std::exchange(separator, "; with "), remedy.change,
                        remedy.config, remedy.predictedNs * 1e-3);
  return text;
}

llvm::json::Object GenericChoice::toJson() const {
  llvm::json::Array limitRows, remedyRows;
  for (const TemplateLimit &limit : limits) {
    llvm::json::Object row;
    if (limit.rejection)
      row = limit.rejection->toJson();
    else
      row["predicted_us"] = limit.predictedNs * 1e-3;
    row["template"] = limit.tmpl->name();
    limitRows.push_back(std::move(row));
  }
  for (const GenericRemedy &remedy : remedies)
    remedyRows.push_back(
        llvm::json::Object{{"change", remedy.change},
                           {"config", remedy.config},
                           {"predicted_us", remedy.predictedNs * 1e-3}});
  return llvm::json::Object{{"config", config},
                            {"limits", std::move(limitRows)},
                            {"remedies", std::move(remedyRows)}};
}

} // namespace kiln
