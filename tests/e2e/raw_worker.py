"""A worker whose answers a test writes byte by byte, and which notes what kvern does with its connections."""

import collections
import contextlib
import json
import socket
import threading

MODEL_LENGTH = 262_144
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END_OF_CHUNKS = b"0\r\n\r\n"

Call = collections.namedtuple("Call", "method path headers document")


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(document):
    return chunk(b"data: " + (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n\n")


def token_event(*ids, finish=None):
    return event({"id": "c", "object": "text_completion",
                  "choices": [{"index": 0, "text": "", "token_ids": list(ids), "finish_reason": finish}]})


def stream_of(ids, more_usage=None):
    """A whole stream of these tokens, in its pieces."""
    usage = {"prompt_tokens": 1, "completion_tokens": len(ids), **(more_usage or {})}
    return [STREAM_HEAD, *(token_event(each) for each in ids), token_event(finish="length"),
            event({"id": "c", "object": "text_completion", "choices": [], "usage": usage}),
            event(b"[DONE]") + END_OF_CHUNKS]


def plain(status, body=b"{}", kind=b"application/json", more=b""):
    return b"HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n%s\r\n%s" % (status, kind, len(body), more, body)


class Line:
    """One connection from kvern."""

    def __init__(self, connection):
        self.connection = connection
        self.completions = 0
        self.clean = True  # every answer was sent whole and nothing behind it

    def send(self, data):
        self.connection.sendall(data)

    def has_more(self):
        """Whether kvern has sent something that was not read yet."""
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False  # nothing, or it is gone

    def pour(self, data, most):
        """Sends `data` again and again until kvern hangs up; returns whether it did before `most` bytes."""
        for _ in range(0, most, len(data)):
            try:
                self.send(data)
            except OSError:
                return True
        return False


class RawWorker:
    """`answer(line, call)` answers each completion with what it sends on the line; it returns whether kvern may use the
    connection again, which is otherwise closed. Probes are answered as by vLLM, or by `probe(line, call)`."""

    def __init__(self, model, answer, probe=None):
        self.model, self.answer, self.probe = model, answer, probe or self.answer_probe
        self.asked = 0
        self.reused = 0       # completions on a connection that had carried one before
        self.misused = []     # those that came on a connection that was not clean
        self._lines = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def answer_probe(self, line, call):
        facts = {"data": [{"id": self.model, "max_model_len": MODEL_LENGTH}]} if call.path == "/v1/models" else {}
        line.send(plain(b"200 OK", json.dumps(facts).encode()))
        return True

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed: the test is over
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = Line(connection)
            self._lines.add(line)
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line):
        with contextlib.suppress(OSError), line.connection, line.connection.makefile("rb") as reader:
            while call := self._read(reader):
                if call.method == "GET":
                    if not self.probe(line, call):
                        break
                    continue
                self.asked += 1
                self.reused += line.completions > 0
                line.completions += 1
                if not line.clean:
                    self.misused.append(call.document["prompt"])
                line.clean = False
                if not self.answer(line, call):
                    break
        self._lines.discard(line)

    @staticmethod
    def _read(reader):
        first = reader.readline().decode("latin-1").split()
        if len(first) < 2:
            return None
        headers = {}
        while (raw := reader.readline().decode("latin-1").strip()):
            name, _, value = raw.partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", "0")))
        return Call(first[0], first[1], headers, json.loads(body) if body else None)

    def stop(self):
        self._listener.close()
        for line in list(self._lines):
            with contextlib.suppress(OSError):
                line.connection.shutdown(socket.SHUT_RDWR)
