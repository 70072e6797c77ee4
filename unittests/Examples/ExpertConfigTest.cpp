#include "ConfigFixture.h"

#include <string>
#include <vector>

using namespace llama;
using namespace configs;
using nlohmann::json;

static json mixtral() { return configOf("mixtral", "MixtralForCausalLM"); }
static json qwen() { return configOf("qwen3_moe", "Qwen3MoeForCausalLM"); }

TEST_CASE("experts have the defaults of their class") {
  const ModelConfig a = parse(mixtral());
  CHECK(a.experts.count == 8);
  CHECK(a.experts.perToken == 2);
  CHECK(a.experts.innerSize == 128);
  CHECK(a.experts.normalizes);
  CHECK_FALSE(a.qkNorm);
  CHECK(a.expertLayers() == 2);

  const ModelConfig b = parse(qwen());
  CHECK(b.experts.count == 128);
  CHECK(b.experts.perToken == 8);
  CHECK(b.experts.innerSize == 768);
  CHECK_FALSE(b.experts.normalizes);
  CHECK(b.qkNorm);
  CHECK(b.expertLayers() == 2);

  CHECK(presetConfig("llama-3-8b").expertLayers() == 0);
  CHECK_FALSE(presetConfig("llama-3-8b").hasExperts(0));
}

TEST_CASE("the number of experts has one of two keys") {
  for (const char *key : {"num_experts", "num_local_experts"})
    for (json config : {mixtral(), qwen()}) {
      config[key] = 16;
      CHECK(parse(config).experts.count == 16);
      config[key] = 1;
      CHECK(parse(config).experts.perToken == 1);
      refuse(config, key, 0, key);
      refuse(config, key, 1025, key);
    }
  json both = qwen();
  both["num_experts"] = 16;
  for (const char *other : {"num_local_experts", "n_routed_experts"}) {
    refuse(both, other, 8,
           (std::string("num_experts is 16, but ") + other + " is 8").c_str());
    json equal = both;
    equal[other] = 16;
    CHECK(parse(equal).experts.count == 16);
  }
  refuse(both, "num_experts_per_tok", 17, "more than 16 experts");
  refuse(qwen(), "num_experts_per_tok", 33); // kiln_route's limit
}

TEST_CASE("some layers have an MLP instead of experts") {
  json config = qwen();
  config["num_hidden_layers"] = 4;
  config["decoder_sparse_step"] = 2;
  using Layers = std::vector<bool>;
  CHECK(parse(config).experts.layers == Layers{false, true, false, true});
  config["mlp_only_layers"] = {3, 9};
  CHECK(parse(config).experts.layers == Layers{false, true, false, false});
  CHECK(parse(config).expertLayers() == 1);
  config["norm_topk_prob"] = true;
  config["moe_intermediate_size"] = 32;
  CHECK(parse(config).experts.normalizes);
  CHECK(parse(config).experts.innerSize == 32);
  refuse(config, "mlp_only_layers", {-1}, "expected numbers of layers");
  refuse(config, "mlp_only_layers", {"1"}, "expected numbers of layers");
  refuse(config, "mlp_only_layers", 1, "expected an array");
  refuse(config, "decoder_sparse_step", 0, "decoder_sparse_step");
}

TEST_CASE("gpt-oss has biases, sinks, windows and a clamped activation") {
  json config = configOf("gpt_oss", "GptOssForCausalLM");
  config["num_hidden_layers"] = 3;
  const ModelConfig model = parse(config);
  CHECK(model.experts.count == 128);
  CHECK(model.experts.perToken == 4);
  CHECK(model.experts.normalizes);
  CHECK(model.experts.hasBias);
  CHECK(model.experts.isClamped);
  CHECK(model.qkvBias);
  CHECK(model.outputBias);
  CHECK(model.hasSinks);
  CHECK_FALSE(model.qkNorm);
  CHECK(model.windows == std::vector<int64_t>{128, 0, 128});
  CHECK(model.rope.theta == 150000);
  config["attention_bias"] = false;
  config["swiglu_limit"] = 7;
  CHECK_FALSE(parse(config).qkvBias);
  refuse(config, "swiglu_limit", 5, "only 7.0 is supported");
  refuse(config, "swiglu_alpha", 1.5, "only 1.702 is supported");
  CHECK(presetConfig("gpt-oss-20b").rope.truncate == false);
  CHECK_FALSE(presetConfig("mixtral-8x7b").experts.isClamped);
}

TEST_CASE("experts that the engine lacks are refused by name") {
  for (const char *key : {"shared_expert_intermediate_size", "n_shared_experts",
                          "num_shared_experts", "n_routed_experts"}) {
    refuse(qwen(), key, 2, key);
    json none = qwen();
    none[key] = 0;
    CHECK(parse(none).experts.count == 128);
  }
  for (const char *key : {"n_group", "topk_group"}) {
    refuse(qwen(), key, 8, "only 1 is supported");
    json one = qwen();
    one[key] = 1;
    CHECK(parse(one).experts.count == 128);
  }
  for (const char *key :
       {"num_experts", "num_local_experts", "num_experts_per_tok",
        "moe_intermediate_size", "n_routed_experts"})
    refuse(configOf("llama", "LlamaForCausalLM"), key, 8, key);
}
