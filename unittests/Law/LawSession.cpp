//===- LawSession.cpp -----------------------------------------------------===//
#include "Law/LawSession.h"

#include "Support/Format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

namespace kiln::testing {

//===----------------------------------------------------------------------===//
// Texts and sums
//===----------------------------------------------------------------------===//

static const char *nameOf(LawServer server) {
  constexpr const char *kNames[] = {"predict", "tune", "background", "prepared",
                                    "cancelled"};
  return kNames[static_cast<int>(server)];
}

std::string LawPlan::text() const {
  constexpr const char *kOrders[] = {"random", "ascending", "descending"};
  const bool hasBudget =
      server == LawServer::Tune || server == LawServer::Prepared;
  return fmt::format("{}{} {}{}", nameOf(server),
                     then ? fmt::format(", then {},", nameOf(*then)) : "",
                     kOrders[static_cast<int>(order)],
                     hasBudget ? fmt::format(" {} ms", budgetMs) : "");
}

/// "13.20 us (estimate 12.10) sm90.bm128..".
static std::string describe(const LawPlace &place) {
  return fmt::format("{:.2f} us (estimate {:.2f}) {}", place.trueNs / 1e3,
                     place.estimateNs / 1e3, place.config.text());
}

std::string LawLaunch::text() const {
  return fmt::format("{:.3f} at {}: launched {}, predict {}", judgedGain(),
                     launched.problem.values.text(), describe(launched),
                     describe(predicted));
}

void LawTally::add(const LawLaunch &launch) {
  constexpr double kMuch = 1.03;
  const double gain = launch.judgedGain();
  if (values++ == 0 || gain < worst.judgedGain())
    worst = launch;
  beyond3 += gain * kMuch < 1;
  logSum += std::log(gain);
  trueLogSum += std::log(launch.gain());
}

double LawTally::geomean() const {
  return values ? std::exp(logSum / static_cast<double>(values)) : 1;
}

double LawTally::shareBeyond3() const {
  return values ? static_cast<double>(beyond3) / static_cast<double>(values)
                : 0;
}

std::string LawTally::text() const {
  if (values == 0)
    return "no values";
  return fmt::format("{:6} values, geomean {:.4f} (ties as they are {:.4f}), "
                     "beyond 3 %: {:5.2f} %, worst {}",
                     values, geomean(),
                     std::exp(trueLogSum / static_cast<double>(values)),
                     100 * shareBeyond3(), worst.text());
}

void LawTable::add(const LawPlan &plan, const std::string &layer,
                   const LawLaunch &launch) {
  const std::string family = layer.substr(0, layer.find(' '));
  lines[fmt::format("{}, {}", plan.text(), family)].add(launch);
  total.add(launch);
}

void LawTable::print() const {
  for (const auto &[kind, tally] : lines)
    std::printf("%-40s %s\n", kind.c_str(), tally.text().c_str());
  std::printf("%-40s %s\n", "all", total.text().c_str());
}

//===----------------------------------------------------------------------===//
// Sessions
//===----------------------------------------------------------------------===//

LawFixture::LawFixture(LawWorld &world) {
  judgeTrials();
  kilnFakeSetHollowMemory(1 << 20);
  world.attach();
}

kiln_engine *LawFixture::engineFor(LawServer server, int64_t budgetMs) {
  const kiln_mode mode = server == LawServer::Predict ? KILN_MODE_PREDICT
                         : server == LawServer::Background
                             ? KILN_MODE_BACKGROUND
                             : KILN_MODE_TUNE;
  kiln_engine_options made = options(mode);
  made.device_model = "h200-sxm";
  made.tune_budget_ms = std::max<int64_t>(budgetMs, 1);
  made.background_permille = mode == KILN_MODE_BACKGROUND ? 1000 : 0;
  return engine(made);
}

/// Has all values prepared, within the budget or until a number of trials is
/// made.
static void prepareAll(kiln_engine *engine, LawLayer &layer,
                       const LawPlan &plan) {
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.budget_ms = std::max<int64_t>(plan.budgetMs, 1);
  kiln_status wanted = KILN_SUCCESS;
  if (plan.server == LawServer::Cancelled) {
    constexpr int64_t kLateMs = 600000;
    constexpr uint64_t kTrials = 12;
    options.budget_ms = kLateMs;
    options.progress = [](void *, const kiln_progress *progress) -> int32_t {
      return progress->trials_done >= kTrials;
    };
    wanted = KILN_CANCELLED;
  }
  const kiln_status status = layer.prepare(engine, options);
  CAPTURE(lastError());
  CHECK(status == wanted);
}

static LawLaunch launchOnce(LawWorld &world, LawLayer &layer,
                            kiln_engine *engine, LawServer server,
                            LawValue value) {
  CAPTURE(layer.text(value));
  kiln_status status = layer.launch(engine, value);
  if (server == LawServer::Background) {
    REQUIRE(kiln_background_wait(engine, 600000) == KILN_SUCCESS);
    status = layer.launch(engine, value);
  }
  CAPTURE(lastError());
  REQUIRE(status == KILN_SUCCESS);
  LawLaunch made;
  made.launched = world.takeLaunched();
  made.predicted = world.predicted(layer.text(value));
  REQUIRE_FALSE(made.launched.empty());
  REQUIRE(made.launched.problem.values.text() ==
          made.predicted.problem.values.text());
  made.hasEvidence =
      world.isTimed(made.launched) && world.isTimed(made.predicted);
  made.isSupported = world.foundNoSlower(made.launched, made.predicted);
  return made;
}

static void arrange(std::vector<LawValue> &values, LawOrder order) {
  if (order == LawOrder::Random)
    return;
  auto size = [](LawValue value) { return value.first * value.second; };
  std::stable_sort(values.begin(), values.end(), [&](LawValue a, LawValue b) {
    return order == LawOrder::Ascending ? size(a) < size(b) : size(a) > size(b);
  });
}

/// CPU time of this process, so that other processes do not count.
static double cpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void runSession(LawWorld &world, LawLayer &layer, const LawPlan &plan,
                std::vector<LawValue> values,
                llvm::function_ref<void(const LawLaunch &)> take) {
  arrange(values, plan.order);
  LawFixture fixture(world);
  world.expect(layer.text(values.front()));
  world.beginProcess();
  LawServer server = plan.server;
  kiln_engine *engine = fixture.engineFor(server, plan.budgetMs);
  if (server == LawServer::Prepared || server == LawServer::Cancelled)
    prepareAll(engine, layer, plan);
  const double start = cpuSeconds();
  std::optional<LawServer> then = plan.then;
  for (size_t i = 0; i < values.size(); ++i) {
    const double used = (cpuSeconds() - start) / plan.limitSeconds;
    if (then && (i >= values.size() / 2 || used > 0.5)) {
      server = *std::exchange(then, std::nullopt);
      fixture.destroy(engine);
      world.beginProcess();
      engine = fixture.engineFor(server, plan.budgetMs);
    }
    if (used > 1)
      break;
    take(launchOnce(world, layer, engine, server, values[i]));
  }
}

} // namespace kiln::testing
