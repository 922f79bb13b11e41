"""Google's SDK."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import translation
from google import genai
from google.genai import types

HISTORY = [{"role": "user", "parts": [{"text": "Tell me a long story."}]}]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip


class Contender:
    providers = ("gemini",)

    def __init__(self, provider: str, base: str, model: str) -> None:
        del provider
        self._model = model
        options = types.HttpOptions(base_url=base)
        # Keep a reference: a client closes its connections when it is garbage-collected.
        self._client = genai.Client(api_key="none", http_options=options)
        self._models = self._client.aio.models

    async def text(self) -> AsyncGenerator[str]:
        async for chunk in await self._models.generate_content_stream(
            model=self._model, contents=HISTORY
        ):
            if chunk.text:
                yield chunk.text

    async def calls(self) -> list[tuple[str, Any]]:
        config = {"tools": [{"function_declarations": [_snake(WRITE)]}]}
        found: list[tuple[str, Any]] = []
        stream = await self._models.generate_content_stream(
            model=self._model, contents=HISTORY, config=config
        )
        async for chunk in stream:
            found += [(call.name, call.args) for call in chunk.function_calls or []]
        return found

    def translate(self, history: list[Any]) -> Any:
        return translation.gemini(history)

    async def ask(self, native: Any, tools: list[Any]) -> str:
        system, contents = native
        config: dict[str, Any] = {}
        if system:
            config["system_instruction"] = system
        if tools:
            config["tools"] = [{"function_declarations": [_snake(tool) for tool in tools]}]
        reply = await self._models.generate_content(
            model=self._model, contents=contents, config=config
        )
        return reply.text

    async def agent(self, tool: str, seconds: float) -> str:
        async def run(number: int) -> dict[str, Any]:
            """Do as told."""
            await asyncio.sleep(seconds)
            return {"result": number}

        run.__name__ = tool
        calling = {"maximum_remote_calls": 100}
        reply = await self._models.generate_content(
            model=self._model,
            contents=HISTORY,
            config={"tools": [run], "automatic_function_calling": calling},
        )
        return reply.text


def _snake(tool: Any) -> dict[str, Any]:
    made = translation.gemini_tool(tool)
    return {"name": made["name"], "description": made["description"], "parameters_json_schema": made["parametersJsonSchema"]}  # fmt: skip
