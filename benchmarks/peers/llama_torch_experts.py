"""The experts of Qwen3-MoE and Mixtral (MoE) in torch at its best known, as part
of a layer that torch.compile gets (llama_torch.py).

There are two forms. "grouped" sorts the choices by expert and multiplies them by
grouped_mm, one product for all experts: it reads each chosen expert once.
"gathered" reads the weights of each choice on its own, which torch.compile fuses
with products and sums: the better form for few tokens, whose choices are of
different experts.
"""
import torch
import torch.nn.functional as F

# The most tokens of a step for which the gathered form is tried. With more, it
# reads many experts twice.
GATHERED_TOKENS = 4


def forms_of(shape, tokens):
    """The forms to try, by name; without experts there is one, the MLP."""
    if not shape.experts:
        return ["mlp"]
    return ["grouped", "gathered"] if tokens <= GATHERED_TOKENS \
        else ["grouped"]


def mlp(shape, h, weights):
    gate, up = F.linear(h, weights.gate_up).chunk(2, -1)
    return F.linear(F.silu(gate) * up, weights.down)


def route(shape, h, weights):
    """(fp32 weights, experts) of each token's choices, [tokens][choices]."""
    scores = F.linear(h, weights.router).float().softmax(-1)
    factors, chosen = scores.topk(shape.choices, -1)
    if shape.normalizes:
        factors = factors / factors.sum(-1, keepdim=True)
    return factors, chosen


def grouped_mm(rows, weights, ends):
    """Rows of group g times weights[g], stored [n][k]."""
    function = getattr(F, "grouped_mm", None) or torch._grouped_mm
    return function(rows, weights.transpose(-2, -1), offs=ends)


def grouped(shape, h, weights):
    factors, chosen = route(shape, h, weights)
    experts, order = chosen.flatten().sort(stable=True)
    ends = torch.searchsorted(
        experts, torch.arange(shape.experts, device=h.device),
        right=True).to(torch.int32)
    gate, up = grouped_mm(h[order // shape.choices], weights.gate_up,
                          ends).chunk(2, -1)
    results = grouped_mm(F.silu(gate) * up, weights.down, ends)
    by_choice = torch.empty_like(results).index_copy_(0, order, results)
    return (by_choice.view(-1, shape.choices, shape.hidden) *
            factors[..., None]).sum(1).to(h.dtype)


def gathered(shape, h, weights):
    factors, chosen = route(shape, h, weights)

    def product(of, x):
        """of[chosen] x, without a copy of the weights."""
        return (of[chosen].float() * x[..., None, :].float()).sum(-1)

    gate, up = product(weights.gate_up, h[:, None]).to(h.dtype).chunk(2, -1)
    results = product(weights.down, F.silu(gate) * up).to(h.dtype)
    return (results * factors[..., None]).sum(1).to(h.dtype)


FORMS = {"mlp": mlp, "grouped": grouped, "gathered": gathered}
