"""any-llm: every provider by messages of Chat Completions; OpenAI's Responses by ``aresponses``."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import translation
from any_llm import AnyLLM

HISTORY = [{"role": "user", "content": "Tell me a long story."}]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip
_NAMES = {"openai-chat": "openai", "openai": "openai", "anthropic": "anthropic", "gemini": "gemini"}


class Contender:
    providers = tuple(_NAMES)

    def __init__(self, provider: str, base: str, model: str) -> None:
        self._responses = provider == "openai"
        self._model = model
        settings: dict[str, Any] = {"max_retries": 0}
        if provider == "gemini":
            settings = {"http_options": {"base_url": base}}
        self._llm = AnyLLM.create(_NAMES[provider], api_key="none", api_base=base, **settings)
        self._limit = {"max_tokens": 4096} if provider == "anthropic" else {}

    async def text(self) -> AsyncGenerator[str]:
        if self._responses:
            async for event in await self._llm.aresponses(
                model=self._model, input_data=HISTORY, stream=True
            ):
                if event.type == "response.output_text.delta":
                    yield event.delta
            return
        stream = await self._llm.acompletion(
            model=self._model, messages=HISTORY, stream=True, **self._limit
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    async def calls(self) -> list[tuple[str, Any]]:
        names: dict[int, str] = {}
        pieces: dict[int, list[str]] = {}
        if self._responses:
            tools = [translation.responses_tool(WRITE)]
            stream = await self._llm.aresponses(
                model=self._model, input_data=HISTORY, tools=tools, stream=True
            )
            async for event in stream:
                if (
                    event.type == "response.output_item.added"
                    and event.item.type == "function_call"
                ):
                    names[event.output_index] = event.item.name
                elif event.type == "response.function_call_arguments.delta":
                    pieces.setdefault(event.output_index, []).append(event.delta)
        else:
            tools = [translation.chat_tool(WRITE)]
            stream = await self._llm.acompletion(
                model=self._model, messages=HISTORY, tools=tools, stream=True, **self._limit
            )
            async for chunk in stream:
                for call in (chunk.choices and chunk.choices[0].delta.tool_calls) or []:
                    if call.function.name:
                        names[call.index] = call.function.name
                    pieces.setdefault(call.index, []).append(call.function.arguments or "")
        return [(names[at], json.loads("".join(pieces[at]))) for at in names]

    def translate(self, history: list[Any]) -> Any:
        return translation.responses(history) if self._responses else translation.chat(history)

    async def ask(self, native: Any, tools: list[Any]) -> str:
        if self._responses:
            offered = (
                {"tools": [translation.responses_tool(tool) for tool in tools]} if tools else {}
            )
            reply = await self._llm.aresponses(model=self._model, input_data=native, **offered)
            return reply.output_text
        offered = {"tools": [translation.chat_tool(tool) for tool in tools]} if tools else {}
        reply = await self._llm.acompletion(
            model=self._model, messages=native, **offered, **self._limit
        )
        return reply.choices[0].message.content
