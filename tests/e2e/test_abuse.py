"""The cases of cases/abuse.jsonl: requests that did harm to servers of this kind elsewhere, each with its source.

A case is either an HTTP request (`method`, `path`, `headers`, `body` or `body_gen`, a Python expression) or `tcp`, steps
on one connection: ["send", text], ["gen", expression], ["drip", text, seconds between bytes, seconds in all],
["sleep", seconds], ["read", seconds]. `variants` vary it: fields of the request, or values of $NAMES. `repeat` and
`parallel` send it often; I is then the number. `expect`: status (0: no answer), closed, max_s; its `property` lines are
the methods property_<id> here. Cases with `needs` and `steps` are methods of their own, some in other modules. What a
case does to Chat Completions is done to Responses and Messages as well. After each, what the server holds must be back
where it was, and a normal request must be answered.
"""

import concurrent.futures
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from apis import sha256
from harness import FULL, JSON, REPEAT_HELLO, SANITIZED, ScriptedCase, Server, figure, statuses, until

HERE = os.path.dirname(os.path.abspath(__file__))
CHAT_PATH = "/v1/chat/completions"
OTHER_PATHS = ("/v1/responses", "/v1/messages")
KEY = "key-of-the-abuser"
# Steps that other modules take: they need servers of their own, and have many more rows there.
ELSEWHERE = {"auth-every-route": "test_keys", "secrets-in-logs": "test_secrets",
             "worker-endless-line": "test_abuse_workers", "cancelled-connection-reuse": "test_abuse_workers",
             "template-runaway": "test_abuse_template", "cache-oracle-time": "test_abuse_cache"}
# Cases about what is not built yet, each with what it waits for. Their rows come with it.
NOT_YET = {"cache-evict-flood": "a tenant's share of the KV pool: until then one may fill it (SECURITY.md)",
           "tier-file-tampered": "a disk tier: no KV block is written to a file"}
KNOWN = """
    http-cl-and-te http-chunk-size-odd http-host-rewrites-path http-header-flood http-slow-headers http-body-over-limit
    http-pipeline-no-read json-depth json-duplicate-keys json-bad-text min-tokens-over-max token-ids-out-of-range
    engine-knobs-not-forwarded priority-extremes template-from-client template-runaway special-tokens-joined
    reasoning-tag-in-user-text ssrf-worker-from-request auth-every-route auth-hostile-key auth-browser-origin
    tenant-session-id cache-oracle-time cache-evict-flood schema-recursion schema-unique-flood worker-endless-line
    cancelled-connection-reuse secrets-in-logs tier-file-tampered fd-exhaustion clock-jump
""".split()
# What an API does not know has no effect there.
UNKNOWN_THERE = {("min-tokens-over-max", "/v1/messages")}
BIG = "a" * 100_000


def cases():
    with open(os.path.join(HERE, "cases", "abuse.jsonl"), encoding="utf-8") as file:
        return {case["id"]: case for case in map(json.loads, file)}


def as_sent_to(path, how):
    """A request for Chat Completions as one for `path`: the same harm, in the other dialect's words."""
    how = {**how, "path": path}
    if "body_gen" in how:
        text = how["body_gen"]
        if path == "/v1/responses":
            text = text.replace("messages", "input")
        elif "max_tokens" not in text:
            text = text.replace('"model":"$MODEL",', '"model":"$MODEL","max_tokens":4,')
        return {**how, "body_gen": text}
    if "messages" not in how.get("body", {}):
        return how
    body = dict(how["body"])
    if path == "/v1/messages":
        body["max_tokens"] = body.get("max_tokens") or 4
        if "response_format" in body:
            schema = body.pop("response_format")["json_schema"]["schema"]
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        return {**how, "body": body}
    body["input"] = [{**turn, "content": [{**part, "type": "input_text"} for part in turn["content"]]}
                     if isinstance(turn["content"], list) else turn for turn in body.pop("messages")]
    if "response_format" in body:
        schema = body.pop("response_format")
        body["text"] = {"format": {"type": schema["type"], **schema["json_schema"]}}
    return {**how, "body": body}


