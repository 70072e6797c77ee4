"""Configs of the models that the engine's programs compare, as config.json has
them, and the sizes that follow. Needs neither torch nor a GPU.

The numbers are those of the config.json that each model is published with at
huggingface.co; the comment above each names it. Configs of fewer layers keep
every other number: a layer, the vocabulary and the head are those of the model.
The engine's own presets of the same names (examples/llama/Presets.cpp) have the
same numbers.
"""
import dataclasses

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
         "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
         "rms_norm_eps": 1e-05, "bos_token_id": 128000,
         "eos_token_id": 128001, "torch_dtype": "bfloat16"}
QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
         "hidden_act": "silu", "rms_norm_eps": 1e-06,
         "rope_theta": 1000000.0, "use_sliding_window": False,
         "bos_token_id": 151643, "eos_token_id": 151643,
         "torch_dtype": "bfloat16"}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
         "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 1000000,
         "rope_scaling": None, "attention_bias": False,
         "max_position_embeddings": 40960, "vocab_size": 151936,
         "head_dim": 128, "sliding_window": None,
         "use_sliding_window": False, "bos_token_id": 151643,
         "eos_token_id": 151645, "torch_dtype": "bfloat16"}
QWEN3_MOE = {key: value for key, value in QWEN3.items()
             if key not in ("architectures", "model_type")} | {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
    "decoder_sparse_step": 1, "mlp_only_layers": []}
MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral",
           "hidden_act": "silu", "rms_norm_eps": 1e-05, "bos_token_id": 1,
           "eos_token_id": 2, "torch_dtype": "bfloat16"}

GPT_OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
           "hidden_act": "silu", "rms_norm_eps": 1e-05, "swiglu_limit": 7.0,
           "attention_bias": True, "sliding_window": 128,
           "tie_word_embeddings": False, "eos_token_id": 200002,
           "torch_dtype": "bfloat16"}

# meta-llama/Meta-Llama-3-8B
LLAMA_3_8B = LLAMA | {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "rope_theta": 500000.0,
    "rope_scaling": None, "tie_word_embeddings": False}

