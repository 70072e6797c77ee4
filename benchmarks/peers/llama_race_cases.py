"""The cases of llama_race.py, as text and typed. Needs neither torch nor a GPU.

  MODEL:BATCH@KEYS             decoding: BATCH sequences, each step reads KEYS
                               keys on average
  MODEL:SEQUENCESxTOKENS       prefill of so many new tokens
  MODEL:SEQUENCESxTOKENS+KEYS  behind KEYS cached ones
"""
import dataclasses
import re

import llama_configs

DEFAULT = ("llama-3-8b:1@1024,llama-3-8b:16@1024,llama-3-8b:64@1024,"
           "llama-3-8b:1x2048,llama-3-8b:8x2048,llama-3-8b:1x512+7680,"
           "llama-3.2-1b:1@1024")

# A block of a prefill computes about so many tokens.
BLOCK_TOKENS = 4096
# Positions are rounded up to as many.
ROOM = 16

DECODE = re.compile(r"([^:]+):(\d+)@(\d+)")
PREFILL = re.compile(r"([^:]+):(\d+)x(\d+)(?:\+(\d+))?")


@dataclasses.dataclass(frozen=True)
class Case:
    """One problem of the race. `keys` are the mean of a block's steps when it
    decodes, and the cached tokens when it does not."""
    text: str
    model: str
    kind: str  # decode or prefill
    batch: int
    tokens: int  # new ones of each sequence, in a step or a forward pass
    keys: int
    steps: int  # of a block, or its forward passes

    @property
    def shape(self):
        return llama_configs.shape_of(llama_configs.RACE[self.model])

    @property
    def context(self):
        """Cached tokens of each sequence when a block begins. The steps of a
        block read one key more than the step before: on average `keys`."""
        return self.keys - self.steps // 2 if self.kind == "decode" \
            else self.keys

    @property
    def positions(self):
        """Room of each sequence. Eight steps at least: the untimed ones that
        come before a capture."""
        new = max(self.steps, 8) if self.kind == "decode" else self.tokens
        return -(-(self.context + new) // ROOM) * ROOM

    @property
    def pass_tokens(self):
        """Tokens of a forward pass."""
        return self.batch * self.tokens

    @property
    def bytes(self):
        """The least bytes that a step of decoding reads: all weights, and the
        keys and values of all sequences."""
        return (self.shape.weights_read(self.batch) +
                self.batch * self.keys * self.shape.kv_bytes)

    @property
    def flops(self):
        """The operations of a forward pass: products of all tokens, the head
        of the last ones, and attention to the keys that each token sees."""
        shape, new = self.shape, self.tokens
        head = shape.vocab * shape.hidden
        layers = shape.layers_read(1)
        pairs = new * (self.keys + new) - new * (new - 1) // 2
        return self.batch * (
            2 * (new * layers + head) +
            4 * shape.layers * shape.heads * shape.head_dim * pairs)


def parse_case(text, steps):
    """The case of a text. Errors: ValueError says what is wrong."""
    decode, prefill = DECODE.fullmatch(text), PREFILL.fullmatch(text)
    match = decode or prefill
    if not match:
        raise ValueError(f"{text}: expected MODEL:BATCH@KEYS or "
                         "MODEL:SEQUENCESxTOKENS[+KEYS]")
    model = match[1]
    if model not in llama_configs.RACE:
        raise ValueError(f"{text}: the models are "
                         f"{', '.join(llama_configs.RACE)}")
    if decode:
        case = Case(text, model, "decode", int(match[2]), 1, int(match[3]),
                    steps)
    else:
        batch, tokens = int(match[2]), int(match[3])
        case = Case(text, model, "prefill", batch, tokens,
                    int(match[4] or 0),
                    max(1, BLOCK_TOKENS // max(1, batch * tokens)))
    if min(case.batch, case.tokens) < 1 or case.context < (
            1 if case.kind == "decode" else 0):
        raise ValueError(f"{text}: nothing to compute, or fewer keys than "
                         f"half of the {steps} steps")
    return case


def parse_cases(texts, steps):
    """{model: cases}, for texts joined by commas; models in their order."""
    models = {}
    for text in texts.split(","):
        case = parse_case(text, steps)
        models.setdefault(case.model, []).append(case)
    return models
