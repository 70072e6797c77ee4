"""Torch's side of the attention cases: inputs, the back ends as functions of
them, and the check of a result against fp32.

A peer of a case is a function make(case, inputs) that returns a function of
the inputs' names; it may raise where the back end does not serve the case.
"""
import functools
import math
import random
import warnings

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

try:  # its interface, where it is installed
    import flash_attn_interface as FA3
except ImportError:
    FA3 = None

TYPES = {"fp32": torch.float32, "int32": torch.int32, "bf16": torch.bfloat16,
         "fp16": torch.float16, "e4m3": torch.float8_e4m3fn}

SEED = 20240501

# torch warns once for each reason why a back end does not serve a case.
warnings.filterwarnings("ignore", category=UserWarning)


#===------------------------------------------------------------------------===#
# Data
#===------------------------------------------------------------------------===#


def offsets_of(lengths):
    """[0, first, first + second, ...]."""
    total, offsets = 0, [0]
    for length in lengths:
        total += length
        offsets.append(total)
    return offsets


def integers_of(case, name, shape):
    """The array of integers called `name`."""
    if name == "query_offsets":
        values = offsets_of(case.query_lengths)
    elif name == "key_offsets":
        values = offsets_of(case.key_lengths)
    elif name == "key_lengths":
        values = case.key_lengths
    elif name == "page_offsets":
        values = [sequence * case.pages_of_sequence
                  for sequence in range(case.batch + 1)]
    else:
        # Pages lie anywhere.
        values = list(range(case.batch * case.pages_of_sequence))
        random.Random(SEED).shuffle(values)
    return torch.tensor(values, dtype=torch.int32, device="cuda").view(shape)


def make_inputs(case, copies):
    """A dict of inputs by name for each copy. Integers are shared."""
    generator = torch.Generator(device="cuda").manual_seed(SEED)
    shared = {operand.name: integers_of(case, operand.name, operand.shape)
              for operand in case.operands() if operand.dtype == "int32"}

    def floats(operand):
        values = torch.empty(operand.shape, device="cuda", dtype=torch.bfloat16
                             if operand.dtype == "e4m3"
                             else TYPES[operand.dtype])
        return values.normal_(generator=generator).to(TYPES[operand.dtype])

    return [shared | {operand.name: floats(operand)
                      for operand in case.operands()
                      if not operand.output and operand.name not in shared}
            for _ in range(copies)]


#===------------------------------------------------------------------------===#
# Back ends
#===------------------------------------------------------------------------===#


def has_plain_layout(case):
    return case.is_uniform and not case.pages


def is_plain(case):
    """Served by torch's scaled_dot_product_attention: its causal mask begins
    at the first key, which is another one where there are more keys."""
    return has_plain_layout(case) and case.mask in ("none", "causal") and \
        not case.softcap and not case.get("sinks") and case.dtype != "e4m3" \
        and case.kv_dtype == case.dtype and not case.get("lse") and \
        (case.mask == "none" or case.queries == case.keys)


def sdpa_of(backend):
    """Peer: torch's function with one back end."""
    def make(case, inputs):
        if not is_plain(case):
            raise ValueError("not served")

        def function(q, k, v, **unused):
            with sdpa_kernel(backend):
                out = functional.scaled_dot_product_attention(
                    q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                    is_causal=case.mask == "causal", scale=case.scale,
                    enable_gqa=case.kv_heads != case.heads)
            return out.transpose(1, 2)

        return function
    return make


def window_of(case):
    """(left, right) as FlashAttention has them."""
    if case.mask == "window":
        return (case.spec.get("left", -1), case.spec.get("right", -1))
    return (-1, 0) if case.mask == "causal" else (-1, -1)


def flash2(case, inputs):
    """Peer: FlashAttention 2 of torch, called as its operator: its causal mask
    ends at the last key, and it has windows and packed sequences."""
    if case.pages or case.softcap or case.get("sinks") or \
            case.dtype == "e4m3" or case.kv_dtype != case.dtype or \
            case.get("kvlen") == "used" or \
            case.packs_queries != case.packs_keys:
        raise ValueError("not served")
    left, right = window_of(case)
    window = {"window_size_left": left, "window_size_right": right} \
        if case.mask == "window" else {}

    def function(q, k, v, query_offsets=None, key_offsets=None, **unused):
        return torch.ops.aten._flash_attention_forward(
            q, k, v, query_offsets, key_offsets, case.queries, case.keys, 0.0,
            case.mask == "causal", False, scale=case.scale, **window)[0]

    return function


def flash3(case, inputs):
    """Peer: FlashAttention 3, its package."""
    if FA3 is None or case.kv_dtype != case.dtype or case.pages == "list":
        raise ValueError("not served")
    common = {"softmax_scale": case.scale, "causal": case.mask == "causal",
              "softcap": case.softcap or 0.0}
    if case.mask == "window":
        common["window_size"] = window_of(case)
    if case.packs_queries and case.packs_keys:
        def function(q, k, v, query_offsets, key_offsets, **unused):
            out = FA3.flash_attn_varlen_func(
                q, k, v, query_offsets, key_offsets, case.queries, case.keys,
                **common)
            return out[0] if isinstance(out, tuple) else out
    elif has_plain_layout(case) and case.queries > 1:
        def function(q, k, v, **unused):
            out = FA3.flash_attn_func(q, k, v, **common)
            return out[0] if isinstance(out, tuple) else out
    elif not case.packs_queries and not case.packs_keys:
        lengths = torch.tensor(case.key_lengths, dtype=torch.int32,
                               device="cuda")

        def function(q, k, v, page_table=None, **unused):
            out = FA3.flash_attn_with_kvcache(
                q, k, v, cache_seqlens=lengths, page_table=page_table,
                **common)
            return out[0] if isinstance(out, tuple) else out
    else:
        raise ValueError("not served")
    return function


