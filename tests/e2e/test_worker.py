"""kvern worker: vLLM's wire, raw tokens in and out."""

import json
import unittest

from harness import MODEL, ROOT, until
from workers import SCRIPT, Worker

PROMPT = [504, 3575, 314, 260, 1802]


def sse(reply):
    """The data of a streamed answer's events."""
    return [line[6:] for line in reply.body.decode().split("\n") if line.startswith("data: ")]


class ScriptedWorker(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Worker("--name", "m", "--ctx", "1024", script=[
            {"match": "echo", "text": "one two", "repeat": True},
            {"match": "fail", "text": "one two three", "itl_ms": 20, "finish": "error", "repeat": True},
            *SCRIPT])

    @classmethod
    def tearDownClass(cls):
        if cls.server.stop() != 0:
            raise AssertionError(cls.server.output()[-3000:])

    def complete(self, **fields):
        return self.server.post("/v1/completions", {"model": "m", **fields})

    def test_says_what_it_is(self):
        self.assertIn("kvern", json.loads(self.server.get("/version").body)["version"])
        model = json.loads(self.server.get("/v1/models").body)["data"][0]
        self.assertEqual((model["id"], model["max_model_len"]), ("m", 1024))
        for path in ("/health", "/ping", "/ready", "/live", "/load", "/kv_event_sources", "/metrics"):
            self.assertEqual(self.server.get(path).status, 200, path)

    def test_the_shape_is_the_recorded_one(self):
        """Same keys in the same order as a recorded vLLM 0.32, streamed and whole."""
        recorded = {}
        with open(f"{ROOT}/src/engine/vllm/recordings/vllm-0.32-http.jsonl", encoding="utf-8") as file:
            for line in file:
                call = json.loads(line)
                recorded[call["name"]] = call
        reply = self.complete(prompt="echo", return_token_ids=True)
        ours, theirs = json.loads(reply.body), json.loads(recorded["ids-nonstream"]["body"])
        self.assertEqual(list(ours), list(theirs))
        self.assertEqual(list(ours["choices"][0]), list(theirs["choices"][0]))
        self.assertEqual(list(ours["usage"]), list(theirs["usage"]))
        reply = self.complete(prompt="echo", return_token_ids=True, stream=True, stream_options={"include_usage": True})
        ours = [json.loads(data) for data in sse(reply)[:-1]]
        theirs = [json.loads(line[6:]) for line in recorded["ids-stream-turn2"]["lines"] if line.startswith("data: {")]
        for at in (0, 1, -1):
            self.assertEqual(list(ours[at]), list(theirs[at]))
        for at in (0, 1):
            self.assertEqual(list(ours[at]["choices"][0]), list(theirs[at]["choices"][0]))
        self.assertEqual(sse(reply)[-1], "[DONE]")

    def test_token_ids_in_and_out(self):
        reply = self.complete(prompt=PROMPT, return_token_ids=True, stream=True, max_tokens=4)
        events = [json.loads(data) for data in sse(reply)[:-1]]
        self.assertEqual(events[0]["choices"][0]["prompt_token_ids"], PROMPT)
        self.assertIsNone(events[1]["choices"][0]["prompt_token_ids"])
        ids = [token for event in events for token in event["choices"][0]["token_ids"]]
        self.assertEqual(len(ids), 4)
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "length")
        text = json.loads(self.server.post("/detokenize", {"tokens": ids}).body)["prompt"]
        self.assertEqual("".join(event["choices"][0]["text"] for event in events), text)

    def test_text_is_tokenised_with_its_markup(self):
        reply = json.loads(self.server.post("/tokenize", {"prompt": "a<|im_end|>", "model": "m"}).body)
        self.assertEqual(reply["tokens"][-1], 2)
        self.assertEqual(reply["max_model_len"], 1024)

    def test_defaults_and_stops_are_vllms(self):
        choice = json.loads(self.complete(prompt="go").body)["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")  # 16 tokens
        self.assertIsNone(choice["token_ids"])
        choice = json.loads(self.complete(prompt="go", max_tokens=100, stop=["w2"]).body)["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"], choice["stop_reason"]), ("w0 w1 ", "stop", "w2"))
        choice = json.loads(self.complete(prompt="go", max_tokens=100, stop=["w2"],
                                          include_stop_str_in_output=True).body)["choices"][0]
        self.assertEqual(choice["text"], "w0 w1 w2")

    def test_errors_are_in_vllms_envelope(self):
        for fields, status, kind, param in (
                ({"prompt": [1] * 1400}, 400, "BadRequestError", "input_tokens"),
                ({"prompt": "x", "priority": "high"}, 400, "BadRequestError", "priority"),
                ({"prompt": "x", "model": "nope"}, 404, "NotFoundError", "model"),
                ({"prompt": [99_999_999]}, 400, "BadRequestError", "prompt"),
                ({"prompt": "fail", "stream": False}, 500, "InternalServerError", None)):
            reply = self.complete(**fields)
            error = json.loads(reply.body)["error"]
            self.assertEqual((reply.status, error["type"], error["param"], error["code"]),
                             (status, kind, param, status), fields)
        self.assertEqual(self.server.post("/v1/chat/completions", {}).status, 404)
        self.assertEqual(self.server.get("/v1/completions").status, 405)

    def test_a_failure_in_the_middle_is_an_event(self):
        events = sse(self.complete(prompt="fail", stream=True))
        self.assertIn("error", json.loads(events[-2]))
        self.assertEqual(events[-1], "[DONE]")

    def test_hanging_up_cancels(self):
        stream = self.server.stream("/v1/completions", model="m", prompt="go", max_tokens=500)
        next(iter(stream))
        self.assertGreater(self.server.running(), 0)
        stream.hang_up()
        until(lambda: self.server.running() == 0, 5, "the cancel")

    def test_it_guards_as_serve_does(self):
        self.assertEqual(self.server.get("/v1/models", headers={"host": "evil.example"}).status, 421)
        self.assertEqual(self.server.get("/v1/models", headers={"origin": "http://evil.example"}).status, 403)
        self.assertEqual(self.server.request("POST", "/v1/completions", "{}", {"content-type": "text/plain"}).status, 415)


