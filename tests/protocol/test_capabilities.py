"""Our table of what models accept, and the conformance kit's: every difference is listed here with its reason."""

from collections.abc import Iterator

import pytest

from multi_llm_chat.protocol.capabilities import (
    abilities_of,
    add_families,
    chat_family,
    claude_family,
    forget_families,
    gemini_family,
    model_table,
    nearest_effort,
    openai_model,
)
from multi_llm_chat.testing.validators.anthropic.thinking import claude_model
from multi_llm_chat.testing.validators.openai_models import openai_model as judged_model

OPENAI = (
    "gpt-35-turbo", "gpt-4o", "gpt-4.1", "gpt-4o-audio-preview", "gpt-audio", "o1", "o1-mini", "o3", "o3-mini", "o4-mini", "gpt-5", "gpt-5-mini",
    "gpt-5-chat-latest", "gpt-5-pro", "gpt-5-codex", "gpt-5.1", "gpt-5.2", "gpt-5.3-codex", "gpt-5.4", "gpt-5.4-mini", "gpt-5.4-pro",
    "gpt-5.5", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-6", "gpt-6.1-terra", "my-deployment",
)  # fmt: skip
CLAUDE = (
    "claude-3-opus-20240229", "claude-3-7-sonnet-latest", "claude-sonnet-4-20250514", "claude-opus-4-1", "claude-haiku-4-5",
    "claude-sonnet-4-5", "claude-opus-4-5", "claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8",
    "claude-sonnet-5", "claude-opus-5", "claude-fable-5", "claude-mythos-5", "claude-fable-5-1", "claude-mythos-5-2",
    "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5",
)  # fmt: skip

#: (model, fact): why the two tables differ. A fact that only one table has is not a difference.
DISAGREEMENTS = {
    (
        "claude-3-opus-20240229",
        "thinking",
    ): "the kit starts with budgets at all models that it does not know better",
}


def openai_facts(name: str) -> Iterator[tuple[str, object, object]]:
    ours, kit = openai_model(name), judged_model(name)
    for effort in (None, "none", "high"):
        yield f"reasons with {effort}", ours.is_reasoning(effort), kit.is_reasoning(effort)
    yield "system", ours.system, kit.takes_system
    yield "stop", ours.stop, kit.takes_stop
    if ours.reasons != "never":
        yield "tools", not ours.chat_tools, kit.refuses_tools_while_reasoning
    if ours.efforts and kit.efforts:
        unknown = [word for word in ours.efforts if word not in kit.efforts]
        yield "efforts", unknown, []


def claude_facts(name: str) -> Iterator[tuple[str, object, object]]:
    ours, kit = claude_family(name), claude_model(name)
    yield "efforts", ours.efforts, kit.efforts
    yield "forced tool", ours.forced_tools, kit.takes_forced_tool
    yield "prefill", ours.prefill, kit.takes_prefill
    yield "later system", ours.later_system, kit.takes_system_messages
    yield "thinks", ours.thinks, kit.thinks_by_default
    yield "first user", ours.first_user, kit.wants_user_first
    yield "tools", ours.wants_tools, kit.wants_tools
    yield "binding", ours.binds_thinking, kit.binds_thinking
    yield "temperature", ours.temperature, not kit.is_new_generation
    asked = {"adaptive": "adaptive", "budget": "enabled"}.get(ours.thinking)
    yield "thinking", asked in kit.thinking_types, True
    if ours.off:
        yield "off", ours.off in kit.thinking_types, True


def compared() -> Iterator[tuple[str, str, object, object]]:
    for name in OPENAI:
        yield from ((name, *fact) for fact in openai_facts(name))
    for name in CLAUDE:
        yield from ((name, *fact) for fact in claude_facts(name))


def test_the_two_tables_agree_but_for_what_is_listed() -> None:
    differing = {(name, fact) for name, fact, ours, kit in compared() if ours != kit}
    assert differing == set(DISAGREEMENTS)


@pytest.mark.parametrize("words", [row.efforts for row in model_table().openai if row.efforts])
def test_a_word_that_a_model_does_not_know_becomes_the_nearest_lower_one(
    words: tuple[str, ...],
) -> None:
    """OAI-30, ANT-36."""
    order = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    for wanted in order:
        sent = nearest_effort(wanted, words)
        assert sent in words
        assert order.index(sent) <= order.index(wanted) or sent == words[0]


def test_every_family_of_the_table_has_a_grade_in_each_known_cell() -> None:
    rows = model_table().table
    assert len(rows) == 35
    columns = {tuple(row) for row in rows}
    assert len(columns) == 1
    assert all(cell for row in rows for cell in row.values())


def test_a_package_brings_families_of_its_own() -> None:
    more = rb'{"chat": [{"providers": ["acme"], "match": "rocket", "thinks": "asked", "efforts": ["low"]}]}'
    try:
        add_families(more)
        found = chat_family("acme", "rocket-2")
        assert found is not None
        assert found.efforts == ("low",)
    finally:
        forget_families(added=True)
    assert chat_family("acme", "rocket-2") is None


def test_names_of_all_generations_have_a_gemini_family() -> None:
    """GEM-28."""
    assert gemini_family("gemini-2.5-flash").most == 24576
    assert gemini_family("gemini-3.1-pro-preview").levels == ("low", "medium", "high")
    assert gemini_family("gemini-4-argon").levels


@pytest.mark.parametrize(
    ("provider", "model", "words"),
    [
        ("openai", "gpt-5.6-terra", "tools pictures thinking"),
        ("openai", "o4-mini", "tools pictures thinking"),
        ("openai", "o1-mini", ""),
        ("openai", "gpt-4o-mini", "tools pictures"),
        ("openai", "gpt-4", "tools"),
        ("openai", "text-embedding-3-small", ""),
        ("openai", "gpt-realtime", ""),
        ("anthropic", "claude-opus-5-5", "tools pictures thinking"),
        ("anthropic", "claude-3-5-haiku-latest", "tools pictures"),
        ("anthropic", "claude-3-7-sonnet-latest", "tools pictures thinking"),
        ("gemini", "gemini-2.5-flash", "tools pictures thinking"),
        ("gemini", "gemini-2.0-flash", "tools pictures"),
        ("openrouter", "anthropic/claude-sonnet-4.5", "tools pictures thinking"),
        ("openrouter", "openai/gpt-5.4-mini", "tools pictures thinking"),
        ("groq", "openai/gpt-oss-120b", "tools thinking"),
        ("xai", "grok-4.5", "tools pictures thinking"),
        ("mistral", "mistral-small-latest", "tools thinking"),
        ("mistral", "ministral-8b-latest", "tools"),
        ("together", "deepseek-ai/DeepSeek-V4-Pro", "tools thinking"),
        ("vllm", "our-own-model", ""),
    ],
)
def test_what_a_model_can_do_is_read_from_the_table(provider: str, model: str, words: str) -> None:
    assert abilities_of(provider, model) == frozenset(words.split())


def test_a_package_says_what_its_models_can_do() -> None:
    add_families(b'{"inputs": [{"match": "our-own", "pictures": true, "thinks": true}]}')
    try:
        assert abilities_of("vllm", "our-own-model") == {"tools", "pictures", "thinking"}
    finally:
        forget_families(added=True)
