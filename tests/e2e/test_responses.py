"""/v1/responses through the built binary, on the scripted engine: raw events, and OpenAI's Python SDK.

Tests are named by the points of the conformance checklist they hold (37 to 69).
"""

import json
import os
import unittest

import openai

from harness import REPEAT_HELLO, ScriptedCase, Server, raw_exchange, until

CALL = '<tool_call>\n{"name": "exec", "arguments": {"q": "ls"}}\n</tool_call>'
NESTED = CALL.replace('"exec"', '"mcp__files__read"')
PATCH = '<tool_call>\n{"name": "apply_patch", "arguments": {"input": "*** Begin Patch\\n+\\u00e9 \\"x\\"\\n"}}\n</tool_call>'
SEARCH = '<tool_call>\n{"name": "tool_search", "arguments": {"query": "calendar"}}\n</tool_call>'

FUNCTION = {"type": "function", "name": "exec", "description": "d", "strict": False,
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
TOOLS = [
    FUNCTION,
    {"type": "namespace", "name": "mcp__files", "description": "d",
     "tools": [{**FUNCTION, "name": "read"}, {**FUNCTION, "name": "write"}]},
    {"type": "custom", "name": "apply_patch", "description": "d",
     "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
    {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}},
]
SCRIPT = [
    {"match": "one call", "text": f"<think>plan \"é\"</think>Calling.{CALL}", "repeat": True},
    {"match": "two calls", "text": f"{CALL}\n{CALL}", "repeat": True},
    {"match": "nested call", "text": NESTED, "repeat": True},
    {"match": "patch call", "text": PATCH, "repeat": True},
    {"match": "search call", "text": SEARCH, "repeat": True},
    {"match": "think", "text": "<think>Let me see.</think>Done.", "repeat": True},
    {"match": "breaks", "chunks": ["one ", "two "], "finish": "error", "repeat": True},
    {"match": "likely", "text": "a b", "logprobs": [{"logprob": -0.5}], "repeat": True},
    *REPEAT_HELLO,
]


def user(text):
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]


def responses_events(server, said, **fields):
    """Every event of a stream; the grammar of the stream is checked on the way."""
    body = {"model": "m", "stream": True, "store": False, "input": user(said), **fields}
    reply = server.post("/v1/responses", body)
    assert reply.status == 200, reply.body
    events = []
    for block in reply.body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == "event: " + event["type"], block
        events.append(event)
    check_grammar(events)
    return events


