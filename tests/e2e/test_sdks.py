"""The SDKs of OpenAI and Anthropic, in Python and JavaScript, over one table of cases: every API, whole and streamed.

A case asks by a word in its text, which a line of the script answers. Both languages report what they saw in the same
words, {text, thinking, calls: [[name, arguments]], end} or {error}, so a case says once what is expected. Streams go
through the SDKs' own helpers, which hold them to an order."""

import filecmp
import functools
import json
import os
import shutil
import subprocess
import unittest

import anthropic
import openai

from harness import CACHE, PATIENCE, ScriptedCase, until

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
APIS = ("chat", "responses", "messages")
STOPPED = {"chat": "stop", "responses": "completed", "messages": "end_turn"}
CALLED = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}
CUT = {"chat": "length", "responses": "max_output_tokens", "messages": "max_tokens"}


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


A, B = '{"path":"a.txt"}', '{"path":"b.txt"}'
SCRIPT = [
    {"match": "one tool", "text": f"<think>I need it.</think>Reading.\n{call('read_file', A)}", "repeat": True},
    {"match": "two tools", "text": f"{call('read_file', A)}\n{call('read_file', B)}", "repeat": True},
    {"match": "a custom tool", "text": call("note", '{"input": "raw \\"text\\"\\nas it is"}'), "repeat": True},
    {"match": "be cut", "text": "one two three four five six seven eight", "repeat": True},
    {"match": "stop early", "text": "before END after", "repeat": True},
    {"match": "fail midway", "chunks": ["some ", "words "], "finish": "error", "repeat": True},
    {"match": "go on and on", "text": "word " * 400, "itl_ms": 1000, "repeat": True},
    {"text": "<think>Hm.</think>Hello 👩‍💻, naïve café.", "repeat": True},
]

# text asked, fields, the APIs it is for, what is to be seen. "thinking" is not looked at where it is not named.
CASES = {
    "text and thinking": ({"text": "hi"}, APIS, lambda api: {
        "text": "Hello 👩‍💻, naïve café.", "thinking": "Hm.", "calls": [], "end": STOPPED[api]}),
    "one tool": ({"text": "one tool", "tools": True}, APIS, lambda api: {
        "text": "Reading.", "thinking": "I need it.", "calls": [["read_file", A]], "end": CALLED[api]}),
    "two tools in parallel": ({"text": "two tools", "tools": True}, APIS, lambda api: {
        "text": "", "calls": [["read_file", A], ["read_file", B]], "end": CALLED[api]}),
    "a custom tool": ({"text": "a custom tool", "tools": True}, ("responses",), lambda api: {
        "text": "", "calls": [["note", 'raw "text"\nas it is']], "end": CALLED[api]}),
    "cut by length": ({"text": "be cut", "max_tokens": 3}, APIS, lambda api: {
        "text": "one two three", "calls": [], "end": CUT[api]}),
    "a stop sequence": ({"text": "stop early", "stop": ["END"]}, ("chat", "messages"), lambda api: {
        "text": "before", "calls": [], "end": {"chat": "stop", "messages": "stop_sequence"}[api]}),
}


def jobs_of(apis=APIS, **fields):
    return [{"api": api, "stream": stream, **fields} for api in apis for stream in (False, True)]


@functools.cache
def openai_client(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="unused", max_retries=0, timeout=PATIENCE)


@functools.cache
def anthropic_client(url):
    return anthropic.Anthropic(base_url=url, api_key="unused", max_retries=0, timeout=PATIENCE)


