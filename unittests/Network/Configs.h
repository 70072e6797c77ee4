// The config.json of models, shortened to the keys that problems depend on.
#pragma once

#include <llvm/Support/JSON.h>

#include <string>

namespace kiln::testing {

inline const char *const kLlama8B = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
  "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "hidden_act": "silu", "attention_bias": false})";

inline const char *const kLlama70B = R"({
  "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
  "num_hidden_layers": 80, "num_attention_heads": 64,
  "num_key_value_heads": 8, "vocab_size": 128256,
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-05})";

inline const char *const kQwen3Moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
  "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
  "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
  "vocab_size": 151936, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "num_experts": 128, "num_experts_per_tok": 8,
  "moe_intermediate_size": 768, "decoder_sparse_step": 1,
  "mlp_only_layers": [], "sliding_window": null, "use_sliding_window": false,
  "max_window_layers": 48})";

inline const char *const kMixtral = R"({
  "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 8, "vocab_size": 32000,
  "max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
  "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null})";

inline const char *const kGptOss = R"({
  "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
  "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
  "vocab_size": 201088, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-05, "num_local_experts": 32, "num_experts_per_tok": 4,
  "swiglu_limit": 7.0, "attention_bias": true, "sliding_window": 128,
  "quantization_config": {"quant_method": "mxfp4"}})";

/// \p config with \p key set to \p value, which is JSON; empty: without it.
inline std::string changed(const char *config, const char *key,
                           const char *value) {
  auto parsed = llvm::cantFail(llvm::json::parse(config));
  llvm::json::Object &object = *parsed.getAsObject();
  object.erase(key);
  if (*value)
    object[key] = llvm::cantFail(llvm::json::parse(value));
  std::string text;
  llvm::raw_string_ostream(text) << parsed;
  return text;
}

} // namespace kiln::testing
