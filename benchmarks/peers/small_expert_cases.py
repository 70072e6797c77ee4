"""The kernels around the experts of MoE models, route and combine, as cases of
small_kernels.py. Needs neither torch nor a GPU.
"""
from small_kernel_case import TYPE_BYTES, Case, Operand

# From the config.json of each model. DeepSeek-V3 chooses by sigmoids with a
# bias, from 4 of 8 groups, and has shared experts.
MODELS = {
    "mixtral-8x7b": {"experts": 8, "topk": 2, "cols": 4096},
    "qwen3-30b-a3b": {"experts": 128, "topk": 8, "cols": 2048},
    "deepseek-v3": {"experts": 256, "topk": 8, "cols": 7168, "dtype": "fp32",
                    "groups": 8, "top_groups": 4, "scale": 2.5,
                    "sigmoid": True, "shared": True},
    "gpt-oss-120b": {"experts": 128, "topk": 4, "cols": 2880, "biased": True},
}
DEFAULTS = {"dtype": "bf16", "groups": 0, "scale": 1, "sigmoid": False,
            "shared": False, "biased": False}
TOKENS = (1, 16, 64, 256, 2048)
# The other models have fewer cases.
FEW_TOKENS = (1, 256)
FULL_MODELS = ("qwen3-30b-a3b", "deepseek-v3")


def sizes_of(model, tokens):
    return DEFAULTS | MODELS[model] | {"tokens": tokens}


def route_case(model, tokens):
    s = sizes_of(model, tokens)
    words = [f"route tokens={tokens} experts={s['experts']} topk={s['topk']} "
             f"dtype={s['dtype']} renorm=1"]
    if s["sigmoid"]:
        words.append("score=sigmoid choice_bias=1")
    if s["groups"]:
        words.append(f"groups={s['groups']} top_groups={s['top_groups']}")
    if s["biased"]:
        words.append("logit_bias=1")
    if s["scale"] != 1:
        words.append(f"scale={s['scale']}")
    return Case(f"route/{model}/{tokens}", " ".join(words), s,
                read=tokens * s["experts"] * TYPE_BYTES[s["dtype"]],
                written=8 * tokens * s["topk"] + 4 * s["experts"])


def route_operands(case):
    s = case.sizes
    experts, choices = (s["experts"],), (s["tokens"], s["topk"])
    found = [Operand("logits", (s["tokens"], s["experts"]), s["dtype"]),
             Operand("index", (s["tokens"] * s["topk"],), "int32"),
             Operand("ends", experts, "int32"),
             Operand("weights", choices, "fp32")]
    if s["sigmoid"]:
        found.append(Operand("choice_bias", experts, "fp32", True))
    if s["biased"]:
        found.append(Operand("logit_bias", experts, "fp32", True))
    return found


def combine_case(model, tokens):
    s = sizes_of(model, tokens)
    text = (f"combine tokens={tokens} cols={s['cols']} topk={s['topk']} "
            "dtype=bf16 residual=1 norm=1 eps=1e-6")
    if s["shared"]:
        text += " shared=1"
    row = 2 * s["cols"]
    return Case(f"combine/{model}/{tokens}", text, s,
                read=tokens * row * (s["topk"] + 1 + s["shared"]),
                written=2 * tokens * row)


def combine_operands(case):
    s = case.sizes
    rows = (s["tokens"], s["cols"])
    found = [Operand("x", (s["tokens"] * s["topk"], s["cols"]), "bf16")]
    found += [Operand(name, rows, "bf16") for name in
              ["residual", "residual_out", "y"] + ["shared"] * s["shared"]]
    return found + [Operand("norm_weight", (s["cols"],), "bf16", True)]


OPERANDS = {"route": route_operands, "combine": combine_operands}


def all_cases():
    return [make(model, tokens) for make in (route_case, combine_case)
            for model in MODELS
            for tokens in (TOKENS if model in FULL_MODELS else FEW_TOKENS)]
