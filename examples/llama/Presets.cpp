//===- Presets.cpp - models by name, for benchmarks without files ---------===//
//
// The numbers are those of the config.json that each model is published with
// at huggingface.co: meta-llama/Meta-Llama-3-8B, meta-llama/Llama-3.2-1B and
// -3B, Qwen/Qwen2.5-0.5B and -7B, Qwen/Qwen3-0.6B and -8B (base models, where
// the eos token differs between variants), mistralai/Mixtral-8x7B-v0.1,
// Qwen/Qwen3-30B-A3B, openai/gpt-oss-20b and -120b. Those called "tiny" are
// made up for tests: small, with heads that are together wider than the hidden
// state.
//
// With the suffix -N-layers a name means the first N layers of the model, at
// full width.
//
//===----------------------------------------------------------------------===//
#include "ModelConfig.h"

#include "Error.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

namespace llama {

namespace {

struct Preset {
  std::string_view name;
  std::string_view json;
};

constexpr Preset kPresets[] = {{"llama-3-8b", R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
  "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0, "rope_scaling": null, "hidden_act": "silu",
  "attention_bias": false, "tie_word_embeddings": false,
  "bos_token_id": 128000, "eos_token_id": 128001, "torch_dtype": "bfloat16"
})"},
                               {"llama-3.2-1b", R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
  "vocab_size": 128256, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 32.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192},
  "hidden_act": "silu", "attention_bias": false, "mlp_bias": false,
  "tie_word_embeddings": true,
  "bos_token_id": 128000, "eos_token_id": 128001, "torch_dtype": "bfloat16"
})"},
                               {"llama-3.2-3b", R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28,
  "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128,
  "vocab_size": 128256, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 32.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192},
  "hidden_act": "silu", "attention_bias": false, "mlp_bias": false,
  "tie_word_embeddings": true,
  "bos_token_id": 128000, "eos_token_id": 128001, "torch_dtype": "bfloat16"
})"},
                               {"qwen2.5-0.5b", R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
  "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
  "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
  "max_position_embeddings": 32768, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "hidden_act": "silu", "tie_word_embeddings": true,
  "sliding_window": 32768, "max_window_layers": 24,
  "use_sliding_window": false,
  "bos_token_id": 151643, "eos_token_id": 151643, "torch_dtype": "bfloat16"
})"},
                               {"qwen2.5-7b", R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
  "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
  "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "hidden_act": "silu", "tie_word_embeddings": false,
  "sliding_window": 131072, "max_window_layers": 28,
  "use_sliding_window": false,
  "bos_token_id": 151643, "eos_token_id": 151643, "torch_dtype": "bfloat16"
})"},
                               {"qwen3-0.6b", R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
  "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
  "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
  "vocab_size": 151936, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000, "rope_scaling": null,
  "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": true,
  "sliding_window": null, "max_window_layers": 28,
  "use_sliding_window": false,
  "bos_token_id": 151643, "eos_token_id": 151645, "torch_dtype": "bfloat16"
})"},
                               {"qwen3-8b", R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
  "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
  "vocab_size": 151936, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000, "rope_scaling": null,
  "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": false,
  "sliding_window": null, "max_window_layers": 36,
  "use_sliding_window": false,
  "bos_token_id": 151643, "eos_token_id": 151645, "torch_dtype": "bfloat16"
})"},
                               {"mixtral-8x7b", R"({
  "architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
  "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
  "num_local_experts": 8, "num_experts_per_tok": 2,
  "max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
  "rope_theta": 1000000.0, "hidden_act": "silu", "sliding_window": null,
  "tie_word_embeddings": false,
  "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"
})"},
                               {"qwen3-30b-a3b", R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
  "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
  "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
  "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
  "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [],
  "vocab_size": 151936, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "rope_scaling": null,
  "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": false,
  "sliding_window": null, "max_window_layers": 48,
  "use_sliding_window": false,
  "bos_token_id": 151643, "eos_token_id": 151645, "torch_dtype": "bfloat16"
})"},
                               {"gpt-oss-20b", R"({
  "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
  "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
  "num_local_experts": 32, "num_experts_per_tok": 4, "swiglu_limit": 7.0,
  "vocab_size": 201088, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-05, "rope_theta": 150000,
  "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
    "beta_slow": 1.0, "truncate": false,
    "original_max_position_embeddings": 4096},
  "hidden_act": "silu", "attention_bias": true, "sliding_window": 128,
  "tie_word_embeddings": false,
  "eos_token_id": 200002, "torch_dtype": "bfloat16"
})"},
                               {"gpt-oss-120b", R"({
  "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
  "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
  "num_local_experts": 128, "num_experts_per_tok": 4, "swiglu_limit": 7.0,
  "vocab_size": 201088, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-05, "rope_theta": 150000,
  "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
    "beta_slow": 1.0, "truncate": false,
    "original_max_position_embeddings": 4096},
  "hidden_act": "silu", "attention_bias": true, "sliding_window": 128,
  "tie_word_embeddings": false,
  "eos_token_id": 200002, "torch_dtype": "bfloat16"
})"},
                               {"tiny-gpt-oss", R"({
  "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
  "num_local_experts": 8, "num_experts_per_tok": 2, "swiglu_limit": 7.0,
  "vocab_size": 512, "max_position_embeddings": 1024,
  "rms_norm_eps": 1e-05, "rope_theta": 10000,
  "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "truncate": false,
    "original_max_position_embeddings": 256},
  "hidden_act": "silu", "attention_bias": true, "sliding_window": 48,
  "tie_word_embeddings": false,
  "bos_token_id": 0, "eos_token_id": [1, 2], "torch_dtype": "bfloat16"
})"},
                               {"tiny-mixtral", R"({
  "architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
  "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 512,
  "max_position_embeddings": 1024, "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0, "hidden_act": "silu", "sliding_window": null,
  "tie_word_embeddings": false,
  "bos_token_id": 0, "eos_token_id": [1, 2], "torch_dtype": "bfloat16"
})"},
                               {"tiny-qwen3-moe", R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
  "hidden_size": 128, "intermediate_size": 160, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
  "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 64,
  "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [1],
  "vocab_size": 512, "max_position_embeddings": 1024,
  "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "hidden_act": "silu",
  "attention_bias": false, "tie_word_embeddings": false,
  "use_sliding_window": false,
  "bos_token_id": 0, "eos_token_id": [1, 2], "torch_dtype": "bfloat16"
})"},
                               {"tiny", R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
  "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
  "vocab_size": 512, "max_position_embeddings": 1024,
  "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "hidden_act": "silu",
  "attention_bias": false, "tie_word_embeddings": false,
  "use_sliding_window": false,
  "bos_token_id": 0, "eos_token_id": [1, 2], "torch_dtype": "bfloat16"
})"}};

} // namespace

