#include "ExpertFixture.h"
#include "Support/TemporaryFolder.h"
#include "llama/Checkpoint.h"
#include "llama/Error.h"
#include "llama/WeightNames.h"
#include "llama/WeightPlan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace llama;
using kiln::testing::TemporaryFolder;

TEST_CASE("models with experts have as many parameters as is published") {
  const auto parametersOf = [](const char *preset) {
    int64_t sum = 0;
    for (const WeightSpec &spec : weightSpecs(presetConfig(preset)))
      sum += spec.elements();
    return sum;
  };
  CHECK(parametersOf("mixtral-8x7b") == 46702792704);
  CHECK(parametersOf("qwen3-30b-a3b") == 30532122624);
  CHECK(parametersOf("gpt-oss-20b") == 20914757184);
  CHECK(parametersOf("gpt-oss-120b") == 116829156672);
}

TEST_CASE("tensors of experts are called as transformers calls them") {
  std::set<std::string> names;
  for (const char *preset : {"tiny-mixtral", "tiny-qwen3-moe", "tiny-gpt-oss"})
    for (const WeightSpec &spec : weightSpecs(presetConfig(preset)))
      names.insert(spec.name);
  for (const char *name :
       {"model.layers.1.block_sparse_moe.gate.weight",
        "model.layers.1.block_sparse_moe.experts.3.w2.weight",
        "model.layers.0.mlp.gate.weight",
        "model.layers.2.mlp.experts.15.down_proj.weight",
        "model.layers.1.mlp.down_proj.weight", "model.layers.1.mlp.router.bias",
        "model.layers.1.self_attn.sinks",
        "model.layers.0.self_attn.o_proj.bias",
        "model.layers.0.mlp.experts.gate_up_proj",
        "model.layers.0.mlp.experts.down_proj_bias"})
    CHECK_MESSAGE(names.count(name) == 1, name);
}

TEST_CASE("every tensor of a model with experts has one place") {
  for (const char *preset :
       {"tiny-mixtral", "tiny-qwen3-moe", "tiny-gpt-oss"}) {
    CAPTURE(preset);
    const ModelConfig model = presetConfig(preset);
    const WeightPlan plan = planWeights(model);
    std::map<std::string, int64_t> placed;
    uint64_t end = 0;
    for (const PlannedMatrix &matrix : plan.matrices) {
      CHECK(matrix.data >= end);
      end = matrix.data + matrix.bytes().all();
      std::vector<char> isFilled(static_cast<size_t>(matrix.rows));
      for (const PlacedTensor &part : matrix.parts) {
        placed[part.spec.name] += part.rows * part.columns;
        CHECK(part.columns == matrix.columns);
        for (int64_t r = 0; r < part.rows; ++r)
          isFilled[static_cast<size_t>(part.targetRow + r * part.rowStep)] += 1;
      }
      CHECK(std::count(isFilled.begin(), isFilled.end(), 1) == matrix.rows);
    }
    CHECK(end <= plan.bytes);
    for (const WeightSpec &spec : weightSpecs(model))
      CHECK_MESSAGE(placed[spec.name] == spec.elements(), spec.name);
  }
}

TEST_CASE("the weights of all experts are one matrix of groups") {
  const ModelConfig model = presetConfig("tiny-qwen3-moe");
  const WeightPlan plan = planWeights(model);
  const PlannedMatrix &gateUp = plan.matrices[plan.layers[0].gateUp],
                      &down = plan.matrices[plan.layers[0].down];
  CHECK(gateUp.groups == 16);
  CHECK(gateUp.rows == 16 * 2 * 64);
  CHECK(down.rows == 16 * 128);
  CHECK(down.columns == 64);
  // The up projection of the third expert.
  const PlacedTensor &up = gateUp.parts[5];
  CHECK(up.spec.name == "model.layers.0.mlp.experts.2.up_proj.weight");
  CHECK(up.targetRow == 2 * 2 * 64 + 1);
  CHECK(up.rowStep == 2);
  CHECK(down.parts[2].targetRow == 2 * 128);
  // The second layer has none.
  CHECK(plan.matrices[plan.layers[1].gateUp].groups == 1);
  CHECK(plan.layers[1].router == PlannedLayer::kNone);

  const WeightPlan fused = planWeights(presetConfig("tiny-gpt-oss"));
  const PlannedMatrix &stored = fused.matrices[fused.layers[0].gateUp];
  CHECK(stored.isTransposed);
  CHECK(stored.groups == 8);
  CHECK(stored.rows == 8 * 64);
  CHECK(stored.columns == 2 * 96);
  CHECK(fused.matrices[fused.layers[0].sinks].bytes().all() == 4 * 4);
}

TEST_CASE("experts are quantised as the MLPs of other models") {
  const ModelConfig model = presetConfig("tiny-qwen3-moe");
  const auto gateUpOf = [&](WeightType type) {
    WeightSource source;
    source.weights = type;
    const WeightPlan plan = planWeights(model, source);
    CHECK(plan.matrices[plan.layers[0].router].format.type == WeightType::Bf16);
    return plan.matrices[plan.layers[0].gateUp];
  };
  const uint64_t elements = 16 * 128 * 128;
  CHECK(gateUpOf(WeightType::E4m3Rows).bytes().all() ==
        elements + 4 * 16 * 128);
  CHECK(gateUpOf(WeightType::E4m3Packed).bytes().all() ==
        elements + 4 * 16 * 128);
  // Gate and up of an expert follow each other.
  const PlannedMatrix blocks = gateUpOf(WeightType::E4m3Blocks);
  CHECK(blocks.parts[5].targetRow == 2 * 128 + 64);
  CHECK(blocks.bytes().all() == elements + 4 * 16);
  // An expert's blocks are its own.
  ModelConfig odd = model;
  odd.experts.innerSize = 48;
  WeightSource source;
  source.weights = WeightType::E4m3Packed;
  CHECK_THROWS_WITH_AS(planWeights(odd, source),
                       doctest::Contains("experts of 96 rows cannot be w8"),
                       Error);
}

TEST_CASE("experts in two tensors of a layer become tensors of each expert") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  for (const char *preset : {"tiny-mixtral", "tiny-qwen3-moe"}) {
    CAPTURE(preset);
    const ModelConfig model = presetConfig(preset);
    auto tensors = experts::fusedTensors(model);
    experts::writeZeros(path, tensors);
    Checkpoint checkpoint(path);
    const Tensor whole =
        checkpoint.tensor(layerTensor(0, "mlp.experts.gate_up_proj"));
    CHECK_FALSE(checkWeights(model, checkpoint).empty());
    splitExperts(model, checkpoint);
    CHECK(checkWeights(model, checkpoint) == std::vector<std::string>{});
    // The third expert's gate and up follow each other.
    const ExpertParts parts = expertParts(model.architecture);
    const auto of = [&](const char *part) {
      return checkpoint.tensor(layerWeight(0, parts.of(2, part)));
    };
    const uint64_t bytes = of(parts.gate).bytes;
    CHECK(bytes == static_cast<uint64_t>(model.experts.innerSize *
                                         model.hiddenSize * 2));
    CHECK(of(parts.gate).data == whole.data + 4 * bytes);
    CHECK(of(parts.up).data == whole.data + 5 * bytes);

    tensors.back().shape.back() += 1;
    experts::writeZeros(path, tensors);
    Checkpoint wrong(path);
    CHECK_THROWS_WITH_AS(
        splitExperts(model, wrong),
        doctest::Contains("mlp.experts.down_proj has the shape"), Error);
  }
}
