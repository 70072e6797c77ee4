#include "llama/StoredWeight.h"

#include "Examples/QuantizedCheckpoint.h"
#include "llama/CacheType.h"
#include "llama/Error.h"
#include "llama/HostMatrix.h"
#include "llama/WeightPlan.h"

#include <doctest/doctest.h>

#include <optional>

using namespace llama;
using namespace llama::testing;
using kiln::testing::TemporaryFolder;

namespace {

using Json = nlohmann::json;

Json compressedConfig(const Json &weights, const char *format) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"ignore", {"lm_head"}},
          {"config_groups",
           {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

const Json kGptq = {{"quant_method", "gptq"},
                    {"bits", 4},
                    {"group_size", 32},
                    {"sym", false},
                    {"desc_act", false}};
const Json kAwq = {{"quant_method", "awq"},
                   {"bits", 4},
                   {"group_size", 32},
                   {"zero_point", true},
                   {"version", "gemm"}};
const Json kBlocks = {{"quant_method", "fp8"},
                      {"activation_scheme", "dynamic"},
                      {"weight_block_size", {128, 128}}};
const Json kModelOpt = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};

Json compressedIntegers(bool isSymmetric) {
  return compressedConfig({{"num_bits", 4},
                           {"type", "int"},
                           {"strategy", "group"},
                           {"group_size", 32},
                           {"symmetric", isSymmetric}},
                          "pack-quantized");
}

/// A checkpoint of a writer in a folder of its own.
struct Stored {
  Stored(const Json &quantization, const ModuleWriter &writer)
      : Stored(
            quantization,
            [&](const ModelConfig &model) { return tensorsOf(model, writer); },
            0) {}
  template <class Make>
  Stored(const Json &quantization, const Make &make, int)
      : model(parseModelConfig(configWith(quantization).dump(), "test")) {
    make(model).write(folder.path, configWith(quantization));
    checkpoint.emplace(folder.path);
    source.checkpoint = &*checkpoint;
  }
  /// The same with some tensors changed.
  Stored(const Json &quantization, const ModuleWriter &writer,
         const std::function<void(TensorSet &)> &change)
      : Stored(
            quantization,
            [&](const ModelConfig &model) {
              TensorSet set = tensorsOf(model, writer);
              change(set);
              return set;
            },
            0) {}

  TemporaryFolder folder;
  ModelConfig model;
  std::optional<Checkpoint> checkpoint;
  WeightSource source;
};

/// The numbers of a module's weight.
using Expected =
    std::function<float(const HashedWeight &w, int64_t row, int64_t column)>;

float integersOf(const HashedWeight &w, int64_t row, int64_t column) {
  const int64_t group = column / kGroup;
  return float(w.code(row, column) - w.zero(row, group)) * w.scale(row, group);
}

/// Every row of every product, as it is stored and as the plan has it.
void checkNumbers(const Stored &stored, WeightType type,
                  const Expected &expected) {
  REQUIRE(checkWeights(stored.model, *stored.checkpoint) ==
          std::vector<std::string>{});
  const WeightPlan plan = planWeights(stored.model, stored.source);
  int64_t wrong = 0, products = 0;
  for (const PlannedMatrix &matrix : plan.matrices) {
    if (matrix.format.type == WeightType::Bf16)
      continue;
    ++products;
    CHECK(matrix.format.type == type);
    HostMatrix host(stored.model, stored.source, matrix);
    std::vector<float> row(static_cast<size_t>(matrix.columns)), placed = row;
    for (const PlacedTensor &part : matrix.parts) {
      const HashedWeight w(moduleOf(part.spec.name));
      const auto weight = openWeight(stored.model, stored.source, part.spec);
      for (int64_t r = 0; r < part.rows; ++r) {
        weight->readRow(r, row.data());
        host.readRow(part.targetRow + r * part.rowStep, placed.data());
        for (int64_t c = 0; c < part.columns; ++c) {
          const auto at = static_cast<size_t>(c);
          wrong += row[at] != expected(w, r, c) || placed[at] != row[at];
        }
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(products == 4 * stored.model.layers);
}

} // namespace

TEST_CASE("integers of GPTQ, AWQ and compressed-tensors are the same numbers") {
  checkNumbers({kGptq, writeGptq}, WeightType::Int4, integersOf);
  checkNumbers({kAwq, writeAwq}, WeightType::Int4, integersOf);
  checkNumbers({compressedIntegers(false), writeCompressed}, WeightType::Int4,
               integersOf);
  // Without zero points codes stand for their value less 8.
  checkNumbers({compressedIntegers(true), writeCompressed}, WeightType::Int4,
               [](const HashedWeight &w, int64_t row, int64_t column) {
                 return float(w.code(row, column) - 8) *
                        w.scale(row, column / kGroup);
               });
}

TEST_CASE("e4m3 has a scale for a tensor, a row or a block") {
  using Shape = std::vector<int64_t>;
  const auto number = [](const HashedWeight &w, int64_t row, int64_t column) {
    return e4m3ToFloat(w.e4m3(row, column));
  };
  const Json channels = compressedConfig(
      {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}},
      "float-quantized");
  checkNumbers({channels, e4m3Writer("weight_scale",
                                     [](int64_t n, int64_t) {
                                       return Shape{n, 1};
                                     })},
               WeightType::E4m3Rows,
               [&](const HashedWeight &w, int64_t row, int64_t column) {
                 return number(w, row, column) * w.scale(row, 0);
               });
  // The scales of q, k and v differ, and their rows keep them.
  for (const Shape &shape : {Shape{}, Shape{1}})
    checkNumbers(
        {kModelOpt,
         e4m3Writer("weight_scale", [&](int64_t, int64_t) { return shape; })},
        WeightType::E4m3Rows,
        [&](const HashedWeight &w, int64_t row, int64_t column) {
          return number(w, row, column) * w.scale(0, 0);
        });
  checkNumbers(
      {kBlocks, e4m3Writer("weight_scale_inv",
                           [](int64_t n, int64_t k) {
                             return Shape{(n + 127) / 128, (k + 127) / 128};
                           })},
      WeightType::E4m3Blocks,
      [&](const HashedWeight &w, int64_t row, int64_t column) {
        return number(w, row, column) * w.scale(row / 128, column / 128);
      });
}

TEST_CASE("quantised checkpoints that cannot be read say why") {
  const auto faultOf = [](const Json &quantization, const ModuleWriter &writer,
                          const std::function<void(TensorSet &)> &change) {
    const Stored stored(quantization, writer, change);
    const auto faults = checkWeights(stored.model, *stored.checkpoint);
    return faults.empty() ? std::string() : faults.front();
  };
  const std::string q = "model.layers.0.self_attn.q_proj";
  CHECK(faultOf(kGptq, writeGptq, [&](TensorSet &set) {
          set.tensors.erase(q + ".scales");
        }) == q + ".scales is missing");
  CHECK(faultOf(kGptq, writeGptq, [&](TensorSet &set) {
          set.tensors[q + ".qzeros"].shape = {4, 8};
        }) == q + ".qzeros has the shape [4, 8], expected [2, 16]");
  CHECK(faultOf(kGptq, writeGptq,
                [&](TensorSet &set) {
                  set.tensors[q + ".g_idx"].bytes[0] = 1;
                }) == q + ".g_idx: an order of activations (desc_act) is not "
                          "supported");
  CHECK(faultOf(kAwq, writeAwq, [&](TensorSet &set) {
          set.tensors[q + ".qweight"].type = DType::F32;
        }) == q + ".qweight has the type F32, expected I32");
  CHECK(
      faultOf(compressedIntegers(false), writeCompressed, [&](TensorSet &set) {
        set.tensors.erase(q + ".weight_zero_point");
      }) == q + ".weight_zero_point is missing");
  const auto rows = [](int64_t n, int64_t) { return std::vector<int64_t>{n}; };
  CHECK(
      faultOf(kModelOpt, e4m3Writer("weight_scale", rows), [&](TensorSet &set) {
        set.tensors.erase(q + ".weight_scale");
      }) == q + ".weight_scale is missing");
  CHECK(faultOf(kBlocks, e4m3Writer("weight_scale_inv", rows),
                [](TensorSet &) {}) ==
        q + ".weight_scale has the shape [128] beside a weight of [128, 64]");
  CHECK(
      faultOf(nullptr, e4m3Writer("weight_scale", rows), [](TensorSet &) {}) ==
      q + ".weight has the type F8_E4M3, which the quantization_config does "
          "not announce");
  // Groups that do not divide the columns.
  Json wide = kGptq;
  wide["group_size"] = 128;
  CHECK(faultOf(wide, writeGptq, [](TensorSet &) {}) ==
        q + ".weight has 64 columns, which groups of 128 do not divide");
}

TEST_CASE("data that contradict the config are refused when they are read") {
  Json symmetric = kGptq;
  symmetric["sym"] = true;
  const Stored stored(symmetric, writeGptq);
  const WeightPlan plan = planWeights(stored.model, stored.source);
  const PlannedMatrix &qkv = plan.matrices[plan.layers[0].qkv];
  CHECK_THROWS_WITH_AS(HostMatrix(stored.model, stored.source, qkv),
                       doctest::Contains("although the quantization_config "
                                         "says sym"),
                       Error);
}

TEST_CASE("weights that are quantised stay as they are") {
  Stored stored(kGptq, writeGptq);
  stored.source.weights = WeightType::E4m3Rows;
  CHECK_THROWS_WITH_AS(planWeights(stored.model, stored.source),
                       "--weights fp8: model.layers.0.self_attn.q_proj is "
                       "stored as w4, and quantised weights stay as they are",
                       Error);
  stored.source.weights = WeightType::Int4;
  stored.source.hasE4m3Head = true; // of a head in bf16
  const WeightPlan plan = planWeights(stored.model, stored.source);
  CHECK(plan.matrices[plan.head].format.type == WeightType::E4m3Packed);

  // Zeros stand for a bias that the class does not have.
  for (const int bias : {0, 1}) {
    const Stored biased(kGptq, writeGptq, [&](TensorSet &set) {
      set.add<uint16_t>(
          "model.layers.0.mlp.down_proj.bias", DType::F16, {64},
          [&](int64_t i) { return uint16_t(i == 63 ? bias : 0); });
    });
    const auto faults = checkWeights(biased.model, *biased.checkpoint);
    CHECK(faults.size() == size_t(bias));
    if (bias)
      CHECK(faults.front() == "model.layers.0.mlp.down_proj.bias is not a "
                              "tensor of this model");
  }

  // One part of a fused product is exempt.
  const std::string q = "model.layers.0.self_attn.q_proj";
  const Stored mixed(kGptq, writeGptq, [&](TensorSet &set) {
    set.add<uint16_t>(q + ".weight", DType::BF16, {128, 64},
                      [](int64_t) { return uint16_t(0); });
  });
  CHECK_THROWS_WITH_AS(planWeights(mixed.model, mixed.source),
                       "model.layers.0.self_attn.q_proj and "
                       "model.layers.0.self_attn.k_proj are stored in "
                       "different formats, and are one product",
                       Error);
}

TEST_CASE("a checkpoint's scales of the cache are read, or are 1") {
  const std::string layer = "model.layers.1.self_attn.";
  const auto rows = [](int64_t n, int64_t) { return std::vector<int64_t>{n}; };
  const auto scalesWith = [&](const std::string &name, float value,
                              CacheType type = CacheType::E4m3) {
    const Stored stored(kModelOpt, e4m3Writer("weight_scale", rows),
                        [&](TensorSet &set) {
                          set.add<float>(layer + name, DType::F32, {1},
                                         [=](int64_t) { return value; });
                        });
    return cacheScales(stored.model, type, &*stored.checkpoint);
  };
  using Scales = std::vector<float>;
  CHECK(cacheScales(presetConfig("tiny"), CacheType::E4m3, nullptr) ==
        Scales{1, 1, 1, 1});
  CHECK(scalesWith("k_scale", 0.5f) == Scales{1, 1, 0.5f, 1});
  CHECK(scalesWith("v_proj.v_scale", 0.25f) == Scales{1, 1, 1, 0.25f});
  CHECK(scalesWith("k_proj.output_scale", 0.5f) == Scales{1, 1, 0.5f, 1});
  CHECK(scalesWith("v_proj.output_scale", 0.25f) == Scales{1, 1, 1, 0.25f});
  CHECK(scalesWith("kv_scale", 2) == Scales{1, 1, 2, 2});
  // A cache in bf16 reads none of them.
  CHECK(scalesWith("k_scale", 0, CacheType::Bf16) == Scales{1, 1, 1, 1});
  CHECK_THROWS_WITH_AS(scalesWith("k_scale", 0),
                       doctest::Contains("expected a number above 0"), Error);
}
