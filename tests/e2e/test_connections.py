"""Many connections and bad ones: memory stays bounded, others are served, everything is freed afterwards."""

import re
import resource
import selectors
import socket
import time
import unittest

from harness import FULL, JSON, REPEAT_HELLO, SANITIZED, ScriptedCase, Server, figure, raw_exchange, until

STREAMS = 1_000 if FULL else 100
IDLE = 10_000 if FULL else 500
WORDS = 50


def raise_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def chat_request(text, stream=True):
    body = f'{{"messages":[{{"role":"user","content":"{text}"}}],"stream":{"true" if stream else "false"}}}'.encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


class Many(ScriptedCase):
    script = [{"match": "long", "chunks": ["word "] * WORDS, "itl_ms": 20, "repeat": True}, *REPEAT_HELLO]

    def test_streams_at_once(self):
        raise_descriptors()
        self.server.chat(max_tokens=4)
        before = self.server.rss_mb()
        selector = selectors.DefaultSelector()
        answers = {}
        for _ in range(STREAMS):
            connection = socket.create_connection(("127.0.0.1", self.server.port))
            connection.sendall(chat_request("long"))
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
            answers[connection] = bytearray()
        peak, open_streams, deadline = before, len(answers), time.monotonic() + 120
        while open_streams and time.monotonic() < deadline:
            for key, _ in selector.select(1):
                piece = key.fileobj.recv(1 << 16)
                answers[key.fileobj] += piece
                if not piece or answers[key.fileobj].endswith(b"0\r\n\r\n"):
                    selector.unregister(key.fileobj)
                    open_streams -= 1
            peak = max(peak, self.server.rss_mb())
        self.assertEqual(open_streams, 0)
        for connection, answer in answers.items():
            connection.close()
            self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer[:100])
            text = b"".join(re.findall(rb'"content":"([^"]*)"', answer))
            self.assertEqual(text.split(), [b"word"] * WORDS)
            self.assertIn(b"data: [DONE]", answer)
        each = (peak - before) * 1024 / STREAMS
        figure(f"RSS with {STREAMS} streams at once, MB (before, peak) and kB a stream",
               (round(before, 1), round(peak, 1), round(each, 1)))
        if not SANITIZED:
            self.assertLess(each, 256)
        until(lambda: self.server.metric("vllm:num_requests_running") == 0, what="an idle engine")
        self.assert_unharmed()

    def test_idle_connections(self):
        limit = raise_descriptors()
        if limit < IDLE + 200:
            self.skipTest(f"the hard limit of open files is {limit}")
        self.server.chat(max_tokens=4)
        before, descriptors = self.server.rss_mb(), self.server.descriptors()
        held = []
        for i in range(IDLE):
            # Source addresses of their own: one address has about 28,000 ports, and some of them rest in TIME_WAIT.
            source = (f"127.0.{1 + i // 5000}.1", 0)
            held.append(socket.create_connection(("127.0.0.1", self.server.port), source_address=source))
        until(lambda: self.server.descriptors() >= descriptors + IDLE - 4, what="every connection taken")
        started = time.monotonic()
        self.server.chat(max_tokens=4)
        answered = time.monotonic() - started
        after = self.server.rss_mb()
        each = (after - before) * 1024 / IDLE
        figure(f"RSS with {IDLE} idle connections, MB (before, after) and kB each",
               (round(before, 1), round(after, 1), round(each, 2)))
        figure("a request beside them, ms", round(answered * 1e3, 1))
        for connection in held:
            connection.close()
        if not SANITIZED:
            self.assertLess(each, 16)
        until(lambda: self.server.descriptors() <= descriptors + 2, what="closed connections")
        self.assert_unharmed()


