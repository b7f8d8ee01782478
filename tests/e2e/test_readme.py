"""The commands of README.md, as a stranger would paste them."""

import json
import os
import re
import subprocess
import unittest

from harness import ROOT, ModelCase


class Readme(ModelCase):
    def commands(self, word):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            blocks = re.findall(r"```sh\n(.*?)```", file.read(), re.S)
        found = [block for block in blocks if block.startswith(word)]
        self.assertTrue(found, f"README.md has no {word} line")
        return found

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


if __name__ == "__main__":
    unittest.main()
