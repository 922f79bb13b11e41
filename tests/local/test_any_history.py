"""For any history and tools the small model gets a prompt of the one form that it knows."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.histories import nasty_histories

from multi_llm_chat.errors import UsageError
from multi_llm_chat.local._prompt import LocalPrompt, read_prompt
from multi_llm_chat.local._tool_choice import NO_TOOL, make_offers
from multi_llm_chat.request import ToolDefinition


def shape(prompt: LocalPrompt) -> list[str]:
    messages = prompt.messages()
    assert all(message["content"].strip() for message in messages)
    assert all(message["content"].encode() for message in messages)
    return [message["role"] for message in messages]


@given(nasty_histories, st.sampled_from([None, "", "Be brief."]))
def test_user_and_assistant_alternate_behind_the_system(
    history: list[Any], system_prompt: str | None
) -> None:
    try:
        prompt = read_prompt(history, model="m", system_prompt=system_prompt)
    except UsageError:
        return  # a malformed turn is the caller's mistake
    assert prompt.question.strip()
    smallest: LocalPrompt | None = prompt
    while smallest is not None:
        roles = shape(smallest)
        body = roles[1:] if roles[0] == "system" else roles
        assert body == ["user", "assistant"] * (len(body) // 2) + ["user"]
        smallest = smallest.shorter(0.0)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=12, unique=True), st.text())
def test_no_label_is_the_beginning_of_another(names: list[str], question: str) -> None:
    tools = [ToolDefinition(name, name, {"type": "object"}) for name in names]
    offers = make_offers(tools, question)
    labels = [*(offer.label for offer in offers), NO_TOOL]
    assert len(set(labels)) == len(labels)
    assert all(
        label == other or not other.startswith(label) for label in labels for other in labels
    )
