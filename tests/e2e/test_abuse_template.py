"""The case template-runaway of cases/abuse.jsonl: a model file is data of a stranger, its chat template is a program.
Whatever it says, loading or the request ends with an error that names the bound, and another model is not disturbed."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import gguf
from apis import CHAT, MESSAGES, RESPONSES
from harness import BINARY, FULL, MODEL, REPEAT_HELLO, SANITIZED, Server, figure, until
from raw_worker import RawWorker, stream_of
from workers import Front, entry, workers_json

GENERATING = (CHAT, RESPONSES, MESSAGES)
BOUND = r"bound: (steps|bytes|depth|time)\b"
TRIGGER = "run away"
GROWTH_MB = 64
# Of CPU time: a rendering may take 0.7 s, and there is little beside it.
SECONDS = 1 if not SANITIZED else 15

RUNAWAYS = {
    "nested-loops": "{% for i in range(10**9) %}{% for j in range(10**9) %}x{% endfor %}{% endfor %}",
    "loops-of-nothing": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "doubling": "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "macro-of-itself": "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "parentheses": "{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}",
}
# Runs away for some conversations only, so that no look at a start finds it.
SLEEPING = "{% if messages[-1].content is string and '" + TRIGGER + "' in messages[-1].content %}"


def answering(model):
    """A worker that says a word."""
    def answer(line, _):
        line.clean = True
        line.send(b"".join(stream_of([400])))
        return True
    return RawWorker(model, answer)


class Vocabularies(unittest.TestCase):
    """Files of the default model's vocabulary with templates of ours."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kvern-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        with open(MODEL, "rb") as file:
            cls.data = file.read(4 << 20)  # the metadata, and more
        cls.template = gguf.Gguf(cls.data).template[1].decode()

    @classmethod
    def file(cls, name, template):
        path = os.path.join(cls.folder, name + ".gguf")
        with open(path, "wb") as file:
            file.write(gguf.vocabulary_with(cls.data, template.encode()))
        return path


class AtStart(Vocabularies):
    def start(self, path):
        """Starts on a model that cannot be used; returns what it said, its CPU seconds and its peak in MB, which
        is at least that of this process before it became another."""
        with tempfile.TemporaryFile() as told:
            process = subprocess.Popen([BINARY, "serve", "--port", "0", "--model", path, "--engine", self.script],
                                       stdin=subprocess.DEVNULL, stdout=told, stderr=told,
                                       env={**os.environ, "KVERN_STATE_DIR": self.folder})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            told.seek(0)
            self.assertGreater(process.returncode, 0, "an error, not a crash")
            return told.read().decode(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

    def test_a_template_that_always_runs_away(self):
        self.script = "scripted:" + os.path.join(self.folder, "script.jsonl")
        with open(self.script.removeprefix("scripted:"), "w", encoding="utf-8") as file:
            file.write(json.dumps(REPEAT_HELLO[0]) + "\n")
        with Server("--model", self.file("good", self.template), script=REPEAT_HELLO) as good:
            seconds, peak = good.cpu_seconds(), good.peak_mb()
        for name, source in RUNAWAYS.items():
            with self.subTest(name):
                told, took, reached = self.start(self.file(name, source))
                self.assertRegex(told, BOUND)
                self.assertIn(name + ".gguf", told)
                more = (round(took - seconds, 2), round(reached - peak, 1))
                figure(f"{name}: CPU s and MB more than a good start", more)
                if not SANITIZED:
                    self.assertLessEqual(took - seconds, SECONDS)
                    self.assertLessEqual(reached - peak, GROWTH_MB)

    def test_a_worker_with_such_a_template_is_not_taken(self):
        worker = answering("tame")
        self.addCleanup(worker.stop)
        wild = self.file("wild", RUNAWAYS["doubling"])
        with Front([entry("tame", worker.url)]) as front:
            front.rewrite(workers_json(entry("tame", worker.url), entry("wild", worker.url, tokenizer=wild)))
            until(lambda: re.search("workers file is not taken.*" + BOUND, front.output()), what="word of the bound")
            self.assertEqual(front.chat(model="tame")["model"], "tame")


class AtARequest(Vocabularies):
    """Four models whose templates run away for some conversations, and one beside them."""

    wild = [name for name in RUNAWAYS if name != "parentheses"]  # those are seen at the start, wherever they stand

    def setUp(self):
        workers = [answering(name) for name in ("tame", *self.wild)]
        for worker in workers:
            self.addCleanup(worker.stop)
        vocabularies = {name: self.file(name, f"{SLEEPING}{RUNAWAYS[name]}{{% endif %}}{self.template}")
                        for name in self.wild}
        self.front = Front([entry(worker.model, worker.url, tokenizer=vocabularies.get(worker.model, MODEL))
                            for worker in workers])
        self.addCleanup(self.front.stop)
        until(lambda: len(self.front.up()) == len(workers), what="the workers")

    def assert_refused(self, api, name, streamed):
        reply = self.front.post(api.path, api.body(TRIGGER, model=name, stream=streamed))
        self.assertEqual(reply.status, 400, reply.body)
        self.assertRegex(api.error_of(reply)["message"], BOUND)

    def assert_serves(self):
        for api in GENERATING:
            for name in ("tame", *self.wild):
                self.assertEqual(self.front.post(api.path, api.body("walk", model=name)).status, 200, name)

    def test_a_template_that_runs_away_for_a_conversation(self):
        self.assert_serves()
        rss = self.front.rss_mb()
        for name in self.wild:
            for api in GENERATING:
                with self.subTest(name, api=api.name):
                    before = self.front.cpu_seconds()
                    self.assert_refused(api, name, api is not CHAT)
                    if not SANITIZED:
                        self.assertLessEqual(self.front.cpu_seconds() - before, SECONDS)
        grown = self.front.peak_mb() - rss
        figure("RSS growth by runaway templates, MB", round(grown, 1))
        if not SANITIZED:
            self.assertLessEqual(grown, GROWTH_MB)
        self.assert_serves()

    def times_of_tame(self, enough):
        times = []
        while not enough(times):
            started = time.monotonic()
            self.assertEqual(self.front.post(CHAT.path, CHAT.body(model="tame")).status, 200)
            times.append(time.monotonic() - started)
        return sorted(times)

    @unittest.skipUnless(FULL and not SANITIZED, "times of a quiet machine: in check-full")
    def test_another_model_is_not_disturbed(self):
        alone = self.times_of_tame(lambda times: len(times) >= 1000)
        over = threading.Event()

        def run_away():
            for _ in range(5):
                for name in self.wild:
                    for api in GENERATING:
                        self.assert_refused(api, name, False)
            over.set()

        threading.Thread(target=run_away, daemon=True).start()
        beside = self.times_of_tame(lambda times: over.is_set() and len(times) >= 100)
        alone, beside = (times[len(times) * 99 // 100] for times in (alone, beside))
        figure("p99 of a model alone and beside runaway templates, ms", (round(alone * 1e3, 2), round(beside * 1e3, 2)))
        self.assertLessEqual(beside, max(2 * alone, 0.02))


if __name__ == "__main__":
    unittest.main()
