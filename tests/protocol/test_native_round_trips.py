"""Native items survive any conversation: read and rendered for their provider they stay the same, even after other speakers' turns."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol import test_anthropic_native as claude
from tests.protocol import test_gemini_native as gemini
from tests.protocol import test_openai_responses_items as gpt

from multi_llm_chat import history_from, render
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.protocol.providers import ROWS, provider_row
from multi_llm_chat.testing.validators import validate

Body = dict[str, Any]

MODELS = {"anthropic": claude.MODEL, "gemini": gemini.MODEL, "openai": gpt.MODEL}
#: The body's key for messages, and the names of the formats.
KEYS = {"anthropic": "messages", "gemini": "contents", "openai": "input"}
FORMATS = {"anthropic": "anthropic", "gemini": "gemini", "openai": "openai-responses"}
#: Items of kinds that the validators do not know, or that need their own tool.
_UNUSUAL = ("hologram", "advisor", "agent_message", "audioTranscription", "container_reference")

REPLIES: dict[str, list[list[Body]]] = {
    "anthropic": [blocks for blocks, _ in claude.REPLIES.values()],
    "gemini": [parts for parts, _ in gemini.REPLIES.values()],
    "openai": [[item, gpt.CITED] for item, _ in gpt.NATIVE],
}


def usual(reply: list[Body]) -> bool:
    return not any(word in json.dumps(reply) for word in _UNUSUAL)


@st.composite
def exchanges(draw: st.DrawFn, provider: str) -> list[tuple[str, list[Body]]]:
    """Draw questions and the provider's model's replies; their items have distinct ids."""
    known = [reply for reply in REPLIES[provider] if usual(reply)]
    made: list[tuple[str, list[Body]]] = []
    for number in range(draw(st.integers(1, 3))):
        reply = json.dumps(draw(st.sampled_from(known)))
        for prefix in ("srvtoolu", "ws", "fs", "ci", "ig", "mcpl", "mcp", "tsc", "tso", "cmp"):
            reply = reply.replace(f'"{prefix}_1"', f'"{prefix}_{provider}{number}"')
        for old in ("msg_1", "prog_1", "po_1", "sh_1", "call_p", "call_s", "s1"):
            reply = reply.replace(f'"{old}"', f'"{old}{number}"')
        made.append((f"question {number}", json.loads(reply)))
    return made


def messages_of(provider: str, said: list[tuple[str, list[Body]]]) -> list[Body]:
    """Return the exchanges as the provider's own client sends them."""
    messages: list[Body] = []
    for question, reply in said:
        if provider == "anthropic":
            messages += [
                {"role": "user", "content": question},
                {"role": "assistant", "content": reply},
            ]
        elif provider == "gemini":
            messages += [
                {"role": "user", "parts": [{"text": question}]},
                {"role": "model", "parts": reply},
            ]
        else:
            messages += [gpt.user(question), *reply]
    return messages


def turns_of(provider: str, said: list[tuple[str, list[Body]]]) -> list[Any]:
    """Return the exchanges as turns under the speaker's name, stored and read back."""
    read = history_from(
        messages_of(provider, said), FORMATS[provider], provider=provider, model=MODELS[provider]
    )
    speaker = provider_row(provider).speaker
    turns = [
        turn | {"role": speaker} if turn["role"] in ("assistant", "model") else turn
        for turn in read
    ]
    return list(read_history(json.loads(json.dumps(turns))))


def objects(value: Any) -> Iterator[Body]:
    entries = as_object(value)
    if entries is not None:
        yield entries
    for inner in entries.values() if entries is not None else as_list(value) or ():
        yield from objects(inner)


def items_of(provider: str, said: list[tuple[str, list[Body]]]) -> list[Body]:
    """Return the replies' items that only the provider understands."""
    common = {"text", "thinking", "redacted_thinking", "message"}
    items = [item for _, reply in said for item in reply]
    if provider == "gemini":
        native = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
        return [item for item in items if any(key in item for key in native)]
    return [item for item in items if item["type"] not in common]


@settings(max_examples=40)
@given(st.data())
def test_read_and_rendered_again_the_messages_are_the_same(data: st.DataObject) -> None:
    provider = data.draw(st.sampled_from([*REPLIES]))
    said = data.draw(exchanges(provider))
    messages = [*messages_of(provider, said), *messages_of(provider, [("and?", [])])[:1]]
    history = history_from(messages, FORMATS[provider], provider=provider, model=MODELS[provider])
    thinking = {"thinking": True} if provider == "anthropic" else {}
    rendered = render(history, provider, model=MODELS[provider], options=thinking)
    assert rendered.body[KEYS[provider]] == messages
    assert validate(provider, rendered.body, model=MODELS[provider]) == []


@settings(max_examples=40)
@given(st.data())
def test_after_others_have_spoken_every_provider_gets_its_own_items_back(
    data: st.DataObject,
) -> None:
    order = data.draw(st.lists(st.sampled_from([*REPLIES]), min_size=2, max_size=4))
    history: list[Any] = []
    said: dict[str, list[Body]] = {}
    for provider in order:
        if provider in said:
            continue  # ids would be used twice
        exchange = data.draw(exchanges(provider))
        history += turns_of(provider, exchange)
        said[provider] = items_of(provider, exchange)
    history.append({"role": "user", "content": "and?"})
    for provider, items in said.items():
        rendered = render(history, provider, model=MODELS[provider])
        sent = list(objects(rendered.body))
        assert [item for item in items if item not in sent] == []
        foreign = [item for other, rest in said.items() if other != provider for item in rest]
        assert [item for item in foreign if item in sent] == []
    for provider in sorted(ROWS):
        model = MODELS.get(provider)
        rendered = render(history, provider, model=model)
        assert validate(provider, rendered.body, model=rendered.model) == []
        assert "[left out" not in json.dumps(rendered.body)
