// explain, where only trials of another GPU are there.
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Store/Records.h"
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

const std::string kProblem = "rmsnorm rows=64 cols=4096 dtype=bf16";

/// Stores that the estimator's first choice took \p ns on \p device.
void storeTime(const Tool &tool, const char *name, double ns) {
  const Registry registry = makeBuiltinRegistry();
  auto named = llvm::cantFail(registry.parseProblem(kProblem));
  const DeviceModel device = llvm::cantFail(findDevice(name));
  Space space =
      llvm::cantFail(exploreSpace(*named.family, named.problem, device));
  Measurement measurement;
  measurement.config = space.ranked.front().config.text();
  measurement.validated = true;
  measurement.medianNs = measurement.ciLowNs = measurement.ciHighNs = ns;
  measurement.samples = 5;
  measurement.kernel = "some kernel";
  measurement.series = newSeries();
  RecordPoint point;
  point.extents = dynamicExtentsOf(*named.family, named.problem);
  point.winner = measurement.config;
  point.measurements = {measurement};
  cache::StoreOptions options;
  options.writeDir = tool.folder / "cache";
  auto cache = cache::Store::open(std::move(options));
  RecordStore(*cache).store(*named.family, named.problem,
                            deviceClassKey(device), point);
}

} // namespace

TEST_CASE("a time of another GPU is rescaled, and called a guess") {
  Tool tool;
  const std::string line = "explain " + kProblem + " --device h100-sxm";
  CHECK(tool.run(line).out.find("guess") == std::string::npos);
  storeTime(tool, "a100-sxm4-80gb", 9000);
  CHECK(tool.run(line + " --json")
            .json()
            .getObject("measured_elsewhere")
            ->getString("device") == "a100-sxm4-80gb");
  // A GPU of the same capability is nearer.
  storeTime(tool, "h200-sxm", 5000);
  const llvm::json::Object json = tool.run(line + " --json").json();
  const llvm::json::Object &guess = *json.getObject("measured_elsewhere");
  CHECK(guess.getString("device") == "h200-sxm");
  CHECK(guess.getNumber("measured_us") == 5);
  CHECK(guess.getBoolean("is_guess") == true);
  const double ratio = *guess.getNumber("ratio");
  CHECK(ratio > 0.9);
  CHECK(ratio < 2);
  CHECK(*guess.getNumber("rescaled_us") ==
        doctest::Approx(5 * ratio).epsilon(1e-3));
  const ToolResult text = tool.run(line);
  CAPTURE(text.out);
  CHECK(text.out.find("not measured on this GPU. On h200-sxm trials found") !=
        std::string::npos);
  CHECK(text.out.find("a guess") != std::string::npos);
  CHECK(tool.run(line + " --no-cache").out.find("guess") == std::string::npos);
  // Its own trials go before.
  storeTime(tool, "h100-sxm", 6000);
  CHECK(tool.run(line).out.find("guess") == std::string::npos);
}
