"""/v1/chat/completions through the built binary, on the scripted engine.

Tests are named by the points of the conformance checklist they hold (14 to 36).
"""

import json
import unittest

from harness import REPEAT_HELLO, ScriptedCase, Server, until


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


SCRIPT = [
    {"match": "one call", "text": f'<think>plan</think>Calling.{call("exec", json.dumps({"q": "l s"}))}', "repeat": True},
    {"match": "two calls", "text": call("exec", '{"q": "ls"}') + "\n" + call("exec", "{}"), "repeat": True},
    {"match": "patch call", "text": call("apply_patch", '{"input": "*** Begin\\n+\\u00e9 \\"x\\"\\n"}'), "repeat": True},
    {"match": "breaks", "chunks": ["one ", "two "], "finish": "error", "repeat": True},
    {"match": "until END", "text": "before END after", "repeat": True},
    {"match": "likely", "text": "a b", "logprobs": [{"logprob": -0.5}], "repeat": True},
    *REPEAT_HELLO,
]
EXEC = {"type": "function", "function": {"name": "exec", "parameters": {"type": "object"}}}
PATCH = {"type": "custom", "custom": {"name": "apply_patch", "format": {
    "type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /.+/"}}}}
TOOLS = [EXEC, PATCH]
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def user(text):
    return [{"role": "user", "content": text}]


