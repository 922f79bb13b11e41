"""What a Chat Completions message holds besides words and function calls: sound, steps of the server, further choices."""

import base64
import binascii
from typing import Any

from multi_llm_chat.history.json_values import as_object, as_text, compact_json
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.openai_chat.chunks import ChunkChoice, Delta


class OtherChoice:
    """A further choice (``n`` above 1), put together like the first."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._words: list[str] = []
        self._calls: list[JsonObject] = []
        self._finish = ""

    def add(self, choice: ChunkChoice) -> None:
        """Take a piece of it."""
        delta = choice.delta or choice.message or Delta()
        if isinstance(delta.content, str):
            self._words.append(delta.content)
        elif delta.content:
            self._words.append(compact_json(delta.content))
        if delta.refusal:
            self._words.append(delta.refusal)
        for position, call in enumerate(delta.tool_calls or ()):
            place = position if call.index is None else call.index
            while len(self._calls) <= place:
                self._calls.append({"name": "", "arguments": ""})
            if call.function is not None:
                made = self._calls[place]
                made["name"] = call.function.name or made["name"]
                given = call.function.arguments
                made["arguments"] += given if isinstance(given, str) else compact_json(given or {})
        self._finish = choice.finish_reason or self._finish

    def text(self) -> str:
        """What it says."""
        calls = [f"called {call['name']} {call['arguments']}" for call in self._calls]
        words = "".join(self._words)
        return "another answer: " + "; ".join([*([words] if words else []), *calls])

    def raw(self) -> JsonObject:
        """The choice as the server gives it."""
        message: JsonObject = {"role": "assistant", "content": "".join(self._words)}
        if self._calls:
            message["tool_calls"] = [{"type": "function", "function": call} for call in self._calls]
        return {"index": self._index, "message": message, "finish_reason": self._finish}


def executed_text(steps: list[JsonObject]) -> str:
    """What the server's own tools did: arguments and output of each step."""
    lines: list[str] = []
    for step in steps:
        name = as_text(step.get("name")) or as_text(step.get("type")) or "a tool"
        lines.append(f"ran {name}: {as_text(step.get('arguments'))}".rstrip())
        output: Any = step.get("output") or step.get("search_results") or step.get("code_results")
        if output:
            lines.append(output if isinstance(output, str) else compact_json(output))
    return "\n".join(lines)


def join_base64(pieces: list[str]) -> str:
    """The data of pieces that were encoded one by one."""
    if len(pieces) == 1:
        return pieces[0]
    content = b""
    try:
        content = b"".join(base64.b64decode(piece) for piece in pieces)
    except (binascii.Error, ValueError):
        return "".join(pieces)
    return base64.b64encode(content).decode()


def spoken(audio: object) -> JsonObject:
    """The id of a spoken answer, as it is sent back."""
    found = as_object(audio) or {}
    return {"id": found["id"]} if as_text(found.get("id")) else {}
