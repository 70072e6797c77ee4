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
MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral",
           "hidden_act": "silu", "rms_norm_eps": 1e-05, "bos_token_id": 1,
           "eos_token_id": 2, "torch_dtype": "bfloat16"}

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
TINY_LINEAR = TINY | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}


def with_layers(config, layers):
    """The config of the first `layers` layers."""
    reduced = config | {"num_hidden_layers": layers}
    if "max_window_layers" in config:
        reduced["max_window_layers"] = layers
    return reduced


# The models of the race; names of the engine's presets.
RACE = {"llama-3-8b": LLAMA_3_8B, "llama-3.2-1b": LLAMA_32_1B}

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
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a model, in elements; bytes are of bf16."""
    hidden: int
    inner: int  # of the MLP
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    epsilon: float
    theta: float
    is_tied: bool  # the head is the embedding

    @property
    def qkv_rows(self):
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def weights_read(self):
        """Bytes of the matrices that a step of decoding reads."""
        layer = self.hidden * (self.qkv_rows + self.heads * self.head_dim +
                               3 * self.inner)
        return 2 * (self.layers * layer + self.vocab * self.hidden)

    @property
    def kv_bytes(self):
        """Bytes of the keys and values of a token, in all layers."""
        return 4 * self.layers * self.kv_heads * self.head_dim


def shape_of(config):
    heads = config["num_attention_heads"]
    return Shape(
        hidden=config["hidden_size"], inner=config["intermediate_size"],
        layers=config["num_hidden_layers"], heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        vocab=config["vocab_size"], epsilon=config["rms_norm_eps"],
        theta=config["rope_theta"], is_tied=config["tie_word_embeddings"])
