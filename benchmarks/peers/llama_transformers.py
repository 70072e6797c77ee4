"""transformers' own model with a static cache and torch.compile, as most users
run it. The recipe is the one of its documentation: StaticCache,
mode="reduce-overhead", a new step marked before each call.

Compiling a shape takes some 40 s.
"""
import gc
import os
import time

import torch

from llama_blocks import Block
from llama_torch import DTYPE, timed

os.environ.setdefault("HF_HUB_OFFLINE", "1")

WARM_UP_STEPS = 5


def load_model(config, folder=None):
    """The model on the GPU, with its own random weights unless there is a
    folder of a checkpoint."""
    from transformers import AutoConfig, AutoModelForCausalLM
    if folder:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPE)
        return model.to("cuda").eval()
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(**config), dtype=DTYPE)
    return model.eval()


class TransformersSide:
    """Decoding by the compiled model; prefill is not raced."""

    name = "transformers"

    def __init__(self, config, options):
        self._config, self._options = config, options
        self._model = self._cache = self._step = self._case = None

    def prepare(self, case):
        """Makes the model and compiles a step: some 40 s. Errors: ValueError
        for a case that is not raced."""
        if case.kind != "decode":
            raise ValueError("prefill is not raced")
        from transformers import StaticCache
        torch._dynamo.reset()
        began = time.perf_counter()
        self._case = case
        self._model = load_model(self._config, self._options.weights)
        model_s = time.perf_counter() - began
        shape = case.shape
        self._cache = StaticCache(config=self._model.config,
                                  max_cache_len=case.positions)
        self._cache.early_initialization(case.batch, shape.kv_heads,
                                         shape.head_dim, DTYPE,
                                         torch.device("cuda"))
        for layer in self._cache.layers:
            layer.keys.normal_()
            layer.values.normal_()
        self._first = torch.randint(0, shape.vocab, (case.batch, 1),
                                    device="cuda")
        self._tokens = self._first.clone()
        self._step = torch.compile(self._model, mode="reduce-overhead",
                                   dynamic=False)
        self._reset()
        with torch.no_grad():
            for _ in range(WARM_UP_STEPS):
                self._decode([])
        torch.cuda.synchronize()
        return {"model_s": round(model_s, 1),
                "attention": self._model.config._attn_implementation}

    def _reset(self):
        """As before the first step of a block."""
        self._tokens.copy_(self._first)
        for layer in self._cache.layers:
            layer.cumulative_length.fill_(self._case.context)

    def _decode(self, history):
        torch.compiler.cudagraph_mark_step_begin()
        logits = self._step(input_ids=self._tokens,
                            past_key_values=self._cache, use_cache=True,
                            logits_to_keep=1).logits
        self._tokens.copy_(logits[:, -1].argmax(-1, keepdim=True))
        history.append(self._tokens.clone())

    def block(self):
        self._reset()
        history, steps = [], self._case.steps
        with torch.no_grad():
            ms, wall = timed(lambda: [self._decode(history)
                                      for _ in range(steps)])
        return Block([ms / steps], wall, torch.cat(history, 1).tolist())

    def release(self):
        self._model = self._cache = self._step = None
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