class Bad(unittest.TestCase):
    def test_slow_reader_is_cut_off_and_bounded(self):
        # 8 MB of answer for a client that reads nothing: more than the kernel's buffers take. The scripted engine holds
        # a copy of the line per request, which is no buffer of the connection.
        big, line_mb, readers = "x" * 2000, 8, 4
        server = Server(script=[{"match": "big", "chunks": [big] * 4000, "itl_ms": 1, "repeat": True}, *REPEAT_HELLO])
        try:
            server.chat(max_tokens=4)
            before = server.rss_mb()
            slow = []
            for _ in range(readers):
                connection = socket.create_connection(("127.0.0.1", server.port))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(chat_request("big"))
                slow.append(connection)
            peak = [before]

            def cut_off():
                peak[0] = max(peak[0], server.rss_mb())
                return (server.metric("kvern_request_cancelled_total") == len(slow)
                        and server.metric("vllm:num_requests_running") == 0)
            until(cut_off, what="every reader that takes nothing cut off, and the engine free")
            figure(f"RSS growth by {readers} readers that take nothing, MB (each request holds {line_mb} MB of script)",
                   round(peak[0] - before, 1))
            if not SANITIZED:
                self.assertLess(peak[0] - before, readers * (line_mb + 4))
            self.assertTrue(server.chat(max_tokens=4))
            for connection in slow:
                connection.close()
        finally:
            self.assertEqual(server.stop(), 0)

    def test_slow_headers_and_bodies_meet_their_deadlines(self):
        server = Server(script=REPEAT_HELLO, config={"limits": {"header_deadline_ms": 500, "body_deadline_ms": 500,
                                                                "idle_deadline_ms": 700}})
        try:
            for name, start in (("header", b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nx-a: "),
                                ("body", b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                                         b"application/json\r\nContent-Length: 100\r\n\r\n{"),
                                ("idle", b"")):
                with self.subTest(name):
                    started = time.monotonic()
                    answer, closed = raw_exchange(server.port, start, timeout=20)
                    self.assertTrue(closed)
                    self.assertLess(time.monotonic() - started, 10)
                    if name == "idle":
                        self.assertEqual(answer, b"")
                    else:
                        self.assertTrue(answer.startswith(b"HTTP/1.1 408"), answer[:100])
        finally:
            self.assertEqual(server.stop(), 0)

    def test_half_closed_and_half_open(self):
        server = Server(script=[{"match": "long", "chunks": ["word "] * 100, "itl_ms": 20, "repeat": True}, *REPEAT_HELLO])
        try:
            # A client that is done sending still gets its answer: half-closed is not gone.
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            connection.sendall(chat_request("hi", stream=False).replace(b"\r\nHost", b"\r\nConnection: close\r\nHost"))
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while piece := connection.recv(65536):
                    answer += piece
            except ConnectionError:
                pass
            # Either reading is allowed by the protocol; hanging or crashing is not.
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 200"), answer[:100])
            connection.close()
            # A reset in the middle of a stream frees the engine.
            for _ in range(20):
                connection = socket.create_connection(("127.0.0.1", server.port))
                connection.sendall(chat_request("long"))
                connection.recv(1000)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.close()
            until(lambda: server.metric("vllm:num_requests_running") == 0, what="an idle engine")
        finally:
            self.assertEqual(server.stop(), 0)

    def test_pipelined_requests_are_answered_in_order(self):
        server = Server(script=REPEAT_HELLO)
        try:
            requests = b"".join(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path for path in
                                (b"/live", b"/v1/models", b"/nothing", b"/live"))
            last = b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            answer, closed = raw_exchange(server.port, requests + last)
            self.assertTrue(closed)
            self.assertEqual(re.findall(rb"HTTP/1\.1 (\d+) ", answer), [b"200", b"200", b"404", b"200", b"200"])
        finally:
            self.assertEqual(server.stop(), 0)

    def test_chunked_bodies_and_expect(self):
        server = Server(script=REPEAT_HELLO)
        try:
            body = b'{"messages":[{"role":"user","content":"hi"}]}'
            chunks = b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in body) + b"0\r\n\r\n"
            head = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                    b"Content-Type: application/json\r\n")
            answer, _ = raw_exchange(server.port, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
            self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer[:200])
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                connection.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
                self.assertTrue(connection.recv(200).startswith(b"HTTP/1.1 100"))
                connection.sendall(body)
                answer = b""
                while piece := connection.recv(65536):
                    answer += piece
                self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer[:200])
        finally:
            self.assertEqual(server.stop(), 0)

    def test_a_body_of_31_megabytes_is_read(self):
        server = Server("--ctx", "2048", script=REPEAT_HELLO)
        try:
            body = b'{"messages":[{"role":"user","content":"hi"}],"user":"u","padding":"' + b"x" * (31 << 20) + b'"}'
            reply = server.request("POST", "/v1/chat/completions", body, JSON)
            self.assertEqual(reply.status, 200, reply.body[:200])
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
