"""Codex against kvern: the program from npm, the scripted engine, no network but loopback."""

import json
import os
import subprocess
import unittest

from agent_task import LAST, MADE, begin, call, turns
from harness import CACHE, PATIENCE, Server
from loopback import Recorder
from pages import blocks

PROGRAM = os.path.join(CACHE, "sdk-js", "node_modules", "codex-linux-x64", "vendor", "x86_64-unknown-linux-musl", "bin",
                       "codex")
# What docs/clients.md tells people to write, and beside it that it is not to call home.
QUIET = """
[analytics]
enabled = false

[feedback]
enabled = false
"""


def config(url, model):
    [page] = blocks("docs/clients.md", "toml", "[model_providers.kvern]")
    assert 'model = "gpt-5.5"' in page and "http://127.0.0.1:8080" in page, page
    return ("check_for_update_on_startup = false\n"
            + page.replace("http://127.0.0.1:8080", url).replace('"gpt-5.5"', json.dumps(model)) + QUIET)


def setUpModule():
    begin("Codex", PROGRAM)


FIRST, SECOND = turns("exec_command", "cmd")


class Codex(unittest.TestCase):
    def run_task(self, *script, model="kvern-coder"):
        """Runs one task; returns the folder it worked in as {name: text}, its events, and the POSTs it sent."""
        # A line for whatever comes after the script, so that a request too many shows as one, not as a hang.
        lines = [*script, {"text": "One request too many.", "repeat": True}]
        with Server("--alias", "*", script=lines) as server, Recorder(server.port) as recorder:
            home, work = (os.path.join(server.folder, name) for name in ("home", "work"))
            os.makedirs(os.path.join(home, ".codex"))
            os.mkdir(work)
            with open(os.path.join(home, ".codex", "config.toml"), "w", encoding="utf-8") as file:
                file.write(config(recorder.url, model))
            done = subprocess.run(
                [PROGRAM, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
                 "Make the file made.txt."],
                cwd=work, env={"PATH": "/usr/bin:/bin", "HOME": home, "KVERN_KEY": "dummy"}, text=True,
                stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr + server.output())
            events = [json.loads(line) for line in done.stdout.splitlines()]
            made = {}
            for name in os.listdir(work):
                with open(os.path.join(work, name), encoding="utf-8") as file:
                    made[name] = file.read()
            sent = recorder.requests()
            posts = recorder.posts()
        self.assertEqual({(request.method, request.path) for request in sent}, {("POST", "/v1/responses")})
        self.assertEqual([post.body.get("stream") for post in posts], [True] * len(posts))
        return made, events, posts

    def items(self, events, kind):
        return [event["item"] for event in events
                if event["type"] == "item.completed" and event["item"]["type"] == kind]

    def test_three_turns(self):
        made, events, posts = self.run_task(FIRST, SECOND, LAST)
        self.assertEqual(made, {"made.txt": MADE})
        self.assertEqual(len(posts), 3)
        self.assertEqual([item["exit_code"] for item in self.items(events, "command_execution")], [0, 0])
        self.assertEqual([item["text"] for item in self.items(events, "reasoning")], ["It wants a file."])
        self.assertEqual(self.items(events, "agent_message")[-1]["text"], "The file is there.")
        usage = events[-1]["usage"]
        self.assertGreater(usage["input_tokens"], 0)
        self.assertGreater(usage["reasoning_output_tokens"], 0)
        # What the model thought and called comes back as it was.
        replayed = posts[2].body["input"]
        self.assertTrue([item for item in replayed if item["type"] == "reasoning" and item["encrypted_content"]])
        self.assertEqual([json.loads(item["arguments"]) for item in replayed if item["type"] == "function_call"],
                         [{"cmd": "echo one > made.txt"}, {"cmd": "echo two >> made.txt"}])

    def test_a_custom_tool(self):
        """A model name that Codex knows gets the tool apply_patch with a grammar, whose input is no JSON."""
        patch = "*** Begin Patch\n*** Add File: made.txt\n+one\n+two\n*** End Patch\n"
        made, _, posts = self.run_task({"text": call("apply_patch", input=patch)}, LAST, model="gpt-5.5")
        kinds = {tool["type"] for tool in posts[0].body["tools"]}
        self.assertIn("custom", kinds)
        self.assertEqual(made, {"made.txt": MADE})
        self.assertEqual(len(posts), 2)
        [replayed] = [item for item in posts[1].body["input"] if item["type"] == "custom_tool_call"]
        self.assertEqual(replayed["input"], patch)

    def test_overload_first(self):
        made, _, posts = self.run_task({"finish": "overloaded"}, FIRST, SECOND, LAST)
        self.assertEqual(made, {"made.txt": MADE})
        self.assertEqual(len(posts), 4)

    def test_failure_before_the_first_token(self):
        made, _, posts = self.run_task({"text": "", "finish": "error"}, FIRST, SECOND, LAST)
        self.assertEqual(made, {"made.txt": MADE})
        self.assertEqual(len(posts), 4)

    def test_failure_in_mid_stream(self):
        made, events, posts = self.run_task({"text": "I begin, but", "finish": "error"}, FIRST, SECOND, LAST)
        self.assertEqual(made, {"made.txt": MADE})
        self.assertEqual(len(posts), 4)
        self.assertEqual(events[-1]["type"], "turn.completed")


if __name__ == "__main__":
    unittest.main()
