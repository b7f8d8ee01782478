"""The task that the tests of coding agents give: two tool calls, then a last word."""

import json
import os

from loopback import only_loopback

LAST = {"text": "The file is there."}
MADE = "one\ntwo\n"


def call(name, **arguments):
    return f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments})}\n</tool_call>'


def turns(tool, field):
    """Both turns that call: `tool` runs a shell command, which it takes as `field`."""
    return ({"text": "<think>It wants a file.</think>I begin.\n" + call(tool, **{field: "echo one > made.txt"})},
            {"text": call(tool, **{field: "echo two >> made.txt"})})


def begin(name, program):
    """For setUpModule: the program is there, and from here on it reaches nothing but this machine."""
    if not os.path.exists(program):
        raise AssertionError(f"{name} is not at {program}: run scripts/setup --dev")
    only_loopback()
