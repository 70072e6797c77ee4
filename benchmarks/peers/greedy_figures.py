"""Says at which positions the greatest logits of two sides have to agree: where
the noise of bf16 leaves them decided. For llama_numerics.py; needs neither torch
nor a GPU.
"""
import math

# A position is decided where the margin between the truth's best two tokens is
# greater than so many RMS deviations of a bf16 logit. The margin has the
# deviations of two logits, 1.4 RMS: 6 are more than 4 of them, and more than 3
# for a side that uses all of the bar of 1.2.
DEVIATIONS = 6.0


def noise_of(best_two, rows):
    """The noise of each position's margin. `best_two` has the deviations of a
    bf16 peer from the truth at the truth's best two tokens, a pair for each
    position; `rows` has its RMS deviation over all tokens of each position. The
    noise is that of the pairs of all positions, or of the position's own row
    where that is larger: the first tokens of a prompt may be off by more."""
    squares = [value * value for pair in best_two for value in pair]
    rms = math.sqrt(sum(squares) / len(squares))
    return [DEVIATIONS * max(rms, row) for row in rows]


def judge(margins, noise, same):
    """The figures of a side: `same` says whether it chooses the truth's token,
    which `margins` are that the truth has between its best two."""
    # A noise that is not a number decides nothing.
    decided = [margin > limit for margin, limit in zip(margins, noise)]
    wrong = sum(is_decided and not is_same
                for is_decided, is_same in zip(decided, same))
    count = len(margins)
    return {"positions": count, "decided": sum(decided),
            "undecided_share": round(1 - sum(decided) / count, 4),
            "same": sum(same), "wrong_where_decided": wrong}
