"""Torch functions of each case of small_kernels.py, and the check of Kiln's
results.

peers_of(case) gives functions of the inputs of a copy, by name. Functions that
COMPILED names go through torch.compile; fusion does not help the others.
"""
import torch
import torch.nn.functional as F

import small_expert_peers
import small_kernel_cases as cases

EPSILON = 1e-6
E4M3_MOST = 448.0

# Peers that torch.compile makes one or few kernels of.
COMPILED = {"rope", "masked embedding", "race", "min-p race",
            "penalties race"} | small_expert_peers.COMPILED


#===------------------------------------------------------------------------===#
# rope
#===------------------------------------------------------------------------===#


def rotated(x, angles, sizes):
    """x [tokens][heads][d] in fp32, rotated by rows of the table."""
    cos, sin = angles[:, None].chunk(2, -1)
    begin, end = sizes["offset"], sizes["offset"] + sizes["rotary"]
    part = x[..., begin:end]
    if sizes["style"] == "interleaved":
        a, b = part[..., 0::2], part[..., 1::2]
        done = torch.stack([a * cos - b * sin, b * cos + a * sin],
                           -1).flatten(-2)
    else:
        a, b = part.chunk(2, -1)
        done = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([x[..., :begin], done, x[..., end:]], -1)


def normed(x, weight, sizes):
    weight = weight.float() + sizes["unit"]
    return F.rms_norm(x, (sizes["d"],), None, EPSILON) * weight


def rope_parts(sizes, inputs, table, positions):
    """(q, k) after norm and rotation, fp32."""
    angles, found = table.index_select(0, positions), []
    for name in ("q", "k"):
        x = inputs[name].float()
        if sizes["norm"]:
            x = normed(x, inputs[f"{name}_weight"], sizes)
        found.append(rotated(x, angles, sizes))
    return found


def to_e4m3(x, scale):
    return (x.float() / scale).clamp(-E4M3_MOST, E4M3_MOST).to(
        torch.float8_e4m3fn)


