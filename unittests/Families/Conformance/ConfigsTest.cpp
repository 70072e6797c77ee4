// Configs of every template of Families.def: each config that its schema parses
// is pruned with a readable reason, or can be estimated, planned and launched.
// No arithmetic overflows, whatever a user types; the sanitizers of CI check
// that.
#include "Families/Conformance/Draw.h"
#include "Families/Conformance/LaunchCheck.h"

#include "Kernel/Space.h"
#include "Support/Error.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <cmath>

using namespace kiln;
using namespace kiln::conformance;

namespace {

std::string number(double value) { return fmt::format("{}", value); }

/// The fault in the words of \p rejection.
std::string faultOfRejection(const Rejection &rejection) {
  std::string text = rejection.text();
  auto fault = [&](llvm::StringRef what) {
    return fmt::format("{}: \"{}\"", what, text);
  };
  if (text.empty() || text.find('\n') != std::string::npos ||
      text.back() == '.' || (text[0] >= 'A' && text[0] <= 'Z'))
    return fault("is not one clear line");
  if (!std::isfinite(rejection.value) || !std::isfinite(rejection.limit))
    return fault("has a number that is not finite");
  if (rejection.value == 0 && rejection.limit == 0)
    return ""; // a reason without a number: an instruction's shape, a type
  bool isRange = !rejection.allowed.empty();
  if (!isRange && rejection.value == rejection.limit)
    return fault("has a value that keeps to its limit");
  llvm::StringRef said(text);
  if (!said.contains(number(rejection.value)) ||
      !(isRange ? said.contains(rejection.allowed)
                : said.contains(number(rejection.limit))))
    return fault("has not both numbers");
  return "";
}

/// The fault of \p config of \p tmpl, whether or not it may run; counts the
/// configs that may.
std::string faultOfConfig(const KernelFamily &family, const Template &tmpl,
                          const Problem &problem, const Values &config,
                          const DeviceModel &device, int &kept) {
  auto parsed = family.parseConfig(config.text());
  if (!parsed)
    return "does not parse: " + llvm::toString(parsed.takeError());
  if (parsed->tmpl != &tmpl || !(parsed->config == config))
    return "parses into " + parsed->config.text();
  if (auto rejection = tmpl.prune(problem, config, device))
    return faultOfRejection(*rejection);
  ++kept;
  Estimate estimate = tmpl.estimate(problem, config, device);
  if (!std::isfinite(estimate.totalNs) || estimate.totalNs <= 0)
    return "takes " + number(estimate.totalNs) + " ns";
  Plan plan = tmpl.plan(problem, config, device);
  if (std::string fault = faultOfPlan(plan, device); !fault.empty())
    return fault;
  return family.isEmpty(problem) ? ""
                                 : faultOfLaunch(family, problem, plan, device);
}

/// Problems of all sizes.
std::vector<Problem> problemsOf(const KernelFamily &family) {
  std::vector<Problem> problems = drawWork(family, Sizes::Extreme, 20);
  for (Sizes sizes : {Sizes::Usual, Sizes::Small})
    llvm::append_range(problems, drawWork(family, sizes, 40));
  return problems;
}

/// A config that may run, and a problem for it.
struct Offer {
  const Problem *problem;
  Values config;
};

std::vector<Offer> offersOf(const Template &tmpl,
                            llvm::ArrayRef<Problem> problems) {
  std::vector<Offer> offers;
  for (const Problem &problem : problems)
    tmpl.enumerate(problem, h200(), [&](Values config) {
      if (!tmpl.prune(problem, config, h200()))
        offers.push_back({&problem, std::move(config)});
    });
  return offers;
}

/// Checks many configs of \p tmpl: some with any values, and neighbours of good
/// ones, which may run more often.
void checkConfigs(const KernelFamily &family, const Template &tmpl,
                  llvm::ArrayRef<Problem> problems,
                  llvm::ArrayRef<DeviceModel> devices) {
  std::vector<Offer> offers = offersOf(tmpl, problems);
  REQUIRE(!offers.empty());
  Random random(17);
  int kept = 0;
  for (int i = 0; i < 3000; ++i) {
    const Offer &offer = offers[random() % offers.size()];
    Values config = oneIn(random, 2) ? disturb(offer.config, random)
                                     : drawConfig(tmpl.configSchema(), random);
    const Problem &problem = oneIn(random, 2)
                                 ? *offer.problem
                                 : problems[random() % problems.size()];
    const DeviceModel &device =
        oneIn(random, 2) ? h200() : devices[random() % devices.size()];
    std::string fault =
        faultOfConfig(family, tmpl, problem, config, device, kept);
    if (fault.empty())
      continue;
    CAPTURE(problem.text());
    CAPTURE(config.text());
    CAPTURE(device.name);
    CHECK(fault == "");
  }
  CHECK(kept > 0);
}

} // namespace

TEST_CASE("conformance: any config that parses is pruned or planned") {
  const DeviceModel devices[] = {device("a100-sxm4-80gb"), device("t4"),
                                 device("b200-sxm"), device("rtx-5090")};
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    std::vector<Problem> problems = problemsOf(*family);
    for (const auto &tmpl : family->templates()) {
      CAPTURE(tmpl->name().str());
      // Draws rarely have some row lengths; suites do.
      if (offersOf(*tmpl, problems).empty())
        checkConfigs(*family, *tmpl, suiteProblems(*family), devices);
      else
        checkConfigs(*family, *tmpl, problems, devices);
    }
  }
}

TEST_CASE("conformance: a knob beyond its bounds gets one clear line") {
  for (const auto &family : registry().families())
    for (const auto &tmpl : family->templates()) {
      const Schema &schema = tmpl->configSchema();
      CHECK(schema.name() == tmpl->name());
      CHECK(schema.style() == TextStyle::Dotted);
      for (auto [i, knob] : llvm::enumerate(schema.fields()))
        for (int64_t value : {knob.minimum - 1, knob.maximum + 1,
                              std::numeric_limits<int64_t>::max()}) {
          Random random(19);
          Values config = drawConfig(schema, random);
          config.set(static_cast<int>(i), value);
          // A value that a default hides would not be printed.
          CAPTURE(config.text());
          auto named = family->parseConfig(config.text());
          REQUIRE(!named);
          std::string message = summarize(named.takeError()).message;
          CHECK(faultOfLine(message, tmpl->name()) == "");
          CHECK(llvm::StringRef(message).contains(
              fmt::format("{}={}", knob.key, value)));
        }
      auto unknown = family->parseConfig((tmpl->name() + "x.y1").str());
      REQUIRE(!unknown);
      CHECK(llvm::StringRef(summarize(unknown.takeError()).message)
                .starts_with(family->name()));
    }
}
