"""Several choices, several prompts and log probabilities, on the script."""

import json
import unittest

from harness import ScriptedCase, until

LIKELY = [{"logprob": -0.25, "top": [[100, -0.25], [101, -1.5]]}, {"logprob": -0.5, "top": [[102, -0.125], [103, -2]]}]


def by_index(events, piece):
    """Joins a stream: the text of each choice, how often each finished, and the usage at the end."""
    texts, finishes, usage = {}, {}, None
    for event in events:
        if event == "[DONE]":
            continue
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            index = choice["index"]
            texts[index] = texts.get(index, "") + (piece(choice) or "")
            if choice["finish_reason"]:
                finishes[index] = finishes.get(index, 0) + 1
    return texts, finishes, usage


class Choices(ScriptedCase):
    script = [
        {"match": "once", "text": "First."}, {"match": "once", "text": "Second one."},
        {"match": "half", "chunks": ["some "] * 3, "itl_ms": 20},
        {"match": "half", "chunks": ["words "], "itl_ms": 20, "finish": "error"},
        {"match": "early", "chunks": ["some "] * 3, "ttft_ms": 3_600_000}, {"match": "early", "text": "", "finish": "die"},
        {"match": "endless", "chunks": ["word "] * 3000, "itl_ms": 20, "repeat": True},
        {"match": "likely", "text": "<think>Hm.</think>Yes, naïve 😀.", "logprobs": LIKELY, "repeat": True},
        {"text": "Hello.", "repeat": True},
    ]

    def test_choices_are_numbered_and_the_prompt_counts_once(self):
        one = self.server.chat("hello")["usage"]
        many = self.server.chat("hello", n=5)
        self.assertEqual([choice["index"] for choice in many["choices"]], [0, 1, 2, 3, 4])
        self.assertEqual({choice["message"]["content"] for choice in many["choices"]}, {"Hello."})
        self.assertEqual(many["usage"]["prompt_tokens"], one["prompt_tokens"])
        self.assertEqual(many["usage"]["completion_tokens"], 5 * one["completion_tokens"])

    def test_each_choice_has_its_own_text(self):
        texts = [choice["message"]["content"] for choice in self.server.chat("once", n=2)["choices"]]
        self.assertEqual(texts, ["First.", "Second one."])

    def test_streamed_choices(self):
        fields = {"messages": [{"role": "user", "content": "hello"}], "n": 3, "stream_options": {"include_usage": True}}
        events = list(self.server.stream(**fields))
        self.assertEqual(events[-1], "[DONE]")
        texts, finishes, usage = by_index(events, lambda choice: choice["delta"].get("content"))
        self.assertEqual(texts, {0: "Hello.", 1: "Hello.", 2: "Hello."})
        self.assertEqual(finishes, {0: 1, 1: 1, 2: 1})
        self.assertEqual(sum("role" in c["delta"] for e in events[:-1] for c in e["choices"]), 3)
        self.assertEqual(usage, self.server.chat("hello", n=3)["usage"])

    def test_prompts_times_choices(self):
        body = {"prompt": ["one", "two words", "hello"], "n": 2, "max_tokens": 20}
        answer = json.loads(self.server.post("/v1/completions", body).body)
        self.assertEqual([choice["index"] for choice in answer["choices"]], list(range(6)))
        self.assertEqual({choice["text"] for choice in answer["choices"]}, {"Hello."})
        alone = [json.loads(self.server.post("/v1/completions", {"prompt": prompt}).body)["usage"]["prompt_tokens"]
                 for prompt in body["prompt"]]
        self.assertEqual(answer["usage"]["prompt_tokens"], sum(alone))
        texts, finishes, usage = by_index(
            self.server.stream("/v1/completions", **body, stream_options={"include_usage": True}),
            lambda choice: choice["text"])
        self.assertEqual((set(texts.values()), len(texts), set(finishes.values())), ({"Hello."}, 6, {1}))
        self.assertEqual(usage, answer["usage"])

    def test_prompts_of_ids(self):
        ids = json.loads(self.server.post("/tokenize", {"prompt": "hello"}).body)["tokens"]
        answer = json.loads(self.server.post("/v1/completions", {"prompt": [ids, ids + ids]}).body)
        self.assertEqual(answer["usage"]["prompt_tokens"], 3 * len(ids))

    def test_one_failure_fails_all(self):
        events = list(self.server.stream(messages=[{"role": "user", "content": "half"}], n=2))
        self.assertIn("error", events[-1])
        reply = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "early"}], "n": 2})
        self.assertEqual(reply.status, 503, "before the first byte it is a status, and the other choice is given up")
        until(lambda: self.server.metric("vllm:num_requests_running") == 0, what="an idle engine")

    def test_a_hang_up_frees_every_choice(self):
        stream = self.server.stream(messages=[{"role": "user", "content": "endless"}], n=8)
        next(iter(stream))
        self.assertEqual(self.server.metric("vllm:num_requests_running"), 8)
        stream.hang_up()
        until(lambda: self.server.metric("vllm:num_requests_running") == 0, what="an idle engine")

    def test_chat_logprobs_are_of_the_visible_text(self):
        choice = self.server.chat("likely", logprobs=True, top_logprobs=1)["choices"][0]
        self.assertEqual(choice["message"]["content"], "Yes, naïve 😀.")
        listed = choice["logprobs"]["content"]
        self.assertEqual(bytes(b for token in listed for b in token["bytes"]).decode(), "Yes, naïve 😀.")
        self.assertIsNone(choice["logprobs"]["refusal"])
        for token in listed:
            self.assertEqual((token["logprob"], len(token["top_logprobs"])), (-0.5, 1))
            self.assertEqual(token["top_logprobs"][0]["logprob"], -0.125)
        streamed = []
        for event in self.server.stream(messages=[{"role": "user", "content": "likely"}], logprobs=True, top_logprobs=1):
            for part in [] if event == "[DONE]" else event["choices"]:
                streamed += (part["logprobs"] or {}).get("content", [])
        self.assertEqual(streamed, listed)

    def test_completion_logprobs(self):
        body = {"prompt": "likely", "logprobs": 1, "max_tokens": 100}
        choice = json.loads(self.server.post("/v1/completions", body).body)["choices"][0]
        listed = choice["logprobs"]
        count = len(listed["tokens"])
        self.assertGreater(count, 5)
        for name in ("text_offset", "token_logprobs", "top_logprobs"):
            self.assertEqual(len(listed[name]), count)
        self.assertEqual(listed["token_logprobs"], [-0.25] + [-0.5] * (count - 1))
        for token, offset in zip(listed["tokens"], listed["text_offset"]):
            if "\\x" not in token:
                self.assertTrue(choice["text"][offset:].startswith(token), (token, offset))
        streamed = {name: [] for name in listed}
        for event in self.server.stream("/v1/completions", **body):
            for part in [] if event == "[DONE]" else event["choices"]:
                for name in streamed:
                    streamed[name] += (part["logprobs"] or {}).get(name, [])
        self.assertEqual(streamed, listed)

    def test_none_unless_asked(self):
        self.assertIsNone(self.server.chat("likely")["choices"][0]["logprobs"])


if __name__ == "__main__":
    unittest.main()
