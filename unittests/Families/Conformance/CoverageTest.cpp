// Two promises over problems drawn for each value of each field, on every
// device of the catalog: no space is empty, and a generic template is the first
// choice only where nothing else would be far faster. What breaks them today is
// listed in KnownGaps.txt, by classes of problems: a new class fails, and so
// does one that no problem is of any more.
#include "Families/Conformance/Draw.h"

#include "Kernel/EngineLimits.h"
#include "Kernel/Space.h"
#include "Support/Format.h"
#include "Support/ReadFile.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <algorithm>

using namespace kiln;
using namespace kiln::conformance;

namespace {

/// Of each value. More find more, in proportion to the time.
constexpr size_t kDrawnOfEach = 12;
/// What a device holds, with room for a second copy.
constexpr double kMostDeviceBytes = 64e9;

//===----------------------------------------------------------------------===//
// Known gaps
//===----------------------------------------------------------------------===//

/// A problem that breaks a promise on a device.
struct Gap {
  llvm::StringRef promise; ///< "empty" or "generic"
  llvm::StringRef family;
  Problem problem;
  int sm = 0;
  std::string told;
};

/// What the key \p key of the canonical text of \p gap has; "sm" is the
/// device's, and a key that is left out is empty.
std::string valueOf(const Gap &gap, llvm::StringRef key) {
  if (key == "sm")
    return std::to_string(gap.sm);
  const std::string text = gap.problem.text();
  for (llvm::StringRef word : llvm::split(llvm::StringRef(text), ' '))
    if (word.consume_front(key) && word.consume_front("="))
      return word.str();
  return "";
}

/// "key=a|b", "key>=7", "key<=7", or "key%8": no multiple of 8.
bool holdsFor(llvm::StringRef condition, const Gap &gap) {
  const size_t at = condition.find_first_of("=<>%");
  REQUIRE_MESSAGE(at != llvm::StringRef::npos, condition.str());
  const std::string value = valueOf(gap, condition.take_front(at));
  llvm::StringRef rest = condition.drop_front(at);
  if (rest.consume_front("="))
    return llvm::is_contained(llvm::split(rest, '|'), llvm::StringRef(value));
  const bool isLess = rest.consume_front("<="),
             isMore = rest.consume_front(">="),
             isMultiple = rest.consume_front("%");
  int64_t bound = 0, number = 0;
  REQUIRE_MESSAGE(((isLess || isMore || isMultiple) &&
                   !rest.getAsInteger(10, bound) && bound > 0),
                  condition.str());
  if (llvm::StringRef(value).getAsInteger(10, number))
    return false;
  return isMultiple ? number % bound != 0
         : isLess   ? number <= bound
                    : number >= bound;
}

/// A line of KnownGaps.txt: a promise, a family and conditions.
struct KnownGap {
  std::string line;
  size_t count = 0; ///< of drawn problems that are of this class

