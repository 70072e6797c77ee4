// config.json files: the sizes that are read, and keys that are refused.
#include "Network/NetworkConfig.h"

#include "Network/Configs.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

static NetworkConfig parse(const std::string &json) {
  auto config = NetworkConfig::parse(json, "config.json");
  if (!config)
    FAIL(summarize(config.takeError()).message);
  return *config;
}

static std::string refusalOf(const std::string &json) {
  auto config = NetworkConfig::parse(json, "config.json");
  return config ? "" : summarize(config.takeError()).message;
}

TEST_CASE("sizes are read, and what has no key follows from the class") {
  const NetworkConfig llama = parse(kLlama8B);
  CHECK(llama.kind == NetworkKind::Llama);
  CHECK(llama.headDim == 128);
  CHECK(llama.rotaryDim == 128);
  CHECK(llama.kvHeads == 8);
  CHECK(llama.rmsNormEps == 1e-5);
  CHECK_FALSE(llama.qkvBias);
  CHECK_FALSE(llama.hasExperts());
  CHECK(parse(changed(kLlama8B, "num_key_value_heads", "")).kvHeads == 32);
  const std::string qwen2 =
      changed(changed(kLlama8B, "architectures", "").c_str(), "model_type",
              "\"qwen2\"");
  CHECK(parse(qwen2).qkvBias);
  const NetworkConfig moe = parse(kQwen3Moe);
  CHECK(moe.qkNorm);
  CHECK(moe.experts.count == 128);
  CHECK(moe.experts.perToken == 8);
  CHECK(moe.experts.intermediateSize == 768);
  CHECK_FALSE(moe.hasDenseLayers());
  const NetworkConfig mixtral = parse(kMixtral);
  CHECK(mixtral.experts.intermediateSize == 14336);
  CHECK_FALSE(mixtral.hasDenseLayers());
}

TEST_CASE("a part of a head may be rotated") {
  CHECK(parse(changed(kLlama8B, "partial_rotary_factor", "0.5")).rotaryDim ==
        64);
  CHECK(parse(changed(kLlama8B, "rope_parameters",
                      R"({"partial_rotary_factor": 0.25})"))
            .rotaryDim == 32);
  for (const char *factor : {"0", "-1", "2", "0.001", "1e300", "\"x\""})
    CHECK(refusalOf(changed(kLlama8B, "partial_rotary_factor", factor))
              .find("config.json: partial_rotary_factor is ") == 0);
}

TEST_CASE("what would change the problems is refused by its key") {
  for (const auto &[key, value] :
       {std::pair("quantization_config", "{}"),
        std::pair("attn_logit_softcapping", "50"),
        std::pair("mlp_bias", "true"),
        std::pair("hidden_act", "\"gelu\""),
        std::pair("sliding_window", "-1"),
        std::pair("layer_types", "[\"sliding_attention\"]"),
        std::pair("hidden_size", "0"),
        std::pair("hidden_size", "1e3"),
        std::pair("hidden_size", "4097"),
        std::pair("vocab_size", "\"x\""),
        std::pair("num_attention_heads", "1025"),
        std::pair("num_key_value_heads", "5"),
        std::pair("head_dim", "1"),
        std::pair("rms_norm_eps", "2"),
        std::pair("rms_norm_eps", ""),
        std::pair("max_position_embeddings", ""),
        std::pair("architectures", "[\"LlamaModel\"]"),
        std::pair("architectures", "[]"),
        std::pair("architectures", "1"),
        std::pair("model_type", "\"gpt2\""),
        std::pair("model_type", "7")}) {
    CAPTURE(key);
    CAPTURE(value);
    // 1e3 is an integer, but 1000 is no multiple of 32 heads.
    CHECK(refusalOf(changed(kLlama8B, key, value)).find("config.json: ") == 0);
  }
  CHECK(refusalOf(changed(kLlama8B, "hidden_act", "\"gelu\"")) ==
        "config.json: hidden_act is \"gelu\", only silu is supported");
  CHECK(refusalOf(changed(kLlama8B, "hidden_size", "131072")) ==
        "config.json: head_dim is missing, with the default 4096, expected an "
        "integer of 2 to 1024");
  CHECK(refusalOf("[]") == "config.json: expected an object");
  for (const char *text : {"", "{", "nul", "{\"a\": 1} 2"})
    CHECK_FALSE(refusalOf(text).empty());
}

