#include "llama/HostMatrix.h"

#include "Examples/QuantizedCheckpoint.h"
#include "llama/CheckpointExport.h"
#include "llama/Error.h"
#include "llama/RandomWeights.h"
#include "llama/WeightChoice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

using namespace llama;
using namespace llama::testing;
using kiln::testing::TemporaryFolder;

namespace {

WeightSource randomSource(WeightType type) {
  WeightSource source;
  source.seed = 3;
  source.weights = type;
  return source;
}

/// The RMS error of a matrix of random weights, over the RMS of the weights.
double errorOf(const ModelConfig &model, WeightType type, size_t index) {
  const WeightSource source = randomSource(type);
  const WeightPlan plan = planWeights(model, source);
  const PlannedMatrix &matrix = plan.matrices[index];
  REQUIRE(matrix.format.type == type);
  HostMatrix host(model, source, matrix);
  std::vector<float> found(static_cast<size_t>(matrix.columns)), exact = found;
  double error = 0, all = 0;
  for (const PlacedTensor &part : matrix.parts) {
    const auto weight = openWeight(model, source, part.spec);
    for (int64_t r = 0; r < part.rows; ++r) {
      host.readRow(part.targetRow + r * part.rowStep, found.data());
      weight->readRow(r, exact.data());
      for (size_t i = 0; i < exact.size(); ++i) {
        error += (found[i] - exact[i]) * (found[i] - exact[i]);
        all += exact[i] * exact[i];
      }
    }
  }
  return std::sqrt(error / all);
}

} // namespace

TEST_CASE("weights that are quantised when loaded are near their numbers") {
  const ModelConfig model = presetConfig("tiny");
  const WeightPlan plan = planWeights(model);
  for (const size_t product : WeightPlan::productsOf(plan.layers[1])) {
    // A step of e4m3 is 1/8 to 1/16 of a number; uniform within it.
    for (WeightType type : {WeightType::E4m3Rows, WeightType::E4m3Blocks,
                            WeightType::E4m3Packed}) {
      CAPTURE(nameOf(type));
      const double error = errorOf(model, type, product);
      CHECK(error > 0.02);
      CHECK(error < 0.03);
    }
    // 15 steps over some five deviations.
    const double error = errorOf(model, WeightType::Int4, product);
    CHECK(error > 0.07);
    CHECK(error < 0.13);
  }
}

TEST_CASE("a row's greatest magnitude is the greatest code") {
  constexpr int64_t kCount = 64;
  std::vector<float> row(kCount, 0.5f);
  row[9] = -7;
  std::vector<uint8_t> codes(kCount);
  float scale = 0;
  quantizeRow({WeightType::E4m3Rows}, kCount, row.data(),
              {codes.data(), &scale, nullptr});
  CHECK(scale == 7.0f / 448);
  CHECK(codes[9] == 0xfe);
  CHECK(e4m3ToFloat(codes[0]) == 32);

  uint16_t groups[2] = {};
  quantizeRow({WeightType::Int4, 32}, kCount, row.data(),
              {codes.data(), groups, nullptr});
  CHECK(fp16ToFloat(groups[0]) == 1);
  CHECK(codes[4] == (1 << 4 | 8)); // element 9: -7; element 8: 0.5, even
  CHECK(fp16ToFloat(groups[1]) == doctest::Approx(0.5 / 7).epsilon(1e-3));

  // Rows of zeros stay zeros.
  row.assign(kCount, 0);
  quantizeRow({WeightType::E4m3Rows}, kCount, row.data(),
              {codes.data(), &scale, nullptr});
  CHECK(scale == 1);
  CHECK(codes == std::vector<uint8_t>(kCount, 0));
  quantizeRow({WeightType::Int4, 0}, kCount, row.data(),
              {codes.data(), groups, nullptr});
  CHECK(codes[5] == 0x88);
}

TEST_CASE("rows of the least and the greatest numbers have finite codes") {
  constexpr int64_t kCount = 64;
  for (const float value : {1e-45f, 1e-37f, 3e38f}) {
    CAPTURE(value);
    std::vector<float> row(kCount, 0), found(kCount);
    row[1] = value;
    for (const WeightFormat &format : {WeightFormat{WeightType::E4m3Rows},
                                       WeightFormat{WeightType::Int4, 32},
                                       WeightFormat{WeightType::Mxfp4, 32}}) {
      CAPTURE(nameOf(format.type));
      QuantizedRowMemory memory(format, kCount);
      quantizeRow(format, kCount, row.data(), memory.row());
      dequantize(format, kCount, memory.row(), found.data());
      for (int64_t i = 0; i < kCount; ++i)
        CHECK(std::isfinite(found[static_cast<size_t>(i)]));
      CHECK(found[0] == 0);
    }
  }
}

