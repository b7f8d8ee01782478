"""Runs the end-to-end modules, each in a process of its own: two at a time, those that measure time by themselves."""

import concurrent.futures
import glob
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Modules whose assertions are about time or memory of the whole machine run alone, at the end.
ALONE = {"test_timing", "test_connections", "test_signals", "test_keep_alive", "test_abuse_template"}
# Only for the sanitizer builds: smaller cuts of what the others test.
SMOKE = {"test_smoke", "test_smoke_scripted"}


def run(module):
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "unittest", "-v", module], cwd=HERE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return module, done.returncode, done.stdout, time.monotonic() - started


def main():
    wanted = {"test_" + name.removeprefix("test_").removesuffix(".py") for name in sys.argv[1:]}
    there = {os.path.basename(path).removesuffix(".py") for path in glob.glob(os.path.join(HERE, "test_*.py"))}
    if wanted - there:
        sys.exit(f"no such test: {', '.join(sorted(wanted - there))}; there are: {', '.join(sorted(there))}")
    modules = sorted(wanted or there)
    side_by_side = [name for name in modules if name not in ALONE]
    failed = []

    def report(outcome):
        module, code, output, seconds = outcome
        print(f"=== {module} ({seconds:.1f} s)\n{output}", flush=True)
        if code != 0:
            failed.append(module)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, name) for name in side_by_side]):
            report(done.result())
    for name in modules:
        if name in ALONE:
            report(run(name))
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
