"""What tests of foreign clients need: a network that ends at this machine, and a record of what a client sends."""

import collections
import ctypes
import fcntl
import json
import os
import socket
import struct
import threading

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

Sent = collections.namedtuple("Sent", "method path headers body")


def only_loopback():
    """Moves this process, and what it starts from now on, into a network namespace that has loopback and nothing else.
    Fails where the system does not allow that: no client of others is run with a way out."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNET) != 0:
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "a network namespace is needed to run clients, and this system allows none")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        raise AssertionError(f"the namespace has {names}, not loopback alone")


def read_requests(stream):
    """The requests in the bytes that a client sent on one connection."""
    found = []
    while stream:
        head, separator, stream = stream.partition(b"\r\n\r\n")
        if not separator:
            break
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body, stream = dechunk(stream)
        else:
            length = int(headers.get("content-length", "0"))
            body, stream = stream[:length], stream[length:]
        found.append(Sent(method, path, headers, body))
    return found


def dechunk(stream):
    body = b""
    while stream:
        size, _, stream = stream.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        body, stream = body + stream[:length], stream[length + 2:]
        if length == 0:
            break
    return body, stream


class Recorder:
    """Passes bytes between clients and a server as they are, and keeps what the clients sent."""

    def __init__(self, port):
        self._target = ("127.0.0.1", port)
        self._streams = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed: the test is over
            kept = bytearray()
            self._streams.append(kept)
            threading.Thread(target=self._serve, args=(client, kept), daemon=True).start()

    def _serve(self, client, kept):
        with client, socket.create_connection(self._target) as server:
            back = threading.Thread(target=self._pass, args=(server, client), daemon=True)
            back.start()
            self._pass(client, server, kept)
            back.join()

    @staticmethod
    def _pass(source, target, kept=None):
        try:
            while piece := source.recv(65536):
                if kept is not None:
                    kept += piece
                target.sendall(piece)
        except OSError:
            pass
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side has gone already

    def requests(self):
        """What was sent so far, connection by connection, each in its order."""
        return [request for stream in list(self._streams) for request in read_requests(bytes(stream))]

    def posts(self):
        """The POSTs in the order in which their connections began, with their bodies as documents."""
        return [request._replace(body=json.loads(request.body)) for request in self.requests()
                if request.method == "POST"]

    def close(self):
        self._listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
