"""The endpoints: what each answers, and how the script's engine is seen through them."""

import json
import unittest

from apis import APIS, CHAT, COMPLETIONS, MESSAGES, RESPONSES
from harness import JSON, ScriptedCase, raw_exchange, until

# Characters of several tokens each, in the default model's vocabulary.
WIDE = "👩‍💻 naïve 你好, ẞ ﷽ 𒀀 e\u0301"


def text_of(api, event):
    """The visible text that an event of a stream brings."""
    if api is CHAT:
        return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    if api is COMPLETIONS:
        return "".join(choice["text"] for choice in event["choices"])
    if api is RESPONSES:
        return event["delta"] if event["type"] == "response.output_text.delta" else ""
    return event["delta"]["text"] if event["type"] == "content_block_delta" else ""


class Routes(ScriptedCase):
    script = [
        {"match": "once", "text": "Only once."},
        {"match": "die", "chunks": ["half "], "finish": "die", "repeat": True},
        {"match": "long", "chunks": ["word "] * 40, "itl_ms": 5, "repeat": True},
        {"match": "exhausted", "text": "x"},
        {"match": "hello", "text": "Hello from the script.", "repeat": True},
        {"match": "wide", "text": WIDE, "repeat": True},
    ]
    arguments = ("--alias", "zai-org/GLM-4.7")

    def test_live_ready_health(self):
        for path in ("/live", "/ready", "/health"):
            reply = self.server.get(path)
            self.assertEqual(reply.status, 200, path)
            self.assertIn("x-request-id", reply.headers)

    def test_3_head_of_the_root(self):
        reply = self.server.request("HEAD", "/")
        self.assertEqual((reply.status, reply.body), (200, b""))
        answer, _ = raw_exchange(self.server.port, b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        self.assertTrue(answer.endswith(b"\r\n\r\n"))

    def test_unknown_paths_list_the_endpoints(self):
        reply = self.server.get("/v2/chat")
        self.assertEqual(reply.status, 404)
        message = json.loads(reply.body)["error"]["message"]
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/models", "/metrics"):
            self.assertIn(path, message)

    def test_wrong_method(self):
        reply = self.server.get("/v1/chat/completions")
        self.assertEqual(reply.status, 405)
        self.assertIn("POST", reply.headers["allow"])

    def test_a_query_is_no_part_of_the_path(self):
        self.assertEqual(self.server.get("/v1/models?beta=true").status, 200)

    def test_9_models(self):
        answer = json.loads(self.server.get("/v1/models").body)
        self.assertEqual(answer["object"], "list")
        self.assertEqual(answer["data"][0]["object"], "model")

    def test_10_model_names_with_slashes(self):
        name = "zai-org/GLM-4.7"
        self.assertEqual(self.server.get("/v1/models/" + name).status, 200)
        for api in APIS:
            self.assertEqual(self.server.post(api.path, api.body("hello", model=name)).status, 200, api.name)
            reply = self.server.post(api.path, api.body("hello", model=name + "/x"))
            self.assertEqual(reply.status, 404, api.name)
            self.assertIn(name + "/x", api.error_of(reply)["message"])

    def test_13_characters_of_several_tokens_come_whole(self):
        for api in APIS:
            events = [event for event in self.server.stream(api.path, **api.body("wide", **api.longest(200)))
                      if event != "[DONE]"]
            pieces = [text for text in (text_of(api, event) for event in events) if text]
            self.assertEqual("".join(pieces), WIDE, api.name)
            self.assertGreater(len(pieces), 5, api.name)

    def test_a_model_name_that_is_no_utf8_is_named_in_valid_json(self):
        for name in ("%ff", "a%c3", "%ed%a0%80", "%00"):
            reply = self.server.get("/v1/models/" + name)
            self.assertEqual(reply.status, 404, name)
            self.assertIn("\\x", json.loads(reply.body.decode("utf-8"))["error"]["message"])

    def test_a_refused_request_leaves_a_line_like_any_other(self):
        for path, body, status in (("/v1/chat/completions", "{", 400), ("/v1/completions", {"prompt": "x", "n": -1}, 400),
                                   ("/v1/chat/completions", {"model": "nope", "messages": []}, 400)):
            sent = self.server.post(path, body, headers={"content-type": "application/json", "x-request-id": "mine"})
            self.assertEqual(sent.status, status)
            line = until(lambda sent=sent: [line for line in self.server.lines if sent.headers["x-request-id"] in line])[0]
            for key in (f"method=POST path={path} status={status} ms=", " end=invalid_request ", "client_request_id=mine"):
                self.assertIn(key, line)
        sent = self.server.get("/nowhere")
        line = until(lambda: [line for line in self.server.lines if sent.headers["x-request-id"] in line])[0]
        self.assertIn("method=GET path=/nowhere status=404 end=not_found", line)
        answer, _ = raw_exchange(self.server.port, b"GARBAGE\r\n\r\n")
        identity = answer.split(b"x-request-id: ")[1].split(b"\r\n")[0].decode()
        line = until(lambda: [line for line in self.server.lines if identity in line])[0]
        self.assertIn("status=400 end=invalid_request reason=", line)

    def test_request_ids_are_ours(self):
        ids = {self.server.get("/live", headers={"x-request-id": "mine"}).headers["x-request-id"] for _ in range(3)}
        self.assertEqual(len(ids), 3)
        self.assertNotIn("mine", ids)

    def test_loopback_names_of_the_host_header(self):
        for host in ("localhost", "127.0.0.1", f"localhost:{self.server.port}", "[::1]:80"):
            self.assertEqual(self.server.get("/live", headers={"host": host}).status, 200, host)

    def test_stream_shape(self):
        events = list(self.server.stream(messages=[{"role": "user", "content": "hello"}],
                                         stream_options={"include_usage": True}))
        self.assertEqual(events[-1], "[DONE]")
        first, *_, last, usage = events[:-1]
        self.assertEqual(first["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(last["choices"][0]["finish_reason"], "stop")
        self.assertEqual(usage["choices"], [])
        self.assertEqual(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(len({event["id"] for event in events[:-1]}), 1)
        self.assertTrue(all(event["object"] == "chat.completion.chunk" for event in events[:-1]))

    def test_no_usage_unless_asked(self):
        events = list(self.server.stream(messages=[{"role": "user", "content": "hello"}]))[:-1]
        self.assertTrue(all(event.get("usage") is None and event["choices"] for event in events))

    def test_stream_headers(self):
        stream = self.server.stream(messages=[{"role": "user", "content": "hello"}])
        self.assertTrue(stream.response.headers["content-type"].startswith("text/event-stream"))
        self.assertIn("no-cache", stream.response.headers["cache-control"])
        self.assertTrue(stream.response.headers["x-request-id"])
        stream.text()

    def test_a_script_line_answers_once_then_500(self):
        self.assertEqual(self.server.chat("once")["choices"][0]["message"]["content"], "Only once.")
        reply = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "once"}]})
        self.assertEqual(reply.status, 500)
        self.assertIn("script exhausted", reply.body.decode())

    def test_dying_in_the_stream_is_an_event(self):
        events = list(self.server.stream(messages=[{"role": "user", "content": "die"}]))
        errors = [event for event in events if isinstance(event, dict) and "error" in event]
        self.assertEqual(len(errors), 1)
        self.assertLessEqual({"message", "type", "code"}, set(errors[0]["error"]))

    def test_completions_of_text_and_ids(self):
        ids = json.loads(self.server.post("/tokenize", {"prompt": "hello world"}).body)["tokens"]
        for prompt in ("hello world", ids):
            reply = self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 20})
            self.assertEqual(reply.status, 200, reply.body)
            answer = json.loads(reply.body)
            self.assertEqual(answer["object"], "text_completion")
            self.assertEqual(answer["choices"][0]["text"], "Hello from the script.")
            self.assertEqual(answer["usage"]["prompt_tokens"], len(ids))

    def test_content_shapes(self):
        for content in ("hello", [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]):
            self.assertTrue(self.server.chat(messages=[{"role": "developer", "content": "Be brief."},
                                                       {"role": "assistant", "content": None},
                                                       {"role": "user", "content": content}]))

    def test_unknown_fields_are_no_error(self):
        self.assertTrue(self.server.chat("hello", store=False, service_tier="auto", something_new={"a": [1]}))

    def test_metrics(self):
        self.server.chat("hello")
        reply = self.server.get("/metrics")
        self.assertTrue(reply.headers["content-type"].startswith("text/plain"))
        text = reply.body.decode()
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:prompt_tokens_total",
                     "vllm:generation_tokens_total", "vllm:request_success_total",
                     "vllm:time_to_first_token_seconds_bucket", "vllm:e2e_request_latency_seconds_bucket"):
            self.assertIn(name, text)

    def test_5_hang_up_frees_the_engine(self):
        for api in APIS:
            for _ in range(10):
                stream = self.server.stream(api.path, **api.body("long", **api.longest(99)))
                next(iter(stream))
                stream.hang_up()
            until(lambda: self.server.metric("vllm:num_requests_running") == 0, what="an idle engine")

    def test_12_whose_turn_it_is(self):
        """What each client says of its session, the header of kvern's own first; docs/hints.md."""
        said = [({}, {"x-session-id": "opencode"}, "opencode"),
                ({}, {"session-id": "codex", "thread-id": "codex"}, "codex"),
                ({}, {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "sub"}, "sub"),
                ({}, {"x-claude-code-session-id": "claude"}, "claude"),
                ({}, {"x-dynamo-session-id": "dynamo", "x-session-id": "other"}, "dynamo"),
                ({}, {"x-kvern-session-id": "own", "x-dynamo-session-id": "other"}, "own"),
                ({"prompt_cache_key": "key"}, {}, "key"),
                ({"prompt_cache_key": "other"}, {"session-id": "header"}, "header")]
        for api in APIS:
            for number, (fields, headers, session) in enumerate(said):
                if fields and api is MESSAGES:
                    continue  # it has no such field
                mine = f"{api.name}-{number}"
                reply = self.server.post(api.path, api.body("hello", **fields),
                                         headers={**JSON, **headers, "x-request-id": mine})
                self.assertEqual(reply.status, 200, reply.body)
                until(lambda: f"session={session} client_request_id={mine}" in self.server.output(), what=mine)


if __name__ == "__main__":
    unittest.main()
