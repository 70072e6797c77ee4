#include "Families/Conformance/Steps.h"

#include "Kernel/EngineLimits.h"
#include "Kernel/Sizes.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <set>
#include <utility>

namespace kiln::conformance {

/// Whether the operands of \p problem, including gaps, fit a device.
static bool hasRoom(const KernelFamily &family, const Problem &problem) {
  constexpr double kMostBytes = 64e9;
  double bytes = 0;
  for (const OperandSpec &spec : family.operands(problem).operands)
    if (spec.present)
      bytes += double(spec.bytes());
  return bytes <= kMostBytes;
}

const Prediction &Predictor::of(const std::string &text) {
  auto [entry, isNew] = known.try_emplace(text);
  Prediction &made = entry->second;
  if (!isNew)
    return made;
  auto problem = family.parseProblem(text);
  if (!problem) {
    llvm::consumeError(problem.takeError());
    return made;
  }
  if (family.isEmpty(*problem) || !hasRoom(family, *problem))
    return made;
  made.problem = std::move(*problem);
  made.state = Prediction::State::NoKernel;
  auto space = exploreSpace(family, made.problem, device,
                            {.allowance = {kEngineWorkspaceBytes}});
  if (!space) {
    llvm::consumeError(space.takeError());
    return made;
  }
  made.state = Prediction::State::Planned;
  const Candidate &first = space->ranked.front();
  made.config = first.config.text();
  made.ns = first.estimate.totalNs;
  made.isGeneric = first.tmpl->isGeneric();
  const auto special =
      llvm::find_if(space->ranked, [](const Candidate &candidate) {
        return !candidate.tmpl->isGeneric();
      });
  if (special != space->ranked.end()) {
    made.special = special->config.text();
    made.specialNs = special->estimate.totalNs;
  }
  std::set<const Template *> seen;
  for (const Candidate &candidate : space->ranked)
    if (seen.insert(candidate.tmpl).second)
      made.leaders.push_back(candidate);
  made.leaders.push_back(space->ranked.back());
  made.flops = family.flops(made.problem);
  made.bytes = family.compulsoryBytes(made.problem);
  return made;
}

//===----------------------------------------------------------------------===//
// Single steps
//===----------------------------------------------------------------------===//

/// The ratio of the work of \p slow to that of \p fast; at least 1.
static double moreWork(const Prediction &slow, const Prediction &fast) {
  auto ratio = [](double a, double b) { return b > 0 ? a / b : 1.0; };
  return std::max(
      {1.0, ratio(slow.flops, fast.flops), ratio(slow.bytes, fast.bytes)});
}

/// The key of the first size or alignment that differs.
static llvm::StringRef changedKey(const Values &one, const Values &other) {
  for (auto [i, field] : llvm::enumerate(one.schema().fields()))
    if ((isSize(field) || field.role == FieldRole::Alignment) &&
        one[static_cast<int>(i)] != other[static_cast<int>(i)])
      return field.key;
  return "";
}

std::optional<Step> stepBetween(const Prediction &one,
                                const Prediction &other) {
  if (!one.isPlanned() || !other.isPlanned())
    return std::nullopt;
  // Below this, launches dominate the time, and a multiple of it is not a
  // cliff.
  constexpr double kLaunchNs = 2e3;
  auto ratio = [&](const Prediction &slow, const Prediction &fast) {
    return slow.ns / std::max(fast.ns, kLaunchNs) / moreWork(slow, fast);
  };
  const double forth = ratio(one, other), back = ratio(other, one);
  const bool isSlower = forth > back;
  return Step{isSlower ? one : other, isSlower ? other : one,
              changedKey(one.problem.values, other.problem.values),
              std::max(forth, back)};
}

std::vector<int> sizesOf(const Schema &schema) {
  std::vector<int> sizes;
  for (auto [i, field] : llvm::enumerate(schema.fields()))
    if (isSize(field))
      sizes.push_back(static_cast<int>(i));
  return sizes;
}

/// \p text with another value of \p key.
static std::string with(const std::string &text, llvm::StringRef key,
                        int64_t value) {
  std::string changed;
  bool isThere = false;
  for (llvm::StringRef word : llvm::split(llvm::StringRef(text), ' ')) {
    if (!changed.empty())
      changed += ' ';
    if (word.starts_with(key) && word.drop_front(key.size()).starts_with("=")) {
      changed += (key + "=" + llvm::Twine(value)).str();
      isThere = true;
    } else {
      changed += word;
    }
  }
  return isThere ? changed
                 : (changed + " " + key + "=" + llvm::Twine(value)).str();
}

/// The values of field \p key, in steps of \p direction from \p value, until
/// one is accepted: a number of heads has to be a multiple of another.
static const Prediction *nextTo(Predictor &predictor, const std::string &text,
                                llvm::StringRef key, int64_t value,
                                int direction) {
  constexpr int64_t kMostTries = 64;
  for (int64_t i = 1; i <= std::min(kMostTries, value); ++i) {
    const int64_t next = value + direction * i;
    if (next < 1)
      return nullptr;
    const Prediction &made = predictor.of(with(text, key, next));
    if (made.state != Prediction::State::Refused)
      return &made;
  }
  return nullptr;
}

/// The worse of \p worst and the step from \p one to \p other.
static void takeWorse(std::optional<Step> &worst, const Prediction &one,
                      const Prediction &other) {
  auto step = stepBetween(one, other);
  if (step && step->ratio > kCliff && (!worst || step->ratio > worst->ratio))
    worst = std::move(step);
}

std::vector<Step> findSteps(Predictor &predictor, const std::string &text) {
  std::vector<Step> steps;
  const Prediction base = predictor.of(text);
  if (!base.isPlanned())
    return steps;
  const Schema &schema = predictor.family.problemSchema();
  for (int index : sizesOf(schema)) {
    const Field &field = schema.fields()[index];
    const int64_t value = base.problem.values[index];
    if (value < 1)
      continue;
    std::optional<Step> worst;
    for (int direction : {-1, 1})
      if (const Prediction *next =
              nextTo(predictor, text, field.key, value, direction))
        takeWorse(worst, base, *next);
    // For rows that 16 bytes divide: 8, 4, 2 and 1 byte divide them, too.
    const int64_t period = predictor.family.signaturePeriod();
    if (value >= 2 * period && field.role != FieldRole::Signature) {
      std::string aligned = with(text, field.key, value / period * period);
      for (int64_t less = period / 2; less >= 1; less /= 2) {
        std::string stricter =
            with(text, field.key, value / period * period + less);
        takeWorse(worst, predictor.of(aligned), predictor.of(stricter));
        aligned = std::move(stricter);
      }
    }
    if (worst)
      steps.push_back(std::move(*worst));
  }
  if (const int align = schema.find(FieldRole::Alignment); align >= 0) {
    const Field &field = schema.fields()[align];
    std::optional<Step> worst;
    for (int64_t bytes = base.problem.values[align]; bytes >= 2; bytes /= 2)
      takeWorse(worst, predictor.of(with(text, field.key, bytes)),
                predictor.of(with(text, field.key, bytes / 2)));
    if (worst)
      steps.push_back(std::move(*worst));
  }
  return steps;
}

//===----------------------------------------------------------------------===//
// Walks
//===----------------------------------------------------------------------===//

/// The neighbours between the values \p low and \p high of \p key, whose times
/// differ, that differ the most.
static std::optional<Step> narrow(Predictor &predictor, const std::string &text,
                                  llvm::StringRef key, int64_t low,
                                  int64_t high) {
  const int64_t period = predictor.family.signaturePeriod();
  auto at = [&](int64_t value) -> const Prediction & {
    return predictor.of(with(text, key, value));
  };
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    // As aligned as the ends, if there is such a size between them.
    if (high - low > 2 * period)
      middle = middle / period * period;
    const auto below = stepBetween(at(low), at(middle));
    const auto above = stepBetween(at(middle), at(high));
    if (!below || !above)
      break;
    (below->ratio > above->ratio ? high : low) = middle;
  }
  return stepBetween(at(low), at(high));
}

std::vector<Step> walk(Predictor &predictor, const std::string &text,
                       int index) {
  std::vector<Step> steps;
  const Field &field = predictor.family.problemSchema().fields()[index];
  auto at = [&](int64_t value) -> const Prediction & {
    return predictor.of(with(text, field.key, value));
  };
  int64_t last = 0; // the last size with a plan
  for (int64_t value = 1; value <= field.maximum; value *= 2) {
    if (!at(value).isPlanned())
      continue;
    if (last > 0) {
      auto step = stepBetween(at(last), at(value));
      if (step && step->ratio > kCliff)
        step = narrow(predictor, text, field.key, last, value);
      if (step && step->ratio > kCliff)
        steps.push_back(std::move(*step));
    }
    last = value;
    if (value > field.maximum / 2)
      break;
  }
  return steps;
}

} // namespace kiln::conformance
