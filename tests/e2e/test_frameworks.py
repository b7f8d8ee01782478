"""openai-agents and pydantic-ai, each through one task with a tool, over every API they speak."""

import asyncio
import os
import tempfile
import unittest

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # it would report to OpenAI

import agents
import pydantic_ai
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from harness import Server

CALL = '<tool_call>\n{"name": "make_file", "arguments": {"name": "made.txt"}}\n</tool_call>'
SCRIPT = [{"text": f"<think>It wants a file.</think>{CALL}"}, {"text": "It is made."},
          {"text": "One request too many.", "repeat": True}]


class Frameworks(unittest.TestCase):
    def setUp(self):
        self.server = Server("--name", "m", script=SCRIPT)
        self.addCleanup(self.server.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def make_file(self, name: str) -> str:
        """Makes an empty file."""
        with open(os.path.join(self.folder, name), "w", encoding="utf-8"):
            return "made"

    def assert_done(self, text):
        self.assertEqual(os.listdir(self.folder), ["made.txt"])
        self.assertEqual(text, "It is made.")

    async def run_agents(self, model_class, streamed):
        async with AsyncOpenAI(base_url=self.server.url + "/v1", api_key="unused", max_retries=0) as client:
            agent = agents.Agent(name="a", instructions="You make files.",
                                 model=model_class(model="m", openai_client=client),
                                 tools=[agents.function_tool(self.make_file)])
            if streamed:
                result = agents.Runner.run_streamed(agent, "Make made.txt.")
                async for _ in result.stream_events():
                    pass
            else:
                result = await agents.Runner.run(agent, "Make made.txt.")
        self.assert_done(result.final_output)

    def test_openai_agents_responses(self):
        asyncio.run(self.run_agents(agents.OpenAIResponsesModel, streamed=False))

    def test_openai_agents_responses_streamed(self):
        asyncio.run(self.run_agents(agents.OpenAIResponsesModel, streamed=True))

    def test_openai_agents_chat(self):
        asyncio.run(self.run_agents(agents.OpenAIChatCompletionsModel, streamed=False))

    def test_openai_agents_chat_streamed(self):
        asyncio.run(self.run_agents(agents.OpenAIChatCompletionsModel, streamed=True))

    async def run_pydantic(self, client, model_of):
        async with client:
            agent = pydantic_ai.Agent(model_of(client), instructions="You make files.", tools=[self.make_file])
            result = await agent.run("Make made.txt.")
        self.assert_done(result.output)

    def test_pydantic_ai_chat(self):
        client = AsyncOpenAI(base_url=self.server.url + "/v1", api_key="unused", max_retries=0)
        asyncio.run(self.run_pydantic(client, lambda client: OpenAIChatModel(
            "m", provider=OpenAIProvider(openai_client=client))))

    def test_pydantic_ai_responses(self):
        client = AsyncOpenAI(base_url=self.server.url + "/v1", api_key="unused", max_retries=0)
        asyncio.run(self.run_pydantic(client, lambda client: OpenAIResponsesModel(
            "m", provider=OpenAIProvider(openai_client=client))))

    def test_pydantic_ai_messages(self):
        client = AsyncAnthropic(base_url=self.server.url, api_key="unused", max_retries=0)
        asyncio.run(self.run_pydantic(client, lambda client: AnthropicModel(
            "m", provider=AnthropicProvider(anthropic_client=client))))


if __name__ == "__main__":
    unittest.main()
