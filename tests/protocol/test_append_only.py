"""Append-only requests (SPEC 2.9): the next request begins with the last one, byte for byte, or says why not."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.protocol.test_never_a_400 import (
    POLICIES,
    REQUESTS,
    TARGETS,
    everything_said,
    user_words,
    violations,
)
from tests.strategies.histories import Marked, marked_histories, nasty_histories

from multi_llm_chat import Rendered, RepairPolicy, render
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import (
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.providers import provider_row

CUT = "did not continue the earlier request"

#: Why a request that only adds turns may nevertheless not begin with the previous one.
CAUSES = (
    "the pictures are more",  # with further pictures the ones already sent are too large
    "a turn ends with thinking",  # ANT-29: earlier thinking must go too
    "an answer thought behind another prefix",
    "thinking was turned on or off",  # ANT-14
    "a message that was sent would change",
)


def cuts(rendered: Rendered) -> list[str]:
    return [note.message for note in rendered.notes if note.message.startswith(CUT)]


def unmarked(value: Any) -> Any:
    """Return the value without cache marks."""
    entries = as_object(value)
    if entries is not None:
        return {key: unmarked(each) for key, each in entries.items() if key != "cache_control"}
    listed = as_list(value)
    return value if listed is None else [unmarked(each) for each in listed]


def messages(rendered: Rendered) -> list[bytes]:
    key = DIALECTS[provider_row(rendered.provider).dialect].messages
    return [msgspec.json.encode(unmarked(each)) for each in rendered.body[key]]


def head(rendered: Rendered) -> Any:
    keys = ("system", "systemInstruction", "instructions", "tools")
    return unmarked({key: rendered.body.get(key) for key in keys})


def check_appended(before: Rendered, after: Rendered) -> None:
    sent = messages(before)[:-1]
    assert messages(after)[: len(sent)] == sent
    changed = {key for key, value in head(before).items() if head(after)[key] != value}
    if changed:  # a tool for the first call, since the model requires declared tools (ANT-16)
        assert changed == {"tools"}
        assert before.body.get("tools") is None
        assert any(note.message.startswith("the tools changed") for note in after.notes)


def steps(turns: Sequence[Turn], ends: Sequence[int]) -> Iterator[tuple[Turn, ...]]:
    """Return the growing history, step by step."""
    for end in sorted({min(end, len(turns)) for end in ends} | {len(turns)}):
        yield tuple(turns[:end])


def grow(
    turns: Sequence[Turn], ends: Sequence[int], provider: str, **settings: Any
) -> list[Rendered]:
    """Return the requests of a growing history, each continuing the previous one."""
    requests: list[Rendered] = []
    for history in steps(turns, ends):
        previous = requests[-1] if requests else None
        requests.append(render(history, provider, previous=previous, **settings))
    return requests


ENDS = st.lists(st.integers(0, 12), min_size=1, max_size=5)
OFTEN = hypothesis_settings(max_examples=5 * hypothesis_settings().max_examples)


@OFTEN
@given(
    history=nasty_histories,
    ends=ENDS,
    settings=REQUESTS,
    policy=st.none() | POLICIES,
    target=st.sampled_from(TARGETS),
)
def test_any_history_is_appended_to(
    history: list[Any],
    ends: list[int],
    settings: dict[str, Any],
    policy: RepairPolicy | None,
    target: tuple[str, str],
):
    provider, model = target
    turns = read_history(history)
    requests = grow(turns, ends, provider, model=model, policy=policy, **settings)
    for request in requests:
        assert violations(request) == [], request.body
        assert msgspec.json.decode(request.content) == request.body
    for before, after in pairwise(requests):
        found = cuts(after)
        if not found:
            check_appended(before, after)
        assert all(any(cause in each for cause in CAUSES) for each in found), found


@given(history=nasty_histories, ends=ENDS, target=st.sampled_from(TARGETS))
def test_every_word_of_users_and_speakers_survives_in_steps(
    history: list[Any], ends: list[int], target: tuple[str, str]
):
    provider, model = target
    said = everything_said(grow(read_history(history), ends, provider, model=model)[-1])
    for words in user_words(history):
        assert words in said


@given(marked=marked_histories(), ends=ENDS, target=st.sampled_from(TARGETS))
def test_every_call_and_every_result_survives_in_steps(
    marked: Marked, ends: list[int], target: tuple[str, str]
):
    provider, model = target
    requests = grow(read_history(marked.history), ends, provider, model=model)
    said = everything_said(requests[-1])
    assert [words for words in marked.texts if words not in said] == []
    for _, mark, answer in marked.pairs:
        assert mark in said
        assert answer in said
    for before, after in pairwise(requests):
        assert cuts(after) == []
        check_appended(before, after)


# Content that depends on its position at the end.

OWN = {"openai": "chatgpt", "openai-chat": "chatgpt", "anthropic": "claude", "gemini": "gemini"}
PROVIDERS = sorted(OWN)
MODELS = {"anthropic": "claude-opus-5-5"}


def says(role: str, text: str) -> Turn:
    return Turn(role, (Text(text),))


def calls(role: str, name: str, identifier: str) -> Turn:
    return Turn(role, (ToolCall(name, {"at": identifier}, identifier),))


def answers(name: str, identifier: str, text: str) -> Turn:
    return Turn("tool", (ToolResult(name, text, identifier),))


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    return {"name": name, "description": f"{name} something", "inputSchema": schema}


def written(turns: Sequence[Turn], provider: str, **settings: Any) -> Rendered:
    settings.setdefault("model", MODELS.get(provider))
    request = render(turns, provider, **settings)
    assert violations(request) == []
    return request


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ant_04_a_late_result_is_a_message_that_names_its_call(provider: str):
    own = OWN[provider]
    asked = [says("user", "look"), calls(own, "look", "call_1"), says("user", "well?")]
    first = written(asked, provider)
    assert "no result" in everything_said(first)
    later = [*asked, answers("look", "call_1", "a fox"), says("user", "so?")]
    second = written(later, provider, previous=first, policy=RepairPolicy(orphans="note"))
    assert cuts(second) == []
    check_appended(first, second)
    assert "[late result of look, call call_1: a fox]" in everything_said(second)
    third = written([*later, answers("look", "call_1", "a wolf")], provider, previous=second)
    check_appended(second, third)
    assert "a wolf" in everything_said(third)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_late_result_is_no_orphan_even_where_orphans_are_dropped(provider: str):
    policy = RepairPolicy(unanswered="drop", orphans="drop")
    asked = [says("user", "look"), calls(OWN[provider], "look", "call_1"), says("user", "well?")]
    first = written(asked, provider, policy=policy)
    later = [*asked, answers("look", "call_1", "a fox"), answers("look", "other", "a wolf")]
    second = written(later, provider, policy=policy, previous=first)
    said = everything_said(second)
    assert "a fox" in said
    assert "a wolf" not in said


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_new_call_gets_no_id_that_was_sent(provider: str):
    own = OWN[provider]
    turns = [says("user", "look")]
    request = written(turns, provider)
    for number in range(4):  # as servers number their calls
        turns += [calls(own, "my.tool", "call_0"), answers("my.tool", "call_0", f"fox {number}")]
        after = written(turns, provider, previous=request)
        check_appended(request, after)
        request = after
    assert len(request.ids) == 4
    assert list(request.names.values()) == ["my.tool"]
    assert all(f"fox {number}" in everything_said(request) for number in range(4))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tools_name_keeps_its_spelling(provider: str):
    own = OWN[provider]
    turns = [says("user", "go"), calls(own, "fs.read", "a"), answers("fs.read", "a", "1")]
    first = written(turns, provider)
    # The original spelling is now the name of another tool.
    turns += [calls(own, "fs_read", "b"), answers("fs_read", "b", "2"), says("user", "on")]
    second = written(turns, provider, previous=first)
    spelled = {name: sent for sent, name in second.names.items()}
    assert spelled["fs.read"] == next(
        sent for sent, name in first.names.items() if name == "fs.read"
    )
    assert spelled["fs_read"] != spelled["fs.read"]
    assert messages(second)[: len(messages(first))] == messages(first)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ant_45_a_changed_prompt_is_said_at_the_end(provider: str):
    turns = [says("user", "hi")]
    request = written(turns, provider, system_prompt="Be kind.")
    for number, prompt in enumerate(["Be kind.", "Be brief.", "Be brief.", None, "Be kind."]):
        turns += [says(OWN[provider], f"answer {number}"), says("user", f"question {number}")]
        after = written(turns, provider, system_prompt=prompt, previous=request)
        assert cuts(after) == []
        check_appended(request, after)
        assert messages(after)[: len(messages(request))] == messages(request)
        request = after
    said = everything_said(request)
    assert said.count("These instructions replace the earlier ones") == 2
    assert said.count("The earlier instructions no longer apply.") == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tools_that_are_not_offered_any_more_stay_declared(provider: str):
    own, offered = OWN[provider], [tool("look"), tool("find")]
    turns = [says("user", "go"), calls(own, "look", "a"), answers("look", "a", "a fox")]
    first = written(turns, provider, tools=offered)
    turns += [calls(own, "look", "b"), answers("look", "b", "a wolf")]
    second = written(turns, provider, previous=first, tools=offered[::-1])
    check_appended(first, second)
    third = written([*turns, says(own, "well")], provider, previous=second)
    check_appended(second, third)
    choice = third.body.get("tool_choice") or third.body["toolConfig"]["functionCallingConfig"]
    assert "none" in str(choice).lower()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ant_46_a_new_tool_is_a_noted_change_of_the_tools(provider: str):
    turns = [says("user", "go")]
    first = written(turns, provider, tools=[tool("look")])
    turns += [says(OWN[provider], "gone"), says("user", "on")]
    second = written(turns, provider, tools=[tool("look"), tool("find")], previous=first)
    assert messages(second)[:1] == messages(first)
    changed = [note for note in second.notes if "the tools changed" in note.message]
    assert len(changed) == (0 if provider == "anthropic" else 1)


#: A model that accepts messages that add and remove tools.
TAKES_CHANGES = "claude-opus-4-8"


def declared(request: Rendered) -> list[dict[str, Any]]:
    """Return the tools in the cached part of the request, without cache marks."""
    return [
        {key: value for key, value in entry.items() if key != "cache_control"}
        for entry in request.body.get("tools", ())
        if not entry.get("defer_loading")
    ]


def changes(request: Rendered) -> list[tuple[str, str]]:
    """Return the tools that messages add and remove."""
    return [
        (block["type"], block["tool"]["name"])
        for message in request.body["messages"]
        if message["role"] == "system"
        for block in message["content"]
        if block["type"].startswith("tool_")
    ]


def test_ant_46_tools_are_added_and_removed_by_a_message():
    turns = [says("user", "go")]
    request = written(turns, "anthropic", model=TAKES_CHANGES, tools=[tool("look")])
    first = declared(request)
    expected: list[tuple[str, str]] = []
    offers: list[tuple[list[str], list[tuple[str, str]]]] = [
        (["look", "find"], [("tool_addition", "find")]),
        (["look", "find"], []),
        (["find", "list"], [("tool_addition", "list"), ("tool_removal", "look")]),
        (["find", "list", "look"], [("tool_addition", "look")]),
        ([], []),
        (["look"], [("tool_removal", "find"), ("tool_removal", "list")]),
    ]
    for number, (names, news) in enumerate(offers):
        turns += [says("claude", f"answer {number}"), says("user", f"question {number}")]
        offered = [tool(name) for name in names]
        after = written(turns, "anthropic", model=TAKES_CHANGES, tools=offered, previous=request)
        expected += news
        assert cuts(after) == []
        assert messages(after)[: len(messages(request))] == messages(request)
        assert declared(after) == first
        assert changes(after) == expected
        assert "mid-conversation-tool-changes-2026-07-01" in after.headers["anthropic-beta"]
        request = after
    assert [entry["name"] for entry in request.body["tools"]] == ["look", "find", "list"]


def usable(request: Rendered) -> set[str]:
    """Return the tools that the model can call: the declared ones, changed by the messages."""
    if request.body.get("tool_choice") == {"type": "none"}:
        return set()
    found = {entry["name"] for entry in declared(request)}
    for kind, name in changes(request):
        (found.add if kind == "tool_addition" else found.discard)(name)
    return found


@example(
    [(names, "answered") for names in (["look", "find"], ["look"], ["look", "find"], ["read.me"])]
)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["look", "find", "list", "read.me"]), unique=True),
            st.sampled_from(["answered", "silent", "called"]),
        ),
        min_size=2,
        max_size=6,
    )
)
def test_ant_46_the_model_can_use_what_is_offered(offers: list[tuple[list[str], str]]):
    turns = [says("user", "go")]
    request: Rendered | None = None
    for number, (names, how) in enumerate(offers):
        offered = [tool(name) for name in names]
        after = written(turns, "anthropic", model=TAKES_CHANGES, tools=offered, previous=request)
        assert {after.names[name] for name in usable(after)} == set(names)
        if request is not None and not cuts(after):  # the last message may grow
            assert messages(after)[: len(messages(request)) - 1] == messages(request)[:-1]
        request = after
        if how == "called":
            turns += [calls("claude", "look", f"c{number}"), answers("look", f"c{number}", "a fox")]
        elif how == "answered":
            turns += [says("claude", f"answer {number}")]
        if how != "called":
            turns += [says("user", f"question {number}")]


def test_ant_46_a_change_of_tools_without_an_answer_is_a_cut():
    turns = [says("user", "go")]
    first = written(turns, "anthropic", model=TAKES_CHANGES, tools=[tool("look")])
    turns += [says("claude", "gone"), says("user", "on")]
    offered = [tool("look"), tool("find")]
    second = written(turns, "anthropic", model=TAKES_CHANGES, tools=offered, previous=first)
    turns += [says("user", "are you there?")]
    third = written(turns, "anthropic", model=TAKES_CHANGES, tools=offered, previous=second)
    assert [note.rule for note in third.notes if "did not continue" in note.message] == ["ANT-46"]
    assert changes(third) == []
    assert [entry["name"] for entry in declared(third)] == ["look", "find"]


def test_ant_46_a_tool_that_was_added_and_then_defined_anew_is_a_cut():
    turns = [says("user", "go")]
    first = written(turns, "anthropic", model=TAKES_CHANGES, tools=[tool("look")])
    turns += [says("claude", "gone"), says("user", "on")]
    offered = [tool("look"), tool("find")]
    second = written(turns, "anthropic", model=TAKES_CHANGES, tools=offered, previous=first)
    turns += [says("claude", "well"), says("user", "and?")]
    offered = [tool("look"), tool("find") | {"description": "Find something else."}]
    third = written(turns, "anthropic", model=TAKES_CHANGES, tools=offered, previous=second)
    assert [note.rule for note in third.notes if "did not continue" in note.message] == ["ANT-46"]
    assert [entry["name"] for entry in declared(third)] == ["look", "find"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_own_answer_stands_before_those_of_others_to_the_same_message(provider: str):
    own = OWN[provider]
    turns = [says("user", "@all hi")]
    request = written(turns, provider)
    for number in range(5):
        # The other speakers were faster; one of them uses a tool.
        turns += [
            says("groq", f"fast {number}"),
            calls("my-bot", "look", f"bot-{number}"),
            Turn(
                "tool", (ToolResult("look", "a fox", f"bot-{number}"),), meta={"speaker": "my-bot"}
            ),
            says(own, f"mine {number}"),
            says("my-bot", f"slow {number}"),
            says("user", f"@all question {number}"),
        ]
        after = written(turns, provider, previous=request)
        assert cuts(after) == []
        assert messages(after)[: len(messages(request))] == messages(request)
        request = after
    said = everything_said(request)
    for number in range(5):
        places = [said.index(f"{word} {number}") for word in ("mine", "fast", "slow", "question")]
        assert places == sorted(places)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_request_from_nothing_has_the_same_order_where_several_were_asked(provider: str):
    own = OWN[provider]
    asked = {"addressed": ["groq", own]}
    turns: list[Turn] = []
    request: Rendered | None = None
    for number in range(5):
        turns.append(Turn("user", (Text(f"question {number}"),), meta=asked))
        request = written(turns, provider, previous=request)
        assert request.body == written(turns, provider).body
        turns += [
            says("groq", f"fast {number}"),
            calls(own, "look", f"c{number}"),
            Turn("tool", (ToolResult("look", "a fox", f"c{number}"),), meta={"speaker": own}),
            says(own, f"mine {number}"),
        ]
    said = everything_said(written(turns, provider))
    places = [said.index(word) for word in ("question 0", "mine 0", "fast 0", "question 1")]
    assert places == sorted(places)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_history_that_was_cut_is_written_from_nothing_and_says_so(provider: str):
    own = OWN[provider]
    turns = [says("user", "one"), says(own, "two"), says("user", "three")]
    first = written(turns, provider)
    shorter = [*turns[2:], says(own, "four"), says("user", "five")]
    second = written(shorter, provider, previous=first)
    assert len(cuts(second)) == 1
    assert second.body == written(shorter, provider).body
    third = written([*shorter, says(own, "six")], provider, previous=second)
    assert cuts(third) == []


def test_another_model_or_policy_is_another_target():
    turns = [says("user", "one"), says("claude", "two"), says("user", "three")]
    first = render(turns, "anthropic", model="claude-sonnet-5")
    changes: list[dict[str, Any]] = [
        {"model": "claude-opus-5"},
        {"policy": RepairPolicy(foreign="drop")},
    ]
    for change in changes:
        settings: dict[str, Any] = {"model": "claude-sonnet-5"} | change
        assert len(cuts(render(turns, "anthropic", previous=first, **settings))) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_only_the_new_turns_are_written(provider: str):
    """The old turns are not read again: even with changed parts in them the request would be the same."""
    own = OWN[provider]
    turns = [says("user", "one"), says(own, "two"), says("user", "three")]
    first = written(turns, provider)
    transcript = first.transcript
    assert transcript is not None
    marked = msgspec.structs.replace(
        transcript, messages=tuple(each.replace(b"one", b"ONE") for each in transcript.messages)
    )
    second = written([*turns, says(own, "four"), says("user", "five")], provider, previous=marked)
    assert "ONE" in everything_said(second)


def thinks(text: str, signature: str) -> Turn:
    origin = Origin("anthropic", "", "claude-opus-5-5")
    return Turn("claude", (Thinking("hm", origin, {"signature": signature}), Text(text)))


def test_ant_28_thinking_stays_valid_while_requests_are_appended():
    turns = [says("user", "@all hi")]
    request = written(turns, "anthropic")
    for number in range(6):
        answer = thinks(f"mine {number}", f"sig{number}")
        answer = msgspec.structs.replace(answer, meta={"binding": request.binding})
        turns += [says("gemini", f"fast {number}"), answer, says("user", f"question {number}")]
        prompt = "Be brief." if number > 3 else None
        request = written(turns, "anthropic", previous=request, system_prompt=prompt)
        assert cuts(request) == []
        assert request.content.count(b'"signature"') == number + 1


def test_ant_46_thinking_stays_valid_while_tools_are_added():
    turns, names = [says("user", "hi")], ["look"]
    request = written(turns, "anthropic", tools=[tool("look")])
    for number in range(6):
        answer = thinks(f"mine {number}", f"sig{number}")
        answer = msgspec.structs.replace(answer, meta={"binding": request.binding})
        turns += [answer, says("user", f"question {number}")]
        names += [f"tool_{number}"] if number % 2 else []
        offered = [tool(name) for name in names]
        request = written(turns, "anthropic", previous=request, tools=offered)
        assert cuts(request) == []
        assert request.content.count(b'"signature"') == number + 1
        assert usable(request) == set(names)


def test_ant_28_thinking_of_an_answer_to_another_request_is_a_cut():
    turns = [says("user", "hi")]
    first = written(turns, "anthropic")
    answer = msgspec.structs.replace(
        thinks("mine", "s"), meta={"binding": {"prefix": "other", "from": 0}}
    )
    second = written([*turns, answer, says("user", "on")], "anthropic", previous=first)
    assert len(cuts(second)) == 1
    assert b"signature" not in second.content


@pytest.mark.parametrize("starts_thinking", [True, False])
@pytest.mark.parametrize("size", [1, 2])
def test_ant_10_a_loop_goes_on_as_it_began(starts_thinking: bool, size: int):
    model = "claude-sonnet-4-5"
    thought = Thinking("hm", Origin("anthropic", "", model), {"signature": "EqRkc2lnbmF0dXJl"})
    turns = [says("user", "Look around.")]
    for number in range(3):
        call = ToolCall("look", {}, f"c{number}")
        begins = (thought,) if starts_thinking and not number else ()
        turns.append(Turn("claude", (*begins, call)))
        turns.append(Turn("tool", (ToolResult("look", "seen", f"c{number}"),)))
    ends = range(1, len(turns) + 1, 2 * size)
    options = {"thinking": 2048}
    requests = grow(turns, ends, "anthropic", model=model, tools=[tool("look")], options=options)
    assert [violations(each) for each in requests] == [[]] * len(requests)
    kinds = [each.body["thinking"]["type"] for each in requests]
    assert kinds == ["enabled", *["enabled" if starts_thinking else "disabled"] * (len(kinds) - 1)]
    if starts_thinking:
        assert [cuts(each) for each in requests] == [[]] * len(requests)


def test_dsk_01_thinking_that_a_forced_tool_turned_off_is_a_cut():
    turns = [says("user", "one"), says("deepseek", "two"), says("user", "three")]
    settings: dict[str, Any] = {"model": "deepseek-v4-pro", "tools": [tool("look")]}
    forced = {"thinking": True, "tool_choice": "required"}
    first = written(turns, "deepseek", options=forced, **settings)
    turns += [says("deepseek", "four"), says("user", "five")]
    second = written(turns, "deepseek", options={"thinking": True}, previous=first, **settings)
    assert [each.split(": ")[1] for each in cuts(second)] == ["thinking was turned on or off"]
    turns += [says("deepseek", "six"), says("user", "seven")]
    third = written(turns, "deepseek", options={"thinking": True}, previous=second, **settings)
    assert cuts(third) == []
