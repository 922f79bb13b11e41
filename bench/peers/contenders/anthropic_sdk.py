"""Anthropic's SDK: raw streams, assembled by hand, which is its cheapest way; tools with its ``tool_runner``."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import translation

HISTORY = [{"role": "user", "content": "Tell me a long story."}]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip


class Contender:
    providers = ("anthropic",)

    def __init__(self, provider: str, base: str, model: str) -> None:
        del provider
        self._settings = {"model": model, "max_tokens": 4096}
        self._client = anthropic.AsyncAnthropic(api_key="none", base_url=base, max_retries=0)

    async def text(self) -> AsyncGenerator[str]:
        stream = await self._client.messages.create(messages=HISTORY, stream=True, **self._settings)
        async for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                yield event.delta.text

    async def calls(self) -> list[tuple[str, Any]]:
        names: dict[int, str] = {}
        pieces: dict[int, list[str]] = {}
        tools = [translation.anthropic_tool(WRITE)]
        stream = await self._client.messages.create(
            messages=HISTORY, tools=tools, stream=True, **self._settings
        )
        async for event in stream:
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                names[event.index] = event.content_block.name
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                pieces.setdefault(event.index, []).append(event.delta.partial_json)
        return [(names[at], json.loads("".join(pieces[at]))) for at in names]

    def translate(self, history: list[Any]) -> Any:
        return translation.anthropic(history)

    async def ask(self, native: Any, tools: list[Any]) -> str:
        system, messages = native
        offered: dict[str, Any] = (
            {"tools": [translation.anthropic_tool(tool) for tool in tools]} if tools else {}
        )
        if system:
            offered["system"] = system
        reply = await self._client.messages.create(messages=messages, **offered, **self._settings)
        return "".join(block.text for block in reply.content if block.type == "text")

    async def agent(self, tool: str, seconds: float) -> str:
        async def run(number: int) -> str:
            """Do as told."""
            await asyncio.sleep(seconds)
            return str(number)

        made = anthropic.beta_async_tool(run, name=tool)
        # Threads stored by the server are a separate beta, which the simulator does not support.
        runner = self._client.beta.messages.tool_runner(
            messages=HISTORY, tools=[made], thread=False, **self._settings
        )
        reply = await runner.until_done()
        return "".join(block.text for block in reply.content if block.type == "text")
