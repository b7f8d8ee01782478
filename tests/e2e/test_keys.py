"""Keys and tenants, on every route and every API: who gets in, as whom, and what he is told."""

import json
import os
import tempfile
import unittest

from apis import APIS, CHAT, MESSAGES, RESPONSES, sha256
from harness import JSON, REPEAT_HELLO, ScriptedCase, Server, raw_exchange, until
from test_startup import run
from workers import SCRIPT, Front, Worker, entry

KEYS = [{"name": "agents", "tenant": "acme", "sha256": sha256("key-a")},
        {"name": "gateway", "tenant": "shop", "sha256": sha256("key-p"), "trusted": True},
        {"name": "ops", "tenant": "ops", "env": "TEST_ADMIN_KEY", "admin": True}]
ADMIN = {"TEST_ADMIN_KEY": "key-z"}


def bearer(key):
    return {"authorization": "Bearer " + key}


class WithKeys(ScriptedCase):
    config = {"keys": KEYS}
    environment = ADMIN
    key = "key-a"

    def ask(self, api, headers, **fields):
        return self.server.post(api.path, api.body(**fields), headers=headers)

    def endpoints(self):
        listed = json.loads(self.server.get("/").body)["endpoints"]
        self.assertGreaterEqual(len(listed), 14)
        return [endpoint.split(" ", 1) for endpoint in listed]

    def test_every_route_is_guarded(self):
        """The list is the server's own, so a route that comes later is looked at as well."""
        for method, path in self.endpoints():
            path = path.replace("*", "x")
            body = b"{}" if method == "POST" else None
            with self.subTest(method=method, path=path):
                def status(headers, method=method, path=path, body=body):
                    return self.server.request(method, path, body, {**(JSON if body else {}), **headers}).status
                if path in ("/live", "/ready"):
                    self.assertEqual([status({"x-api-key": key}) for key in ("", "nope", "key-a")], [200] * 3)
                    continue
                self.assertEqual([status({"x-api-key": ""}), status({"x-api-key": "nope"})], [401, 401])
                allowed = status({"x-api-key": "key-a"})
                self.assertEqual(allowed == 403, path == "/metrics", allowed)
                self.assertNotIn(status({"x-api-key": "key-z"}), (401, 403))

    def test_paths_that_are_none_ask_for_a_key_too(self):
        for path in ("/docs", "/openapi.json", "/debug", "/kvern/v1/config", "/v1/unknown", "//live", "/live/", "/LIVE",
                     "/live%2f..", "/./live", "/live/../metrics"):
            reply = self.server.get(path, headers={"x-api-key": "nope"})
            self.assertEqual(reply.status, 401, path)
            self.assertNotIn("/metrics", reply.body.decode(), "endpoints are not told")
        self.assertEqual(self.server.get("/v1/unknown").status, 404)
        self.assertEqual(self.server.request("DELETE", "/v1/models", headers={"x-api-key": "nope"}).status, 401)

    def test_open_routes_say_nothing_of_workers_or_models(self):
        for path in ("/live", "/ready"):
            reply = self.server.get(path, headers={"x-api-key": ""})
            self.assertLess(len(reply.body), 40)

    def test_both_headers_on_every_api(self):
        for api in APIS:
            with self.subTest(api.name):
                for headers in (bearer("key-a"), {"x-api-key": "key-a"}, {"Authorization": "bearer key-a"}):
                    self.assertEqual(self.ask(api, headers).status, 200)

    def test_refusals_in_the_dialect(self):
        for api in APIS:
            with self.subTest(api.name):
                for headers in ({"x-api-key": ""}, bearer("nope"), {"authorization": "Basic key-a"},
                                {**bearer("key-a"), "x-api-key": "key-z"}):
                    reply = self.ask(api, headers)
                    self.assertEqual(reply.status, 401)
                    self.assertEqual(reply.headers["www-authenticate"], "Bearer")
                    self.assertEqual(api.error_of(reply)["type"], "authentication_error")
        reply = self.server.get("/v1/models", headers={**bearer("nope"), "anthropic-version": "2023-06-01"})
        self.assertEqual((reply.status, MESSAGES.error_of(reply)["type"]), (401, "authentication_error"))
        self.assertEqual(CHAT.error_of(self.ask(CHAT, bearer("nope")))["code"], "invalid_api_key")

    def test_a_refusal_comes_before_the_body(self):
        head = (f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                f"content-length: {30 << 20}\r\n\r\n").encode()
        answer, _ = raw_exchange(self.server.port, head)
        self.assertTrue(answer.startswith(b"HTTP/1.1 401"), answer[:80])

    def test_wrong_keys_are_answered_alike(self):
        def told(key):
            reply = self.server.get("/v1/models", headers=bearer(key))
            self.assertEqual(reply.status, 401)
            return reply.body
        keys = ("x", "key-b", "x' -- ", "%s%n", "../../etc/hostname", "a" * 50_000)
        self.assertEqual(len({told(key) for key in keys}), 1)

    def test_metrics_are_for_admins(self):
        reply = self.server.get("/metrics")
        self.assertEqual((reply.status, CHAT.error_of(reply)["type"]), (403, "permission_error"))
        self.assertEqual(self.server.get("/metrics", headers=bearer("key-z")).status, 200)

    def test_a_tenant_header_counts_with_a_trusted_key_only(self):
        long = {"x-tenant-id": "t" * 600}
        for api in APIS:
            with self.subTest(api.name):
                self.assertEqual(self.ask(api, {**bearer("key-a"), **long}).status, 200, "it does not count")
                reply = self.ask(api, {**bearer("key-p"), **long})
                self.assertEqual(reply.status, 400)
                self.assertIn("x-tenant-id", api.error_of(reply)["message"])
                self.assertEqual(self.ask(api, {**bearer("key-p"), "x-tenant-id": "other"}).status, 200)

    def test_sdk_clients_without_a_key_are_told_what_to_do(self):
        message = CHAT.error_of(self.ask(CHAT, {"x-api-key": ""}))["message"]
        self.assertIn("not one of", message)
        answer, _ = raw_exchange(self.server.port,
                                 b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        self.assertIn(b"Authorization: Bearer", answer)


class WithoutKeys(ScriptedCase):
    def test_any_key_is_taken_and_anyone_is_an_administrator(self):
        for headers in ({}, bearer("unused"), {"x-api-key": "a", "authorization": "Bearer b"}):
            self.assertEqual(self.server.get("/metrics", headers=headers).status, 200)
            self.assertEqual(self.server.post("/v1/messages", MESSAGES.body(), headers=headers).status, 200)

    def test_a_tenant_that_is_too_long_is_refused_on_every_api(self):
        for api in APIS:
            reply = self.server.post(api.path, api.body(), headers={"x-tenant-id": "t" * 600})
            self.assertEqual(reply.status, 400, api.name)


class ModelTenants(unittest.TestCase):
    """What a tenant's prompt left in the cache is there for that tenant alone."""

    def test_cached_tokens(self):
        text = "The quick brown fox jumps over the lazy dog. " * 12
        with Server("--ctx", "1024", config={"keys": KEYS}, environment=ADMIN) as server:
            def cached(key, **headers):
                reply = server.post(CHAT.path, CHAT.body(text, max_tokens=1), headers={**bearer(key), **headers})
                self.assertEqual(reply.status, 200, reply.body)
                return json.loads(reply.body)["usage"]["prompt_tokens_details"]["cached_tokens"]
            self.assertEqual(cached("key-a"), 0)
            self.assertGreater(cached("key-a"), 0)
            self.assertEqual(cached("key-a", **{"x-tenant-id": "other"}) > 0, True, "an untrusted key names no tenant")
            self.assertEqual(cached("key-z"), 0)
            self.assertEqual(cached("key-p"), 0)
            self.assertGreater(cached("key-p", **{"x-tenant-id": "acme"}), 0, "a trusted one does")
            # Equal session ids and salts of two tenants are two.
            same = {"x-session-id": "s"}
            self.assertEqual(cached("key-p", **{"x-tenant-id": "new"}, **same), 0)


class Workers(unittest.TestCase):
    """Who runs a request is for administrators to know and to choose."""

    def setUp(self):
        self.workers = [Worker("--name", "m", script=SCRIPT) for _ in range(2)]
        self.addCleanup(lambda: [worker.stop() for worker in self.workers])
        entries = [entry(name, worker.url) for name, worker in zip(("7", "gpu-b"), self.workers, strict=True)]
        self.front = Front(entries, config={"keys": KEYS}, environment=ADMIN, key="key-a")
        self.addCleanup(self.front.stop)

    def ask(self, api, key, headers=None, **fields):
        return self.front.post(api.path, api.body("quick", **fields), headers={**bearer(key), **(headers or {})})

    def test_the_workers_name(self):
        wish = {"nvext": {"extra_fields": ["worker_id", "timing"]}}
        for api in APIS:
            with self.subTest(api.name):
                told = self.ask(api, "key-z", **wish)
                self.assertIn(told.headers["x-kvern-worker"], ("7", "gpu-b"))
                self.assertIn(json.loads(told.body)["nvext"]["worker_id"]["decode_worker_id"], (7, "gpu-b"))
                kept = self.ask(api, "key-a", **wish)
                self.assertEqual(kept.status, 200)
                self.assertNotIn("x-kvern-worker", kept.headers)
                self.assertEqual(set(json.loads(kept.body)["nvext"]), {"timing"})
                self.assertNotIn(b"gpu-b", kept.body)

    def test_only_an_administrator_chooses(self):
        for api in APIS:
            with self.subTest(api.name):
                for _ in range(3):
                    by_header = self.ask(api, "key-z", {"x-dynamo-worker-instance-id": "gpu-b"})
                    self.assertEqual(by_header.headers["x-kvern-worker"], "gpu-b")
                    by_body = self.ask(api, "key-z", nvext={"backend_instance_id": 7})
                    self.assertEqual(by_body.headers["x-kvern-worker"], "7")
                unknown = self.ask(api, "key-z", {"x-worker-instance-id": "http://127.0.0.1:1"})
                self.assertEqual(unknown.status, 400)
                self.assertIn("No worker has the name", api.error_of(unknown)["message"])
                self.assertEqual(self.ask(api, "key-a", {"x-worker-instance-id": "http://127.0.0.1:1"}).status, 200)
        until(lambda: "for admin keys" in self.front.output(), what="the line that says so")

    def test_a_query_for_a_worker_runs_nothing(self):
        query = {"nvext": {"annotations": ["query_instance_id:"], "backend_instance_id": 7}}
        for api in APIS:
            with self.subTest(api.name):
                before = self.placed()
                answer = json.loads(self.ask(api, "key-z", **query).body)["nvext"]
                self.assertEqual(answer["worker_id"], {"prefill_worker_id": 7, "decode_worker_id": 7})
                self.assertGreater(len(answer["token_ids"]), 0)
                streamed = self.ask(api, "key-z", stream=True, **query)
                self.assertTrue(streamed.headers["content-type"].startswith("text/event-stream"))
                self.assertIn('"nvext":{"worker_id":{"prefill_worker_id":7,', streamed.body.decode())
                self.assertEqual(self.placed(), before)
                # A tenant's is an ordinary request.
                self.assertNotIn(b'"token_ids"', self.ask(api, "key-a", **query).body)

    def placed(self):
        text = self.front.get("/metrics", headers=bearer("key-z")).body.decode()
        return [line for line in text.splitlines() if line.startswith("kvern_worker_placed{")]


class Faults(unittest.TestCase):
    def fails(self, keys, *words, environment=None):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "k.yaml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"keys": keys}, file)
            script = os.path.join(folder, "s.jsonl")
            with open(script, "w", encoding="utf-8") as file:
                file.write(json.dumps(REPEAT_HELLO[0]) + "\n")
            code, out, err = run("serve", "--port", "0", "--engine", "scripted:" + script, "--config", path,
                                 environment=environment)
        self.assertNotEqual(code, 0, out + err)
        self.assertLess(code, 128)
        for word in ("k.yaml line ", *words):
            self.assertIn(word, err)
        return err

    def test_what_is_wrong_is_said(self):
        one = {"name": "a", "tenant": "t", "sha256": sha256("x")}
        self.fails([one, {**one, "name": "b"}], "`b` is the same key as `a`")
        self.fails([one, {"name": "b", "tenant": "t", "env": "THE_KEY"}], "`b` is the same key as `a`",
                   environment={"THE_KEY": "x"})
        self.fails([one, {**one, "sha256": sha256("y")}], "the name of another one")
        self.fails([{"name": "a", "tenant": "t"}], "sha256sum", "env")
        self.fails([{"name": "a", "tenant": "t", "env": "THE_KEY"}], "THE_KEY", "not set")
        self.fails([{**one, "role": "x"}], "unknown key `role` in `keys`")
        self.fails([{"name": "a", "sha256": sha256("x")}], "needs a tenant")
        self.assertNotIn("plain-key", self.fails([{**one, "sha256": "plain-key"}], "64 hex digits"))

    def test_a_listen_beyond_loopback_needs_keys(self):
        code, _, err = run("serve", "--port", "0", "--host", "0.0.0.0")
        self.assertNotEqual(code, 0)
        for word in ("keys", "--insecure"):
            self.assertIn(word, err)
        with Server("--host", "0.0.0.0", script=REPEAT_HELLO, config={"keys": KEYS}, environment=ADMIN,
                    key="key-a") as server:
            self.assertEqual(server.get("/v1/models").status, 200)
            self.assertEqual(server.get("/v1/models", headers=bearer("x")).status, 401)
            self.assertIn("$KEY", server.output(), "the banner says that a key is needed")

    def test_keys_do_not_open_a_worker(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "k.yaml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"keys": [KEYS[0]]}, file)
            code, _, err = run("worker", "--port", "0", "--host", "0.0.0.0", "--config", path)
        self.assertNotEqual(code, 0)
        self.assertIn("`kvern serve` only", err)

    def test_print_config_shows_no_key_and_needs_none(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "k.yaml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"keys": KEYS}, file)
            for environment in (None, ADMIN):
                code, out, _ = run("serve", "--config", path, "--print-config", environment=environment)
                self.assertEqual(code, 0)
                self.assertIn("TEST_ADMIN_KEY", out)
                self.assertNotIn("key-z", out)


class Aliases(unittest.TestCase):
    def test_an_unknown_model_is_404_in_the_dialect_and_says_how_to_take_it(self):
        config = {"models": [{"name": "tiny", "aliases": ["claude-*", "gpt-5*"]}]}
        with Server("--name", "tiny", script=REPEAT_HELLO, config=config) as server:
            for api in APIS:
                with self.subTest(api.name):
                    for known in ("tiny", "claude-sonnet-4-5", "gpt-5.5"):
                        reply = server.post(api.path, api.body(model=known))
                        self.assertEqual(reply.status, 200, reply.body)
                        self.assertEqual(json.loads(reply.body)["model"], "tiny")
                    reply = server.post(api.path, api.body(model="zai-org/GLM-5"))
                    self.assertEqual(reply.status, 404)
                    error = api.error_of(reply)
                    for word in ("zai-org/GLM-5", "Served: tiny", "--alias 'zai-org/GLM-5'",
                                 'models: [{name: "tiny", aliases: ["zai-org/GLM-5"]}]'):
                        self.assertIn(word, error["message"])
                    self.assertEqual(error["type"], "not_found_error" if api is MESSAGES else "invalid_request_error")
            for path, body in (("/v1/messages/count_tokens", MESSAGES.body()), ("/tokenize", {"prompt": "x"}),
                               ("/detokenize", {"tokens": [1]})):
                self.assertEqual(server.post(path, {**body, "model": "claude-x"}).status, 200, path)
                self.assertEqual(server.post(path, {**body, "model": "other"}).status, 404, path)


class WebSocket(ScriptedCase):
    def test_an_upgrade_is_refused_at_once(self):
        head = ("{} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "openai-beta: responses_websockets=2026-02-06\r\n\r\n")
        for line in ("GET /v1/responses", "GET /v1/realtime?model=x", "GET /v1/models", "GET /live",
                     "GET /v1/messages"):
            answer, _ = raw_exchange(self.server.port, head.format(line).encode(), timeout=1)
            self.assertTrue(answer.startswith(b"HTTP/1.1 426 "), answer[:200])
            self.assertIn(b"WebSocket is not spoken here", answer)
        reply = self.server.post("/v1/responses", RESPONSES.body(), headers={"upgrade": "h2c"})
        self.assertEqual(reply.status, 200, "other upgrades are offers, and may be passed over")


if __name__ == "__main__":
    unittest.main()