TEST_CASE("experts have two keys, and bounds") {
  const std::string plain = changed(kQwen3Moe, "num_experts", "");
  CHECK(parse(plain).experts.count == 128);
  CHECK(parse(changed(changed(kMixtral, "num_local_experts", "").c_str(),
                      "num_experts", "4"))
            .experts.count == 4);
  std::string few = changed(kGptOss, "num_local_experts", "2");
  few = changed(few.c_str(), "num_experts_per_tok", "");
  CHECK(parse(few).experts.perToken == 2);
  const std::string local = changed(plain.c_str(), "num_local_experts", "64");
  CHECK(refusalOf(local).empty());
  CHECK(refusalOf(changed(local.c_str(), "num_experts", "64")).empty());
  for (const char *other : {"num_local_experts", "n_routed_experts"})
    CHECK(refusalOf(changed(kQwen3Moe, other, "64")) ==
          std::string("config.json: num_experts is 128, but ") + other +
              " is 64");
  CHECK(refusalOf(changed(kMixtral, "n_routed_experts", "4")) ==
        "config.json: num_local_experts is 8, but n_routed_experts is 4");
  CHECK(refusalOf(changed(kQwen3Moe, "n_routed_experts", "128")).empty());
  CHECK(refusalOf(changed(plain.c_str(), "n_routed_experts", "128")) ==
        "config.json: n_routed_experts is 128, which is not supported");
  for (const char *key :
       {"num_experts", "num_local_experts", "num_experts_per_tok",
        "moe_intermediate_size", "n_routed_experts"})
    CHECK(refusalOf(changed(kLlama8B, key, "8")) ==
          std::string("config.json: ") + key + " is 8, which is not supported");
  CHECK_FALSE(
      refusalOf(changed(kQwen3Moe, "num_experts_per_tok", "33")).empty());
}

TEST_CASE("parts that no class has may be told to be absent") {
  for (const auto &[key, only] :
       {std::pair("n_group", "1"), std::pair("topk_group", "1"),
        std::pair("n_shared_experts", "0"),
        std::pair("num_shared_experts", "0"),
        std::pair("shared_expert_intermediate_size", "0")})
    for (const char *json : {kLlama8B, kQwen3Moe}) {
      CHECK(refusalOf(changed(json, key, only)).empty());
      CHECK(refusalOf(changed(json, key, "null")).empty());
      CHECK(refusalOf(changed(json, key, "4")) == std::string("config.json: ") +
                                                      key + " is 4, only " +
                                                      only + " is supported");
      CHECK_FALSE(refusalOf(changed(json, key, "true")).empty());
    }
  for (const char *json : {kLlama8B, kQwen3Moe})
    CHECK(refusalOf(changed(json, "n_routed_experts", "0")).empty());
}

TEST_CASE("some layers have an MLP instead of experts") {
  using Layers = std::vector<bool>;
  const std::string four = changed(kQwen3Moe, "num_hidden_layers", "4");
  const auto layersOf = [](const std::string &base, const char *step,
                           const char *dense) {
    const std::string json = changed(base.c_str(), "decoder_sparse_step", step);
    return parse(changed(json.c_str(), "mlp_only_layers", dense));
  };
  CHECK(layersOf(four, "", "").experts.layers == Layers(4, true));
  CHECK(layersOf(four, "2", "[]").experts.layers ==
        Layers{false, true, false, true});
  CHECK(layersOf(four, "2", "[3, 9]").experts.layers ==
        Layers{false, true, false, false});
  CHECK(layersOf(four, "1", "[0]").hasDenseLayers());
  // A list of a model with more layers.
  CHECK_FALSE(layersOf(four, "1", "[4]").hasDenseLayers());
  const NetworkConfig dense = layersOf(four, "5", "[]");
  CHECK(dense.hasDenseLayers());
  CHECK_FALSE(dense.hasExperts());
  CHECK(parse(kQwen3Moe).hasExperts());
  CHECK(parse(kMixtral).hasExperts());
  for (const char *list : {"[-1]", "[\"1\"]", "[0.5]", "1"})
    CHECK(refusalOf(changed(kQwen3Moe, "mlp_only_layers", list))
              .find("config.json: mlp_only_layers is ") == 0);
  CHECK_FALSE(
      refusalOf(changed(kQwen3Moe, "decoder_sparse_step", "0")).empty());
}

