"""The default model, end to end: what the sanitizer build with the engine runs."""

import json
import unittest

from harness import ModelCase


class Smoke(ModelCase):
    def test_whole_answer(self):
        answer = self.server.chat("Say hi.", max_tokens=8, temperature=0)
        self.assertEqual(answer["object"], "chat.completion")
        self.assertTrue(answer["choices"][0]["message"]["content"])
        self.assertEqual(answer["usage"]["total_tokens"],
                         answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"])

    def test_streamed_answer_is_the_whole_one(self):
        fields = {"messages": [{"role": "user", "content": "Count to five."}], "max_tokens": 12, "temperature": 0}
        whole = self.server.chat(**fields)["choices"][0]["message"]["content"]
        self.assertEqual(self.server.stream(**fields).text(), whole)

    def test_completions_and_tokens(self):
        ids = json.loads(self.server.post("/tokenize", {"prompt": "The capital of France is"}).body)["tokens"]
        self.assertGreater(len(ids), 3)
        text = json.loads(self.server.post("/detokenize", {"tokens": ids}).body)["prompt"]
        self.assertEqual(text, "The capital of France is")
        by_ids = json.loads(self.server.post("/v1/completions", {"prompt": ids, "max_tokens": 4, "temperature": 0}).body)
        by_text = json.loads(self.server.post(
            "/v1/completions", {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}).body)
        self.assertEqual(by_ids["choices"][0]["text"], by_text["choices"][0]["text"])

    def test_hang_up_frees_the_engine(self):
        stream = self.server.stream(messages=[{"role": "user", "content": "Tell a long story."}], max_tokens=400)
        next(iter(stream))
        stream.hang_up()
        self.assertTrue(self.server.chat("Still there?", max_tokens=2))


if __name__ == "__main__":
    unittest.main()
