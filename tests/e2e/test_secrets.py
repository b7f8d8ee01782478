"""Keys and prompts stay where they are: unique words stand for them, and after more than thirty ways to go wrong on all
APIs, with the log at its most talkative, no log line, answer, header or metric holds one that does not belong there."""

import contextlib
import json
import os
import tempfile
import threading
import unittest

from apis import APIS, COUNT_TOKENS, MESSAGES, RESPONSES, sha256
from harness import JSON, Server, raw_exchange, until
from test_startup import run
from workers import Front, Misbehaving, Worker, entry

TENANT_KEY, ADMIN_KEY, WORKER_KEY = "canary-tenant-5d1f", "canary-admin-77ab", "canary-worker-c03e"
WORKER_NAME = "canary-gpu-1"
WRONG_KEY, PROMPT = "canary-wrong-90aa", "canary-prompt-7f3a9c"
KEYS = [{"name": "agents", "tenant": "acme", "sha256": sha256(TENANT_KEY)},
        {"name": "ops", "tenant": "ops", "env": "SECRET_ADMIN_KEY", "admin": True}]
ENVIRONMENT = {"SECRET_ADMIN_KEY": ADMIN_KEY, "SECRET_WORKER_KEY": WORKER_KEY}
EVERY = (*APIS, COUNT_TOKENS)


def bad_requests():
    """(path, body as text or document, headers): each is refused, or fails later."""
    for api in EVERY:
        body = api.body(PROMPT)
        text = json.dumps(body)
        yield api.path, text[:-1], {}  # cut off behind the prompt
        yield api.path, text.replace(PROMPT, PROMPT + "\x01"), {}
        yield api.path, text.replace(PROMPT, PROMPT + "\\q"), {}
        yield api.path, text.replace("}", ',"a":1,"a":2}', 1), {}
        yield api.path, text.encode().replace(PROMPT.encode(), PROMPT.encode() + b"\xff"), {}
        yield api.path, {**body, "temperature": PROMPT, "top_p": PROMPT, "metadata": PROMPT}, {}
        yield api.path, {**body, "stop": [[PROMPT]], "stop_sequences": [[PROMPT]]}, {}
        yield api.path, {**body, "tools": [{"type": "function", "name": {"x": PROMPT}}]}, {}
        yield api.path, {**body, "nvext": {"annotations": {PROMPT: 1}}}, {}
        yield api.path, {**body, "chat_template": "{{ '" + PROMPT + "' }}"}, {}
        yield api.path, {**body, "model": "not-served"}, {}
        yield api.path, text, {"content-type": "text/plain"}
        yield api.path, text, {"origin": "http://attacker.example"}
        yield api.path, text, {"host": "attacker.example"}
        yield api.path, text, {"content-encoding": "gzip"}
        yield api.path, text, {"authorization": "Bearer " + WRONG_KEY}
        yield api.path, text, {"x-api-key": WRONG_KEY}
        yield api.path, text, {"x-api-key": WRONG_KEY, "authorization": "Bearer " + TENANT_KEY}
        yield api.path, text, {"authorization": "Basic " + WRONG_KEY}
        yield api.path, text, {"upgrade": "websocket"}
        yield api.path, text, {"x-session-id": "s" * 600}
        yield api.path, {**body, "messages": [{"role": "user", "content": {"x": PROMPT}}], "input": {"x": PROMPT},
                         "prompt": {"x": PROMPT}}, {}
        smell = {"role": "user", "content": [{"type": "smell", "x": PROMPT}]}
        yield api.path, {**body, "messages": [smell], "input": [{"type": "message", **smell}]}, {}
        yield api.path, api.body((PROMPT + " ") * 10_000), {}  # longer than any context
    yield MESSAGES.path, MESSAGES.body(system=[{"type": "text", "text": 5, "x": PROMPT}]), {}
    yield MESSAGES.path, MESSAGES.body(messages=[{"role": "user", "content": PROMPT},
                                                 {"role": "assistant", "content": PROMPT}]), {}
    yield RESPONSES.path, RESPONSES.body(input=[{"type": "function_call", "name": "f", "arguments": {"x": PROMPT},
                                                 "call_id": "c"}]), {}
    yield RESPONSES.path, RESPONSES.body(PROMPT, previous_response_id="resp_none"), {}
    yield RESPONSES.path, RESPONSES.body(input=[{"type": "message", "role": "user", "content": [
        {"type": "input_image", "image_url": "http://127.0.0.1:1/" + PROMPT}]}]), {}
    yield "/tokenize", {"prompt": [PROMPT]}, {}
    yield "/tokenize", {"prompt": (PROMPT + " ") * 10_000}, {}
    yield "/detokenize", {"tokens": [PROMPT]}, {}
    yield "/v1/nowhere", {"x": PROMPT}, {}
    yield "/v1/models", {"x": PROMPT}, {}