# meta-llama/Llama-3.2-1B
LLAMA_32_1B = LLAMA | {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
    "vocab_size": 128256, "max_position_embeddings": 131072,
    "rope_theta": 500000.0, "tie_word_embeddings": True,
    "rope_scaling": {"rope_type": "llama3", "factor": 32.0,
                     "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192}}

# Qwen/Qwen2.5-0.5B
QWEN_25_05B = QWEN2 | {
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
    "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "sliding_window": 32768,
    "max_window_layers": 24, "tie_word_embeddings": True}

# Qwen/Qwen2.5-7B
QWEN_25_7B = QWEN2 | {
    "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 131072, "sliding_window": 131072,
    "max_window_layers": 28, "tie_word_embeddings": False}

# Qwen/Qwen3-0.6B
QWEN_3_06B = QWEN3 | {
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8,
    "max_window_layers": 28, "tie_word_embeddings": True}

# Qwen/Qwen3-8B
QWEN_3_8B = QWEN3 | {
    "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8,
    "max_window_layers": 36, "tie_word_embeddings": False}

# mistralai/Mistral-7B-v0.3
MISTRAL_7B = MISTRAL | {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 32768, "max_position_embeddings": 32768,
    "rope_theta": 1000000.0, "sliding_window": None,
    "tie_word_embeddings": False}

# mistralai/Mixtral-8x7B-v0.1
MIXTRAL_8X7B = MISTRAL | {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
    "max_position_embeddings": 32768, "rope_theta": 1000000.0,
    "sliding_window": None, "tie_word_embeddings": False}

# Qwen/Qwen3-30B-A3B
QWEN_3_30B_A3B = QWEN3_MOE | {
    "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
    "num_attention_heads": 32, "num_key_value_heads": 4, "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768,
    "norm_topk_prob": True, "max_window_layers": 48,
    "tie_word_embeddings": False}

# openai/gpt-oss-20b, with experts in bf16. Layers take turns: the first one has
# the window, the second one sees all keys.
GPT_OSS_20B = GPT_OSS | {
    "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
    "num_local_experts": 32, "num_experts_per_tok": 4, "vocab_size": 201088,
    "max_position_embeddings": 131072, "rope_theta": 150000,
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
                     "beta_slow": 1.0, "truncate": False,
                     "original_max_position_embeddings": 4096}}

# Made up, for scalings that none of the models above has. Prompts are longer
# than the original positions, so that the scaling shows.
TINY = LLAMA | {
    "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 4096, "max_position_embeddings": 4096,
    "rope_theta": 10000.0, "tie_word_embeddings": False, "bos_token_id": 0,
    "eos_token_id": 1}
TINY_YARN = TINY | {
    "rope_scaling": {"rope_type": "yarn", "factor": 16.0,
                     "original_max_position_embeddings": 256}}
# Layers without experts among those with them, and weights of the choices that
# do not sum to 1.
TINY_QWEN3_MOE = QWEN3_MOE | {
    "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 4096, "max_position_embeddings": 4096, "num_experts": 8,
    "num_experts_per_tok": 3, "moe_intermediate_size": 192,
    "norm_topk_prob": False, "mlp_only_layers": [1], "max_window_layers": 4,
    "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1}
# Queries that do not see the first keys.
TINY_WINDOW = MISTRAL | {
    "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 4096, "max_position_embeddings": 4096,
    "rope_theta": 10000.0, "sliding_window": 100,
    "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1}
TINY_LINEAR = TINY | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}


def with_layers(config, layers):
    """The config of the first `layers` layers."""
    reduced = config | {"num_hidden_layers": layers}
    if "max_window_layers" in config:
        reduced["max_window_layers"] = layers
    return reduced


# The models of the race; names of the engine's presets.
RACE = {"llama-3-8b": LLAMA_3_8B, "llama-3.2-1b": LLAMA_32_1B,
        "qwen3-30b-a3b-16-layers": with_layers(QWEN_3_30B_A3B, 16),
        "qwen3-30b-a3b": QWEN_3_30B_A3B}

# The models whose logits are compared.
NUMERICS = {
    "llama-3-8b-4-layers": with_layers(LLAMA_3_8B, 4),
    "llama-3.2-1b": LLAMA_32_1B,
    "qwen2.5-0.5b": QWEN_25_05B,
    "qwen2.5-7b-4-layers": with_layers(QWEN_25_7B, 4),
    "qwen3-0.6b": QWEN_3_06B,
    "qwen3-8b-4-layers": with_layers(QWEN_3_8B, 4),
    "mistral-7b-4-layers": with_layers(MISTRAL_7B, 4),
    "tiny-llama-yarn": TINY_YARN,
    "tiny-llama-linear": TINY_LINEAR,
    "tiny-mistral-window": TINY_WINDOW,
    "mixtral-8x7b-1-layers": with_layers(MIXTRAL_8X7B, 1),
    "qwen3-30b-a3b-2-layers": with_layers(QWEN_3_30B_A3B, 2),
    "tiny-qwen3-moe": TINY_QWEN3_MOE,
    "gpt-oss-20b-2-layers": with_layers(GPT_OSS_20B, 2),
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a model, in elements; bytes are of bf16."""
    hidden: int
    inner: int  # of the MLP, or of one expert
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    epsilon: float
    theta: float
    is_tied: bool  # the head is the embedding
    has_qk_norm: bool = False  # RMSNorm of each head of q and k
    experts: int = 0  # of each layer; 0: it has one MLP
    choices: int = 0  # experts of a token
    normalizes: bool = False  # weights of a token's choices sum to 1

    @property
    def qkv_rows(self):
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def layers_read(self, tokens):
        """Elements of the layers' matrices that some tokens read. Each expert
        is as likely to be chosen as any other."""
        mlp = 3 * self.inner
        if self.experts:
            share = 1 - (1 - self.choices / self.experts)**tokens
            mlp = self.experts * (1 + share * mlp)
        return round(self.layers * self.hidden * (
            self.qkv_rows + self.heads * self.head_dim + mlp))

    def weights_read(self, tokens):
        """Bytes of the matrices that a step of so many tokens reads."""
        return 2 * (self.layers_read(tokens) + self.vocab * self.hidden)

    @property
    def kv_bytes(self):
        """Bytes of the keys and values of a token, in all layers."""
        return 4 * self.layers * self.kv_heads * self.head_dim


def shape_of(config):
    """The shape of a config. Its layers are alike: some models of NUMERICS have
    others, which are not raced."""
    heads = config["num_attention_heads"]
    experts = config.get("num_experts") or config.get("num_local_experts") or 0
    return Shape(
        hidden=config["hidden_size"],
        inner=config.get("moe_intermediate_size") or
        config["intermediate_size"],
        has_qk_norm=config["model_type"].startswith("qwen3"), experts=experts,
        choices=config.get("num_experts_per_tok", 0),
        # Mixtral has no key for it, and does; Qwen3-MoE's default is not to.
        normalizes=config.get("norm_topk_prob",
                              config["model_type"] != "qwen3_moe"),
        layers=config["num_hidden_layers"], heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        vocab=config["vocab_size"], epsilon=config["rms_norm_eps"],
        theta=config["rope_theta"], is_tied=config["tie_word_embeddings"])
