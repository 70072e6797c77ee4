#include "llama/ModelConfig.h"

#include "ConfigFixture.h"

#include <doctest/doctest.h>

using namespace llama;
using namespace configs;
using nlohmann::json;

static json llamaConfig() { return configOf("llama", "LlamaForCausalLM"); }

TEST_CASE("keys that are absent or null have transformers' defaults") {
  json config = llamaConfig();
  config["head_dim"] = nullptr;
  config["rope_scaling"] = nullptr;
  const ModelConfig model = parse(config);
  CHECK(model.architecture == Architecture::Llama);
  CHECK(model.kvHeads == 4);
  CHECK(model.headDim == 16);
  CHECK(model.rotaryDim == 16);
  CHECK(model.qRows() == 64);
  CHECK(model.rope.type == RopeType::Default);
  CHECK(model.rope.theta == 10000);
  CHECK(model.dtype == DType::BF16);
  CHECK(!model.tieEmbeddings);
  CHECK(!model.qkvBias);
  CHECK(!model.qkNorm);
  CHECK(model.eosTokens.empty());
}

TEST_CASE("classes differ in biases and norms") {
  CHECK(parse(configOf("qwen2", "Qwen2ForCausalLM")).qkvBias);
  CHECK(!parse(configOf("qwen2", "Qwen2ForCausalLM")).qkNorm);
  CHECK(parse(configOf("qwen3", "Qwen3ForCausalLM")).qkNorm);
  CHECK(!parse(configOf("qwen3", "Qwen3ForCausalLM")).qkvBias);
  CHECK(!parse(configOf("mistral", "MistralForCausalLM")).qkvBias);
  json onlyType = llamaConfig();
  onlyType.erase("architectures");
  CHECK(parse(onlyType).architecture == Architecture::Llama);

  refuse(llamaConfig(), "model_type", "qwen2", "\"qwen2\" with class");
  refuse(llamaConfig(), "model_type", "mixtral", "\"mixtral\"");
  refuse(llamaConfig(), "model_type", "deepseek_v3", "\"deepseek_v3\"");
  refuse(llamaConfig(), "architectures", {"LlamaForSequenceClassification"},
         "LlamaForSequenceClassification");
  refuse(llamaConfig(), "architectures", json::array());
  json neither = llamaConfig();
  neither.erase("architectures");
  refuse(neither, "model_type", nullptr);
}

TEST_CASE("both forms of rope are read") {
  json config = llamaConfig();
  config["rope_theta"] = 5e5;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  CHECK(parse(config).rope.type == RopeType::Linear);
  CHECK(parse(config).rope.factor == 4);
  CHECK(parse(config).rope.theta == 5e5);

  config = llamaConfig();
  config["rope_parameters"] = {{"rope_type", "llama3"},
                               {"rope_theta", 5e5},
                               {"factor", 8},
                               {"low_freq_factor", 1},
                               {"high_freq_factor", 4},
                               {"original_max_position_embeddings", 256},
                               {"partial_rotary_factor", 0.5}};
  const ModelConfig model = parse(config);
  CHECK(model.rope.type == RopeType::Llama3);
  CHECK(model.rope.theta == 5e5);
  CHECK(model.rope.originalPositions == 256);
  CHECK(model.rotaryDim == 8);

  // A value at the top level wins.
  config["original_max_position_embeddings"] = 128;
  CHECK(parse(config).rope.originalPositions == 128);

  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  CHECK_THROWS_WITH_AS(parse(config), doctest::Contains("rope_scaling"), Error);
}

TEST_CASE("rope that is unknown or incomplete is refused") {
  const auto refuseRope = [](const json &rope, const char *message) {
    refuse(llamaConfig(), "rope_scaling", rope, message);
  };
  refuseRope({{"rope_type", "proportional"}, {"factor", 2}},
             "\"proportional\"");
  refuseRope({{"factor", 2}}, "type is missing");
  refuseRope({{"rope_type", "linear"}}, "factor is missing");
  refuseRope({{"rope_type", "linear"}, {"factor", 0.5}}, "factor is 0.5");
  refuseRope({{"rope_type", "linear"}, {"factor", "4"}}, "factor is \"4\"");
  refuseRope({{"rope_type", "yarn"},
              {"factor", 4},
              {"beta_fast", 1},
              {"beta_slow", 32}},
             "beta_slow");
  refuseRope({{"rope_type", "llama3"}, {"factor", 4}}, "low_freq_factor");
  refuseRope({{"rope_type", "longrope"}, {"short_factor", {1, 2}}},
             "short_factor is [1,2], expected an array of 8 numbers");
  refuseRope({{"full_attention", json::object()}}, "type of layer");
  refuseRope("yarn", "expected an object");
  refuse(llamaConfig(), "rope_theta", -1);
  // 16 * 0.2 = 3 rotary dimensions.
  refuse(llamaConfig(), "partial_rotary_factor", 0.2, "3 rotary dimensions");
}

