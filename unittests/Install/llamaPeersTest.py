"""Tests the parts of the engine's peer programs that need neither torch nor a
GPU: cases, configs, texts, and the protocol, with a stand-in of the engine.

    llamaPeersTest.py [LIBRARY]

With a library, it parses the texts of all cases of small_kernels.py.
"""
import json
import pathlib
import random
import re
import stat
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "benchmarks" / "peers"), str(ROOT / "scripts")]
import greedy_figures  # noqa: E402
import kiln_ctypes  # noqa: E402
import llama_configs  # noqa: E402
import llama_race_cases  # noqa: E402
import llama_tables  # noqa: E402
import small_kernel_cases  # noqa: E402
import updateReadme  # noqa: E402
from llama_blocks import Block, Lane, ratios_of, run_rounds  # noqa: E402
from llama_engine import (EngineError, EngineSide, Lockstep,  # noqa: E402
                          export_model, lockstep_command, write_logits)

LIBRARY = None

# Answers as the engine does; its arguments go to a file.
STAND_IN = """#!{python}
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
(here / "arguments").write_text(json.dumps(sys.argv[1:]))
if sys.argv[1] == "logits" and "--chunk" in sys.argv:
    sys.exit("no chunks")
if sys.argv[1] != "lockstep":
    sys.exit(0)
if "--die" in sys.argv:
    sys.exit(2)
print(json.dumps({{"ready": True, "device": "none"}}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    do = command.pop("do")
    with open(here / "commands", "a") as log:
        log.write(line)
    answer = {{"ok": True}}
    if do == "setup":
        answer["pages"] = 3
    elif do == "decode":
        ms = 32.0 if "fp8" in sys.argv else 64.0
        answer |= {{"ms": ms, "wall_ms": 65.0, "tokens": [[1, 2]]}}
    elif do == "prefill":
        answer["ms"] = [5.0] * command["repeats"]
    elif do == "refuse":
        answer = {{"ok": False, "error": "no reason"}}
    elif do == "die":
        os._exit(3)
    elif do == "hang":
        time.sleep(60)
    elif do == "mumble":
        print("not JSON", flush=True)
        continue
    print(json.dumps(answer), flush=True)
    if do == "quit":
        break
"""


class WithEngine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "engine"
        self.program.write_text(STAND_IN.format(python=sys.executable))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def arguments(self):
        return json.loads((self.folder / "arguments").read_text())

    def commands(self):
        return [json.loads(line) for line in
                (self.folder / "commands").read_text().splitlines()]


class LockstepTest(WithEngine):
    def start(self, **seconds):
        engine = Lockstep([str(self.program), "lockstep"], **seconds)
        self.addCleanup(engine.close)
        return engine

    def test_answers(self):
        engine = self.start()
        self.assertEqual(engine.ready["device"], "none")
        self.assertEqual(engine.call("setup", ["pages"], kind="x")["pages"], 3)
        with self.assertRaisesRegex(EngineError, "no gb_per_s"):
            engine.call("rates", ["gb_per_s"])
        with self.assertRaisesRegex(EngineError, "refuse.*no reason"):
            engine.call("refuse")

    def test_an_engine_that_ends(self):
        with self.assertRaisesRegex(EngineError, "ended with 3"):
            self.start().call("die")

    def test_an_engine_that_is_silent(self):
        with self.assertRaisesRegex(EngineError, "no answer in 0.5 s"):
            self.start(answer_s=0.5).call("hang")

    def test_an_engine_that_prints_other_lines(self):
        with self.assertRaisesRegex(EngineError, "not an object of JSON"):
            self.start().call("mumble")

    def test_a_start_that_fails(self):
        with self.assertRaisesRegex(EngineError, "ended with 0"):
            Lockstep([str(self.program), "other"])

    def test_a_side(self):
        engine = self.start()
        side = EngineSide(engine)
        decode = llama_race_cases.parse_case("llama-3-8b:16@1024", 32)
        self.assertEqual(side.prepare(decode), {"pages": 3})
        self.assertEqual(side.block(), Block([2.0], 65.0, [[1, 2]]))
        prefill = llama_race_cases.parse_case("llama-3-8b:1x512+7680", 32)
        side.prepare(prefill)
        self.assertEqual(side.block().ms, [5.0] * 8)
        self.assertEqual(self.commands(), [
            {"do": "setup", "kind": "decode", "batch": 16, "context": 1008,
             "steps": 32},
            {"do": "decode", "steps": 32, "context": 1008},
            {"do": "setup", "kind": "prefill", "sequences": 1, "tokens": 512,
             "cached": 7680},
            {"do": "prefill", "repeats": 8}])

    def test_one_off_commands(self):
        model = self.folder / "model"
        export_model(self.program, {"hidden_size": 64}, 7, model)
        self.assertEqual(self.arguments(), [
            "export", "--config", str(model / "wanted.json"), "--seed", "7",
            "--out", str(model)])
        # An export takes what the weights become, logits take all.
        types = ["--weights", "fp8", "--kv-cache", "e4m3", "--head", "e4m3"]
        export_model(self.program, {}, 7, model, types)
        self.assertEqual(self.arguments()[-4:],
                         ["--weights", "fp8", "--head", "e4m3"])
        write_logits(self.program, model, [[1]], "out.bin", 7,
                     engine_args=types)
        self.assertEqual(self.arguments(), [
            "logits", "--config", str(model / "wanted.json"), "--seed", "7",
            "--tokens", str(model / "tokens.json"), "--out", "out.bin", *types])
        write_logits(self.program, model, [[1, 2], [3]], "out.bin", 7,
                     one_by_one=True)
        self.assertEqual(self.arguments(), [
            "logits", "--model", str(model), "--tokens",
            str(model / "tokens.json"), "--out", "out.bin", "--one-by-one"])
        self.assertEqual(json.loads((model / "tokens.json").read_text()),
                         [[1, 2], [3]])
        with self.assertRaisesRegex(EngineError, "ended with 1: no chunks"):
            write_logits(self.program, model, [[1]], "out.bin", 7, chunk=4)


