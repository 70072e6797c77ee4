#include "kiln-bench/ClassicModel.h"

#include "Model/TestDevices.h"

#include "Support/Json.h"

#include <doctest/doctest.h>

#include <llvm/Support/FormatVariadic.h>

#include <cmath>
#include <set>

using namespace kiln;
using namespace kiln::cli;

static llvm::json::Value golden() {
  return llvm::cantFail(readJsonFile(
      KILN_SOURCE_DIR "/unittests/Tools/golden/matmul_perf_model.json"));
}

static DType typeOf(llvm::StringRef name) {
  if (name == "fp32")
    return DType::FP32;
  if (name == "fp16")
    return DType::FP16;
  if (name == "bf16")
    return DType::BF16;
  REQUIRE(name == "int8");
  return DType::INT8;
}

static ClassicConfig configOf(const llvm::json::Object &json) {
  return {*json.getInteger("block_m"),   *json.getInteger("block_n"),
          *json.getInteger("block_k"),   *json.getInteger("split_k"),
          *json.getInteger("num_warps"), *json.getInteger("num_stages")};
}

static std::vector<ClassicConfig> configsOf(const llvm::json::Array &json) {
  std::vector<ClassicConfig> configs;
  for (const llvm::json::Value &value : json) {
    const llvm::json::Array &row = *value.getAsArray();
    auto at = [&](size_t i) { return *row[i].getAsInteger(); };
    configs.push_back({at(0), at(1), at(2), at(3), at(4), at(5)});
  }
  return configs;
}

TEST_CASE("estimates equal the expected values") {
  llvm::json::Value json = golden();
  const llvm::json::Array &cases = *json.getAsObject()->getArray("estimate");
  CHECK(cases.size() == 120);
  for (const llvm::json::Value &value : cases) {
    const llvm::json::Object &expected = *value.getAsObject();
    CAPTURE(llvm::formatv("{0}", value).str());
    ClassicEstimate estimate = estimateClassic(
        testDevice(*expected.getString("device")),
        typeOf(*expected.getString("dtype")), *expected.getInteger("m"),
        *expected.getInteger("n"), *expected.getInteger("k"),
        configOf(*expected.getObject("config")));
    auto isNear = [&](double actual, llvm::StringRef key) {
      double wanted = *expected.getNumber(key);
      return std::abs(actual - wanted) <= 1e-9 * wanted;
    };
    CHECK(isNear(estimate.computeMs, "compute_ms"));
    CHECK(isNear(estimate.loadMs, "load_ms"));
    CHECK(isNear(estimate.storeMs, "store_ms"));
    CHECK(isNear(estimate.totalMs, "total_ms"));
  }
}

TEST_CASE("prunings equal the expected ones, in order") {
  llvm::json::Value json = golden();
  const llvm::json::Object &prune = *json.getAsObject()->getObject("prune");
  std::vector<ClassicConfig> input = configsOf(*prune.getArray("input"));
  const llvm::json::Array &results = *prune.getArray("results");
  CHECK(results.size() == 6);
  for (const llvm::json::Value &value : results) {
    const llvm::json::Object &expected = *value.getAsObject();
    llvm::StringRef device = *expected.getString("device");
    CAPTURE(device.str());
    ClassicPruning pruning = pruneClassic(
        testDevice(device), typeOf(*expected.getString("dtype")), input);
    std::vector<ClassicConfig> kept;
    std::set<size_t> indices;
    for (const ClassicSurvivor &survivor : pruning.kept) {
      kept.push_back(survivor.config);
      indices.insert(survivor.index);
    }
    CHECK(kept == configsOf(*expected.getArray("kept")));
    // Every config is either kept or rejected with a reason.
    for (const ClassicRejection &rejection : pruning.rejected) {
      CHECK(indices.insert(rejection.index).second);
      CHECK_FALSE(rejection.text.empty());
    }
    CHECK(indices.size() == input.size());
    CHECK(pruning.kept.size() + pruning.rejected.size() == input.size());
  }
}

TEST_CASE("each rejection has its reason") {
  ClassicConfig tile{128, 128, 64, 1, 4, 2};
  auto with = [&](int64_t splitK, int64_t stages) {
    ClassicConfig config = tile;
    config.splitK = splitK;
    config.numStages = stages;
    return config;
  };
  // The optimum is 300 / (128*128*64/2048/4*8) = 0.29 stages.
  std::vector<ClassicConfig> configs{with(1, 4), with(1, 3), with(1, 2),
                                     with(1, 8), with(2, 2)};
  ClassicPruning pruning = pruneClassic(testDevice(), DType::BF16, configs);
  REQUIRE(pruning.kept.size() == 2);
  CHECK(pruning.kept[0].index == 2);
  CHECK(pruning.kept[1].index == 1);
  REQUIRE(pruning.rejected.size() == 3);
  CHECK(pruning.rejected[0].reason == ClassicReason::SharedMemory);
  CHECK(pruning.rejected[0].text ==
        "needs 262144 B of shared memory, limit 232448");
  CHECK(pruning.rejected[0].value == 262144);
  CHECK(pruning.rejected[0].limit == 232448);
  CHECK(pruning.rejected[1].reason == ClassicReason::SplitKType);
  CHECK(pruning.rejected[1].value == 2);
  CHECK(pruning.rejected[2].reason == ClassicReason::Stages);
  CHECK(pruning.rejected[2].index == 0);
}

TEST_CASE("capability 7 keeps one sibling, with two stages") {
  std::vector<ClassicConfig> configs{{64, 64, 32, 1, 4, 4},
                                     {64, 64, 32, 1, 4, 3}};
  ClassicPruning pruning = pruneClassic(testDevice("t4"), DType::FP16, configs);
  REQUIRE(pruning.kept.size() == 1);
  CHECK(pruning.kept[0].config == ClassicConfig{64, 64, 32, 1, 4, 2});
  CHECK(pruning.kept[0].index == 0);
  REQUIRE(pruning.rejected.size() == 1);
  CHECK(pruning.rejected[0].reason == ClassicReason::TwoStages);
}

TEST_CASE("E4: FFMA has its own peak, and the same share of sub-cores") {
  // 64 x 64 tiles of 4 warps; the model counts 2^30 against 10^12.
  ClassicConfig simt{64, 64, 16, 1, 4, 2, /*tensor=*/false};
  struct Case {
    llvm::StringRef device;
    DType type;
    double tflops; ///< of the data sheet, fp32
  };
  for (auto [name, type, tflops] :
       {Case{"a100-sxm4-40gb", DType::FP32, 19.5},
        Case{"h200-sxm", DType::FP32, 66.9}, Case{"t4", DType::FP16, 8.14},
        Case{"v100-sxm2", DType::FP16, 15.7}}) {
    CAPTURE(name.str());
    ClassicEstimate whole =
        estimateClassic(testDevice(name), type, 4096, 4096, 4096, simt);
    CHECK(whole.activeShare == 1);
    CHECK(whole.peakTflops == doctest::Approx(tflops).epsilon(0.01));
    CHECK(whole.computeMs == doctest::Approx(128 / whole.peakTflops));
    // One block feeds four of all sub-cores.
    ClassicEstimate one =
        estimateClassic(testDevice(name), type, 64, 64, 4096, simt);
    CHECK(one.activeWarps == 4);
    CHECK(one.activeShare ==
          doctest::Approx(1.0 / double(testDevice(name).smCount)));
  }
  ClassicConfig tensor = simt;
  tensor.tensor = true;
  CHECK(estimateClassic(testDevice(), DType::FP16, 4096, 4096, 4096, tensor)
            .peakTflops > 500);
}
