#!/usr/bin/env python3
"""Compares the engine's logits with transformers', for models of random weights.

  python3 benchmarks/peers/llama_numerics.py \
      --engine build/release/bin/kiln-llama --commit COMMIT --out result.json

For each config of llama_configs.NUMERICS the engine exports a checkpoint.
transformers computes the logits of some prompts in fp32 (TF32 off), which is the
truth, and in bf16, which shows what rounding costs; the engine computes them
in one pass. Each prompt goes on with tokens that transformers chose greedily in
fp32, so all compare the same positions. Then the engine computes the same
logits in other ways: in chunks, token by token, and one prompt alone.

With --engine-args '--weights fp8' and its like the checkpoint has the numbers
that the engine's codes stand for, rounded to bf16, and the engine draws the
codes themselves. So the weights differ by that rounding (2^-9 of each at most),
and otherwise only the arithmetic does.

It passes where the RMS deviation and the mean KL divergence are at most --bar
times those of transformers' bf16, where the engine's greatest logit is the
truth's at each position that is decided (greedy_figures.py), and where its other
ways are off from its first by no more than transformers' bf16 is off from the
truth.
"""
import argparse
import copy
import importlib.metadata
import os
import pathlib
import random
import shutil
import sys
import tempfile

import torch

import llama_configs
from greedy_figures import DEVIATIONS
from llama_engine import export_model, write_logits
from logit_figures import (deviation, difference, greedy, margin_noise,
                           rounded)
from result_files import (Progress, Stopwatch, driver_version, number,
                          parse_with_result, write_document)

os.environ.setdefault("HF_HUB_OFFLINE", "1")

PROTOCOL = (
    "random bf16 weights of seed {seed}; prompts of {lengths} random tokens, "
    "each with {new} more that transformers chose greedily in fp32; truth: "
    "transformers in fp32, TF32 off, sdpa (with sinks: eager); figures over "
    "all positions; KL of the truth against the side; transformers' bf16 "
    "logits are rounded to "
    "bf16, as it returns them; a position is decided where the truth's margin "
    "between its best two tokens is more than {deviations:g} times the RMS "
    "deviation of transformers' bf16 at such tokens, and in all of its row.")


#===------------------------------------------------------------------------===#
# transformers
#===------------------------------------------------------------------------===#


class Peer:
    """transformers' model, as load_peer() makes it."""

    def __init__(self, model):
        self._model = model

    def widened(self):
        """The model in fp32: with the same weights, which are bf16."""
        return Peer(copy.deepcopy(self._model).float())

    @torch.no_grad()
    def logits(self, prompts):
        """fp32 [tokens of all prompts][vocabulary]; each prompt on its own."""
        return torch.cat([
            self._model(input_ids=torch.tensor([tokens], device="cuda"),
                        use_cache=False).logits[0].float()
            for tokens in prompts])

    @torch.no_grad()
    def continuation(self, tokens, count):
        """The `count` tokens that it chooses after some."""
        ids, cache, chosen = torch.tensor([tokens], device="cuda"), None, []
        for _ in range(count):
            out = self._model(input_ids=ids, past_key_values=cache,
                              use_cache=True, logits_to_keep=1)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
            chosen.append(ids.item())
        return chosen


def load_peer(folder, config):
    """The model of a checkpoint, in bf16."""
    from transformers import AutoModelForCausalLM
    # There is no other attention with sinks.
    how = {"attn_implementation": "eager" if config["model_type"] == "gpt_oss"
           else "sdpa"}
    if llama_configs.shape_of(config).experts:
        # Expert by expert: grouped products are of bf16 alone.
        how["experts_implementation"] = "eager"
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, **how)
    return Peer(model.to("cuda").eval())


def peer_logits(folder, config, prompts, new_tokens):
    """(prompts with their continuations, truth, bf16 logits)."""
    narrow = load_peer(folder, config)
    wide = narrow.widened()
    full = [tokens + wide.continuation(tokens, new_tokens)
            for tokens in prompts]
    return full, wide.logits(full), narrow.logits(full)


#===------------------------------------------------------------------------===#
# The engine
#===------------------------------------------------------------------------===#