def on_every_api(how):
    """`how`, and where it is about Chat Completions its likes on the other APIs."""
    if how.get("path") == CHAT_PATH:
        return [how, *(as_sent_to(path, how) for path in OTHER_PATHS)]
    if "tcp" in how and CHAT_PATH in json.dumps(how["tcp"]):
        return [how, *({**how, "tcp": json.loads(json.dumps(how["tcp"]).replace(CHAT_PATH, path))}
                       for path in OTHER_PATHS)]
    return [how]


def files_of(server):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(server.folder) for name in names)


def written_by(server):
    """Bytes that the process made some disk write."""
    with open(f"/proc/{server.process.pid}/io", encoding="utf-8") as file:
        return dict(line.split(": ") for line in file.read().splitlines())["write_bytes"]


class Canary:
    """A port that nobody may connect to."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.visits = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.visits += 1
            connection.close()

    def close(self):
        self.socket.close()


class CaseRunner(ScriptedCase):
    def setUp(self):
        self.canary = Canary()
        self.addCleanup(self.canary.close)
        self.server.chat(max_tokens=4)  # warm: what is allocated once is no growth
        self.rss, self.descriptors = self.server.rss_mb(), self.server.descriptors()

    def assert_back(self, slack_mb=16):
        self.assert_unharmed()
        until(lambda: self.server.descriptors() <= self.descriptors + 2, what="closed connections")
        if not SANITIZED:
            until(lambda: self.server.rss_mb() <= self.rss + slack_mb, what="memory given back")

    # --- running a case ---

    def values(self, more):
        known = {"HOST": f"127.0.0.1:{self.server.port}", "KEY_A": KEY, "MODEL": "",
                 "CANARY": str(self.canary.port), "BIG": BIG}
        known.update({name: value for name, value in more.items() if name.isupper()})
        for _ in range(2):  # a value may name another ($HOST inside $H)
            known = {name: self.fill(value, known) for name, value in known.items()}
        return known

    @staticmethod
    def fill(text, values):
        return re.sub(r"\$([A-Z][A-Z_]*)", lambda match: values.get(match[1], match[0]), text)

    def fill_all(self, value, values):
        if isinstance(value, str):
            return self.fill(value, values)
        if isinstance(value, dict):
            return {name: self.fill_all(item, values) for name, item in value.items()}
        return value

    def over_http(self, how, values, number=0):
        if "body_gen" in how:
            body = eval(self.fill(how["body_gen"], values), {"json": json, "I": number})  # our own cases
        else:
            body = json.dumps(self.fill_all(how["body"], values)) if "body" in how else None
            body = body and body.replace("$MODEL", values["MODEL"])
        headers = self.fill_all(how.get("headers", {}), values)
        if body is not None and "content-type" not in headers:
            headers.update(JSON)
        reply = self.server.request(how["method"], how["path"], body, headers)
        return [reply.status], True, reply

    def over_tcp(self, steps, values):
        answer, closed = b"", False
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as connection:
            def receive(seconds):
                nonlocal answer, closed
                deadline = time.monotonic() + seconds
                while not closed and time.monotonic() < deadline:
                    connection.settimeout(max(0.001, deadline - time.monotonic()))
                    try:
                        piece = connection.recv(65536)
                    except TimeoutError:
                        return
                    except ConnectionError:
                        piece = b""
                    closed = closed or not piece
                    answer += piece

            def send(data):
                # Alternates with nothing else: a server that stops reading makes this time out, which is an answer.
                connection.settimeout(2)
                try:
                    connection.sendall(data)
                except (TimeoutError, ConnectionError):
                    pass

            for step, *operands in steps:
                if step == "send":
                    send(self.fill(operands[0], values).encode())
                elif step == "gen":
                    send(eval(self.fill(operands[0], values), {}).encode())
                elif step == "drip":
                    text, between, total = operands
                    started = time.monotonic()
                    for byte in self.fill(text, values).encode():
                        if closed or time.monotonic() - started > total:
                            break
                        send(bytes([byte]))
                        receive(between)
                    receive(max(0.0, total - (time.monotonic() - started)))
                elif step == "sleep":
                    time.sleep(operands[0])
                elif step == "read":
                    receive(operands[0])
        return statuses(answer) or [0], closed, answer

    def run_case(self, name):
        case = cases()[name]
        how, expect = case["how"], case["expect"]
        for variant, varied in ((variant, one) for variant in how.get("variants", [{}]) for one in on_every_api(
                {**how, **{key: value for key, value in variant.items() if not key.isupper()}})):
            with self.subTest(case=name, variant=str(variant)[:120], path=varied.get("path")):
                values = self.values(variant)
                allowed = expect.get("status")
                if (name, varied.get("path")) in UNKNOWN_THERE:
                    allowed = [*allowed, 200]
                count, parallel = how.get("repeat", 1), how.get("parallel", 1)
                started = time.monotonic()
                if "tcp" in how:
                    outcomes = [self.over_tcp(how["tcp"], values)]
                else:
                    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
                        outcomes = list(pool.map(lambda i: self.over_http(varied, values, i), range(count)))
                seconds = time.monotonic() - started
                for seen, closed, _ in outcomes:
                    if allowed is not None:
                        self.assertIn(seen[0], allowed)
                    if "tcp" in how and "closed" in expect:
                        self.assertEqual(closed, expect["closed"])
                if "max_s" in expect and not SANITIZED:
                    self.assertLessEqual(seconds, expect["max_s"] + 1)
                check = getattr(self, "property_" + name.replace("-", "_"), None)
                if check:
                    check(outcomes, variant)
        self.assert_back()

    def property_auth_browser_origin(self, outcomes, _):
        self.assertNotIn("access-control-allow-origin", outcomes[0][2].headers)


class Abuse(CaseRunner):
    config = {"keys": [{"name": "abuser", "tenant": "t", "sha256": sha256(KEY)}]}
    key = KEY

    # --- properties ---

    def property_http_cl_and_te(self, outcomes, _):
        self.assertEqual(len(outcomes[0][0]), 1, "exactly one response")

    def property_http_header_flood(self, outcomes, _):
        self.assertEqual(outcomes[0][0], [431], "the answer must arrive, not only a reset")

    def property_http_body_over_limit(self, outcomes, _):
        self.assertLessEqual(self.server.peak_mb() - self.rss, 36)

    def property_http_pipeline_no_read(self, _, __):
        grown = self.server.rss_mb() - self.rss
        figure("RSS growth by 20,000 pipelined requests that nobody reads, MB", round(grown, 1))
        if not SANITIZED:
            self.assertLessEqual(grown, 2)

    def property_json_bad_text(self, outcomes, _):
        outcomes[0][2].body.decode("utf-8")  # strict: what comes back is valid

    def property_ssrf_worker_from_request(self, outcomes, _):
        self.assertEqual(self.canary.visits, 0)
        self.assertNotIn("decode_addr", outcomes[0][2].headers["x-request-id"], "ids are minted here")

    def property_reasoning_tag_in_user_text(self, outcomes, _):
        answer = json.loads(outcomes[0][2].body)
        if "choices" in answer:
            message = answer["choices"][0]["message"]
            self.assertFalse(message.get("tool_calls"))
            self.assertFalse(message.get("reasoning_content"))
        else:
            kinds = [item["type"] for item in answer.get("output", answer.get("content"))]
            self.assertIn(kinds, (["message"], ["text"]))

    def property_auth_hostile_key(self, outcomes, variant):
        if outcomes[0][0] == [401]:  # not where the head alone is too large
            self.assertEqual(outcomes[0][2].body, self.server.get("/v1/models", headers={"x-api-key": "any"}).body)
        key = variant["headers"]["authorization"].removeprefix("Bearer ")
        self.assertNotIn(self.fill(key, {"BIG": BIG})[:200], self.server.output())

    def property_special_tokens_joined(self, _, __):
        # The same text in one part: special ids would make it shorter than its characters allow.
        def ids(text):
            reply = self.server.post("/tokenize", {"messages": [{"role": "user", "content": text}]})
            return json.loads(reply.body)["tokens"]
        marked, plain = ids("a<|im_end|>b"), ids("a b")
        self.assertEqual(marked.count(2), plain.count(2), "user text makes no end-of-turn token")

    # --- cases with steps of their own ---

    def test_tenant_session_id(self):
        """Leases come later; until then a session id is a word of its tenant's and of no effect on others."""
        keys = [{"name": name, "tenant": name, "sha256": sha256(name)} for name in ("a", "b")]
        with Server("--ctx", "1024", config={"keys": keys}) as server:
            def cached(key):
                turns = [{"role": "user", "content": "word " * 100}]
                reply = server.post(CHAT_PATH, {"messages": turns, "max_tokens": 1},
                                    headers={"x-api-key": key, "session-id": "S", "x-dynamo-session-id": "S",
                                             "x-dynamo-session-final": "true" if key == "b" else "false"})
                self.assertEqual(reply.status, 200, reply.body)
                return json.loads(reply.body)["usage"]["prompt_tokens_details"]["cached_tokens"]
            self.assertEqual(cached("a"), 0)
            self.assertEqual(cached("b"), 0)
            self.assertGreater(cached("a"), 0, "what B said of S changed nothing for A")

    def test_fd_exhaustion(self):
        server = Server(script=REPEAT_HELLO, limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)))
        held = []
        try:
            for _ in range(500):
                try:
                    held.append(socket.create_connection(("127.0.0.1", server.port), timeout=1))
                except OSError:
                    break  # the backlog is full: as good as refused
            # While full the loop must not spin on accept.
            cpu, wall = server.cpu_seconds(), time.monotonic()
            time.sleep(1)
            share = (server.cpu_seconds() - cpu) / (time.monotonic() - wall)
            figure("CPU share while out of descriptors", round(share, 3))
            self.assertLessEqual(share, 0.05 if not SANITIZED else 0.5)
            for connection in held[:400]:
                connection.close()
            del held[:400]
            started = time.monotonic()

            def answered():
                try:
                    return server.request("GET", "/live", timeout=2).status == 200
                except OSError:
                    return False
            until(answered, 10, "recovery after 400 connections closed")
            figure("recovery after descriptor exhaustion, s", round(time.monotonic() - started, 3))
        finally:
            for connection in held:
                connection.close()
            self.assertEqual(server.stop(), 0)

    def test_clock_jump(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        offset, shim = os.path.join(folder, "offset"), os.path.join(folder, "shim.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim, os.path.join(HERE, "clock_shim.c")], check=True)

        def jump(years):
            with open(offset + ".new", "wb") as file:
                file.write(int(years * 365.25 * 86400).to_bytes(8, "little", signed=True))
            os.replace(offset + ".new", offset)

        jump(0)
        script = [{"chunks": ["word "] * 100, "itl_ms": 10, "repeat": True}]
        server = Server(script=script, environment={"LD_PRELOAD": shim, "CLOCK_SHIM_FILE": offset})
        try:
            idle = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            for years in (10, -10, 0):
                stream = server.stream(messages=[{"role": "user", "content": "go"}])
                events = iter(stream)
                next(events)
                jump(years)
                rest = list(events)
                self.assertEqual(rest[-1], "[DONE]")
                stream.close()
                created = server.chat(max_tokens=1)["created"]
                self.assertLess(abs(created - time.time() - years * 365.25 * 86400), 120, "stamps follow the wall clock")
            # No deadline of the resting connection fired: it still serves.
            idle.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.assertTrue(idle.recv(100).startswith(b"HTTP/1.1 200"))
            idle.close()
        finally:
            self.assertEqual(server.stop(), 0)

    def test_schema_unique_flood(self):
        """Each request brings a schema that nobody sent before."""
        case = cases()["schema-unique-flood"]
        how, allowed = case["how"], case["expect"]["status"]
        warm, count = (300, how["repeat"]) if FULL else (60, 300)
        numbers = iter(range(1_000_000))

        def ask(path):
            body = eval(self.fill(how["body_gen"], self.values({})), {"json": json, "I": next(numbers)})
            sent = as_sent_to(path, {"body": json.loads(body)})["body"] if path != CHAT_PATH else json.loads(body)
            reply = self.server.post(path, {**sent, "store": False})  # what is asked to be kept is kept
            self.assertIn(reply.status, allowed, reply.body)

        with concurrent.futures.ThreadPoolExecutor(how["parallel"]) as pool:
            for path in (CHAT_PATH, *OTHER_PATHS):
                with self.subTest(path=path):
                    list(pool.map(ask, [path] * warm))
                    rss, files, written = self.server.rss_mb(), files_of(self.server), written_by(self.server)
                    list(pool.map(ask, [path] * (count - warm)))
                    grown = self.server.rss_mb() - rss
                    figure(f"RSS growth by {count - warm} unique schemas at {path}, MB", round(grown, 1))
                    if not SANITIZED:
                        self.assertLessEqual(grown, 16)
                    self.assertEqual((files_of(self.server), written_by(self.server)), (files, written))
        self.assert_back()

    @unittest.skipUnless(FULL, "500 dripping connections: in check-full")
    def test_slow_headers_by_the_hundred(self):
        def p99():
            times = []
            for _ in range(100):
                started = time.monotonic()
                self.server.get("/live")
                times.append(time.monotonic() - started)
            return sorted(times)[98]
        alone = p99()
        dripping = []
        for _ in range(500):
            connection = socket.create_connection(("127.0.0.1", self.server.port))
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nx-a: b")
            dripping.append(connection)
        beside = p99()
        for connection in dripping:
            connection.close()
        figure("p99 of /live alone and beside 500 slow headers, ms", (round(alone * 1e3, 2), round(beside * 1e3, 2)))
        self.assertLessEqual(beside, max(2 * alone, 0.02))
        self.assert_back()


def add_case(name):
    setattr(Abuse, "test_" + name.replace("-", "_"), lambda self: self.run_case(name))


for _name, _case in cases().items():
    if "steps" not in _case["how"] and not hasattr(Abuse, "test_" + _name.replace("-", "_")):
        add_case(_name)


class EveryCaseRuns(unittest.TestCase):
    def test_every_known_case_is_here_or_waits(self):
        self.assertEqual(sorted([*cases(), *NOT_YET]), sorted(KNOWN))
        self.assertEqual(len(KNOWN), 33)

    def test_modules_of_cases_elsewhere_are_there(self):
        for name, module in ELSEWHERE.items():
            self.assertTrue(os.path.exists(os.path.join(HERE, module + ".py")), name)

    def test_each_case_with_steps_has_a_method(self):
        for name in cases():
            self.assertTrue(name in ELSEWHERE or hasattr(Abuse, "test_" + name.replace("-", "_")), name)


class WithoutKeys(CaseRunner):
    """On a laptop nobody has a key: a page in the browser and a forged Host are refused all the same."""

    def test_browser_origin(self):
        self.run_case("auth-browser-origin")

    def test_host(self):
        self.run_case("http-host-rewrites-path")


if __name__ == "__main__":
    unittest.main()
