"""Anthropic's SDK with its ``messages.stream`` helper, which accumulates the message, as its documentation advises."""

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
        async with self._client.messages.stream(messages=HISTORY, **self._settings) as stream:
            async for text in stream.text_stream:
                yield text

    async def calls(self) -> list[tuple[str, Any]]:
        tools = [translation.anthropic_tool(WRITE)]
        async with self._client.messages.stream(
            messages=HISTORY, tools=tools, **self._settings
        ) as stream:
            message = await stream.get_final_message()
        return [(block.name, block.input) for block in message.content if block.type == "tool_use"]
