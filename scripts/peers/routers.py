#!/usr/bin/env python3
"""kvern before two workers, beside other routers before two servers, under the same loads: one table.

    scripts/peers/routers.py [--quick] [TARGET...]

Needs build/release/kvern (or KVERN_BINARY) and the default model (`make build`). Everything is on loopback, started
and ended here, and bounded in time; a full run takes five minutes and wants a quiet machine. What is measured, and how
the peers are installed, is in docs/peers.md. A peer that is not there is left out.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KVERN = os.environ.get("KVERN_BINARY") or os.path.join(ROOT, "build", "release", "kvern")
CACHE = os.environ.get("KVERN_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "kvern")
MODEL = os.path.join(CACHE, "models", "SmolLM2-135M-Instruct.Q8_0.gguf")
SMG = os.path.join(CACHE, "peers", "smg", "bin", "smg")
SGLANG = os.path.join(CACHE, "peers", "sglang-router", "bin", "python")
TICKS = os.sysconf("SC_CLK_TCK")
STARTS_WITHIN_S = 60
QUIET = ["--log-level", "warn"]
CONTEXT = ["--ctx", "262144"]
# (row, phase, figure)
ROWS = (
    ("CPU µs/request, 32 connections", "rate", "cpu_per_answer"),
    ("requests/s, 32 connections", "rate", "answers_per_s"),
    ("JSON p50 µs, 1 connection", "one", "latency_p50"),
    ("JSON p99 µs, 1 connection", "one", "latency_p99"),
    ("CPU µs/event, 200 streams × 10 ms", "paced", "cpu_per_event"),
    ("gap p99 µs (asked: 10,000)", "paced", "gap_p99"),
    ("CPU µs/event, 1,000 streams × 200 ms", "held", "cpu_per_event"),
    ("RSS MB idle", "idle", "rss_mb"),
    ("RSS MB, 1,000 streams", "held", "rss_mb"),
    ("420 KB prompt, first time: CPU ms (steps of 10)", "long_first", "cpu_ms_per_answer"),
    ("420 KB prompt, known: CPU ms/request", "long", "cpu_ms_per_answer"),
    ("420 KB prompt, known: first event p50 ms", "long", "first_ms"),
)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def tree(root):
    """The process and all below it."""
    below = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parent = int(stat(name)[1])
            below.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += below.get(pid, [])
    return found


def stat(pid):
    """Fields of /proc/PID/stat from the state on."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        text = file.read()
    return text[text.rindex(")") + 2:].split()


def cpu_us(root):
    total = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            fields = stat(pid)
            total += int(fields[11]) + int(fields[12])
    return total * 1e6 / TICKS


def rss_mb(root):
    pages = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            pages += int(stat(pid)[21])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Site:
    """A folder and the processes of this run; both are gone at the end."""

    def __init__(self, stack):
        self._stack = stack
        self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvern-peers-"))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, command, stderr=subprocess.DEVNULL):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, cwd=self.folder)
        self._stack.callback(end, process)
        return process

    def kvern(self, *arguments):
        """Its process, and the port it took."""
        port = free_port()
        return self.start([KVERN, *arguments, "--port", str(port), *QUIET]), port


def end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_answer(port):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", chat("hi", 2, False).encode(),
        {"content-type": "application/json"})
    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.read()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


# --- what is asked and answered -----------------------------------------------------------------------------------


def script():
    """Answers longer than any max_tokens; the words of a request tell the pace."""
    text = "the" + " cache block of token and router is the" * 60
    lines = [{"match": "mode: paced", "itl_ms": 10}, {"match": "mode: held", "itl_ms": 200}, {}]
    return "".join(json.dumps({**line, "text": text, "repeat": True}) + "\n" for line in lines)


def chat(words, tokens, stream, before=()):
    messages = [{"role": "system", "content": "You are a coding agent."}, *before, {"role": "user", "content": words}]
    return json.dumps({"model": "mock", "messages": messages, "max_tokens": tokens, "stream": stream})


def long_conversation():
    """About 420 KB of source code, as an agent that reads files sends it."""
    text = ""
    for folder, folders, names in os.walk(os.path.join(ROOT, "src")):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".cc", ".h")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text += file.read()
        if len(text) > 400_000:
            break
    turns = []
    for at in range(0, 400_000, 8_000):
        turns.append({"role": "user", "content": "Result of reading:\n" + text[at:at + 8_000]})
        turns.append({"role": "assistant", "content": "I have read it. Next I look at the one after it."})
    return turns


