"""Legal native message lists: what each API's own clients send when they make no mistake.

Contents have the form that we write if an API allows several: a single text is a
string, and a call turn without text has no content.
"""

from itertools import count
from typing import Any

from hypothesis import strategies as st

from multi_llm_chat.history.json_values import compact_json

Body = dict[str, Any]

_PNG = "iVBORw0KGgo="
_WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
).filter(lambda text: not text.isspace())
_SCALARS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | _WORDS
_ARGUMENTS = st.dictionaries(
    st.sampled_from(["city", "n", "é"]), _SCALARS | st.lists(_SCALARS, max_size=2), max_size=2
)
_NAMES = st.sampled_from(["get_weather", "search", "f"])


@st.composite
def _rounds(draw: st.DrawFn) -> list[tuple[str, str, list[tuple[str, str, Body, str]]]]:
    """Draw user texts, model texts (or none), calls with their results; the last may be a call round."""
    numbers = count()
    made: list[tuple[str, str, list[tuple[str, str, Body, str]]]] = []
    for _ in range(draw(st.integers(1, 4))):
        calls = [
            (f"call{next(numbers):05}", draw(_NAMES), draw(_ARGUMENTS), draw(_WORDS))
            for _ in range(draw(st.integers(0, 3)))
        ]
        words = draw(_WORDS) if not calls or draw(st.booleans()) else ""
        made.append((draw(_WORDS), words, calls))
    return made


@st.composite
def chat_messages(draw: st.DrawFn) -> list[Body]:
    """Chat Completions."""
    messages: list[Body] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(_WORDS)})
    for said, words, calls in draw(_rounds()):
        content: Any = said
        if draw(st.integers(0, 3)) == 0:
            picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PNG}"}}
            content = [{"type": "text", "text": said}, picture]
        messages.append({"role": "user", "content": content})
        answer: Body = {"role": "assistant"} | ({"content": words} if words else {})
        if calls:
            answer["tool_calls"] = [
                {
                    "id": one,
                    "type": "function",
                    "function": {"name": name, "arguments": compact_json(arguments)},
                }
                for one, name, arguments, _ in calls
            ]
        messages.append(answer)
        messages.extend(
            {"role": "tool", "tool_call_id": one, "content": output} for one, _, _, output in calls
        )
        if calls and draw(st.booleans()):
            messages.append({"role": "assistant", "content": draw(_WORDS)})
    return [*messages, {"role": "user", "content": draw(_WORDS)}]


@st.composite
def responses_items(draw: st.DrawFn) -> list[Body]:
    """Responses."""
    items: list[Body] = []
    for said, words, calls in draw(_rounds()):
        items.append({"type": "message", "role": "user", "content": said})
        if draw(st.booleans()):
            summary = [{"type": "summary_text", "text": "hm"}] if draw(st.booleans()) else []
            items.append({"type": "reasoning", "summary": summary, "encrypted_content": "gAAA"})
        if words:
            content = [{"type": "output_text", "text": words}]
            items.append({"type": "message", "role": "assistant", "content": content})
        items.extend(
            {
                "type": "function_call",
                "call_id": one,
                "name": name,
                "arguments": compact_json(arguments),
            }
            for one, name, arguments, _ in calls
        )
        items.extend(
            {"type": "function_call_output", "call_id": one, "output": output}
            for one, _, _, output in calls
        )
    return [*items, {"type": "message", "role": "user", "content": draw(_WORDS)}]


@st.composite
def anthropic_messages(draw: st.DrawFn) -> list[Body]:
    """Messages; thinking is before the content that it led to, and before every call."""
    messages: list[Body] = []
    pending: list[Body] = []
    for said, words, calls in draw(_rounds()):
        blocks = [*pending, {"type": "text", "text": said}]
        messages.append({"role": "user", "content": said if len(blocks) == 1 else blocks})
        answer: list[Body] = []
        if calls or draw(st.booleans()):
            answer.append({"type": "thinking", "thinking": "hm", "signature": "c2ln"})
        if words:
            answer.append({"type": "text", "text": words})
        answer.extend(
            {"type": "tool_use", "id": one, "name": name, "input": arguments}
            for one, name, arguments, _ in calls
        )
        alone = len(answer) == 1 and answer[0]["type"] == "text"
        messages.append({"role": "assistant", "content": words if alone else answer})
        pending = [
            {"type": "tool_result", "tool_use_id": one, "content": output}
            | ({"is_error": True} if draw(st.booleans()) else {})
            for one, _, _, output in calls
        ]
    said = draw(_WORDS)
    last = [*pending, {"type": "text", "text": said}]
    return [*messages, {"role": "user", "content": said if len(last) == 1 else last}]


@st.composite
def gemini_contents(draw: st.DrawFn) -> list[Body]:
    """generateContent; each step's first call is signed."""
    contents: list[Body] = []
    for said, words, calls in draw(_rounds()):
        if contents and contents[-1]["role"] == "user" and "text" in contents[-1]["parts"][0]:
            contents.append({"role": "model", "parts": [{"text": "ok"}]})
        contents.append({"role": "user", "parts": [{"text": said}]})
        parts: list[Body] = []
        if draw(st.booleans()):
            parts.append({"text": "hm", "thought": True})
        if words:
            parts.append(
                {"text": words} | ({"thoughtSignature": "c2ln"} if draw(st.booleans()) else {})
            )
        for place, (one, name, arguments, _) in enumerate(calls):
            made: Body = {"functionCall": {"id": one, "name": name, "args": arguments}}
            parts.append(made if place else made | {"thoughtSignature": "c2ln"})
        contents.append({"role": "model", "parts": parts})
        if calls:
            responses = [
                {
                    "functionResponse": {
                        "id": one,
                        "name": name,
                        "response": {"error" if draw(st.booleans()) else "result": f"r{output}"},
                    }
                }
                for one, name, _, output in calls
            ]
            contents.append({"role": "user", "parts": responses})
    return [*contents, {"role": "user", "parts": [{"text": draw(_WORDS)}]}]
