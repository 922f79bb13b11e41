"""OpenAI's SDK: raw streams, assembled by hand, which is its cheapest way."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import openai
import translation

HISTORY = [{"role": "user", "content": "Tell me a long story."}]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip


class Contender:
    providers = ("openai-chat", "openai")

    def __init__(self, provider: str, base: str, model: str) -> None:
        self._chat = provider == "openai-chat"
        self._model = model
        self._client = openai.AsyncOpenAI(api_key="none", base_url=base, max_retries=0)

    async def text(self) -> AsyncGenerator[str]:
        if self._chat:
            stream = await self._client.chat.completions.create(
                model=self._model, messages=HISTORY, stream=True
            )
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    yield chunk.choices[0].delta.content
            return
        stream = await self._client.responses.create(model=self._model, input=HISTORY, stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                yield event.delta

    async def calls(self) -> list[tuple[str, Any]]:
        names: dict[int, str] = {}
        pieces: dict[int, list[str]] = {}
        if self._chat:
            tools = [translation.chat_tool(WRITE)]
            stream = await self._client.chat.completions.create(
                model=self._model, messages=HISTORY, tools=tools, stream=True
            )
            async for chunk in stream:
                for call in (chunk.choices and chunk.choices[0].delta.tool_calls) or []:
                    if call.function.name:
                        names[call.index] = call.function.name
                    pieces.setdefault(call.index, []).append(call.function.arguments or "")
        else:
            tools = [translation.responses_tool(WRITE)]
            stream = await self._client.responses.create(
                model=self._model, input=HISTORY, tools=tools, stream=True
            )
            async for event in stream:
                if (
                    event.type == "response.output_item.added"
                    and event.item.type == "function_call"
                ):
                    names[event.output_index] = event.item.name
                elif event.type == "response.function_call_arguments.delta":
                    pieces.setdefault(event.output_index, []).append(event.delta)
        return [(names[at], json.loads("".join(pieces[at]))) for at in names]

    def translate(self, history: list[Any]) -> Any:
        return translation.chat(history) if self._chat else translation.responses(history)

    async def ask(self, native: Any, tools: list[Any]) -> str:
        if self._chat:
            offered = {"tools": [translation.chat_tool(tool) for tool in tools]} if tools else {}
            reply = await self._client.chat.completions.create(
                model=self._model, messages=native, **offered
            )
            return reply.choices[0].message.content
        offered = {"tools": [translation.responses_tool(tool) for tool in tools]} if tools else {}
        reply = await self._client.responses.create(model=self._model, input=native, **offered)
        return reply.output_text
