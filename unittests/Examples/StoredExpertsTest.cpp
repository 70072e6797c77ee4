#include "llama/StoredExperts.h"

#include "Support/TemporaryFolder.h"
#include "llama/Error.h"
#include "llama/HostMatrix.h"
#include "llama/Mxfp4.h"
#include "llama/RandomWeights.h"
#include "llama/SafetensorsWriter.h"
#include "llama/WeightChoice.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace llama;
using kiln::testing::TemporaryFolder;

namespace {

constexpr const char *kGateUp = "model.layers.0.mlp.experts.gate_up_proj";

WeightSpec gateUpSpec() { return {kGateUp, {8, 64, 192}, WeightKind::Matrix}; }

/// The tensors of "tiny-gpt-oss", whose experts are MXFP4.
std::vector<TensorDeclaration> mxfp4Tensors(const ModelConfig &model) {
  std::vector<TensorDeclaration> tensors;
  for (const WeightSpec &spec : weightSpecs(model)) {
    if (!isOfAllExperts(spec)) {
      tensors.push_back({spec.name, DType::BF16, spec.shape});
      continue;
    }
    const std::vector<int64_t> shape = {spec.shape[0], spec.shape[2],
                                        spec.shape[1] / 32};
    std::vector<int64_t> blocks = shape;
    blocks.push_back(16);
    tensors.push_back({spec.name + "_blocks", DType::U8, blocks});
    tensors.push_back({spec.name + "_scales", DType::U8, shape});
  }
  return tensors;
}

void writeThrees(const std::string &path,
                 const std::vector<TensorDeclaration> &tensors) {
  SafetensorsWriter writer(path, tensors);
  const std::vector<char> bytes(writer.remaining(), 0x7f);
  writer.write(bytes.data(), bytes.size());
  writer.finish();
}

} // namespace

TEST_CASE("rows of experts are columns of their tensor") {
  const auto weight = drawExperts(gateUpSpec(), 5);
  CHECK(weight->columns() == 64);
  CHECK(weight->format().type == WeightType::Bf16);
  std::vector<float> row(64);
  weight->readRow(2 * 192 + 7, row.data()); // column 7 of the third expert
  const uint64_t key = randomKey(5, kGateUp);
  for (const int64_t k : {0, 1, 63})
    CHECK(row[static_cast<size_t>(k)] ==
          bf16ToFloat(
              randomWeight(key, static_cast<uint64_t>((2 * 64 + k) * 192 + 7),
                           randomScale(WeightKind::Matrix))));
}

TEST_CASE("experts of MXFP4 stay as they are stored") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  ModelConfig model = presetConfig("tiny-gpt-oss");
  model.quantization.method = QuantMethod::Mxfp4;
  auto tensors = mxfp4Tensors(model);
  writeThrees(path, tensors);
  const Checkpoint checkpoint(path);
  CHECK(checkWeights(model, checkpoint) == std::vector<std::string>{});
  WeightSource source;
  source.checkpoint = &checkpoint;
  const WeightPlan plan = planWeights(model, source);
  const PlannedMatrix &gateUp = plan.matrices[plan.layers[0].gateUp];
  CHECK(gateUp.format.type == WeightType::Mxfp4);
  CHECK(gateUp.rows == 8 * 192);
  CHECK(gateUp.columns == 64);
  CHECK(gateUp.groups == 8);
  CHECK_FALSE(gateUp.isTransposed);
  CHECK(gateUp.bytes().all() == 8 * 192 * (32 + 2));
  CHECK(plan.matrices[plan.layers[0].qkv].format.type == WeightType::Bf16);
  HostMatrix host(model, source, gateUp);
  CHECK(host.codes()[0] == 0x7f);
  CHECK(host.scales()[0] == 0x7f);
  std::vector<float> row(64);
  host.readRow(100, row.data());
  CHECK(row[0] == -6); // the lower half comes first
  CHECK(row[1] == 6);
  // They cannot become something else.
  source.weights = WeightType::Bf16;
  CHECK_THROWS_WITH_AS(planWeights(model, source),
                       doctest::Contains("is stored as mxfp4"), Error);

  for (TensorDeclaration &tensor : tensors)
    if (tensor.name == std::string(kGateUp) + "_scales")
      tensor.shape.back() = 3;
  writeThrees(path, tensors);
  CHECK(checkWeights(model, Checkpoint(path)) ==
        std::vector<std::string>{std::string(kGateUp) +
                                 "_scales has the shape [8, 192, 3], expected "
                                 "[8, 192, 2]"});
}

TEST_CASE("random experts of gpt-oss become MXFP4, its attention does not") {
  const ModelConfig model = presetConfig("tiny-gpt-oss");
  WeightSource source;
  source.seed = 5;
  source.weights = WeightType::Mxfp4;
  const WeightPlan plan = planWeights(model, source);
  CHECK(plan.hasPacked());
  CHECK(plan.matrices[plan.layers[0].qkv].format.type == WeightType::Bf16);
  const PlannedMatrix &gateUp = plan.matrices[plan.layers[0].gateUp];
  CHECK(gateUp.format.type == WeightType::Mxfp4);
  HostMatrix host(model, source, gateUp);
  std::vector<float> row(64), exact(64);
  host.readRow(300, row.data());
  drawExperts(gateUpSpec(), 5)->readRow(300, exact.data());
  for (size_t i = 0; i < row.size(); ++i)
    CHECK(row[i] == doctest::Approx(exact[i]).epsilon(0.34).scale(0.02));
  ModelConfig narrow = model;
  narrow.hiddenSize = 80;
  CHECK_THROWS_WITH_AS(
      planWeights(narrow, source),
      doctest::Contains(
          "gate_up_proj has 80 columns, not a multiple of the 32"),
      Error);
  source.weights = WeightType::E4m3Rows;
  CHECK_THROWS_WITH_AS(
      planWeights(model, source),
      doctest::Contains("the experts of gpt-oss can be bf16 and mxfp4"), Error);
}
