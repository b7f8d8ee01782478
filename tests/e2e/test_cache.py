"""The prefix cache through the API: what a second turn and a shared prefix cost."""

import concurrent.futures
import json
import random
import time
import unittest

from harness import FULL, ModelCase, figure, until

PREFIX_TOKENS = 3000 if FULL else 600
WORDS = ("river stone light garden winter letter market silver window mountain story paper engine yellow "
         "quiet morning bridge forest candle thunder").split()


def text_of(tokens, seed):
    # Each of these words is about one token of the default model's vocabulary.
    return " ".join(random.Random(seed).choices(WORDS, k=tokens))


class Cache(ModelCase):
    arguments = ("--ctx", "8192")

    def usage(self, answer):
        usage = answer["usage"]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def test_second_turn_computes_only_what_is_new(self):
        messages = [{"role": "user", "content": text_of(PREFIX_TOKENS, 1)}]
        started = time.monotonic()
        first = self.server.chat(messages=messages, max_tokens=8, temperature=0)
        first_seconds = time.monotonic() - started
        prompt, cached = self.usage(first)
        self.assertLess(cached, prompt * 0.1)
        messages += [first["choices"][0]["message"], {"role": "user", "content": "And now?"}]
        started = time.monotonic()
        second = self.server.chat(messages=[{k: m[k] for k in ("role", "content")} for m in messages], max_tokens=8,
                                  temperature=0)
        second_seconds = time.monotonic() - started
        prompt_again, cached_again = self.usage(second)
        computed = prompt_again - cached_again
        figure(f"second turn of a chat of {prompt} tokens: tokens computed, s (first, second)",
               (computed, round(first_seconds, 2), round(second_seconds, 2)))
        # A block of 16, the last answer and the new turn are all that can be new.
        self.assertLessEqual(computed, max(0.05 * prompt, 48))
        self.assertLess(second_seconds, first_seconds)

    def test_a_prefix_shared_by_eight_is_computed_once(self):
        shared = text_of(1024 if FULL else 256, 2)
        prompt_tokens = self.usage(self.server.chat(shared + " 0", max_tokens=1))[0]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: self.server.chat(f"{shared} {i}", max_tokens=2), range(1, 9)))
        for answer in answers:
            prompt, cached = self.usage(answer)
            self.assertGreaterEqual(cached, prompt - 32)
        figure(f"8 requests over a prefix of {prompt_tokens} tokens: tokens computed by all",
               sum(p - c for p, c in map(self.usage, answers)))

    def test_many_distinct_prefixes_all_hit(self):
        count = 300 if FULL else 20
        prompts = [text_of(64, 100 + i) for i in range(count)]

        def run(prompt):
            reply = self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
            return self.usage(json.loads(reply.body))

        for prompt in prompts:
            run(prompt)
        for prompt in prompts:
            tokens, cached = run(prompt)
            # At least the last token is computed again, and blocks are of 16.
            self.assertGreaterEqual(cached, (tokens - 1) // 16 * 16)

    def test_hang_ups_leave_nothing_behind(self):
        random_ = random.Random(7)
        streams = 200 if FULL else 24

        def one(i):
            stream = self.server.stream(messages=[{"role": "user", "content": text_of(40, 1000 + i)}], max_tokens=64)
            for _, _event in zip(range(random_.randrange(4)), stream):
                pass
            stream.hang_up()

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(one, range(streams)))
        until(lambda: self.server.metric("vllm:num_requests_running") == 0
              and self.server.metric("vllm:num_requests_waiting") == 0, what="an idle engine")
        self.assertTrue(self.server.chat("Still there?", max_tokens=2))


if __name__ == "__main__":
    unittest.main()