def check_grammar(events):
    """Numbers from 0; created first and one end last; items one after the other; ids and places that agree."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] in ("response.completed", "response.incomplete", "response.failed")
    is_open, done, joined = None, [], ""
    for event in events[1:-1]:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert is_open is None and event["output_index"] == len(done)
            is_open, joined = event["item"], ""
        elif kind == "output_item.done":
            assert (event["item"]["id"], event["item"]["type"]) == (is_open["id"], is_open["type"])
            assert event["output_index"] == len(done)
            done.append(event["item"])
            is_open = None
        elif kind != "in_progress":
            assert event["item_id"] == is_open["id"] and event["output_index"] == len(done)
            if kind.endswith(".delta"):
                joined += event["delta"]
            elif kind.endswith("_text.done") or kind.endswith("arguments.done") or kind.endswith("input.done"):
                assert joined == event.get("text", event.get("arguments", event.get("input")))
    response = events[-1]["response"]
    assert response["id"] == events[0]["response"]["id"]
    assert response["output"] == done


def kinds(events):
    return [event["type"].removeprefix("response.") for event in events]


class Responses(ScriptedCase):
    script = SCRIPT
    arguments = ("--name", "m")

    def whole(self, said, **fields):
        reply = self.server.post("/v1/responses", {"model": "m", "store": False, "input": user(said), **fields})
        self.assertEqual(reply.status, 200, reply.body)
        return json.loads(reply.body)

    def refused(self, status, **fields):
        reply = self.server.post("/v1/responses", {"model": "m", "input": "hi", **fields})
        self.assertEqual(reply.status, status, reply.body)
        return json.loads(reply.body)["error"]

    def test_37_order_of_text(self):
        found = [kind for kind in kinds(responses_events(self.server, "hi")) if not kind.endswith("delta")]
        self.assertEqual(found, ["created", "in_progress", "output_item.added", "content_part.added",
                                 "output_text.done", "content_part.done", "output_item.done", "completed"])

    def test_38_41_42_43_44_46_function_calls(self):
        events = responses_events(self.server, "two calls", tools=TOOLS)
        items = events[-1]["response"]["output"]
        self.assertEqual([(item["type"], item["name"], json.loads(item["arguments"])) for item in items],
                         [("function_call", "exec", {"q": "ls"})] * 2)
        self.assertEqual(len({item["call_id"] for item in items} | {item["id"] for item in items}), 4)
        self.assertGreater(kinds(events).count("function_call_arguments.delta"), 2, "arguments come as they are made")

    def test_39_50_custom_call_is_raw_text(self):
        events = responses_events(self.server, "patch call", tools=TOOLS)
        [item] = events[-1]["response"]["output"]
        self.assertEqual((item["type"], item["name"], item["input"]),
                         ("custom_tool_call", "apply_patch", '*** Begin Patch\n+é "x"\n'))
        self.assertIn("custom_tool_call_input.done", kinds(events))

    def test_40_47_48_reasoning_then_text_then_call(self):
        events = responses_events(self.server, "one call", tools=TOOLS, reasoning={"summary": "auto"})
        response = events[-1]["response"]
        self.assertEqual([item["type"] for item in response["output"]], ["reasoning", "message", "function_call"])
        self.assertEqual(response["output"][0]["summary"], [{"type": "summary_text", "text": 'plan "é"'}])
        self.assertEqual(response["output"][0]["content"], [{"type": "reasoning_text", "text": 'plan "é"'}])
        usage = response["usage"]
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])
        self.assertIn("cached_tokens", usage["input_tokens_details"])
        self.assertGreater(usage["output_tokens_details"]["reasoning_tokens"], 0)

    def test_45_whole_equals_streamed(self):
        for text in ("hi", "one call", "two calls", "patch call", "nested call", "search call"):
            streamed = responses_events(self.server, text, tools=TOOLS)[-1]["response"]
            whole = self.whole(text, tools=TOOLS)
            changing = ("id", "call_id")
            same = [[{k: v for k, v in item.items() if k not in changing} for item in one["output"]]
                    for one in (streamed, whole)]
            self.assertEqual(*same)
            self.assertEqual(streamed["usage"]["output_tokens"], whole["usage"]["output_tokens"])

    def test_49_namespace(self):
        [item] = self.whole("nested call", tools=TOOLS)["output"]
        self.assertEqual((item["type"], item["name"], item["namespace"]), ("function_call", "read", "mcp__files"))

    def test_51_hosted_tools_are_left_out(self):
        answer = self.whole("hi", tools=[*TOOLS, {"type": "web_search"}, {"type": "of_tomorrow"}])
        self.assertEqual([tool["type"] for tool in answer["tools"]], ["function", "namespace", "custom", "tool_search"])
        until(lambda: "tools[4] web_search, tools[5] of_tomorrow" in self.server.output(), what="the log line")

    def test_52_53_54_every_item_a_client_replays(self):
        seen = responses_events(self.server, "one call", tools=TOOLS)[-1]["response"]["output"]
        pixel = "data:image/png;base64,iVBORw0KGgo="
        items = [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "S"}]}, *user("one call"),
            *seen, {"type": "function_call_output", "call_id": seen[2]["call_id"], "output": "a.txt"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "x", "status": "completed"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "ok"}]},
            {"type": "tool_search_call", "call_id": "c3", "execution": "client", "arguments": {"query": "q"}},
            {"type": "tool_search_output", "call_id": "c3", "execution": "client", "tools": [FUNCTION]},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "zzz"},
            {"role": "system", "content": "late"}, *user("hi"),
        ]
        self.whole("", input=items, tools=TOOLS)
        error = self.refused(400, input=[{"type": "item_reference", "id": "msg_1"}])
        self.assertEqual((error["code"], error["param"]), ("not_found", "input[0].id"))
        image = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": pixel}]}
        self.assertIn("image", self.refused(400, input=[*user("x"), image])["message"])
        image["output"][0]["image_url"] = "http://127.0.0.1/x.png"
        self.assertEqual(self.refused(400, input=[image])["param"], "input[0].output[0].image_url")

    def test_55_string_input(self):
        self.assertEqual(self.whole("", input="hello")["output"][0]["content"][0]["text"], "Hello from the script.")

    def test_56_57_nothing_is_stored(self):
        self.assertEqual(self.whole("hi", store=True)["store"], False)
        error = self.refused(400, previous_response_id="resp_1")
        self.assertEqual((error["code"], error["param"]), ("previous_response_not_found", "previous_response_id"))
        self.assertEqual(self.refused(400, background=True)["code"], "unsupported_parameter")

    def test_58_encrypted_content_alone_on_another_frontend(self):
        key = self.server.write("shared.key", "0123456789abcdef" * 4 + "\n")
        sealing = {"KVERN_SEAL_KEY_FILE": key}
        with Server("--name", "m", script=SCRIPT, environment=sealing) as one:
            [reasoning, _] = responses_events(one, "think")[-1]["response"]["output"]
        self.assertNotIn("Let me see", reasoning["encrypted_content"])
        replay = {"type": "reasoning", "summary": [], "encrypted_content": reasoning["encrypted_content"]}
        # What was thought shows in the prompt where a chat client sends it in the clear; so does it here.
        script = [{"match": "Let me see.", "text": "seen", "repeat": True}, {"text": "not seen", "repeat": True}]
        body = {"input": [*user("go"), replay, {"role": "assistant", "content": "Done."}, *user("on")]}
        chat = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "Done.", "reasoning_content": "Let me see."},
                {"role": "user", "content": "on"}]
        with Server(script=script, environment=sealing) as two:
            told = json.loads(two.post("/v1/responses", body).body)["output"][0]["content"][0]["text"]
            self.assertEqual(told, two.chat(messages=chat)["choices"][0]["message"]["content"])
            counts = [json.loads(two.post("/v1/responses", body).body)["usage"]["input_tokens"],
                      two.chat(messages=chat)["usage"]["prompt_tokens"]]
            self.assertEqual(*counts)

    def test_58_the_key_is_made_once_for_its_owner(self):
        path = os.path.join(self.server.folder, "state", "seal.key")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_59_incomplete(self):
        events = responses_events(self.server, "hi", max_output_tokens=2)
        self.assertEqual(events[-1]["type"], "response.incomplete")
        response = events[-1]["response"]
        self.assertEqual((response["status"], response["incomplete_details"]),
                         ("incomplete", {"reason": "max_output_tokens"}))
        self.assertEqual(response["output"][-1]["status"], "incomplete")

    def test_60_failures_after_created(self):
        events = responses_events(self.server, "breaks")
        self.assertEqual(events[-1]["type"], "response.failed")
        self.assertEqual(events[-1]["response"]["error"]["code"], "server_error")

    def test_61_context_length_before_the_stream(self):
        with Server("--ctx", "64", script=REPEAT_HELLO) as small:
            reply = small.post("/v1/responses", {"input": "word " * 200, "stream": True})
        self.assertEqual(reply.status, 400)
        self.assertEqual(json.loads(reply.body)["error"]["code"], "context_length_exceeded")

    def test_62_63_keys_of_the_response(self):
        answer = self.whole("hi", tools=[{"type": "function", "name": "f"}])
        self.assertEqual(len(answer), 31)
        self.assertEqual(answer["tools"], [{"type": "function", "name": "f", "description": None, "parameters": None,
                                            "strict": None}])

    def test_64_phase(self):
        message = {"type": "message", "role": "assistant", "phase": "commentary", "content": "x"}
        self.whole("", input=[*user("a"), message, *user("b")])

    def test_67_68_text_and_reasoning(self):
        schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
        answer = self.whole("hi", text={"format": schema, "verbosity": "low"}, reasoning={"effort": "low", "summary": "auto"})
        self.assertEqual(answer["text"]["verbosity"], "low")
        self.assertEqual(answer["text"]["format"]["schema"], {"type": "object"})
        self.assertEqual(answer["reasoning"], {"effort": "low", "summary": "auto"})
        self.refused(400, reasoning={"effort": "enormous"})

    def test_69_an_upgrade_is_refused_at_once(self):
        answer, _ = raw_exchange(
            self.server.port,
            f"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\nConnection: Upgrade, close\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        self.assertTrue(answer.startswith(b"HTTP/1.1 4"), answer[:100])

    def test_client_metadata_and_unknown_fields_change_nothing(self):
        plain = self.whole("hi")
        other = self.whole("hi", client_metadata={"turn": "1", "x": {"y": 2}}, of_tomorrow={"a": [1]})
        self.assertEqual(plain["usage"], other["usage"])


class Sdk(ScriptedCase):
    script = SCRIPT
    arguments = ("--name", "m")

    @property
    def api(self):
        return openai.OpenAI(base_url=self.server.url + "/v1", api_key="unused", max_retries=0, timeout=60).responses

    def test_create(self):
        answer = self.api.create(model="m", input="one call", tools=TOOLS, store=False)
        self.assertEqual([item.type for item in answer.output], ["reasoning", "message", "function_call"])
        self.assertEqual(answer.output_text, "Calling.")
        self.assertEqual(answer.usage.input_tokens_details.cached_tokens, 0)

    def test_create_streamed(self):
        events = list(self.api.create(model="m", input="think", stream=True))
        self.assertEqual(events[-1].type, "response.completed")
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), "Done.")

    def test_stream_helper(self):
        for text in ("hi", "think", "one call", "two calls", "patch call", "nested call", "search call"):
            with self.api.stream(model="m", input=text, tools=TOOLS, store=False) as stream:
                events = list(stream)
                final = stream.get_final_response()
            self.assertEqual([event.item.id for event in events if event.type == "response.output_item.done"],
                             [item.id for item in final.output])

    def test_two_turns_with_the_items_given_back(self):
        items = user("one call")
        answer = self.api.create(model="m", input=items, tools=TOOLS, store=False)
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        items.append({"type": "function_call_output", "call_id": answer.output[-1].call_id, "output": "a.txt"})
        again = self.api.create(model="m", input=items, tools=TOOLS, store=False)
        self.assertEqual(again.status, "completed")
        self.assertGreater(again.usage.input_tokens, answer.usage.input_tokens)

    def test_logprobs(self):
        answer = self.api.create(model="m", input="likely", include=["message.output_text.logprobs"])
        self.assertEqual([token.logprob for token in answer.output[0].content[0].logprobs], [-0.5] * 2)

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError) as raised:
            self.api.create(model="gpt-9", input="x")
        self.assertEqual(raised.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.api.create(model="m", input="x", previous_response_id="resp_1")
        self.assertEqual(raised.exception.code, "previous_response_not_found")


if __name__ == "__main__":
    unittest.main()
