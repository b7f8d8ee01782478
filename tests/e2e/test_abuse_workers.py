"""The cases worker-endless-line and cancelled-connection-reuse of cases/abuse.jsonl: a worker is a stranger too. What
it sends is bounded, and what it sends late, twice or too much reaches no other request."""

import contextlib
import json
import random
import re
import socket
import threading
import time
import unittest

from apis import CHAT, MESSAGES, RESPONSES
from harness import FULL, JSON, PATIENCE, SANITIZED, figure, until
from raw_worker import END_OF_CHUNKS, STREAM_HEAD, RawWorker, chunk, plain, stream_of, token_event
from workers import Front, entry

GENERATING = (CHAT, RESPONSES, MESSAGES)
MB = 1 << 20
POURED = (200 if FULL else 8) * MB
PIECE = b"x" * 65536
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" * 100
EVIL = "M0E"


GROWTH_MB = 4 + 2  # the case's bound, and what malloc takes the first time


def events_of(body):
    """The documents of a stream."""
    found = [line[5:].strip() for line in body.decode().splitlines() if line.startswith("data:")]
    return [json.loads(text) for text in found if text != "[DONE]"]


def is_stream(reply):
    return reply.headers.get("content-type", "").startswith("text/event-stream")


def said(reply):
    """The text of an answer of any dialect, streamed or whole."""
    if not is_stream(reply):
        return reply.body.decode()
    return "".join(map(delta_of, events_of(reply.body)))


def delta_of(event):
    """The text that an event of any dialect adds."""
    if event == "[DONE]":
        return ""
    delta = event.get("delta") or ""
    text = delta if isinstance(delta, str) else delta.get("text", "")
    return text + "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))


def body_of(api, text, **fields):
    return api.body(text, **fields, **({"store": False} if api is RESPONSES else {"max_tokens": 200}))


def error_event(api, events):
    """The error that ends a stream, in the dialect's words."""
    last = [event for event in events if event != "[DONE]"][-1]
    if api is RESPONSES:
        assert last["type"] == "response.failed", last
        return last["response"]["error"]
    assert "error" in last and (api is CHAT or last["type"] == "error"), last
    return last["error"]


# --- worker-endless-line ---

def endless(line, begin):
    line.send(begin)
    return line.pour(chunk(PIECE), POURED)


def headers_of_10_mb(line, _):
    line.send(b"HTTP/1.1 200 OK\r\n")
    return line.pour(b"x-more: " + PIECE[:8000] + b"\r\n", 10 * MB)


def one_header_of_10_mb(line, _):
    line.send(b"HTTP/1.1 200 OK\r\nx-more: ")
    return line.pour(PIECE, 10 * MB)


def without_a_length(line, _):
    line.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
    return line.pour(PIECE, POURED)


def chunk_of_all_bytes(line, _):
    line.send(STREAM_HEAD + b"FFFFFFFFFFFFFFFF\r\ndata: ")
    return line.pour(PIECE, POURED)


def refusal_without_end(line, _):
    line.send(b"HTTP/1.1 500 No\r\ncontent-type: application/json\r\ncontent-length: 9000000000\r\n\r\n")
    return line.pour(PIECE, POURED)


ENDLESS = {
    "no-newline": lambda line, _: endless(line, STREAM_HEAD + chunk(b"data: ")),
    "no-newline-no-length": without_a_length,
    "headers": headers_of_10_mb,
    "one-header": one_header_of_10_mb,
    "chunk-size": chunk_of_all_bytes,
    "interim-answers": lambda line, _: line.pour(INTERIM, POURED),
    "refusal": refusal_without_end,
}


class Recorded:
    """Whether kvern hung up on each answer of a worker before its end."""

    def __init__(self, pour):
        self.pour, self.hung_up = pour, []

    def __call__(self, line, call):
        outcome = True  # a send before the pouring may fail as well
        with contextlib.suppress(OSError):
            outcome = self.pour(line, call)
        self.hung_up.append(outcome)
        return False


