// Judging answers of benchmarks, and all of a calibration on a GPU.
#include "calibrate/Benchmarks.h"
#include "calibrate/CalibrationReport.h"

#include "Device/Catalog.h"
#include "Trial/GpuTrials.h"

#include <set>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

namespace {

/// A benchmark of the field \p key that answers \p values in turns, and counts
/// its runs.
Benchmark answering(const char *key, std::vector<double> values, unsigned &runs,
                    double mostSpread = 0.1) {
  runs = 0;
  return {"some benchmark", mostSpread,
          [=, &runs]() -> llvm::Expected<std::vector<Sample>> {
            const double value = values[runs++ % values.size()];
            return std::vector<Sample>{{"side", 1, "ns"},
                                       {"field", value, "GB/s", key}};
          }};
}

Judged judgeField(const Benchmark &benchmark) {
  static const DeviceModel device = must(findDevice("h200-sxm"));
  std::vector<Judged> judged = must(judge(benchmark, device));
  REQUIRE(judged.size() == 2);
  CHECK(judged[0].key.empty());
  return judged[1];
}

} // namespace

TEST_CASE("the median of steady answers is taken, the first does not count") {
  unsigned runs = 0;
  Judged judged = judgeField(
      answering("dramGBs", {1000, 4301, 4303, 4302, 4304, 4300}, runs));
  CHECK(runs == 6);
  CHECK(judged.refused.empty());
  CHECK(judged.median == 4302);
  CHECK(judged.value == doctest::Approx(4300));
  CHECK(judged.spread == doctest::Approx(4.0 / 4302));
  CHECK(judged.known == 4290);
  CHECK(judged.source == "catalog");
  CHECK(valuesOf(judged).size() == 1);
}

TEST_CASE("a busy GPU is noticed, asked again, and then given up") {
  unsigned runs = 0;
  Judged busy = judgeField(answering("dramGBs", {4300, 2200, 4200}, runs));
  CHECK(runs == 18);
  CHECK(busy.refused.find("is the GPU in use?") != std::string::npos);
  CHECK(valuesOf(busy).empty());
  // The second series is steady.
  std::vector<double> answers{4300, 4300, 2200, 4300, 4300, 4300};
  answers.insert(answers.end(), 6, 4310);
  Judged later = judgeField(answering("dramGBs", answers, runs));
  CHECK(runs == 12);
  CHECK(later.refused.empty());
  CHECK(later.median == 4310);
}

TEST_CASE("steady answers beside another program do not count") {
  const DeviceModel device = must(findDevice("h200-sxm"));
  unsigned runs = 0, asked = 0;
  JudgeOptions options;
  options.isShared = [&]() -> llvm::Expected<bool> { return ++asked < 2; };
  const Benchmark steady = answering("dramGBs", {4300}, runs);
  CHECK(must(judge(steady, device, options)).back().refused.empty());
  CHECK(asked == 2);
  CHECK(runs == 12);
  options.isShared = []() -> llvm::Expected<bool> { return true; };
  const std::vector<Judged> judged = must(judge(steady, device, options));
  CHECK(judged.back().refused == "another program uses the GPU");
  CHECK(judged.front().refused.empty()); // no field
  CHECK(valuesOf(judged).empty());
}

TEST_CASE("a value that cannot be right is refused") {
  unsigned runs = 0;
  for (double wrong :
       {0.0, -1.0, 100.0, 5000.0, double(NAN), double(INFINITY)}) {
    CAPTURE(wrong);
    Judged judged = judgeField(answering("dramGBs", {wrong}, runs));
    CHECK_FALSE(judged.refused.empty());
    CHECK(valuesOf(judged).empty());
  }
}

TEST_CASE("an error of a benchmark names it, and a signal ends all") {
  const DeviceModel device = must(findDevice("h200-sxm"));
  const Benchmark fails{"one that fails", 0.1,
                        []() -> llvm::Expected<std::vector<Sample>> {
                          return makeError(ErrorCode::DriverError, "oh");
                        }};
  auto failed = judge(fails, device);
  REQUIRE_FALSE(static_cast<bool>(failed));
  CHECK(llvm::toString(failed.takeError()).find("one that fails") !=
        std::string::npos);
  const std::atomic<bool> cancelled = true;
  JudgeOptions options;
  options.cancel = &cancelled;
  auto ended = judge(fails, device, options);
  REQUIRE_FALSE(static_cast<bool>(ended));
  CHECK(summarize(ended.takeError()).code == ErrorCode::Cancelled);
}

