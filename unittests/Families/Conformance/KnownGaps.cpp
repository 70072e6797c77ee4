#include "Families/Conformance/KnownGaps.h"

#include "Kernel/Space.h"
#include "Support/Format.h"
#include "Support/ReadFile.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <cmath>
#include <utility>

namespace kiln::conformance {

static llvm::StringRef wordOf(Promise promise) {
  switch (promise) {
  case Promise::Kernel:
    return "empty";
  case Promise::Special:
    return "generic";
  case Promise::Step:
    return "step";
  case Promise::Rate:
    return "rate";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

static Fault faultOf(Predictor &predictor, Promise promise,
                     const Prediction &prediction, double ratio = 0) {
  Fault fault;
  fault.promise = promise;
  fault.family = &predictor.family;
  fault.device = predictor.device.name;
  fault.sm = predictor.device.computeCapability();
  fault.problem = prediction.problem;
  fault.tmpl = llvm::StringRef(prediction.config).split('.').first.str();
  fault.ratio = ratio;
  fault.place = fault.device + ": " + prediction.problem.text();
  auto free =
      exploreSpace(predictor.family, prediction.problem, predictor.device);
  if (!free)
    llvm::consumeError(free.takeError());
  else
    fault.isShortOfWorkspace =
        !prediction.isPlanned() ||
        free->ranked.front().estimate.totalNs * kCliff < prediction.ns;
  return fault;
}

static std::string describe(const Prediction &prediction) {
  return fmt::format("{} ({:.1f} us)", prediction.config, prediction.ns * 1e-3);
}

Fault faultOf(Predictor &predictor, const Step &step) {
  Fault fault = faultOf(predictor, Promise::Step, step.slow, step.ratio);
  fault.changed = step.changed.str();
  fault.place += " / " + step.fast.problem.text();
  fault.told =
      fmt::format("{:.1f} times as long for equal work: {}, beside {}",
                  step.ratio, describe(step.slow), describe(step.fast));
  return fault;
}

/// \p device with a number in place of a missing rate.
static DeviceModel withEveryRate(const DeviceModel &device) {
  constexpr double kRate = 4096;
  DeviceModel made = device;
  for (const DeviceField &field : deviceFields())
    if (const auto *member = std::get_if<double DeviceModel::*>(&field.member))
      if (llvm::StringRef(field.unit) == "flop/clk" && made.*(*member) == 0)
        made.*(*member) = kRate;
  return made;
}

/// The config whose estimate depends on a rate that the device lacks, or is not
/// a positive time; empty if all estimates are good.
static std::string faultOfRates(const Prediction &made,
                                const DeviceModel &every) {
  for (const Candidate &candidate : made.leaders) {
    const double ns = candidate.estimate.totalNs;
    if (!std::isfinite(ns) || ns <= 0)
      return fmt::format("{} takes {} ns", candidate.config.text(), ns);
    const double other =
        candidate.tmpl->estimate(made.problem, candidate.config, every).totalNs;
    if (other != ns)
      return fmt::format("{} takes {} ns, and {} ns if units that the device "
                         "has not had a rate",
                         candidate.config.text(), ns, other);
  }
  return "";
}

/// The reason why the generic first choice of \p made is wrong; empty if it is
/// right.
static std::string faultOfGeneric(const Prediction &made) {
  // Below this, launches dominate the time. A special template with an estimate
  // this much above a generic one is estimated wrongly.
  constexpr double kLaunchesNs = 20e3, kUnbelievable = 4;
  if (!made.isGeneric || made.ns < kLaunchesNs || made.special.empty() ||
      made.specialNs <= kUnbelievable * made.ns)
    return "";
  return fmt::format("{} goes before {} ({:.1f} us)", describe(made),
                     made.special, made.specialNs * 1e-3);
}

std::vector<Fault> faultsOf(Predictor &predictor, const std::string &text) {
  std::vector<Fault> faults;
  const Prediction &made = predictor.of(text);
  if (made.state == Prediction::State::Refused)
    return faults;
  auto add = [&](Promise promise, std::string told) {
    if (told.empty())
      return;
    faults.push_back(faultOf(predictor, promise, made));
    faults.back().told = std::move(told);
  };
  if (!made.isPlanned()) {
    add(Promise::Kernel, "every config is pruned");
    return faults;
  }
  add(Promise::Special, faultOfGeneric(made));
  add(Promise::Rate, faultOfRates(made, withEveryRate(predictor.device)));
  return faults;
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

/// The value of \p key in the canonical text of \p fault; empty if it is left
/// out. KnownGaps.txt lists the further keys.
static std::string valueOf(const Fault &fault, llvm::StringRef key) {
  if (key == "sm")
    return std::to_string(fault.sm);
  if (key == "changed")
    return fault.changed;
  if (key == "to")
    return fault.tmpl;
  if (key == "ratio")
    return std::to_string(std::lround(std::ceil(fault.ratio)));
  if (key == "workspace")
    return fault.isShortOfWorkspace ? "short" : "";
  const std::string text = fault.problem.text();
  for (llvm::StringRef word : llvm::split(llvm::StringRef(text), ' '))
    if (word.consume_front(key) && word.consume_front("="))
      return word.str();
  return "";
}

/// "key=a|b", "key>=7", "key<=7", "key/8": a multiple of 8, or "key%8": not
/// one.
static bool holdsFor(llvm::StringRef condition, const Fault &fault) {
  const size_t at = condition.find_first_of("=<>%/");
  REQUIRE_MESSAGE(at != llvm::StringRef::npos, condition.str());
  const std::string value = valueOf(fault, condition.take_front(at));
  llvm::StringRef rest = condition.drop_front(at);
  if (rest.consume_front("="))
    return llvm::is_contained(llvm::split(rest, '|'), llvm::StringRef(value));
  const bool isLess = rest.consume_front("<="),
             isMore = rest.consume_front(">="),
             isNoMultiple = rest.consume_front("%"),
             isMultiple = rest.consume_front("/");
  int64_t bound = 0, number = 0;
  REQUIRE_MESSAGE(((isLess || isMore || isNoMultiple || isMultiple) &&
                   !rest.getAsInteger(10, bound) && bound > 0),
                  condition.str());
  if (llvm::StringRef(value).getAsInteger(10, number))
    return false;
  if (isLess || isMore)
    return isLess ? number <= bound : number >= bound;
  return (number % bound == 0) == isMultiple;
}

bool KnownGap::covers(const Fault &fault) const {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(line, words);
  REQUIRE_MESSAGE(words.size() >= 2, line);
  return words[0] == wordOf(fault.promise) &&
         llvm::is_contained(llvm::split(words[1], '|'), fault.family->name()) &&
         llvm::all_of(llvm::drop_begin(words, 2), [&](llvm::StringRef word) {
           return holdsFor(word, fault);
         });
}

bool KnownGaps::cover(const Fault &fault) const {
  auto covers = [&](const KnownGap &gap) { return gap.covers(fault); };
  return !llvm::any_of(never, covers) &&
         llvm::any_of(classes, [&](const KnownClass &one) {
           return llvm::any_of(one.gaps, covers);
         });
}

std::optional<Fault> KnownGap::example() const {
  auto [name, texts] = llvm::StringRef(place).split(": ");
  const auto [slow, fast] = texts.split(" / ");
  const DeviceModel model = device(name);
  const KernelFamily *family = registry().find(slow.split(' ').first);
  REQUIRE_MESSAGE(family, place);
  Predictor predictor(*family, model);
  const Prediction &made = predictor.of(slow.str());
  REQUIRE_MESSAGE(made.state != Prediction::State::Refused, place);
  if (!fast.empty()) {
    auto step = stepBetween(made, predictor.of(fast.str()));
    if (!step || step->ratio <= kCliff)
      return std::nullopt;
    return faultOf(predictor, *step);
  }
  for (Fault &fault : faultsOf(predictor, slow.str()))
    if (covers(fault))
      return std::move(fault);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

KnownGaps readKnownGaps() {
  const std::string text = llvm::cantFail(readNamedFile(
      KILN_SOURCE_DIR "/unittests/Families/Conformance/KnownGaps.txt",
      1 << 20));
  KnownGaps known;
  std::vector<KnownClass> &classes = known.classes;
  std::string *open = nullptr; // the text that an indented line continues
  for (llvm::StringRef line : llvm::split(llvm::StringRef(text), '\n')) {
    CAPTURE(line.str());
    if (line.trim().empty() || line.starts_with("#"))
      continue;
    if (line.starts_with(" ")) {
      REQUIRE(open);
      *open += " " + line.trim().str();
      continue;
    }
    const auto [key, value] = line.split(": ");
    if (key == "never") {
      known.never.push_back({value.trim().str(), ""});
      open = &known.never.back().line;
      continue;
    }
    if (key == "class")
      classes.emplace_back();
    REQUIRE(!classes.empty());
    KnownClass &last = classes.back();
    if (key == "gap")
      last.gaps.emplace_back();
    const bool isOfGap = key == "gap" || key == "at";
    REQUIRE((!isOfGap || !last.gaps.empty()));
    open = key == "class"   ? &last.name
           : key == "why"   ? &last.why
           : key == "avoid" ? &last.avoid
           : key == "gap"   ? &last.gaps.back().line
           : key == "at"    ? &last.gaps.back().place
                            : nullptr;
    REQUIRE(open);
    *open = value.trim().str();
  }
  for (const KnownClass &one : classes) {
    CAPTURE(one.name);
    REQUIRE((!one.name.empty() && !one.why.empty() && !one.avoid.empty()));
    REQUIRE(!one.gaps.empty());
    for (const KnownGap &gap : one.gaps)
      REQUIRE_MESSAGE(!gap.place.empty(), gap.line);
  }
  return known;
}

} // namespace kiln::conformance
