#!/usr/bin/env python3
"""Makes PackedGoldens.json: weights as checkpoints have them, and packed.

Independent of Kiln's own code: it begins with codes, scales and zero points of
a layer, packs them as the tools do that write checkpoints, and brings them into
the order k64r16 by reshaping and transposing, from the fragment of
mma.m16n8k16 in the PTX ISA. Needs numpy.
"""
import json
import sys

import numpy as np

AWQ_COLUMNS = [0, 2, 4, 6, 1, 3, 5, 7]


def pad_to(x, axis, multiple, value=0):
    missing = -x.shape[axis] % multiple
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, missing)
    return np.pad(x, widths, constant_values=value)


def words_along(x, axis):
    """Eight codes of 4 bits along an axis to a word, the first lowest."""
    x = np.moveaxis(pad_to(x, axis, 8), axis, -1).astype(np.uint32)
    x = x.reshape(*x.shape[:-1], -1, 8)
    words = np.zeros(x.shape[:-1], np.uint32)
    for i in range(8):
        words |= x[..., i] << np.uint32(4 * i)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis))


def turned(x):
    """Columns of the last axis in AWQ's order."""
    x = pad_to(x, -1, 8)
    return x.reshape(*x.shape[:-1], -1, 8)[..., AWQ_COLUMNS].reshape(x.shape)


def packed_weights(codes, bits, row_pad, depth_pad):
    """codes [n, k] to the order k64r16."""
    n, k = codes.shape
    full = np.full((-(-n // 64) * 64, -(-k // 64) * 64), row_pad, np.uint32)
    full[:n, :k] = codes
    full[:n, k:] = depth_pad[:, None]
    blocks, depth = full.shape[0] // 64, full.shape[1] // 64
    # n = block, unit, row's upper bit, row % 8;
    # k = block, step of 16, upper half of the step, pair, half of the pair.
    x = full.reshape(blocks, 4, 2, 8, depth, 4, 2, 4, 2)
    block, unit, high, row, kblock, step, khigh, pair, half = range(9)
    if bits == 4:
        # In a word, from the highest bits down: half, register.
        x = x.transpose(block, kblock, unit, row, pair, step, half, khigh, high)
        x = x.reshape(blocks, depth, 4, 32, 4, 8)
        shifts = np.arange(8, dtype=np.uint32) * 4
    else:
        # Steps are two of each half; registers 0, 1 and 2, 3 have own words.
        x = x.transpose(block, kblock, unit, step, row, pair, khigh, half, high)
        x = x.reshape(blocks, depth, 4, 2, 2, 32, 2, 4)
        x = x.transpose(0, 1, 2, 3, 5, 4, 6, 7)
        shifts = np.arange(4, dtype=np.uint32) * 8
    return np.bitwise_or.reduce(x << shifts, axis=-1).astype("<u4")


def packed_groups(values, n, k, group, pad):
    """values [n, groups] to [n/64][groups of the padded k][64]."""
    groups = -(-(-(-k // 64) * 64) // group) if group else 1
    full = np.full((-(-n // 64) * 64, groups), pad, values.dtype)
    full[:n, : values.shape[1]] = values
    x = full.reshape(-1, 4, 2, 8, groups)
    return np.ascontiguousarray(x.transpose(0, 4, 1, 3, 2))


def case(rng, source, n, k, group, scale_type, zeros):
    bits = 8 if source in ("int8", "e4m3") else 4
    count = -(-k // group) if group else 1
    codes = rng.integers(0, 1 << bits, (n, k)).astype(np.uint32)
    least = 1 if source == "gptq" else 0
    points = rng.integers(least, 16 + least, (n, count)).astype(np.uint32)
    if scale_type == "fp32":
        scales = rng.standard_normal((n, count)).astype("<f4")
    elif scale_type == "e8m0":
        scales = rng.integers(0, 255, (n, count)).astype(np.uint8)
    elif scale_type == "fp16":
        scales = rng.standard_normal((n, count)).astype("<f2")
    else:  # the upper halves of floats
        floats = rng.standard_normal((n, count)).astype("<f4")
        scales = (floats.view("<u4") >> 16).astype("<u2")
    stored_zeros = np.zeros(0, np.uint32)
    if source in ("gptq", "gptq_v2"):
        weights = words_along(codes.T, 0)
        stored_scales = np.ascontiguousarray(scales.T)
        if zeros:
            stored_zeros = words_along(points.T - least, 1)
    elif source == "awq":
        weights = words_along(turned(codes.T), 1)
        stored_scales = np.ascontiguousarray(scales.T)
        if zeros:
            stored_zeros = words_along(turned(points.T), 1)
    elif source == "compressed_tensors":
        weights = words_along(codes, 1)
        stored_scales = scales
        if zeros:
            stored_zeros = words_along(points, 0)
    elif source == "mxfp4":
        whole = pad_to(codes, 1, 32).astype(np.uint8)
        weights = whole[:, 0::2] | whole[:, 1::2] << 4
        stored_scales = scales
    else:
        weights = codes.astype(np.uint8)
        stored_scales = scales
    is_integer = bits == 4 and source != "mxfp4"
    constant = 8 if is_integer else 0
    last = points[:, -1] if zeros else np.full(n, constant, np.uint32)
    text = f"n={n} k={k} source={source}"
    if group and source != "mxfp4":
        text += f" group={group}"
    if scale_type not in ("fp16", "e8m0"):
        text += f" scale_type={scale_type}"
    if zeros:
        text += " zeros=1"
    packed = packed_weights(codes, bits, constant, np.minimum(last, 15))
    result = {
        "problem": text,
        "weights": weights.tobytes().hex(),
        "scales": stored_scales.tobytes().hex(),
        "zeros": stored_zeros.tobytes().hex(),
        "packed": packed.tobytes().hex(),
        "packed_scales": packed_groups(scales, n, k, group, 0).tobytes().hex(),
        "packed_zeros": "",
    }
    if zeros:
        points = points.astype(np.uint8)
        result["packed_zeros"] = (
            packed_groups(points, n, k, group, 8).tobytes().hex()
        )
    return result


def main():
    rng = np.random.default_rng(1)
    cases = [
        case(rng, "gptq", 20, 40, 32, "fp16", True),
        case(rng, "gptq", 64, 64, 0, "fp16", False),
        case(rng, "gptq_v2", 16, 64, 64, "bf16", True),
        case(rng, "awq", 24, 72, 32, "fp16", True),
        case(rng, "awq", 13, 30, 0, "fp16", True),
        case(rng, "compressed_tensors", 17, 50, 32, "bf16", True),
        case(rng, "compressed_tensors", 70, 64, 128, "fp32", False),
        case(rng, "int8", 20, 45, 0, "fp32", False),
        case(rng, "e4m3", 64, 64, 64, "bf16", False),
        case(rng, "mxfp4", 18, 64, 32, "e8m0", False),
        case(rng, "mxfp4", 9, 20, 32, "e8m0", False),
    ]
    with open(sys.argv[1], "w") as out:
        json.dump({"cases": cases}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