TEST_CASE("rates confirm what is known, other values lose their noise") {
  const DeviceModel device = must(findDevice("h200-sxm"));
  auto valueOf = [&](const char *key, double measured) {
    return fieldValue(device, *findDeviceField(key), measured);
  };
  CHECK(valueOf("simdFp32FlopsPerClock", 252.2) == 256);
  CHECK(valueOf("simdFp16FlopsPerClock", 255.3) == doctest::Approx(255));
  CHECK(valueOf("mmaSyncBf16FlopsPerClock", 2731) == 2680);
  CHECK(valueOf("mmaSyncBf16FlopsPerClock", 2791) == doctest::Approx(2790));
  CHECK(valueOf("dramGBs", 4287.3) == doctest::Approx(4290));
  CHECK(valueOf("l2LatencyNs", 130.84) == doctest::Approx(131));
  CHECK(valueOf("maxClusters4", 30) == 30);
}

TEST_CASE("the report tells value, source before, ratio and refusals") {
  DeviceModel device = must(findDevice("h200-sxm"));
  device.uuid = "GPU-1";
  unsigned runs = 0;
  CalibrationReport report(device);
  for (auto [key, value] : {std::pair{"dramGBs", 4400.0}, {"l2GBs", 1.0}})
    for (Judged &judged : must(judge(answering(key, {value}, runs), device)))
      report.judged.push_back(std::move(judged));
  report.calibration = {"GPU-1", "580", 0, valuesOf(report.judged)};
  report.isForClass = true;
  CHECK(report.refusals() == 1);
  CalibrationReport found(device); // of another process
  found.calibration = report.calibration;
  found.calibration.refused = {"l2GBs", "rampNs"};
  CHECK(found.refusals() == 2);
  CHECK(reportText(found, false).find("refused when it was measured: l2GBs") !=
        std::string::npos);
  const std::string text = reportText(report, false);
  for (const char *part :
       {"some benchmark  dramGBs     4400  GB/s    4290  catalog",
        "refused, the value before stays: some benchmark: l2GBs: 1 is off",
        "some benchmark in ns: side 1.00, side 1.00", "1 values in",
        "stored for h200-sxm cc=9.0"}) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  }
  const llvm::json::Object json = report.toJson();
  CHECK(json.getObject("values")->getNumber("dramGBs") == 4400);
  CHECK(json.getObject("values")->size() == 1);
  CHECK(json.getBoolean("measured") == true);
  // A later command finds it.
  report.judged.clear();
  CHECK(reportText(report, false).find("measured on this GPU") !=
        std::string::npos);
}

TEST_SUITE("gpu") {

  TEST_CASE("a calibration is near what is known of the GPU") {
    GpuTrials gpu(Registry{});
    auto rig = must(Rig::create(*gpu.driver, *gpu.artifacts, gpu.device));
    const std::vector<Benchmark> benchmarks = allBenchmarks(*rig);
    CHECK(benchmarks.size() <= 15);
    CHECK_FALSE(must(isShared(*rig)));
    const std::vector<Judged> judged = must(judge(benchmarks, gpu.device));
    std::set<std::string> measured;
    for (const Judged &one : judged) {
      if (one.key.empty())
        continue;
      CAPTURE(one.key);
      CAPTURE(one.value);
      CAPTURE(one.known);
      CHECK(one.refused == "");
      measured.insert(one.key);
      // The rule for packed halves of 9.0 counts instructions that compilers
      // do not make.
      const double most = one.key == "simdFp16FlopsPerClock" ? 2.1 : 1.25;
      if (one.source == "catalog" || one.source == "architecture") {
        CHECK(one.value < most * one.known);
        CHECK(one.value > one.known / most);
      }
    }
    if (gpu.device.computeCapability() == 90)
      CHECK(measured.size() == calibratedKeys().size() - 1); // fp8 of mma.sync
  }

} // TEST_SUITE
