"""Every message of the published types of Chat Completions is sent back to its provider unchanged.

The messages are generated from the types of OpenAI's own library, so they include fields that later versions add. Left out are
the deprecated ``function_call`` and the role ``function``, which are written in the current form (``test_openai_chat_messages``).
"""

import json
import types
from collections.abc import Iterable
from itertools import count
from typing import Any, Literal, Required, Union, get_args, get_origin, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionDeveloperMessageParam,
    ChatCompletionSystemMessageParam,
    ChatCompletionToolMessageParam,
    ChatCompletionUserMessageParam,
)
from tests.recordings.judges import normal_form

from multi_llm_chat import history_from, render
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.testing.validators import validate

Body = dict[str, Any]
Strategy = st.SearchStrategy[Any]

#: A model that accepts every published part: pictures, files, and, by its name, audio.
MODEL = "gpt-4o-audio-preview"

_TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
).filter(lambda text: bool(text.strip()))
_PNG = "data:image/png;base64,iVBORw0KGgo="
_WAV, _MP3 = "UklGRgAAAABXQVZF", "SUQzBAAAAAAA"

#: Values with a meaning to the server; all other texts are arbitrary.
_VALUES: dict[tuple[str, str], Strategy] = {
    ("ImageURL", "url"): st.sampled_from([_PNG, "https://example.com/a.jpg"]),
    ("ChatCompletionContentPartInputAudioParam", "input_audio"): st.sampled_from(
        [{"data": _WAV, "format": "wav"}, {"data": _MP3, "format": "mp3"}]
    ),
    ("File", "file"): st.sampled_from(
        [
            {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"},
            {"file_id": "file-1"},
        ]
    ),
    ("Function", "name"): st.sampled_from(["get_weather", "search"]),
    ("Function", "arguments"): st.sampled_from(["{}", '{"city": "Rome"}', '{"n":[1,null]}']),
    ("Custom", "name"): st.just("run"),
    ("Audio", "id"): st.just("audio_1"),
}
_DEPRECATED = {("ChatCompletionAssistantMessageParam", "function_call")}


def made_of(hint: Any, owner: str = "", key: str = "") -> Strategy:
    """Draw values of a published type."""
    if (owner, key) in _VALUES:
        return _VALUES[owner, key]
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [each for each in get_args(hint) if each is not type(None)]
        return st.one_of([made_of(each, owner, key) for each in kinds])
    if get_origin(hint) is Iterable or get_origin(hint) is list:
        return st.lists(made_of(get_args(hint)[0]), min_size=1, max_size=3)
    if hint is str:
        return _TEXT
    required: dict[str, Strategy] = {}
    optional: dict[str, Strategy] = {}
    for field, kind in get_type_hints(hint, include_extras=True).items():
        is_required = get_origin(kind) is Required
        if (hint.__name__, field) not in _DEPRECATED:
            inner = get_args(kind)[0] if is_required else kind
            (required if is_required else optional)[field] = made_of(inner, hint.__name__, field)
    return st.fixed_dictionaries(required, optional=optional)


SYSTEM = made_of(ChatCompletionSystemMessageParam) | made_of(ChatCompletionDeveloperMessageParam)
USER = made_of(ChatCompletionUserMessageParam)
ASSISTANT = made_of(ChatCompletionAssistantMessageParam).filter(
    lambda message: bool(message.keys() - {"role", "name"})
)
TOOL = made_of(ChatCompletionToolMessageParam)


@st.composite
def conversations(draw: st.DrawFn) -> list[Body]:
    """Draw messages of the published types, with every call answered."""
    numbers = count()
    messages: list[Body] = [draw(SYSTEM)] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(draw(USER))
        answer = json.loads(json.dumps(draw(ASSISTANT)))
        messages.append(answer)
        for call in answer.get("tool_calls", ()):
            call["id"] = f"call_{next(numbers)}"
            messages.append(draw(TOOL) | {"tool_call_id": call["id"]})
    return [*messages, draw(USER)]


@settings(max_examples=150)
@given(messages=conversations())
def test_published_messages_come_back_as_they_were(messages: list[Body]) -> None:
    turns = history_from(messages, "openai-chat", provider="openai-chat", model=MODEL)
    stored = list(read_history(json.loads(json.dumps(turns))))
    sent = render(stored, "openai-chat", model=MODEL)
    assert sent.notes == ()
    assert normal_form("openai_chat", sent.body["messages"]) == normal_form("openai_chat", messages)
    assert validate("openai-chat", sent.body, model=MODEL) == []


@settings(max_examples=60)
@given(messages=conversations(), words=_TEXT)
def test_they_are_the_same_after_another_model_has_spoken(messages: list[Body], words: str) -> None:
    turns = history_from(messages, "openai-chat", provider="openai-chat", model=MODEL)
    own = [turn | {"role": "chatgpt"} if turn["role"] == "assistant" else turn for turn in turns]
    asked: list[Any] = [{"role": "claude", "content": words}, {"role": "user", "content": "and?"}]
    sent = render([*own, *asked], "openai-chat", model=MODEL)
    was = normal_form("openai_chat", messages)
    now = normal_form("openai_chat", sent.body["messages"])
    assert now[: len(was) - 1] == was[:-1]
    for provider in ("openai", "anthropic", "gemini", "mistral", "groq"):
        body = render([*own, *asked], provider).body
        assert validate(provider, body) == []
        said = json.dumps(body, ensure_ascii=False)
        texts = [part["text"] for message in messages for part in _texts(message)]
        assert [text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1] not in said] == []  # fmt: skip


def _texts(message: Body) -> list[Body]:
    parts = [as_object(part) or {} for part in as_list(message.get("content")) or ()]
    return [part for part in parts if part["type"] == "text"]
