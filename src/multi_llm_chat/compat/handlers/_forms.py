"""The form of a payload and of a whole reply in each dialect: one row per dialect.

It has only what an application's own payload needs; the rest is in the packages of the dialects.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from multi_llm_chat.events import Finish, Usage
from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.values import JsonObject, ToolCall

#: A budget, an effort word, on or off; None if the payload does not set it.
Thinking = int | str | bool | None


class Form(Struct, frozen=True):
    """The form of a payload in one dialect.

    ``tools`` are the keys of the tools and of the tool choice; ``thinking`` is the path to the thinking setting. ``call`` writes a call,
    ``calls`` puts native calls into messages, ``reply`` makes a whole reply of native messages.
    """

    messages: str
    system: str
    tools: tuple[str, ...]
    thinking: tuple[str, ...]
    read_thinking: Callable[[JsonObject], Thinking]
    call: Callable[[ToolCall], JsonObject]
    calls: Callable[[list[Any]], list[JsonObject]]
    reply: Callable[[Sequence[JsonObject], Finish, Usage], JsonObject]


def at(body: JsonObject, path: tuple[str, ...]) -> Any:
    """The value at the path; None if there is none."""
    value: Any = body
    for key in path:
        value = (as_object(value) or {}).get(key)
    return value


def put(body: JsonObject, path: tuple[str, ...], value: Any) -> None:
    """Set the value at the path, in copies of the objects on the way; None removes it."""
    *parents, last = path
    for key in parents:
        body[key] = dict(as_object(body.get(key)) or {})
        body = body[key]
    if value is None:
        body.pop(last, None)
    else:
        body[last] = value


def _first(messages: Sequence[JsonObject], role: str) -> JsonObject:
    empty: JsonObject = {}
    return next((message for message in messages if message.get("role") == role), empty)


def _arguments_text(call: ToolCall) -> str:
    """The arguments as the model wrote them."""
    return call.raw_arguments if call.raw_arguments is not None else compact_json(call.arguments)


# OpenAI Chat Completions.


def _chat_thinking(payload: JsonObject) -> Thinking:
    effort = as_text(payload.get("reasoning_effort"))
    return False if effort == "none" else effort or None


def _chat_call(call: ToolCall) -> JsonObject:
    function = {"name": call.name, "arguments": _arguments_text(call)}
    return {"id": call.tool_call_id, "type": "function", "function": function}


def _chat_reply(messages: Sequence[JsonObject], finish: Finish, usage: Usage) -> JsonObject:
    reply = _first(messages, "assistant")
    message = {"role": "assistant", "content": None} | reply
    choice = {"index": 0, "message": message, "finish_reason": finish.raw or finish.reason}
    return {
        "choices": [choice],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }


# OpenAI Responses.


def _responses_thinking(payload: JsonObject) -> Thinking:
    reasoning = as_object(payload.get("reasoning"))
    if reasoning is None:
        return None
    effort = as_text(reasoning.get("effort"))
    return False if effort == "none" else effort or True


def _responses_call(call: ToolCall) -> JsonObject:
    named = {"type": "function_call", "call_id": call.tool_call_id, "name": call.name}
    return named | {"arguments": _arguments_text(call)}


def _output_item(item: JsonObject) -> JsonObject:
    """An input item in the form of an output item, with text as a list of parts."""
    content = item.get("content")
    if item.get("role") != "assistant" or not isinstance(content, str):
        return item
    text: JsonObject = {"type": "output_text", "text": content, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", "content": [text]}


def _responses_reply(messages: Sequence[JsonObject], finish: Finish, usage: Usage) -> JsonObject:
    output = [_output_item(one) for one in messages if one.get("type") != "function_call_output"]
    status = "incomplete" if finish.reason == "length" else "completed"
    return {"object": "response", "status": status, "output": output, "usage": _tokens(usage)}


# Anthropic Messages.


def _anthropic_thinking(payload: JsonObject) -> Thinking:
    thinking = as_object(payload.get("thinking"))
    if thinking is None:
        return None
    if thinking.get("type") == "disabled":
        return False
    budget = thinking.get("budget_tokens")
    return budget if isinstance(budget, int) and budget > 0 else True


def _anthropic_call(call: ToolCall) -> JsonObject:
    named = {"type": "tool_use", "id": call.tool_call_id, "name": call.name}
    return named | {"input": call.arguments}


def _anthropic_reply(messages: Sequence[JsonObject], finish: Finish, usage: Usage) -> JsonObject:
    reply = _first(messages, "assistant")
    content: Any = reply.get("content", [])
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "type": "message",
        "role": "assistant",
        "content": blocks,
        "stop_reason": finish.raw or finish.reason,
        "usage": _tokens(usage),
    }


def _tokens(usage: Usage) -> JsonObject:
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


# Gemini.


def _gemini_thinking(payload: JsonObject) -> Thinking:
    config = as_object(at(payload, ("generationConfig", "thinkingConfig")))
    if config is None:
        return None
    budget = config.get("thinkingBudget")
    if isinstance(budget, int):
        return True if budget < 0 else budget or False
    return as_text(config.get("thinkingLevel")).lower() or True


def _gemini_call(call: ToolCall) -> JsonObject:
    named = {"id": call.tool_call_id, "name": call.name, "args": call.arguments}
    return {"functionCall": named}


def _gemini_reply(messages: Sequence[JsonObject], finish: Finish, usage: Usage) -> JsonObject:
    reply = _first(messages, "model")
    content = {"role": "model", "parts": as_list(reply.get("parts")) or []}
    return {
        "candidates": [{"index": 0, "content": content, "finishReason": finish.raw or "STOP"}],
        "usageMetadata": {
            "promptTokenCount": usage.input_tokens,
            "candidatesTokenCount": usage.output_tokens,
            "totalTokenCount": usage.input_tokens + usage.output_tokens,
        },
    }


FORMS: Final[dict[str, Form]] = {
    "openai_chat": Form(
        "messages",
        "",
        ("tools", "tool_choice", "parallel_tool_calls"),
        ("reasoning_effort",),
        _chat_thinking,
        _chat_call,
        lambda calls: [{"role": "assistant", "tool_calls": calls}],
        _chat_reply,
    ),
    "openai_responses": Form(
        "input",
        "instructions",
        ("tools", "tool_choice", "parallel_tool_calls"),
        ("reasoning",),
        _responses_thinking,
        _responses_call,
        lambda calls: calls,
        _responses_reply,
    ),
    "anthropic": Form(
        "messages",
        "system",
        ("tools", "tool_choice"),
        ("thinking",),
        _anthropic_thinking,
        _anthropic_call,
        lambda calls: [{"role": "assistant", "content": calls}],
        _anthropic_reply,
    ),
    "gemini": Form(
        "contents",
        "systemInstruction",
        ("tools", "toolConfig"),
        ("generationConfig", "thinkingConfig"),
        _gemini_thinking,
        _gemini_call,
        lambda calls: [{"role": "model", "parts": calls}],
        _gemini_reply,
    ),
}
