"""The engine as a child process: `kiln-llama lockstep`, spoken to in lines of
JSON, and its one-off commands. Needs neither torch nor a GPU.

Protocol. The child prints one object a line on stdout, its log goes to stderr.
First {"ready": true, ...}; then each command, an object with "do", is answered
by {"ok": true, ...} or {"ok": false, "error": TEXT}. Between a reply and the
next command the child leaves the GPU idle.
"""
import contextlib
import json
import pathlib
import queue
import subprocess
import threading
import time

from llama_blocks import Block

# A sequence takes whole pages of the engine's cache, of so many tokens at most.
PAGE_TOKENS = 128
# An engine that is asked to end has so long.
END_S = 20


class EngineError(RuntimeError):
    """The engine refused a command, was silent for too long, or ended."""


class Lockstep:
    """A running engine. Not thread-safe; close() ends the child."""

    def __init__(self, command, start_s=600, answer_s=300):
        """Starts the child and waits until it is ready: weights are loaded.
        `start_s` and `answer_s`: how long it may take for that and for an
        answer. Errors: EngineError, and OSError for a command that is not."""
        self._answer_s = answer_s
        self._lines = queue.Queue()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.ready = self._answer("the start", start_s)
            if self.ready.get("ready") is not True:
                raise EngineError(f"the engine began with {self.ready}")
        except BaseException:
            self._end()
            raise

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _answer(self, what, seconds):
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise EngineError(f"{what}: no answer in {seconds} s") from None
        if line is None:
            raise EngineError(f"{what}: the engine ended with "
                              f"{self._process.wait()}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise EngineError(f"{what}: not an object of JSON: {line[:200]!r}")
        return answer

    def call(self, do, wanted=(), **values):
        """The reply to a command, which has the `wanted` fields. Errors:
        EngineError."""
        command = json.dumps({"do": do} | values)
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise EngineError(f"{command}: {error}") from error
        answer = self._answer(command, self._answer_s)
        if answer.get("ok") is not True:
            raise EngineError(f"{command}: {answer.get('error', answer)}")
        missing = [field for field in wanted if field not in answer]
        if missing:
            raise EngineError(f"{command}: no {', '.join(missing)} in the "
                              "answer")
        return answer

    def close(self):
        """Asks the child to end, and ends it if it does not."""
        self._answer_s = min(self._answer_s, END_S)
        try:
            self.call("quit")
            self._process.wait(timeout=END_S)
        except (EngineError, subprocess.TimeoutExpired):
            pass
        self._end()

    def _end(self):
        self._process.kill()
        self._process.wait()
        self._reader.join()
        # Commands that a child did not read before it ended are lost.
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class EngineSide:
    """The engine, spoken to by its protocol."""

    name = "kiln"

    def __init__(self, engine):
        self._engine = engine
        self._case = None

    def prepare(self, case):
        """Makes the sequences of a case. Returns the engine's answer."""
        self._case = case
        if case.kind == "decode":
            answer = self._engine.call("setup", kind="decode",
                                       batch=case.batch, context=case.context,
                                       steps=case.positions - case.context)
        else:
            answer = self._engine.call("setup", kind="prefill",
                                       sequences=case.batch,
                                       tokens=case.tokens, cached=case.keys)
        return {key: value for key, value in answer.items() if key != "ok"}

    def block(self):
        case = self._case
        if case.kind == "prefill":
            began = time.perf_counter()
            answer = self._engine.call("prefill", ["ms"],
                                       repeats=case.steps)
            return Block(answer["ms"], 1e3 * (time.perf_counter() - began),
                         answer.get("tokens"))
        # With a context the sequences are first as they were after the setup.
        answer = self._engine.call("decode", ["ms", "wall_ms", "tokens"],
                                   steps=case.steps, context=case.context)
        return Block([answer["ms"] / case.steps], answer["wall_ms"],
                     answer["tokens"])

    def release(self):
        """The engine keeps its memory until the next setup."""


def lockstep_command(program, model, cases, seed, weights=None):
    """The command line of an engine that has room for all of the cases.
    `weights`: the folder of a checkpoint of the model; default: random ones."""
    def cached(case):
        return case.batch * -(-case.positions // PAGE_TOKENS) * PAGE_TOKENS

    return [
        str(program), "lockstep", "--model", str(weights or model),
        "--seed", str(seed),
        # Sequences, and positions of each.
        "--batch", str(max(case.batch for case in cases)),
        "--context", str(max(case.positions for case in cases)),
        # Tokens of a forward pass, and tokens that the KV cache holds: it must
        # not take the rest of the memory, which the peers need.
        "--tokens", str(max(case.pass_tokens for case in cases)),
        "--cache-tokens", str(max(map(cached, cases)))]


def run_command(program, *arguments, timeout_s=300):
    """Runs a one-off command. Errors: EngineError with the end of its log."""
    command = [str(program), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise EngineError(f"{' '.join(command)}: not done in {timeout_s} s") \
            from None
    if done.returncode != 0:
        raise EngineError(f"{' '.join(command)}: ended with "
                          f"{done.returncode}: {done.stderr.strip()[-500:]}")


# Options of types of weights.
WEIGHT_OPTIONS = ("--weights", "--head")
# The config that a checkpoint was exported for.
WANTED = "wanted.json"


def weight_options(engine_args):
    """The options among `engine_args` that quantise weights, with their
    values."""
    pairs = zip(engine_args, engine_args[1:])
    return [word for pair in pairs if pair[0] in WEIGHT_OPTIONS
            for word in pair]


def export_model(program, config, seed, folder, engine_args=()):
    """Writes config.json and model.safetensors with the random weights of
    `seed` into the folder, which is made. Where `engine_args` quantise them,
    they are the numbers that the codes stand for, rounded to bf16. Seconds, and
    2 bytes an element."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / WANTED
    path.write_text(json.dumps(config, indent=1))
    run_command(program, "export", "--config", path, "--seed", seed, "--out",
                folder, *weight_options(engine_args))


def write_logits(program, folder, prompts, path, seed, chunk=None,
                 one_by_one=False, engine_args=()):
    """Has the engine compute the logits of all tokens of the prompts, lists of
    tokens: `path` is then fp32 [tokens of all prompts][vocabulary], in their
    order. `folder` is as export_model() made it of `seed`. Quantised weights
    are drawn again: codes of the exported numbers would be others. `chunk`:
    tokens of a prompt that are computed at once, default all; `one_by_one`:
    each token as a step of decoding. Seconds."""
    tokens = pathlib.Path(folder) / "tokens.json"
    tokens.write_text(json.dumps(prompts))
    how = (["--chunk", chunk] if chunk else []) + \
        (["--one-by-one"] if one_by_one else [])
    weights = ["--model", folder]
    if weight_options(engine_args):
        weights = ["--config", pathlib.Path(folder) / WANTED, "--seed", seed]
    run_command(program, "logits", *weights, "--tokens", tokens, "--out", path,
                *how, *engine_args)