def write(cache, slots, rows, sizes):
    """Writes rows [tokens][heads][d] to a cache, whose type they have. Bytes of
    e4m3, for which torch has no indexed write. index_copy_ takes 800 us for 64
    tokens (H200, torch 2.11), an indexed assignment 5."""
    if sizes["kv"] == "e4m3":
        cache, rows = cache.view(torch.uint8), rows.view(torch.uint8)
    if sizes["hnd"]:
        cache[slots // cases.PAGE, :, slots % cases.PAGE] = rows
    else:
        cache.view(-1, *cache.shape[2:])[slots] = rows


def rope_peer(case):
    sizes = dict(case.sizes)

    def rope(long_slots, k_cache, table, positions, **inputs):
        q, k = rope_parts(sizes, inputs, table, positions)
        caches = [(k_cache, k, inputs.get("k_scale"))]
        if sizes["values"]:
            caches.append((inputs["v_cache"], inputs["v"],
                           inputs.get("v_scale")))
        for cache, rows, scale in caches:
            rows = to_e4m3(rows, scale) if scale is not None \
                else rows.to(cache.dtype)
            write(cache, long_slots, rows, sizes)
        return q.to(torch.bfloat16)

    return rope


def read_rows(cache, slots, sizes):
    slots = slots.long()
    if sizes["hnd"]:
        return cache[slots // cases.PAGE, :, slots % cases.PAGE]
    return cache.view(-1, *cache.shape[2:])[slots]


def rope_faults(case, data):
    """Outputs that are off from fp32 arithmetic by more than their rounding."""
    sizes = case.sizes
    q, k = rope_parts(sizes, data, data["table"], data["positions"])
    expected = {"q_out": q, "k_cache": k}
    found = {"q_out": data["q_out"].float()}
    if sizes["values"]:
        expected["v_cache"] = data["v"].float()
    for name in ("k_cache", "v_cache"):
        if name in expected:
            rows = read_rows(data[name], data["slots"], sizes).float()
            scale = data.get(f"{name[0]}_scale")
            found[name] = rows if scale is None else rows * scale
    is_e4m3 = sizes["kv"] == "e4m3"
    return [name for name, value in expected.items()
            if not bool(((found[name] - value).abs() <= (
                2.0**-3.9 * value.abs() + 2.0**-9
                if is_e4m3 and name != "q_out"
                else 2.0**-7 * value.abs() + 2.0**-10)).all())]


#===------------------------------------------------------------------------===#
# gather
#===------------------------------------------------------------------------===#


def gather_peers(case):
    first, rows = case.sizes["first"], case.sizes["rows"]
    if rows == case.sizes["vocab"]:
        return {"embedding": lambda x, indices, **unused:
                F.embedding(indices, x)}

    def masked(x, indices, **unused):
        own = indices - first
        inside = (own >= 0) & (own < rows)
        return F.embedding(own.clamp(0, rows - 1), x) * inside[:, None]

    return {"masked embedding": masked}


def gather_faults(case, data):
    first, rows = case.sizes["first"], case.sizes["rows"]
    own = data["indices"].long() - first
    inside = (own >= 0) & (own < rows)
    expected = torch.where(inside[:, None],
                           data["x"][own.clamp(0, rows - 1)], 0)
    return [] if torch.equal(expected, data["y"]) else ["y"]


#===------------------------------------------------------------------------===#
# sample
#===------------------------------------------------------------------------===#


def draw(mass):
    """A column of each row, with a chance of its share of the mass: the
    exponential race, which needs no sum."""
    return (mass / torch.empty_like(mass).exponential_()).argmax(-1)


def top_p_mass(values):
    """Masses of sorted logits, 0 behind the tokens that reach top_p."""
    mass = values.softmax(-1)
    return mass * (mass.cumsum(-1) - mass < cases.TOP_P)


def argmax(logits, **unused):
    return logits.argmax(-1)


def multinomial(logits, **unused):
    return torch.multinomial((logits / cases.TEMPERATURE).softmax(-1), 1)


def race(logits, **unused):
    return draw((logits / cases.TEMPERATURE).softmax(-1))


def min_p_race(logits, **unused):
    mass = (logits / cases.TEMPERATURE).softmax(-1)
    return draw(mass * (mass >= cases.MIN_P * mass.amax(-1, keepdim=True)))


def topk(logits, **unused):
    values, tokens = logits.topk(cases.TOP_K)
    mass = (values / cases.TEMPERATURE).softmax(-1)
    return tokens.gather(-1, draw(mass)[:, None])


def topk_topp(logits, **unused):
    values, tokens = logits.topk(cases.TOP_K)
    mass = top_p_mass(values / cases.TEMPERATURE)
    return tokens.gather(-1, draw(mass)[:, None])


def sort(logits, **unused):
    values, tokens = logits.sort(-1, descending=True)
    mass = top_p_mass(values / cases.TEMPERATURE)
    return tokens.gather(-1, draw(mass)[:, None])


def penalties(logits, history, **unused):
    history = history.view(logits.shape[0], -1).long()
    output = history[:, cases.HISTORY // 2:]
    seen = torch.zeros_like(logits).scatter_(1, history, 1.0)
    count = torch.zeros_like(logits).scatter_add_(
        1, output, torch.ones_like(output, dtype=logits.dtype))
    x = torch.where(seen > 0, torch.where(logits > 0,
                                          logits / cases.REPETITION,
                                          logits * cases.REPETITION), logits)
    x = x - cases.FREQUENCY * count - cases.PRESENCE * (count > 0)
    return race(x)


SAMPLE_PEERS = {
    "greedy": {"argmax": argmax},
    "temperature": {"multinomial": multinomial, "race": race},
    "topk": {"topk": topk}, "topp": {"sort": sort},
    "topk_topp": {"topk": topk_topp}, "minp": {"min-p race": min_p_race},
    "penalties": {"penalties race": penalties}}


def sample_faults(case, data):
    """Tokens that are not among those that may be drawn; which are drawn how
    often is another check (sample_checks.py)."""
    logits, tokens = data["logits"], data["tokens"].long()
    if case.sizes["kind"] == "greedy":
        places = torch.arange(logits.shape[1], device="cuda")
        greatest = logits == logits.amax(-1, keepdim=True)
        lowest = torch.where(greatest, places, logits.shape[1]).amin(-1)
        return [] if torch.equal(lowest, tokens) else ["tokens"]
    inside = (tokens >= 0) & (tokens < logits.shape[1])
    if "topk" in case.sizes["words"]:
        least = logits.topk(cases.TOP_K).values[:, -1]
        chosen = logits.gather(1, tokens.clamp(min=0)[:, None])[:, 0]
        inside &= chosen >= least
    return [] if bool(inside.all()) else ["tokens"]


#===------------------------------------------------------------------------===#
# All
#===------------------------------------------------------------------------===#


def peers_of(case):
    if case.family == "rope":
        return {"rope": rope_peer(case)}
    if case.family == "gather":
        return gather_peers(case)
    if case.family in small_expert_peers.PEERS:
        return small_expert_peers.PEERS[case.family](case)
    return SAMPLE_PEERS[case.sizes["kind"]]


def faults_of(case, data):
    """Names of Kiln's outputs of a copy that are wrong."""
    checks = {"rope": rope_faults, "gather": gather_faults,
              "sample": sample_faults} | small_expert_peers.FAULTS
    return checks[case.family](case, data)