class Chat(ScriptedCase):
    script = SCRIPT

    def chunks(self, said, **fields):
        found = list(self.server.stream(messages=user(said), **fields))
        self.assertEqual(found[-1], "[DONE]")
        return found[:-1]

    def deltas(self, said, **fields):
        return [chunk["choices"][0]["delta"] for chunk in self.chunks(said, **fields) if chunk["choices"]]

    def said(self, **fields):
        return self.server.chat(**fields)["choices"][0]["message"]

    def refused(self, **fields):
        reply = self.server.post("/v1/chat/completions", {"messages": user("hi"), **fields})
        self.assertEqual(reply.status, 400, reply.body)
        return json.loads(reply.body)["error"]

    def test_15_the_role_first_and_the_reason_last(self):
        choices = [chunk["choices"][0] for chunk in self.chunks("hi")]
        self.assertEqual(choices[0]["delta"]["role"], "assistant")
        self.assertEqual([choice["finish_reason"] for choice in choices], [None] * (len(choices) - 1) + ["stop"])

    def test_16_17_18_31_calls(self):
        chunks = self.chunks("two calls", tools=TOOLS)
        pieces = [piece for chunk in chunks for piece in chunk["choices"][0]["delta"].get("tool_calls", [])]
        firsts = [piece for piece in pieces if "id" in piece]
        self.assertEqual([(piece["index"], piece["type"], piece["function"]["name"]) for piece in firsts],
                         [(0, "function", "exec"), (1, "function", "exec")])
        self.assertEqual(len({piece["id"] for piece in firsts}), 2)
        joined = ["".join(piece["function"]["arguments"] for piece in pieces if piece["index"] == i) for i in (0, 1)]
        self.assertEqual(joined, ['{"q": "ls"}', "{}"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "tool_calls")
        self.assertEqual(self.server.chat("hi", max_tokens=1)["choices"][0]["finish_reason"], "length")

    def test_19_20_21_usage(self):
        self.assertFalse(any("usage" in chunk for chunk in self.chunks("hi")))
        *before, last = self.chunks("hi", stream_options={"include_usage": True})
        self.assertTrue(all(chunk["usage"] is None for chunk in before))
        self.assertEqual(last["choices"], [])
        usage = last["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertIsInstance(usage["prompt_tokens_details"]["cached_tokens"], int)

    def test_22_reasoning_before_content(self):
        kinds = [key for delta in self.deltas("one call", tools=TOOLS) for key in delta if key != "role" and delta[key]]
        self.assertEqual(list(dict.fromkeys(kinds)), ["reasoning_content", "content", "tool_calls"])

    def test_23_24_reasoning_comes_back(self):
        # Whatever it is called, the prompt is the same.
        counts = set()
        for field in ({"reasoning_content": "so"}, {"reasoning": "so"},
                      {"reasoning_details": [{"type": "reasoning.text", "text": "so"}]}):
            messages = [*user("a"), {"role": "assistant", "content": "b", **field}, *user("c")]
            counts.add(self.server.chat(messages=messages)["usage"]["prompt_tokens"])
        self.assertEqual(len(counts), 1)

    def test_25_choices(self):
        answer = self.server.chat("hi", n=3)
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2])
        self.assertEqual(answer["usage"]["prompt_tokens"], self.server.chat("hi")["usage"]["prompt_tokens"])

    def test_26_stop(self):
        self.assertEqual(self.said(messages=user("until END"), stop=["never", "END"])["content"], "before ")
        self.assertEqual(self.refused(stop=list("abcde"))["param"], "stop")

    def test_27_logprobs(self):
        choice = self.server.chat("likely", logprobs=True, top_logprobs=20)["choices"][0]
        self.assertEqual([entry["logprob"] for entry in choice["logprobs"]["content"]], [-0.5, -0.5])
        self.assertEqual(self.refused(logprobs=True, top_logprobs=21)["param"], "top_logprobs")

    def test_28_answer_formats_are_taken(self):
        for form in ({"type": "text"}, {"type": "json_object"},
                     {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}):
            self.said(response_format=form)
        self.assertEqual(self.refused(response_format={"type": "xml"})["param"], "response_format.type")

    def test_29_30_tool_choices_are_taken(self):
        named = {"type": "function", "function": {"name": "exec"}}
        custom = {"type": "custom", "custom": {"name": "apply_patch"}}
        for choice in ("none", "auto", "required", named, custom,
                       {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named, custom]}}):
            self.said(tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
        wrong = {"type": "function", "function": {"name": "none such"}}
        self.assertEqual(self.refused(tools=TOOLS, tool_choice=wrong)["param"], "tool_choice.function.name")
        self.assertEqual(self.refused(tool_choice="required")["param"], "tool_choice")

    def test_32_every_form_of_content(self):
        text = {"type": "text", "text": "hi"}
        for content in ("hi", [text], [text, text]):
            self.said(messages=[{"role": "user", "content": content}])
        used = {"id": "c", "type": "function", "function": {"name": "exec", "arguments": "{}"}}
        for content in (None, "", [text]):
            self.said(messages=[*user("a"), {"role": "assistant", "content": content, "tool_calls": [used]},
                                {"role": "tool", "tool_call_id": "c", "content": [text]}], tools=TOOLS)

    def test_32_nothing_is_fetched_and_a_text_model_sees_nothing(self):
        for url, param in (("http://127.0.0.1/x.png", "messages[0].content[0].image_url.url"), (PIXEL, "messages")):
            image = {"type": "image_url", "image_url": {"url": url}}
            self.assertEqual(self.refused(messages=[{"role": "user", "content": [image]}])["param"], param)
        file = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="}}
        self.said(messages=[{"role": "user", "content": [file]}])

    def test_33_developer_is_system(self):
        counts = {self.server.chat(messages=[{"role": role, "content": "S"}, *user("hi")])["usage"]["prompt_tokens"]
                  for role in ("developer", "system")}
        self.assertEqual(len(counts), 1)

    def test_34_a_custom_tool(self):
        text = '*** Begin\n+é "x"\n'
        [whole] = self.said(messages=user("patch call"), tools=TOOLS)["tool_calls"]
        self.assertEqual((whole["type"], whole["custom"]), ("custom", {"name": "apply_patch", "input": text}))
        pieces = [piece for delta in self.deltas("patch call", tools=TOOLS) for piece in delta.get("tool_calls", [])]
        self.assertEqual(pieces[0]["custom"]["name"], "apply_patch")
        self.assertEqual("".join(piece["custom"]["input"] for piece in pieces), text)
        self.assertGreater(len(pieces), 2, "the input comes as it is made")
        self.said(messages=[*user("a"), {"role": "assistant", "content": None, "tool_calls": [whole]},
                            {"role": "tool", "tool_call_id": whole["id"], "content": "ok"}], tools=TOOLS)

    def test_35_a_failure_in_the_stream(self):
        *_, last = list(self.server.stream(messages=user("breaks")))
        self.assertLessEqual({"message", "type", "code"}, last["error"].keys())

    def test_36_either_name_of_the_most_tokens(self):
        for name in ("max_tokens", "max_completion_tokens"):
            self.assertEqual(self.server.chat("hi", **{name: 2})["usage"]["completion_tokens"], 2)

    def test_efforts_and_thinking_are_taken(self):
        for field in ({"reasoning_effort": "none"}, {"reasoning_effort": "xhigh"}, {"enable_thinking": False},
                      {"thinking": {"type": "enabled"}}):
            self.said(**field)
        self.assertEqual(self.refused(reasoning_effort="enormous")["param"], "reasoning_effort")

    def test_marks_are_clipped_and_told_to_the_log(self):
        mark = {"cache_control": {"type": "ephemeral"}}
        parts = [{"type": "text", "text": "a", **mark}] * 5
        self.said(messages=[{"role": "user", "content": parts}])
        until(lambda: "messages[0].content[4].cache_control dropped" in self.server.output(), what="the log line")
        mark["cache_control"]["ttl"] = "2h"
        self.assertEqual(self.refused(messages=[{"role": "user", "content": [{"type": "text", "text": "a", **mark}]}])["param"],
                         "messages[0].content[0].cache_control.ttl")


class SamePrompt(unittest.TestCase):
    def test_14_one_request_over_three_apis_is_one_prompt(self):
        """A script that answers to nothing but the whole prompt, which the first server told."""
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        tool = {"name": "exec", "description": "d", "parameters": schema}
        arguments = '{"q": "ls"}'
        chat = {"tools": [{"type": "function", "function": tool}], "messages": [
            {"role": "system", "content": "S"}, *user("go"),
            {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "exec", "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}, *user("on")]}
        responses = {"instructions": "S", "tools": [{"type": "function", **tool}], "input": [
            *user("go"), {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"role": "assistant", "content": "Yes."},
            {"type": "function_call", "call_id": "c1", "name": "exec", "arguments": arguments},
            {"type": "function_call_output", "call_id": "c1", "output": "a.txt"}, *user("on")]}
        messages = {"max_tokens": 9, "system": "S", "messages": [
            *user("go"), {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Yes."},
                {"type": "tool_use", "id": "c1", "name": "exec", "input": {"q": "ls"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"},
                                         {"type": "text", "text": "on"}]}],
            "tools": [{"name": "exec", "description": "d", "input_schema": schema}]}
        with Server(script=REPEAT_HELLO) as server:
            tokens = json.loads(server.post("/tokenize", chat).body)["tokens"]
            prompt = json.loads(server.post("/detokenize", {"tokens": tokens}).body)["prompt"]
        with Server(script=[{"match": prompt, "text": "the same", "repeat": True}, *REPEAT_HELLO]) as server:
            self.assertEqual(server.chat(**chat)["choices"][0]["message"]["content"], "the same")
            told = json.loads(server.post("/v1/responses", responses).body)
            self.assertEqual(told["output"][0]["content"][0]["text"], "the same")
            self.assertEqual(told["usage"]["input_tokens"], len(tokens))
            told = json.loads(server.post("/v1/messages", messages).body)
            self.assertEqual(told["content"][0]["text"], "the same")
            usage = told["usage"]
            self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], len(tokens))


if __name__ == "__main__":
    unittest.main()
