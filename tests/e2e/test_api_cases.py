"""The cases of cases/api-cases.json: requests that went wrong on servers of this kind elsewhere, each with its source.

A case is a request (or several), perhaps what the worker says, and what must hold, in words; the method of its id holds
each of those words. What was rendered is seen by a script that answers only a prompt that holds a text.
"""

import json
import os
import unittest

from harness import Server

HERE = os.path.dirname(os.path.abspath(__file__))
NOT_SEEN = {"text": "not seen", "repeat": True}


def cases():
    with open(os.path.join(HERE, "cases", "api-cases.json"), encoding="utf-8") as file:
        return {case["id"]: case for case in json.load(file)}


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def post(server, path, body):
    reply = server.post(path, {**body, "model": ""})
    assert reply.status == 200, reply.body
    return reply


def events_of(reply):
    return [json.loads(block.split("data: ", 1)[1]) for block in reply.body.decode().split("\n\n")[:-1]]


def prompt_of(body, path):
    """The rendered prompt: found piece by piece, by which pieces a script finds in it."""
    def holds(*texts):
        script = [{"match": text, "text": f"{number}", "repeat": True} for number, text in enumerate(texts)]
        with Server(script=[*script, NOT_SEEN]) as server:
            answer = json.loads(post(server, path, body).body)
        blocks = answer["output"][-1]["content"] if "output" in answer else answer["content"]
        return blocks[-1]["text"] == "0"
    return holds


