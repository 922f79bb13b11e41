"""openai-agents: its runner, on both of OpenAI's formats."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import openai
import translation
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)

set_tracing_disabled(True)
QUESTION = "Tell me a long story."


class Contender:
    providers = ("openai-chat", "openai")

    def __init__(self, provider: str, base: str, model: str) -> None:
        client = openai.AsyncOpenAI(api_key="none", base_url=base, max_retries=0)
        kind = OpenAIChatCompletionsModel if provider == "openai-chat" else OpenAIResponsesModel
        self._model = kind(model=model, openai_client=client)
        self._config = RunConfig(tracing_disabled=True)

    def _agent(self, *tools: Any, **settings: Any) -> Agent:
        return Agent(name="measured", model=self._model, tools=list(tools), **settings)

    async def text(self) -> AsyncGenerator[str]:
        run = Runner.run_streamed(self._agent(), QUESTION, run_config=self._config)
        async for event in run.stream_events():
            if (
                event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"
            ):
                yield event.data.delta

    async def calls(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []

        async def write(context: Any, arguments: str) -> str:
            del context
            found.append(("write", json.loads(arguments)))
            return "done"

        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        tool = FunctionTool("write", "Write.", schema, write, strict_json_schema=False)
        agent = self._agent(tool, tool_use_behavior="stop_on_first_tool")
        run = Runner.run_streamed(agent, QUESTION, run_config=self._config)
        async for _ in run.stream_events():
            pass
        return found

    def translate(self, history: list[Any]) -> Any:
        return translation.responses(history)

    async def ask(self, native: Any, tools: list[Any]) -> str:
        async def nothing(context: Any, arguments: str) -> str:
            del context, arguments
            return "done"

        made = [
            FunctionTool(
                tool["name"],
                tool.get("description", ""),
                tool["inputSchema"],
                nothing,
                strict_json_schema=False,
            )
            for tool in tools
        ]
        reply = await Runner.run(self._agent(*made), native, run_config=self._config)
        return str(reply.final_output)

    async def agent(self, tool: str, seconds: float) -> str:
        @function_tool(name_override=tool)
        async def run(number: int) -> int:
            """Do as told."""
            await asyncio.sleep(seconds)
            return number

        reply = await Runner.run(self._agent(run), QUESTION, run_config=self._config, max_turns=100)
        return str(reply.final_output)

    async def append(self, file: str, count: int) -> int:
        session = SQLiteSession("measured", file)
        for number in range(count):
            await session.add_items(
                [{"role": "user", "content": f"message {number} {'word ' * 60}"}]
            )
        found = len(await session.get_items())
        session.close()
        return found
