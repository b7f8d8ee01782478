"""The table of malformed and extreme requests, cases/malformed.jsonl, against a running server.

A row: name; apis: "all" (every generating endpoint, and the count of tokens, instead of one path); method (POST), path (/v1/chat/completions), headers (null removes one; $BIG is 100 kB);
`fields` merged into a good chat request, or `body`, or `text` as it is, or `gen`, a Python expression for the bytes;
status: what may come; param, code: of the envelope; contains: a pattern in the message; header: answer headers that
must hold the text. Every refusal is in the endpoint's envelope, says nothing of the server's insides, and harms nothing.
"""

import json
import os
import re
import unittest

from apis import APIS, CHAT, COUNT_TOKENS, MESSAGES, RESPONSES
from harness import JSON, SANITIZED, ScriptedCase, Server, figure

HERE = os.path.dirname(os.path.abspath(__file__))


def rows():
    with open(os.path.join(HERE, "cases", "malformed.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def body_of(row, api=CHAT):
    if "fields" in row:
        return json.dumps(api.body(**row["fields"]))
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
            for api in (*APIS, COUNT_TOKENS) if row.get("apis") == "all" else (None,):
                with self.subTest(row["name"], api=api and api.name):
                    self.check(row, api)
        self.assert_unharmed()
        self.assertLessEqual(self.server.descriptors(), before + 2)

    def check(self, row, api):
        body = body_of(row, api or CHAT)
        headers = dict(JSON) if body is not None else {}
        for name, value in row.get("headers", {}).items():
            headers.pop(name, None)
            if value is not None:
                headers[name] = value.replace("$BIG", "a" * 100_000)
        path = api.path if api else row.get("path", CHAT.path)
        reply = self.server.request(row.get("method", "POST"), path, body, headers)
        self.assertIn(reply.status, row["status"], reply.body[:300])
        if reply.status == 200:
            return
        error = (api or CHAT).error_of(reply)
        self.assertNotRegex(reply.body.decode(), r"0x[0-9a-f]{6,}|/src/|\.cc:\d|std::|boost|simdjson")
        self.assertIn("x-request-id", reply.headers)
        if "param" in row and "param" in error:
            self.assertEqual(error["param"], row["param"], error)
        if "code" in row and "code" in error:
            self.assertEqual(error["code"], row["code"])
        if "contains" in row:
            self.assertTrue(re.search(row["contains"], error["message"]), error["message"])
        for name, text in row.get("header", {}).items():
            self.assertIn(text, reply.headers.get(name, ""))


    def test_half_a_character_is_not_said_again(self):
        """Clients cut strings inside an emoji; what is made of that is JSON for every reader."""
        half = '"x' + "\\" + 'ud83d"'
        for api in APIS:
            body = json.dumps(api.body("$HALF", metadata={"a": "$HALF"}, instructions="$HALF"))
            reply = self.server.post(api.path, body.replace('"$HALF"', half), headers=JSON)
            self.assertEqual(reply.status, 200, reply.body)
            self.assertNotIn(b"\\ud83d", reply.body.lower(), api.name)

    def test_half_a_character_of_a_model_is_not_said_either(self):
        half = "x" + "\\" + "ud83dy"
        call = '<tool_call>{"name": "f", "arguments": {"a": "%s"}}</tool_call>' % half
        schema = {"type": "object"}
        tools = {CHAT: {"type": "function", "function": {"name": "f", "parameters": schema}},
                 RESPONSES: {"type": "function", "name": "f", "parameters": schema},
                 MESSAGES: {"name": "f", "input_schema": schema}}
        with Server(script=[{"text": call, "repeat": True}]) as server:
            for api, tool in tools.items():
                reply = server.post(api.path, api.body("hi", tools=[tool], **api.longest(99)))
                self.assertEqual(reply.status, 200, reply.body)
                # Arguments as a text keep what the model wrote, with its backslash escaped; as JSON they are mended.
                self.assertIsNone(re.search(rb"[^\\]\\ud83d", reply.body), reply.body)
                self.assertIn(b"ufffd" if api is MESSAGES else b"ud83d", reply.body.lower())

    def test_6_bodies_of_32_mb_of_anything_take_bounded_memory(self):
        """On every API; the answer comes at once, and in its envelope."""
        size = (32 << 20) - 200
        fillings = {"one string": '"' + "a" * (size - 2) + '"',
                    "two million values": "[" + "0," * 1_990_000 + "0]",
                    "numbers of a million digits": "[" + ",".join(["1" * 1_000_000] * 30) + "]",
                    "escapes": '"' + "\\ud800" * (size // 6 - 1) + '"',
                    "brackets": "[" * (size // 2) + "]" * (size // 2)}
        resting = self.server.rss_mb()
        for api in (*APIS, COUNT_TOKENS):
            whole = json.dumps(api.body("$TEXT", unknown="$ANY"))
            for name, filling in fillings.items():
                with self.subTest(api=api.name, filling=name):
                    reply = self.server.post(api.path, whole.replace('"$ANY"', filling), headers=JSON)
                    self.assertIn(reply.status, [400] if name == "brackets" else [200])
                    if filling.startswith('"'):
                        reply = self.server.post(api.path, whole.replace('"$TEXT"', filling), headers=JSON)
                        self.assertEqual(reply.status, 400, "the prompt is longer than the context")
                        self.assertRegex(api.error_of(reply)["message"], "too long")
            over = api.body("x" * (32 << 20))
            self.assertEqual(self.server.post(api.path, over).status, 413, api.name)
        grown = self.server.peak_mb() - resting
        figure("peak of RSS over its rest by bodies of 32 MB, one at a time, MB", round(grown))
        if not SANITIZED:
            self.assertLessEqual(grown, 8 * 32)


if __name__ == "__main__":
    unittest.main()
