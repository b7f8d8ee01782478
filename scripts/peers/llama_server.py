"""llama.cpp's own server under the cases of `kvern bench engine`, with the sizes that printed.

Times are the client's, taken at each event of the stream; the client does no more than look for lines.
"""

import http.client
import json
import os
import socket
import statistics
import subprocess
import threading
import time


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Stream(threading.Thread):
    """One streamed completion: when it began, when each token came, when it ended."""

    def __init__(self, port, prompt, tokens):
        super().__init__(daemon=True)
        self.arrivals = []
        self.end = None
        self.first = threading.Event()
        self.error = None
        self._last = b""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self._body = json.dumps({"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "temperature": 0,
                                 "cache_prompt": True, "stream": True})
        self.began = time.monotonic()
        self.start()

    def run(self):
        try:
            self._connection.request("POST", "/completion", self._body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            if answer.status != 200:
                raise OSError(f"llama-server: {answer.status} {answer.read(300)}")
            for line in answer:
                if line.startswith(b"data:"):
                    self.arrivals.append(time.monotonic())
                    self._last = line
                    self.first.set()
            self.end = time.monotonic()
        except (OSError, http.client.HTTPException) as error:
            self.error = error
        self.first.set()

    def finished(self):
        self.join()
        if self.error:
            raise self.error
        return self

    def hang_up(self):
        if self._connection.sock:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()

    def predicted(self):
        return json.loads(self._last[5:])["tokens_predicted"]


class LlamaServer:
    def __init__(self, binary, model, sizes, threads):
        self.port = free_port()
        self.sizes = sizes
        self._prompts = 0
        self._process = subprocess.Popen(
            [binary, "--model", model, "--host", "127.0.0.1", "--port", str(self.port), "--threads", str(threads),
             "--threads-batch", str(threads), "--ctx-size", str(sizes["cells"]), "--parallel", str(sizes["streams"]),
             "--kv-unified", "--cache-ram", "8192", "--no-webui"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        self._process.kill()
        raise OSError("llama-server did not start")

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()

    def prompt(self, count):
        """As Bench::prompt in engine_bench.cc; the vocabulary is the default model's."""
        ids = [1000 + (self._prompts * 7919 + i * 31) % (49152 - 1000) for i in range(count)]
        self._prompts += 1
        return ids

    def stream(self, prompt_tokens, tokens):
        return Stream(self.port, self.prompt(prompt_tokens), tokens)

    def speeds(self):
        sizes = self.sizes
        singles = [self.stream(sizes["prefill_tokens"], sizes["decode_tokens"] + 1).finished()
                   for _ in range(sizes["single_runs"])]
        figures = {"prefill_tokens_per_s": statistics.median(sizes["prefill_tokens"] / (one.arrivals[0] - one.began)
                                                             for one in singles),
                   "decode_tokens_per_s": statistics.median((one.predicted() - 1) / (one.end - one.arrivals[0])
                                                            for one in singles)}
        streams = [self.stream(sizes["stream_tokens"], sizes["decode_tokens"] + 1) for _ in range(sizes["streams"])]
        for stream in streams:
            stream.finished()
        begin = max(stream.arrivals[0] for stream in streams)
        end = min(stream.end for stream in streams)
        tokens = 0
        for stream in streams:
            # Tokens that end within a character share an event with the next.
            share = stream.predicted() / len(stream.arrivals)
            tokens += share * sum(begin < arrival <= end for arrival in stream.arrivals)
        figures["streams_tokens_per_s"] = tokens / (end - begin)
        figures["streams_ms"] = 1e3 * (max(s.end for s in streams) - streams[0].began)
        return figures

    def mixed(self):
        sizes = self.sizes
        decoding = []
        for _ in range(sizes["mixed_streams"]):
            decoding.append(self.stream(sizes["stream_tokens"], sizes["context_tokens"] - sizes["stream_tokens"]))
            decoding[-1].first.wait()
        begin = time.monotonic()
        for _ in range(sizes["mixed_prompts"]):
            self.stream(sizes["mixed_prompt_tokens"], 1).finished()
        end = time.monotonic()
        gaps = []
        for stream in decoding:
            stream.hang_up()
            inside = [arrival for arrival in stream.arrivals if begin <= arrival <= end]
            gaps += [1e3 * (b - a) for a, b in zip(inside, inside[1:])]
        gaps.sort()
        if not gaps:
            return {}
        return {f"stall_{name}_ms": gaps[min(int(share * len(gaps)), len(gaps) - 1)]
                for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1))}

    def park(self):
        sizes = self.sizes
        for _ in range(int(sizes["cells"] * sizes["parked_share"]) // sizes["parked_prefix_tokens"]):
            self.stream(sizes["parked_prefix_tokens"], 1).finished()

    def cases(self):
        self.stream(16, 1).finished()
        figures = {"empty": self.speeds(), "mixed": self.mixed()}
        self.park()
        figures["parked"] = self.speeds()
        return figures


def run(cache, model, sizes):
    """The figures, or None where the server is not there (scripts/setup --peers builds it)."""
    binary = os.path.join(cache, "llama-server")
    if not os.access(binary, os.X_OK):
        return None
    with LlamaServer(binary, model, sizes, len(os.sched_getaffinity(0))) as server:
        return server.cases()
