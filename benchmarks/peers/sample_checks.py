"""Checks of the family sample: frequencies of some 10^6 draws against exact
probabilities, the set of tokens that are drawn, and greedy ties.

A check fills all rows of a launch with the same logits; seeds differ between
rows, positions between launches. The reference is a stable sort on the host in
fp64, in which equal logits keep the order of their tokens. Where rounding may decide
whether a token stays, either answer passes.
"""
import dataclasses

import torch

import small_kernel_cases as cases

LEAST_P = 1e-4
# Shares of the mass that fp32 sums may be off by.
UNSURE = 1e-5
# Cells of the chi-square test have this expectation or more. A token that is
# expected so often is drawn, except once in 10^13 tests.
LEAST_EXPECTED = 30


@dataclasses.dataclass(frozen=True)
class Rule:
    """The steps that tokens have to pass; None: a step that is left out."""
    temperature: float = 1.0
    top_k: int = None
    top_p: float = None
    min_p: float = None

    @property
    def words(self):
        given = {"topk": self.top_k, "topp": self.top_p, "minp": self.min_p}
        return ["temperature"] + [word for word, value in given.items()
                                  if value is not None]


#===------------------------------------------------------------------------===#
# The reference
#===------------------------------------------------------------------------===#


def kept(logits, rule):
    """(sorted tokens, their masses before the cuts, a mask of those that stay,
    a mask of those that may stay), all in order of the sort; fp64, on the host.
    Masses add up to 1."""
    values, order = torch.sort(logits.double().cpu() / rule.temperature,
                               descending=True, stable=True)
    mass = values.softmax(-1)
    stays = torch.ones_like(mass, dtype=torch.bool)
    may = stays.clone()
    if rule.min_p is not None:
        least = rule.min_p * mass[0]
        stays &= mass > least * (1 + UNSURE)
        may &= mass >= least * (1 - UNSURE)
    if rule.top_k:
        stays[rule.top_k:] = False
        may[rule.top_k:] = False
    if rule.top_p is not None and rule.top_p < 1:
        ahead = (mass * stays).cumsum(-1) - mass * stays
        share = ahead / (mass * stays).sum()
        stays &= share < rule.top_p - UNSURE
        may &= share < rule.top_p + UNSURE
    stays[0] = may[0] = True
    return order, mass, stays, may


def p_value(counts, mass):
    """The p-value of a chi-square test of counts against masses that add up to
    1. Cells of small expectations are joined."""
    expected = mass * counts.sum()
    large = expected >= LEAST_EXPECTED
    counts = torch.cat([counts[large], counts[~large].sum()[None]]).double()
    expected = torch.cat([expected[large], expected[~large].sum()[None]])
    if expected[-1] < LEAST_EXPECTED:
        # The rest joins the least likely cell.
        counts[-2] += counts[-1]
        expected[-2] += expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    freedom = counts.numel() - 1
    if freedom < 1:
        return 1.0
    statistic = ((counts - expected)**2 / expected).sum()
    return torch.special.gammaincc(
        torch.tensor(freedom / 2, dtype=torch.float64), statistic / 2).item()


def verdict(counts, logits, rule):
    """The figures of a check, from how often each token was drawn."""
    order, mass, stays, may = kept(logits, rule)
    counts = counts.cpu()[order]
    expected = mass * stays / (mass * stays).sum() * counts.sum()
    outside = int(counts[~may].sum())
    missing = int((stays & (counts == 0) &
                   (expected >= LEAST_EXPECTED)).sum())
    row = {"draws": int(counts.sum()), "kept": int(stays.sum()),
           "outside": outside, "missing": missing}
    if torch.equal(stays, may):
        shares = (mass * stays)[stays]
        row["p"] = float(f"{p_value(counts[stays], shares / shares.sum()):.3g}")
    row["passes"] = (outside == 0 and missing == 0 and
                     row.get("p", 1.0) > LEAST_P)
    return row


#===------------------------------------------------------------------------===#
# Draws
#===------------------------------------------------------------------------===#