def python_chat(url, job):
    api = openai_client(url).chat.completions
    body = {"model": "m", "messages": [{"role": "user", "content": job["text"]}]}
    body |= {name: job[name] for name in ("max_tokens", "stop") if name in job}
    if job.get("tools"):
        body["tools"] = [{"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}]
    if job["stream"]:
        with api.stream(**body) as stream:
            if job.get("cancel"):
                next(event for event in stream if event.type == "content.delta")
                return {"cancelled": True}
            for _ in stream:
                pass
            try:
                choice = stream.get_final_completion().choices[0]
            except openai.LengthFinishReasonError as cut:  # the helper's word for finish_reason length
                choice = cut.completion.choices[0]
    else:
        choice = api.create(**body).choices[0]
    message = choice.message
    return {"text": message.content or "", "thinking": getattr(message, "reasoning_content", None) or "",
            "calls": [[c.function.name, c.function.arguments] for c in message.tool_calls or []],
            "end": choice.finish_reason}


def python_responses(url, job):
    api = openai_client(url).responses
    body = {"model": "m", "input": job["text"], "store": False, "reasoning": {"summary": "auto"}}
    if "max_tokens" in job:
        body["max_output_tokens"] = job["max_tokens"]
    if job.get("tools"):
        body["tools"] = [{"type": "function", "name": "read_file", "parameters": SCHEMA, "strict": False},
                         {"type": "custom", "name": "note"}]
    if job["stream"]:
        with api.stream(**body) as stream:
            answer = None
            for event in stream:
                if job.get("cancel") and event.type == "response.output_text.delta":
                    return {"cancelled": True}
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    answer = event.response
    else:
        answer = api.create(**body)
    if answer.status == "failed":
        return {"error": "failed", "message": answer.error.message, "status": None}
    items = answer.output
    return {"text": answer.output_text, "end": (answer.incomplete_details or answer).__dict__.get("reason", answer.status),
            "thinking": "".join(part.text for item in items if item.type == "reasoning" for part in item.summary),
            "calls": [[item.name, getattr(item, "arguments", None) or item.input] for item in items
                      if item.type.endswith("_call")]}


def python_messages(url, job):
    api = anthropic_client(url).messages
    body = {"model": "m", "messages": [{"role": "user", "content": job["text"]}], "max_tokens": job.get("max_tokens", 256)}
    if "stop" in job:
        body["stop_sequences"] = job["stop"]
    if job.get("tools"):
        body["tools"] = [{"name": "read_file", "input_schema": SCHEMA}]
    if job["stream"]:
        with api.stream(**body) as stream:
            if job.get("cancel"):
                next(stream.text_stream)
                return {"cancelled": True}
            answer = stream.get_final_message()
    else:
        answer = api.create(**body)
    return {"text": "".join(b.text for b in answer.content if b.type == "text"), "end": answer.stop_reason,
            "thinking": "".join(b.thinking for b in answer.content if b.type == "thinking"),
            "calls": [[b.name, json.dumps(b.input, separators=(",", ":"))] for b in answer.content
                      if b.type == "tool_use"]}


def python(url, jobs):
    seen = []
    for job in jobs:
        try:
            seen.append({"chat": python_chat, "responses": python_responses, "messages": python_messages}[job["api"]](
                url, job))
        except (openai.APIError, anthropic.APIError) as error:
            seen.append({"error": type(error).__name__, "message": str(error),
                         "status": getattr(error, "status_code", None)})
    return seen


def javascript(url, jobs):
    # node looks for packages beside the program: it is copied to where npm installed the SDKs.
    source = os.path.join(HERE, "js", "sdks.mjs")
    program = os.path.join(CACHE, "sdk-js", "sdks.mjs")
    if not os.path.exists(program) or not filecmp.cmp(source, program, shallow=False):
        shutil.copyfile(source, program + ".part")
        os.replace(program + ".part", program)
    done = subprocess.run(["node", program, url], input=json.dumps(jobs), capture_output=True, text=True,
                          timeout=3 * PATIENCE, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


LANGUAGES = {"python": python, "javascript": javascript}


class Sdks(ScriptedCase):
    script = SCRIPT
    arguments = ("--name", "m")

    def each(self, jobs, check):
        """Runs every job in every language; check(job, what was seen) is a subtest each."""
        for language, run in LANGUAGES.items():
            for job, seen in zip(jobs, run(self.server.url, jobs), strict=True):
                with self.subTest(language=language, **job):
                    check(job, seen)

    def test_answers(self):
        def check(job, seen):
            self.assertNotIn("error", seen)
            want = CASES[job["case"]][2](job["api"])
            seen["text"] = seen["text"].strip()
            self.assertEqual({key: seen[key] for key in want}, want)

        self.each([job for case, (fields, apis, _) in CASES.items() for job in jobs_of(apis, case=case, **fields)], check)

    def test_a_custom_tool_over_chat(self):
        """Past the helpers: they know functions only."""
        api = openai_client(self.server.url).chat.completions
        fields = {"model": "m", "messages": [{"role": "user", "content": "a custom tool"}],
                  "tools": [{"type": "custom", "custom": {"name": "note"}}]}
        [whole] = api.create(**fields).choices[0].message.tool_calls
        self.assertEqual((whole.type, whole.custom.name, whole.custom.input), ("custom", "note", 'raw "text"\nas it is'))
        deltas = [call for chunk in api.create(**fields, stream=True) for choice in chunk.choices
                  for call in choice.delta.tool_calls or []]
        self.assertEqual(deltas[0].custom["name"], "note")
        self.assertEqual("".join(call.custom.get("input") or "" for call in deltas), 'raw "text"\nas it is')

    def test_an_error_in_mid_stream_is_raised(self):
        def check(job, seen):
            self.assertIn("error", seen)
            if not job["stream"]:
                self.assertEqual(seen["status"], 500)

        self.each(jobs_of(text="fail midway"), check)

    def test_who_hangs_up_frees_the_engine(self):
        jobs = [job for job in jobs_of(text="go on and on", cancel=True, max_tokens=400) if job["stream"]]
        self.each(jobs, lambda _, seen: self.assertEqual(seen, {"cancelled": True}))
        # The script would go on for minutes.
        until(lambda: self.server.metric("vllm:num_requests_running") == 0, what="the end of what was cancelled")


if __name__ == "__main__":
    unittest.main()
