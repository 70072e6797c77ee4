#!/usr/bin/env python3
"""The cases of default_mode_models.py: layers of models at values of m that
are drawn. Needs neither torch nor a GPU:

    default_mode_cases.py [--models A,B] [--seed S] [--values N]

lists the models, and how many values each band of m has.
"""
import argparse
import collections
import dataclasses
import json
import math
import pathlib
import random

SUITE = (pathlib.Path(__file__).resolve().parent.parent / "suites" /
         "default_mode_models.json")

# Names and upper bounds of the bands of m, as kiln-bench draw has them.
BANDS = (("1-16", 16), ("17-64", 64), ("65-256", 256), ("257-1024", 1024),
         ("above", math.inf))
# The largest m; prepared ranges end there.
LARGEST = 8192
# Chosen before anything was measured; every band has 40 values or more.
SEED, VALUES = 20261128, 10
# Sizes that divide by it are aligned, all others odd.
ALIGNED = 64


@dataclasses.dataclass(frozen=True)
class Layer:
    """A product without its m: D[m, n] = A[m, k] B, whose B is stored [n, k]."""

    name: str  # KIND/MODEL/LAYER
    n: int
    k: int

    @property
    def kind(self):
        return self.name.split("/")[0]

    @property
    def model(self):
        return self.name.split("/")[1]

    @property
    def aligned(self):
        return self.n % ALIGNED == 0 and self.k % ALIGNED == 0

    def text(self, m):
        return f"gemm m={m} n={self.n} k={self.k} dtype=bf16 layout=NT"


@dataclasses.dataclass(frozen=True)
class Case:
    layer: Layer
    m: int

    @property
    def text(self):
        return self.layer.text(self.m)

    @property
    def band(self):
        return band_of(self.m)


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    by_layer: tuple  # the cases of each layer

    @property
    def kind(self):
        return self.layers[0].kind

    @property
    def layers(self):
        return tuple(cases[0].layer for cases in self.by_layer)

    @property
    def cases(self):
        return tuple(case for cases in self.by_layer for case in cases)


def band_of(m):
    return next(name for name, bound in BANDS if m <= bound)


def draw_values(seed, layer, count):
    """`count` different values of 1..LARGEST, log-uniform, in the order of the
    draw. They depend on the seed and the layer alone, so that a part of the
    models has the same ones."""
    source = random.Random(f"{seed}/{layer.name}")
    values = {}
    while len(values) < count:
        drawn = math.exp(source.uniform(0, math.log(LARGEST + 1)))
        values[min(LARGEST, int(drawn))] = None
    return tuple(values)


class Suite:
    """The suite's models (`names`, or all) at drawn values.
    Errors: ValueError for a model that the suite does not have."""

    def __init__(self, path=None, names=None, seed=None, values=None):
        self.path = pathlib.Path(path or SUITE)
        self.seed = SEED if seed is None else seed
        self.values = values or VALUES
        layers = [Layer(layer["name"], layer["n"], layer["k"])
                  for layer in json.loads(self.path.read_text())["layers"]]
        known = list(dict.fromkeys(layer.model for layer in layers))
        unknown = sorted(set(names or ()) - set(known))
        if unknown:
            raise ValueError(f"{self.path} has no model {', '.join(unknown)}, "
                             f"but {', '.join(known)}")
        self.models = tuple(
            Model(name, tuple(self._cases_of(layer) for layer in layers
                              if layer.model == name))
            for name in known if not names or name in names)

    def _cases_of(self, layer):
        return tuple(Case(layer, m)
                     for m in draw_values(self.seed, layer, self.values))

    def bands(self):
        """The number of cases by band."""
        counts = collections.Counter(case.band for model in self.models
                                     for case in model.cases)
        return {name: counts[name] for name, _ in BANDS}


def add_suite_options(parser):
    parser.add_argument("--suite", help="default: the suite "
                        "default_mode_models.json")
    parser.add_argument("--models", metavar="A,B",
                        help="a part of the suite's models")
    parser.add_argument("--seed", type=int, help="another draw of m")
    parser.add_argument("--values", type=int, metavar="N",
                        help="values of m of each layer")


def suite_of(options):
    """The suite that these options name. Errors: as Suite."""
    names = options.models.split(",") if options.models else None
    return Suite(options.suite, names, options.seed, options.values)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_suite_options(parser)
    suite = suite_of(parser.parse_args())
    for model in suite.models:
        print(f"{model.name} ({model.kind})")
        for layer, cases in zip(model.layers, model.by_layer):
            values = sorted(case.m for case in cases)
            print(f"  {layer.name}: n={layer.n} k={layer.k} "
                  f"{'aligned' if layer.aligned else 'odd'}, m = "
                  f"{', '.join(map(str, values))}")
    print("; ".join(f"m {band}: {count}"
                    for band, count in suite.bands().items()))


if __name__ == "__main__":
    main()
