"""Claude Code against kvern: the program from npm, the scripted engine, no network but loopback."""

import json
import os
import subprocess
import unittest

from agent_task import LAST, MADE, begin, call, turns
from harness import CACHE, PATIENCE, Server
from loopback import Recorder
from pages import blocks

PROGRAM = os.path.join(CACHE, "sdk-js", "node_modules", "@anthropic-ai", "claude-code-linux-x64", "claude")
# It repeats a request whose stream it cannot read without `stream`, and succeeds: only the record shows that. So what
# it does by default stays on here, and tests look at `stream`.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
               "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_ERROR_REPORTING": "1"}
OPTIONS = "--output-format json --allowedTools Bash Agent"


def setUpModule():
    begin("Claude Code", PROGRAM)


FIRST, SECOND = turns("Bash", "command")


class ClaudeCode(unittest.TestCase):
    def run_task(self, *script):
        """Runs one task; returns the folder it worked in as {name: text}, its report, and the POSTs it sent."""
        # A line for whatever comes after the script, so that a request too many shows as one, not as a hang.
        answers = [*script, {"text": "One request too many.", "repeat": True}]
        with Server("--alias", "claude-*", script=answers) as server, Recorder(server.port) as recorder:
            home, work = (os.path.join(server.folder, name) for name in ("home", "work"))
            os.mkdir(home)
            os.mkdir(work)
            # The lines of docs/clients.md, with `claude` a function that adds what makes it run without a terminal.
            [lines] = blocks("docs/clients.md", "sh", "claude --model")
            assert "http://127.0.0.1:8080" in lines, lines
            claude = f'claude() {{ {PROGRAM} "$@" -p "Make the file made.txt." {OPTIONS}; }}\n'
            done = subprocess.run(
                ["bash", "-c", claude + lines.replace("http://127.0.0.1:8080", recorder.url)], cwd=work,
                env={**ENVIRONMENT, "HOME": home}, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr + server.output())
            report = json.loads(done.stdout)
            self.assertFalse(report["is_error"], report)
            made = {}
            for name in os.listdir(work):
                with open(os.path.join(work, name), encoding="utf-8") as file:
                    made[name] = file.read()
            posts = recorder.posts()
        self.assertEqual({post.path.split("?")[0] for post in posts}, {"/v1/messages"})
        return made, report, posts

    def assert_streams(self, posts, count):
        self.assertEqual([post.body.get("stream") for post in posts], [True] * count)

    def retries(self, posts):
        return [int(post.headers.get("x-stainless-retry-count", "0")) for post in posts]

    def test_three_turns(self):
        made, report, posts = self.run_task(FIRST, SECOND, LAST)
        self.assertEqual(made, {"made.txt": MADE})
        self.assertEqual((report["result"], report["num_turns"]), ("The file is there.", 3))
        self.assert_streams(posts, 3)
        self.assertEqual(self.retries(posts), [0, 0, 0])
        self.assertGreater(report["usage"]["input_tokens"], 0)
        self.assertGreater(report["usage"]["output_tokens"], 0)
        # What the model thought comes back where it stood; Claude Code asks for it sealed, so the signature holds it.
        answers = [message for message in posts[2].body["messages"] if message["role"] == "assistant"]
        self.assertEqual([block["type"] for block in answers[0]["content"]], ["thinking", "text", "tool_use"])
        self.assertTrue(answers[0]["content"][0]["signature"])

    def test_a_subagent(self):
        made, report, posts = self.run_task(
            {"text": call("Agent", description="Make a file", prompt="Please make helper.txt.",
                          subagent_type="general-purpose", run_in_background=False)},
            {"text": call("Bash", command="echo helped > helper.txt")},
            {"text": "The helper has made it."}, {"text": "All done."})
        self.assertEqual(made, {"helper.txt": "helped\n"})
        self.assertEqual(report["result"], "All done.")
        self.assert_streams(posts, 4)
        self.assertEqual(self.retries(posts), [0] * 4)
        helpers = [post.headers["x-claude-code-agent-id"] for post in posts if "x-claude-code-agent-id" in post.headers]
        self.assertEqual((len(helpers), len(set(helpers))), (2, 1))

    def test_overload_first(self):
        made, _, posts = self.run_task({"finish": "overloaded"}, FIRST, SECOND, LAST)
        self.assertEqual(made, {"made.txt": MADE})
        self.assert_streams(posts, 4)

    def test_failure_before_the_first_token(self):
        made, _, posts = self.run_task({"text": "", "finish": "error"}, FIRST, SECOND, LAST)
        self.assertEqual(made, {"made.txt": MADE})
        self.assert_streams(posts, 4)

    def test_failure_in_mid_stream(self):
        made, _, posts = self.run_task({"text": "I begin, but", "finish": "error"}, FIRST, SECOND, LAST)
        self.assertEqual(made, {"made.txt": MADE})
        # Its own way out of any stream that broke off, whatever the error says: once more, and whole.
        self.assertEqual([bool(post.body.get("stream")) for post in posts], [True, False, True, True])


if __name__ == "__main__":
    unittest.main()
