"""Figures that a user feels: start to first token, memory at rest, how soon a hang-up is noticed."""

import json
import time
import unittest

from harness import REPEAT_HELLO, SANITIZED, Server, figure, until


class Timing(unittest.TestCase):
    def test_start_to_first_token(self):
        best = None
        for _ in range(3):
            started = time.monotonic()
            server = Server()
            stream = server.stream(messages=[{"role": "user", "content": "Tell me a fun fact about octopuses."}], max_tokens=8)
            for event in stream:
                if event["choices"] and event["choices"][0]["delta"].get("content"):
                    break
            seconds = time.monotonic() - started
            best = seconds if best is None else min(best, seconds)
            stream.close()
            self.assertEqual(server.stop(), 0)
        figure("start of the process to the first token, model set up, s", round(best, 3))
        # Aimed at 1 s on an idle machine; five times that here, since this machine may be busy.
        self.assertLess(best, 5 if not SANITIZED else 60)

    def test_memory_at_rest(self):
        with Server(script=REPEAT_HELLO) as server:
            server.get("/live")
            figure("RSS at rest without a model (scripted), MB", round(server.rss_mb(), 1))
        with Server() as server:
            server.get("/live")
            figure("RSS at rest with the default model, MB", round(server.rss_mb(), 1))
            server.chat("hello", max_tokens=2)
            figure("RSS after the first request, MB", round(server.rss_mb(), 1))

    def test_an_idle_server_sleeps(self):
        with Server(script=REPEAT_HELLO) as server:
            server.chat(max_tokens=2)
            before, wall = server.cpu_seconds(), time.monotonic()
            time.sleep(2)
            share = (server.cpu_seconds() - before) / (time.monotonic() - wall)
            figure("CPU share of an idle server", round(share, 4))
            self.assertLess(share, 0.05)

    def test_hang_up_is_noticed(self):
        script = [{"match": "wait", "text": "late", "ttft_ms": 30_000, "repeat": True},
                  {"match": "long", "chunks": ["word "] * 3000, "itl_ms": 10, "repeat": True}, *REPEAT_HELLO]
        with Server(script=script) as server:
            def running():
                return server.metric("vllm:num_requests_running")

            # Before the first token, and in the middle of a stream.
            connection = server.connection()
            connection.request("POST", "/v1/chat/completions", json.dumps(
                {"messages": [{"role": "user", "content": "wait"}], "stream": True}), {"content-type": "application/json"})
            until(lambda: running() == 1, what="a request in the engine")
            connection.close()
            started = time.monotonic()
            until(lambda: running() == 0, 20, "the engine freed")
            before_token = time.monotonic() - started
            stream = server.stream(messages=[{"role": "user", "content": "long"}])
            next(iter(stream))
            stream.hang_up()
            started = time.monotonic()
            until(lambda: running() == 0, 20, "the engine freed")
            in_stream = time.monotonic() - started
            figure("hang-up to a free engine, ms (before the first token, in the stream)",
                   (round(before_token * 1e3), round(in_stream * 1e3)))
            # Aimed at 100 ms; the look itself is a request, and the machine may be busy.
            self.assertLess(max(before_token, in_stream), 0.5 if not SANITIZED else 5)


if __name__ == "__main__":
    unittest.main()
