"""Operands of the cases of small_kernels.py, in device memory.

make_copies(case, copies) gives a dict of tensors by the names of the operands
for each copy.
"""
import torch

import small_expert_peers
import small_kernel_cases as cases

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int32": torch.int32,
         "uint64": torch.int64, "e4m3": torch.float8_e4m3fn}


def make_copies(case, copies):
    """A dict of tensors by name for each copy. Tables, weights and caches are
    shared; a copy has its own slots in the caches."""
    torch.manual_seed(20261128)
    makers = {"rope": rope_data, "gather": gather_data, "sample": sample_data}
    return makers.get(case.family, small_expert_peers.make_copies)(case, copies)


def empty(operand):
    return torch.empty(operand.shape, device="cuda",
                       dtype=TYPES[operand.dtype])


def between(low, high, shape, dtype=torch.int32):
    return torch.randint(low, high, shape, device="cuda", dtype=dtype)


def views_of(case, qkv):
    """q, k and v of packed rows."""
    s = case.sizes
    parts = [s["heads"], s["kvheads"]] + [s["kvheads"]] * s["values"]
    heads = qkv.view(s["tokens"], -1, s["d"]).split(parts, 1)
    return dict(zip("qkv", heads))


def slots_of(case, page_order, copy):
    """Where the tokens of a copy go: its pages are filled in turn, or each
    token has a page."""
    tokens, each = case.sizes["tokens"], cases.pages_of(case.sizes["tokens"])
    pages = page_order[copy * each:(copy + 1) * each]
    if each == tokens:
        rows = between(0, cases.PAGE, (tokens,), torch.int64)
        return (pages * cases.PAGE + rows).int()
    rows = torch.arange(cases.PAGE, device="cuda")
    return (pages[:, None] * cases.PAGE + rows).flatten()[:tokens].int()


def rope_data(case, copies):
    operands = {operand.name: operand
                for operand in cases.operands_of(case)}
    shared = {name: empty(operands[name])
              for name in ("k_cache", "v_cache") if name in operands}
    for cache in shared.values():
        cache.view(torch.uint8).zero_()
    angles = torch.rand((cases.TABLE_ROWS, case.sizes["rotary"] // 2),
                        device="cuda") * 6.283
    shared["table"] = torch.cat([angles.cos(), angles.sin()], 1)
    for name in ("q_weight", "k_weight"):
        if name in operands:
            shared[name] = empty(operands[name]).normal_(
                0.0 if case.sizes["unit"] else 1.0, 0.1)
    for name in ("k_scale", "v_scale"):
        if name in operands:
            shared[name] = torch.full((1,), 0.02, device="cuda")
    order = torch.randperm(case.sizes["pages"], device="cuda")

    def copy_of(index):
        own = views_of(case, empty(operands["qkv"]).normal_())
        own["q_out"] = empty(operands["q_out"]).fill_(float("nan"))
        own["positions"] = between(0, cases.TABLE_ROWS,
                                   (case.sizes["tokens"],))
        own["slots"] = slots_of(case, order, index)
        # torch writes by int64.
        own["long_slots"] = own["slots"].long()
        return shared | own

    return [copy_of(index) for index in range(copies)]


def gather_data(case, copies):
    x, indices, y = map(empty, cases.operands_of(case))
    x.normal_()
    return [{"x": x, "indices": between(0, case.sizes["vocab"], indices.shape),
             "y": torch.full_like(y, float("nan"))} for _ in range(copies)]


def sample_data(case, copies):
    s = case.sizes
    values = {"temperature": cases.TEMPERATURE, "top_k": cases.TOP_K,
              "top_p": cases.TOP_P, "min_p": cases.MIN_P,
              "repetition": cases.REPETITION, "frequency": cases.FREQUENCY,
              "presence": cases.PRESENCE}
    shared = {}
    for operand in cases.operands_of(case):
        if operand.name in values:
            shared[operand.name] = empty(operand).fill_(values[operand.name])
    rows = torch.arange(s["rows"], device="cuda", dtype=torch.int32)
    shared["seeds"] = torch.randint(1 << 62, (s["rows"],), device="cuda")
    shared["positions"] = rows + 100
    # Half of a row's history is the prompt.
    shared["history"] = between(0, s["vocab"], (s["rows"] * cases.HISTORY,))
    shared["history_begins"] = rows * cases.HISTORY
    shared["history_ends"] = (rows + 1) * cases.HISTORY
    shared["prompt_lengths"] = torch.full_like(rows, cases.HISTORY // 2)
    # N(0, 9): some thousand tokens share the mass.
    return [shared | {
        "logits": torch.empty((s["rows"], s["vocab"]), device="cuda",
                              dtype=TYPES[s["dtype"]]).normal_(0, 3),
        "tokens": torch.full_like(rows, -1)} for _ in range(copies)]
