//===- Presets.cpp - models by name, for benchmarks without files ---------===//
//
// The numbers are those of the config.json that each model is published with
// at huggingface.co: meta-llama/Meta-Llama-3-8B, meta-llama/Llama-3.2-1B and
// -3B, Qwen/Qwen2.5-0.5B and -7B, Qwen/Qwen3-0.6B and -8B (base models, where
// the eos token differs between variants). "tiny" is made up for tests: small,
// with heads that are together wider than the hidden state.
//
//===----------------------------------------------------------------------===//
#include "ModelConfig.h"

#include "Error.h"

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

std::string_view presetText(std::string_view name) {
  std::string known;
  for (const Preset &preset : kPresets) {
    if (preset.name == name)
      return preset.json;
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  throw Error("no preset is called \"" + std::string(name) + "\"; there are " +
              known);
}

} // namespace llama