class FormsTest(WithEngine):
    def run_forms(self, *forms):
        out = self.folder / "forms.json"
        done = subprocess.run(
            [sys.executable, ROOT / "benchmarks/peers/llama_forms.py",
             "--engine", self.program, "--cases", "llama-3-8b:1@1024",
             "--rounds", "2", "--gap-ms", "0", "--commit", "0", "--out", out,
             *(word for form in forms for word in ("--form", form))],
            capture_output=True, text=True)
        return done, json.loads(out.read_text())

    def test_forms_take_turns(self):
        done, result = self.run_forms("bf16=", "fp8=--weights fp8")
        self.assertEqual(done.returncode, 0, done.stderr)
        sides = result["cases"][0]["sides"]
        self.assertEqual([sides["bf16"]["ms"], sides["fp8"]["ms"]], [2.0, 1.0])
        self.assertEqual([sides["bf16"]["ratio"], sides["fp8"]["ratio"]],
                         [1.0, 2.0])
        self.assertEqual(result["forms"]["fp8"], "--weights fp8")
        self.assertIn("2.000", done.stdout)

    def test_a_form_that_does_not_start(self):
        done, result = self.run_forms("bf16=", "broken=--die")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with",
                      result["models"]["llama-3-8b"]["broken"]["error"])
        self.assertEqual(list(result["cases"][0]["sides"]), ["bf16"])


