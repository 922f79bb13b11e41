"""What a request says, whatever its dialect: enough for a rule to decide what to answer.

Rules:
1. Anything may be missing or of another type: it then counts as nothing.
2. ``results`` are the tool results after the last words of the user, in order.
3. ``question`` is the last text of the user; ``all_results`` are those of the whole conversation.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, members, objects


class OfferedTool(Struct, frozen=True):
    """A tool that the request offers."""

    name: str
    description: str = ""
    schema: JsonObject = {}


class ReceivedConversation(Struct, frozen=True):
    """The gist of a request."""

    system: str = ""
    question: str = ""
    tools: tuple[OfferedTool, ...] = ()
    results: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    all_results: tuple[str, ...] = ()


class _Message(Struct, frozen=True):
    """A message as words of the user, words of the model, or results."""

    user: str = ""
    model: str = ""
    system: str = ""
    results: tuple[str, ...] = ()


def read_conversation(dialect: str, body: JsonObject) -> ReceivedConversation:
    """Read a request's body."""
    read_messages, read_system, read_tools = _READERS[dialect]
    system, question = [read_system(body)], ""
    results: list[str] = []
    said: list[str] = []
    all_results: list[str] = []
    for message in read_messages(body):
        if message.user:
            question = message.user
            results.clear()
        results += message.results
        all_results += message.results
        system.append(message.system)
        said += [message.model] if message.model else []
    system_prompt = "\n".join(filter(None, system))
    return ReceivedConversation(
        system_prompt,
        question,
        tuple(read_tools(body)),
        tuple(results),
        tuple(said),
        tuple(all_results),
    )


def _text(content: object) -> str:
    """The words of a content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = as_array(content) or []
    words = [part if isinstance(part, str) else members(part).get("text") for part in parts]
    return "\n".join(word for word in words if isinstance(word, str) and word)


def _as_text(value: object) -> str:
    """A result as words; what is not text is shown as JSON."""
    text = _text(value)
    if text or value is None or value in ("", []):
        return text
    return msgspec.json.encode(value).decode()


def _chat_messages(body: JsonObject) -> list[_Message]:
    read: list[_Message] = []
    for message in objects(body.get("messages")):
        text = _text(message.get("content"))
        match message.get("role"):
            case "user":
                read.append(_Message(user=text))
            case "assistant":
                read.append(_Message(model=text))
            case "tool":
                read.append(_Message(results=(text,)))
            case _:
                read.append(_Message(system=text))
    return read


def _anthropic_messages(body: JsonObject) -> list[_Message]:
    read: list[_Message] = []
    for message in objects(body.get("messages")):
        content = message.get("content")
        if message.get("role") == "assistant":
            read.append(_Message(model=_text(content)))
            continue
        results = [
            _as_text(block.get("content"))
            for block in objects(content)
            if block.get("type") == "tool_result"
        ]
        # Words after results come as a message of their own: they are the newer ones.
        read.append(_Message(results=tuple(results)))
        read.append(_Message(user=_text(content)))
    return read


def _responses_messages(body: JsonObject) -> list[_Message]:
    if isinstance(body.get("input"), str):
        return [_Message(user=body["input"])]
    read: list[_Message] = []
    for item in objects(body.get("input")):
        text = _text(item.get("content"))
        match (item.get("type"), item.get("role")):
            case ("function_call_output", _):
                read.append(_Message(results=(_as_text(item.get("output")),)))
            case (_, "user"):
                read.append(_Message(user=text))
            case (_, "assistant"):
                read.append(_Message(model=text))
            case (_, "system" | "developer"):
                read.append(_Message(system=text))
            case _:
                pass
    return read


def _gemini_messages(body: JsonObject) -> list[_Message]:
    read: list[_Message] = []
    for content in objects(body.get("contents")):
        parts = objects(content.get("parts"))
        text = "\n".join(str(part["text"]) for part in parts if part.get("text"))
        if content.get("role") == "model":
            read.append(_Message(model=text))
            continue
        answers = [
            members(part["functionResponse"]) for part in parts if "functionResponse" in part
        ]
        read.append(_Message(results=tuple(_gemini_result(answer) for answer in answers)))
        read.append(_Message(user=text))
    return read


def _gemini_result(answer: JsonObject) -> str:
    response = members(answer.get("response"))
    for key in ("result", "output", "error"):
        if key in response:
            return _as_text(response[key])
    return _as_text(response)


def _function_tools(body: JsonObject) -> list[OfferedTool]:
    return [
        _tool(members(tool.get("function", tool)), "parameters")
        for tool in objects(body.get("tools"))
    ]


def _anthropic_tools(body: JsonObject) -> list[OfferedTool]:
    return [_tool(tool, "input_schema") for tool in objects(body.get("tools"))]


def _gemini_tools(body: JsonObject) -> list[OfferedTool]:
    declarations = [
        declaration
        for tool in objects(body.get("tools"))
        for declaration in objects(tool.get("functionDeclarations"))
    ]
    return [_tool(found, "parametersJsonSchema", "parameters") for found in declarations]


def _tool(declared: JsonObject, *keys: str) -> OfferedTool:
    schemas = [as_object(declared.get(key)) for key in keys]
    schema = next((found for found in schemas if found), None)
    name, description = _string(declared.get("name")), _string(declared.get("description"))
    return OfferedTool(name, description, schema or {})


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _no_system(_body: JsonObject) -> str:
    return ""


_READERS: dict[
    str,
    tuple[
        Callable[[JsonObject], list[_Message]],
        Callable[[JsonObject], str],
        Callable[[JsonObject], list[OfferedTool]],
    ],
] = {
    "openai_chat": (_chat_messages, _no_system, _function_tools),
    "openai_responses": (
        _responses_messages,
        lambda body: _string(body.get("instructions")),
        _function_tools,
    ),
    "anthropic": (_anthropic_messages, lambda body: _text(body.get("system")), _anthropic_tools),
    "gemini": (
        _gemini_messages,
        lambda body: _text(members(body.get("systemInstruction")).get("parts")),
        _gemini_tools,
    ),
}
