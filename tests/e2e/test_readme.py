"""The commands of README.md and docs/clients.md, as a stranger would paste them."""

import json
import subprocess
import sys
import unittest

from harness import ModelCase
from pages import blocks


class Readme(ModelCase):
    def commands(self, word):
        return [block for block in blocks("README.md", "sh", word) if block.startswith(word)]

    def run_here(self, command):
        # The README names the default port; the test's server has one of its own.
        done = subprocess.run(["bash", "-c", command.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}")],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_curl_line_answers(self):
        for command in self.commands("curl"):
            with self.subTest(command=command):
                self.assertIn("content-type: application/json", command)
                out = self.run_here(command)
                if '"stream": true' in command:
                    events = [line[6:] for line in out.splitlines() if line.startswith("data: ")]
                    self.assertEqual(events[-1], "[DONE]")
                    text = "".join(choice["delta"].get("content") or "" for event in events[:-1]
                                   for choice in json.loads(event)["choices"])
                    self.assertTrue(text.strip())
                else:
                    self.assertTrue(json.loads(out)["choices"][0]["message"]["content"].strip())

    def test_the_sdks(self):
        lines = blocks("docs/clients.md", "sh", "export OPENAI_BASE_URL")[-1] + blocks("docs/clients.md", "sh", "_URL")[-1]
        for program in [*blocks("README.md", "python", "OpenAI("), *blocks("docs/clients.md", "python")]:
            with self.subTest(program=program):
                path = self.server.write("pasted.py", program.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}"))
                self.assertTrue(self.run_here(f"{lines}{sys.executable} {path}").strip())


if __name__ == "__main__":
    unittest.main()
