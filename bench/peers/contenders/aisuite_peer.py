"""aisuite: every provider by messages of Chat Completions; tools by ``max_turns``."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import aisuite
import translation

HISTORY = [{"role": "user", "content": "Tell me a long story."}]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip
_NAMES = {"openai-chat": "openai", "anthropic": "anthropic", "gemini": "gemini"}


class Contender:
    providers = tuple(_NAMES)

    def __init__(self, provider: str, base: str, model: str) -> None:
        name = _NAMES[provider]
        config: dict[str, Any] = {"api_key": "none", "base_url": base, "max_retries": 0}
        if provider == "gemini":
            config = {"api_key": "none", "http_options": {"base_url": base}}
        self._completions = aisuite.Client({name: config}).chat.completions
        self._model = f"{name}:{model}"

    async def text(self) -> AsyncGenerator[str]:
        stream = await self._completions.acreate(
            model=self._model, messages=[*HISTORY], stream=True
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    async def calls(self) -> list[tuple[str, Any]]:
        names: dict[int, str] = {}
        pieces: dict[int, list[str]] = {}
        tools = [translation.chat_tool(WRITE)]
        stream = await self._completions.acreate(
            model=self._model, messages=[*HISTORY], tools=tools, stream=True
        )
        async for chunk in stream:
            for call in (chunk.choices and chunk.choices[0].delta.tool_calls) or []:
                if call.function.name:
                    names[call.index] = call.function.name
                pieces.setdefault(call.index, []).append(call.function.arguments or "")
        return [(names[at], json.loads("".join(pieces[at]))) for at in names]

    def translate(self, history: list[Any]) -> Any:
        return translation.chat(history)

    async def ask(self, native: Any, tools: list[Any]) -> str:
        offered = {"tools": [translation.chat_tool(tool) for tool in tools]} if tools else {}
        reply = await self._completions.acreate(model=self._model, messages=[*native], **offered)
        return reply.choices[0].message.content

    async def agent(self, tool: str, seconds: float) -> str:
        async def run(number: int) -> int:
            """Do as told."""
            await asyncio.sleep(seconds)
            return number

        run.__name__ = tool
        reply = await self._completions.acreate(
            model=self._model, messages=[*HISTORY], tools=[run], max_turns=100
        )
        return reply.choices[0].message.content
