"""A history is rendered the same whether the fast paths know its contents or not."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.histories import WORDS

from multi_llm_chat import render
from multi_llm_chat.protocol.message_formats import read_any
from multi_llm_chat.protocol.providers import ROWS

Body = dict[str, Any]

NAMES = st.sampled_from(["get_weather", "search", "fs.read"])
SAID = st.integers(0, 20).flatmap(
    lambda chance: st.sampled_from(["Hello", "東京の天気は？", "25°C", "{}"]) if chance else WORDS
)
VALUES = SAID | st.sampled_from([1, True, None, 2.5, [1, {"deep": "x"}], float("nan"), ["\ud800"]])
CALLS = st.lists(
    st.tuples(NAMES, st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2), SAID),
    max_size=2,
)
#: What the user said, the calls with their results, and what the model said.
EXCHANGES = st.lists(st.tuples(SAID, CALLS, SAID), max_size=4)


def _own(at: int, asked: str, calls: list[Any], said: str) -> list[Body]:
    used = [
        {"type": "tool_call", "content": {"name": name, "arguments": arguments, "tool_call_id": f"call{at:04}{slot}"}}
        for slot, (name, arguments, _) in enumerate(calls)
    ]  # fmt: skip
    results = [
        {"type": "tool_result", "name": name, "content": result, "tool_call_id": f"call{at:04}{slot}"}
        for slot, (name, _, result) in enumerate(calls)
    ]  # fmt: skip
    middle = [{"role": "chatgpt", "content": used}, {"role": "tool", "content": results}]
    return [{"role": "user", "content": asked}, *(middle if calls else []), {"role": "chatgpt", "content": said}]  # fmt: skip


def _chat(at: int, asked: str, calls: list[Any], said: str) -> list[Body]:
    used = [
        {"id": f"call{at:04}{slot}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for slot, (name, arguments, _) in enumerate(calls)
    ]  # fmt: skip
    results = [
        {"role": "tool", "tool_call_id": f"call{at:04}{slot}", "content": result}
        for slot, (_, _, result) in enumerate(calls)
    ]
    middle = [{"role": "assistant", "content": None, "tool_calls": used}, *results]
    return [{"role": "user", "content": asked}, *(middle if calls else []), {"role": "assistant", "content": said}]  # fmt: skip


def _anthropic(at: int, asked: str, calls: list[Any], said: str) -> list[Body]:
    used = [
        {"type": "tool_use", "id": f"call{at:04}{slot}", "name": name, "input": arguments}
        for slot, (name, arguments, _) in enumerate(calls)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"call{at:04}{slot}", "content": result}
        for slot, (_, _, result) in enumerate(calls)
    ]
    middle = [{"role": "assistant", "content": used}, {"role": "user", "content": results}]
    return [{"role": "user", "content": asked}, *(middle if calls else []), {"role": "assistant", "content": said}]  # fmt: skip


def _gemini(at: int, asked: str, calls: list[Any], said: str) -> list[Body]:
    used = [
        {"functionCall": {"id": f"call{at:04}{slot}", "name": name, "args": arguments}}
        for slot, (name, arguments, _) in enumerate(calls)
    ]
    results = [
        {"functionResponse": {"id": f"call{at:04}{slot}", "name": name, "response": {"result": result}}}
        for slot, (name, _, result) in enumerate(calls)
    ]  # fmt: skip
    middle = [{"role": "model", "parts": used}, {"role": "user", "parts": results}]
    return [{"role": "user", "parts": [{"text": asked}]}, *(middle if calls else []), {"role": "model", "parts": [{"text": said}]}]  # fmt: skip


FORMS = st.sampled_from([_own, _chat, _anthropic, _gemini])
SYSTEM: Body = {"role": "system", "content": "Be brief."}


@given(
    EXCHANGES,
    FORMS,
    st.sampled_from(sorted(ROWS)),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([None, "Be kind."]),
)
def test_known_contents_lead_to_the_same_request(
    exchanges: list[Any], form: Any, provider: str, has_system: bool, cut: int, prompt: str | None
):
    messages = [
        message for at, each in enumerate(exchanges) for message in form(at, *each)
    ]  # fmt: skip
    messages = messages[: len(messages) - cut]
    if has_system and form is not _gemini:
        messages.insert(0, SYSTEM)
    before = repr(messages)
    turns = [*read_any(messages)]
    fast = render(messages, provider, system_prompt=prompt)
    thorough = render(turns, provider, system_prompt=prompt)
    assert fast.content == thorough.content
    assert fast.notes == thorough.notes
    assert (fast.ids, fast.names, fast.headers) == (thorough.ids, thorough.names, thorough.headers)
    assert repr(fast.transcript) == repr(thorough.transcript)
    if "nan" not in before:
        assert fast.transcript == thorough.transcript
    assert repr(messages) == before