  bool covers(const Gap &gap) const {
    llvm::SmallVector<llvm::StringRef> words;
    llvm::SplitString(line, words);
    REQUIRE(words.size() > 2);
    return words[0] == gap.promise && words[1] == gap.family &&
           llvm::all_of(llvm::drop_begin(words, 2), [&](llvm::StringRef word) {
             return holdsFor(word, gap);
           });
  }
};

std::vector<KnownGap> readKnownGaps() {
  const std::string text = llvm::cantFail(readNamedFile(
      KILN_SOURCE_DIR "/unittests/Families/Conformance/KnownGaps.txt",
      1 << 20));
  std::vector<KnownGap> known;
  for (llvm::StringRef line : llvm::split(llvm::StringRef(text), '\n'))
    if (!line.trim().empty() && !line.starts_with("#"))
      known.push_back({line.trim().str()});
  return known;
}

//===----------------------------------------------------------------------===//
// Promises
//===----------------------------------------------------------------------===//

std::optional<Candidate> exploreFirst(const KernelFamily &family,
                                      const Problem &problem,
                                      const DeviceModel &device,
                                      const Candidate **special, Space &space) {
  auto explored = exploreSpace(family, problem, device,
                               {.allowance = {kEngineWorkspaceBytes}});
  if (!explored) {
    llvm::consumeError(explored.takeError());
    return std::nullopt;
  }
  space = std::move(*explored);
  auto found = llvm::find_if(space.ranked, [](const Candidate &candidate) {
    return !candidate.tmpl->isGeneric();
  });
  *special = found == space.ranked.end() ? nullptr : &*found;
  return space.ranked.front();
}

std::string describe(const Candidate &candidate) {
  return fmt::format("{} ({:.1f} us)", candidate.config.text(),
                     candidate.estimate.totalNs * 1e-3);
}

/// Times below it are those of launches.
constexpr double kLaunchesNs = 20e3;

/// Why the generic \p first should not be what \p drawn gets; empty: it may.
std::string faultOfGeneric(const KernelFamily &family,
                           const DrawnProblem &drawn, const Candidate &first,
                           const Candidate *special,
                           const DeviceModel &device) {
  if (first.estimate.totalNs < kLaunchesNs)
    return "";
  // A special template that is believed to be so much slower than a generic one
  // is estimated wrongly.
  constexpr double kUnbelievable = 4;
  if (special &&
      special->estimate.totalNs > kUnbelievable * first.estimate.totalNs)
    return fmt::format("{} goes before {}", describe(first),
                       describe(*special));
  // An extent of one more or less should not cost a multiple.
  constexpr double kCliff = 3;
  constexpr int64_t kMostSwitches = 16; // a field of so few values is no size
  for (auto [i, field] : llvm::enumerate(family.problemSchema().fields())) {
    const int64_t value = drawn.problem.record.values()[i];
    if ((field.role != FieldRole::Extent &&
         field.role != FieldRole::DynamicExtent &&
         field.role != FieldRole::Batch) ||
        field.maximum <= kMostSwitches || value < 1)
      continue;
    for (int64_t other : {value - 1, value + 1}) {
      auto near = family.parseProblem(
          drawn.typed.with(field.key, std::to_string(other)).text());
      if (!near) {
        llvm::consumeError(near.takeError());
        continue;
      }
      if (family.isEmpty(*near))
        continue;
      const Candidate *unused = nullptr;
      Space space;
      auto choice = exploreFirst(family, *near, device, &unused, space);
      const double work = std::max(1.0, static_cast<double>(value) /
                                            static_cast<double>(other));
      if (choice && !choice->tmpl->isGeneric() &&
          first.estimate.totalNs > kCliff * work * choice->estimate.totalNs)
        return fmt::format("{}, with {}={} it is {}", describe(first),
                           field.key, other, describe(*choice));
    }
  }
  return "";
}

std::vector<Gap> findGaps(const KernelFamily &family) {
  std::vector<Gap> gaps;
  std::vector<DrawnProblem> drawn = drawEachValue(family, kDrawnOfEach);
  llvm::erase_if(drawn, [&](const DrawnProblem &one) {
    return family.compulsoryBytes(one.problem) > kMostDeviceBytes;
  });
  CHECK(!drawn.empty());
  for (llvm::StringRef name : catalogNames()) {
    const DeviceModel model = device(name);
    for (const DrawnProblem &one : drawn) {
      const Candidate *special = nullptr;
      Space space;
      auto first = exploreFirst(family, one.problem, model, &special, space);
      std::string fault;
      if (!first)
        fault = "every config is pruned";
      else if (first->tmpl->isGeneric())
        fault = faultOfGeneric(family, one, *first, special, model);
      if (!fault.empty())
        gaps.push_back({first ? "generic" : "empty", family.name(), one.problem,
                        model.computeCapability(),
                        fmt::format("{}: {}", name, fault)});
    }
  }
  return gaps;
}

} // namespace

TEST_CASE("conformance: no space is empty, and no generic kernel a cliff") {
  std::vector<KnownGap> known = readKnownGaps();
  for (const auto &family : registry().families())
    for (const Gap &gap : findGaps(*family)) {
      bool isKnown = false;
      for (KnownGap &line : known)
        if (line.covers(gap)) {
          ++line.count;
          isKnown = true;
        }
      if (isKnown)
        continue;
      CAPTURE(gap.problem.text());
      FAIL_CHECK(gap.promise.str() << ", not in KnownGaps.txt: " << gap.told);
    }
  for (const KnownGap &line : known) {
    CAPTURE(line.line);
    CHECK_MESSAGE(line.count > 0, "no drawn problem is of this class any more: "
                                  "take the line out of KnownGaps.txt");
  }
}