TEST_CASE("sizes are checked") {
  for (const char *key :
       {"hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "vocab_size", "head_dim",
        "max_position_embeddings"})
    for (const json &value :
         {json(0), json(-1), json(1.5), json("64"), json(int64_t(1) << 40),
          json(uint64_t(1) << 63), json(true)})
      refuse(llamaConfig(), key, value);
  refuse(llamaConfig(), "num_key_value_heads", 3, "not a divisor of 4 heads");
  refuse(llamaConfig(), "hidden_size", 66, "not a multiple of 4 heads");
  refuse(llamaConfig(), "rms_norm_eps", -1e-5);
  refuse(llamaConfig(), "rms_norm_eps", nullptr);
  refuse(llamaConfig(), "hidden_size", nullptr, "hidden_size is missing");
  refuse(llamaConfig(), "head_dim", 15, "15 rotary dimensions");
}

TEST_CASE("features that the engine lacks are refused by name") {
  refuse(llamaConfig(), "quantization_config", {{"quant_method", "awq"}});
  refuse(llamaConfig(), "num_local_experts", 8);
  refuse(llamaConfig(), "dual_chunk_attention_config", {{"chunk_size", 9}});
  refuse(llamaConfig(), "mlp_bias", true);
  refuse(llamaConfig(), "hidden_act", "gelu");
  refuse(llamaConfig(), "final_logit_softcapping", 30.0);
  refuse(llamaConfig(), "layer_types", {"full_attention", "chunked_attention"});
  refuse(llamaConfig(), "torch_dtype", "float8_e4m3fn");
  refuse(llamaConfig(), "eos_token_id", 100);
  refuse(llamaConfig(), "eos_token_id", {1, -1});
}

TEST_CASE("attention has biases on all four projections or on none") {
  json config = llamaConfig();
  config["attention_bias"] = true;
  CHECK(parse(config).qkvBias);
  CHECK(parse(config).outputBias);
  config = configOf("mistral", "MistralForCausalLM");
  config["attention_bias"] = true; // which this class does not read
  CHECK_FALSE(parse(config).qkvBias);
  CHECK_FALSE(parse(configOf("qwen2", "Qwen2ForCausalLM")).outputBias);
}

TEST_CASE("layers have windows as their class says") {
  using Windows = std::vector<int64_t>;
  json mistral = configOf("mistral", "MistralForCausalLM");
  CHECK(parse(mistral).windows == Windows{0, 0});
  mistral["sliding_window"] = 256;
  CHECK(parse(mistral).windows == Windows{256, 256});
  json wide = mistral;
  wide["sliding_window"] = 512; // As long as the longest sequence.
  CHECK(parse(wide).windows == Windows{0, 0});

  // Types of layers say more than a width, if each layer has one.
  for (const json &types :
       {json::array(), json("full_attention"), json{"full_attention"},
        json{"full_attention", "full_attention", "full_attention"}})
    refuse(mistral, "layer_types", types, "the types of 2 layers");
  refuse(mistral, "layer_types", {"full_attention", 1});
  mistral["layer_types"] = {"full_attention", "sliding_attention"};
  CHECK(parse(mistral).windows == Windows{0, 256});

  json qwen = configOf("qwen2", "Qwen2ForCausalLM");
  qwen["sliding_window"] = 256;
  qwen["max_window_layers"] = 1;
  CHECK(parse(qwen).windows == Windows{0, 0}); // They are off by default.
  qwen["use_sliding_window"] = true;
  CHECK(parse(qwen).windows == Windows{0, 256});
  qwen["max_window_layers"] = 2; // No layer is left for them.
  CHECK(parse(qwen).windows == Windows{0, 0});
}

