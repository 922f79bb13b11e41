"""The limit: aiohttp and msgspec, and only the work needed to read the answer."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from typing import Any

import aiohttp
import msgspec
import translation

#: A whole call, without an index.
NEW = -1
HISTORY = [{"role": "user", "content": "Tell me a long story."}]
_PATHS = {
    "openai-chat": "/chat/completions",
    "openai": "/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/{model}:streamGenerateContent?alt=sse",
}
_TEXTS: dict[str, Callable[[Any], str]] = {
    "openai-chat": lambda event: event["choices"][0]["delta"].get("content") or "" if event["choices"] else "",
    "openai": lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
    "anthropic": lambda event: event["delta"].get("text", "") if event["type"] == "content_block_delta" else "",
    "gemini": lambda event: event["candidates"][0]["content"]["parts"][0]["text"],
}  # fmt: skip
_WHOLE: dict[str, Callable[[Any], str]] = {
    "openai-chat": lambda body: body["choices"][0]["message"]["content"],
    "openai": lambda body: body["output"][0]["content"][0]["text"],
    "anthropic": lambda body: body["content"][0]["text"],
    "gemini": lambda body: body["candidates"][0]["content"]["parts"][0]["text"],
}


class Contender:
    """Bytes in, text out; no error handling, no types."""

    providers = tuple(_PATHS)

    def __init__(self, provider: str, base: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._url = base + _PATHS[provider].format(model=model)
        self._blank = b"\r\n\r\n" if provider == "gemini" else b"\n\n"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={
                "Content-Type": "application/json",
                "Authorization": "Bearer none",
                "anthropic-version": "2023-06-01",
            },
        )

    def _body(self) -> bytes:
        if self._provider == "gemini":
            return msgspec.json.encode({"contents": [{"role": "user", "parts": [{"text": "Tell me a long story."}]}]})  # fmt: skip
        key = "input" if self._provider == "openai" else "messages"
        body = {"model": self._model, key: HISTORY, "stream": True}
        return msgspec.json.encode(body | ({"max_tokens": 4096} if self._provider == "anthropic" else {}))  # fmt: skip

    async def _events(self) -> AsyncGenerator[Any]:
        decode, blank, rest = msgspec.json.decode, self._blank, b""
        async with self._session.post(self._url, data=self._body()) as response:
            async for data in response.content.iter_any():
                *whole, rest = (rest + data).split(blank)
                for frame in whole:
                    text = frame[frame.index(b"data: ") + 6 :]
                    if text != b"[DONE]":
                        yield decode(text)

    async def text(self) -> AsyncGenerator[str]:
        pick, decode, blank, rest = _TEXTS[self._provider], msgspec.json.decode, self._blank, b""
        async with self._session.post(self._url, data=self._body()) as response:
            async for data in response.content.iter_any():
                *whole, rest = (rest + data).split(blank)
                for frame in whole:
                    text = frame[frame.index(b"data: ") + 6 :]
                    if text != b"[DONE]" and (piece := pick(decode(text))):
                        yield piece

    async def calls(self) -> list[tuple[str, Any]]:
        names: dict[int, str] = {}
        pieces: dict[int, list[str]] = {}
        read = _FRAGMENTS[self._provider]
        async for event in self._events():
            for position, name, piece in read(event):
                at = len(names) if position == NEW else position
                if name:
                    names[at] = name
                pieces.setdefault(at, []).append(piece)
        return [(names[at], msgspec.json.decode("".join(pieces[at]))) for at in names]

    def translate(self, history: list[Any]) -> Any:
        if self._provider == "gemini":
            return {"contents": translation.gemini(history)[1]}
        if self._provider == "anthropic":
            messages = translation.anthropic(history)[1]
            return {"model": self._model, "max_tokens": 4096, "messages": messages}
        if self._provider == "openai":
            return {"model": self._model, "input": translation.responses(history)}
        return {"model": self._model, "messages": translation.chat(history)}

    async def ask(self, native: Any, tools: list[Any]) -> str:
        del tools
        url = self._url.replace("streamGenerateContent?alt=sse", "generateContent")
        async with self._session.post(url, data=msgspec.json.encode(native)) as response:
            return _WHOLE[self._provider](msgspec.json.decode(await response.read()))

    async def append(self, file: str, count: int) -> int:
        connection = sqlite3.connect(file, isolation_level=None)
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE t(a TEXT)"):  # fmt: skip
            connection.execute(statement)
        for number in range(count):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO t VALUES (?)", (f"message {number} {'word ' * 60}",))
            connection.execute("COMMIT")
        (found,) = connection.execute("SELECT count(*) FROM t").fetchone()
        connection.close()
        return found

    async def agent(self, tool: str, seconds: float) -> str:
        """Read whole replies, and run all calls of a turn concurrently."""
        schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
        offered = {"name": tool, "description": "Do as told.", "inputSchema": schema}
        question = [{"role": "user", "content": "Tell me a long story."}]
        body = self.translate(question)
        url, key, declare, play = self._url, "messages", translation.chat_tool, _chat_round
        if self._provider == "anthropic":
            declare, play = translation.anthropic_tool, _claude_round
        if self._provider == "gemini":
            url = self._url.replace("streamGenerateContent?alt=sse", "generateContent")
            key, declare, play = "contents", translation.gemini_tool, _gemini_round
        tools: Any = [declare(offered)]
        body["tools"] = [{"functionDeclarations": tools}] if key == "contents" else tools
        while True:
            async with self._session.post(url, data=msgspec.json.encode(body)) as response:
                reply = msgspec.json.decode(await response.read())
            done = await play(reply, body[key], seconds)
            if done:
                return done


async def _gemini_round(reply: Any, contents: list[Any], seconds: float) -> str:
    content = reply["candidates"][0]["content"]
    calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    if not calls:
        return content["parts"][0]["text"]
    await asyncio.gather(*(asyncio.sleep(seconds) for _ in calls))
    responses = [
        {"functionResponse": {"id": call.get("id"), "name": call["name"], "response": {"result": call["args"]["number"]}}}
        for call in calls
    ]  # fmt: skip
    contents += [content, {"role": "user", "parts": responses}]
    return ""


async def _chat_round(reply: Any, messages: list[Any], seconds: float) -> str:
    message = reply["choices"][0]["message"]
    calls = message.get("tool_calls")
    if not calls:
        return message["content"]
    await asyncio.gather(*(asyncio.sleep(seconds) for _ in calls))
    messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    for call in calls:
        number = msgspec.json.decode(call["function"]["arguments"])["number"]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(number)})
    return ""


async def _claude_round(reply: Any, messages: list[Any], seconds: float) -> str:
    calls = [block for block in reply["content"] if block["type"] == "tool_use"]
    if not calls:
        return reply["content"][0]["text"]
    await asyncio.gather(*(asyncio.sleep(seconds) for _ in calls))
    messages.append({"role": "assistant", "content": reply["content"]})
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": str(call["input"]["number"])} for call in calls]  # fmt: skip
    messages.append({"role": "user", "content": results})
    return ""


def _chat_fragments(event: Any) -> list[tuple[int, str, str]]:
    found = event["choices"][0]["delta"].get("tool_calls") or [] if event["choices"] else []
    return [(one["index"], one["function"].get("name", ""), one["function"]["arguments"]) for one in found]  # fmt: skip


def _responses_fragments(event: Any) -> list[tuple[int, str, str]]:
    kind = event["type"]
    if kind == "response.output_item.added" and event["item"]["type"] == "function_call":
        return [(event["output_index"], event["item"]["name"], "")]
    if kind == "response.function_call_arguments.delta":
        return [(event["output_index"], "", event["delta"])]
    return []


def _claude_fragments(event: Any) -> list[tuple[int, str, str]]:
    if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
        return [(event["index"], event["content_block"]["name"], "")]
    if event["type"] == "content_block_delta" and "partial_json" in event["delta"]:
        return [(event["index"], "", event["delta"]["partial_json"])]
    return []


def _gemini_fragments(event: Any) -> list[tuple[int, str, str]]:
    parts = event["candidates"][0]["content"].get("parts", [])
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return [(NEW, call["name"], msgspec.json.encode(call["args"]).decode()) for call in calls]


_FRAGMENTS = {
    "gemini": _gemini_fragments,
    "openai-chat": _chat_fragments,
    "openai": _responses_fragments,
    "anthropic": _claude_fragments,
}
