"""A Llama in torch at its best known: a hand-written layer through torch.compile
with static shapes, and the whole step in one CUDA graph.

The compiled layer is RMSNorm, one product for q, k and v, rotation, the write
into a static cache, SDPA with grouped heads, the output's product, RMSNorm, one
product for gate and up, SwiGLU, the down product. The graph has the embedding,
all layers, the last norm, the head and argmax; a step of decoding takes its
token and its position from the step before. llama_torch_experts.py has the
experts that stand in some models for the MLP.

Attention of a decoding step reads a fixed slice of the cache: as many keys as
the steps of a block have on average, without a mask. So the work is that of
decoding; which keys are read is exact for the middle step alone.
"""
import collections
import contextlib
import gc
import pathlib
import time

import torch
import torch.nn.functional as F

from interleaved import capture
from llama_blocks import Block
from llama_torch_experts import FORMS, forms_of

DTYPE = torch.bfloat16

# gate_up is [gate; up]. With experts, gate_up and down have one more extent.
# q_norm and k_norm, or router: None in models without them.
LayerWeights = collections.namedtuple(
    "LayerWeights", "qkv output gate_up down norm1 norm2 q_norm k_norm router")
Weights = collections.namedtuple("Weights", "embedding layers norm head")


#===------------------------------------------------------------------------===#
# Weights
#===------------------------------------------------------------------------===#


def random_weights(shape, seed):
    """Matrices of N(0, 0.02), norms of N(1, 0.1), as the engine's."""
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def normal(*sizes, mean=0.0, deviation=0.02):
        return torch.empty(sizes, device="cuda", dtype=DTYPE).normal_(
            mean, deviation, generator=generator)

    def norm(size=shape.hidden):
        return normal(size, mean=1.0, deviation=0.1)

    def head_norm():
        return norm(shape.head_dim) if shape.has_qk_norm else None

    count = [shape.experts] if shape.experts else []

    def layer():
        return LayerWeights(
            qkv=normal(shape.qkv_rows, shape.hidden),
            output=normal(shape.hidden, shape.heads * shape.head_dim),
            gate_up=normal(*count, 2 * shape.inner, shape.hidden),
            down=normal(*count, shape.hidden, shape.inner), norm1=norm(),
            norm2=norm(), q_norm=head_norm(), k_norm=head_norm(),
            router=normal(*count, shape.hidden) if count else None)

    embedding = normal(shape.vocab, shape.hidden)
    return Weights(embedding, [layer() for _ in range(shape.layers)], norm(),
                   embedding if shape.is_tied
                   else normal(shape.vocab, shape.hidden))


def load_weights(shape, folder, device="cuda"):
    """The weights of a folder with model.safetensors."""
    from safetensors import safe_open
    path = pathlib.Path(folder) / "model.safetensors"
    with safe_open(str(path), framework="pt", device=device) as file:
        def get(name):
            return file.get_tensor(f"{name}.weight").to(DTYPE)

        def layer(index):
            prefix = f"model.layers.{index}"

            def rows(*names):
                return torch.cat([get(f"{prefix}.{name}") for name in names])

            def head_norm(part):
                return get(f"{prefix}.self_attn.{part}_norm") \
                    if shape.has_qk_norm else None

            def each(function):
                """A tensor of the MLP, or of all experts."""
                if not shape.experts:
                    return function("mlp")
                return torch.stack([function(f"mlp.experts.{expert}")
                                    for expert in range(shape.experts)])

            return LayerWeights(
                qkv=rows(*(f"self_attn.{part}_proj" for part in "qkv")),
                output=get(f"{prefix}.self_attn.o_proj"),
                gate_up=each(lambda mlp: rows(f"{mlp}.gate_proj",
                                              f"{mlp}.up_proj")),
                down=each(lambda mlp: get(f"{prefix}.{mlp}.down_proj")),
                norm1=get(f"{prefix}.input_layernorm"),
                norm2=get(f"{prefix}.post_attention_layernorm"),
                q_norm=head_norm("q"), k_norm=head_norm("k"),
                router=get(f"{prefix}.mlp.gate") if shape.experts else None)

        embedding = get("model.embed_tokens")
        return Weights(embedding,
                       [layer(index) for index in range(shape.layers)],
                       get("model.norm"),
                       embedding if shape.is_tied else get("lm_head"))