class CasesTest(unittest.TestCase):
    def test_default_cases(self):
        models = llama_race_cases.parse_cases(llama_race_cases.DEFAULT, 32)
        self.assertEqual([len(cases) for cases in models.values()], [6, 1])
        for cases in models.values():
            for case in cases:
                most = llama_configs.RACE[case.model][
                    "max_position_embeddings"]
                self.assertLessEqual(case.positions, most, case.text)

    def test_a_decoding_case(self):
        case = llama_race_cases.parse_case("llama-3-8b:16@1024", 32)
        keys = [case.context + step + 1 for step in range(case.steps)]
        self.assertAlmostEqual(sum(keys) / len(keys), case.keys, delta=1)
        self.assertLessEqual(keys[-1], case.positions)
        self.assertEqual(case.pass_tokens, 16)
        # 15.01 GB of weights, 131072 bytes of keys and values a token.
        self.assertEqual(case.shape.weights_read(1), 15009316864)
        self.assertEqual(case.shape.weights_read(64), 15009316864)
        self.assertEqual(case.bytes, 15009316864 + 16 * 1024 * 131072)

    def test_a_decoding_case_with_experts(self):
        shapes = [llama_race_cases.parse_case(
            f"qwen3-30b-a3b-16-layers:{batch}@1024", 32).shape
            for batch in (1, 2)]
        self.assertEqual(shapes[0], shapes[1])
        # Attention and router, and of the experts those that are chosen: one
        # token 8 of 128, two tokens 15.5 in the mean.
        expert, dense = 3 * 768 * 2048, 2048 * (9216 + 128)
        head = 151936 * 2048
        self.assertEqual(shapes[0].weights_read(1),
                         2 * (16 * (dense + 8 * expert) + head))
        self.assertEqual(shapes[0].weights_read(2),
                         2 * (16 * (dense + 31 * expert // 2) + head))
        self.assertEqual(shapes[0].layers_read(1),
                         16 * (dense + 8 * expert))

    def test_a_prefill_case(self):
        case = llama_race_cases.parse_case("llama-3-8b:8x2048", 32)
        self.assertEqual((case.keys, case.positions, case.steps,
                          case.pass_tokens), (0, 2048, 1, 16384))
        # Two operations an element of the layers, and attention.
        head = 128256 * 4096
        layers = 15009316864 // 2 - head
        self.assertEqual(case.flops, 8 * (
            2 * (2048 * layers + head) + 4 * 32 * 4096 * 2048 * 2049 // 2))

    def test_refused_texts(self):
        for text in ("llama-3-8b", "other:1@64", "llama-3-8b:0@64",
                     "llama-3-8b:1@16", "llama-3-8b:1x0"):
            with self.assertRaises(ValueError, msg=text):
                llama_race_cases.parse_case(text, 32)

    def test_the_room_of_an_engine(self):
        cases = llama_race_cases.parse_cases(
            "llama-3-8b:64@1024,llama-3-8b:1x512+7680", 32)["llama-3-8b"]
        command = lockstep_command("engine", "llama-3-8b", cases, 5)
        self.assertEqual(command, [
            "engine", "lockstep", "--model", "llama-3-8b", "--seed", "5",
            "--batch", "64", "--context", "8192", "--tokens", "512",
            "--cache-tokens", str(64 * 1152)])
        # A checkpoint is named by its folder.
        command[command.index("llama-3-8b")] = "folder"
        self.assertEqual(command, lockstep_command(
            "engine", "llama-3-8b", cases, 5, "folder"))

    def test_configs(self):
        for name, config in llama_configs.NUMERICS.items():
            shape = llama_configs.shape_of(config)
            self.assertEqual(shape.heads % shape.kv_heads, 0, name)
            self.assertLess(config["eos_token_id"], shape.vocab, name)
        reduced = llama_configs.NUMERICS["qwen2.5-7b-4-layers"]
        self.assertEqual((reduced["num_hidden_layers"],
                          reduced["max_window_layers"]), (4, 4))

    def test_presets_are_the_engines(self):
        text = (ROOT / "examples/llama/Presets.cpp").read_text()
        for name, config in llama_configs.RACE.items():
            # A preset with fewer layers follows from its name.
            if whole := re.fullmatch(r"(.*)-(\d+)-layers", name):
                self.assertEqual(config, llama_configs.with_layers(
                    llama_configs.RACE[whole[1]], int(whole[2])))
                continue
            begin = text.index("R\"(", text.index(f'{{"{name}"')) + 3
            preset = json.loads(text[begin:text.index(")\"", begin)])
            self.assertEqual({key: config.get(key) for key in preset}, preset)


class RoundsTest(unittest.TestCase):
    def test_turns_and_figures(self):
        calls = []

        class Side:
            def __init__(self, name, ms):
                self.name, self.ms = name, ms

            def block(self):
                calls.append(self.name)
                return Block([self.ms], 32 * self.ms, [[len(calls) % 5]])

        case = llama_race_cases.parse_case("llama-3-8b:1@1024", 32)
        lanes = [Lane(Side("kiln", 4.0), {}), Lane(Side("torch", 5.0), {})]
        run_rounds(lanes, 2, 0, lambda: None)
        self.assertEqual(calls, ["kiln", "torch", "torch", "kiln", "kiln",
                                 "torch"])
        sides = {lane.side.name: lane.row(case) for lane in lanes}
        self.assertEqual(sides["kiln"]["samples"], [4.0, 4.0])
        self.assertEqual(sides["kiln"]["wall_ms"], 4.0)
        self.assertFalse(sides["torch"]["same_tokens"])
        rates = {"gb_per_s": 4600.0, "product_tflops": 700.0}
        row = ratios_of(case, sides, rates)
        self.assertEqual((row["ratio_torch"], row["ratio"]), (1.25, 1.25))
        self.assertAlmostEqual(row["share_of_roofline"], 0.823, places=3)
        prefill = llama_race_cases.parse_case("llama-3-8b:1x2048", 32)
        row = ratios_of(prefill, {"kiln": {"ms": 50.0}}, rates)
        self.assertAlmostEqual(row["tflops"], prefill.flops / 50e9, places=1)
        self.assertAlmostEqual(row["share_of_roofline"],
                               row["tflops"] / 700, places=3)
        self.assertNotIn("share_of_roofline", ratios_of(prefill, sides, {}))

    def test_without_the_engine(self):
        case = types.SimpleNamespace(kind="decode")
        self.assertEqual(ratios_of(case, {"torch": {"ms": 5.0}}, {}), {})


class GreedyTest(unittest.TestCase):
    def test_the_noise_of_a_margin(self):
        # RMS of the pairs: 0.1. The last row is worse than that.
        noise = greedy_figures.noise_of(
            [(0.1, -0.1), (-0.1, 0.1), (0.1, 0.1)], [0.05, 0.1, 0.3])
        for found, rms in zip(noise, (0.1, 0.1, 0.3)):
            self.assertAlmostEqual(found, greedy_figures.DEVIATIONS * rms)

    def test_only_decided_positions_count(self):
        figures = greedy_figures.judge([0.7, 0.5, 0.9, 2.0],
                                       [0.6, 0.6, 1.0, 0.6],
                                       [True, False, False, False])
        self.assertEqual(figures, {
            "positions": 4, "decided": 2, "undecided_share": 0.5, "same": 1,
            "wrong_where_decided": 1})

    def test_a_noise_that_is_no_number_decides_nothing(self):
        noise = greedy_figures.noise_of([(float("nan"), 0.0)], [0.1])
        figures = greedy_figures.judge([5.0], noise, [False])
        self.assertEqual((figures["decided"], figures["undecided_share"]),
                         (0, 1))

    def test_third_tokens_that_overtake_in_the_noise_are_no_fault(self):
        """A false fault of a fixed margin: the deviation at the best two tokens
        is small by chance, and a third token overtakes both."""
        random.seed(7)
        margins, pairs, same = [], [], []
        for _ in range(2000):
            truth = sorted(random.expovariate(1 / 0.26) for _ in range(3))
            peer, own = ([random.gauss(0, 0.045) for _ in range(3)]
                         for _ in range(2))
            margins.append(truth[2] - truth[1])
            pairs.append((peer[2], peer[1]))
            found = [x + 1.2 * off for x, off in zip(truth, own)]
            same.append(found[2] == max(found))
        noise = greedy_figures.noise_of(pairs, [0.045] * len(pairs))
        figures = greedy_figures.judge(margins, noise, same)
        self.assertLess(figures["same"], 2000)
        self.assertEqual(figures["wrong_where_decided"], 0)
        self.assertGreater(figures["decided"], 500)


class SmallKernelsTest(unittest.TestCase):
    def test_cases(self):
        cases = small_kernel_cases.all_cases(60 << 20)
        self.assertEqual(len({case.name for case in cases}), len(cases))
        for case in cases:
            names = [operand.name
                     for operand in small_kernel_cases.operands_of(case)]
            self.assertEqual(len(set(names)), len(names), case.name)

    def test_bytes(self):
        # q, k and v are read, with a row of the table; all but q go on to a
        # cache.
        case = small_kernel_cases.rope_case("llama-3-8b", 2048, 2)
        self.assertEqual(case.bytes, 2048 * (2 * 2 * 6144 + 512))
        self.assertEqual(small_kernel_cases.copies_of(case.bytes, 60 << 20), 4)
        self.assertEqual(small_kernel_cases.copies_of(1000, 60 << 20), 50)

    def test_texts(self):
        if LIBRARY is None:
            self.skipTest("no library")
        library = kiln_ctypes.Library(LIBRARY)
        families = set()
        for case in small_kernel_cases.all_cases(60 << 20, every=True):
            try:
                library.canonical(case.text)
                families.add(case.family)
            except kiln_ctypes.KilnError as error:
                if "no kernel family is called" not in str(error):
                    raise
        self.assertIn("rope", families)

    def test_suites(self):
        if LIBRARY is None:
            self.skipTest("no library")
        library = kiln_ctypes.Library(LIBRARY)
        for family in ("rope", "gather", "sample"):
            path = ROOT / f"benchmarks/suites/{family}.json"
            for case in json.loads(path.read_text())["cases"]:
                words = [f"{key}={int(value) if value is True else value}"
                         for key, value in case.items()
                         if key not in ("name", "family")]
                text = " ".join([family] + words)
                self.assertEqual(case["family"], family, text)
                library.canonical(text)


ORIGIN = {"gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0",
          "commit": "0123abcd", "torch": "2.11.0", "protocol": "one; two.",
          "interrupted": False, "left_out": []}


def race_result():
    case = llama_race_cases.parse_case("llama-3-8b:16@1024", 32)
    sides = {"kiln": {"ms": 4.0, "tokens_per_s": 4000.0},
             "torch": {"ms": 5.0, "tokens_per_s": 3200.0},
             "transformers": {"error": "no memory"}}
    row = {"name": case.text, "sides": sides,
           **ratios_of(case, sides, {"gb_per_s": 4600.0})}
    memory = {"weights bytes": int(16e9), "scratch bytes": 0,
              "free bytes": int(1e9), "device bytes": int(150e9)}
    return ORIGIN | {
        "what": "llama_race", "cases": [row], "models": {
            "llama-3-8b": {"engine": {"prepare_s": 61.5, "compiles": 40,
                                      "trials": 900},
                           "gb_per_s": 4600.0, "product_tflops": 700.0,
                           "memory": {"memory": memory, "counts": {}}},
            "llama-3.2-1b": {"error": "ended with 1"}}}


def numerics_result():
    figures = {"max": 0.2, "rms": 0.04, "rms_over_std": 0.03, "kl_mean": 1e-4,
               "kl_max": 1e-3, "top1": 0.9}
    chosen = greedy_figures.judge([1.0, 0.1], [0.5, 0.5], [True, False])
    row = {"model": "tiny", "layers": 2, "positions": 2, "kiln": figures,
           "transformers_bf16": figures, "ratio_rms": 0.95, "ratio_kl": 0.9,
           "ratio_max": 1.1, "greedy": chosen, "faults": [],
           "ways": {"alone": {"rms": 0.0, "within": True}}}
    return ORIGIN | {"what": "llama_numerics", "transformers": "5.17",
                     "bar": 1.2, "models": [
                         row, row | {"model": "off", "faults": ["KL is 2"]},
                         {"model": "broken", "error": "no memory"}]}


def kernels_result():
    row = {"name": "rope/llama-3-8b/1", "text": "", "bytes": 25088,
           "us": {"kiln": 2.5, "dependent": 2.0, "stream": 1.8, "rope": 6.0},
           "hot": {"dependent": 1.5}, "wrong": [], "best_peer": "rope",
           "ratio": 3.0, "share_of_stream": 0.9}
    return ORIGIN | {
        "what": "small_kernels", "cases": [
            row, row | {"name": "rope/llama-3-8b/16", "ratio": 12.0},
            {"name": "sample/greedy/1", "text": "", "error": "no plan"}],
        "checks": [{"rule": "k50", "p": 0.3, "passes": True},
                   {"rule": "p0.9", "p": 0.0, "passes": False}]}


def forms_result():
    return ORIGIN | {
        "what": "llama_forms", "forms": {"bf16": "", "fp8": "--weights fp8",
                                         "w4": "--weights w4"},
        "cases": [{"name": "llama-3-8b:1@1024", "sides": {
            "bf16": {"ms": 4.0, "ratio": 1.0}, "fp8": {"ms": 2.5,
                                                       "ratio": 1.6}}}],
        "models": {"llama-3-8b": {
            name: {"prepare_s": 9.0, "compiles": 90, "trials": 0}
            for name in ("bf16", "fp8")} | {"w4": {"error": "no memory"}}}}


def trace_result():
    times = {"p50": 9.0, "p99": 30.0}
    row = {"name": "50 %", "seed": 3, "of_capacity": 0.5, "requests": 200,
           "new_tokens": 20000, "steady_tokens_per_second": 3000.0,
           "ttft_ms": times, "itl_ms": times, "faults": {}}
    return ORIGIN | {
        "what": "llama_trace", "cases": [
            row, row | {"name": "alone", "itl_ms": {},
                        "faults": {"compiles": 1}}]}


class TablesTest(unittest.TestCase):
    def lines(self, document):
        lines = updateReadme.table(document).split("\n")
        for line in lines:
            self.assertLessEqual(len(line) * (line[:1] != "|"), 120, line)
        rows = [line.split(" | ") for line in lines if line.startswith("|")]
        self.assertNotIn("", (cell for row in rows for cell in row))
        return lines

    def test_a_race(self):
        lines = self.lines(race_result())
        self.assertIn("| llama-3-8b:16@1024 | 4.000 | 4000 | 93.2 % | 5.000 "
                      "| 1.250 | n/a | n/a |", lines)
        self.assertIn("- `llama-3-8b`: prepared in 61.5 s with 40 compilations "
                      "and 900 trials; a sum", lines)
        self.assertIn("  reads 4600 GB/s, a product computes 700 TFLOP/s; GB: "
                      "weights 16.00", lines)
        self.assertIn("- `llama-3.2-1b`: the engine failed: ended with 1",
                      lines)
        self.assertIn("- llama-3-8b:16@1024: transformers failed: no memory",
                      lines)

    def test_numerics(self):
        lines = self.lines(numerics_result())
        self.assertIn("| tiny | 2 | 0.03000 | 0.03000 | 0.950 | 0.900 | 1.100 "
                      "| 0 of 1 | 50.0 % | within |", lines)
        self.assertIn("- off: KL is 2", lines)
        self.assertIn("- broken: no memory", lines)

    def test_forms(self):
        lines = self.lines(forms_result())
        self.assertIn("| llama-3-8b:1@1024 | 4.000 | 2.500 | 1.60 | n/a | n/a |",
                      lines)
        self.assertIn("- `w4` (--weights w4), `llama-3-8b`: failed: no memory",
                      lines)

    def test_a_trace(self):
        lines = self.lines(trace_result())
        self.assertIn("| 50 % | 3 | 30.0 | 50.0 % | 9.0 | 30.0 | 9.00 | 30.00 |",
                      lines)
        self.assertIn("- alone, seed 3: {'compiles': 1}", lines)

    def test_small_kernels(self):
        lines = self.lines(kernels_result())
        self.assertIn("| rope | 2 | 6.00 | 3.00 | 12.00 | 0.900 | 0.900 |",
                      lines)
        self.assertIn("| rope/llama-3-8b/1 | 0.025 | 2.50 | 2.00 | 1.50 | rope "
                      "| 6.00 | 3.00 | 0.900 |", lines)
        self.assertIn("- 1 of 2 checks of sample pass", lines)
        self.assertIn("- not passed: rule p0.9, p 0.0", lines)

    def test_a_run_that_was_cut_short(self):
        for result in (race_result(), numerics_result(), kernels_result()):
            lines = self.lines(result | {"interrupted": True,
                                         "left_out": ["a", "b"]})
            self.assertIn("- not measured, for lack of time: a, b", lines)
            self.assertIn("- the run was cut short: later cases are missing",
                          lines)

    def test_a_summary(self):
        rows = updateReadme.summary([("llama_race", race_result()),
                                     ("small_kernels", kernels_result())])
        self.assertIn("| `llama_race` | H200 | 1 | a Llama in torch.compile "
                      "and one CUDA graph | 1.25 | 1.25 | 1.25 |", rows)
        self.assertIn("| 6.00 | 3.00 | 12.00 |", rows)

    def test_sections_wait_for_their_results(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "llama_race.json"
            section = ("<!-- results:begin llama_race -->\n{}"
                       "<!-- results:end llama_race -->")
            with unittest.mock.patch.object(updateReadme, "path_of",
                                            lambda name: path):
                empty = section.format("")
                self.assertEqual(updateReadme.updated(empty, "page"), empty)
                path.write_text(json.dumps(race_result()))
                filled = updateReadme.updated(empty, "page")
                self.assertEqual(filled, section.format(
                    updateReadme.table(race_result()) + "\n"))
                self.assertEqual(updateReadme.updated(filled, "page"), filled)
                path.unlink()
                with self.assertRaises(SystemExit):
                    updateReadme.updated(filled, "page")

    def test_pages_show_each_result(self):
        page = (ROOT / "benchmarks/README.md").read_text()
        for name in llama_tables.TABLES:
            self.assertIn(f"<!-- results:begin {name} -->", page)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        LIBRARY = sys.argv.pop(1)
    unittest.main()