class Events(unittest.TestCase):
    """Where KV events go, and what the operator is told about it."""

    def test_they_leave_the_machine_only_when_asked_to(self):
        for flags in (("--events", "tcp://*:*"), ("--events", "tcp://127.0.0.1:*", "--replay", "tcp://0.0.0.0:*")):
            worker = Worker("--model", MODEL, *flags, wait=False)
            self.assertNotEqual(worker.wait_exit(), 0)
            self.assertIn("--insecure", worker.output())
            worker.stop()

    def test_the_line_for_the_workers_file_says_who_binds(self):
        with Worker("--ctx", "512", "--model", MODEL, "--events", "tcp://127.0.0.1:5557") as connecting:
            until(lambda: "workers: [" in connecting.output(), what="the banner")
            self.assertIn("bind: true", connecting.output())
        with Worker("--ctx", "512", "--model", MODEL, "--events", "tcp://127.0.0.1:*") as binding:
            until(lambda: "workers: [" in binding.output(), what="the banner")
            self.assertNotIn("bind: true", binding.output())


class ModelWorker(unittest.TestCase):
    """The default model, with KV events."""

    @classmethod
    def setUpClass(cls):
        cls.server = Worker("--ctx", "2048", "--model", MODEL, "--events", "tcp://127.0.0.1:*",
                            "--replay", "tcp://127.0.0.1:*")

    @classmethod
    def tearDownClass(cls):
        if cls.server.stop() != 0:
            raise AssertionError(cls.server.output()[-3000:])

    def test_reuse_is_told(self):
        prompt = [100 + n % 50 for n in range(100)]
        for cached in (0, 96):
            reply = json.loads(self.server.post("/v1/completions", {
                "prompt": prompt, "max_tokens": 2, "temperature": 0}).body)
            self.assertEqual(reply["usage"]["prompt_tokens_details"]["cached_tokens"], cached)
        # Another salt shares nothing.
        reply = json.loads(self.server.post("/v1/completions", {
            "prompt": prompt, "max_tokens": 2, "temperature": 0, "cache_salt": "other"}).body)
        self.assertEqual(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_event_sources_are_told(self):
        source = json.loads(self.server.get("/kv_event_sources").body)["0"]
        self.assertTrue(source["endpoint"].startswith("tcp://127.0.0.1:"))
        self.assertTrue(source["replay_endpoint"].startswith("tcp://127.0.0.1:"))

    def test_metrics_have_vllms_names(self):
        names = {key.split("{")[0] for key in self.server.metrics()}
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
                     "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:num_preemptions_total"):
            self.assertIn(name, names)


if __name__ == "__main__":
    unittest.main()
