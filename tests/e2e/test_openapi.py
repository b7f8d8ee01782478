"""The OpenAPI page that the server offers, and requests that schemathesis makes up from it."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from harness import FULL, ScriptedCase

CALL = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>'
# What is asked here: no 5xx, and every answer as the page describes it, so every error in the envelope of its API. Which
# bodies are good is not asked: the page says what a field holds, not what goes with what.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method"
EXAMPLES = 200 if FULL else 12


class OpenApi(ScriptedCase):
    script = [{"match": "a", "text": f"<think>Hm.</think>Hello.{CALL}", "repeat": True},
              {"text": "Hello 👩‍💻.", "repeat": True}]
    arguments = ("--alias", "*")

    def page(self):
        reply = self.server.get("/openapi.json")
        self.assertEqual(reply.status, 200)
        return json.loads(reply.body)

    def test_the_page_has_every_endpoint(self):
        page = self.page()
        listed = json.loads(self.server.get("/").body)
        self.assertEqual(page["info"]["version"], listed["version"])
        there = {f"{method.upper()} {path.replace('{name}', '*')}" for path, methods in page["paths"].items()
                 for method in methods}
        self.assertEqual(there, set(listed["endpoints"]))

    def test_schemathesis(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-m", "schemathesis.cli", "run", self.server.url + "/openapi.json", "--checks", CHECKS,
                 "--max-examples", str(EXAMPLES), "--seed", "1", "--phases", "examples,coverage,fuzzing",
                 "--mode", "all", "--generation-database", "none", "--no-color"],
                cwd=folder, env={**os.environ, "HOME": folder}, capture_output=True, text=True, timeout=1200, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-2000:])
        sent = re.search(r"(\d+) generated", done.stdout)
        self.assertTrue(sent and int(sent.group(1)) > 100, done.stdout[-3000:])
        self.assert_unharmed()


if __name__ == "__main__":
    unittest.main()