TEST_CASE("each window of a layer is told once") {
  using Windows = std::vector<int64_t>;
  const auto windowsOf = [](const std::string &json) {
    return parse(json).windows;
  };
  CHECK(windowsOf(kLlama8B) == Windows{0});
  CHECK(windowsOf(changed(kLlama8B, "sliding_window", "8192")) == Windows{0});
  CHECK(windowsOf(changed(kLlama8B, "sliding_window", "100")) == Windows{100});
  CHECK(windowsOf(kGptOss) == Windows{128, 0});
  const std::string full = changed(kGptOss, "num_hidden_layers", "2");
  CHECK(windowsOf(changed(full.c_str(), "layer_types",
                          R"(["full_attention", "full_attention"])")) ==
        Windows{0});
  CHECK_FALSE(
      refusalOf(changed(full.c_str(), "layer_types", R"(["full_attention"])"))
          .empty());
  CHECK_FALSE(
      refusalOf(changed(full.c_str(), "layer_types", R"(["a", "b"])")).empty());
  // For Mistral an absent key means 4096, and null means no window.
  std::string mistral = changed(kLlama8B, "model_type", "\"mistral\"");
  mistral = changed(mistral.c_str(), "architectures", "");
  CHECK(windowsOf(mistral) == Windows{4096});
  CHECK(windowsOf(changed(mistral.c_str(), "sliding_window", "null")) ==
        Windows{0});
  CHECK(windowsOf(changed(mistral.c_str(), "max_position_embeddings",
                          "4096")) == Windows{0});
  std::string qwen = changed(kQwen3Moe, "sliding_window", "100");
  CHECK(windowsOf(qwen) == Windows{0});
  qwen = changed(qwen.c_str(), "use_sliding_window", "true");
  CHECK(windowsOf(qwen) == Windows{100});
  // Qwen3 without experts has it from max_window_layers on.
  qwen = changed(kLlama8B, "model_type", "\"qwen3\"");
  qwen = changed(qwen.c_str(), "architectures", "");
  qwen = changed(qwen.c_str(), "sliding_window", "100");
  CHECK(windowsOf(qwen) == Windows{0});
  qwen = changed(qwen.c_str(), "use_sliding_window", "true");
  CHECK(windowsOf(changed(qwen.c_str(), "max_window_layers", "48")) ==
        Windows{0});
  CHECK(windowsOf(changed(qwen.c_str(), "max_window_layers", "20")) ==
        Windows{0, 100});
}

TEST_CASE("biases, sinks and stored experts follow from the class") {
  const NetworkConfig gptOss = parse(kGptOss);
  CHECK(gptOss.qkvBias);
  CHECK(gptOss.outputBias);
  CHECK(gptOss.hasSinks);
  CHECK(gptOss.experts.hasBias);
  CHECK(gptOss.experts.isMxfp4);
  CHECK_FALSE(gptOss.hasDenseLayers());
  CHECK_FALSE(
      parse(changed(kGptOss, "quantization_config", "")).experts.isMxfp4);
  CHECK_FALSE(refusalOf(changed(kGptOss, "quantization_config", "{}")).empty());
  CHECK_FALSE(refusalOf(changed(kGptOss, "swiglu_limit", "8")).empty());
  const NetworkConfig llama =
      parse(changed(kLlama8B, "attention_bias", "true"));
  CHECK(llama.qkvBias);
  CHECK(llama.outputBias);
}
