"""The scripted engine, end to end: what the sanitizer build without the embedded engine runs."""

import concurrent.futures
import unittest

from harness import ScriptedCase, until


class SmokeScripted(ScriptedCase):
    script = [
        {"match": "think", "text": "<think>Let me see.</think>Done.", "repeat": True},
        {"match": "slow", "chunks": ["word "] * 200, "itl_ms": 5, "repeat": True},
        {"text": "Hello from the script.", "repeat": True},
    ]

    def test_answers(self):
        self.assertEqual(self.server.chat()["choices"][0]["message"]["content"], "Hello from the script.")
        self.assertEqual(self.server.stream(messages=[{"role": "user", "content": "hi"}]).text(), "Hello from the script.")

    def test_reasoning_is_told_apart(self):
        message = self.server.chat("think")["choices"][0]["message"]
        self.assertEqual((message["reasoning_content"], message["content"]), ("Let me see.", "Done."))

    def test_many_at_once_and_half_of_them_hang_up(self):
        def one(i):
            stream = self.server.stream(messages=[{"role": "user", "content": "slow"}])
            if i % 2:
                next(iter(stream))
                stream.hang_up()
                return None
            return stream.text()

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            texts = list(pool.map(one, range(32)))
        self.assertEqual([text for text in texts if text is not None], ["word " * 200] * 16)
        until(lambda: self.server.metric("vllm:num_requests_running") == 0, what="an idle engine")


if __name__ == "__main__":
    unittest.main()
