//===- Alternatives.cpp ---------------------------------------------------===//
#include "Choice/Alternatives.h"

#include "Kernel/Derivation.h"
#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <cmath>
#include <set>
#include <utility>

namespace kiln {

//===----------------------------------------------------------------------===//
// Neighbours
//===----------------------------------------------------------------------===//

/// The values of knob \p field that configs of \p tmpl have in \p space.
static std::set<int64_t> valuesOf(const Space &space, const Template &tmpl,
                                  int field) {
  std::set<int64_t> values;
  for (const Candidate &candidate : space.ranked)
    if (candidate.tmpl == &tmpl)
      values.insert(candidate.config[field]);
  for (const Rejected &rejected : space.rejected)
    if (rejected.tmpl == &tmpl)
      values.insert(rejected.config[field]);
  return values;
}

/// The value beyond all of a space: twice as many, or one more of a few.
static int64_t beyond(int64_t value) {
  constexpr int64_t kFew = 8;
  return value < kFew ? value + 1 : 2 * value;
}

/// Whether \p rejection says only that a kernel has no such shape: that is no
/// wall.
static bool isOfShape(const std::optional<Rejection> &rejection) {
  return rejection && rejection->reason == PruneReason::InstructionShape;
}

std::vector<Neighbour> neighboursOf(const Candidate &subject,
                                    const Space &space, const Problem &problem,
                                    const DeviceModel &device,
                                    const Allowance &allowance) {
  std::vector<Neighbour> neighbours;
  const Derivation own = subject.derive(problem, device);
  const auto make = [&](int field, int64_t value) -> std::optional<Neighbour> {
    const Field &knob = subject.config.schema().fields()[field];
    Neighbour neighbour;
    neighbour.knob = (knob.meaning.empty() ? knob.key : knob.meaning).str();
    neighbour.from = subject.config[field];
    neighbour.to = value;
    neighbour.config = subject.config;
    neighbour.config.set(field, value);
    if (llvm::Error error = neighbour.config.check()) {
      llvm::consumeError(std::move(error)); // no value of this knob
      return std::nullopt;
    }
    neighbour.isInSpace = llvm::any_of(space.ranked, [&](const auto &known) {
      return known.tmpl == subject.tmpl && known.config == neighbour.config;
    });
    neighbour.rejection =
        subject.tmpl->pruneWithin(allowance, problem, neighbour.config, device);
    if (!neighbour.rejection) {
      neighbour.estimate =
          subject.tmpl->estimate(problem, neighbour.config, device);
      neighbour.changes = own.changesTo(
          subject.tmpl->explain(problem, neighbour.config, device));
      llvm::stable_sort(neighbour.changes, [](const auto &a, const auto &b) {
        return std::abs(a.ns) > std::abs(b.ns);
      });
    }
    return neighbour;
  };
  // The nearest value that runs or breaks a wall; else the nearest.
  const auto add = [&](int field, llvm::ArrayRef<int64_t> values) {
    std::optional<Neighbour> nearest;
    for (int64_t value : values) {
      auto next = make(field, value);
      const bool tells = next && !isOfShape(next->rejection);
      if (tells || !nearest)
        nearest = std::move(next);
      if (tells)
        break;
    }
    if (nearest)
      neighbours.push_back(std::move(*nearest));
  };
  for (auto [i, knob] : llvm::enumerate(subject.config.schema().fields())) {
    const int field = static_cast<int>(i);
    const int64_t value = subject.config[field];
    std::set<int64_t> values = valuesOf(space, *subject.tmpl, field);
    values.insert(value);
    if (knob.kind != FieldKind::Integer || values.size() < 2)
      continue; // it is no choice here
    const auto at = values.find(value);
    std::vector<int64_t> larger(std::next(at), values.end());
    larger.push_back(beyond(*values.rbegin()));
    add(field, larger);
    add(field,
        std::vector<int64_t>(std::make_reverse_iterator(at), values.rend()));
  }
  return neighbours;
}

//===----------------------------------------------------------------------===//
// Other sizes, other devices
//===----------------------------------------------------------------------===//

namespace {
/// A device that has half of something.
struct Halved {
  llvm::StringLiteral name;
  void (*apply)(DeviceModel &);
};
} // namespace

static constexpr Halved kHalved[] = {
    {"shared memory halved",
     [](DeviceModel &device) {
       device.sharedBytesPerSm /= 2;
       device.sharedBytesPerBlock /= 2;
     }},
    {"bandwidth of L2 halved", [](DeviceModel &device) { device.l2GBs /= 2; }},
    {"bandwidth of DRAM halved", [](DeviceModel &device) {
       device.dramGBs /= 2;
       device.dramWriteGBs /= 2;
     }}};

/// Plans \p problem on \p device; nullopt: nothing runs.
static std::optional<ChangedChoice>
changedChoice(std::string change, const Candidate &subject,
              const KernelFamily &family, const Problem &problem,
              const DeviceModel &device, const Allowance &allowance) {
  if (family.isEmpty(problem))
    return std::nullopt;
  auto space = exploreSpace(family, problem, device, {.allowance = allowance});
  if (!space) {
    llvm::consumeError(space.takeError()); // a size that no kernel takes
    return std::nullopt;
  }
  ChangedChoice choice{.change = std::move(change),
                       .first = space->ranked.front()};
  choice.rejection =
      subject.tmpl->pruneWithin(allowance, problem, subject.config, device);
  if (!choice.rejection)
    choice.subject = subject.tmpl->estimate(problem, subject.config, device);
  return choice;
}

std::vector<ChangedChoice> changedChoices(const Candidate &subject,
                                          const KernelFamily &family,
                                          const Problem &problem,
                                          const DeviceModel &device,
                                          const Allowance &allowance) {
  std::vector<ChangedChoice> choices;
  const auto add = [&](std::string change, const Problem &changed,
                       const DeviceModel &on) {
    if (auto choice = changedChoice(std::move(change), subject, family, changed,
                                    on, allowance))
      choices.push_back(std::move(*choice));
  };
  const auto addSized = [&](std::string change, int field, int64_t value) {
    Values values = problem.values;
    values.set(field, value);
    if (auto canonical = family.canonicalise(std::move(values)))
      add(std::move(change), *canonical, device);
    else
      llvm::consumeError(canonical.takeError()); // a pitch is too small
  };
  constexpr int64_t kFew = 16;
  for (auto [i, field] : llvm::enumerate(problem.values.schema().fields())) {
    const bool isDynamic = field.role == FieldRole::DynamicExtent;
    if (!isDynamic && field.role != FieldRole::Extent)
      continue;
    const int64_t value = problem.values[static_cast<int>(i)];
    // Sizes that the problem does not name are of other problems.
    const bool isNamed = field.required || value != field.unset();
    if (!isNamed || field.kind != FieldKind::Integer)
      continue;
    if (isDynamic && value != kFew)
      addSized(fmt::format("{} = {}", field.key, kFew), int(i), kFew);
    addSized(fmt::format("{} doubled", field.key), int(i), 2 * value);
  }
  for (const auto &[name, apply] : kHalved) {
    DeviceModel less = device;
    apply(less);
    add(name.str(), problem, less);
  }
  return choices;
}

} // namespace kiln