def drawn(sampler, logits, rule, rows, launches):
    """How often each token is drawn, int64 [vocabulary]. `sampler(case, data)`
    runs Kiln's plan of a case on tensors by name."""
    vocab = logits.numel()
    text = cases.sample_text(rows, vocab, "fp32", rule.words)
    data = {"logits": logits.expand(rows, vocab).contiguous(),
            "tokens": torch.empty(rows, device="cuda", dtype=torch.int32),
            "seeds": torch.randint(1 << 62, (rows,), device="cuda"),
            "positions": torch.zeros(rows, device="cuda", dtype=torch.int32)}
    for name, value, dtype in (
            ("temperature", rule.temperature, torch.float32),
            ("top_k", rule.top_k, torch.int32),
            ("top_p", rule.top_p, torch.float32),
            ("min_p", rule.min_p, torch.float32)):
        if value is not None:
            data[name] = torch.full((rows,), value, device="cuda", dtype=dtype)
    launch = sampler(text, data)
    counts = torch.zeros(vocab + 1, device="cuda", dtype=torch.int64)
    for position in range(launches):
        data["tokens"].fill_(-1)
        data["positions"].fill_(position)
        launch()
        tokens = data["tokens"].long()
        # Tokens that do not exist are counted behind all.
        tokens = torch.where((tokens >= 0) & (tokens < vocab), tokens, vocab)
        counts += torch.bincount(tokens, minlength=vocab + 1)
    if counts[vocab]:
        raise RuntimeError(f"{text}: {counts[vocab].item()} of "
                           f"{rows * launches} tokens do not exist")
    return counts[:vocab]


def logits_of(kind, vocab):
    """One row of logits, fp32."""
    generator = torch.Generator(device="cuda").manual_seed(7)
    normal = torch.empty(vocab, device="cuda").normal_(generator=generator)
    if kind == "equal":
        return torch.zeros(vocab, device="cuda")
    if kind == "flat":
        return normal * 0.01
    if kind == "peaked":
        return normal * 10
    if kind == "tied":
        # Some tens of values: ties at every cut.
        return (normal * 4).round() / 4
    return normal * 2


# 10^6 draws of a small vocabulary.
SMALL = [("usual", Rule(0.8)), ("usual", Rule(0.8, top_k=20)),
         ("usual", Rule(0.8, top_p=0.9)),
         ("usual", Rule(0.8, top_k=40, top_p=0.8)),
         ("usual", Rule(1.2, min_p=0.05)), ("flat", Rule(1.0, top_k=50)),
         ("flat", Rule(1.0, top_p=0.3)), ("peaked", Rule(1.5, top_p=0.95)),
         ("tied", Rule(1.0, top_k=30)), ("tied", Rule(1.0, top_p=0.7)),
         ("equal", Rule(1.0, top_k=50)), ("equal", Rule(0.7)),
         ("equal", Rule(1.0, top_p=0.3001))]
SMALL_VOCAB, SMALL_ROWS, SMALL_LAUNCHES = 512, 65536, 16
# Kernels of a large vocabulary cut as those of a small one do.
LARGE = [("usual", Rule(0.8, top_k=50)), ("peaked", Rule(2.0, top_p=0.9)),
         ("tied", Rule(1.0, top_k=50, top_p=0.9)),
         ("equal", Rule(1.0, top_k=50)), ("flat", Rule(1.0, min_p=0.95)),
         ("equal", Rule(1.0, top_p=0.5001))]
LARGE_ROWS, LARGE_LAUNCHES = 256, 128


def check_draws(sampler):
    """The rows of all checks. Some ten seconds."""
    found = []
    for vocab, rows, launches, given in (
            (SMALL_VOCAB, SMALL_ROWS, SMALL_LAUNCHES, SMALL),
            (cases.VOCAB, LARGE_ROWS, LARGE_LAUNCHES, LARGE)):
        for kind, rule in given:
            torch.manual_seed(len(found) + 1)
            logits = logits_of(kind, vocab)
            row = {"logits": kind, "vocab": vocab,
                   **{key: value
                      for key, value in dataclasses.asdict(rule).items()
                      if value is not None}}
            try:
                row |= verdict(drawn(sampler, logits, rule, rows, launches),
                               logits, rule)
            except Exception as error:  # a check that fails is a result
                row |= {"error": str(error)[:300], "passes": False}
            found.append(row)
    return found


def check_greedy(sampler):
    """Ties of the greatest logit: the lowest token wins."""
    found = []
    for rows, vocab in ((64, SMALL_VOCAB), (64, cases.VOCAB)):
        logits = torch.empty((rows, vocab), device="cuda").normal_()
        # Up to eight places of each row, in which the greatest stands.
        places = torch.randint(vocab, (rows, 8), device="cuda")
        logits.scatter_(1, places, 9.0)
        logits[0] = 0
        expected = places.amin(1)
        expected[0] = 0
        data = {"logits": logits, "tokens": torch.full(
            (rows,), -1, device="cuda", dtype=torch.int32)}
        sampler(cases.sample_text(rows, vocab, "fp32", ()), data)()
        wrong = int((data["tokens"].long() != expected).sum())
        found.append({"greedy ties": True, "vocab": vocab, "rows": rows,
                      "wrong": wrong, "passes": wrong == 0})
    return found
