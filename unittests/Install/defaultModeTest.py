"""Tests benchmarks/peers/default_mode_models.py as far as that needs no GPU:

    defaultModeTest.py LIBRARY DRIVER NVRTC

The driver and NVRTC are stand-ins.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "benchmarks" / "peers"
sys.path.insert(0, str(PEERS))
import default_mode_cases  # noqa: E402
import default_mode_tables  # noqa: E402


def sizes_of(path):
    """(n, k) of all products of a suite."""
    document = json.loads(path.read_text())
    return {(case["n"], case["k"])
            for case in document.get("layers", []) + document.get("cases", [])
            if case["family"] == "gemm" and "n" in case and "k" in case}


class SuiteTest(unittest.TestCase):
    def setUp(self):
        self.suite = default_mode_cases.Suite()

    def test_two_models_of_each_kind(self):
        kinds = sorted(model.kind for model in self.suite.models)
        self.assertEqual(kinds, sorted(2 * ["dense", "moe", "odd", "shards"]))
        for model in self.suite.models:
            self.assertIn(len(model.layers), range(3, 6), model.name)
            for layer in model.layers:
                self.assertEqual(layer.aligned, model.kind != "odd", layer)

    def test_no_size_of_another_suite(self):
        own = {(layer.n, layer.k) for model in self.suite.models
               for layer in model.layers}
        for path in default_mode_cases.SUITE.parent.glob("*.json"):
            if path != default_mode_cases.SUITE:
                self.assertFalse(own & sizes_of(path), path.name)

    def test_every_band_has_values(self):
        bands = self.suite.bands()
        self.assertGreaterEqual(min(bands.values()), 40, bands)
        for model in self.suite.models:
            self.assertEqual(len(set(model.cases)), len(model.cases))

    def test_a_part_has_the_same_values(self):
        part = default_mode_cases.Suite(names=["dbrx"])
        self.assertEqual([model.name for model in part.models], ["dbrx"])
        whole = {model.name: model for model in self.suite.models}
        self.assertEqual(part.models[0], whole["dbrx"])
        other = default_mode_cases.Suite(names=["dbrx"], seed=1)
        self.assertNotEqual(part.models, other.models)
        with self.assertRaisesRegex(ValueError, "no model dbrx2"):
            default_mode_cases.Suite(names=["dbrx2"])


def case_of(m, band, peer_us, aligned=True, wrong=(), **states):
    rows = {}
    for name, given in states.items():
        rows[name.replace("_", " ")] = {
            "first_call_s": 0.5, "compiles": 1, "trials": 2, "config": "c",
            "measured_as": name} | given
    return {"layer": "dense/x/y", "n": 64, "k": 64, "m": m, "band": band,
            "aligned": aligned, "wrong": list(wrong), "peer_us": peer_us,
            "states": rows}


def result_of(cases, **states):
    summary = {"compiles": 3, "trials": 4, "failed": 0}
    return {"peer": "cuBLASLt", "skipped_states": {"strict": "no --pool"},
            "cases": cases, "models": {
                "x": {"kind": "dense", "states": {
                    name: summary | more for name, more in states.items()}}}}


class TablesTest(unittest.TestCase):
    def test_ratios_by_band(self):
        result = result_of(
            [case_of(1, "1-16", 10, predict={"us": 10}, tune={"us": 5}),
             case_of(2, "1-16", 10, predict={"us": 10}, tune={"us": 20}),
             case_of(99, "65-256", 8, predict={"us": 4}, tune={"us": 2})],
            predict={}, tune={})
        lines = default_mode_tables.tables(result)
        self.assertIn("| predict | 1-16 | 2 | 1.000 | 1.000 | | |", lines)
        self.assertIn("| tune | 1-16 | 2 | 1.000 | 0.500 | 1.000 | 0.500 |",
                      lines)
        self.assertIn("| tune | 65-256 | 1 | 4.000 | 4.000 | 2.000 | 2.000 |",
                      lines)
        self.assertIn("| dense | tune | 3 | 1.587 | 0.500 | 1.260 | 0.500 |",
                      lines)
        self.assertIn("- values of m: 2 in 1-16, 0 in 17-64, 1 in 65-256, 0 in "
                      "257-1024, 0 above", lines)
        self.assertIn("- `strict` was not measured: no --pool", lines)
        self.assertFalse(default_mode_tables.faults(result))
        self.assertTrue(all(len(line) <= 120 for text in lines
                            for line in text.splitlines()))

    def test_odd_sizes_stand_apart(self):
        result = result_of(
            [case_of(1, "1-16", 10, predict={"us": 10}),
             case_of(1, "1-16", 30, aligned=False, predict={"us": 10})],
            predict={})
        text = "\n".join(default_mode_tables.tables(result))
        aligned, odd = text.split("Odd n or k:")
        self.assertIn("| predict | 1-16 | 1 | 1.000 | 1.000 | | |", aligned)
        self.assertIn("| predict | 1-16 | 1 | 3.000 | 3.000 | | |", odd)

    def test_what_is_wrong_has_no_ratio(self):
        result = result_of(
            [case_of(1, "1-16", 10, wrong=["cuBLASLt"], predict={"us": 10},
                     tune={"us": 5}),
             case_of(2, "1-16", 10, wrong=["tune"], predict={"us": 20},
                     tune={"us": 5})],
            predict={}, tune={})
        lines = default_mode_tables.tables(result)
        self.assertIn("| predict | 1-16 | 1 | 0.500 | 0.500 | | |", lines)
        self.assertIn("| tune | 1-16 | 0 | n/a | n/a | 2.000 | 2.000 |", lines)
        self.assertIn("- cuBLASLt computes wrong results at 1 x 64 x 64", lines)
        self.assertEqual(default_mode_tables.faults(result),
                         ["dense/x/y m=2: tune is wrong"])

    def test_costs(self):
        layers = [{"layer": "dense/x/y", "s": 2.0, "kernels": 20},
                  {"layer": "dense/x/z", "s": 4.0, "kernels": 24}]
        later = {"later": {"us": 8, "config": "d"}}
        result = result_of(
            [case_of(1, "1-16", 10, prepared={"us": 10} | later)],
            prepared={"layers": layers, "failed": 1})
        text = " ".join(" ".join(default_mode_tables.tables(result)).split())
        self.assertIn("`prepared`: 3 kernels compiled, 4 trials; 1 first calls "
                      "took 500 ms", text)
        self.assertIn("prepared in 3.0 s (median; most 4.0 s) and loaded 22 "
                      "kernels (most 24)", text)
        self.assertIn("1 calls found no plan; 1 values had another plan after "
                      "all calls, of 1.250 times the speed", text)


class FirstCallsTest(unittest.TestCase):
    library, driver, nvrtc = "", "", ""

    def test_on_stand_ins(self):
        with tempfile.TemporaryDirectory() as folder:
            pool, out = f"{folder}/pool", pathlib.Path(folder, "out.json")
            run = subprocess.run(
                [sys.executable, "-B", str(PEERS / "default_mode_models.py"),
                 "--library", self.library, "--stand-ins",
                 f"{self.driver},{self.nvrtc}", "--models",
                 "qwen2.5-vl-vision", "--values", "1", "--states",
                 "predict,strict", "--pool", pool, "--caches", folder,
                 "--commit", "abc", "--out", str(out)],
                capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            result = json.loads(out.read_text())
        states = result["models"]["qwen2.5-vl-vision"]["states"]
        self.assertIn("no kernel", states["strict"]["skipped"])
        self.assertEqual(states["predict"]["trials"], 0)
        self.assertEqual(len(result["cases"]), 3)
        for case in result["cases"]:
            self.assertEqual(set(case["states"]), {"predict"})
            for state in case["states"].values():
                self.assertTrue(state["config"])
                self.assertGreater(state["first_call_s"], 0)
        self.assertIn("`predict`:", run.stdout)


if __name__ == "__main__":
    (FirstCallsTest.library, FirstCallsTest.driver,
     FirstCallsTest.nvrtc) = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
