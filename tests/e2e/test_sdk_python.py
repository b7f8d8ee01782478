"""OpenAI's Python SDK against the real model and against the script."""

import json
import unittest

import openai

from harness import ModelCase, ScriptedCase

CALL = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt", "lines": [1, 2]}}\n</tool_call>'


TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
         for name in ("read_file", "now")]


def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0, timeout=120)


class RealModel(ModelCase):
    def test_complete(self):
        answer = client(self.server).chat.completions.create(
            model="SmolLM2-135M-Instruct.Q8_0", messages=[{"role": "user", "content": "What is the capital of Germany?"}],
            max_tokens=16, temperature=0)
        self.assertIn("Berlin", answer.choices[0].message.content)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertIsNotNone(answer.usage.prompt_tokens_details.cached_tokens)

    def test_stream(self):
        chunks = list(client(self.server).chat.completions.create(
            model="SmolLM2-135M-Instruct.Q8_0", messages=[{"role": "user", "content": "Count to three."}], max_tokens=16,
            temperature=0, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertTrue("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
        finishes = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
        self.assertEqual(len(finishes), 1)
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)
        self.assertTrue(all(c.usage is None for c in chunks[:-1]))

    def test_stream_helper(self):
        with client(self.server).chat.completions.stream(
                model="SmolLM2-135M-Instruct.Q8_0", temperature=0,
                messages=[{"role": "user", "content": "What is the capital of Germany?"}]) as stream:
            for _ in stream:
                pass
            self.assertIn("Berlin", stream.get_final_completion().choices[0].message.content)

    def test_completions(self):
        api = client(self.server)
        whole = api.completions.create(model="SmolLM2-135M-Instruct.Q8_0", prompt="Once upon a time", max_tokens=8,
                                       temperature=0)
        streamed = api.completions.create(model="SmolLM2-135M-Instruct.Q8_0", prompt="Once upon a time", max_tokens=8,
                                          temperature=0, stream=True)
        self.assertEqual("".join(c.choices[0].text for c in streamed if c.choices), whole.choices[0].text)

    def test_two_choices(self):
        fields = {"model": "SmolLM2-135M-Instruct.Q8_0", "n": 2, "max_tokens": 12, "seed": 1,
                  "messages": [{"role": "user", "content": "Name a colour and say why you like it."}]}
        answer = client(self.server).chat.completions.create(**fields)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertTrue(all(choice.message.content for choice in answer.choices))
        self.assertNotEqual(answer.choices[0].message.content, answer.choices[1].message.content)
        one = client(self.server).chat.completions.create(**{**fields, "n": 1})
        self.assertEqual(answer.usage.prompt_tokens, one.usage.prompt_tokens)
        texts = {0: "", 1: ""}
        for chunk in client(self.server).chat.completions.create(**fields, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        self.assertTrue(all(texts.values()), texts)

    def test_logprobs(self):
        api = client(self.server)
        fields = {"model": "SmolLM2-135M-Instruct.Q8_0", "max_tokens": 8, "temperature": 0}
        choice = api.chat.completions.create(
            **fields, logprobs=True, top_logprobs=3,
            messages=[{"role": "user", "content": "What is the capital of Germany?"}]).choices[0]
        self.assertEqual(bytes(b for token in choice.logprobs.content for b in token.bytes).decode(),
                         choice.message.content)
        for token in choice.logprobs.content:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertEqual((token.token, token.logprob), (token.top_logprobs[0].token, token.top_logprobs[0].logprob))
            self.assertLessEqual(token.logprob, 0)
        listed = api.completions.create(**fields, prompt="Once upon a time", logprobs=2).choices[0]
        self.assertEqual("".join(listed.logprobs.tokens), listed.text)
        self.assertEqual(len(listed.logprobs.token_logprobs), 8)

    def test_logit_bias(self):
        fields = {"model": "SmolLM2-135M-Instruct.Q8_0", "prompt": "The capital of France is", "max_tokens": 1,
                  "temperature": 0}
        api = client(self.server)
        plain = api.completions.create(**fields, logprobs=1).choices[0]
        [wanted] = json.loads(self.server.post("/tokenize", {"prompt": " not", "add_special_tokens": False}).body)["tokens"]
        self.assertEqual(api.completions.create(**fields, logit_bias={wanted: 100}).choices[0].text, " not")
        self.assertNotEqual(plain.text, " not")

    def test_models(self):
        self.assertEqual([model.id for model in client(self.server).models.list()], ["SmolLM2-135M-Instruct.Q8_0"])

    def test_unknown_model_raises_not_found(self):
        with self.assertRaises(openai.NotFoundError) as raised:
            client(self.server).chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "x"}])
        self.assertEqual(raised.exception.code, "model_not_found")
        self.assertIn("SmolLM2-135M-Instruct.Q8_0", str(raised.exception))

    def test_too_long_raises_with_both_numbers(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            client(self.server).chat.completions.create(model="SmolLM2-135M-Instruct.Q8_0",
                                                        messages=[{"role": "user", "content": "word " * 9000}])
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        self.assertRegex(str(raised.exception), r"8192")


class Script(ScriptedCase):
    script = [
        {"match": "one call", "text": f"<think>I need the file.</think>Reading it.\n{CALL}", "repeat": True},
        {"match": "two calls", "text": f"{CALL}\n{CALL.replace('a.txt', 'b.txt')}", "repeat": True},
        {"match": "no arguments", "text": '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>', "repeat": True},
        {"match": "fail", "chunks": ["some ", "words "], "finish": "error", "repeat": True},
        {"match": "two whole", "text": "First."}, {"match": "two whole", "text": f"{CALL}"},
        {"match": "two streamed", "text": "First."}, {"match": "two streamed", "text": "Second."},
        {"match": "likely", "text": "Yes, naïve 👩‍💻.", "logprobs": [{"logprob": -0.5, "top": [[100, -0.25]]}],
         "repeat": True},
        {"match": "cut", "text": "one two three four five six seven eight", "repeat": True},
        {"text": "<think>Hm.</think>Hello 👩‍💻, naïve café.", "repeat": True},
    ]

    def ask(self, text, **fields):
        return client(self.server).chat.completions.create(
            model="", messages=[{"role": "user", "content": text}], tools=TOOLS, **fields)

    def collect(self, stream):
        """Joins a stream as SDK users do: content, reasoning, calls by index, finish reason."""
        content, reasoning, calls, finish, order = "", "", {}, None, []
        for chunk in stream:
            for choice in chunk.choices:
                delta = choice.delta
                if getattr(delta, "reasoning_content", None):
                    reasoning += delta.reasoning_content
                    order.append("reasoning")
                if delta.content:
                    content += delta.content
                    order.append("content")
                for call in delta.tool_calls or []:
                    kept = calls.setdefault(call.index, {"id": None, "name": None, "arguments": ""})
                    if call.id:
                        self.assertIsNone(kept["id"], "an id comes once")
                        kept["id"], kept["name"] = call.id, call.function.name
                    kept["arguments"] += call.function.arguments or ""
                    order.append("call")
                finish = choice.finish_reason or finish
        return content, reasoning, [calls[i] for i in sorted(calls)], finish, order

    def test_text_with_reasoning(self):
        message = self.ask("hi").choices[0].message
        self.assertEqual(message.content, "Hello 👩‍💻, naïve café.")
        self.assertEqual(message.reasoning_content, "Hm.")
        content, reasoning, calls, finish, order = self.collect(self.ask("hi", stream=True))
        self.assertEqual((content, reasoning, calls, finish), ("Hello 👩‍💻, naïve café.", "Hm.", [], "stop"))
        self.assertLess(order.index("reasoning"), order.index("content"))
        self.assertNotIn("reasoning", order[order.index("content"):])

    def test_tool_call_whole(self):
        choice = self.ask("one call").choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertEqual(choice.message.reasoning_content, "I need the file.")
        self.assertEqual(choice.message.content.strip(), "Reading it.")
        [call] = choice.message.tool_calls
        self.assertEqual((call.type, call.function.name), ("function", "read_file"))
        self.assertEqual(call.function.arguments, '{"path": "a.txt", "lines": [1, 2]}')

    def test_tool_call_streamed(self):
        content, reasoning, calls, finish, _ = self.collect(self.ask("one call", stream=True))
        self.assertEqual(finish, "tool_calls")
        self.assertEqual(reasoning, "I need the file.")
        self.assertEqual(content.strip(), "Reading it.")
        self.assertEqual([(call["name"], call["arguments"]) for call in calls],
                         [("read_file", '{"path": "a.txt", "lines": [1, 2]}')])
        self.assertTrue(calls[0]["id"])

    def test_parallel_calls_are_numbered(self):
        _, _, calls, finish, _ = self.collect(self.ask("two calls", stream=True))
        self.assertEqual(finish, "tool_calls")
        self.assertEqual([call["arguments"] for call in calls],
                         ['{"path": "a.txt", "lines": [1, 2]}', '{"path": "b.txt", "lines": [1, 2]}'])
        self.assertNotEqual(calls[0]["id"], calls[1]["id"])
        whole = self.ask("two calls").choices[0].message.tool_calls
        self.assertEqual([call.function.arguments for call in whole], [call["arguments"] for call in calls])

    def test_no_arguments_are_an_empty_object(self):
        [call] = self.ask("no arguments").choices[0].message.tool_calls
        self.assertEqual(call.function.arguments, "{}")

    def test_without_tools_a_call_is_text(self):
        answer = client(self.server).chat.completions.create(model="", messages=[{"role": "user", "content": "no arguments"}])
        self.assertIsNone(answer.choices[0].message.tool_calls)
        self.assertIn("<tool_call>", answer.choices[0].message.content)

    def test_a_call_and_its_result_go_back(self):
        call = self.ask("one call").choices[0].message
        answer = client(self.server).chat.completions.create(
            model="", tools=TOOLS, messages=[{"role": "user", "content": "read it"}, call.model_dump(exclude_none=True),
                                             {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "text"}])
        self.assertEqual(answer.choices[0].message.content, "Hello 👩‍💻, naïve café.")

    def test_two_choices(self):
        first, second = self.ask("two whole", n=2).choices
        self.assertEqual((first.message.content, first.finish_reason), ("First.", "stop"))
        self.assertEqual((second.message.tool_calls[0].function.name, second.finish_reason), ("read_file", "tool_calls"))
        texts = {0: "", 1: ""}
        for chunk in self.ask("two streamed", n=2, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        self.assertEqual(texts, {0: "First.", 1: "Second."})

    def test_logprobs(self):
        choice = self.ask("likely", logprobs=True, top_logprobs=1).choices[0]
        self.assertEqual(bytes(b for token in choice.logprobs.content for b in token.bytes).decode(),
                         choice.message.content)
        self.assertEqual({token.logprob for token in choice.logprobs.content}, {-0.5})
        self.assertEqual({token.top_logprobs[0].logprob for token in choice.logprobs.content}, {-0.25})

    def test_failure_in_the_stream_raises(self):
        stream = self.ask("fail", stream=True)
        got = ""
        with self.assertRaises(openai.APIError):
            for chunk in stream:
                got += chunk.choices[0].delta.content or ""
        self.assertEqual(got.strip(), "some words")  # a space at the border may be held back

    def test_failure_of_a_whole_answer_is_a_status(self):
        with self.assertRaises(openai.InternalServerError):
            self.ask("fail")

    def test_cut_by_max_tokens(self):
        choice = self.ask("cut", max_tokens=3).choices[0]
        self.assertEqual(choice.finish_reason, "length")
        choice = self.ask("cut", max_completion_tokens=3).choices[0]
        self.assertEqual(choice.finish_reason, "length")

    def test_stop_string_is_not_given_out(self):
        choice = self.ask("cut", stop=["five"]).choices[0]
        self.assertEqual((choice.finish_reason, choice.message.content.strip()), ("stop", "one two three four"))
        content, _, _, finish, _ = self.collect(self.ask("cut", stop=["five"], stream=True))
        self.assertEqual((finish, content.strip()), ("stop", "one two three four"))


if __name__ == "__main__":
    unittest.main()
