"""The normal form for comparing recorded messages with those that we write.

Null is absent; a text equals a list of one text; adjacent messages of one role are one message; arguments
are compared as values; adjacent texts are one, with a blank line between, in results a line break; base64 in either alphabet; empty ``annotations``, ``logprobs`` and ``citations``, ``is_error: false``,
``thought: false``, ``detail: auto``, the ``index`` of a call and repeated reasoning are absent; ``image_url`` is an
object and ``input_audio`` a text, Gemini's empty text with a signature is absent, Ollama's ``images`` are pictures of the content; Gemini's names are in camel case and its call ids left out.
"""

# Recorded JSON has any shape.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, cast

Json = dict[str, Any]


def normal_form(dialect: str, messages: list[Any]) -> list[Any]:
    """Return the messages in normal form."""
    if dialect == "gemini":
        return _gemini_form(messages)
    merged: list[Json] = []
    for item in messages:
        message = _plain_form(item)
        content = message.get("content")
        if isinstance(content, str):
            message["content"] = [content] if content else []
        before = merged[-1] if merged else None
        if before is not None and _joins(dialect, before, message):
            both = [*before.get("content", []), *message.get("content", [])]
            before["content"] = list(_joined(both))
        else:
            merged.append(message)
    for message in merged:
        if not message.get("content"):
            message.pop("content", None)
    return [message for message in merged if message.keys() - {"role"}]


def _joins(dialect: str, before: Json, message: Json) -> bool:
    plain = message.keys() <= {"role", "content"} and before.keys() <= {"role", "content"}
    same = plain and before.get("role") == message.get("role")
    return same and (
        dialect == "anthropic" or message.get("role") in ("user", "system", "developer")
    )


_EMPTY_MEANS_ABSENT = ("annotations", "logprobs", "citations", "tool_calls", "reasoning_content")


def _plain_form(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_form(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    form: Json = {
        key: _plain_form(each) for key, each in cast("Json", value).items() if each is not None
    }
    for key in _EMPTY_MEANS_ABSENT:
        if form.get(key) in ([], ""):
            del form[key]
    for key, usual in (("detail", "auto"), ("is_error", False), ("type", "message")):
        if form.get(key) == usual:
            del form[key]
    _join_reasoning(form)
    if "function" in form:
        form.pop("index", None)
    return _content_form(form)


def _join_reasoning(form: Json) -> None:
    """Put reasoning under one key, once."""
    if "reasoning" in form and "reasoning_content" in form:
        del form[
            "reasoning_content" if form["reasoning"] == form["reasoning_content"] else "reasoning"
        ]
    if "reasoning" in form and form["reasoning"] == _detailed(form.get("reasoning_details")):
        del form["reasoning"]
    if "reasoning" in form:
        form["reasoning_content"] = form.pop("reasoning")


def _detailed(details: Any) -> str | None:
    """Return the text of OpenRouter's blocks of reasoning."""
    if not isinstance(details, list):
        return None
    return "".join(str(each.get("text") or each.get("summary") or "") for each in details)


def _content_form(form: Json) -> Json:
    if form.get("role") == "user" and isinstance(form.get("images"), list):
        data = [
            re.sub(r"^(?!https?:|data:)", "data:image/png;base64,", each)
            for each in form.pop("images")
        ]
        shown = [{"type": "image_url", "image_url": {"url": each}} for each in data]
        said = form.get("content") or []
        form["content"] = [*([said] if isinstance(said, str) else said), *shown]
    if isinstance(form.get("arguments"), str):
        form["arguments"] = _value_of(form["arguments"])
    if form.get("type") == "image_url" and isinstance(form.get("image_url"), str):
        form["image_url"] = {"url": form["image_url"]}
    if form.get("type") == "input_audio" and isinstance(form.get("input_audio"), dict):
        form["input_audio"] = form["input_audio"].get("data")
    is_result = form.get("type") == "tool_result" or form.get("role") == "tool"
    for key, is_joined in (("content", is_result), ("output", True)):
        if isinstance(form.get(key), list):
            form[key] = list(_joined(map(_text_form, form[key])))
            if is_joined and len(form[key]) == 1:
                form[key] = form[key][0]
        if is_joined and isinstance(form.get(key), str):
            form[key] = re.sub(r"\n+", "\n", form[key])  # texts are joined by one line feed or two
    return form


def _joined(parts: Iterable[Any]) -> Iterator[Any]:
    """Return the parts with adjacent texts joined."""
    for is_text, group in groupby(parts, key=lambda part: isinstance(part, str)):
        if is_text:
            yield "\n\n".join(group)
        else:
            yield from group


def _text_form(part: Any) -> Any:
    is_text = isinstance(part, dict) and part.keys() == {"type", "text"}
    if is_text and part["type"] in ("text", "input_text", "output_text"):
        return part["text"]
    return part


def _value_of(text: str) -> Any:
    try:
        return (json.loads(text) if text.strip() else {}) or {}
    except ValueError:
        return text


def _gemini_form(messages: list[Any]) -> list[Any]:
    merged: list[Json] = []
    for item in messages:
        content = _camel(item)
        role = {"function": "user"}.get(content.get("role", "user"), content.get("role", "user"))
        parts = content.get("parts") or []
        parts = [parts] if isinstance(parts, dict) else parts
        written = [_part_form(part) for part in parts if part != {"text": ""}]
        if merged and merged[-1]["role"] == role:
            merged[-1]["parts"] += written
        else:
            merged.append({"role": role, "parts": written})
    return merged


def _part_form(part: Any) -> Any:
    if isinstance(part, str):
        return {"text": part}
    form = dict(part)
    if form.get("text") == "" and "thoughtSignature" in form:
        del form["text"]
    if form.get("thought") is False:
        del form["thought"]
    for key in ("functionCall", "functionResponse"):
        if key in form:
            form[key] = {name: each for name, each in form[key].items() if name != "id"}
    if "functionCall" in form:
        form["functionCall"].setdefault("args", {})
    if "inlineData" in form:
        form["inlineData"] = form["inlineData"] | {
            "data": in_one_alphabet(form["inlineData"].get("data", ""))
        }
    if "thoughtSignature" in form:
        form["thoughtSignature"] = in_one_alphabet(form["thoughtSignature"])
    return form


def in_one_alphabet(text: str) -> str:
    """Return base64 in the standard alphabet, without padding."""
    return text.replace("-", "+").replace("_", "/").rstrip("=")


def _camel(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"_([a-z])", lambda found: found[1].upper(), key) if key in _SNAKE else key: _camel(
            each
        )
        for key, each in cast("Json", value).items()
        if each is not None
    }


_SNAKE = frozenset(
    {"function_call", "function_response", "inline_data", "file_data", "thought_signature", "mime_type", "file_uri",
     "executable_code", "code_execution_result", "video_metadata", "media_resolution", "display_name", "tool_type"}
)  # fmt: skip
