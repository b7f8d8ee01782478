"""The table of malformed and extreme requests, cases/malformed.jsonl, against a running server.

A row: name; method (POST), path (/v1/chat/completions), headers (null removes one; $BIG is 100 kB);
`fields` merged into a good chat request, or `body`, or `text` as it is, or `gen`, a Python expression for the bytes;
status: what may come; param, code: of the envelope; contains: a pattern in the message; header: answer headers that
must hold the text. Every refusal is OpenAI's envelope, says nothing of the server's insides, and harms nothing.
"""

import json
import os
import re
import unittest

from harness import JSON, ScriptedCase

HERE = os.path.dirname(os.path.abspath(__file__))
GOOD = {"messages": [{"role": "user", "content": "hi"}]}


def rows():
    with open(os.path.join(HERE, "cases", "malformed.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def body_of(row):
    if "fields" in row:
        return json.dumps({**GOOD, **row["fields"]})
    if "body" in row:
        return json.dumps(row["body"])
    if "text" in row:
        return row["text"]
    if "gen" in row:
        return eval(row["gen"], {"json": json})  # our own table
    return None


class Malformed(ScriptedCase):
    arguments = ("--ctx", "2048")

    def test_the_table_is_long_enough(self):
        self.assertGreaterEqual(sum(200 not in row["status"] for row in rows()), 40)

    def test_every_row(self):
        before = self.server.descriptors()
        for row in rows():
            with self.subTest(row["name"]):
                self.check(row)
        self.assert_unharmed()
        self.assertLessEqual(self.server.descriptors(), before + 2)

    def check(self, row):
        body = body_of(row)
        headers = dict(JSON) if body is not None else {}
        for name, value in row.get("headers", {}).items():
            headers.pop(name, None)
            if value is not None:
                headers[name] = value.replace("$BIG", "a" * 100_000)
        reply = self.server.request(row.get("method", "POST"), row.get("path", "/v1/chat/completions"), body, headers)
        self.assertIn(reply.status, row["status"], reply.body[:300])
        if reply.status == 200:
            return
        self.assertTrue(reply.headers["content-type"].startswith("application/json"), reply.headers)
        error = json.loads(reply.body)["error"]
        self.assertLessEqual({"message", "type", "param", "code"}, set(error))
        self.assertTrue(error["message"])
        self.assertIsInstance(error["type"], str)
        self.assertNotRegex(reply.body.decode(), r"0x[0-9a-f]{6,}|/src/|\.cc:\d|std::|boost|simdjson")
        self.assertIn("x-request-id", reply.headers)
        if "param" in row:
            self.assertEqual(error["param"], row["param"], error)
        if "code" in row:
            self.assertEqual(error["code"], row["code"])
        if "contains" in row:
            self.assertTrue(re.search(row["contains"], error["message"]), error["message"])
        for name, text in row.get("header", {}).items():
            self.assertIn(text, reply.headers.get(name, ""))


if __name__ == "__main__":
    unittest.main()