std::vector<std::string_view> presetNames() {
  std::vector<std::string_view> names;
  for (const Preset &preset : kPresets)
    names.push_back(preset.name);
  return names;
}

/// Takes "-N-layers" from the end of \p name; 0: there is no such suffix.
static int64_t takeLayers(std::string_view &name) {
  constexpr std::string_view kSuffix = "-layers";
  if (name.size() <= kSuffix.size() ||
      name.substr(name.size() - kSuffix.size()) != kSuffix)
    return 0;
  const std::string_view front = name.substr(0, name.size() - kSuffix.size());
  const size_t dash = front.rfind('-');
  if (dash == std::string_view::npos)
    return 0;
  int64_t layers = 0;
  const char *end = front.data() + front.size();
  const auto [rest, error] =
      std::from_chars(front.data() + dash + 1, end, layers);
  if (error != std::errc() || rest != end || layers < 1)
    return 0;
  name = front.substr(0, dash);
  return layers;
}

std::string withLayers(std::string_view config, int64_t layers) {
  auto json = nlohmann::json::parse(config);
  json["num_hidden_layers"] = layers;
  if (json.contains("max_window_layers"))
    json["max_window_layers"] = layers;
  return json.dump(2);
}

std::optional<std::string> findPreset(std::string_view name) {
  const int64_t layers = takeLayers(name);
  for (const Preset &preset : kPresets)
    if (preset.name == name)
      return layers ? withLayers(preset.json, layers)
                    : std::string(preset.json);
  return std::nullopt;
}

std::string presetText(std::string_view name) {
  if (auto text = findPreset(name))
    return *std::move(text);
  std::string known;
  for (const Preset &preset : kPresets)
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  throw Error("no preset is called \"" + std::string(name) + "\"; there are " +
              known + ", and each of them with -N-layers");
}

} // namespace llama
