"""The case cache-oracle-time of cases/abuse.jsonl: a tenant learns neither from an answer, nor from counters, nor from
the time it takes, what another tenant has sent. The audit is that of Gu et al., "Auditing Prompt Caching in Language
Model APIs" (ICML 2025, arXiv 2502.07776): two samples of times, compared by the test of Kolmogorov and Smirnov."""

import collections
import itertools
import json
import math
import random
import time
import unittest

from apis import CHAT, MESSAGES, RESPONSES, sha256
from harness import FULL, SANITIZED, ModelCase, figure
from raw_worker import RawWorker, stream_of
from workers import Front, Worker, entry

GENERATING = (CHAT, RESPONSES, MESSAGES)
KEYS = {"keys": [{"name": name, "tenant": name, "sha256": sha256("key-" + name), "admin": name == "admin"}
                 for name in ("a", "b", "admin")]}
A, B = {"x-api-key": "key-a"}, {"x-api-key": "key-b"}
WORDS = ("river stone light garden winter letter market silver window mountain story paper engine yellow "
         "quiet morning bridge forest candle thunder").split()
SAMPLES = 250
BATCH = 10
UNCACHED_S = 20e-6  # a token, at the worker that is all arithmetic
BLOCK = 16
TEMPLATE_TOKENS = 48  # stand before the text, at most


def text_of(words, source):
    return " ".join(source.choices(WORDS, k=words))


def body_of(api, text):
    if api is RESPONSES:
        return api.body(text, max_output_tokens=1, store=False)
    return {**api.body(text), "max_tokens": 1}


def cached_in(answer):
    """The cached tokens that an answer of any dialect tells."""
    usage = answer["usage"]
    if "cache_read_input_tokens" in usage:
        return usage["cache_read_input_tokens"]
    return (usage.get("prompt_tokens_details") or usage["input_tokens_details"])["cached_tokens"]


def ks_p(first, second):
    """How likely two samples of one distribution are at least so different (Kolmogorov and Smirnov, with the
    approximation of Stephens for finite samples)."""
    n, m = len(first), len(second)
    first, second = sorted(first), sorted(second)
    i = j = 0
    largest = 0.0
    while i < n and j < m:
        value = min(first[i], second[j])
        while i < n and first[i] == value:
            i += 1
        while j < m and second[j] == value:
            j += 1
        largest = max(largest, abs(i / n - j / m))
    root = math.sqrt(n * m / (n + m))
    reach = (root + 0.12 + 0.11 / root) * largest
    if reach < 0.2:
        return 1.0  # where the series does not converge
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * reach) ** 2) for k in range(1, 101)))


class Statistic(unittest.TestCase):
    def test_it_tells_distributions_apart(self):
        source = random.Random(1)
        sample = lambda mean: [source.gauss(mean, 1) for _ in range(SAMPLES)]
        self.assertGreater(min(ks_p(sample(0), sample(0)) for _ in range(20)), 1e-3)
        self.assertLess(ks_p(sample(0), sample(1)), 1e-6)
        self.assertEqual(ks_p([1, 2], [1, 2]), 1.0)
        self.assertAlmostEqual(ks_p(list(range(100)), list(range(20, 120))), 0.030, delta=0.01)  # D = 0.2


class Oracle:
    """The case, for a test class that has a `front` with KEYS."""

    words = 160 if FULL else 48

    def ask(self, api, who, text):
        reply = self.front.post(api.path, body_of(api, text), headers=who)
        self.assertEqual(reply.status, 200, reply.body)
        return json.loads(reply.body)

    def hits(self):
        return self.front.metric("vllm:prefix_cache_hits_total")

    def test_answers_and_counters_tell_nothing(self):
        source = random.Random(2502)
        for api in GENERATING:
            with self.subTest(api=api.name):
                primed, fresh, first = (text_of(self.words, source) for _ in range(3))
                self.ask(api, A, primed)
                self.ask(api, B, first)  # the head of the chat template is B's own from here on
                before = self.hits()
                told = [cached_in(self.ask(api, B, text)) for text in (primed, fresh)]
                self.assertEqual(told[0], told[1])
                self.assertLessEqual(told[0], TEMPLATE_TOKENS)
                self.assertEqual(self.hits() - before, sum(told))
                # Whether B came or not, A finds its own.
                self.assertGreaterEqual(cached_in(self.ask(api, A, primed)), self.words // 2)

    @unittest.skipUnless(FULL and not SANITIZED, "thousands of requests: in check-full")
    def test_times_tell_nothing(self):
        source = random.Random(2411)
        times = collections.defaultdict(list)
        for first in range(0, SAMPLES, BATCH):
            pairs = [(GENERATING[(first + n) % 3], text_of(self.words, source)) for n in range(BATCH)]
            for api, text in pairs:
                self.ask(api, A, text)
            for who, name in ((B, "B"), (A, "A")):
                asked = [(api, text, "primed") for api, text in pairs]
                asked += [(api, text_of(self.words, source), "fresh") for api, _ in pairs]
                source.shuffle(asked)
                for api, text, kind in asked:
                    started = time.monotonic()
                    self.ask(api, who, text)
                    times[name, kind].append(time.monotonic() - started)
        likely = {name: ks_p(times[name, "primed"], times[name, "fresh"]) for name in "AB"}
        median = {key: round(sorted(sample)[len(sample) // 2] * 1e3, 2) for key, sample in times.items()}
        figure(f"{type(self).__name__}: p of one distribution (B, then A's own), and medians in ms",
               (likely["B"], likely["A"], median))
        self.assertGreater(likely["B"], 1e-3)
        self.assertLess(likely["A"], 1e-6, "else this test has no power")


class Embedded(Oracle, ModelCase):
    arguments = ("--ctx", "1024", "--kv-cache-tokens", "16384")
    config = KEYS

    @property
    def front(self):
        self.server.key = "key-admin"
        return self.server


class ThroughWorkers(Oracle, unittest.TestCase):
    """kvern before a kvern worker: what keeps tenants apart is a salt on the wire."""

    @classmethod
    def setUpClass(cls):
        cls.worker = Worker("--ctx", "1024", "--kv-cache-tokens", "16384")
        cls.front = Front([entry("w", cls.worker.url)], config=KEYS, key="key-admin")

    @classmethod
    def tearDownClass(cls):
        assert cls.front.stop() == 0
        assert cls.worker.stop() == 0


class TwentyMicroseconds:
    """A prefix cache that is all arithmetic: each token it has not seen under a salt takes its time, nothing else does.
    So what shows is what kvern itself adds."""

    def __init__(self):
        self.seen = set()

    def __call__(self, line, call):
        prompt, salt = call.document["prompt"], call.document.get("cache_salt", "")
        names = [hash(salt)]
        for at in range(BLOCK, len(prompt), BLOCK):  # the last token is always computed
            names.append(hash((names[-1], *prompt[at - BLOCK:at])))
        cached = BLOCK * sum(1 for _ in itertools.takewhile(self.seen.__contains__, names[1:]))
        self.seen.update(names[1:])
        time.sleep(UNCACHED_S * (len(prompt) - cached))
        line.clean = True
        line.send(b"".join(stream_of([400], {"prompt_tokens_details": {"cached_tokens": cached}})))
        return True


class ThroughArithmetic(Oracle, unittest.TestCase):
    words = 1000

    def setUp(self):
        self.worker = RawWorker("m", TwentyMicroseconds())
        self.addCleanup(self.worker.stop)
        self.front = Front([entry("w", self.worker.url)], config=KEYS, key="key-admin")
        self.addCleanup(self.front.stop)


if __name__ == "__main__":
    unittest.main()
