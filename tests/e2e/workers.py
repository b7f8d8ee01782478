"""What the tests of workers share: kvern worker processes, workers that misbehave, and crowds of streams."""

import contextlib
import http.server
import json
import os
import tempfile
import threading

from harness import MODEL, PATIENCE, Server, until

# What a scripted worker answers: each prompt its own text, a token each few milliseconds.
WORDS = " ".join(f"w{n}" for n in range(40))
SCRIPT = [{"match": "quick", "text": "one two three", "repeat": True},
          {"text": WORDS, "itl_ms": 15, "repeat": True}]


# Well-formed, and something else where a number belongs.
ODD = {"tokens": ["a", None], "id": "c", "object": "text_completion",
       "choices": [{"index": 0, "text": "x", "token_ids": [1], "prompt_token_ids": [1], "finish_reason": "length"}],
       "usage": {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": [1]}}}


class Worker(Server):
    verb = "worker"

    def running(self):
        return self.metric("vllm:num_requests_running")


class Misbehaving:
    """A worker that passes every probe and answers completions as `mode` says."""

    def __init__(self, mode, model):
        self.mode = mode
        self.asked = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body, kind="application/json"):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if self.path == "/v1/models":
                    return self.answer(200, json.dumps(
                        {"data": [{"id": model, "max_model_len": 262_144}]}).encode())
                return self.answer(200, b"{}")

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                outer.asked += 1
                self.close_connection = True
                if outer.mode == "500":
                    self.answer(500, b"Traceback: /opt/secret/path")
                elif outer.mode == "echo":
                    self.answer(500, json.dumps({"error": {"message": body, "type": "EngineDeadError", "param": None,
                                                           "code": 500}}).encode())
                elif outer.mode == "echo in the stream":
                    self.answer(200, ("data: " + json.dumps({"error": {
                        "message": body, "type": "EngineDeadError", "code": 500}}) + "\n\n").encode(),
                        "text/event-stream")
                elif outer.mode == "odd values":
                    self.answer(200, json.dumps(ODD).encode())
                elif outer.mode == "garbage":
                    self.answer(200, b"data: {{{{ nonsense\n\n", "text/event-stream")
                elif outer.mode == "black hole":
                    with contextlib.suppress(OSError):
                        self.connection.recv(1)  # until the other side hangs up

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def entry(name, url, kind="kvern", **more):
    return {"name": name, "kind": kind, "url": url, "tokenizer": MODEL, **more}


def workers_json(*entries):
    return json.dumps({"workers": list(entries)})


class Front(Server):
    """kvern serve before workers."""

    def __init__(self, entries, *arguments, **more):
        handle, self.file = tempfile.mkstemp(prefix="kvern-workers-", suffix=".yaml")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(workers_json(*entries))
        super().__init__("--workers", self.file, *arguments, **more)

    def rewrite(self, text):
        with open(self.file + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self.file + ".new", self.file)

    def up(self):
        """Names of the workers that answer."""
        return {key.split('worker="')[1].split('"')[0] for key, value in self.metrics().items()
                if key.startswith("kvern_worker_up{") and value == 1}

    def running(self):
        return self.metric("vllm:num_requests_running")

    def stop(self):
        code = super().stop()
        with contextlib.suppress(OSError):
            os.unlink(self.file)
        return code


class Crowd:
    """Many streams at once. Each ends exact, with a clear error, or hangs: the test says which may be."""

    def __init__(self, server, count, prompt="go", **fields):
        self.server = server
        self.results = [None] * count
        self.began = [threading.Event() for _ in range(count)]
        self.fields = fields
        self.prompt = prompt
        self.threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, n):
        text, error, finish = "", None, None
        try:
            with contextlib.closing(self.server.stream(
                    messages=[{"role": "user", "content": f"{self.prompt} {n}"}], **self.fields)) as stream:
                if stream.status != 200:
                    body = json.loads(stream.response.read())
                    self.results[n] = ("", f"{stream.status} {body['error']['code']}", None)
                    return
                for event in stream:
                    if event == "[DONE]":
                        break
                    if "error" in event:
                        error = event["error"]["code"]
                        break
                    for choice in event["choices"]:
                        piece = choice["delta"].get("content") or ""
                        text += piece
                        finish = choice["finish_reason"] or finish
                        if piece:
                            self.began[n].set()
        except Exception as problem:  # a broken connection is a result, and a wrong one
            error = f"broken: {problem!r}"
        finally:
            self.began[n].set()
            if self.results[n] is None:
                self.results[n] = (text, error, finish)

    def wait_begun(self):
        for event in self.began:
            if not event.wait(PATIENCE):
                raise AssertionError("a stream did not begin")
        return self

    def wait(self):
        for thread in self.threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                raise AssertionError("a stream hangs")
        return self

    def exact(self, text):
        return [result for result in self.results if result == (text, None, "stop")]

    def errors(self):
        return [result for result in self.results if result[1] is not None]

    def check(self, test, text):
        """Every stream is exact, or a beginning of the text that ends in a clear error."""
        for result in self.results:
            said, error, finish = result
            if error is None:
                test.assertEqual((said, finish), (text, "stop"))
            else:
                test.assertTrue(text.startswith(said), result)
                test.assertNotIn("broken", error)
                test.assertIsNone(finish)


def quiet(*servers):
    """Nothing is left running anywhere."""
    for server in servers:
        until(lambda server=server: server.running() == 0, what="the end of every request")
