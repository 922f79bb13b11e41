"""litellm: every provider by messages of Chat Completions; OpenAI's Responses by ``aresponses``."""

import json
import os
from collections.abc import AsyncGenerator
from typing import Any

import translation

os.environ.setdefault(
    "LITELLM_LOCAL_MODEL_COST_MAP", "True"
)  # otherwise the import makes a network request
import litellm

litellm.suppress_debug_info = True
HISTORY = [{"role": "user", "content": "Tell me a long story."}]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip
_PREFIXES = {
    "openai-chat": "openai",
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


class Contender:
    providers = tuple(_PREFIXES)

    def __init__(self, provider: str, base: str, model: str) -> None:
        self._responses = provider == "openai"
        base += "/v1/messages" if provider == "anthropic" else ""
        base += "/v1beta" if provider == "gemini" else ""
        self._settings = {
            "model": f"{_PREFIXES[provider]}/{model}",
            "api_base": base,
            "api_key": "none",
            "num_retries": 0,
            "max_retries": 0,
        }

    async def text(self) -> AsyncGenerator[str]:
        if self._responses:
            stream = await litellm.aresponses(input=HISTORY, stream=True, **self._settings)
            async for event in stream:
                if event.type == "response.output_text.delta":
                    yield event.delta
            return
        stream = await litellm.acompletion(messages=HISTORY, stream=True, **self._settings)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    async def calls(self) -> list[tuple[str, Any]]:
        names: dict[int, str] = {}
        pieces: dict[int, list[str]] = {}
        if self._responses:
            tools = [translation.responses_tool(WRITE)]
            stream = await litellm.aresponses(
                input=HISTORY, tools=tools, stream=True, **self._settings
            )
            async for event in stream:
                if (
                    event.type == "response.output_item.added"
                    and _of(event.item, "type") == "function_call"
                ):
                    names[event.output_index] = _of(event.item, "name")
                elif event.type == "response.function_call_arguments.delta":
                    pieces.setdefault(event.output_index, []).append(event.delta)
        else:
            tools = [translation.chat_tool(WRITE)]
            stream = await litellm.acompletion(
                messages=HISTORY, tools=tools, stream=True, **self._settings
            )
            async for chunk in stream:
                for call in (chunk.choices and chunk.choices[0].delta.tool_calls) or []:
                    if call.function.name:
                        names[call.index] = call.function.name
                    pieces.setdefault(call.index, []).append(call.function.arguments or "")
        return [(names[at], json.loads("".join(pieces[at]))) for at in names]

    def translate(self, history: list[Any]) -> Any:
        return translation.responses(history) if self._responses else _with_thinking(history)

    async def ask(self, native: Any, tools: list[Any]) -> str:
        if self._responses:
            offered = (
                {"tools": [translation.responses_tool(tool) for tool in tools]} if tools else {}
            )
            reply = await litellm.aresponses(input=native, **offered, **self._settings)
            return reply.output_text
        offered = {"tools": [translation.chat_tool(tool) for tool in tools]} if tools else {}
        reply = await litellm.acompletion(messages=native, **offered, **self._settings)
        return reply.choices[0].message.content

    async def chat(self, questions: list[str]) -> str:
        messages: list[Any] = []
        for question in questions:
            messages.append({"role": "user", "content": question})
            reply = await litellm.acompletion(messages=messages, **self._settings)
            messages.append(reply.choices[0].message.model_dump(exclude_none=True))
        return messages[-1]["content"]


def _of(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, dict) else getattr(item, name)


def _with_thinking(history: list[Any]) -> list[Any]:
    """Return chat messages; litellm has its own key for signed thinking."""
    made: list[Any] = []
    for turn in history:
        messages = translation.chat([turn])
        blocks = [
            {
                "type": "thinking",
                "thinking": part["content"],
                "signature": part["opaque"]["signature"],
            }
            for part in translation.parts_of(turn)
            if part["type"] == "thinking" and "signature" in part.get("opaque", {})
        ]
        if blocks and messages and messages[-1]["role"] == "assistant":
            messages[-1]["thinking_blocks"] = blocks
        made += messages
    return made