class Engine:
    """The engine's logits of a folder, in several ways."""

    def __init__(self, options, folder, vocab):
        self._options, self._folder, self._vocab = options, folder, vocab

    def logits(self, prompts, **how):
        """As Peer.logits(). `how` are options of write_logits()."""
        path = pathlib.Path(self._folder) / "logits.bin"
        path.unlink(missing_ok=True)
        write_logits(self._options.engine, self._folder, prompts, path,
                     self._options.seed,
                     engine_args=self._options.engine_args, **how)
        rows = sum(map(len, prompts))
        wanted = 4 * rows * self._vocab
        if path.stat().st_size != wanted:
            raise RuntimeError(f"{path} has {path.stat().st_size} bytes, "
                               f"expected {wanted}")
        values = torch.from_file(str(path), size=rows * self._vocab,
                                 dtype=torch.float32)
        return values.view(rows, self._vocab).to("cuda")


def other_ways(engine, prompts, first, allowed, chunk):
    """{way: figures} of the engine's other ways to the logits `first`."""
    middle = len(prompts) // 2
    begin = sum(map(len, prompts[:middle]))
    alone = slice(begin, begin + len(prompts[middle]))
    ways = {f"chunks of {chunk}": (prompts, slice(None), {"chunk": chunk}),
            "token by token": (prompts, slice(None), {"one_by_one": True}),
            "alone": (prompts[middle:middle + 1], alone, {})}
    found = {}
    for way, (given, rows, how) in ways.items():
        largest, rms = difference(engine.logits(given, **how), first[rows])
        found[way] = rounded({"max": largest, "rms": rms,
                              "same_bits": largest == 0,
                              "within": rms <= allowed})
    return found


#===------------------------------------------------------------------------===#
# One model
#===------------------------------------------------------------------------===#


def random_prompts(vocab, options):
    source = random.Random(options.seed)
    return [[source.randrange(vocab) for _ in range(length)]
            for length in options.lengths]


def compare(name, config, folder, options, watch):
    """The row of a model. Some 10 to 30 s, most of them in the engine."""
    with watch.phase("export"):
        export_model(options.engine, config, options.seed, folder,
                     options.engine_args)
    with watch.phase("transformers"):
        prompts, truth, narrow = peer_logits(
            folder, config, random_prompts(config["vocab_size"], options),
            options.new_tokens)
    engine = Engine(options, folder, config["vocab_size"])
    with watch.phase("engine"):
        found = engine.logits(prompts)
    with watch.phase("figures"):
        kiln, peer = deviation(truth, found), deviation(truth, narrow)
        noise = margin_noise(truth, narrow)
        row = {"model": name, "layers": config["num_hidden_layers"],
               "positions": truth.shape[0],
               "kiln": rounded(kiln), "transformers_bf16": rounded(peer),
               "ratio_rms": round(kiln["rms"] / peer["rms"], 4),
               "ratio_kl": round(kiln["kl_mean"] / peer["kl_mean"], 4),
               "ratio_max": round(kiln["max"] / peer["max"], 4),
               "greedy": greedy(truth, found, noise),
               "greedy_transformers_bf16": greedy(truth, narrow, noise)}
    if options.ways:
        with watch.phase("other ways"):
            row["ways"] = other_ways(engine, prompts, found, peer["rms"],
                                     options.chunk)
    row["faults"] = faults_of(row, options.bar)
    return row


def faults_of(row, bar):
    """The bars that are missed, in words."""
    # Not a number is a fault, too.
    faults = [f"{key} is {row[key]}" for key in ("ratio_rms", "ratio_kl")
              if not row[key] <= bar]
    wrong, decided = (row["greedy"][key]
                      for key in ("wrong_where_decided", "decided"))
    if wrong:
        faults.append(f"{wrong} greatest logits are wrong where decided")
    if decided == 0:
        faults.append("no greatest logit is decided")
    return faults + [f"{way} is off by {figures['rms']}"
                     for way, figures in row.get("ways", {}).items()
                     if not figures["within"]]


HEADER = (f"{'model':22} {'rms/std':>8} {'bf16':>8} {'ratio':>6} "
          f"{'KL ratio':>8} {'top-1':>6} {'bf16':>6} {'undecided':>9}  faults")


