"""kvern serve before real workers, while those die, hang, stop and talk nonsense: every stream ends exact or with a clear
error, nothing hangs, nothing is left running. The conformance suite of the adapters against real processes."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import unittest

from harness import BINARY, CACHE, MODEL, PATIENCE, Server, until
from workers import SCRIPT, WORDS, Crowd, Front, Misbehaving, Worker, entry, quiet, workers_json

QUICK = ("--worker-silent-deadline", "2s", "--worker-first-token-deadline", "1500ms")
STREAMS = 32


class Fleet(unittest.TestCase):
    """Two scripted workers; a test may do anything to them."""

    count = 2

    def setUp(self):
        self.workers = [Worker("--name", "m", script=SCRIPT) for _ in range(self.count)]
        self.addCleanup(lambda: [worker.stop() for worker in self.workers])

    def front(self, *more, arguments=QUICK):
        entries = [entry(f"w{n}", worker.url) for n, worker in enumerate(self.workers)]
        front = Front([*entries, *more], *arguments)
        self.addCleanup(front.stop)
        return front

    def restart(self, at):
        """The same worker again, on the same port."""
        port = self.workers[at].port
        self.workers[at].stop()
        self.workers[at] = Worker("--name", "m", "--port", str(port), script=SCRIPT)

    def test_streams_are_spread_and_exact(self):
        front = self.front()
        crowd = Crowd(front, STREAMS).wait()
        self.assertEqual(len(crowd.exact(WORDS)), STREAMS)
        placed = {key.split('worker="')[1].split('"')[0]: value for key, value in front.metrics().items()
                  if key.startswith("kvern_worker_placed{")}
        self.assertEqual(placed, {"w0": STREAMS / 2, "w1": STREAMS / 2})
        reply = front.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "quick"}]})
        self.assertIn(reply.headers["x-kvern-worker"], ("w0", "w1"))
        quiet(front, *self.workers)

    def test_kill_and_restart(self):
        front = self.front()
        crowd = Crowd(front, STREAMS).wait_begun()
        self.workers[0].signal(signal.SIGKILL)
        crowd.wait().check(self, WORDS)
        self.assertEqual(len(crowd.exact(WORDS)), STREAMS / 2)
        # What comes now goes to the other one, at once.
        self.assertEqual(len(Crowd(front, 8, "quick").wait().exact("one two three")), 8)
        quiet(front, self.workers[1])
        self.assertEqual(front.up(), {"w1"})
        self.restart(0)
        until(lambda: front.up() == {"w0", "w1"}, what="the restarted worker")
        self.assertEqual(len(Crowd(front, STREAMS, "quick").wait().exact("one two three")), STREAMS)

    def test_a_stopped_process(self):
        front = self.front()
        crowd = Crowd(front, STREAMS).wait_begun()
        self.workers[0].signal(signal.SIGSTOP)
        self.addCleanup(lambda: self.workers[0].signal(signal.SIGCONT))
        crowd.wait().check(self, WORDS)
        self.assertEqual(len(crowd.exact(WORDS)), STREAMS / 2)
        self.assertEqual(len(Crowd(front, 8, "quick").wait().exact("one two three")), 8)
        self.workers[0].signal(signal.SIGCONT)
        until(lambda: front.up() == {"w0", "w1"}, what="the worker that goes on")
        quiet(front, *self.workers)

    def test_what_a_lost_worker_means_to_a_client(self):
        """Dead and hanging are one: 503, ask again. There and silent is 504."""
        long = {"messages": [{"role": "user", "content": "go"}]}
        def ask(front, into):
            into.append(front.post("/v1/chat/completions", long))
        for number in (signal.SIGKILL, signal.SIGSTOP):
            worker = Worker("--name", "m", script=SCRIPT)
            with Front([entry("a", worker.url)], "--worker-silent-deadline", "1s") as front:
                replies = []
                client = threading.Thread(target=ask, args=(front, replies))
                client.start()
                until(lambda worker=worker: worker.running() == 1)
                until(lambda front=front: front.metric("kvern_worker_tokens") > 0)
                worker.signal(number)
                client.join(PATIENCE)
                self.assertEqual(replies[0].status, 503, number)
                self.assertIn("retry-after", replies[0].headers)
                self.assertEqual(json.loads(replies[0].body)["error"]["code"], "service_unavailable")
                worker.signal(signal.SIGKILL)
                worker.stop()
        stalls = Misbehaving("black hole", "m")
        self.addCleanup(stalls.stop)
        with Front([entry("a", stalls.url)], "--worker-first-token-deadline", "300ms") as front:
            ask(front, replies)
            self.assertEqual(replies[-1].status, 504)
            until(lambda: "worker failed" in front.output(), what="the log line")
            self.assertIn("error=timeout", front.output())

    def test_a_request_that_every_worker_fails_at_hurts_no_other(self):
        script = [{"match": "quick", "text": "one two three", "repeat": True}]  # nothing else: HTTP 500
        workers = [Worker("--name", "m", script=script) for _ in range(3)]
        self.addCleanup(lambda: [worker.stop() for worker in workers])
        with Front([entry(f"p{n}", worker.url) for n, worker in enumerate(workers)], *QUICK) as front:
            for _ in range(5):
                reply = front.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "poison"}]})
                self.assertEqual(reply.status, 500, reply.body)
                self.assertEqual(front.chat("quick")["choices"][0]["message"]["content"], "one two three")
                self.assertEqual(front.get("/ready").status, 200)

    def misbehave(self, mode):
        bad = Misbehaving(mode, "m")
        self.addCleanup(bad.stop)
        front = self.front(entry("bad", bad.url))
        crowd = Crowd(front, STREAMS, "quick").wait()
        self.assertGreater(bad.asked, 0)
        self.assertEqual(len(crowd.exact("one two three")), STREAMS, crowd.errors()[:3])
        self.assertGreater(front.metric("kvern_retries"), 0)
        quiet(front, *self.workers)
        self.assertNotIn("/opt/secret", json.dumps(crowd.results))

    def test_a_black_hole(self):
        self.misbehave("black hole")

    def test_garbage(self):
        self.misbehave("garbage")

    def test_failures(self):
        self.misbehave("500")

    def test_a_prompt_that_a_worker_echoes_is_not_logged(self):
        """Neither as text nor as token ids, and it reaches no client."""
        for mode in ("echo", "echo in the stream"):
            bad = Misbehaving(mode, "m")
            self.addCleanup(bad.stop)
            with Front([entry("bad", bad.url)], "--log-level", "debug") as front:
                prompt = [1234 + n for n in range(40)]
                reply = front.post("/v1/completions", {"prompt": prompt, "max_tokens": 4})
                self.assertEqual(reply.status, 500)
                until(lambda front=front: "worker says" in front.output(), what="the log line")
                self.assertIn("type=EngineDeadError", front.output())
                for seen in (front.output(), reply.body.decode()):
                    self.assertFalse([token for token in prompt if f"{token}," in seen], seen[-2000:])

    def test_hanging_up_reaches_the_worker(self):
        front = self.front()
        streams = [front.stream(messages=[{"role": "user", "content": "go"}]) for _ in range(8)]
        for stream in streams:
            next(iter(stream))
        self.assertEqual(sum(worker.running() for worker in self.workers), 8)
        for stream in streams:
            stream.hang_up()
        for worker in self.workers:
            until(lambda worker=worker: worker.running() == 0, 5, "the cancel")
        quiet(front)

    def test_no_worker_is_a_clear_error(self):
        front = self.front()
        for worker in self.workers:
            worker.signal(signal.SIGKILL)
        reply = until(lambda: (lambda r: r if r.status == 503 else None)(
            front.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "quick"}]})))
        self.assertIn("retry-after", reply.headers)
        until(lambda: front.get("/ready").status == 503)
        self.restart(0)
        until(lambda: front.get("/ready").status == 200)
        self.assertEqual(front.chat("quick")["choices"][0]["message"]["content"], "one two three")


class WorkersFile(unittest.TestCase):
    def refused(self, text, *arguments):
        with open(path := os.path.join(self.folder, "workers.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([BINARY, "serve", "--port", "0", "--workers", path, *arguments], capture_output=True,
                              timeout=PATIENCE, check=False, text=True)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kvern-e2e-")

    def test_mistakes_are_told_at_the_start(self):
        good = {"name": "a", "kind": "vllm", "url": "http://127.0.0.1:1"}
        self.assertIn("`tokenizer` is missing", self.refused(workers_json(good)))
        self.assertIn("not built yet; built are: vllm, kvern", self.refused(workers_json({**good, "kind": "chat"})))
        self.assertIn("there is no file /nowhere", self.refused(workers_json({**good, "tokenizer": "/nowhere"})))
        self.assertIn("NO_SUCH_KEY", self.refused(workers_json(entry("a", "http://127.0.0.1:1", api_key_env="NO_SUCH_KEY"))))
        self.assertIn("'foo': write it as tcp://HOST:PORT",
                      self.refused(workers_json(entry("a", "http://127.0.0.1:1", events="foo"))))
        for flag, value in (("--model", MODEL), ("--ctx", "4096")):
            self.assertIn(f"{flag} does not go with --workers",
                          self.refused(workers_json(entry("a", "http://127.0.0.1:1")), flag, value))

    def test_it_starts_before_its_workers(self):
        with Front([entry("late", "http://127.0.0.1:1")]) as front:
            self.assertIn("No worker answers yet", until(lambda: front.output() if "doctor" in front.output() else None))
            self.assertEqual(front.get("/ready").status, 503)
            reply = front.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
            self.assertEqual(reply.status, 503)
            with Worker("--name", "m", script=SCRIPT) as worker:
                front.rewrite(workers_json(entry("late", worker.url)))
                until(lambda: front.get("/ready").status == 200)
                self.assertEqual(front.chat("quick")["model"], "m")

    def test_edits_are_taken_while_it_runs(self):
        with Worker("--name", "m", script=SCRIPT) as a, Worker("--name", "m", script=SCRIPT) as b, \
                Worker("--name", "other", script=SCRIPT) as c, Front([entry("a", a.url)]) as front:
            self.assertEqual(front.up(), {"a"})
            crowd = Crowd(front, 4).wait_begun()
            # `a` leaves while it answers: it finishes.
            front.rewrite(workers_json(entry("b", b.url)))
            until(lambda: front.up() >= {"b"} and b.running() == 0 and a.running() == 4)
            # And nothing is told of it any more.
            self.assertEqual([key for key in front.metrics() if 'worker="a"' in key], [])
            self.assertEqual(len(Crowd(front, 4, "quick").wait().exact("one two three")), 4)
            self.assertEqual(len(crowd.wait().exact(WORDS)), 4)
            # A broken edit changes nothing.
            front.rewrite("workers: [{name: b, kind: nonsense}]")
            until(lambda: "workers file is not taken" in front.output())
            self.assertEqual(front.chat("quick")["choices"][0]["message"]["content"], "one two three")
            # Another model appears beside the first.
            front.rewrite(workers_json(entry("b", b.url), entry("c", c.url)))
            until(lambda: len(json.loads(front.get("/v1/models").body)["data"]) == 2)
            self.assertEqual(front.chat("quick", model="other")["model"], "other")
            quiet(front, a, b, c)

    def test_a_pipe_in_place_of_the_file_stops_nothing(self):
        with Worker("--name", "m", script=SCRIPT) as worker:
            front = Front([entry("a", worker.url)], "--log-level", "info")
            self.addCleanup(front.stop)
            os.unlink(front.file)
            os.mkfifo(front.file)
            until(lambda: "it is not a file" in front.output(), what="word of the pipe")
            self.assertEqual(front.chat("quick")["choices"][0]["message"]["content"], "one two three")
            front.rewrite(workers_json(entry("b", worker.url)))
            until(lambda: "b" in front.up(), what="the file that came after it")
            front.signal(signal.SIGTERM)
            self.assertEqual(front.wait_exit(), 0, front.output())

    def test_each_worker_keeps_its_own_length(self):
        with Worker("--name", "m", "--ctx", "256", script=SCRIPT) as short, \
                Worker("--name", "m", "--ctx", "4096", script=SCRIPT) as long, \
                Front([entry("short", short.url), entry("long", long.url)]) as front:
            until(lambda: front.up() == {"short", "long"})
            model = json.loads(front.get("/v1/models").body)["data"][0]
            self.assertEqual(model["max_model_len"], 4096)
            ask = lambda words, **more: front.post("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "quick" + " word" * words}], **more})
            for _ in range(4):
                self.assertEqual(ask(500).headers["x-kvern-worker"], "long")
            self.assertEqual(ask(1, max_tokens=8).headers["x-kvern-worker"], "short")
            reply = ask(5000)
            error = json.loads(reply.body)["error"]
            self.assertEqual((reply.status, error["code"]), (400, "context_length_exceeded"))
            self.assertIn("4096", error["message"])
            self.assertNotIn("--ctx", error["message"])
            # Without the long one: what fits is answered, what does not can come again.
            long.signal(signal.SIGKILL)
            until(lambda: front.up() == {"short"})
            self.assertEqual(ask(1).status, 200)
            self.assertEqual(ask(500).status, 503)

    def test_a_restart_with_another_length_is_noticed(self):
        worker = Worker("--name", "m", "--ctx", "4096", script=SCRIPT)
        with Front([entry("a", worker.url)], *QUICK) as front:
            length = lambda: json.loads(front.get("/v1/models").body)["data"][0]["max_model_len"]
            self.assertEqual(length(), 4096)
            port = worker.port
            worker.stop()
            worker = Worker("--name", "m", "--ctx", "2048", "--port", str(port), script=SCRIPT)
            until(lambda: length() == 2048, what="the new length")
            self.assertEqual(front.chat("quick")["choices"][0]["message"]["content"], "one two three")
        worker.stop()


class RealModel(unittest.TestCase):
    """The default model behind a worker says what it says in process."""

    def test_same_answer_with_reuse_and_a_healthy_doctor(self):
        question = {"messages": [{"role": "user", "content": "Name three colours of the rainbow, please."}],
                    "temperature": 0, "max_tokens": 24}
        with Server("--ctx", "2048") as alone:
            expected = alone.chat(**question)["choices"][0]["message"]["content"]
        with Worker("--ctx", "2048", "--model", MODEL, "--events", "tcp://127.0.0.1:*",
                    "--replay", "tcp://127.0.0.1:*") as worker:
            source = json.loads(worker.get("/kv_event_sources").body)["0"]
            line = entry("w", worker.url, events=source["endpoint"], replay=source["replay_endpoint"])
            with Front([line]) as front:
                first = front.chat(**question)
                self.assertEqual(first["choices"][0]["message"]["content"], expected)
                again = front.chat(**question)
                self.assertEqual(again["choices"][0]["message"]["content"], expected)
                self.assertGreaterEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 16)
                # kvern hangs up at a stop string, before the worker's usage comes: it is told before.
                stop = expected.split()[2]
                stopped = front.chat(stop=stop, **question)
                self.assertNotIn(stop, stopped["choices"][0]["message"]["content"])
                self.assertEqual(stopped["usage"]["prompt_tokens_details"]["cached_tokens"],
                                 again["usage"]["prompt_tokens_details"]["cached_tokens"])
                done = subprocess.run([BINARY, "doctor", "--workers", front.file, "--json"], capture_output=True,
                                      timeout=PATIENCE, check=False, text=True,
                                      env={**os.environ, "KVERN_CACHE": CACHE})
                report = json.loads(done.stdout)
                self.assertTrue(report["well"], done.stdout)
                self.assertEqual(done.returncode, 0)
                whats = {check["what"] for check in report["workers"][0]["checks"]}
                self.assertLessEqual({"reachable", "model", "tokenizer", "token ids", "prefix caching",
                                      "cached tokens", "priorities", "KV events", "KV event replay"}, whats)


class Doctor(unittest.TestCase):
    def examine(self, *entries):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(workers_json(*entries))
        done = subprocess.run([BINARY, "doctor", "--workers", file.name, "--json"], capture_output=True,
                              timeout=PATIENCE, check=False, text=True)
        os.unlink(file.name)
        checks = {check["what"]: check for check in json.loads(done.stdout)["workers"][0]["checks"]}
        return done.returncode, checks

    def test_a_dead_worker(self):
        code, checks = self.examine(entry("a", "http://127.0.0.1:1"))
        self.assertEqual(code, 1)
        self.assertEqual(checks["reachable"]["finding"], "fault")
        self.assertIn("url", checks["reachable"]["remedy"])

    def test_a_worker_that_fails(self):
        bad = Misbehaving("500", "m")
        self.addCleanup(bad.stop)
        code, checks = self.examine(entry("a", bad.url))
        self.assertEqual(code, 1)
        self.assertEqual(checks["token ids"]["finding"], "fault")
        self.assertNotIn("/opt/secret", json.dumps(checks))

    def test_a_terminal_obeys_no_worker(self):
        bad, other = Misbehaving("odd values", "m\x1b]0;owned\x07\x9b2J\u202e'; touch x '"), Misbehaving("500", "other")
        self.addCleanup(bad.stop)
        self.addCleanup(other.stop)
        with Front([entry("a", bad.url), entry("b", other.url)], "--log-level", "debug") as front:
            done = subprocess.run([BINARY, "doctor", "--workers", front.file], capture_output=True, timeout=PATIENCE,
                                  check=False, text=True)
            until(lambda: "Try it" in front.output(), what="the banner")
            for text in (done.stdout, done.stderr, front.output()):
                self.assertIn("owned", text) if text else None
                self.assertFalse([c for c in text if c != "\n" and not c.isprintable()], text)
            command = front.output().split("Try it:")[1].split("OpenAI SDKs")[0].replace("curl", "echo")
            printed = subprocess.run(["sh", "-c", command], capture_output=True, cwd=front.folder, check=True, text=True)
            self.assertFalse(os.path.exists(os.path.join(front.folder, "x")), "what is pasted runs nothing else")
            self.assertIn("'; touch x '", printed.stdout)

    def test_a_worker_that_puts_something_else_where_numbers_belong(self):
        bad = Misbehaving("odd values", "m")
        self.addCleanup(bad.stop)
        code, checks = self.examine(entry("a", bad.url))
        self.assertEqual(code, 1, "a report, not a crash")
        self.assertNotEqual(checks["tokenizer"]["finding"], "ok")
        self.assertIn("prefix caching", checks)


if __name__ == "__main__":
    unittest.main()
