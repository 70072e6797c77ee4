// Promises about problems that are drawn for each value of each field. On every
// device of the catalog no space is empty, a generic template is the first
// choice only if all others are expected to be much slower, and no estimate
// depends on a rate that the device lacks. On devices from sm_80 on, for which
// kernels are written, no problem takes a multiple of its neighbours' times.
//
// KnownGaps.txt lists the classes of problems that break a promise today. A new
// class fails the test, and so does a class whose example keeps the promise.
//
// KILN_LIMITS_DRAWN: problems for each value; more problems find more, in
// proportion to the time. KILN_LIMITS_SEED: replaces the test's seed.
#include "Families/Conformance/KnownGaps.h"

#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <cstdlib>

using namespace kiln;
using namespace kiln::conformance;

namespace {

/// The number in the environment variable \p name, or \p otherwise.
uint32_t numberOf(const char *name, uint32_t otherwise) {
  const char *text = std::getenv(name);
  return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10))
              : otherwise;
}

uint32_t seed() { return numberOf("KILN_LIMITS_SEED", 11); }

/// Fails for \p fault unless a class of \p known covers it.
void judge(const KnownGaps &known, const Fault &fault) {
  if (known.cover(fault))
    return;
  CAPTURE(fault.place);
  CAPTURE(fault.changed);
  CAPTURE(fault.isShortOfWorkspace);
  FAIL_CHECK("not in KnownGaps.txt: " << fault.told);
}

std::vector<std::string> drawnTexts(const KernelFamily &family, size_t count) {
  std::vector<std::string> texts;
  for (const DrawnProblem &drawn : drawEachValue(family, count, seed()))
    texts.push_back(drawn.problem.text());
  CHECK(!texts.empty());
  return texts;
}

/// \p count of the problems in suites.
std::vector<std::string> suiteTexts(const KernelFamily &family, size_t count,
                                    Random &random) {
  std::vector<std::string> texts;
  const std::vector<Problem> suite = suiteProblems(family);
  for (size_t i = 0; i < count && !suite.empty(); ++i)
    texts.push_back(pick<Problem>(random, suite).text());
  return texts;
}

/// The devices for which kernels are written.
std::vector<DeviceModel> currentDevices() {
  constexpr int kFirst = 80;
  std::vector<DeviceModel> devices;
  for (llvm::StringRef name : catalogNames()) {
    DeviceModel model = device(name);
    if (model.computeCapability() >= kFirst)
      devices.push_back(std::move(model));
  }
  return devices;
}

} // namespace

TEST_CASE("conformance: no space is empty, and no generic kernel or rate a "
          "stopgap") {
  constexpr uint32_t kDrawnOfEach = 12;
  const KnownGaps known = readKnownGaps();
  for (const auto &family : registry().families()) {
    const std::vector<std::string> texts =
        drawnTexts(*family, numberOf("KILN_LIMITS_DRAWN", kDrawnOfEach));
    for (llvm::StringRef name : catalogNames()) {
      const DeviceModel model = device(name);
      Predictor predictor(*family, model);
      for (const std::string &text : texts)
        for (const Fault &fault : faultsOf(predictor, text))
          judge(known, fault);
    }
  }
}

TEST_CASE("conformance: no problem takes a multiple of its neighbours' times") {
  const uint32_t count = numberOf("KILN_LIMITS_DRAWN", 1);
  constexpr size_t kOfSuites = 12;
  const std::vector<DeviceModel> devices = currentDevices();
  Random random(seed());
  const KnownGaps known = readKnownGaps();
  for (const auto &family : registry().families()) {
    const std::vector<int> sizes = sizesOf(family->problemSchema());
    std::vector<std::string> texts = drawnTexts(*family, count);
    llvm::append_range(texts, suiteTexts(*family, count * kOfSuites, random));
    for (const std::string &text : texts) {
      const size_t at = random() % devices.size();
      Predictor predictor(*family, devices[at]);
      std::vector<Step> steps = findSteps(predictor, text);
      llvm::append_range(steps,
                         walk(predictor, text, pick<int>(random, sizes)));
      for (const Step &step : steps)
        judge(known, faultOf(predictor, step));
    }
  }
}

TEST_CASE("conformance: every known gap is one") {
  for (const KnownClass &one : readKnownGaps().classes)
    for (const KnownGap &gap : one.gaps) {
      CAPTURE(one.name);
      CAPTURE(gap.line);
      CAPTURE(gap.place);
      const std::optional<Fault> fault = gap.example();
      CHECK_MESSAGE(fault, "the problem keeps the promise: take the gap out "
                           "of KnownGaps.txt, or name one that does not");
      if (fault) {
        CAPTURE(fault->told);
        CHECK(gap.covers(*fault));
      }
    }
}