class ApiCases(unittest.TestCase):
    def setUp(self):
        self.case = cases()[self.id().rsplit(".test_", 1)[1].replace("_", "-")]
        self.request = self.case["request"]

    def assert_rendered(self, path, *texts):
        holds = prompt_of(self.request, path)
        for text in texts:
            self.assertTrue(holds(text), text)

    def test_resp_tools_namespace(self):
        self.assert_rendered("/v1/responses", '"name":"exec"', '"name":"mcp__files__read"', '"name":"mcp__files__write"',
                             '"name":"apply_patch"')
        script = [{"text": call("mcp__files__read", '{"q": "a"}')}, {"text": call("apply_patch", '{"input": "*** x\\n"}')}]
        with Server(script=script) as server:
            [nested] = json.loads(post(server, "/v1/responses", self.request).body)["output"]
            [patch] = json.loads(post(server, "/v1/responses", self.request).body)["output"]
        self.assertEqual((nested["type"], nested["name"], nested["namespace"]), ("function_call", "read", "mcp__files"))
        self.assertEqual((patch["type"], patch["input"]), ("custom_tool_call", "*** x\n"))

    def test_resp_replay_items(self):
        # The default template prints no thinking; that it stands before the calls is the goldens' to show.
        calls = ('<tool_call>\n{"name": "exec", "arguments": {"q": "ls"}}\n</tool_call><|im_end|>\n<|im_start|>user\n'
                 '<tool_response>\na.txt\n</tool_response><|im_end|>\n<|im_start|>assistant\n'
                 '<tool_call>\n{"name": "apply_patch", "arguments": {"input": "*** Begin Patch\\n*** End Patch\\n"}}\n'
                 '</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nok\n</tool_response><|im_end|>\n')
        self.assert_rendered("/v1/responses", "<|im_start|>assistant\n" + calls + "<|im_start|>assistant\n")

    def test_resp_completed_output_equals_stream(self):
        with Server(script=[{"text": "hi" + call("exec", '{"q": "ls"}')}]) as server:
            events = events_of(post(server, "/v1/responses", self.request))
        done = sorted((event for event in events if event["type"] == "response.output_item.done"),
                      key=lambda event: event["output_index"])
        final = events[-1]["response"]
        self.assertEqual(len(final["output"]), 2)
        self.assertEqual([event["item"] for event in done], final["output"])
        self.assertEqual(final["id"], events[0]["response"]["id"])
        usage = final["usage"]
        self.assertLessEqual({"input_tokens", "output_tokens", "total_tokens"}, usage.keys())
        self.assertIn("cached_tokens", usage["input_tokens_details"])
        self.assertIn("reasoning_tokens", usage["output_tokens_details"])

    def test_resp_reasoning_closed_first(self):
        for settings in ({}, {"KVERN_REASONING_EVENTS": "text"}):
            with Server(script=[{"text": self.case["worker_output"]}], environment=settings) as server:
                events = events_of(post(server, "/v1/responses", self.request))
            kinds = [(event["type"].removeprefix("response."), event.get("item", {}).get("type")) for event in events]
            self.assertLess(kinds.index(("output_item.done", "reasoning")),
                            kinds.index(("output_item.added", "function_call")))
            places = {}
            for event in events:
                if event["type"] == "response.output_item.added":
                    self.assertNotIn(event["output_index"], places)
                    places[event["output_index"]] = event["item"]["id"]
                elif event["type"] == "response.output_item.done":
                    self.assertEqual(places[event["output_index"]], event["item"]["id"])
                elif event["type"] == "response.reasoning_text.delta":
                    self.assertIn("reasoning_text", parts)
                elif event["type"] == "response.content_part.added":
                    parts = {event["part"]["type"]}
            self.assertEqual([item["id"] for item in events[-1]["response"]["output"]], [places[0], places[1]])
            self.assertEqual("response.reasoning_text.delta" in [event["type"] for event in events], bool(settings))

    def test_msg_tool_args_after_text(self):
        # The name and the first bytes of the arguments come in one piece.
        chunks = ["Running.", '<tool_call>\n{"name": "Bash", "arguments": {"q":', '"ls"}}\n</tool_call>']
        with Server(script=[{"chunks": chunks}]) as server:
            events = events_of(post(server, "/v1/messages", self.request))
        kinds = [event["type"] for event in events]
        start = [event for event in events if event["type"] == "content_block_start"][1]
        self.assertEqual(kinds[events.index(start) - 1], "content_block_stop")
        self.assertEqual((start["content_block"]["name"], start["content_block"]["input"]), ("Bash", {}))
        self.assertTrue(start["content_block"]["id"])
        pieces = [event["delta"]["partial_json"] for event in events if event.get("delta", {}).get("type") == "input_json_delta"]
        self.assertEqual(json.loads("".join(pieces)), {"q": "ls"})
        self.assertEqual(events[-2]["delta"]["stop_reason"], "tool_use")

    def test_msg_billing_line(self):
        with Server(script=[NOT_SEEN]) as server:
            counts, usages = [], []
            for body in self.request:
                counting = {name: value for name, value in body.items() if name != "max_tokens"}
                counts.append(json.loads(post(server, "/v1/messages/count_tokens", counting).body)["input_tokens"])
                usage = json.loads(post(server, "/v1/messages", body).body)["usage"]
                usages.append(usage["input_tokens"] + usage["cache_read_input_tokens"])
        self.assertEqual(len(set(counts + usages)), 1)
        # The whole prompt, so that equal numbers are equal tokens.
        for self.request in self.request:
            self.assert_rendered("/v1/messages", "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n")
            line = "x-anthropic-billing-header: cc_version=1;"
            result = [{"type": "tool_result", "tool_use_id": "t", "content": line}, {"type": "text", "text": line}]
            self.request = {**self.request, "messages": [{"role": "user", "content": result}]}
            self.assert_rendered("/v1/messages", f"<tool_response>\n{line}\n</tool_response>\n{line}")

    def test_msg_interleaved_order(self):
        # Each call is told where it was made. That a template which prints thinking has it between them, and that the
        # turn is equal to what was generated, is shown with such templates in prompt_test.
        self.assert_rendered("/v1/messages", '{"name": "A", "arguments": {"q": "1"}}')
        a, b = '{"name": "A", "arguments": {"q": "1"}}', '{"name": "B", "arguments": {"q": "2"}}'
        self.assert_rendered("/v1/messages", f"{a}\n</tool_call><|im_end|>\n<|im_start|>assistant\n<tool_call>\n{b}")


class EveryCaseHasATest(unittest.TestCase):
    def test_none_is_forgotten(self):
        tests = {name.removeprefix("test_").replace("_", "-") for name in dir(ApiCases) if name.startswith("test_")}
        self.assertEqual(tests, set(cases()))


if __name__ == "__main__":
    unittest.main()
