"""How far logits are from other ones, over positions: the figures of
llama_numerics.py. Logits are fp32 tensors [positions][vocabulary] of one device.
"""
import torch

from greedy_figures import judge, noise_of

# Rows at a time, for the memory of fp64.
ROWS = 64


def row_blocks(*tensors):
    """Blocks of rows of all tensors, in fp64."""
    for begin in range(0, tensors[0].shape[0], ROWS):
        yield [tensor[begin:begin + ROWS].double() for tensor in tensors]


def difference(a, b):
    """(largest, RMS) of a - b."""
    largest, squares = 0.0, 0.0
    for x, y in row_blocks(a, b):
        off = (x - y).abs()
        # A NaN is a difference, which no comparison shows.
        largest = max(largest, off.nan_to_num_(nan=float("inf")).max().item())
        squares += off.square().sum().item()
    return largest, (squares / a.numel())**0.5


def divergences(truth, found):
    """KL(softmax(truth) || softmax(found)) of each position, fp64."""
    values = []
    for x, y in row_blocks(truth, found):
        x, y = x.log_softmax(-1), y.log_softmax(-1)
        values.append((x.exp() * (x - y)).sum(-1))
    return torch.cat(values)


def deviation(truth, found):
    """The figures of `found` beside the truth, a dict."""
    largest, rms = difference(truth, found)
    kl = divergences(truth, found)
    same = (truth.argmax(-1) == found.argmax(-1)).double().mean().item()
    return {"max": largest, "rms": rms,
            "rms_over_std": rms / truth.double().std().item(),
            "kl_mean": kl.mean().item(), "kl_max": kl.max().item(),
            "top1": same}


def margin_noise(truth, narrow):
    """The noise of bf16 in the margin of each position, by the logits of a
    bf16 peer: greedy_figures.noise_of()."""
    best = truth.topk(2, -1)
    pairs = (narrow.gather(-1, best.indices) - best.values).double()
    rows = torch.cat([(x - y).square().mean(-1).sqrt()
                      for x, y in row_blocks(narrow, truth)])
    return noise_of(pairs.tolist(), rows.tolist())


def greedy(truth, found, noise):
    """Compares the greatest logits of each position: greedy_figures.judge()."""
    best = truth.topk(2, -1)
    margins = (best.values[:, 0] - best.values[:, 1]).double()
    same = found.argmax(-1) == best.indices[:, 0]
    return judge(margins.tolist(), noise, same.tolist())


def rounded(figures):
    """Figures with five digits."""
    return {key: float(f"{value:.5g}") if isinstance(value, float) else value
            for key, value in figures.items()}
