#include "Store/CalibrationStore.h"

#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Store/DeviceAssembly.h"
#include "Store/FakeDevice.h"
#include "Store/PoolStore.h"
#include "Store/PortfolioStore.h"
#include "Store/StoreFixture.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

DeviceModel board(const char *uuid, const char *name = "h200-sxm") {
  DeviceModel model = must(findDevice(name));
  model.uuid = uuid;
  return model;
}

Calibration calibrated(const DeviceModel &model, double dramGBs) {
  return {.gpu = model.uuid,
          .driver = "580.65.06",
          .time = 1700000000,
          .values = {{"dramGBs", dramGBs, "dram read"}}};
}

std::optional<double> dramOf(cache::Store &cache, const DeviceModel &model,
                             size_t notesExpected = 0) {
  std::vector<std::string> notes;
  auto found = CalibrationStore(cache).find(model, notes);
  CHECK(notes.size() == notesExpected);
  if (!found)
    return std::nullopt;
  return found->values.at(0).value;
}

} // namespace

TEST_CASE("boards of a class share the first calibration, or have their own") {
  TemporaryFolder folder;
  cache::StoreOptions options;
  options.writeDir = folder.path();
  auto cache = cache::Store::open(options);
  CalibrationStore store(*cache);
  const DeviceModel first = board("GPU-1"), second = board("GPU-2");
  CHECK_FALSE(dramOf(*cache, first));
  store.store(first, calibrated(first, 4100));
  CHECK(dramOf(*cache, first) == 4100);
  CHECK(dramOf(*cache, second) == 4100); // of the class
  CHECK_FALSE(dramOf(*cache, board("GPU-1", "h100-sxm")));

  store.store(second, calibrated(second, 4200));
  CHECK(dramOf(*cache, first) == 4100);
  CHECK(dramOf(*cache, second) == 4200);
  CHECK(dramOf(*cache, board("GPU-3")) == 4100);
  // The class follows the board that it is of.
  store.store(first, calibrated(first, 4150));
  CHECK(dramOf(*cache, board("GPU-3")) == 4150);
  CHECK(dramOf(*cache, second) == 4200);

  // A whole one takes the place of one with refused fields.
  Calibration partial = calibrated(first, 4160);
  partial.refused = {"l2GBs"};
  CHECK(store.store(first, partial).isForClass);
  CHECK(store.store(second, calibrated(second, 4210)).isForClass);
  CHECK(dramOf(*cache, board("GPU-3")) == 4210);
  CHECK_FALSE(store.store(first, calibrated(first, 4170)).isForClass);

  // Another power limit is another class: its clocks under load differ.
  DeviceModel capped = first;
  capped.powerLimitWatts = 500;
  CHECK_FALSE(dramOf(*cache, capped));
  // Another process finds the same.
  CHECK(dramOf(*cache::Store::open(options), second) == 4210);
}

TEST_CASE("damaged, foreign and later calibrations are ignored and counted") {
  auto cache = cache::Store::open({});
  CalibrationStore store(*cache);
  const DeviceModel device = board("GPU-1");
  const std::string key = "kiln calibration\n" + deviceClassKey(device) + "\n";
  const std::string good = R"({"values":[{"key":"dramGBs","value":4000}]})";
  auto publish = [&](int64_t format, const std::string &payload) {
    cache->publish(cache::Kind::Calibration, key,
                   llvm::json::Object{{"format", format}}, payload);
  };
  publish(1, good);
  CHECK(dramOf(*cache, device) == 4000);
  publish(1, "{");
  CHECK_FALSE(dramOf(*cache, device, 1));
  CHECK(cache->statistics().unaccepted == 0);
  publish(2, good);
  CHECK_FALSE(dramOf(*cache, device));
  CHECK(cache->statistics().unaccepted == 1);
  // The next calibration heals it.
  store.store(device, calibrated(device, 4300));
  CHECK(dramOf(*cache, device) == 4300);
}

