// kiln calibrate, and commands that take its values, on the stand-in driver.
#include "Device/Catalog.h"
#include "Driver/Driver.h"
#include "Store/CalibrationStore.h"
#include "Store/DeviceAssembly.h"
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

struct CalibrateTool : Tool {
  CalibrateTool() {
    environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
    environment["KILN_NVML"] = "/nonexistent/nvml.so";
  }

  /// The stand-in's device, as the tool sees it.
  DeviceModel device() const {
    Environment where;
    where.kilnDriver = environment.at("KILN_DRIVER");
    where.kilnNvml = environment.at("KILN_NVML");
    auto driver = llvm::cantFail(Driver::load(where));
    return llvm::cantFail(assembleDevice(driver.get(), where, {})).model;
  }
  std::unique_ptr<cache::Store> cache() const {
    cache::StoreOptions options;
    options.writeDir = folder / "cache";
    return cache::Store::open(std::move(options));
  }
  void store(double launchNs, double rampNs = 1000) const {
    const DeviceModel model = device();
    CalibrationStore(*cache()).store(
        model, {.gpu = model.uuid,
                .driver = "580",
                .time = 1,
                .values = {{"launchNs", launchNs, "launch"},
                           {"rampNs", rampNs, "launch"}}});
  }
  /// The launchNs that `info` shows.
  llvm::json::Object launchOf(const std::string &options) const {
    llvm::json::Object json = run("info --json " + options).json();
    const llvm::json::Object &device =
        *json.getArray("devices")->front().getAsObject();
    return *device.getObject("numbers")->getObject("launchNs");
  }
};

} // namespace

TEST_CASE("calibrate needs a GPU that is here") {
  Tool tool;
  ToolResult none = tool.run("calibrate");
  CHECK(none.code == 3);
  CHECK(none.hasOneErrorLine());
  CalibrateTool fake;
  ToolResult named = fake.run("calibrate --device h200-sxm");
  CHECK(named.code == 2);
  CHECK(named.err.find("calibrate measures on a GPU that is here") !=
        std::string::npos);
  CHECK(fake.run("calibrate --device 7").code == 2);
}

TEST_CASE("a GPU whose answers make no sense keeps its catalog") {
  // Kernels of the stand-in do nothing: only its clusters are plausible.
  CalibrateTool tool;
  ToolResult result = tool.run("calibrate --json");
  CAPTURE(result.err);
  CHECK(result.code == 1);
  llvm::json::Object json = result.json();
  CHECK(json.getInteger("refused").value_or(0) > 15);
  CHECK(json.getBoolean("stored") == true);
  CHECK(json.getObject("values")->size() < 10);
  for (const llvm::json::Value &item : *json.getArray("results"))
    if (item.getAsObject()->getString("field") == "dramLatencyNs")
      CHECK_FALSE(item.getAsObject()->getString("refused")->empty());
  CHECK(tool.run("info").out.find("the catalog by more") == std::string::npos);
}

TEST_CASE("info and others take stored values, unless the cache is left out") {
  CalibrateTool tool;
  CHECK(tool.launchOf("").getNumber("value") == 620);
  const std::string plan = "plan " + kSmallProblem + " --json";
  auto predicted = [&](const std::string &options) {
    llvm::json::Object json = tool.run(plan + options).json();
    return *json.getArray("problems")
                ->front()
                .getAsObject()
                ->getArray("candidates")
                ->front()
                .getAsObject()
                ->getNumber("predicted_us");
  };
  const double before = predicted("");
  tool.store(1220);
  llvm::json::Object launch = tool.launchOf("");
  CHECK(launch.getNumber("value") == 1220);
  CHECK(launch.getString("source") == "calibration");
  CHECK(launch.getString("note") == "launch");
  CHECK(tool.launchOf("--no-cache").getNumber("value") == 620);
  CHECK(tool.launchOf("--device h200-sxm").getNumber("value") == 620);
  CHECK(predicted("") == doctest::Approx(before + 0.6));
  CHECK(predicted(" --no-cache") == doctest::Approx(before));
  writeBytes(tool.folder / "launch.json", R"({"launchNs": 700})");
  CHECK(tool.launchOf("--override " + (tool.folder / "launch.json"))
            .getNumber("value") == 700);

  // It is found, and nothing is measured.
  ToolResult found = tool.run("calibrate --json");
  CHECK(found.code == 0);
  CHECK(found.json().getBoolean("measured") == false);
  CHECK(found.json().getObject("values")->getNumber("launchNs") == 1220);
  CHECK(tool.run("calibrate").out.find("--force measures again") !=
        std::string::npos);
  // The stand-in's ramp is refused, so the value before stays.
  tool.store(1220, 1300);
  const llvm::json::Object forced = tool.run("calibrate --force --json").json();
  CHECK(forced.getBoolean("measured") == true);
  CHECK(forced.getObject("values")->getNumber("rampNs") == 1300);
  // With refused fields it is not done: the next one measures again.
  CHECK(tool.run("calibrate --json").json().getBoolean("measured") == true);
  CHECK(tool.run("cache ls --kind calibration").code == 0);
}

TEST_CASE("a process waits for the one that measures its class") {
  CalibrateTool tool;
  auto cache = tool.cache();
  std::optional<cache::Claim> mine =
      CalibrationStore(*cache).claim(tool.device(), false);
  REQUIRE(mine->state == cache::Claim::State::Mine);
  ToolResult result =
      tool.run(std::vector<std::string>{"calibrate", "--json"}, [&](pid_t) {
        tool.store(800);
        mine.reset();
      });
  CHECK(result.code == 0);
  CHECK(result.json().getBoolean("measured") == false);
  CHECK(result.json().getObject("values")->getNumber("launchNs") == 800);
}

TEST_CASE("a process measures where the one before it gave up") {
  CalibrateTool tool;
  auto cache = tool.cache();
  std::optional<cache::Claim> mine =
      CalibrationStore(*cache).claim(tool.device(), false);
  REQUIRE(mine->state == cache::Claim::State::Mine);
  ToolResult result = tool.run(std::vector<std::string>{"calibrate", "--json"},
                               [&](pid_t) { mine.reset(); });
  CHECK(result.json().getBoolean("measured") == true);
}