def angle_table(shape, positions, device="cuda"):
    """fp32 [positions][head_dim]: cosines, then sines. Without the scalings of
    long contexts: these change values, not the time."""
    half = torch.arange(0, shape.head_dim, 2, device=device,
                        dtype=torch.float64)
    angles = torch.arange(positions, device=device, dtype=torch.float64)[
        :, None] * shape.theta**(-half / shape.head_dim)
    return torch.cat([angles.cos(), angles.sin()], 1).float()


#===------------------------------------------------------------------------===#
# The layer
#===------------------------------------------------------------------------===#


def rotate(x, cos, sin):
    """x [batch][tokens][heads][d] by angles [tokens][d / 2], halves style."""
    a, b = x.float().chunk(2, -1)
    cos, sin = cos[None, :, None], sin[None, :, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def attend_causal(q, k, v):
    """Causal attention [batch][tokens][heads][d]; with more keys than queries,
    the last query sees all keys."""
    if q.shape[1] == k.shape[1]:
        return F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
            is_causal=True, enable_gqa=True).transpose(1, 2)
    # The causal mask of SDPA begins at the first key; this one's ends at the
    # last.
    return torch.ops.aten._flash_attention_forward(
        q, k, v, None, None, q.shape[1], k.shape[1], 0.0, True, False)[0]


def make_layer(case, form):
    """The function of a layer, for torch.compile: the sizes of the case are
    constants of it. `form` names the MLP in FORMS. Caches are
    [batch][positions][kv heads][d]."""
    shape, keys_end = case.shape, case.keys
    heads, kv_heads, d = shape.heads, shape.kv_heads, shape.head_dim
    batch, tokens = case.batch, case.tokens
    decodes = case.kind == "decode"
    begin = 0 if decodes else case.keys
    end = keys_end if decodes else case.keys + tokens

    def layer(x, weights, keys, values, cos, sin, position):
        h = F.rms_norm(x, (shape.hidden,), weights.norm1, shape.epsilon)
        qkv = F.linear(h, weights.qkv).view(batch, tokens, -1, d)
        q, k, v = qkv.split([heads, kv_heads, kv_heads], 2)
        if shape.has_qk_norm:
            q = F.rms_norm(q, (d,), weights.q_norm, shape.epsilon)
            k = F.rms_norm(k, (d,), weights.k_norm, shape.epsilon)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if decodes:
            keys[:, position] = k
            values[:, position] = v
            o = F.scaled_dot_product_attention(
                q.transpose(1, 2), keys[:, :end].transpose(1, 2),
                values[:, :end].transpose(1, 2),
                enable_gqa=True).transpose(1, 2)
        else:
            keys[:, begin:end] = k
            values[:, begin:end] = v
            o = attend_causal(q, keys[:, :end], values[:, :end])
        x = x + F.linear(o.reshape(batch, tokens, heads * d), weights.output)
        h = F.rms_norm(x, (shape.hidden,), weights.norm2, shape.epsilon)
        h = FORMS[form](shape, h.view(-1, shape.hidden), weights)
        return x + h.view(x.shape)

    return layer