TEST_CASE(
    "without sliding_window the class's default holds, null is no window") {
  const auto windowOf = [](const char *type, const char *name, bool isNull) {
    json config = configOf(type, name);
    config["max_position_embeddings"] = 32768;
    config["use_sliding_window"] = true;
    config["max_window_layers"] = 0;
    if (isNull)
      config["sliding_window"] = nullptr;
    return parse(config).windows.front();
  };
  for (const auto &[type, name, window] :
       {std::tuple("mistral", "MistralForCausalLM", 4096),
        std::tuple("qwen2", "Qwen2ForCausalLM", 4096),
        std::tuple("qwen3", "Qwen3ForCausalLM", 4096),
        std::tuple("qwen3_moe", "Qwen3MoeForCausalLM", 4096),
        std::tuple("gpt_oss", "GptOssForCausalLM", 128),
        std::tuple("mixtral", "MixtralForCausalLM", 0),
        std::tuple("llama", "LlamaForCausalLM", 0)}) {
    CAPTURE(type);
    CHECK(windowOf(type, name, false) == window);
    CHECK(windowOf(type, name, true) == 0);
  }
}

TEST_CASE("end tokens are one or a list, types have two keys") {
  json config = llamaConfig();
  config["eos_token_id"] = 7;
  CHECK(parse(config).eosTokens == std::vector<int32_t>{7});
  config["eos_token_id"] = {7, 9};
  CHECK(parse(config).eosTokens == std::vector<int32_t>{7, 9});
  config["torch_dtype"] = "float16";
  CHECK(parse(config).dtype == DType::F16);
  config["dtype"] = "float32";
  CHECK(parse(config).dtype == DType::F32);
}

TEST_CASE("JSON that is not strict is refused") {
  const auto refuseText = [](const std::string &text, const char *message) {
    CHECK_THROWS_WITH_AS(parseModelConfig(text, "config.json"),
                         doctest::Contains(message), Error);
  };
  refuseText("", "config.json: ");
  refuseText("[]", "expected an object");
  refuseText("{\"a\": 1, \"a\": 2}", "\"a\" is there twice");
  refuseText(std::string("{}\0{}", 5), "NUL");
  refuseText("{} x", "config.json: ");
  refuseText(std::string(100000, '[') + std::string(100000, ']'), "32 levels");
  refuseText("{\"hidden_size\": 1e999}", "config.json: ");
  CHECK_THROWS_WITH_AS(readModelConfig("/no/such/file"),
                       doctest::Contains("/no/such/file"), Error);
}

TEST_CASE("presets parse, and have the sizes of their models") {
  CHECK(presetNames().size() == 15);
  for (const auto name : presetNames())
    CHECK(presetConfig(name).vocabSize > 0);
  CHECK(presetConfig("llama-3-8b").kvRows() == 1024);
  CHECK(presetConfig("llama-3.2-1b").headDim == 64);
  CHECK(presetConfig("llama-3.2-3b").rope.factor == 32);
  CHECK(presetConfig("qwen2.5-7b").qkvBias);
  CHECK(presetConfig("qwen3-0.6b").qRows() == 2048);
  CHECK(presetConfig("qwen3-8b").qkNorm);
  CHECK(presetConfig("qwen3-30b-a3b").experts.count == 128);
  CHECK(presetConfig("mixtral-8x7b").experts.innerSize == 14336);
  CHECK_THROWS_WITH_AS(presetConfig("llama-9"),
                       doctest::Contains("llama-3-8b, llama-3.2-1b"), Error);
}

TEST_CASE("the first layers of a preset are a preset") {
  CHECK(presetConfig("qwen3-30b-a3b-16-layers").layers == 16);
  CHECK(presetConfig("qwen3-30b-a3b-16-layers").hiddenSize == 2048);
  CHECK(presetConfig("qwen2.5-7b-4-layers").layers == 4);
  for (const char *name : {"llama-3-8b-0-layers", "llama-3-8b-x-layers",
                           "llama-3-8b--layers", "-layers", "llama-9-4-layers"})
    CHECK_FALSE(findPreset(name).has_value());
}
