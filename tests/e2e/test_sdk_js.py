"""OpenAI's JavaScript SDK against the real model and against the script."""

import filecmp
import json
import os
import shutil
import subprocess
import unittest

from harness import CACHE, ModelCase, ScriptedCase

HERE = os.path.dirname(os.path.abspath(__file__))
CALL = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>'


def ask(server, text, mode, model="", **fields):
    # node looks for packages beside the program: it is copied to where npm installed the SDK.
    source = os.path.join(HERE, "js", "sdk.mjs")
    program = os.path.join(CACHE, "sdk-js", "sdk.mjs")
    if not os.path.exists(program) or not filecmp.cmp(source, program, shallow=False):
        shutil.copyfile(source, program + ".part")
        os.replace(program + ".part", program)
    done = subprocess.run(["node", program, server.url + "/v1", model, text, mode, json.dumps(fields)],
                          capture_output=True, text=True, timeout=180, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class RealModel(ModelCase):
    def test_complete_and_stream_agree(self):
        whole = ask(self.server, "What is the capital of Germany?", "complete", "SmolLM2-135M-Instruct.Q8_0")
        self.assertIsNone(whole["error"])
        self.assertIn("Berlin", whole["content"])
        streamed = ask(self.server, "What is the capital of Germany?", "stream", "SmolLM2-135M-Instruct.Q8_0")
        self.assertEqual((streamed["content"], streamed["finish"]), (whole["content"], whole["finish"]))
        self.assertEqual(streamed["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])

    def test_two_choices(self):
        for mode in ("complete", "stream"):
            seen = ask(self.server, "Name a colour and say why.", mode, "SmolLM2-135M-Instruct.Q8_0", n=2, temperature=1,
                       seed=1, max_tokens=12)
            self.assertIsNone(seen["error"])
            self.assertEqual([bool(text) for text in seen["texts"]], [True, True])

    def test_logprobs(self):
        for mode in ("complete", "stream"):
            seen = ask(self.server, "What is the capital of Germany?", mode, "SmolLM2-135M-Instruct.Q8_0", logprobs=True,
                       top_logprobs=2, max_tokens=8)
            self.assertEqual(bytes(b for token in seen["logprobs"] for b in token["bytes"]).decode(), seen["content"])
            self.assertTrue(all(len(token["top_logprobs"]) == 2 for token in seen["logprobs"]))

    def test_unknown_model(self):
        error = ask(self.server, "x", "complete", "gpt-9")["error"]
        self.assertEqual((error["status"], error["code"]), (404, "model_not_found"))


class Script(ScriptedCase):
    script = [
        {"match": "read it for me", "text": f"<think>I need it.</think>{CALL}", "repeat": True},
        {"match": "fail", "chunks": ["some ", "words "], "finish": "error", "repeat": True},
        {"match": "likely", "text": "Yes, naïve 👩‍💻.", "logprobs": [{"logprob": -0.5, "top": [[100, -0.25]]}],
         "repeat": True},
        {"text": "Hello 👩‍💻.", "repeat": True},
    ]

    def test_two_choices(self):
        for mode in ("complete", "stream"):
            seen = ask(self.server, "hi", mode, n=2)
            self.assertEqual((seen["texts"], seen["error"]), (["Hello 👩‍💻."] * 2, None))

    def test_logprobs(self):
        for mode in ("complete", "stream"):
            seen = ask(self.server, "likely", mode, logprobs=True, top_logprobs=1)
            self.assertEqual(bytes(b for token in seen["logprobs"] for b in token["bytes"]).decode(), seen["content"])
            self.assertEqual({token["top_logprobs"][0]["logprob"] for token in seen["logprobs"]}, {-0.25})

    def test_text(self):
        for mode in ("complete", "stream"):
            seen = ask(self.server, "hi", mode)
            self.assertEqual((seen["content"], seen["finish"], seen["error"]), ("Hello 👩‍💻.", "stop", None))

    def test_reasoning_and_call(self):
        for mode in ("complete", "stream"):
            seen = ask(self.server, "read it for me", mode)
            self.assertEqual(seen["calls"], [["read_file", '{"path": "a.txt"}']])
            self.assertEqual((seen["reasoning"], seen["finish"]), ("I need it.", "tool_calls"))

    def test_failure(self):
        self.assertEqual(ask(self.server, "fail", "complete")["error"]["status"], 500)
        seen = ask(self.server, "fail", "stream")
        self.assertEqual(seen["content"].strip(), "some words")
        self.assertIsNotNone(seen["error"])


if __name__ == "__main__":
    unittest.main()
