"""Anthropic's Messages API through the binary on the scripted engine. Each test is named by the points of the
conformance checklist that it covers (70 to 95, and what of 1 to 14 concerns Messages)."""

import json
import unittest

import anthropic

from harness import JSON, ScriptedCase, until

BILLING = "x-anthropic-billing-header: cc_version=2.1.1.{0}; cc_entrypoint=cli; cch={0};"
CALL = '<tool_call>\n{{"name": "{0}", "arguments": {1}}}\n</tool_call>'
BASH = CALL.format("Bash", '{"q":"ls"}')
TOOLS = [{"name": name, "description": "d", "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}}
         for name in ("Bash", "A", "B")]
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,some-beta-of-2030"


class Messages(ScriptedCase):
    script = [
        {"match": "two tools", "text": f"<think>plan</think>Running.{BASH}\n{CALL.format('A', '{}')}", "repeat": True},
        {"match": "one chunk", "chunks": [f"Running.{BASH}"], "repeat": True},
        {"match": "odd arguments", "text": CALL.format("Bash", "[1, 2]"), "repeat": True},
        {"match": "fail midway", "chunks": ["some ", "words "], "finish": "error", "repeat": True},
        {"match": "long story", "text": "one two three four five six seven eight nine ten", "repeat": True},
        {"match": "until END", "text": "before END after", "repeat": True},
        {"match": "echo late system", "text": "seen", "repeat": True},
        {"text": "<think>Hm.</think>Hello 👩‍💻.", "repeat": True},
    ]

    def body(self, content="hi", **fields):
        messages = fields.pop("messages", [{"role": "user", "content": content}])
        return {"model": "", "max_tokens": 256, "messages": messages, **fields}

    def ask(self, content="hi", headers=None, **fields):
        reply = self.server.post("/v1/messages", self.body(content, **fields), headers=headers)
        self.assertEqual(reply.status, 200, reply.body)
        return json.loads(reply.body)

    def refused(self, status=400, content="hi", **fields):
        reply = self.server.post("/v1/messages", self.body(content, **fields))
        self.assertEqual(reply.status, status, reply.body)
        document = json.loads(reply.body)
        self.assertEqual(document["type"], "error")
        self.assertEqual(document["request_id"], reply.headers["request-id"])
        return document["error"]

    def events(self, content="hi", path="/v1/messages", **fields):
        """The events of a stream, each checked to have its `event:` line."""
        reply = self.server.post(path, self.body(content, stream=True, **fields))
        self.assertEqual(reply.status, 200, reply.body)
        self.assertTrue(reply.headers["content-type"].startswith("text/event-stream"))
        found = []
        for block in reply.body.decode().strip().split("\n\n"):
            name, data = block.split("\n")
            event = json.loads(data.removeprefix("data: "))
            self.assertEqual(name, "event: " + event["type"])
            if event["type"] != "ping":
                found.append(event)
        return found

    def count(self, **fields):
        reply = self.server.post("/v1/messages/count_tokens", {"model": "", **fields})
        self.assertEqual(reply.status, 200, reply.body)
        return json.loads(reply.body)["input_tokens"]

    def prompt_tokens(self, **fields):
        usage = self.ask(max_tokens=1, **fields)["usage"]
        return (usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"])

    def test_1_2_unknown_fields_and_a_query_are_taken(self):
        reply = self.server.post("/v1/messages?beta=true", self.body(brand_new={"a": 1}, speed="fast"))
        self.assertEqual(reply.status, 200, reply.body)

    def test_4_11_either_key_header_and_a_request_id(self):
        for headers in ({"x-api-key": "k"}, {"authorization": "Bearer k"}):
            reply = self.server.post("/v1/messages", self.body(), headers=headers)
            self.assertEqual(reply.status, 200)
            self.assertEqual(reply.headers["request-id"], reply.headers["x-request-id"])

    def test_14_chat_and_messages_make_the_same_prompt(self):
        chat = self.server.chat(max_tokens=1, messages=[{"role": "system", "content": "S"},
                                                        {"role": "user", "content": "hi"}])
        self.assertEqual(self.prompt_tokens(system="S"), chat["usage"]["prompt_tokens"])

    def test_70_71_72_73_78_order_of_a_stream(self):
        events = self.events("two tools", tools=TOOLS)
        types = [event["type"] for event in events]
        self.assertEqual(types[0], "message_start")
        self.assertEqual(types.count("message_start"), 1)
        self.assertEqual(types[-2:], ["message_delta", "message_stop"])
        self.assertIn("input_tokens", events[0]["message"]["usage"])
        self.assertGreater(events[-2]["usage"]["output_tokens"], 0)
        self.assertIn("input_tokens", events[-2]["usage"])
        fits = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking",
                "input_json_delta": "tool_use"}
        open_block, seen = None, []
        for event in events[1:-2]:
            if event["type"] == "content_block_start":
                self.assertIsNone(open_block)
                self.assertEqual(event["index"], len(seen))
                open_block = event["content_block"]["type"]
                seen.append(open_block)
            elif event["type"] == "content_block_delta":
                self.assertEqual(fits[event["delta"]["type"]], open_block)
                self.assertEqual(event["index"], len(seen) - 1)
            else:
                self.assertEqual(event["type"], "content_block_stop")
                open_block = None
        self.assertIsNone(open_block)
        self.assertEqual([kind for kind in seen if kind != "text"], ["thinking", "tool_use", "tool_use"])

    def test_74_arguments_join_also_from_one_chunk(self):
        events = self.events("one chunk", tools=TOOLS)
        starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
        self.assertEqual([block["type"] for block in starts], ["text", "tool_use"])
        self.assertEqual((starts[1]["name"], starts[1]["input"]), ("Bash", {}))
        joined = "".join(e["delta"]["partial_json"] for e in events
                         if e["type"] == "content_block_delta" and e["delta"]["type"] == "input_json_delta")
        self.assertEqual(json.loads(joined), {"q": "ls"})
        self.assertEqual(events[-2]["delta"]["stop_reason"], "tool_use")

    def test_75_ids_are_unique_and_input_is_an_object(self):
        ids = []
        for _ in range(2):
            answer = self.ask("two tools", tools=TOOLS)
            calls = [block for block in answer["content"] if block["type"] == "tool_use"]
            self.assertEqual([(call["name"], call["input"]) for call in calls], [("Bash", {"q": "ls"}), ("A", {})])
            ids += [call["id"] for call in calls]
        self.assertEqual(len(set(ids)), 4)
        self.assertTrue(all(name.startswith("toolu_") for name in ids), ids)
        [odd] = [block for block in self.ask("odd arguments", tools=TOOLS)["content"] if block["type"] == "tool_use"]
        self.assertEqual(odd["input"], {"INVALID_JSON": "[1, 2]"})

    def test_76_95_stop_reasons(self):
        self.assertEqual(self.ask()["stop_reason"], "end_turn")
        self.assertEqual(self.ask("two tools", tools=TOOLS)["stop_reason"], "tool_use")
        self.assertEqual(self.ask("long story", max_tokens=3)["stop_reason"], "max_tokens")
        stopped = self.ask("until END", stop_sequences=["never", "END"])
        self.assertEqual((stopped["stop_reason"], stopped["stop_sequence"]), ("stop_sequence", "END"))
        self.assertEqual(stopped["content"], [{"type": "text", "text": "before "}])
        delta = self.events("until END", stop_sequences=["END"])[-2]["delta"]
        self.assertEqual(delta, {"stop_reason": "stop_sequence", "stop_sequence": "END"})

    def test_77_usage_is_disjoint(self):
        text = "the same words again and again " * 20
        tokens = self.count(messages=[{"role": "user", "content": text}])
        for _ in range(2):
            usage = self.ask(text)["usage"]
            self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"]
                             + usage["cache_creation_input_tokens"], tokens)

    def test_80_system_messages_anywhere(self):
        late = {"role": "system", "content": "echo late system"}
        user = {"role": "user", "content": "x"}
        for messages in ([user, late], [user, {"role": "assistant", "content": "y"}, late, user], [late, user]):
            self.assertEqual(self.ask(messages=messages)["content"][-1]["text"], "seen")

    def test_81_thinking_and_effort(self):
        for thinking in ({"type": "adaptive"}, {"type": "disabled"}, {"type": "between_tools"},
                         {"type": "enabled", "budget_tokens": 1024}):
            self.ask(max_tokens=4096, thinking=thinking, output_config={"effort": "high"})
        self.assertIn("thinking.type", self.refused(thinking={"type": "none"})["message"])
        self.assertIn("output_config.effort", self.refused(output_config={"effort": "none"})["message"])

    def test_82_83_84_thinking_goes_round(self):
        for thinking in ({"type": "adaptive"}, {"type": "adaptive", "display": "omitted"}):
            block = self.ask(thinking=thinking)["content"][0]
            self.assertEqual(block["type"], "thinking")
            self.assertEqual(block["thinking"], "" if "display" in thinking else "Hm.")
            self.assertTrue(block["signature"])
            foreign = {"type": "thinking", "thinking": "r2", "signature": "EqoBCkgIARAB"}
            use = {"type": "tool_use", "id": "toolu_01", "name": "A", "input": {"q": "1"}}
            self.ask(tools=TOOLS, messages=[
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": [block, use, foreign, {"type": "redacted_thinking", "data": "abc"},
                                                  {**use, "id": "toolu_02", "name": "B"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "content": "x"},
                                             {"type": "tool_result", "tool_use_id": "toolu_02", "content": "y"}]}])

    def test_85_86_tool_results_of_every_form(self):
        use = {"type": "tool_use", "name": "A", "input": {}}
        results = ["text", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], []]
        self.ask(tools=TOOLS, messages=[
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{**use, "id": f"toolu_{i}"} for i in range(3)]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{i}", "content": content,
                                          "is_error": i == 1} for i, content in enumerate(results)]}])
        error = self.refused(messages=[{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_0", "content": [PNG]}]}])
        self.assertIn("holds an image", error["message"])
        self.assertIn("holds an image", self.refused(content=[PNG])["message"])

    def test_87_88_cache_control(self):
        def marked(ttl=None):
            return {"cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}}
        text = {"type": "text", "text": "a"}
        plain = {"system": [{"type": "text", "text": "S"}], "tools": TOOLS[:1],
                 "messages": [{"role": "user", "content": [text]}]}
        marks = {"system": [{"type": "text", "text": "S", **marked("30m")}], "tools": [{**TOOLS[0], **marked("1h")}],
                 "messages": [{"role": "user", "content": [{**text, **marked("90s")}]}]}
        self.assertEqual(self.count(**plain), self.count(**marks))
        self.assertEqual(self.count(**plain), self.count(**plain, **marked()))
        self.ask(**marks, **marked("90s"))
        self.assertIn("messages[0].content[4].cache_control", self.refused(content=[{**text, **marked()}] * 5)["message"])
        self.assertIn("cache_control.ttl", self.refused(content=[{**text, **marked("2h")}])["message"])
        self.assertIn("cache_control.ttl", self.refused(content=[{**text, **marked()}, {**text, **marked("1h")}])["message"])

    def test_90_96_the_count_is_exact_and_blind_to_billing_lines(self):
        message = [{"role": "user", "content": "a"}]
        forms = [[{"type": "text", "text": BILLING.format("11111")}, {"type": "text", "text": "S"}],
                 [{"type": "text", "text": BILLING.format("22222")}, {"type": "text", "text": "S"}],
                 [{"type": "text", "text": "S\n" + BILLING.format("3")}], "S"]
        self.assertEqual(len({self.count(system=form, messages=message) for form in forms}), 1)
        for form in forms:
            self.assertEqual(self.prompt_tokens(system=form, messages=message), self.count(system=form, messages=message))
        told = [{"role": "user", "content": BILLING.format("1")}]
        self.assertGreater(self.count(messages=told), self.count(messages=message) + 10)
        with_tools = {"tools": TOOLS, "messages": message, "tool_choice": {"type": "any"}}
        self.assertEqual(self.prompt_tokens(**with_tools), self.count(**with_tools))
        until(lambda: "cc_version=2.1.1.11111" in self.server.output(), what="what is kept for the log")

    def test_91_tool_choices_are_taken(self):
        for choice in ({"type": "auto", "disable_parallel_tool_use": True}, {"type": "any"}, {"type": "none"},
                       {"type": "tool", "name": "Bash"}):
            self.ask(tools=TOOLS, tool_choice=choice)
        self.assertIn("tool_choice.name", self.refused(tools=TOOLS, tool_choice={"type": "tool", "name": "x"})["message"])

    def test_92_errors_have_the_envelope(self):
        self.assertEqual(self.refused(max_tokens=0)["type"], "invalid_request_error")
        self.assertEqual(self.refused(404, model="claude-none")["type"], "not_found_error")
        for method, path, status, kind in (("GET", "/v1/messages", 405, "invalid_request_error"),
                                           ("POST", "/v1/messages/none", 404, "not_found_error")):
            reply = self.server.request(method, path, {} if method == "POST" else None)
            self.assertEqual((reply.status, json.loads(reply.body)["error"]["type"]), (status, kind))
        reply = self.server.post("/v1/messages", "not json", headers=JSON)
        self.assertEqual((reply.status, json.loads(reply.body)["type"]), (400, "error"))
        error = self.refused(content="word " * 300_000)
        self.assertRegex(error["message"], r"prompt is too long: \d+ tokens > 262144 maximum")

    def test_92_a_failure_in_the_stream_is_an_error_event(self):
        events = self.events("fail midway")
        self.assertEqual(events[0]["type"], "message_start")
        self.assertEqual(events[-1]["error"]["type"], "api_error")
        self.assertTrue(events[-1]["request_id"].startswith("req_"))

    def test_93_betas_are_ignored_and_logged(self):
        self.ask(headers={"anthropic-version": "2023-06-01", "anthropic-beta": BETAS})
        until(lambda: "some-beta-of-2030" in self.server.output(), what="the log line")

    def test_94_context_management_changes_nothing(self):
        edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
        self.assertEqual(self.prompt_tokens(context_management=edits), self.prompt_tokens())

    def test_models_in_anthropics_form(self):
        version = {"anthropic-version": "2023-06-01"}
        listed = json.loads(self.server.get("/v1/models", headers=version).body)
        self.assertEqual(listed["first_id"], listed["data"][0]["id"])
        self.assertEqual((listed["has_more"], listed["data"][0]["max_input_tokens"]), (False, 262144))
        one = json.loads(self.server.get("/v1/models/" + listed["first_id"], headers=version).body)
        self.assertEqual(one, listed["data"][0])
        self.assertEqual(json.loads(self.server.get("/v1/models").body)["object"], "list")
        missing = self.server.get("/v1/models/none", headers=version)
        self.assertEqual((missing.status, json.loads(missing.body)["error"]["type"]), (404, "not_found_error"))


class Sdk(ScriptedCase):
    """Anthropic's Python SDK."""

    script = Messages.script

    def client(self):
        return anthropic.Anthropic(base_url=self.server.url, api_key="unused", max_retries=0, timeout=120)

    def fields(self, content, **more):
        return {"model": "m", "max_tokens": 2048, "messages": [{"role": "user", "content": content}], **more}

    @classmethod
    def setUpClass(cls):
        cls.arguments = ("--alias", "m")
        super().setUpClass()

    def stream(self, content, **more):
        with self.client().messages.stream(**self.fields(content, **more)) as stream:
            for _ in stream:
                pass
            return stream.get_final_message()

    def test_text_and_thinking(self):
        for message in (self.client().messages.create(**self.fields("hi")), self.stream("hi")):
            self.assertEqual([block.type for block in message.content], ["thinking", "text"])
            self.assertEqual((message.content[0].thinking, message.content[1].text), ("Hm.", "Hello 👩‍💻."))
            self.assertTrue(message.content[0].signature)
            self.assertEqual(message.stop_reason, "end_turn")
            self.assertGreater(message.usage.output_tokens, 0)

    def test_parallel_tools_and_their_results(self):
        for message in (self.client().messages.create(**self.fields("two tools", tools=TOOLS)),
                        self.stream("two tools", tools=TOOLS)):
            calls = [block for block in message.content if block.type == "tool_use"]
            self.assertEqual([(call.name, call.input) for call in calls], [("Bash", {"q": "ls"}), ("A", {})])
            self.assertEqual(message.stop_reason, "tool_use")
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": "done"} for call in calls]
            after = self.client().messages.create(model="m", max_tokens=64, tools=TOOLS, messages=[
                {"role": "user", "content": "go"}, {"role": "assistant", "content": message.content},
                {"role": "user", "content": results}])
            self.assertEqual(after.content[-1].text, "Hello 👩‍💻.")

    def test_cut_and_stopped(self):
        cut = self.stream("long story", max_tokens=3)
        self.assertEqual((cut.stop_reason, cut.usage.output_tokens), ("max_tokens", 3))
        stopped = self.stream("until END", stop_sequences=["END"])
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", "END"))

    def test_count_and_models(self):
        api = self.client()
        counted = api.messages.count_tokens(model="m", messages=[{"role": "user", "content": "hi"}])
        usage = api.messages.create(**self.fields("hi")).usage
        self.assertEqual(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)
        [model] = list(api.models.list())
        self.assertEqual(api.models.retrieve(model.id).display_name, model.display_name)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError) as raised:
            self.client().messages.create(**{**self.fields("hi"), "model": "unknown"})
        self.assertTrue(raised.exception.request_id)
        with self.assertRaises(anthropic.BadRequestError):
            self.client().messages.create(**self.fields("hi", extra_body={"temperature": 3}))
        with self.assertRaises(anthropic.APIStatusError):
            self.stream("fail midway")

    def test_cancel(self):
        with self.client().messages.stream(**self.fields("long story")) as stream:
            next(iter(stream))
        self.assertTrue(self.server.alive())


if __name__ == "__main__":
    unittest.main()