class EndlessLine(unittest.TestCase):
    def good(self):
        worker = RawWorker("good", lambda line, _: line.send(b"".join(stream_of([5, 6]))) or setattr(
            line, "clean", True) or True)
        self.addCleanup(worker.stop)
        return worker

    def bad(self, name, pour, **more):
        worker = RawWorker(name, pour, **more)
        self.addCleanup(worker.stop)
        return worker

    def front(self, workers):
        front = Front([entry(worker.model, worker.url) for worker in workers])
        self.addCleanup(front.stop)
        return front

    def assert_bounded(self, front):
        grown = front.peak_mb() - self.rss
        figure("RSS growth while workers send without end, MB", round(grown, 1))
        if not SANITIZED:
            self.assertLessEqual(grown, GROWTH_MB)

    def assert_serves(self, front):
        self.assertTrue(front.alive(), front.output()[-2000:])
        for api in GENERATING:
            self.assertEqual(front.post(api.path, api.body(model="good")).status, 200, api.name)

    def test_every_answer_has_an_end(self):
        good = self.good()
        answers = {name: Recorded(pour) for name, pour in ENDLESS.items()}
        front = self.front([good, *(self.bad(name, answer) for name, answer in answers.items())])
        until(lambda: len(front.up()) == len(ENDLESS) + 1, what="the workers")
        self.assert_serves(front)
        self.rss = front.rss_mb()
        for name in ENDLESS:
            for api in GENERATING:
                for streamed in (False, True):
                    with self.subTest(name, api=api.name, streamed=streamed):
                        self.ask(front, name, api, streamed)
            until(lambda name=name: re.search(f"worker benched.*worker={name}\\b", front.output()),
                  what=f"word that {name} is suspect")
        self.assert_bounded(front)
        for name, answer in answers.items():
            until(lambda answer=answer: len(answer.hung_up) >= 2 * len(GENERATING), what="hang-ups")
            self.assertTrue(all(answer.hung_up), f"{name} was read to its end")
        self.assert_serves(front)

    def ask(self, front, name, api, streamed):
        started = time.monotonic()
        reply = front.post(api.path, body_of(api, "hi", model=name, stream=streamed))
        self.assertGreaterEqual(reply.status, 500)
        api.error_of(reply)
        if not SANITIZED:
            self.assertLessEqual(time.monotonic() - started, 5)

    def test_a_stream_that_began_well(self):
        """The client has words of it when the line without end begins: the error is an event of its dialect."""
        client_has_some = threading.Event()

        def begin_well(line, _):
            line.send(STREAM_HEAD + token_event(*self.words))
            client_has_some.wait(PATIENCE)
            return endless(line, chunk(b"data: "))

        answer = Recorded(begin_well)
        good, bad = self.good(), self.bad("bad", answer)
        front = self.front([good, bad])
        until(lambda: len(front.up()) == 2, what="the workers")
        self.assert_serves(front)
        self.words = json.loads(front.post("/tokenize", {"model": "good", "prompt": " some words"}).body)["tokens"]
        self.rss = front.rss_mb()
        for api in GENERATING:
            for streamed in (True, False):
                with self.subTest(api=api.name, streamed=streamed):
                    client_has_some.clear()
                    if streamed:
                        self.assert_ends_with_an_error(front, api, client_has_some)
                    else:
                        client_has_some.set()
                        self.ask(front, "bad", api, False)
        self.assert_bounded(front)
        self.assertTrue(answer.hung_up and all(answer.hung_up))
        self.assert_serves(front)

    def assert_ends_with_an_error(self, front, api, client_has_some):
        with contextlib.closing(front.stream(api.path, **body_of(api, "hi", model="bad"))) as stream:
            self.assertEqual(stream.status, 200)
            events, text = [], ""
            for event in stream:
                events.append(event)
                text += delta_of(event)
                if text:
                    started = time.monotonic() if not client_has_some.is_set() else started
                    client_has_some.set()
            self.assertEqual(text, " some words")
            self.assertTrue(error_event(api, events)["message"])
            if not SANITIZED:
                self.assertLessEqual(time.monotonic() - started, 5)

    def test_probes_have_an_end(self):
        """The same in place of what a health check asks."""
        probes = {name: Recorded(pour) for name, pour in ENDLESS.items() if name != "no-newline-after-a-token"}
        good = self.good()
        front = self.front([good])
        self.assert_serves(front)
        self.rss = front.rss_mb()
        workers = [self.bad(name, lambda *_: False, probe=probe) for name, probe in probes.items()]
        front.rewrite(json.dumps({"workers": [entry(worker.model, worker.url) for worker in (good, *workers)]}))
        for name, probe in probes.items():
            until(lambda name=name: re.search(f"worker down.*worker={name}\\b", front.output()), what=f"word of {name}")
            self.assertTrue(probe.hung_up and all(probe.hung_up), f"{name} was read to its end")
        self.assertEqual(front.up(), {"good"})
        self.assert_bounded(front)
        self.assert_serves(front)


