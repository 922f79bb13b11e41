"""LangChain: its chat models, and its agent for tools."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import translation
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

HISTORY = [HumanMessage("Tell me a long story.")]
WRITE = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}  # fmt: skip


class Contender:
    providers = ("openai-chat", "openai", "anthropic", "gemini")

    def __init__(self, provider: str, base: str, model: str) -> None:
        common = {"model": model, "api_key": "none", "base_url": base, "max_retries": 0}
        if provider == "anthropic":
            self._model: Any = ChatAnthropic(max_tokens=4096, **common)
        elif provider == "gemini":
            self._model = ChatGoogleGenerativeAI(**common | {"max_retries": 1})
        else:
            self._model = ChatOpenAI(use_responses_api=provider == "openai", **common)

    async def text(self) -> AsyncGenerator[str]:
        async for chunk in self._model.astream(HISTORY):
            if text := chunk.text:
                yield str(text)

    async def calls(self) -> list[tuple[str, Any]]:
        model = self._model.bind_tools([translation.chat_tool(WRITE)])
        whole: Any = None
        async for chunk in model.astream(HISTORY):
            whole = chunk if whole is None else whole + chunk
        return [(call["name"], call["args"]) for call in whole.tool_calls]

    def translate(self, history: list[Any]) -> Any:
        return [message for turn in history for message in _messages(turn)]

    async def ask(self, native: Any, tools: list[Any]) -> str:
        model = self._model
        if tools:
            model = model.bind_tools([translation.chat_tool(tool) for tool in tools])
        reply = await model.ainvoke(native)
        return str(reply.text)

    async def agent(self, tool: str, seconds: float) -> str:
        from langchain.agents import create_agent  # noqa: PLC0415  it is no part of the chat models

        async def run(number: int) -> int:
            """Do as told."""
            await asyncio.sleep(seconds)
            return number

        made = StructuredTool.from_function(coroutine=run, name=tool, description="Do as told.")
        agent = create_agent(self._model, [made])
        reply = await agent.ainvoke({"messages": HISTORY}, {"recursion_limit": 500})
        return str(reply["messages"][-1].text)

    async def chat(self, questions: list[str]) -> str:
        messages: list[Any] = []
        for question in questions:
            messages.append(HumanMessage(question))
            messages.append(await self._model.ainvoke(messages))
        return str(messages[-1].text)


def _messages(turn: Any) -> list[Any]:
    role, parts = translation.role_of(turn), translation.parts_of(turn)
    made: list[Any] = [
        ToolMessage(
            translation.result_text(part), tool_call_id=part["tool_call_id"], name=part["name"]
        )
        for part in parts
        if part["type"] == "tool_result"
    ]
    others = [part for part in parts if part["type"] != "tool_result"]
    if not others and made:
        return made
    if role == "system":
        return [*made, SystemMessage(translation.texts(others))]
    if role != "assistant":
        return [*made, HumanMessage(_content(others))]
    calls = [part["content"] for part in others if part["type"] == "tool_call"]
    written = [
        {
            "name": call["name"],
            "args": call["arguments"],
            "id": call["tool_call_id"],
            "type": "tool_call",
        }
        for call in calls
        if "raw_arguments" not in call
    ]
    invalid = [
        {
            "name": call["name"],
            "args": call["raw_arguments"],
            "id": call["tool_call_id"],
            "error": None,
            "type": "invalid_tool_call",
        }
        for call in calls
        if "raw_arguments" in call
    ]
    return [*made, AIMessage(_content(others), tool_calls=written, invalid_tool_calls=invalid)]


def _content(parts: list[Any]) -> Any:
    if not any(part["type"] in ("media", "thinking") for part in parts):
        return translation.texts(parts)
    made: list[Any] = []
    for part in parts:
        if part["type"] == "text":
            made.append({"type": "text", "text": part["content"]})
        elif part["type"] == "thinking" and "signature" in part.get("opaque", {}):
            made.append(
                {
                    "type": "thinking",
                    "thinking": part["content"],
                    "signature": part["opaque"]["signature"],
                }
            )
        elif part["type"] == "media":
            kind = "file" if part["mime"] == "application/pdf" else "image"
            block = {"type": kind, "mime_type": part["mime"]}
            named = {"filename": part["name"]} if kind == "file" and "name" in part else {}
            where = {"url": part["url"]} if "url" in part else {"base64": part["data"]}
            made.append(block | where | named)
    return made
