"""What end-to-end tests share: a running kvern, requests to it, and a look at its process from outside.

Tests start the binary named by KVERN_BINARY (default build/release/kvern) on a free port of loopback, each server with
a state folder of its own, so tests run side by side. Nothing here sleeps to let something happen: it waits for a
condition, with a deadline that only a broken server reaches.
"""

import collections
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(ROOT, os.environ.get("KVERN_BINARY", "build/release/kvern"))
CACHE = os.environ.get("KVERN_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "kvern")
MODEL = os.path.join(CACHE, "models", "SmolLM2-135M-Instruct.Q8_0.gguf")
FULL = os.environ.get("KVERN_FULL") == "1"
SANITIZED = "asan" in BINARY or "tsan" in BINARY
# Deadlines are for a server that hangs, so they are wide: this machine may be busy, a sanitized binary is slow.
PATIENCE = 120 if SANITIZED else 60
JSON = {"content-type": "application/json"}

Reply = collections.namedtuple("Reply", "status headers body")


def figure(name, value):
    """A measured number, for the log and whoever reads it."""
    print(f"figure: {name} = {value}", flush=True)


def until(condition, seconds=PATIENCE, what="the condition"):
    """Waits until condition() is true and returns its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds} s")
        time.sleep(0.01)


class Server:
    """A kvern process. Use as a context manager, or call stop()."""

    verb = "serve"

    def __init__(self, *arguments, script=None, config=None, environment=None, limits=None, wait=True, key=None):
        """`key` is sent with every request that brings none of its own."""
        self.key = key
        self.folder = tempfile.mkdtemp(prefix="kvern-e2e-")
        arguments = list(arguments)
        if script is not None:
            arguments += ["--engine", "scripted:" + self.write("script.jsonl", "".join(
                json.dumps(line) + "\n" for line in script))]
        if config is not None:
            # JSON is YAML too.
            arguments += ["--config", self.write("kvern.yaml", config if isinstance(config, str) else json.dumps(config))]
        port = [] if "--port" in arguments else ["--port", "0"]
        self.command = [BINARY, self.verb, *port, *arguments]
        self.lines = []
        self.url = None
        self.port = None
        self._listening = threading.Event()
        self.started = time.monotonic()
        variables = {**os.environ, "KVERN_CACHE": CACHE, "KVERN_STATE_DIR": os.path.join(self.folder, "state"),
                     **(environment or {})}

        def prepare():
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would come ignored, which kvern respects
            if limits:
                limits()

        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, env=variables, preexec_fn=prepare)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if wait:
            self.wait_listening()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def _read(self):
        for raw in self.process.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            self.lines.append(line)
            if "listening on http://" in line:
                self.url = line.split("listening on ", 1)[1].split()[0].rstrip("/")
                self.port = int(self.url.rsplit(":", 1)[1])
                self._listening.set()
        self._listening.set()

    def wait_listening(self):
        self._listening.wait(PATIENCE)
        if self.port is None:
            self.stop()
            raise AssertionError("kvern did not start:\n" + self.output())
        return self

    def output(self):
        return "\n".join(self.lines)

    # --- requests ---

    def connection(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE):
        """One request on a connection of its own. A dict or list is sent as JSON; text and bytes as they are."""
        sent = self.with_key(headers)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            sent = {**JSON, **sent}
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        connection = self.connection(timeout)
        try:
            try:
                connection.request(method, path, body=body, headers=sent)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before the body was taken: the answer is what counts, and must still be readable
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def with_key(self, headers):
        sent = dict(headers or {})
        if self.key and not {"authorization", "x-api-key"} & {name.lower() for name in sent}:
            sent["authorization"] = "Bearer " + self.key
        return sent

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def chat(self, text="hello", **fields):
        """A chat request that must succeed; returns the answer's document."""
        messages = fields.pop("messages", [{"role": "user", "content": text}])
        reply = self.post("/v1/chat/completions", {"messages": messages, **fields})
        if reply.status != 200:
            raise AssertionError(f"chat answered {reply.status}: {reply.body[:500]!r}")
        return json.loads(reply.body)

    def stream(self, path="/v1/chat/completions", **fields):
        return Stream(self, path, {"stream": True, **fields})

    def metrics(self):
        """Values of /metrics by name with labels as printed."""
        values = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                values[name] = float(value)
        return values

    def metric(self, name):
        """The sum of a metric over its labels; None when there is none of that name."""
        found = [value for key, value in self.metrics().items() if key.split("{")[0] == name]
        return sum(found) if found else None

    # --- the process from outside ---

    def _status(self, field):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise KeyError(field)

    def rss_mb(self):
        return self._status("VmRSS") / 1024

    def peak_mb(self):
        return self._status("VmHWM") / 1024

    def threads(self):
        return self._status("Threads")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, seconds=PATIENCE):
        """Its exit code; all that it said is in output() then."""
        try:
            code = self.process.wait(seconds)
            self._reader.join(5)
            return code
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise AssertionError(f"kvern did not end within {seconds} s:\n{self.output()}") from error

    def stop(self):
        """Ends it, as an operator would; returns the exit code."""
        if self.alive():
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(10 if not SANITIZED else 60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        code = self.process.wait()
        self._reader.join(5)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Stream:
    """A streamed answer, read event by event. Closing it early is a client that hangs up."""

    def __init__(self, server, path, body, timeout=PATIENCE):
        self.connection = server.connection(timeout)
        self.connection.request("POST", path, json.dumps(body), server.with_key(JSON))
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def __iter__(self):
        """Yields each event's document; the closing [DONE] as the string."""
        data = []
        for raw in self.response:
            line = raw.decode("utf-8").rstrip("\r\n")
            if line.startswith("data:"):
                data.append(line[5:].strip())
            elif not line and data:
                text = "\n".join(data)
                data = []
                yield text if text == "[DONE]" else json.loads(text)
        self.response.close()
        self.connection.close()

    def hang_up(self):
        # shutdown first: a response object keeps a reference to the socket, so close alone sends nothing.
        if self.connection.sock is not None:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()

    close = hang_up

    def text(self):
        """Reads to the end; joins the content of the deltas."""
        out = ""
        for event in self:
            if event == "[DONE]":
                continue
            if "error" in event:
                raise AssertionError(f"the stream failed: {event}")
            for choice in event["choices"]:
                out += (choice.get("delta") or {}).get("content") or choice.get("text") or ""
        return out


def raw_exchange(port, *pieces, timeout=10.0, read=True):
    """Sends bytes as they are on one connection; returns (all bytes answered, whether the server closed)."""
    answer, closed = b"", False
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            closed = True
        deadline = time.monotonic() + timeout
        while read:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                piece = connection.recv(65536)
            except (TimeoutError, socket.timeout):
                break
            except ConnectionResetError:
                closed = True
                break
            if not piece:
                closed = True
                break
            answer += piece
    return answer, closed


def statuses(answer):
    """The status of every response in bytes that came back on one connection."""
    found = []
    while answer:
        head, separator, rest = answer.partition(b"\r\n\r\n")
        if not separator or not head.startswith(b"HTTP/1."):
            break
        found.append(int(head.split()[1]))
        lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        answer = rest[int(lengths[0]):] if lengths else b""
    return found


REPEAT_HELLO = [{"text": "Hello from the script.", "repeat": True}]


class ScriptedCase(unittest.TestCase):
    """One server with a script, shared by the tests of a class."""

    script = REPEAT_HELLO
    arguments = ()
    config = None
    environment = None
    key = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.arguments, script=cls.script, config=cls.config, environment=cls.environment,
                            key=cls.key)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        if code != 0:
            raise AssertionError(f"kvern ended with {code}:\n{cls.server.output()[-4000:]}")

    def assert_unharmed(self):
        self.assertTrue(self.server.alive(), self.server.output()[-2000:])
        self.assertEqual(self.server.chat("still there?", max_tokens=8)["choices"][0]["finish_reason"] in
                         ("stop", "length"), True)


class ModelCase(ScriptedCase):
    """One server with the default model on the embedded engine."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.arguments, config=cls.config, environment=cls.environment)