# --- cancelled-connection-reuse ---

def canned(answer, clean):
    """A way for an answer to end, as a method of Echo: these bytes. `clean`: the connection may be used again."""
    def send(_, line, __):
        line.clean = line.clean or clean
        line.send(b"HTTP/1.1 " + answer)
        return True
    return send


class Echo:
    """Answers with the prompt's own words: so each answer shows whose it is. How the answer to a marked prompt ends is
    told by `ending`, a name below."""

    def __init__(self):
        self.ending = "whole"
        self.cut = 0
        self.reached = threading.Event()  # the cut, or what comes after an answer's end
        self.go_on = threading.Event()

    def next(self, ending, cut=0):
        self.ending, self.cut = ending, cut
        self.reached.clear()
        self.go_on.clear()

    def __call__(self, line, call):
        ids = [token for token in call.document["prompt"] if token > 16]  # no special tokens
        ending, self.ending = self.ending, "whole"
        return getattr(self, ending.replace(" ", "_"))(line, b"".join(stream_of(ids)))

    def whole(self, line, answer):
        line.clean = True  # before kvern can know the end
        line.send(answer)
        return True

    def cut_off(self, line, answer):
        """Stops somewhere, and goes on when the client is gone."""
        at = self.cut % len(answer)
        line.send(answer[:at])
        self.reached.set()
        self.go_on.wait(PATIENCE)
        line.clean = not line.has_more()  # with this rest the answer is whole, should kvern still want it
        line.send(answer[at:])
        return True

    def surplus(self, line, answer):
        line.send(answer + b"".join(stream_of(self.evil)))
        return True

    def surplus_later(self, line, answer):
        line.send(answer)
        self.go_on.wait(PATIENCE)
        with contextlib.suppress(OSError):
            line.send(b"".join(stream_of(self.evil)))
        self.reached.set()
        return True

    def surplus_of_one_byte(self, line, answer):
        line.send(answer + b"\n")
        return True

    no_content = canned(b"204 No Content\r\n\r\n", clean=True)
    no_content_with_a_length = canned(b"204 No Content\r\ncontent-length: 5\r\n\r\n", clean=True)
    no_content_with_content = canned(b"204 No Content\r\ncontent-length: 5\r\n\r\nhello", clean=False)
    not_modified = canned(b"304 Not Modified\r\ncontent-length: 5\r\n\r\n", clean=True)

    def not_modified_with_content(self, line, answer):
        line.send(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n" + answer)
        return True

    def refused(self, line, _):
        line.clean = True
        line.send(plain(b"500 No", b'{"error":{"message":"no"}}'))
        return True

    def refused_with_surplus(self, line, answer):
        line.send(plain(b"500 No", b'{"error":{"message":"no"}}') + answer)
        return True

    def closing(self, line, answer):
        line.send(answer.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
        return True

    def twice_ended(self, line, answer):
        line.send(answer + END_OF_CHUNKS)
        return True


ENDINGS = ("whole", "surplus", "surplus later", "surplus of one byte", "no content", "no content with a length",
           "no content with content", "not modified", "not modified with content", "refused", "refused with surplus",
           "closing", "twice ended")


class ConnectionReuse(unittest.TestCase):
    """kvern asks workers GET and POST; what it would do with the answer to a HEAD is in net/http_client_test.cc."""

    rounds = 1000 if FULL else 90

    def setUp(self):
        self.random = random.Random(20230320)
        self.echo = Echo()
        self.worker = RawWorker("m", self.echo)
        self.addCleanup(self.worker.stop)
        # One loop: its connections are one pool, and B finds what A left.
        self.front = Front([entry("w", self.worker.url)], "--loops", "1")
        self.addCleanup(self.front.stop)
        reply = self.front.post("/tokenize", {"prompt": EVIL})
        self.echo.evil = json.loads(reply.body)["tokens"]
        self.marks = 0

    def mark(self, who):
        self.marks += 1
        return f"M{self.marks}{who}"

    def ask_as_b(self, api):
        marker = self.mark("B")
        reply = self.front.post(api.path, body_of(api, f"say {marker}", stream=self.random.random() < 0.5))
        self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual(set(re.findall(r"M\d+[A-Z]", said(reply))), {marker})

    def open_as_a(self, api, streamed):
        connection = socket.create_connection(("127.0.0.1", self.front.port), timeout=PATIENCE)
        body = json.dumps(body_of(api, f"say {self.mark('A')}", stream=streamed)).encode()
        head = f"POST {api.path} HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n"
        connection.sendall((head + "".join(f"{k}: {v}\r\n" for k, v in JSON.items()) + "\r\n").encode() + body)
        return connection

    def finish(self):
        self.assertEqual(self.worker.misused, [])
        figure("requests to a worker, and those over a connection used before", (self.worker.asked, self.worker.reused))
        self.assertGreater(self.worker.reused, self.worker.asked / 20, "or nothing was tested")
        until(lambda: self.front.running() == 0, what="the end of every request")

    def hang_ups(self, api):
        length = 0
        for n in range(self.rounds):
            streamed = n % 3 != 0
            if n % 2:  # at a random byte of what the worker sends
                self.echo.next("cut off", self.random.randrange(1 << 20))
                with self.open_as_a(api, streamed):
                    self.assertTrue(self.echo.reached.wait(PATIENCE))
                self.ask_beside_the_rest(api)
            else:  # at a random byte of what kvern sends
                self.echo.next("whole")
                with self.open_as_a(api, streamed) as connection:
                    length = max(length, self.read_some(connection, self.random.randrange(max(2000, length + 1))))
                self.ask_as_b(api)
        self.finish()

    def ask_beside_the_rest(self, api):
        """The worker goes on with A's answer just when B asks."""
        threading.Thread(target=self.echo.go_on.set).start()
        self.ask_as_b(api)

    @staticmethod
    def read_some(connection, most):
        got = 0
        while got < most and (piece := connection.recv(most - got)):
            got += len(piece)
            if piece.endswith((b"0\r\n\r\n", b"}")):
                break  # perhaps all that comes
        return got

    def endings(self, api):
        for n in range(max(self.rounds // 4, 2 * len(ENDINGS))):
            ending = ENDINGS[n % len(ENDINGS)]
            with self.subTest(ending):
                self.echo.next(ending)
                marker = self.mark("A")
                reply = self.front.post(api.path, body_of(api, f"say {marker}", stream=self.random.random() < 0.5))
                if reply.status == 200:
                    self.assertEqual(set(re.findall(r"M\d+[A-Z]", said(reply))), {marker})
                else:
                    api.error_of(reply)
                self.assertEqual(reply.status == 200, ending.split(" ")[0] not in ("no", "not", "refused"))
                if ending == "surplus later":
                    self.echo.go_on.set()
                    self.assertTrue(self.echo.reached.wait(PATIENCE))
                self.ask_as_b(api)
        self.finish()


for _api in GENERATING:
    setattr(ConnectionReuse, f"test_hang_ups_{_api.name}", lambda self, api=_api: self.hang_ups(api))
    setattr(ConnectionReuse, f"test_endings_{_api.name}", lambda self, api=_api: self.endings(api))


if __name__ == "__main__":
    unittest.main()
