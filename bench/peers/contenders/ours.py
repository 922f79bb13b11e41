"""This library."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from multi_llm_chat import ToolRegistry, create_provider, execute_with_tools
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.events import TextDelta, ToolCallEnd
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.protocol.retry import ONCE
from multi_llm_chat.store import append, create, open_store, path

HISTORY = [{"role": "user", "content": "Tell me a long story."}]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip
VERSIONS = {"anthropic": "/v1", "gemini": "/v1beta"}


class Contender:
    """This library, through ``create_provider``."""

    providers = ("openai-chat", "openai", "anthropic", "gemini")

    def __init__(self, provider: str, base: str, model: str) -> None:
        base += VERSIONS.get(provider, "")
        self._provider = create_provider(provider, model=model, api_key="none", base_url=base, retry=ONCE)  # fmt: skip

    async def text(self) -> AsyncGenerator[str]:
        async with self._provider.astream(HISTORY) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    yield event.text

    async def calls(self) -> list[tuple[str, Any]]:
        async with self._provider.astream(HISTORY, tools=[WRITE]) as stream:
            events = [event async for event in stream]
        ended = [event.call for event in events if isinstance(event, ToolCallEnd)]
        return [(call.name, call.arguments) for call in ended]

    def translate(self, history: list[Any]) -> Any:
        return read_history(history)

    async def ask(self, native: Any, tools: list[Any]) -> str:
        reply = await self._provider.acomplete(native, tools=tools)
        return reply.text

    async def agent(self, tool: str, seconds: float) -> str:
        async def run(number: int) -> int:
            """Do as told."""
            await asyncio.sleep(seconds)
            return number

        tools = ToolRegistry()
        tools.tool(name=tool)(run)
        limits = LoopLimits(iterations=100)
        result = await execute_with_tools(self._provider, HISTORY, tools, limits=limits)
        return result.final_text

    async def chat(self, questions: list[str]) -> str:
        said: list[str] = []
        async with ChatService([self._provider], store=":memory:") as service:
            for question in questions:
                events = service.process_message(question)
                said = [event.text async for event in events if isinstance(event, TextDelta)]
        return "".join(said)

    async def append(self, file: str, count: int) -> int:
        with open_store(file) as store:
            name = store.run(create, "measured").id
            for number in range(count):
                store.run(append, name, [Turn("user", (Text(f"message {number} {'word ' * 60}"),))])
            return len(store.run(path, name))
