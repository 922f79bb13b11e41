"""Conversations with many speakers: who answers, what is stored, and what each speaker sees."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.chat.stage import LOOP, Read, kinds, saved, stage, words_of

from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.tool_scope import tools_for
from multi_llm_chat.config.settings import CouncilSettings, Settings, SpeakerSettings
from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    MessageFinished,
    MessageSaved,
    RunFailed,
    RunFinished,
    RunWaiting,
    TextDelta,
    TurnFinished,
    Usage,
)
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import Media, ToolCall, ToolResult
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.store import calls, open_store, path, read_events, runs, total, totals
from multi_llm_chat.testing.simulator import Call, Disconnect, Gate, Say, Simulator, Status
from multi_llm_chat.tools import Allow, Decision, Deny, ToolRegistry


def test_the_only_speaker_answers_and_the_answer_is_kept(read: Read) -> None:
    with stage(claude=["Hello."]) as scene:
        events = read(scene.service.process_message("Hi"))
        assert kinds(events) == ["MessageSaved", "RunStarted", "TurnFinished", "RunFinished", "MessageFinished"]  # fmt: skip
        assert scene.words() == [("user", "Hi"), ("claude", "Hello.")]
        kept = scene.service.store.run(path, scene.service.conversation)
        assert kept == list(scene.service.turns)
        finished = next(event for event in events if isinstance(event, RunFinished))
        assert finished.usage.output_tokens > 0
        assert finished.stop_reason == "answered"


def test_a_turn_is_in_the_store_before_its_event_is_emitted(read: Read) -> None:
    with stage(claude=["Hello."]) as scene:
        service = scene.service
        for event in service.process_message("Hi"):
            if isinstance(event, (MessageSaved, TurnFinished)):
                # The answer may be saved before the event of the message is read.
                assert event.turn in service.store.run(path, service.conversation)


def test_all_answer_from_one_snapshot(read: Read) -> None:
    with stage(claude=["I am Claude.", "x"], gemini=["I am Gemini."]) as scene:
        events = read(scene.service.process_message("@all Who are you?"))
        assert isinstance(events[-1], MessageFinished)
        assert set(events[-1].answered) == {"claude", "gemini"}
        for name in ("claude", "gemini"):
            text = json.dumps(scene.body(name))
            assert "Who are you?" in text
            assert "@all" not in text
            assert "I am" not in text
        read(scene.service.process_message("@claude And the other?"))
        assert "[gemini] I am Gemini." in json.dumps(scene.body("claude"), ensure_ascii=False)


def test_all_answer_at_the_same_time() -> None:
    gates = {"claude": Gate(), "gemini": Gate()}
    claude, gemini = ([Say("Here I am.", faults=[gate])] for gate in gates.values())
    with stage(claude=claude, gemini=gemini) as scene:
        events: list[Any] = []
        thread = threading.Thread(
            target=lambda: events.extend(scene.service.process_message("@all Hi"))
        )
        thread.start()
        for gate in gates.values():
            gate.wait_reached()  # both are in the middle of their answers
        for gate in gates.values():
            gate.open()
        thread.join()
    assert set(events[-1].answered) == {"claude", "gemini"}


@pytest.mark.parametrize("text", ["Remember the milk", "mail me@gemini.com", "@nobody there"])
def test_without_a_mention_the_words_are_a_memo(read: Read, text: str) -> None:
    with stage(claude=[], gemini=["Noted."]) as scene:
        events = read(scene.service.process_message(text))
        assert kinds(events) == ["MessageSaved", "MessageFinished"]
        assert scene.words() == [("user", text)]
        assert scene.service.turns[0].meta["memo"] is True
        read(scene.service.process_message("@gemini What did I say?"))
        assert text in json.dumps(scene.body("gemini"), ensure_ascii=False)


def test_groups_defaults_and_explicit_speakers(read: Read) -> None:
    settings = Settings(groups={"council": ("claude", "gemini")}, default_speaker="GEMINI")
    with stage(settings, claude=["c"] * 3, gemini=["g"] * 3, chatgpt=["o"]) as scene:
        assert set(read(scene.service.process_message("@Council?"))[-1].answered) == {"claude", "gemini"}  # type: ignore[union-attr]  # fmt: skip
        assert read(scene.service.process_message("Plain"))[-1].answered == ("gemini",)  # type: ignore[union-attr]
        events = read(scene.service.process_message("Plain", to=["chatgpt", "claude"]))
        assert set(events[-1].answered) == {"claude", "chatgpt"}  # type: ignore[union-attr]
        with pytest.raises(UsageError, match="no speaker 'bard'"):
            read(scene.service.process_message("x", to=["bard"]))
        with pytest.raises(UsageError, match="empty"):
            read(scene.service.process_message("  "))
        with pytest.raises(UsageError, match="nothing to answer"):
            read(scene.service.process_message("@claude"))


def test_the_conversations_prompt_wins_over_the_speakers_and_that_over_the_general_one(
    read: Read,
) -> None:
    with stage(Settings(system_prompt="GENERAL"), claude=["a", "b", "c"]) as scene:
        service = scene.service
        read(service.process_message("1"))
        assert "GENERAL" in json.dumps(scene.body("claude"))
        # A changed prompt is appended at the end: what was sent stays unchanged.
        service.configure(system_prompt="OWN")
        read(service.process_message("2"))
        assert "GENERAL" in json.dumps(scene.body("claude")["system"])
        assert "OWN" in json.dumps(scene.body("claude")["messages"][-1])
        service.configure(system_prompt=None)
        read(service.process_message("3"))
        assert "GENERAL" in json.dumps(scene.body("claude")["messages"][-1])
    with stage(Settings(system_prompt="GENERAL"), claude=["a"]) as scene:
        scene.service.configure(system_prompt="OWN")
        read(scene.service.process_message("1"))
        assert "OWN" in json.dumps(scene.body("claude")["system"])
        assert "GENERAL" not in json.dumps(scene.body("claude"))


def test_one_failing_does_not_stop_the_others_and_its_error_is_a_record(read: Read) -> None:
    with stage(claude=[Status(529)], gemini=["Fine."]) as scene:
        events = read(scene.service.process_message("@all Hi"))
        failed = next(event for event in events if isinstance(event, RunFailed))
        assert (failed.speaker, failed.error.kind) == ("claude", "Overloaded")
        assert events[-1] == MessageFinished(scene.service.conversation, ("gemini",), ("claude",))
        assert scene.words() == [("user", "Hi"), ("gemini", "Fine.")]
        records = {run.speaker: run for run in scene.service.answers()}
        assert records["claude"].status == "failed"
        assert records["claude"].error == failed.error
        assert records["gemini"].status == "done"


def test_words_before_a_failure_are_kept_and_marked(read: Read) -> None:
    broken = Say("One two three four", faults=[Disconnect(after_frames=6)])
    with stage(claude=[broken, "Again."]) as scene:
        events = read(scene.service.process_message("Count"))
        assert isinstance(events[-2], RunFailed)
        partial = scene.service.turns[-1]
        assert partial.meta["partial"] is True
        assert words_of(partial)
        assert "One two three four".startswith(words_of(partial))
        read(scene.service.retry())
        assert scene.words() == [("user", "Count"), ("claude", "Again.")]


def stop_at_the_first_words(service: ChatService) -> list[Any]:
    """Stop an answer at its first words, and return its events."""
    events: list[Any] = []

    async def listen() -> None:
        async for event in service.process_message("Count"):
            events.append(event)
            if isinstance(event, TextDelta):
                service.stop()

    LOOP.run(listen())
    return events


def test_stopping_keeps_what_was_said(read: Read) -> None:
    gate = Gate(after_frames=6)
    with stage(claude=[Say("One two three four five six", faults=[gate])]) as scene:
        service = scene.service
        events = stop_at_the_first_words(service)
        finished = next(event for event in events if isinstance(event, RunFinished))
        assert finished.stop_reason == "cancelled"
        assert service.turns[-1].meta["partial"] is True
        assert [run.status for run in service.answers()] == ["cancelled"]
        assert service.answering == ()


@pytest.mark.parametrize("speaker", ["claude", "gemini", "chatgpt"])
def test_what_was_counted_of_a_stopped_answer_is_recorded(speaker: str) -> None:
    says = Say("One two three four five six", delta_size=4, faults=[Gate(after_frames=8)])
    scripts: dict[str, Any] = {speaker: [says]}
    with stage(**scripts) as scene:
        service = scene.service
        events = stop_at_the_first_words(service)
        spent = service.store.run(total, service.conversation)
    finished = next(event for event in events if isinstance(event, RunFinished))
    is_estimated = bool(service.turns[-1].meta.get("estimated"))
    assert spent.estimates == is_estimated
    if speaker == "chatgpt":  # nothing is counted until the end of the reply
        assert finished.usage == spent.tokens == Usage()
        assert (is_estimated, spent.unknown_tokens) == (False, 1)
    else:
        assert finished.usage.input_tokens > 0
        assert finished.usage.output_tokens > 0
        assert finished.usage == spent.tokens
        assert spent.unknown_tokens == 0
    if speaker == "claude":  # the input is counted at the start of the reply, the output at its end
        assert is_estimated


def test_leaving_the_events_early_stops_the_answers() -> None:
    gate = Gate(after_frames=4)
    with stage(claude=[Say("One two three four five six", faults=[gate])]) as scene:
        for event in (events := iter(scene.service.process_message("Count"))):
            if isinstance(event, TextDelta):
                break
        events.close()
        assert scene.service.answering == ()
        assert scene.service.turns[-1].meta["partial"] is True


@pytest.fixture
def registry() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool
    def get_weather(city: str) -> str:
        """The weather."""
        return f"sunny in {city}"

    return tools


def test_calls_and_results_are_kept_turn_by_turn_and_shown(
    read: Read, registry: ToolRegistry
) -> None:
    replies = [Say("Let me look.", calls=[Call("get_weather", {"city": "Rome"})]), "Sunny."]
    with stage(tools=registry, claude=replies) as scene:
        events = read(scene.service.process_message("Weather?"))
        assert [turn.role for turn in saved(events)] == ["claude", "tool", "claude"]
        call, result = scene.service.turns[1].parts[-1], scene.service.turns[2].parts[0]
        assert isinstance(call, ToolCall)
        assert isinstance(result, ToolResult)
        assert call.tool_call_id == result.tool_call_id
        shown = [["Weather?", "Let me look.\n[Tool Call: get_weather]\n\n[Tool Result: get_weather] sunny in Rome\n\nSunny."]]  # fmt: skip
        assert scene.service.display_history == shown
        again = ChatService({}, store=scene.service.store, conversation=scene.service.conversation)
        again.load()
        assert again.display_history == shown


def test_answers_with_tools_stand_together_although_they_were_given_at_once(
    read: Read, registry: ToolRegistry
) -> None:
    call = Say(calls=[Call("get_weather", {"city": "Rome"})])
    with stage(tools=registry, claude=[call, "C", "later"], gemini=[call, "G"]) as scene:
        read(scene.service.process_message("@all Weather?"))
        roles = [turn.role for turn in scene.service.turns[1:]]
        assert sorted([roles[:3], roles[3:]]) == [["claude", "tool", "claude"], ["gemini", "tool", "gemini"]]  # fmt: skip
        other = ChatService({}, store=scene.service.store, conversation=scene.service.conversation)
        other.load()
        assert other.turns == scene.service.turns
        read(scene.service.process_message("@claude Go on"))  # the simulator validates the request


def test_a_speaker_may_have_some_tools_or_none(registry: ToolRegistry) -> None:
    settings = {
        "all": SpeakerSettings("x"),
        "none": SpeakerSettings("x", tools=False),
        "other": SpeakerSettings("x", tools=("delete_*",)),
    }
    offered = {
        name: [tool.name for tool in tools_for(registry, each.tools).definitions()]
        for name, each in settings.items()
    }
    assert offered == {"all": ["get_weather"], "none": [], "other": []}
    refused = (
        tools_for(registry, False).submit(ToolCall("get_weather", {"city": "x"}, "1")).result()
    )
    assert refused.is_error


def test_editing_makes_a_branch_and_keeps_the_other(read: Read) -> None:
    with stage(claude=["A", "B", "C"]) as scene:
        service = scene.service
        read(service.process_message("first"))
        read(service.process_message("second"))
        message = service.turns[0].id or ""
        read(service.edit(message, "instead"))
        assert scene.words() == [("user", "instead"), ("claude", "C")]
        assert "first" not in json.dumps(scene.body("claude"))
        assert not service.turns[0].meta.get("memo")
        service.switch(message)
        assert [words for _, words in scene.words()] == ["first", "A", "second", "B"]


def test_regenerating_asks_one_and_keeps_the_others(read: Read) -> None:
    with stage(claude=["C1", "C2"], gemini=["G1"]) as scene:
        service = scene.service
        read(service.process_message("@all Hi"))
        answer = next(turn.id or "" for turn in service.turns if turn.role == "claude")
        read(service.regenerate(answer))
        assert sorted(scene.words()) == [("claude", "C2"), ("gemini", "G1"), ("user", "Hi")]
        assert "G1" not in json.dumps(scene.body("claude"))
        with pytest.raises(UsageError, match="can be edited"):
            read(service.regenerate(service.turns[0].id or ""))
        with pytest.raises(UsageError, match="switch to its branch"):
            read(service.regenerate(answer))


def test_retrying_asks_only_those_who_failed(read: Read) -> None:
    with stage(claude=[Status(529), "C"], gemini=["G"]) as scene:
        read(scene.service.process_message("@all Hi"))
        events = read(scene.service.retry())
        assert events[-1].answered == ("claude",)  # type: ignore[union-attr]
        assert sorted(scene.words()) == [("claude", "C"), ("gemini", "G"), ("user", "Hi")]
        assert len(scene.simulators["gemini"].requests) == 1


def test_a_message_or_an_answer_is_taken_off_the_branch_and_brought_back(read: Read) -> None:
    with stage(claude=["a1", "a2"], gemini=["b1", "b2"]) as scene:
        service = scene.service
        read(service.process_message("@all one"))
        read(service.process_message("@all two"))
        whole = scene.words()
        first, answer = service.turns[0].id, next(t for t in service.turns if t.role == "gemini").id
        assert first is not None
        assert answer is not None
        before = service.remove(first)
        assert scene.words() == whole[3:]
        service.switch(before)
        assert scene.words() == whole
        before = service.remove(answer)
        assert scene.words() == [each for each in whole if each != ("gemini", "b1")]
        service.switch(before)
        last = service.turns[3].id
        assert last is not None
        service.remove(last)
        assert scene.words() == whole[:3]
        with pytest.raises(UsageError, match="no turn"):
            service.remove("unknown")


def test_a_wait_for_the_provider_is_an_event(read: Read) -> None:
    busy = Status(429, headers={"retry-after": "1"})
    with Simulator([busy, Say("Now.")]) as simulator:
        address = simulator.base_url("anthropic")
        provider = create_provider("anthropic", base_url=address, api_key="k")
        service = ChatService({"claude": provider})
        events = read(service.process_message("Hi"))
        (wait,) = [event for event in events if isinstance(event, RunWaiting)]
        assert wait.reason == "retry"
        assert wait.until is not None
        assert wait.text == "anthropic is busy (429); tries again in 1 s."
        assert words_of(service.turns[-1]) == "Now."
        service.close()


def test_an_answer_is_continued(read: Read) -> None:
    with stage(claude=[Say("Once upon", finish="length"), " a time."]) as scene:
        events = read(scene.service.process_message("Tell"))
        assert next(e for e in events if isinstance(e, RunFinished)).stop_reason == "length"
        read(scene.service.continue_answer())
        assert [words for _, words in scene.words()] == ["Tell", "Once upon", " a time."]


def test_a_council_weighs_the_answers(read: Read) -> None:
    settings = Settings(council=CouncilSettings(speaker="claude"))
    with stage(settings, claude=["C", "Gemini is right.", "x"], gemini=["G", "y"]) as scene:
        events = read(scene.service.process_message("@all 2+2?"))
        assert events[-1].answered[-1] == "claude"  # type: ignore[union-attr]
        asked = json.dumps(scene.body("claude"))
        assert "[gemini] G" in asked
        assert "Several models have answered" in asked
        assert scene.service.turns[-1].meta["council"] is True
        assert len(scene.service.turns) == 4
        read(scene.service.process_message("@all again", council=False))
        assert len(scene.simulators["claude"].requests) == 3


def test_pictures_go_with_the_words(read: Read) -> None:
    picture = Media("image/png", data="iVBORw0KGgo=", name="a.png")
    with stage(claude=["Nice."]) as scene:
        read(scene.service.process_message("Look", media=[picture]))
        assert "iVBORw0KGgo=" in json.dumps(scene.body("claude"))
        assert scene.service.turns[0].parts[-1] == picture


def test_a_conversation_continues_where_another_process_left_it(read: Read, tmp_path: Path) -> None:
    place = tmp_path / "c.db"
    with stage(store=place, claude=["A"]) as first:
        read(first.service.process_message("one"))
        conversation = first.service.conversation
    with stage(store=place, conversation=conversation, claude=["B"]) as second:
        read(second.service.process_message("two"))
        assert [words for _, words in second.words()] == ["one", "A", "two", "B"]
        with open_store(place) as other:
            assert len(other.run(path, conversation)) == 4
            assert len(other.run(runs, conversation)) == 2


def test_an_unknown_conversation_is_said(read: Read) -> None:
    with stage(conversation="gone", claude=["A"]) as scene, pytest.raises(StoreError, match="gone"):
        read(scene.service.process_message("one"))


def test_cost_is_kept_by_turn_and_speaker_and_unknown_stays_unknown(read: Read) -> None:
    with stage(claude=["A"], groq=["B"]) as scene:
        service = scene.service
        service.speakers["claude"].provider.model = "claude-opus-4-1"
        service.speakers["groq"].provider.model = "nobody-knows-1"
        events = read(service.process_message("@all Hi"))
        costs = {e.speaker: e.cost for e in events if isinstance(e, RunFinished)}
        assert costs["claude"] is not None
        assert costs["claude"] > 0
        assert costs["groq"] is None
        kept = service.store.run(totals, service.conversation, "speaker")
        assert kept["claude"].costs["USD"] > 0
        assert kept["groq"].unknown_costs == 1


def test_what_the_user_typed_is_kept_beside_what_is_sent(read: Read) -> None:
    with stage(claude=["A"], gemini=[]) as scene:
        read(scene.service.process_message("@Claude, hello"))
        turn = scene.service.turns[0]
        assert words_of(turn) == "hello"
        assert turn.meta == {"addressed": ["claude"], "typed": "@Claude, hello"}


def test_a_provider_speaks_under_the_name_it_is_given() -> None:
    with Simulator([Say("Here.")]) as simulator:
        base = simulator.base_url("anthropic")
        with (
            create_provider("claude", api_key="k", base_url=base) as provider,
            ChatService({"bob": provider}) as service,
        ):
            list(service.process_message("@bob hello"))
            assert service.turns[-1].role == "bob"


def test_a_simulation_costs_nothing() -> None:
    with ChatService([create_provider("simulated")]) as service:
        events = list(service.process_message("Hi"))
    finished = next(event for event in events if isinstance(event, RunFinished))
    assert finished.cost == 0


@pytest.mark.parametrize("decision", [Allow(), Deny("not today")])
def test_what_a_person_is_asked_and_decides_is_part_of_the_run(
    read: Read, decision: Decision
) -> None:
    tools = ToolRegistry(approve=lambda _request: decision)

    @tools.tool(approval="ask")
    def erase(path: str) -> str:
        """Erase a file."""
        return path

    calls = Say(calls=[Call("erase", {"path": "a"})])
    with stage(tools=tools, claude=[calls, "Done."]) as scene:
        events = read(scene.service.process_message("Erase it."))
        (info,) = scene.service.answers()
        rows = scene.service.store.run(read_events, info.id).events
    asked = [event for event in events if isinstance(event, ApprovalRequested | ApprovalDecided)]
    assert [type(event) for event in asked] == [ApprovalRequested, ApprovalDecided]
    assert isinstance(asked[0], ApprovalRequested)
    assert asked[0].description == "Erase a file."
    assert isinstance(asked[1], ApprovalDecided)
    assert asked[1].allowed == isinstance(decision, Allow)
    assert asked[1].reason == ("" if asked[1].allowed else "not today")
    assert all(event.run == info.id and event.speaker == "claude" for event in asked)
    kinds = [json.loads(text)["type"] for _, text in rows]
    assert kinds.index("approval_requested") < kinds.index("approval_decided")


def test_changed_arguments_are_recorded_beside_the_call_that_the_model_wrote(read: Read) -> None:
    edited = {"path": "b"}
    tools = ToolRegistry(approve=lambda _request: Allow(arguments=edited))
    ran: list[str] = []

    @tools.tool(approval="ask")
    def erase(path: str) -> str:
        """Erase a file."""
        ran.append(path)
        return f"erased {path}"

    says = [Say(calls=[Call("erase", {"path": "a"})]), "Done."]
    with stage(tools=tools, claude=says) as scene:
        events = read(scene.service.process_message("Erase it."))
        (info,) = scene.service.answers()
        rows = scene.service.store.run(read_events, info.id).events
        (call,) = [each for each in scene.service.store.run(calls, info.id) if each.kind == "tool"]
        (_, calling, results, _) = scene.service.turns
        sent = json.dumps(scene.body("claude"))
    assert ran == ["b"]
    (decided,) = [event for event in events if isinstance(event, ApprovalDecided)]
    assert (decided.allowed, decided.arguments) == (True, edited)
    assert [
        json.loads(text).get("arguments") for _, text in rows if "approval_decided" in text
    ] == [edited]
    assert (as_object(call.result) or {})["arguments"] == edited
    assert isinstance(calling.parts[0], ToolCall)
    assert calling.parts[0].arguments == {"path": "a"}
    assert results.meta["arguments"] == {calling.parts[0].tool_call_id: edited}
    assert "The user changed the arguments" in sent
    assert "erased b" in sent


def test_actions_know_the_whole_branch_although_only_its_end_was_read(tmp_path: Path) -> None:
    place = tmp_path / "c.db"
    with stage(store=place, claude=[f"Answer {number}." for number in range(6)]) as scene:
        for number in range(6):
            list(scene.service.process_message(f"Question {number}"))
        conversation, whole = scene.service.conversation, scene.service.turns

    def reopened(*says: str) -> Any:
        return stage(store=place, conversation=conversation, claude=says)

    with reopened("Again.") as scene:
        service = scene.service
        assert LOOP.run(service.arefresh(3))
        assert service.turns == whole[-4:]  # from a message on
        assert not service.is_whole
        assert service.tokens_before > 0
        LOOP.run(read_all(service.process_message("More")))
        assert "Question 0" in json.dumps(scene.body("claude"))
        assert service.is_whole
        assert service.turns[: len(whole)] == whole
        assert LOOP.run(service.arefresh(3))
        assert service.is_whole  # turns that were already read stay
    with reopened("Edited.") as scene:
        assert LOOP.run(scene.service.arefresh(3))
        LOOP.run(read_all(scene.service.edit(whole[0].id or "", "Another beginning")))
        assert scene.words() == [("user", "Another beginning"), ("claude", "Edited.")]
    with reopened() as scene:
        LOOP.run(scene.service.aswitch(whole[-1].id or ""))
    with reopened() as scene:
        assert LOOP.run(scene.service.arefresh(3))
        before = LOOP.run(scene.service.aremove(whole[0].id or ""))
        assert scene.words()[0] == ("user", "Question 1")
        LOOP.run(scene.service.aswitch(before))
        assert scene.service.turns[: len(whole)] == whole


async def read_all(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


def test_speakers_are_given_by_name_as_well():
    with ChatService(["claude", create_provider("gemini")]) as chat:
        assert list(chat.speakers) == ["claude", "gemini"]
    with ChatService("claude") as chat:
        assert list(chat.speakers) == ["claude"]
    wrong: Any = 5
    with pytest.raises(UsageError, match="ChatService takes a list such as"):
        ChatService(wrong)
