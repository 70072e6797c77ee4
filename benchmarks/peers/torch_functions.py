"""PyTorch code, as a user writes it, for each case of the memory-bound suite.

function_of(case) gives a function that takes the case's inputs by name and
returns its outputs, ordered as case.outputs(). It is called as it is (eager)
and through torch.compile. Each is the shortest form known with the fewest
passes over memory that eager has operators for; where eager has none for the
whole, it takes several, as a user's would.
"""
import torch
import torch.nn.functional as F

from memory_bound_cases import QUANTISED as GREATEST, SCALE_COLUMNS

EPSILON = 1e-5

TYPES = {name: getattr(torch, attribute)
         for name, attribute in (("fp32", "float32"), ("bf16", "bfloat16"),
                                 ("fp16", "float16"),
                                 ("fp8_e4m3", "float8_e4m3fn"),
                                 ("int8", "int8"))
         if hasattr(torch, attribute)}

# Links of elementwise chains without an operand, and with one.
UNARY = {"relu": F.relu, "silu": F.silu, "gelu_erf": F.gelu,
         "gelu_tanh": lambda value: F.gelu(value, approximate="tanh")}
BINARY = {"add": torch.add, "bias": torch.add, "mul": torch.mul}

# Along rows, and over everything.
REDUCTIONS = {"sum": lambda x: x.sum(-1), "max": lambda x: x.amax(-1),
              "mean": lambda x: x.mean(-1),
              "sumsq": lambda x: (x * x).sum(-1)}
ALL_REDUCTIONS = {"sum": lambda x: x.sum(), "max": lambda x: x.amax(),
                  "mean": lambda x: x.mean(),
                  "sumsq": lambda x: (x * x).sum()}


def blocks_of(value):
    """The last axis cut into blocks that share a scale, the last one padded."""
    return F.pad(value, (0, -value.shape[-1] % SCALE_COLUMNS)) \
        .unflatten(-1, (-1, SCALE_COLUMNS))


def quantise(value, out, has_blocks):
    """(value / scale in type out, scale per row, or per block of columns)."""
    greatest = GREATEST[out]
    shape = value.shape
    if has_blocks:
        value = blocks_of(value)
    # The clamp gives a row of zeros a scale to divide by.
    scale = (value.abs().amax(-1, keepdim=True).float() / greatest) \
        .clamp(min=1e-12)
    scaled = value / scale
    if out == "int8":
        scaled = scaled.round()
    codes = scaled.clamp(-greatest, greatest).to(TYPES[out])
    if has_blocks:
        codes = codes.flatten(-2)[..., :shape[-1]].contiguous()
        scale = scale.squeeze(-1)
    return codes, scale


def same(value):
    return (value,)


def finisher_of(case, quantised):
    """A function that converts a row-wise result to the output's type, in a tuple.
    torch.compile traces through what these functions return, so that they hold
    plain values only, not the case."""
    if not quantised:
        return same
    if case.scales_shape:
        name, has_blocks = case.out, case.get("scale_y") == "1x128"
        return lambda value: quantise(value, name, has_blocks)
    dtype = TYPES[case.out]
    return lambda value: (value.to(dtype),)


def norm_of(case, quantised):
    """rmsnorm or layernorm, with what is added before and done after it."""
    shape = (case.shape[1],)
    finish = finisher_of(case, quantised)
    is_layer_norm = case.family == "layernorm"

    def norm(x, weight=None, bias=None, residual=None):
        h = x if residual is None else x + residual
        if is_layer_norm:
            y = F.layer_norm(h, shape, weight, bias, EPSILON)
        else:
            y = F.rms_norm(h, shape, weight, EPSILON)
        done = finish(y)
        return done if residual is None else (done[0], h, *done[1:])

    return norm


def softmax_of(case, quantised):
    scale = case.get("scale", 1.0)
    finish = finisher_of(case, quantised)

    def softmax(x, mask=None):
        # One pass instead of the two of x * scale + mask.
        if mask is not None:
            x = torch.add(mask, x, alpha=scale)
        elif scale != 1.0:
            x = x * scale
        return finish(torch.softmax(x, -1))

    return softmax


def elementwise_of(case, quantised):
    finish = finisher_of(case, quantised)
    links = tuple((UNARY.get(link) or BINARY[link], f"link{index}",
                   link in BINARY) for index, link in enumerate(case.chain))

    def elementwise(x, **operands):
        for function, name, has_operand in links:
            x = function(x, operands[name]) if has_operand else function(x)
        return finish(x)

    return elementwise


def reduction_of(case, quantised):
    reductions = ALL_REDUCTIONS if case.all_rows else REDUCTIONS
    reduction = reductions[case.spec["op"]]
    finish = finisher_of(case, quantised)
    if case.all_rows:
        return lambda x: finish(reduction(x).reshape(1))
    return lambda x: finish(reduction(x))


def function_of(case, quantised=True):
    """The case's function. Without `quantised` it stays in the inputs' type:
    given inputs of a wider type it is a reference, and lacks the scales.
    Errors: KeyError for a case that has no function here."""
    if case.family in ("rmsnorm", "layernorm"):
        return norm_of(case, quantised)
    if case.family == "softmax":
        return softmax_of(case, quantised)
    if case.family == "elementwise":
        return elementwise_of(case, quantised)
    if case.family == "reduce":
        return reduction_of(case, quantised)
    if case.family == "rowquant":
        finish = finisher_of(case, quantised)
        return lambda x: finish(x)
    if case.family == "transpose2d":
        return lambda x: (x.t().contiguous(),)
    raise KeyError(case.family)


def faults_of(case, inputs, outputs):
    """Names of the outputs that differ from the same mathematics in fp32 (fp64
    for reductions) by more than rounding explains, loosely."""
    wide = torch.float64 if case.family == "reduce" else torch.float32
    reference = function_of(case, quantised=False)(
        **{name: value.to(wide) for name, value in inputs.items()})
    expected = dict(zip((name for name in outputs if name != "scales"),
                        reference))
    scales = outputs.get("scales")
    faults = []
    if scales is not None:
        y = expected["y"]
        has_blocks = scales.dim() == 2
        right = (blocks_of(y) if has_blocks else y).abs().amax(-1) / \
            GREATEST[case.out]
        # Zeros have the scale 1.
        right = torch.where(right > 0, right, torch.ones_like(right))
        if not bool(((scales - right).abs() <= 0.02 * right).all()):
            faults.append("scales")
        # The scale of each column.
        scales = scales.repeat_interleave(SCALE_COLUMNS, -1)[:, :y.shape[-1]] \
            if has_blocks else scales[:, None]
    for name, value in expected.items():
        allowed = allowance(case, name, value, inputs["x"], scales)
        found = outputs[name].to(wide)
        if scales is not None and name == "y":
            found = found * scales
        # A NaN is a fault: no comparison with it holds.
        if not bool(((found - value).abs() <= allowed).all()):
            faults.append(name)
    return faults


def allowance(case, name, value, x, scales):
    """How far an output may be from `value`, elementwise."""
    # The error of the output's rounding, and more.
    loose = 2.0**-6 if case.out != "fp32" else 2.0**-16
    if case.family == "reduce":
        sizes = ALL_REDUCTIONS if case.all_rows else REDUCTIONS
        return (1e-5 * sizes[case.spec["op"]](x.double().abs()) +
                loose * value.abs())
    if scales is not None and name == "y":
        if case.out == "int8":
            return 0.02 * value.abs() + 0.51 * scales
        return 0.08 * value.abs() + 2.0**-9 * scales
    return loose * (value.abs() + value.abs().mean())