TEST_CASE("one process at a time measures a class") {
  TemporaryFolder folder;
  cache::StoreOptions options;
  options.writeDir = folder.path();
  auto one = cache::Store::open(options), other = cache::Store::open(options);
  using State = cache::Claim::State;
  std::optional<cache::Claim> mine =
      CalibrationStore(*one).claim(board("GPU-1"), false);
  CHECK(mine->state == State::Mine);
  CHECK(CalibrationStore(*other).claim(board("GPU-2"), false).state ==
        State::Theirs);
  // Boards by themselves do not wait for each other.
  CHECK(CalibrationStore(*other).claim(board("GPU-2"), true).state ==
        State::Mine);
  mine.reset();
  CHECK(CalibrationStore(*other).claim(board("GPU-2"), false).state ==
        State::Mine);
}

TEST_CASE("a live device takes its calibration, a named one the catalog") {
  FakeDevice gpu;
  auto cache = cache::Store::open({});
  auto assemble = [&](const DeviceSelection &selection) {
    AssembledDevice device =
        must(assembleDevice(gpu.driver.get(), fakeEnvironment(), selection));
    addCalibration(device, *cache);
    return device;
  };
  AssembledDevice live = assemble({});
  CHECK(live.model.dramGBs == 4290);
  const size_t notes = live.notes.size();
  Calibration made = calibrated(live.model, 4400);
  made.values.push_back({"launchNs", 9, "launch"});
  CalibrationStore(*cache).store(live.model, made);
  live = assemble({});
  CHECK(live.model.dramGBs == 4400);
  CHECK(originOf(live.model, "dramGBs").source == ValueSource::Calibration);
  CHECK(live.model.launchNs == 620); // refused
  CHECK(live.notes.size() == notes + 1);
  DeviceSelection named;
  named.catalogName = "h200-sxm";
  CHECK(assemble(named).model.dramGBs == 4290);
}

TEST_CASE("no key of a kernel depends on a calibration, each choice does") {
  Registry registry = makeBuiltinRegistry();
  const DeviceModel before = must(findDevice("h200-sxm"));
  DeviceModel after = before;
  Calibration all;
  for (const char *key : calibratedKeys()) {
    const FieldValue value = findDeviceField(key)->valueOf(before);
    if (const double *real = std::get_if<double>(&value))
      all.values.push_back({key, *real * 0.9, "test"});
    else
      all.values.push_back({key, double(std::get<int64_t>(value)) - 1, "test"});
  }
  std::vector<std::string> notes;
  applyCalibration(after, all, notes);
  CHECK(notes.empty());
  for (const char *text :
       {"gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
        "gemm m=16 n=4096 k=4096 dtype=e4m3 layout=NT out=bf16",
        "attention batch=1 heads=8 sq=512 sk=512 d=128 dtype=bf16",
        "rmsnorm rows=64 cols=4096 dtype=bf16",
        "elementwise op=relu rows=64 cols=4096 dtype=bf16"}) {
    CAPTURE(text);
    auto named = registry.parseProblem(text);
    if (!named) {
      FAIL_CHECK(summarize(named.takeError()).message);
      continue;
    }
    Space space = must(exploreSpace(*named->family, named->problem, before));
    size_t plans = 0;
    for (const Candidate &candidate : space.ranked) {
      if (++plans > 12)
        break;
      const Plan one =
          candidate.tmpl->plan(named->problem, candidate.config, before);
      const Plan other =
          candidate.tmpl->plan(named->problem, candidate.config, after);
      REQUIRE(one.kernels.size() == other.kernels.size());
      for (size_t i = 0; i < one.kernels.size(); ++i)
        CHECK(artifactKey(one.kernels[i]) == artifactKey(other.kernels[i]));
    }
    CHECK(plans > 0);
    CHECK(PortfolioKey::ofValue(named->problem, before).text() !=
          PortfolioKey::ofValue(named->problem, after).text());
  }
}