class Model:
    """The whole forward pass of a case, over caches of its own. `layer` is the
    function of make_layer(), compiled or not."""

    def __init__(self, case, weights, layer, device="cuda"):
        shape = case.shape
        self.case, self.weights, self._layer = case, weights, layer
        sizes = (case.batch, case.positions, shape.kv_heads, shape.head_dim)
        self._caches = [
            [torch.empty(sizes, device=device, dtype=DTYPE).normal_()
             for _ in range(2)] for _ in weights.layers]
        # The contents of the caches where the steps of a block write.
        self._unwritten = self._caches[0][0][:, case.context:].clone()
        self._table = angle_table(shape, case.positions, device)
        self.first = torch.randint(0, shape.vocab, (case.batch, case.tokens),
                                   device=device)
        # The last token of each sequence, and where the next one goes.
        self.tokens = self.first.clone()
        self.position = torch.zeros(1, device=device, dtype=torch.int64)
        self.history = torch.zeros((case.batch, case.positions),
                                   device=device, dtype=torch.int64)
        self.chosen = torch.zeros((case.batch, 1), device=device,
                                  dtype=torch.int64)
        self.reset()

    def reset(self):
        """As before the first step of a block."""
        self.tokens.copy_(self.first)
        self.position.fill_(self.case.context)
        for caches in self._caches:
            for cache in caches:
                cache[:, self.case.context:].copy_(self._unwritten)

    def logits(self):
        """Logits of the last token of each sequence."""
        case, weights = self.case, self.weights
        x = F.embedding(self.tokens, weights.embedding)
        if case.kind == "decode":
            angles = self._table.index_select(0, self.position)
        else:
            angles = self._table[case.keys:case.keys + case.tokens]
        cos, sin = angles.chunk(2, -1)
        for layer, (keys, values) in zip(weights.layers, self._caches):
            x = self._layer(x, layer, keys, values, cos, sin, self.position)
        last = F.rms_norm(x[:, -1], (case.shape.hidden,), weights.norm,
                          case.shape.epsilon)
        return F.linear(last, weights.head)

    def step(self):
        """Enqueues a forward pass that chooses a token of each sequence; when
        it decodes, the next step goes on from it."""
        torch.argmax(self.logits(), -1, keepdim=True, out=self.chosen)
        if self.case.kind == "decode":
            self.tokens.copy_(self.chosen)
            self.history.index_copy_(1, self.position, self.chosen)
            self.position.add_(1)


#===------------------------------------------------------------------------===#
# The side
#===------------------------------------------------------------------------===#


def timed(enqueue):
    """(ms on the device, ms on the host) of what a function enqueues."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    started = time.perf_counter()
    begin.record()
    enqueue()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end), 1e3 * (time.perf_counter() - started)


def attention_backend(name):
    """The context in which SDPA takes the back end of a name; "default": the
    one of its own choice."""
    if name == "default":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel({"cudnn": SDPBackend.CUDNN_ATTENTION,
                        "flash": SDPBackend.FLASH_ATTENTION}[name])


class TorchSide:
    """The hand-written layer, compiled, in one CUDA graph."""

    name = "torch"

    def __init__(self, weights, options):
        self._weights, self._options = weights, options
        self._model = self._graph = None

    def prepare(self, case):
        """Compiles and captures: some 5 s. Keeps the fastest of several forms
        of the MLP. Returns what the result notes."""
        forms = forms_of(case.shape, case.pass_tokens)
        if len(forms) == 1:
            self._capture(case, forms[0])
            return {"form": forms[0]} if case.shape.experts else {}
        times, faults = {}, {}
        for form in forms:
            try:
                self._capture(case, form)
                times[form] = min(sum(self.block().ms) for _ in range(3))
            except Exception as error:  # another form may be captured
                faults[form] = str(error)[:200]
            self.release()
        if not times:
            raise RuntimeError(f"no form of the MLP: {faults}")
        best = min(times, key=times.get)
        self._capture(case, best)
        return {"form": best, "form_ms": times, "form_faults": faults}

    def _capture(self, case, form):
        torch._dynamo.reset()
        layer = torch.compile(make_layer(case, form), dynamic=False,
                              fullgraph=True,
                              options=self._options.inductor or None)
        with torch.no_grad(), attention_backend(self._options.sdpa):
            self._model = Model(case, self._weights, layer)
            self._graph = capture(lambda copy: self._model.step(), 1, 1)

    def block(self):
        """One block of steps, or of forward passes."""
        model, case = self._model, self._model.case
        model.reset()
        if case.kind == "decode":
            def enqueue():
                for _ in range(case.steps):
                    self._graph.replay()

            ms, wall = timed(enqueue)
            taken = model.history[:, case.context:case.context + case.steps]
            return Block([ms / case.steps], wall, taken.tolist())
        times = [timed(self._graph.replay) for _ in range(case.steps)]
        return Block([ms for ms, _ in times], sum(wall for _, wall in times),
                     model.chosen.tolist())

    def release(self):
        """Gives the memory of the case back."""
        self._model = self._graph = None
        gc.collect()
        torch.cuda.empty_cache()