def line_of(row):
    if "error" in row:
        return f"{row['model']:22} {row['error']}"
    kiln, peer, chosen = (row["kiln"], row["transformers_bf16"],
                          row["greedy"])
    undecided = f"{100 * chosen['undecided_share']:.1f} %"
    return (f"{row['model']:22} {number(kiln['rms_over_std'], 8, 5)} "
            f"{number(peer['rms_over_std'], 8, 5)} "
            f"{number(row['ratio_rms'], 6, 3)} "
            f"{number(row['ratio_kl'], 8, 3)} {number(kiln['top1'], 6, 3)} "
            f"{number(peer['top1'], 6, 3)} {undecided:>9}  "
            f"{'; '.join(row['faults']) or 'none'}")


#===------------------------------------------------------------------------===#
# The run
#===------------------------------------------------------------------------===#


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine", required=True, help="path of kiln-llama")
    parser.add_argument("--engine-args", default=[], type=str.split,
                        metavar="TEXT", help="types, such as '--weights fp8 "
                        "--kv-cache e4m3'; compare with another --bar")
    parser.add_argument("--models", default=",".join(llama_configs.NUMERICS),
                        metavar="A,B", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lengths", default="384,96,17", metavar="N,N",
                        help="tokens of the prompts")
    parser.add_argument("--new-tokens", type=int, default=48,
                        help="chosen greedily after each prompt")
    parser.add_argument("--chunk", type=int, default=100)
    parser.add_argument("--no-ways", dest="ways", action="store_false",
                        help="without chunks, single tokens and prompts alone")
    parser.add_argument("--bar", type=float, default=1.2,
                        help="most of transformers' bf16 deviation")
    parser.add_argument("--work-dir", help="folder for the checkpoints, of 4 "
                        "GB each; they are removed")
    parser.add_argument("--limit-s", type=float, default=540,
                        help="no model begins that would end later; 0: none")
    options = parse_with_result(parser)
    options.models = options.models.split(",")
    options.lengths = [int(length) for length in options.lengths.split(",")]
    unknown = set(options.models) - set(llama_configs.NUMERICS)
    if unknown:
        parser.error(f"no model {', '.join(sorted(unknown))}")
    return options


def new_document(options):
    return {"what": "llama_numerics", "gpu": torch.cuda.get_device_name(0),
            "driver": driver_version(), "cuda": torch.version.cuda,
            "commit": options.commit, "torch": torch.__version__,
            "transformers": importlib.metadata.version("transformers"),
            "engine_args": options.engine_args,
            "bar": options.bar, "protocol": PROTOCOL.format(
                seed=options.seed, new=options.new_tokens,
                deviations=DEVIATIONS,
                lengths=", ".join(map(str, options.lengths))),
            "interrupted": True, "left_out": [], "models": []}


def run_model(name, options, progress):
    """The row of a model, with its seconds; a failure is noted in it."""
    watch, began = Stopwatch(), progress.seconds()
    folder = tempfile.mkdtemp(prefix="kiln-llama-", dir=options.work_dir)
    try:
        row = compare(name, llama_configs.NUMERICS[name], folder, options,
                      watch)
    except Exception as error:  # a model that fails is a result
        row = {"model": name, "error": str(error)[:500]}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        torch.cuda.empty_cache()
    row["seconds"] = {phase: round(seconds, 1)
                      for phase, seconds in watch.seconds.items()}
    row["seconds"]["all"] = round(progress.seconds() - began, 1)
    progress.say(f"{name}: {row['seconds']}")
    return row


def main():
    options, progress = parse_options(), Progress()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    document, longest = new_document(options), 0
    print(HEADER)
    for name in options.models:
        if 0 < options.limit_s < progress.seconds() + longest:
            document["left_out"].append(name)
            progress.say(f"{name}: left out, no time")
            continue
        row = run_model(name, options, progress)
        longest = max(longest, row["seconds"]["all"])
        document["models"].append(row)
        write_document(document, options.out)
        print(line_of(row), flush=True)
    document["interrupted"] = False
    document["seconds"] = round(progress.seconds(), 1)
    write_document(document, options.out)
    return 1 if any(row.get("faults", ["error"])
                    for row in document["models"]) else 0


if __name__ == "__main__":
    sys.exit(main())