class Secrets(unittest.TestCase):
    def setUp(self):
        self.told = []  # whatever clients were told

    def ask(self, server, path, body, headers=None, method="POST"):
        sent = {**JSON, "authorization": "Bearer " + TENANT_KEY, **(headers or {})}
        reply = server.request(method, path, body, sent)
        self.told.append((path, reply.status, str(reply.headers), reply.body.decode("utf-8", "replace")))
        return reply

    def check(self, servers):
        keys = (TENANT_KEY, ADMIN_KEY, WORKER_KEY, WRONG_KEY)
        for server in servers:
            for line in server.lines:
                for secret in (*keys, PROMPT):
                    self.assertNotIn(secret, line)
        for path, status, headers, body in self.told:
            for secret in keys:
                self.assertNotIn(secret, headers + body, (path, status))
            self.assertNotIn(PROMPT, headers + body, (path, status))
            if path != "/metrics":  # an administrator's
                self.assertNotIn(WORKER_NAME, headers + body, (path, status))

    def test_refusals(self):
        with Server("--log-level", "debug", "--ctx", "2048", script=[{"text": "Fine.", "repeat": True}],
                    config={"keys": KEYS}, environment=ENVIRONMENT) as server:
            statuses = {}
            for path, body, headers in bad_requests():
                status = self.ask(server, path, body, headers).status
                statuses[status] = statuses.get(status, 0) + 1
            for name, expected in ((400, 60), (401, 20), (403, 5), (404, 5), (405, 1), (415, 10), (421, 5), (426, 5)):
                self.assertGreaterEqual(statuses.get(name, 0), expected, statuses)
            self.assertLessEqual(statuses.get(200, 0), 40, "most of them are refused")
            self.raw(server)
            self.ask(server, "/metrics", None, {"authorization": "Bearer " + ADMIN_KEY}, "GET")
            self.assertEqual(self.told[-1][1], 200)
            self.ask(server, "/metrics", None, {"authorization": "Bearer " + ADMIN_KEY + "x"}, "GET")
            self.ask(server, "/v1/models", None, {"authorization": "Bearer " + ADMIN_KEY}, "DELETE")
        self.check([server])

    def raw(self, server):
        """What is no HTTP, or stops in the middle."""
        head = (f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {TENANT_KEY}\r\n"
                "content-type: application/json\r\n")
        for text in (f"GARBAGE {WRONG_KEY}\r\n\r\n", head + f"x {PROMPT}\r\n\r\n",
                     head + f"x-a: {'a' * 90_000}\r\n\r\n",
                     head + f"content-length: 5\r\ncontent-length: 6\r\n\r\n{PROMPT}",
                     head + f"transfer-encoding: chunked\r\n\r\nzz\r\n{PROMPT}",
                     head + f"content-length: {40 << 20}\r\n\r\n{PROMPT}",
                     head + f"content-length: 900\r\n\r\n{PROMPT}"):
            answer, _ = raw_exchange(server.port, text.encode(), timeout=1)
            self.told.append((text[:20], 0, "", answer.decode("utf-8", "replace")))

    def test_failures_of_the_engine(self):
        script = [{"match": "exhaust", "text": "once"},
                  {"match": "die", "chunks": ["half "], "finish": "die", "repeat": True},
                  {"match": "fail", "text": "x", "finish": "error", "repeat": True},
                  {"match": "slow", "chunks": ["word "] * 2000, "itl_ms": 5, "repeat": True}]
        with Server("--log-level", "debug", "--drain-deadline", "300ms", script=script, config={"keys": KEYS},
                    environment=ENVIRONMENT) as server:
            for api in APIS:
                for word in ("exhaust", "exhaust", "die", "fail"):
                    for stream in (False, True):
                        self.ask(server, api.path, api.body(f"{word} {PROMPT}", stream=stream))
            for api in APIS:  # the client goes in the middle, and the server does
                text = json.dumps(api.body(f"slow {PROMPT}", stream=True))
                head = (f"POST {api.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {TENANT_KEY}\r\n"
                        f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n")
                raw_exchange(server.port, (head + text).encode(), timeout=0.3)
            slow = [threading.Thread(target=self.drained, args=(server, api)) for api in APIS]
            for thread in slow:
                thread.start()
            until(lambda: server.request("GET", "/metrics", headers={"x-api-key": ADMIN_KEY}).body.decode().count(
                "vllm:num_requests_running{model_name=\"SmolLM2-135M-Instruct.Q8_0\"} 4") == 1, what="four requests")
            server.stop()
            for thread in slow:
                thread.join()
        self.assertTrue(any("engine" in line for line in server.lines))
        self.check([server])

    def drained(self, server, api):
        with contextlib.suppress(OSError):
            self.ask(server, api.path, api.body(f"slow {PROMPT}", stream=True))

    def test_failures_of_workers(self):
        """A worker's own words hold what it was sent; its key goes to it alone."""
        good = Worker("--name", "m", script=[{"text": "Fine.", "repeat": True}])
        self.addCleanup(good.stop)
        for mode in ("500", "echo", "echo in the stream", "odd values", "garbage"):
            with self.subTest(mode):
                bad = Misbehaving(mode, "m")
                self.addCleanup(bad.stop)
                entries = [{**entry(WORKER_NAME, bad.url), "api_key_env": "SECRET_WORKER_KEY"}]
                with Front(entries, "--log-level", "debug", config={"keys": KEYS}, environment=ENVIRONMENT) as front:
                    for api in APIS:
                        for stream in (False, True):
                            self.ask(front, api.path, api.body(PROMPT, stream=stream))
                    self.ask(front, "/metrics", None, {"authorization": "Bearer " + ADMIN_KEY}, "GET")
                    # A broken edit, and a worker that is none.
                    front.rewrite("workers: [{name: a, kind: vllm, url: 'http://127.0.0.1:1', api_key: "
                                  + WORKER_KEY + "}]")
                    until(lambda front=front: "api_key" in front.output(), what="the line about the edit")
                self.assertGreater(bad.asked, 0)
                self.check([front])

    def test_settings(self):
        with tempfile.TemporaryDirectory() as folder:
            def config(keys):
                path = os.path.join(folder, "k.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(keys if isinstance(keys, str) else json.dumps({"keys": keys}))
                return path
            said = []
            for keys in (KEYS, [{"name": "a", "tenant": "t", "sha256": TENANT_KEY}], [{"name": "a", "key": TENANT_KEY}],
                         [TENANT_KEY], [{"name": "a", "tenant": "t", "env": "SECRET_ADMIN_KEY", "sha256": sha256("x")}],
                         [KEYS[1], {**KEYS[1], "name": "b"}], "keys: {a: " + TENANT_KEY, "keys: " + TENANT_KEY):
                for more in ([], ["--print-config"]):
                    said += run("serve", "--port", "nope", "--config", config(keys), *more, environment=ENVIRONMENT)[1:]
                    said += run("serve", "--host", "0.0.0.0", "--port", "1", "--engine", "scripted:/none", "--config",
                                config(keys), *more, environment=ENVIRONMENT)[1:]
            for text in said:
                for secret in (TENANT_KEY, ADMIN_KEY):
                    self.assertNotIn(secret, text)


if __name__ == "__main__":
    unittest.main()