def peers_of(case):
    """{side: peer} for the peers that may serve the case."""
    peers = {}
    if case.get("latent"):
        return peers
    if is_plain(case):
        peers["cudnn"] = sdpa_of(SDPBackend.CUDNN_ATTENTION)
    # Where torch has a path of its own, that one is FlashAttention 2's.
    peers["fa2"] = sdpa_of(SDPBackend.FLASH_ATTENTION) if is_plain(case) \
        else flash2
    if FA3 is not None:
        peers["fa3"] = flash3
    return peers


#===------------------------------------------------------------------------===#
# Check
#===------------------------------------------------------------------------===#

# Heads and rows that are compared, and how much of its norm a row may be off.
CHECKED_HEADS = 4
CHECKED_ROWS = 256
BOUNDS = {"bf16": 8e-3, "fp16": 4e-3, "e4m3": 8e-2}
LSE_BOUND = 2e-3


def sequence_of(case, inputs, name, sequence):
    """(tokens, heads, dim) of K or V of one sequence."""
    length, tensor = case.key_lengths[sequence], inputs[name]
    if case.pages:
        pages = inputs["page_table"].view(case.batch, -1)[sequence].long()
        return tensor[pages].flatten(0, 1)[:length]
    if case.packs_keys:
        begin = sum(case.key_lengths[:sequence])
        return tensor[begin:begin + length]
    return tensor[sequence][:length]


def queries_of(case, tensor, sequence):
    """(queries, heads, dim) of Q or O of one sequence."""
    if not case.packs_queries:
        return tensor[sequence]
    begin = sum(case.query_lengths[:sequence])
    return tensor[begin:begin + case.query_lengths[sequence]]


def mask_of(case, rows, queries, keys):
    """True where a row of `rows` sees a key, or None for everywhere."""
    if case.mask == "none":
        return None
    position = (rows + (keys - queries))[:, None]
    column = torch.arange(keys, device="cuda")[None, :]
    right = 0 if case.mask == "causal" else case.spec.get("right", keys)
    seen = column <= position + right
    if case.mask == "window":
        seen &= column >= position - case.spec.get("left", keys)
    return seen


def reference_rows(case, inputs, sequence, head, rows):
    """(O, LSE) of some rows of a head, in fp32."""
    queries, keys = case.query_lengths[sequence], case.key_lengths[sequence]
    group = case.heads // case.kv_heads
    q = queries_of(case, inputs["q"], sequence)[rows, head].float()
    k = sequence_of(case, inputs, "k", sequence)[:, head // group].float()
    v = k[:, :case.value_dim] if case.get("latent") else \
        sequence_of(case, inputs, "v", sequence)[:, head // group].float()
    scores = (q @ k.T) * case.scale
    if case.softcap:
        scores = case.softcap * torch.tanh(scores / case.softcap)
    seen = mask_of(case, rows, queries, keys)
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    if case.get("sinks"):
        sink = inputs["sinks"][head].expand(len(rows), 1)
        scores = torch.cat([scores, sink], dim=1)
    lse = torch.logsumexp(scores, dim=1)
    weights = torch.exp(scores - torch.where(lse == -math.inf, 0, lse)[:, None])
    return weights[:, :keys] @ v, lse


@functools.lru_cache(maxsize=None)
def places_of(batch, heads):
    """Some pairs of a sequence and a head, the first and the last among
    them."""
    generator = random.Random(SEED)
    places = {(0, 0), (batch - 1, heads - 1)}
    while len(places) < min(CHECKED_HEADS, batch * heads):
        places.add((generator.randrange(batch), generator.randrange(heads)))
    return sorted(places)


def faults_of(case, inputs, outputs):
    """Differences of the outputs from fp32 arithmetic: a list of texts."""
    faults = []
    for sequence, head in places_of(case.batch, case.heads):
        queries = case.query_lengths[sequence]
        if queries == 0:
            continue
        step = max(1, queries // CHECKED_ROWS)
        rows = torch.arange(queries - 1, -1, -step, device="cuda")
        expected, lse = reference_rows(case, inputs, sequence, head, rows)
        got = queries_of(case, outputs["o"], sequence)[rows, head].float()
        error = ((got - expected).norm() /
                 expected.norm().clamp_min(1e-30)).item()
        if not error <= BOUNDS[case.dtype]:
            faults.append(f"sequence {sequence}, head {head}: off by "
                          f"{error:.2e} of the norm")
        if "lse" in outputs and not case.packs_queries:
            off = (outputs["lse"][sequence, head, rows] - lse).abs().max()
            if not off.item() <= LSE_BOUND:
                faults.append(f"sequence {sequence}, head {head}: LSE off by "
                              f"{off.item():.2e}")
    return faults