TEST_CASE("numbers that are not finite are refused by name") {
  const auto config = configWith(nullptr);
  const ModelConfig model = parseModelConfig(config.dump(), "test");
  const auto writer = [](TensorSet &set, const std::string &module, int64_t n,
                         int64_t k) {
    set.add<uint16_t>(module + ".weight", DType::BF16, {n, k}, [&](int64_t i) {
      return uint16_t(i == 3 * k + 1 ? 0x7f80 : 0x3f80); // infinity, or 1
    });
  };
  const TemporaryFolder folder;
  tensorsOf(model, writer).write(folder.path, config);
  const Checkpoint checkpoint(folder.path);
  WeightSource source;
  source.checkpoint = &checkpoint;
  for (WeightType type : {WeightType::E4m3Rows, WeightType::E4m3Blocks,
                          WeightType::E4m3Packed, WeightType::Int4}) {
    CAPTURE(nameOf(type));
    source.weights = type;
    const WeightPlan plan = planWeights(model, source);
    const PlannedMatrix &down = plan.matrices[plan.layers[0].down];
    CHECK_THROWS_WITH_AS(
        HostMatrix(model, source, down),
        "model.layers.0.mlp.down_proj.weight: row 3 has numbers that are not "
        "finite, and cannot be quantised",
        Error);
  }
}

TEST_CASE("a part of rows and columns has the numbers of the whole") {
  auto config = configWith(nullptr);
  config["intermediate_size"] = 512;
  const ModelConfig model = parseModelConfig(config.dump(), "test");
  for (WeightType type : {WeightType::E4m3Rows, WeightType::E4m3Blocks,
                          WeightType::E4m3Packed, WeightType::Int4}) {
    CAPTURE(nameOf(type));
    const WeightSource source = randomSource(type);
    const WeightPlan plan = planWeights(model, source);
    const PlannedMatrix &down = plan.matrices[plan.layers[0].down];
    HostMatrix whole(model, source, down);
    PlannedMatrix part = down;
    part.columns = part.parts[0].columns = 128;
    part.parts[0].firstColumn = 256;
    HostMatrix half(model, source, part);
    std::vector<float> all(512), some(128);
    int64_t wrong = 0;
    for (int64_t row = 0; row < down.rows; ++row) {
      whole.readRow(row, all.data());
      half.readRow(row, some.data());
      for (size_t i = 0; i < some.size(); ++i)
        wrong += some[i] != all[256 + i];
    }
    CHECK(wrong == 0);
    part.parts[0].firstColumn = 250;
    if (type == WeightType::E4m3Blocks || type == WeightType::Int4)
      CHECK_THROWS_WITH_AS(HostMatrix(model, source, part),
                           "model.layers.0.mlp.down_proj: columns 250 to 378 "
                           "are not whole groups of 128",
                           Error);
  }
}

