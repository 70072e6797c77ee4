"""Operands of the cases of small_expert_cases.py, torch functions for them, and
the check of Kiln's results.
"""
import torch
import torch.nn.functional as F

import small_expert_cases as cases

EPSILON = 1e-6
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int32": torch.int32}
WRITTEN = ("index", "ends", "weights", "residual_out", "y")


def make_copies(case, copies):
    """A dict of tensors by name for each copy; constants are shared."""
    operands = cases.OPERANDS[case.family](case)

    def tensor(operand):
        made = torch.empty(operand.shape, device="cuda",
                           dtype=TYPES[operand.dtype])
        if operand.name in WRITTEN:
            return made.fill_(-1)
        return made.normal_(0, 0.2 if "bias" in operand.name else 1)

    shared = {operand.name: tensor(operand) for operand in operands
              if operand.constant}
    return [shared | {operand.name: tensor(operand) for operand in operands
                      if not operand.constant} for _ in range(copies)]


#===------------------------------------------------------------------------===#
# route
#===------------------------------------------------------------------------===#


def scores_of(sizes, logits, inputs):
    """(scores, the values that choose) of each token's experts."""
    x = logits.float()
    if sizes["biased"]:
        x = x + inputs["logit_bias"]
    if not sizes["sigmoid"]:
        return x.softmax(-1), x
    scores = x.sigmoid()
    return scores, within_groups(sizes, scores + inputs["choice_bias"])


def within_groups(sizes, values):
    """Values, with minus infinity outside the groups that stay."""
    if not sizes["groups"]:
        return values
    groups = values.view(values.shape[0], sizes["groups"], -1)
    best = groups.topk(2, -1).values.sum(-1).topk(sizes["top_groups"],
                                                  -1).indices
    stays = torch.zeros(groups.shape[:2], dtype=torch.bool,
                        device=values.device).scatter(1, best, True)
    return groups.masked_fill(~stays[..., None],
                              -float("inf")).view_as(values)


def weighted(sizes, scores, chosen):
    factors = scores.gather(-1, chosen)
    return factors / factors.sum(-1, keepdim=True) * sizes["scale"]


def by_sort(sizes, chosen):
    """(the choices sorted by expert, the end of each expert's)."""
    experts, order = chosen.flatten().sort(stable=True)
    ends = torch.searchsorted(
        experts, torch.arange(sizes["experts"], device=chosen.device),
        right=True)
    return order.int(), ends.int()


def by_counts(sizes, chosen):
    """The same without a sort: each choice counts those ahead of it."""
    flat = chosen.flatten()
    is_of = flat[:, None] == torch.arange(sizes["experts"],
                                          device=chosen.device)
    counts = is_of.int().cumsum(0, dtype=torch.int32)
    ends = counts[-1].cumsum(0, dtype=torch.int32)
    places = (ends - counts[-1])[flat] + \
        counts.gather(1, flat[:, None])[:, 0] - 1
    choices = torch.arange(flat.numel(), device=chosen.device,
                           dtype=torch.int32)
    return torch.empty_like(choices).scatter(0, places.long(), choices), ends


def route_peers(case):
    sizes = dict(case.sizes)

    def peer(sorts):
        def route(logits, **inputs):
            scores, values = scores_of(sizes, logits, inputs)
            chosen = values.topk(sizes["topk"], -1).indices
            return weighted(sizes, scores, chosen), *sorts(sizes, chosen)

        return route

    return {"route by sort": peer(by_sort), "route by counts": peer(by_counts)}


def route_faults(case, data):
    """Outputs that are wrong. Which of equal experts torch chooses is not told,
    so values are compared."""
    sizes = case.sizes
    index, ends = data["index"].long(), data["ends"]
    rows = torch.arange(index.numel(), device="cuda")
    if not torch.equal(index.sort().values, rows) or \
            int(ends[-1]) != index.numel() or bool((ends.diff() < 0).any()):
        return ["index or ends"]
    experts = torch.searchsorted(ends.long(), rows, right=True)
    chosen = torch.empty_like(index).scatter_(0, index, experts).view(
        sizes["tokens"], -1)
    scores, values = scores_of(sizes, data["logits"], data)
    best = values.topk(sizes["topk"], -1).values
    found = {
        "index": torch.equal(by_sort(sizes, chosen)[0].long(), index) and
        torch.allclose(values.gather(-1, chosen), best, atol=1e-6),
        "weights": torch.allclose(weighted(sizes, scores, chosen),
                                  data["weights"], rtol=1e-4, atol=1e-7)}
    return [name for name, is_right in found.items() if not is_right]


#===------------------------------------------------------------------------===#
# combine
#===------------------------------------------------------------------------===#


def combined(sizes, x, residual, norm_weight, inputs):
    """(the sum, the norm), fp32."""
    h = x.view(-1, sizes["topk"], sizes["cols"]).float().sum(1) + \
        residual.float()
    if sizes["shared"]:
        h = h + inputs["shared"].float()
    return h, F.rms_norm(h, (sizes["cols"],), norm_weight.float(), EPSILON)


def combine_peers(case):
    sizes = dict(case.sizes)

    def combine(x, residual, norm_weight, **inputs):
        return tuple(value.to(x.dtype) for value in combined(
            sizes, x, residual, norm_weight, inputs))

    return {"combine": combine}


def combine_faults(case, data):
    sums, normed = combined(case.sizes, data["x"], data["residual"],
                            data["norm_weight"], data)
    return [name for name, value in {"residual_out": sums, "y": normed}.items()
            if not bool(((data[name].float() - value).abs() <=
                         2.0**-7 * value.abs() + 2.0**-9).all())]


PEERS = {"route": route_peers, "combine": combine_peers}
COMPILED = {"route by sort", "route by counts", "combine"}
FAULTS = {"route": route_faults, "combine": combine_faults}
