"""Ends: SIGTERM drains, a second signal stops at once, kill -9 leaves nothing that hinders the next start."""

import concurrent.futures
import json
import signal
import time
import unittest

from harness import JSON, PATIENCE, Server, figure, until

STREAMS = 32
WORDS = 120
SCRIPT = [{"match": "long", "chunks": ["word "] * WORDS, "itl_ms": 10, "repeat": True},
          {"match": "endless", "chunks": ["word "] * 3000, "itl_ms": 20, "repeat": True},
          {"text": "Hello.", "repeat": True}]


class Signals(unittest.TestCase):
    def test_sigterm_finishes_every_stream_and_refuses_new_requests(self):
        server = Server(script=SCRIPT)
        streams = [server.stream(messages=[{"role": "user", "content": "long"}]) for _ in range(STREAMS)]
        heads = [next(iter(stream)) for stream in streams]
        self.assertEqual(len(heads), STREAMS)
        server.signal(signal.SIGTERM)

        refused = []

        def try_new():
            """A new request during the drain: 503 with Retry-After, or no connection at all."""
            try:
                reply = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]},
                                       timeout=5)
            except OSError:
                refused.append("closed")
                return True
            if reply.status == 503:
                refused.append((reply.status, reply.headers.get("retry-after")))
                return True
            return False

        until(try_new, what="a refusal while draining")
        with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
            texts = list(pool.map(lambda stream: stream.text(), streams))
        # The first event held the role and perhaps the first word.
        for text in texts:
            self.assertIn(text, ("word " * WORDS, "word " * (WORDS - 1)))
        self.assertEqual(server.wait_exit(), 0, server.output())
        self.assertTrue(all(entry == "closed" or entry[1] for entry in refused), refused)
        server.stop()

    def test_a_closed_terminal_drains_too(self):
        server = Server(script=SCRIPT)
        stream = server.stream(messages=[{"role": "user", "content": "long"}])
        next(iter(stream))
        server.signal(signal.SIGHUP)
        self.assertIn(stream.text(), ("word " * WORDS, "word " * (WORDS - 1)))
        self.assertEqual(server.wait_exit(), 0, server.output())
        server.stop()

    def test_a_kept_connection_gets_503_while_draining(self):
        server = Server(script=SCRIPT)
        stream = server.stream(messages=[{"role": "user", "content": "long"}])
        next(iter(stream))
        kept = server.connection()
        kept.request("GET", "/live")
        kept.getresponse().read()
        server.signal(signal.SIGTERM)
        until(lambda: "finishing" in server.output(), what="word of the drain")
        kept.request("POST", "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": "x"}]}), JSON)
        reply = kept.getresponse()
        self.assertEqual(reply.status, 503, reply.read())
        self.assertTrue(reply.headers["retry-after"])
        kept.close()
        self.assertEqual(stream.text().count("word "), WORDS)
        self.assertEqual(server.wait_exit(), 0)
        server.stop()

    def test_a_second_interrupt_stops_at_once(self):
        server = Server(script=SCRIPT)
        stream = server.stream(messages=[{"role": "user", "content": "endless"}])
        next(iter(stream))
        server.signal(signal.SIGINT)
        until(lambda: "finishing" in server.output(), what="word of the drain")
        self.assertTrue(server.alive(), "the first one waits for the stream")
        started = time.monotonic()
        server.signal(signal.SIGINT)
        server.wait_exit(10)
        figure("second interrupt to end, s", round(time.monotonic() - started, 3))
        stream.close()
        server.stop()

    def drained_at_work(self, scrapes):
        """The tokens that were counted, where the signal came while they were; None where it came before or after."""
        with Server(script=SCRIPT) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
            # Large enough to be under way for a while, small enough to fit the context by its length.
            answer = pool.submit(server.post, "/tokenize", {"prompt": "some words " * 300_000})
            # The scrape is one exchange, the body that comes in and is tokenised the other.
            for _ in range(scrapes):
                until(lambda: server.metric("kvern_http_exchanges") > 1 or answer.done(), what="the request under way")
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait_exit(), 0, server.output())
            if "finishing 1 request" not in server.output():
                return None
            return json.loads(answer.result().body)["count"]  # it leaves whole, a few megabytes of it

    def test_a_drain_waits_for_what_is_being_tokenised(self):
        for attempt in range(1, 9):
            count = self.drained_at_work(3 * attempt)
            if count is not None:
                return self.assertGreater(count, 500_000)
        self.fail("the signal never came while the text was tokenised")

    def test_the_drain_has_a_deadline(self):
        server = Server("--drain-deadline", "1s", script=SCRIPT)
        stream = server.stream(messages=[{"role": "user", "content": "endless"}])
        events = iter(stream)
        next(events)
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        last = None
        try:
            for event in events:
                last = event
        except OSError:
            pass
        server.wait_exit(PATIENCE)
        self.assertGreater(time.monotonic() - started, 0.9)
        # Cut off by the deadline it ends with a failure in the stream, not in silence.
        self.assertTrue(isinstance(last, dict) and "error" in last or last == "[DONE]", last)
        server.stop()

    def test_kill_and_restart(self):
        server = Server(script=SCRIPT)
        port = server.port
        streams = [server.stream(messages=[{"role": "user", "content": "endless"}]) for _ in range(8)]
        for stream in streams:
            next(iter(stream))
        server.signal(signal.SIGKILL)
        server.wait_exit()
        for stream in streams:
            try:
                stream.close()
            except OSError:
                pass
        started = time.monotonic()
        again = Server("--port", str(port), script=SCRIPT)
        self.assertEqual(again.port, port, "the port is free again at once")
        figure("restart on the same port after kill -9, s", round(time.monotonic() - started, 3))
        self.assertEqual(again.chat()["choices"][0]["message"]["content"], "Hello.")
        self.assertEqual(again.stop(), 0)
        server.stop()

    def test_idle_server_ends_promptly(self):
        server = Server(script=SCRIPT)
        started = time.monotonic()
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait_exit(), 0)
        self.assertLess(time.monotonic() - started, 5)
        server.stop()


if __name__ == "__main__":
    unittest.main()