def loads(site, quick):
    """Phase -> arguments of `kvern bench load`."""
    few = 10 if quick else 1
    seconds = str(1 if quick else 5)
    body = lambda name, text: ["--body", site.write(name + ".json", text)]  # noqa: E731
    streams = lambda count: ["--connections", str(count // few), "--requests", str(count // few)]  # noqa: E731
    long = body("long", chat("go on", 4, True, long_conversation())) + ["--connections", "1"]
    return {
        "rate": body("rate", chat("hello", 16, False)) + ["--connections", "32", "--seconds", seconds],
        "one": body("one", chat("hello", 16, False)) + ["--connections", "1", "--seconds", seconds],
        "paced": body("paced", chat("hello, mode: paced", 200, True)) + streams(200),
        "long_first": long + ["--requests", "1"],
        "long": long + ["--requests", str(60 // few), "--seconds", "10"],
        "held": body("held", chat("hello, mode: held", 40, True)) + streams(1000),
    }


# --- who is measured ----------------------------------------------------------------------------------------------


def nginx(site, port, origins):
    servers = " ".join(f"server 127.0.0.1:{origin};" for origin in origins)
    config = site.write("nginx.conf", f"""daemon off;
worker_processes auto;
error_log stderr error;
pid nginx.pid;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_max_body_size 64m; client_body_buffer_size 1m;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream workers.example {{ {servers} keepalive 256; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    keepalive_requests 1000000;
    location / {{
      proxy_pass http://workers.example; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $http_host; proxy_buffering off;
    }}
  }}
}}
""")
    return site.start(["nginx", "-e", "stderr", "-p", site.folder, "-c", config])


def smg(site, port, origins):
    return site.start([SMG, "launch", "--host", "127.0.0.1", "--port", str(port), "--worker-urls", *urls(origins),
                       "--policy", "cache_aware", "--prometheus-host", "127.0.0.1", "--prometheus-port",
                       str(free_port()), "--log-level", "warn"])


def sglang_router(site, port, origins):
    return site.start([SGLANG, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port),
                       "--worker-urls", *urls(origins), "--policy", "cache_aware", "--prometheus-host", "127.0.0.1",
                       "--prometheus-port", str(free_port()), "--log-level", "warn", "--max-concurrent-requests",
                       "-1"])


def urls(ports):
    return [f"http://127.0.0.1:{port}" for port in ports]


def relay(site, origins):
    """It takes a port of its own choice, and says which."""
    process = site.start([KVERN, "bench", "relay", "--origin", str(origins[0])], subprocess.PIPE)
    return process, int(re.search(rb":(\d+)\s*$", process.stderr.readline()).group(1))


def routed(site, engine):
    """kvern before two workers, which take token ids."""
    lines = []
    for name in ("a", "b"):
        _, port = site.kvern("worker", "--engine", engine, "--name", "mock", "--loops", "1", *CONTEXT)
        lines.append(f'  - {{name: {name}, kind: kvern, url: "http://127.0.0.1:{port}", tokenizer: "{MODEL}"}}\n')
    workers = site.write("workers.yaml", "workers:\n" + "".join(lines))
    return site.kvern("serve", "--workers", workers, "--state-dir", os.path.join(site.folder, "routed"))


def start(name, site):
    """The target's process and port, with what stands behind it."""
    engine = "scripted:" + site.write("script.jsonl", script())
    if name == "kvern":
        return routed(site, engine)
    origins = [site.kvern("serve", "--engine", engine, "--name", "mock", "--state-dir",
                          os.path.join(site.folder, f"origin{n}"), *CONTEXT) for n in range(2)]
    ports = [port for _, port in origins]
    for port in ports:
        wait_for_answer(port)
    if name == "kvern in process":
        return origins[0]
    if name == "relay":
        return relay(site, ports)
    port = free_port()
    return {"nginx": nginx, "smg": smg, "sglang-router": sglang_router}[name](site, port, ports), port


def there():
    present = {"nginx": shutil.which("nginx"), "smg": os.path.exists(SMG),
               "sglang-router": os.path.exists(os.path.join(os.path.dirname(SGLANG), "sglang-router"))}
    for name in (name for name, found in present.items() if not found):
        print(f"{name} is not there: docs/peers.md says how to install it", file=sys.stderr)
    return ["relay", *(name for name, found in present.items() if found), "kvern", "kvern in process"]


# --- measuring ----------------------------------------------------------------------------------------------------


def run_load(pid, port, arguments):
    """Figures of one load; CPU and the greatest memory are the target's."""
    before = cpu_us(pid)
    load = subprocess.Popen([KVERN, "bench", "load", "--json", "--port", str(port), *arguments], stdout=subprocess.PIPE)
    peak = rss_mb(pid)
    while load.poll() is None:
        peak = max(peak, rss_mb(pid))
        time.sleep(0.3)
    figures = json.loads(load.communicate()[0] or "{}")
    if not figures or figures["errors"] or not figures["answers"]:
        raise OSError(f"the load failed: {figures}")
    cpu = cpu_us(pid) - before
    return {
        "cpu_per_answer": cpu / figures["answers"], "cpu_ms_per_answer": cpu / 1000 / figures["answers"],
        "cpu_per_event": cpu / max(figures["events"], 1), "answers_per_s": figures["answers"] / figures["seconds"],
        "latency_p50": figures["latency_us"]["p50"], "latency_p99": figures["latency_us"]["p99"],
        "gap_p99": figures["gap_us"]["p99"], "first_ms": figures["first_event_us"]["p50"] / 1000, "rss_mb": peak}


def measure(name, quick):
    with contextlib.ExitStack() as stack:
        site = Site(stack)
        process, port = start(name, site)
        wait_for_answer(port)
        time.sleep(1)
        figures = {"idle": {"rss_mb": rss_mb(process.pid)}}
        for phase, arguments in loads(site, quick).items():
            print(f"{name}: {phase}", file=sys.stderr)
            figures[phase] = run_load(process.pid, port, arguments)
        return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few requests: to see that it runs")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all that are there")
    options = parser.parse_args()
    known = there()
    for name in options.targets:
        if name not in known:
            parser.error(f"no target {name}: " + ", ".join(known))
    targets = options.targets or known
    results = {name: measure(name, options.quick) for name in targets}
    print("| figure | " + " | ".join(targets) + " |\n|---|" + "---:|" * len(targets))
    for row, phase, figure in ROWS:
        values = [results[name][phase][figure] for name in targets]
        print(f"| {row} | " + " | ".join(f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" for value in values) +
              " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
