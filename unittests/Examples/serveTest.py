"""Tests `kiln-llama serve` with real clients, on stand-ins of the driver and of
NVRTC:

    serveTest.py KILN-LLAMA

KILN_DRIVER and KILN_NVRTC name the stand-ins. They compute nothing: new tokens
are what was in memory, which is the prompt where that is one token.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = None
JSON = {"Content-Type": "application/json"}
POSITIONS = 100000
# More tokens than a test waits for.
LONG = POSITIONS - 200
TIMEOUT = 60


def comes_true(condition, seconds=TIMEOUT):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Server:
    """A server with a tiny model of many positions."""

    folder = None

    @classmethod
    def model(cls):
        if not cls.folder:
            cls.folder = tempfile.TemporaryDirectory()
            path = pathlib.Path(cls.folder.name) / "model"
            subprocess.run([PROGRAM, "export", "--model", "tiny", "--out",
                            path], check=True, capture_output=True)
            config = json.loads((path / "config.json").read_text())
            config["max_position_embeddings"] = POSITIONS
            (path / "config.json").write_text(json.dumps(config))
        return pathlib.Path(cls.folder.name) / "model"

    def __init__(self, *options):
        model = self.model()
        environment = dict(os.environ,
                           KILN_CACHE_DIR=str(model.parent / "cache"))
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--model", model, "--mode", "predict",
             "--max-positions", str(POSITIONS), "--max-sequences", "4",
             "--token-budget", "64", "--pages", "1600",
             "--stream-tokens", str(POSITIONS), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment)
        line = self.process.stdout.readline()
        address = re.match(r"listening on http://127.0.0.1:(\d+)\n", line)
        assert address, self.process.stderr.read()
        self.port = int(address[1])

    def ready(self):
        line = self.process.stdout.readline()
        assert line == "ready\n", self.process.stderr.read()
        return self

    def __enter__(self):
        return self.ready()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port,
                                          timeout=TIMEOUT)

    def ask(self, method, path, body=None, headers=JSON):
        with contextlib.closing(self.connect()) as connection:
            if isinstance(body, dict):
                body = json.dumps(body)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers

    def complete(self, **fields):
        status, text, _ = self.ask("POST", "/v1/completions",
                                   {"ignore_eos": True} | fields)
        return status, json.loads(text)

    def metrics(self):
        status, text, headers = self.ask("GET", "/metrics")
        assert status == 200
        assert headers["Content-Type"] == (
            "application/openmetrics-text; version=1.0.0; charset=utf-8")
        return read_metrics(text)

    def gauge(self, name):
        return self.metrics()["kiln_llama_" + name]

    def outcome(self, name):
        return self.metrics()[
            f'kiln_llama_requests_total{{outcome="{name}"}}']

    def at_rest(self):
        values = self.metrics()
        return not any(values["kiln_llama_" + name] for name in
                       ("requests_open", "requests_running",
                        "requests_waiting", "cache_pages_in_use"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)


def read_metrics(text):
    """The samples of a text, which has to follow OpenMetrics 1.0."""
    assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
    name_form = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
    suffixes = {"counter": ["_total"], "gauge": [""], "info": ["_info"],
                "histogram": ["_bucket", "_count", "_sum"]}
    families, values, current = {}, {}, None
    for line in text.splitlines()[:-1]:
        described = re.fullmatch(rf"# (TYPE|UNIT|HELP) ({name_form}) (.+)",
                                 line)
        if described:
            kind, name, rest = described.groups()
            if kind == "TYPE":
                assert name not in families, f"twice: {name}"
                assert rest in suffixes, line
                families[name] = rest
                current = name
            assert name == current, line
            assert kind != "UNIT" or name.endswith("_" + rest), line
            continue
        sample = re.fullmatch(
            rf'({name_form})(\{{[a-z]+="[^"\\]*"\}})? (-?[0-9.e+-]+)', line)
        assert sample, line
        name, labels, value = sample.groups()
        assert name in [current + suffix
                        for suffix in suffixes[families[current]]], line
        assert name + (labels or "") not in values, line
        values[name + (labels or "")] = float(value)
    for name, kind in families.items():
        if kind == "histogram":
            buckets = [value for key, value in values.items()
                       if key.startswith(name + "_bucket{")]
            assert buckets == sorted(buckets), name
            assert buckets[-1] == values[name + "_count"], name
    return values


def events_of(answer):
    """The events of a stream, the last one included."""
    for line in answer:
        if line.startswith(b"data: "):
            data = line[len(b"data: "):].decode().strip()
            yield data if data == "[DONE]" else json.loads(data)


def raw_request(**fields):
    body = json.dumps({"ignore_eos": True} | fields).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


class ServeTest(unittest.TestCase):
    """One server for all tests here: each leaves it at rest."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-queue", "60").ready()

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        cls.server.__exit__()
        assert status == 0, status

    def tearDown(self):
        self.assertTrue(comes_true(self.server.at_rest))

    def raw(self):
        return contextlib.closing(socket.create_connection(
            ("127.0.0.1", self.server.port), TIMEOUT))

    def test_completion(self):
        status, answer = self.server.complete(prompt=[5, 6, 7], max_tokens=9,
                                              temperature=0)
        self.assertEqual(status, 200)
        choice = answer["choices"][0]
        self.assertEqual(len(choice["token_ids"]), 9)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(answer["usage"], {
            "prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12})
        _, answer = self.server.complete(prompt=[5], stop_token_ids=[5])
        choice = answer["choices"][0]
        self.assertEqual((choice["token_ids"], choice["finish_reason"]),
                         ([5], "stop"))
        # Token 2 ends text of this model.
        _, answer = self.server.complete(prompt=[2], ignore_eos=False)
        self.assertEqual(answer["choices"][0]["token_ids"], [2])
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")

    def test_stream(self):
        with contextlib.closing(self.server.connect()) as connection:
            # On a loaded host all tokens may be there before the first event.
            for _ in range(20):
                connection.request("POST", "/v1/completions", json.dumps(
                    {"prompt": [5] * 200, "max_tokens": 5000, "stream": True,
                     "ignore_eos": True}), JSON)
                answer = connection.getresponse()
                self.assertEqual(answer.headers["Content-Type"],
                                 "text/event-stream")
                *parts, last, done = events_of(answer)
                self.assertEqual(done, "[DONE]")
                if parts:
                    break
            self.assertGreater(len(parts), 0)
            for part in parts:
                self.assertIsNone(part["choices"][0]["finish_reason"])
            tokens = sum((part["choices"][0]["token_ids"]
                          for part in (*parts, last)), [])
            self.assertEqual(len(tokens), 5000)
            self.assertEqual(last["choices"][0]["finish_reason"], "length")
            self.assertEqual(last["usage"]["completion_tokens"], 5000)
            # The connection goes on.
            connection.request("GET", "/health")
            self.assertEqual(json.loads(connection.getresponse().read()),
                             {"status": "ready"})

    def test_bad_input(self):
        for fields, message in (
                ({"prompt": "text"}, "tokenizer"),
                ({"prompt": []}, "empty prompt"),
                ({"prompt": [512]}, "token 512, expected 0 to 511"),
                ({"prompt": [-1]}, "token -1"),
                ({"prompt": [1], "n": 2}, "n is 2"),
                ({"prompt": [1] * 9, "max_tokens": POSITIONS},
                 f"9 tokens with {POSITIONS} new ones exceeds {POSITIONS}")):
            status, answer = self.server.complete(**fields)
            self.assertEqual(status, 400)
            self.assertEqual(set(answer["error"]),
                             {"message", "type", "param", "code"})
            self.assertIn(message, answer["error"]["message"])
        for body in (b"", b"not JSON", b"[1]", b"\xff\xfe",
                     b'{"prompt": [' + b"1," * POSITIONS + b"1]}"):
            status, text, _ = self.server.ask("POST", "/v1/completions", body)
            self.assertEqual(status, 400)
            self.assertIn("error", json.loads(text))

    def test_large_body(self):
        status, text, _ = self.server.ask("POST", "/v1/completions",
                                          b" " * 10_000_000)
        self.assertEqual(status, 413)
        self.assertIn("1048576 bytes", text)
        # In chunks, whose sum is not known before.
        status, text, _ = self.server.ask(
            "POST", "/v1/completions", iter([b" " * 500_000] * 6))
        self.assertEqual(status, 413)

    def test_parallel_clients(self):
        def ask(i):
            status, answer = self.server.complete(
                prompt=[i + 1] * (1 + 7 * i), max_tokens=20 + i)
            return status, answer["usage"]["completion_tokens"]
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            results = list(pool.map(ask, range(50)))
        self.assertEqual(results, [(200, 20 + i) for i in range(50)])

    def test_clients_that_are_killed(self):
        before = self.server.outcome("cancelled")
        request = {"prompt": [5] * 100, "max_tokens": LONG}
        for hard in (False, True):
            with self.raw() as connection:
                connection.sendall(raw_request(**request, stream=True))
                self.assertIn(b"data: ", connection.recv(4096)
                              + connection.recv(4096))
                self.assertGreater(self.server.gauge("cache_pages_in_use"), 0)
                if hard:  # a reset instead of an end
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                          struct.pack("ii", 1, 0))
            self.assertTrue(comes_true(self.server.at_rest))
        # One that waits for a whole answer, and one that ends its side.
        for leave in (lambda s: s.close(),
                      lambda s: s.shutdown(socket.SHUT_WR)):
            with self.raw() as connection:
                connection.sendall(raw_request(**request))
                self.assertTrue(comes_true(
                    lambda: self.server.gauge("requests_running") > 0))
                leave(connection)
                self.assertTrue(comes_true(self.server.at_rest))
        self.assertEqual(self.server.outcome("cancelled"), before + 4)

    def test_pipelined_garbage(self):
        with self.raw() as connection:
            connection.sendall(raw_request(prompt=[5], max_tokens=200)
                               + b"\x00garbage\r\n\r\n" * 100)
            text = b""
            while data := connection.recv(65536):
                text += data
        self.assertTrue(text.startswith(b"HTTP/1.1 200 OK"))
        self.assertIn(b"HTTP/1.1 400 Bad Request", text)

    def test_fuzz(self):
        rng = random.Random(3)
        seed = (b'{"prompt": [1, 2, 3], "max_tokens": 5, "stream": true, '
                b'"temperature": 0.5, "stop_token_ids": [7]}')
        statuses = set()
        with contextlib.closing(self.server.connect()) as connection:
            for _ in range(500):
                body = bytearray(seed)
                for _ in range(rng.randrange(4)):
                    body[rng.randrange(len(body))] = rng.randrange(256)
                connection.request("POST", "/v1/completions", bytes(body),
                                   JSON)
                answer = connection.getresponse()
                answer.read()
                statuses.add(answer.status)
        self.assertEqual(statuses, {200, 400})


class LifeTest(unittest.TestCase):
    def test_full_queue(self):
        with Server("--max-queue", "2", "--max-connections", "20") as server:
            sockets = []
            for _ in range(6):
                sockets.append(socket.create_connection(
                    ("127.0.0.1", server.port), TIMEOUT))
                sockets[-1].sendall(raw_request(
                    prompt=[5], max_tokens=LONG, stream=True))
            self.assertTrue(comes_true(
                lambda: server.gauge("requests_open") == 6))
            status, text, headers = server.ask("POST", "/v1/completions",
                                               {"prompt": [5]})
            self.assertEqual(status, 429)
            self.assertEqual(headers["Retry-After"], "1")
            self.assertEqual(json.loads(text)["error"]["code"], "queue_full")
            for connection in sockets:
                connection.close()
            self.assertTrue(comes_true(server.at_rest))
            self.assertEqual(server.outcome("cancelled"), 6)
            # Idle connections up to the limit, then one more.
            sockets = [socket.create_connection(("127.0.0.1", server.port))
                       for _ in range(20)]
            self.assertTrue(comes_true(
                lambda: sockets[-1].sendall(b"G") is None))
            with contextlib.closing(socket.create_connection(
                    ("127.0.0.1", server.port), TIMEOUT)) as connection:
                self.assertTrue(connection.recv(100).startswith(
                    b"HTTP/1.1 503"))
            for connection in sockets:
                connection.close()
            self.assertTrue(comes_true(server.at_rest))
            self.assertEqual(server.stop(), 0)

    def test_slow_reader(self):
        with Server("--stream-tokens", "256") as server:
            slow = socket.socket()
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            with contextlib.closing(slow):
                slow.connect(("127.0.0.1", server.port))
                slow.sendall(raw_request(prompt=[5], max_tokens=LONG,
                                         stream=True))
                status, _ = server.complete(prompt=[7], max_tokens=50)
                self.assertEqual(status, 200)
                self.assertTrue(comes_true(
                    lambda: server.outcome("slow") == 1))
                self.assertTrue(comes_true(server.at_rest))

    def test_loading(self):
        server = Server()
        with contextlib.closing(server.process.stdout):
            status, text, _ = server.ask("GET", "/health")
            if status == 503:  # else it has loaded quickly
                self.assertEqual(json.loads(text), {"status": "loading"})
            self.assertEqual(server.stop(), 0)
            server.process.stderr.close()

    def test_full_cache(self):
        # Two of them fill the cache before they end.
        with Server("--pages", "100") as server:
            def ask(i):
                return server.complete(prompt=[i + 1], max_tokens=6000)
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for status, answer in pool.map(ask, range(4)):
                    self.assertEqual(status, 200)
                    self.assertEqual(answer["usage"]["completion_tokens"],
                                     6000)
            self.assertGreater(server.gauge("preemptions_total"), 0)
            self.assertTrue(comes_true(server.at_rest))
            status, answer = server.complete(prompt=[1], max_tokens=6400)
            self.assertEqual(status, 400)
            self.assertIn("needs 100 pages, but the pool has 99",
                          answer["error"]["message"])

    def test_half_open_connections(self):
        with Server("--header-seconds", "0.3", "--body-seconds",
                    "0.3") as server:
            for start in (b"", b"POST /v1/comp", b"POST /v1/completions "
                          b"HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Length: 9\r\n\r\n{"):
                with contextlib.closing(socket.create_connection(
                        ("127.0.0.1", server.port), TIMEOUT)) as connection:
                    connection.sendall(start)
                    self.assertEqual(connection.recv(100), b"")
            self.assertEqual(server.gauge("connections"), 1)

    def drained(self, seconds, tokens):
        """The last event of a request that is in flight at a signal."""
        with Server("--drain-seconds", str(seconds)) as server:
            with contextlib.closing(server.connect()) as connection:
                connection.request("POST", "/v1/completions", json.dumps(
                    {"prompt": [5], "max_tokens": tokens, "stream": True,
                     "ignore_eos": True}), JSON)
                answer = connection.getresponse()
                server.process.send_signal(signal.SIGTERM)
                *_, last, done = events_of(answer)
            self.assertEqual(done, "[DONE]")
            self.assertEqual(server.process.wait(TIMEOUT), 0)
        return last

    def test_signal_with_requests_in_flight(self):
        last = self.drained(60, 4000)
        self.assertEqual(last["choices"][0]["finish_reason"], "length")
        self.assertEqual(last["usage"]["completion_tokens"], 4000)
        for _ in range(20):  # a loaded host may see the signal late
            last = self.drained(0.01, LONG)
            if last["choices"][0]["finish_reason"] == "cancelled":
                break
        self.assertEqual(last["choices"][0]["finish_reason"], "cancelled")
        self.assertLess(last["usage"]["completion_tokens"], LONG)

    def test_draining_takes_no_request(self):
        with Server() as server:
            with contextlib.closing(server.connect()) as connection:
                connection.request("POST", "/v1/completions", json.dumps(
                    {"prompt": [5], "max_tokens": LONG, "stream": True,
                     "ignore_eos": True}), JSON)
                connection.getresponse()
                server.process.send_signal(signal.SIGINT)
                self.assertTrue(comes_true(
                    lambda: server.ask("GET", "/health")[0] == 503))
                status, text, _ = server.ask("POST", "/v1/completions",
                                             {"prompt": [5]})
                self.assertEqual(status, 503)
                self.assertEqual(json.loads(text)["error"]["code"],
                                 "draining")
            # The client has left: nothing is in flight.
            self.assertEqual(server.process.wait(TIMEOUT), 0)

    def test_options(self):
        for options, message in (
                (["--host", "0.0.0.0"], "--listen-anywhere allows it"),
                (["--port", "65536"], "expected 0 to 65535"),
                (["--max-connections", "0"], "whole number of 1 or more"),
                (["--nothing"], "no option --nothing")):
            result = subprocess.run(
                [PROGRAM, "serve", "--model", "tiny", *options],
                capture_output=True, text=True, timeout=TIMEOUT)
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)
        text = subprocess.run([PROGRAM, "--help"], capture_output=True,
                              text=True).stdout
        self.assertIn("serve:", text)
        self.assertIn("no\ntokenizer", text)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
