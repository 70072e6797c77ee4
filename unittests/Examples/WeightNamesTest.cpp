#include "llama/WeightNames.h"

#include "Support/TemporaryFolder.h"
#include "llama/Error.h"
#include "llama/SafetensorsWriter.h"

#include <doctest/doctest.h>
#include <set>

using namespace llama;
using kiln::testing::TemporaryFolder;

namespace {

int64_t parametersOf(const char *preset) {
  int64_t sum = 0;
  for (const WeightSpec &spec : weightSpecs(presetConfig(preset)))
    sum += spec.elements();
  return sum;
}

std::vector<TensorDeclaration> declarationsOf(const ModelConfig &model) {
  std::vector<TensorDeclaration> tensors;
  for (const WeightSpec &spec : weightSpecs(model))
    tensors.push_back({spec.name, DType::BF16, spec.shape});
  return tensors;
}

/// A file of zeros with these tensors.
void writeZeros(const std::string &path,
                const std::vector<TensorDeclaration> &tensors) {
  SafetensorsWriter writer(path, tensors);
  const std::vector<char> zeros(writer.remaining());
  writer.write(zeros.data(), zeros.size());
  writer.finish();
}

} // namespace

TEST_CASE("the numbers of parameters are those that are published") {
  CHECK(parametersOf("llama-3-8b") == 8030261248);
  CHECK(parametersOf("llama-3.2-1b") == 1235814400);
  CHECK(parametersOf("llama-3.2-3b") == 3212749824);
  CHECK(parametersOf("qwen2.5-0.5b") == 494032768);
  CHECK(parametersOf("qwen2.5-7b") == 7615616512);
  CHECK(parametersOf("qwen3-0.6b") == 596049920);
  CHECK(parametersOf("qwen3-8b") == 8190735360);
}

TEST_CASE("names follow transformers") {
  std::set<std::string> names;
  for (const WeightSpec &spec : weightSpecs(presetConfig("qwen2.5-0.5b"))) {
    CHECK(names.insert(spec.name).second);
    CHECK((spec.kind == WeightKind::Bias) ==
          (spec.name.find(".bias") != std::string::npos));
  }
  CHECK(names.count("model.layers.23.self_attn.v_proj.bias") == 1);
  CHECK(names.count("model.layers.0.post_attention_layernorm.weight") == 1);
  CHECK(names.count("lm_head.weight") == 0);
  CHECK(layerWeight(3, "mlp.up_proj") == "model.layers.3.mlp.up_proj.weight");
}

TEST_CASE("a checkpoint is compared with its config, tensor by tensor") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  ModelConfig model = presetConfig("tiny");
  auto tensors = declarationsOf(model);
  // Early Llama checkpoints have these, and transformers ignores them.
  tensors.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", DType::F32, {16}});
  writeZeros(path, tensors);
  CHECK(checkWeights(model, Checkpoint(path)).empty());
  CHECK_NOTHROW(requireWeights(model, Checkpoint(path)));
  // A tied head may be stored all the same.
  model.tieEmbeddings = true;
  CHECK(checkWeights(model, Checkpoint(path)).empty());
  model.tieEmbeddings = false;

  tensors[0].shape = {512, 32};
  tensors[1].name = "model.layers.0.input_norm.weight";
  tensors[2].dtype = DType::U8;
  writeZeros(path, tensors);
  const Checkpoint wrong(path);
  CHECK(checkWeights(model, wrong) ==
        std::vector<std::string>{
            "model.embed_tokens.weight has the shape [512, 32], expected [512, "
            "64]",
            "model.layers.0.input_layernorm.weight is missing",
            "model.layers.0.self_attn.q_proj.weight has the type U8, expected "
            "BF16, F16 or F32",
            "model.layers.0.input_norm.weight is not a tensor of this model"});
  CHECK_THROWS_WITH_AS(requireWeights(model, wrong),
                       doctest::Contains("input_layernorm.weight is missing"),
                       Error);
}