TEST_CASE("blocks that fused rows do not keep are quantised again") {
  // 64 rows of v behind 128 of q and 64 of k: a block has rows of both.
  const nlohmann::json quantization = {{"quant_method", "fp8"},
                                       {"weight_block_size", {128, 128}}};
  auto config = configWith(quantization);
  config["num_key_value_heads"] = 2;
  const ModelConfig model = parseModelConfig(config.dump(), "test");
  const TemporaryFolder folder;
  tensorsOf(model,
            e4m3Writer(
                "weight_scale_inv",
                [](int64_t n, int64_t k) {
                  return std::vector<int64_t>{(n + 127) / 128, (k + 127) / 128};
                }))
      .write(folder.path, config);
  const Checkpoint checkpoint(folder.path);
  WeightSource source;
  source.checkpoint = &checkpoint;
  const WeightPlan plan = planWeights(model, source);
  const PlannedMatrix &qkv = plan.matrices[plan.layers[0].qkv];
  HostMatrix host(model, source, qkv);
  std::vector<float> found(64), exact(64);
  int64_t wrong = 0;
  for (const PlacedTensor &part : qkv.parts) {
    const auto weight = openWeight(model, source, part.spec);
    for (int64_t r = 0; r < part.rows; ++r) {
      host.readRow(part.targetRow + r, found.data());
      weight->readRow(r, exact.data());
      // The greatest scale of a block is at most twice another one.
      for (size_t i = 0; i < found.size(); ++i)
        wrong +=
            std::fabs(found[i] - exact[i]) > std::fabs(exact[i]) / 16 + 1e-3f;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("an export has the numbers of quantised weights, and no config of "
          "them") {
  const nlohmann::json quantization = {
      {"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}};
  const auto config = configWith(quantization);
  const ModelConfig model = parseModelConfig(config.dump(), "test");
  const TemporaryFolder folder, out;
  tensorsOf(model, writeAwq).write(folder.path, config);
  const Checkpoint checkpoint(folder.path);
  WeightSource source;
  source.checkpoint = &checkpoint;
  exportCheckpoint(out.path, config.dump(), source);

  const ModelConfig plain = readModelConfig(out.path);
  CHECK(plain.quantization.method == QuantMethod::None);
  const Checkpoint exported(out.path);
  CHECK(checkWeights(plain, exported).empty());
  const HashedWeight w("model.layers.1.mlp.up_proj");
  const Tensor &up = exported.tensor("model.layers.1.mlp.up_proj.weight");
  int64_t wrong = 0;
  for (int64_t i = 0; i < up.elements(); ++i) {
    const int64_t row = i / 64, column = i % 64;
    const int code = w.code(row, column) - w.zero(row, column / kGroup);
    wrong +=
        elementOf(up.dtype, up.data, i) !=
        bf16ToFloat(roundToBf16(float(code) * w.scale(row, column / kGroup)));
  }
  CHECK(wrong == 0);
}

TEST_CASE("a tied head of e4m3 is exported as a head of its own") {
  auto config = configWith(nullptr);
  config["tie_word_embeddings"] = true;
  const TemporaryFolder out;
  WeightSource source;
  source.hasE4m3Head = true;
  exportCheckpoint(out.path, config.dump(), source);
  const ModelConfig model = readModelConfig(out.path);
  CHECK_FALSE(model.tieEmbeddings);
  const Checkpoint exported(out.path);
  CHECK(checkWeights(model, exported).empty());
  const Tensor &head = exported.tensor("lm_head.weight"),
               &embedding = exported.tensor("model.embed_tokens.weight");
  double error = 0, all = 0;
  for (int64_t i = 0; i < head.elements(); ++i) {
    const double exact = elementOf(DType::BF16, embedding.data, i);
    error += std::pow(elementOf(DType::BF16, head.data, i) - exact, 2);
    all += exact * exact;
  }
  CHECK(error > 0);
  CHECK(std::sqrt(error / all) < 0.03);
}

TEST_CASE("columns that no group divides are not quantised to 4 bits") {
  auto config = configWith(nullptr);
  config["intermediate_size"] = 200;
  const ModelConfig model = parseModelConfig(config.dump(), "test");
  CHECK_THROWS_WITH_AS(planWeights(model, randomSource(WeightType::Int4)),
                       "model.layers.0.mlp.down_proj has 200 columns, which "
                       "no group size of --weights w4 divides (128, 64, 32)",
                       Error);
  CHECK_THROWS_WITH_AS(weightTypeNamed("--weights", "fp4"),
                       "--weights is 'fp4', expected one of bf16, fp8, "
                       "fp8-block, w8, w4, mxfp4",
                       Error);
}

TEST_CASE("fuzz: damaged quantised checkpoints are refused, or harmless") {
  struct Kind {
    nlohmann::json quantization;
    ModuleWriter writer;
  };
  const auto rows = [](int64_t n, int64_t) { return std::vector<int64_t>{n}; };
  const Kind kinds[] = {
      {{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}}, writeGptq},
      {{{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}}, writeAwq},
      {{{"quant_method", "modelopt"}, {"quant_algo", "FP8"}},
       e4m3Writer("weight_scale", rows)}};
  std::mt19937 random(11);
  int accepted = 0;
  for (int i = 0; i < 100; ++i) {
    const Kind &kind = kinds[random() % std::size(kinds)];
    auto config = configWith(kind.quantization);
    const ModelConfig written = parseModelConfig(config.dump(), "test");
    TensorSet set = tensorsOf(written, kind.writer);
    auto damaged = set.tensors.begin();
    std::advance(damaged, random() % set.tensors.size());
    TensorSet::Data &data = damaged->second;
    switch (random() % 5) {
    case 0:
      set.tensors.erase(damaged);
      break;
    case 1:
      std::reverse(data.shape.begin(), data.shape.end());
      break;
    case 2:
      data.shape = {static_cast<int64_t>(data.bytes.size())};
      data.type = DType::U8;
      break;
    case 3:
      for (uint8_t &byte : data.bytes)
        byte = static_cast<uint8_t>(random());
      break;
    default:
      config["quantization_config"]["group_size"] = 64 << random() % 2;
      config["hidden_size"] = 64 + 8 * (random() % 3);
    }
    const TemporaryFolder folder;
    set.write(folder.path, config);
    try {
      const ModelConfig model = readModelConfig(folder.path);
      const Checkpoint checkpoint(folder.path);
      WeightSource source;
      source.checkpoint = &checkpoint;
      for (const PlannedMatrix &matrix : planWeights(model, source).matrices)
        if (matrix.format.type != WeightType::Bf16)
          HostMatrix(model, source, matrix);
      ++accepted;
    } catch (const Error &error) {
      CHECK(std::string(error.what()).size() > 10);
    }
  }
  MESSAGE(accepted << " of 100 damaged checkpoints are still valid");
}
