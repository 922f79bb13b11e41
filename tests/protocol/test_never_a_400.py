"""The central property: for any history, any tools and any provider the request is accepted and complete."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.strategies.histories import Marked, marked_histories, nasty_histories
from tests.strategies.schemas import nasty_schemas, tool_definitions

from multi_llm_chat import Rendered, RepairPolicy, history_from, render
from multi_llm_chat.history.json_values import as_list, as_object, clean_text
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.providers import ROWS, provider_row
from multi_llm_chat.schema.tool_definitions import read_tools
from multi_llm_chat.testing.validators import validate

MODELS: dict[str, list[str]] = {
    "openai": ["gpt-5.6-terra", "gpt-4.1", "o3"],
    "openai-chat": ["gpt-4.1", "gpt-5.6-terra", "gpt-5.1", "o3"],
    "anthropic": [
        "claude-sonnet-5",
        "claude-sonnet-4-5",
        "claude-opus-4-6",
        "claude-3-7-sonnet-latest",
        "claude-opus-4-8",
        "claude-fable-5",
        "claude-sonnet-5-5",
        "claude-opus-5-5",
    ],
    "gemini": ["gemini-3.7-flash", "gemini-2.5-pro"],
    "deepseek": ["deepseek-chat", "deepseek-reasoner", "deepseek-v4-pro"],
    "azure": ["gpt-4.1", "mistral-large-2512"],
    "vllm": ["default", "meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mistral-7B-Instruct-v0.3"],
    "groq": ["openai/gpt-oss-120b", "llama-3.3-70b-versatile"],
    "kimi": ["kimi-k2.6", "moonshot-v1-8k"],
    "dashscope": ["qwen-plus", "qwen3-32b"],
    "zai": ["glm-5.2", "glm-5.3"],
    "xai": ["grok-4.5", "grok-4.3"],
}

POLICIES = st.builds(
    RepairPolicy,
    unanswered=st.sampled_from(["answer", "drop"]),
    orphans=st.sampled_from(["note", "drop"]),
    foreign=st.sampled_from(["label", "adopt", "drop"]),
)

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.integers(1, 30_000),
        "temperature": st.floats(0, 1),
        "thinking": st.sampled_from(
            [None, True, False, 500, 2048, 20_000, "low", "medium", "high"]
        ),
        "tool_choice": st.sampled_from(
            ["auto", "none", "required", "search", "never_declared", "fs.read"]
        ),
        "stop": st.sampled_from([(), ("END",), ("\n\n",)]),
        "schema": nasty_schemas().filter(
            lambda schema: all(isinstance(key, str) for key in as_object(schema) or [None])
        ),
        "cache": st.sampled_from([True, False, "auto"]),
        "top_p": st.floats(0, 1),
        "seed": st.integers(0, 2**31 - 1),
        "parallel_tool_calls": st.booleans(),
        "service_tier": st.just("auto"),
        "metadata": st.sampled_from([{}, {"user_id": "anna"}, {"team": "search"}]),
    },
)


REQUESTS = st.fixed_dictionaries(
    {
        "system_prompt": st.sampled_from([None, "", " ", "Be kind.", "\ud800"]),
        "tools": st.none() | tool_definitions(),
        "options": OPTIONS,
        "stream": st.booleans(),
        "conversation": st.sampled_from([None, "", "chat-1"]),
    }
)

#: Every provider row with every kind of model that it treats differently.
TARGETS = [
    (provider, model)
    for provider in sorted(ROWS)
    for model in MODELS.get(provider, [provider_row(provider).default_model])
]


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in (as_object(value) or {}).values():
        yield from strings(item)
    for item in as_list(value) or []:
        yield from strings(item)


def everything_said(rendered: Rendered) -> str:
    return "\n".join(strings(rendered.body))


def violations(rendered: Rendered) -> list[Any]:
    return validate(rendered.provider, rendered.body, model=rendered.model)


#: A model that continues its own last turn.
PREFILLED = "claude-sonnet-4-5"

#: The central property gets more examples than the rest: twice as many in make test, five times as many in make judges.
EXAMPLES = hypothesis_settings().max_examples
MORE_OFTEN = hypothesis_settings(max_examples=EXAMPLES * (5 if EXAMPLES >= 100 else 2))


@MORE_OFTEN
@given(history=nasty_histories, settings=REQUESTS, policy=st.none() | POLICIES)
def test_the_provider_accepts_what_is_made_of_any_history(
    history: list[Any], settings: dict[str, Any], policy: RepairPolicy | None
):
    before = repr((history, settings))
    # The original definitions for one target; definitions that were read once for the others, as a frequent caller does.
    read: dict[str, Any] = settings | {"tools": read_tools(settings["tools"] or ()).definitions}
    given = settings
    for provider, model in TARGETS:
        rendered = render(history, provider, model=model, policy=policy, **given)
        given = read
        assert violations(rendered) == [], (provider, model, rendered.body)
        json.dumps(rendered.body, allow_nan=False).encode()
    assert repr((history, settings)) == before, "the input was changed"


@given(history=nasty_histories, settings=REQUESTS, target=st.sampled_from(TARGETS))
def test_the_same_history_gives_the_same_request(
    history: list[Any], settings: dict[str, Any], target: tuple[str, str]
):
    provider, model = target
    rendered = render(history, provider, model=model, **settings)
    assert render(history, provider, model=model, **settings) == rendered


def read_back(rendered: Rendered) -> list[dict[str, Any]]:
    key = DIALECTS[provider_row(rendered.provider).dialect].messages
    return history_from(
        rendered.body[key], rendered.provider, provider=rendered.provider, model=rendered.model
    )


@given(history=nasty_histories, settings=REQUESTS)
def test_what_was_repaired_once_needs_no_further_repair(
    history: list[Any], settings: dict[str, Any]
):
    settings = settings | {"system_prompt": None}
    for provider, model in TARGETS:
        once = render(history, provider, model=model, **settings)
        twice = render(read_back(once), provider, model=model, **settings)
        key = DIALECTS[provider_row(provider).dialect].messages
        assert twice.body[key] == once.body[key], (provider, model)


@pytest.mark.parametrize("before", [[], [{"text": "Hm.", "thought": True}]])
def test_a_turn_that_is_only_a_signature_is_sent_again(before: list[Any]):
    """Gemini ends streams with such a part: it stays when it is read and sent back."""
    contents = [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [*before, {"text": "", "thoughtSignature": "c2lnbmF0dXJl"}]},
        {"role": "user", "parts": [{"text": "And?"}]},
    ]
    history = history_from(contents, "gemini", provider="gemini", model="gemini-2.5-pro")
    assert render(history, "gemini", model="gemini-2.5-pro").body["contents"] == contents


def user_words(history: list[Any]) -> Iterator[str]:
    for value in history:
        turn = as_object(value)
        if turn is None or turn["role"] in ("tool", "system"):
            continue
        content = turn["content"]
        for item in [content] if isinstance(content, str) else as_list(content) or []:
            part = as_object(item) or {"type": "text", "content": item}
            text = clean_text(part["content"]) if part["type"] == "text" else ""
            if text.strip():
                yield text


@given(history=nasty_histories)
def test_every_word_of_users_and_speakers_survives(history: list[Any]):
    said_before = list(user_words(history))
    for provider, model in TARGETS:
        rendered = render(history, provider, model=model)
        said = everything_said(rendered)
        is_cut = any(note.rule == "ANT-09" for note in rendered.notes)
        for words in said_before:
            assert words in said or (is_cut and words.rstrip() in said), (provider, model)


def test_white_space_that_cannot_be_sent_is_noted():
    rendered = render([{"role": "claude", "content": "0 "}], "anthropic", model=PREFILLED)
    assert [note.rule for note in rendered.notes] == ["ANT-09"]
    assert not violations(rendered)


@given(marked=marked_histories(), policy=st.sampled_from(["label", "adopt"]))
def test_every_answered_call_survives_with_its_own_result(marked: Marked, policy: Any):
    for provider, model in TARGETS:
        rendered = render(
            marked.history, provider, model=model, policy=RepairPolicy(foreign=policy)
        )
        said = everything_said(rendered)
        assert [words for words in marked.texts if words not in said] == [], provider
        own = {provider_row(provider).speaker, "assistant", "model", provider}
        results = results_by_mark(rendered)
        for speaker, mark, answer in marked.pairs:
            assert mark in said, provider
            assert answer in said, provider
            if policy == "adopt" or speaker in own:
                assert results[mark] == answer, provider


def results_by_mark(rendered: Rendered) -> dict[str, str]:
    """Return which result answers which call, according to the request itself."""
    calls: dict[str, str] = {}
    results: dict[str, str] = {}
    for turn in read_back(rendered):
        for part in turn["content"]:
            if part["type"] == "tool_call":
                calls[part["content"]["tool_call_id"]] = part["content"]["arguments"]["mark"]
            elif part["type"] == "tool_result":
                results[calls[part["tool_call_id"]]] = part["content"]
    return results


UNREADABLE = {"type": "media", "mime": "image/png", "data": "not base64!"}
PIXEL = {"type": "media", "mime": "image/png", "data": "iVBORw0KGgo="}
WORDS_PART = {"type": "text", "content": "hey"}


@pytest.mark.parametrize("target", TARGETS, ids="/".join)
@pytest.mark.parametrize(
    "content",
    [[UNREADABLE], [WORDS_PART, UNREADABLE], [PIXEL, UNREADABLE], [WORDS_PART, PIXEL, UNREADABLE]],
    ids=["label", "text and label", "picture and label", "all three"],
)
def test_a_result_with_a_label_for_media_stays_the_same(
    content: list[dict[str, Any]], target: tuple[str, str]
):
    provider, model = target
    call: dict[str, Any] = {"name": "f", "arguments": {}, "tool_call_id": "c"}
    result = {"type": "tool_result", "name": "f", "content": content, "tool_call_id": "c"}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_call", "content": call}]},
        {"role": "tool", "content": [result]},
    ]
    once = render(history, provider, model=model)
    key = DIALECTS[provider_row(provider).dialect].messages
    assert render(read_back(once), provider, model=model).body[key] == once.body[key]
