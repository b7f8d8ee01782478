"""The generating endpoints, so that a test can say one thing to all of them."""

import hashlib
import json


class Api:
    """One endpoint: its least body, and the envelope of its errors."""

    def __init__(self, name, path, dialect, prompt):
        self.name, self.path, self.dialect, self._prompt = name, path, dialect, prompt

    def body(self, text="hi", **fields):
        return {**self._prompt(text), **fields}

    def longest(self, tokens):
        """The field that bounds an answer."""
        return {"max_output_tokens" if self.path == "/v1/responses" else "max_tokens": tokens}

    def error_of(self, reply):
        """The error of a reply, checked for its envelope."""
        assert reply.headers["content-type"].startswith("application/json"), reply.headers
        document = json.loads(reply.body)
        if self.dialect == "anthropic":
            assert document["type"] == "error" and document["request_id"] == reply.headers["request-id"], document
        else:
            assert {"message", "type", "param", "code"} <= set(document["error"]), document
        assert document["error"]["message"] and document["error"]["type"], document
        return document["error"]


def _turns(text):
    return [{"role": "user", "content": text}]


CHAT = Api("chat", "/v1/chat/completions", "openai", lambda text: {"messages": _turns(text)})
COMPLETIONS = Api("completions", "/v1/completions", "openai", lambda text: {"prompt": text})
RESPONSES = Api("responses", "/v1/responses", "openai", lambda text: {"input": text})
MESSAGES = Api("messages", "/v1/messages", "anthropic", lambda text: {"messages": _turns(text), "max_tokens": 16})
COUNT_TOKENS = Api("count_tokens", "/v1/messages/count_tokens", "anthropic", lambda text: {"messages": _turns(text)})
APIS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)


def sha256(key):
    return hashlib.sha256(key.encode()).hexdigest()
