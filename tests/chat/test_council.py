"""Councils: members with tools, a member that fails, and a verdict whose links point to existing paragraphs."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chat.stage import ONCE, Read, stage
from tests.cli.commands import shell

from multi_llm_chat import Agent, ToolRegistry
from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.chat.council import (
    Verdict,
    chair_history,
    member_answers,
    read_verdict,
    readable_verdicts,
    split_paragraphs,
    verdict_schema,
)
from multi_llm_chat.config.config_file import parse_settings
from multi_llm_chat.config.settings import PanelSettings, Settings
from multi_llm_chat.errors import OutputError, UsageError
from multi_llm_chat.events import (
    Event,
    MessageFinished,
    RunStarted,
    TextDelta,
    ToolFinished,
    TurnFinished,
)
from multi_llm_chat.history.values import Media, Text, Turn
from multi_llm_chat.runs.spec import recorded_spec
from multi_llm_chat.store import begin_run
from multi_llm_chat.testing.simulator import Call, Say, Simulator, Status

PANEL = Settings(councils={"panel": PanelSettings(("claude", "gemini", "chatgpt"), "chatgpt")})


def get_height(mountain: str) -> str:
    """The height of a mountain."""
    return {"K2": "8611 m"}.get(mountain, "unknown")


LOOK_UP = Say(calls=[Call("get_height", {"mountain": "K2"})])


def verdict(*claims: tuple[str, list[str], list[str]], answer: str = "8611 m.") -> Say:
    listed = [{"claim": text, "agree": yes, "contradict": no} for text, yes, no in claims]
    return Say(json.dumps({"answer": answer, "claims": listed}))


def finished(events: list[Event]) -> MessageFinished:
    last = events[-1]
    assert isinstance(last, MessageFinished)
    return last


def test_three_members_with_tools_and_one_that_fails(read: Read) -> None:
    good = verdict(("K2 is 8611 m high.", ["claude:1"], ["chatgpt:2"]))
    picture = Media("image/png", data="iVBORw0KGgo=", name="k2.png")
    tools = ToolRegistry()
    tools.tool(get_height)
    with stage(
        PANEL,
        tools=tools,
        claude=[LOOK_UP, Say("It is 8611 m high.\n\nI looked it up.")],
        gemini=[Status(401)],
        chatgpt=[LOOK_UP, Say("A high one.\n\nIt is 8000 m high."), good],
    ) as scene:
        events = read(
            scene.service.process_message("@council:panel How high is K2?", media=[picture])
        )
        last = scene.service.turns[-1]
        asked = json.dumps(scene.simulators["chatgpt"].requests[-1].body, ensure_ascii=False)
        images = [str(scene.simulators[name].requests[0].body) for name in ("claude", "chatgpt")]
    assert finished(events).failed == ("gemini",)
    assert finished(events).answered == ("claude", "chatgpt", "chatgpt")
    assert len([event for event in events if isinstance(event, ToolFinished)]) == 2
    assert all("iVBORw0KGgo=" in body for body in images)  # members get the files
    found = read_verdict(last)
    assert found is not None
    assert found.answer == "8611 m."
    assert found.claims[0].contradict == ("chatgpt:2",)
    answers = {
        "claude": ["It is 8611 m high.", "I looked it up."],
        "chatgpt": ["A high one.", "It is 8000 m high."],
    }
    assert jsonschema_rs.is_valid(verdict_schema(answers), json.loads(last.parts[0].content))  # type: ignore[union-attr]
    for claim in found.claims:
        for link in (*claim.agree, *claim.contradict):
            name, _, number = link.partition(":")
            assert answers[name][int(number) - 1]
    assert "[claude:1] It is 8611 m high." in asked
    assert "gemini did not answer." in asked
    assert '"claude:2"' in asked  # the schema lists every paragraph
    assert "gemini:1" not in asked
    purposes = [event.purpose for event in events if isinstance(event, RunStarted)]
    assert purposes == ["", "", "", "verdict"]
    streamed = [event for event in events if isinstance(event, TextDelta) and event.speaker == "claude"]  # fmt: skip
    assert len(streamed) > 1


def test_a_link_to_nothing_is_asked_for_again_and_the_wrong_verdict_is_on_another_branch(
    read: Read,
) -> None:
    wrong = verdict(("It is so.", ["claude:9"], []))
    right = verdict(("It is so.", ["claude:1"], []))
    with stage(PANEL, claude=["One."], gemini=["Two."], chatgpt=["Three.", wrong, right]) as scene:
        events = read(scene.service.process_message("@council:panel Well?"))
        found = read_verdict(scene.service.turns[-1])
        shown = [turn for turn in scene.service.turns if turn.meta.get("verdict")]
        complaint = json.dumps(scene.simulators["chatgpt"].requests[-1].body)
        scene.service.load()
        assert [turn for turn in scene.service.turns if turn.meta.get("verdict")] == shown
    assert found is not None
    assert found.claims[0].agree == ("claude:1",)
    assert len(shown) == 1
    assert "An earlier verdict could not be used" in complaint
    assert "$.claims[0].agree[0]" in complaint
    assert finished(events).failed == ()


def test_a_missing_verdict_or_answer_is_asked_for_again_alone(read: Read) -> None:
    first = verdict(("It is so.", ["claude:1"], []))
    with stage(
        PANEL,
        claude=["One."],
        gemini=[Status(401), "Two."],
        chatgpt=["Three.", Status(401), first],
    ) as scene:
        events = read(scene.service.process_message("@council:panel Well?"))
        assert set(finished(events).failed) == {"gemini", "chatgpt"}
        events = read(
            scene.service.retry()
        )  # Gemini had not answered: it answers now, and there is a new verdict
        assert finished(events).answered == ("gemini", "chatgpt")
        shown = [turn for turn in scene.service.turns if turn.meta.get("verdict")]
        assert len(shown) == 1
        assert len(scene.simulators["claude"].requests) == 1
    with stage(PANEL, claude=["1"], gemini=["2"], chatgpt=["3", Status(401), first]) as scene:
        read(scene.service.process_message("@council:panel Well?"))
        events = read(scene.service.retry())
        assert finished(events).answered == ("chatgpt",)
        assert read_verdict(scene.service.turns[-1]) is not None
        assert len(scene.simulators["claude"].requests) == 1


def test_an_interrupted_verdict_is_resumed(read: Read) -> None:
    right = verdict(("It is so.", ["claude:1"], []))
    with stage(PANEL, claude=["One."], gemini=["Two."], chatgpt=["Three.", right]) as scene:
        service = scene.service
        read(service.process_message("Well?", to=["claude", "gemini", "chatgpt"]))
        schema = verdict_schema(member_answers(service.turns))
        spec = recorded_spec({"council": True, "verdict": True}, schema)
        base = service.placed[-1].turn.id
        service.store.run(begin_run, service.conversation, "chatgpt", base=base, spec=spec)
        # As after a crash of the process that started it.
        read(service.resume(service.conversation))
        assert isinstance(read_verdict(service.turns[-1]), Verdict)
        asked = json.dumps(scene.simulators["chatgpt"].requests[-1].body)
    assert "[gemini:1] Two." in asked
    assert "json_schema" in asked


def test_the_verdict_follows_a_member_that_was_interrupted(read: Read) -> None:
    right = verdict(("It is so.", ["claude:1"], ["gemini:1"]))
    scripts: dict[str, Any] = {"claude": ["One."], "gemini": [Status(401), "Two."], "chatgpt": ["Three.", Status(401), right]}  # fmt: skip
    with stage(PANEL, **scripts) as scene:
        service = scene.service
        read(service.process_message("@council:panel Well?"))
        (message,) = [turn for turn in service.turns if turn.role == "user"]
        spec = recorded_spec({}, None)
        service.store.run(begin_run, service.conversation, "gemini", base=message.id, spec=spec)
        events = read(service.resume(service.conversation))
        assert finished(events).answered == ("gemini", "chatgpt")
        assert isinstance(read_verdict(service.turns[-1]), Verdict)


def test_a_verdict_that_stays_wrong_is_not_counted_as_an_answer(read: Read) -> None:
    with stage(PANEL, claude=["1"], gemini=["2"], chatgpt=["3", "no", "no", "no"]) as scene:
        events = read(scene.service.process_message("@council:panel Well?"))
        assert read_verdict(scene.service.turns[-1]) is None
    assert finished(events).failed == ("chatgpt",)
    assert finished(events).answered == ("claude", "gemini", "chatgpt")


def test_without_answers_there_is_no_verdict(read: Read) -> None:
    broken = [Status(401)]
    with stage(PANEL, claude=broken, gemini=broken, chatgpt=broken) as scene:
        events = read(scene.service.process_message("@council:panel Well?"))
        assert len(scene.simulators["chatgpt"].requests) == 1
    assert set(finished(events).failed) == {"claude", "gemini", "chatgpt"}


def test_a_council_is_a_speaker_wherever_one_is_named(read: Read) -> None:
    right = verdict(("It is so.", ["claude:1"], []))
    panel = Settings(councils={"Panel": PanelSettings(("claude", "gemini"))})
    with stage(panel, claude=["One.", right, "One.", right], gemini=["Two.", "Two."]) as scene:
        assert scene.service.known_speaker("COUNCIL:panel") == "council:Panel"
        read(scene.service.process_message("Well?", to=["council:panel"]))
        scene.service.configure(speakers=["council:Panel"])
        read(scene.service.process_message("And now?"))  # the only participant
        verdicts = [turn for turn in scene.service.turns if turn.meta.get("verdict")]
        assert [turn.role for turn in verdicts] == ["claude", "claude"]
        with pytest.raises(UsageError, match="no speaker"):
            scene.service.known_speaker("council:other")


def test_any_speakers_can_be_weighed_with_a_verdict(read: Read) -> None:
    right = verdict(("It is so.", ["gemini:1"], []))
    with stage(claude=["One.", right], gemini=["Two."]) as scene:
        read(scene.service.process_message("@all Well?", council="claude", verdict=True))
        assert isinstance(read_verdict(scene.service.turns[-1]), Verdict)


def test_an_agent_of_several_speakers_returns_the_verdict() -> None:
    scripts = {
        "anthropic": [LOOK_UP, Say("8611 m."), Say("Again.")],
        "gemini": [Status(401), Status(401)],
        "openai": [Say("8000 m."), verdict(("8611 m.", ["claude:1"], ["chatgpt:1"])), Say("x"), *[Say("no")] * 3],
    }  # fmt: skip
    with Simulator(scripts) as simulator:
        models = {
            name: create_provider(row, base_url=simulator.base_url(row), api_key="key", retry=ONCE)
            for name, row in (("claude", "anthropic"), ("gemini", "gemini"), ("chatgpt", "openai"))
        }
        with Agent(models, tools=[get_height], council="chatgpt") as agent:
            result = agent.run_sync("How high is K2?")
            found: Any = result.output
            assert isinstance(found, Verdict)
            assert found.claims[0].agree == ("claude:1",)
            assert result.text == "8611 m."
            assert result.answers == {"claude": "8611 m.", "chatgpt": "8000 m."}
            with pytest.raises(OutputError, match="no verdict"):
                agent.run_sync("And now?")
    with pytest.raises(UsageError, match="one of several speakers"):
        Agent("claude", council="gemini")


def test_readers_see_a_table(read: Read) -> None:
    right = verdict(("It is | so.", ["claude:1"], ["gemini:1"]), answer="Yes.")
    with stage(PANEL, claude=["One."], gemini=["Two."], chatgpt=["Three.", right]) as scene:
        events = list(
            readable_verdicts(read(scene.service.process_message("@council:panel Well?")))
        )
    run = next(event.run for event in events if isinstance(event, RunStarted) and event.purpose)
    words = "".join(event.text for event in events if isinstance(event, TextDelta) and event.run == run)  # fmt: skip
    assert words == (
        "Yes.\n\n| claim | agree | contradict |\n|---|---|---|\n| It is \\| so. | claude ¶1 | gemini ¶1 |"
    )
    (turn,) = [event.turn for event in events if isinstance(event, TurnFinished) and event.run == run]  # fmt: skip
    assert turn.parts == (Text(words),)


def test_the_command_line_has_councils(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        '[councils.panel]\nmembers = ["claude", "gemini"]\nchair = "gemini"\n'
    )
    right = verdict(("It is so.", ["claude:1"], []), answer="Yes.")
    scripts: dict[str, Any] = {"anthropic": [Say("One.")] * 2, "gemini": [Say("Two."), right] * 2}
    with shell(tmp_path, **scripts) as (mlc, _):
        printed = mlc.run("ask", "-m", "council:panel", "Well?", "--plain")
        assert "| It is so. | claude ¶1 | – |" in printed
        assert "claude:\nOne." in printed
        assert printed.count("gemini:\n") == 2  # its answer, and the verdict
        found = json.loads(mlc.run("@council:panel Well?", "--json"))
        assert json.loads(found["answers"][-1]["text"])["answer"] == "Yes."
        assert "@council:panel" in mlc.run("speakers")


@pytest.mark.parametrize("members", ["[]", '["claude"]', '["claude", "claude"]'])
def test_a_council_needs_two_members(members: str) -> None:
    with pytest.raises(UsageError, match="two members"):
        parse_settings(f"[councils.panel]\nmembers = {members}")


TEXTS = st.text(st.sampled_from("ab \n`#|-"), max_size=60)


@given(TEXTS)
def test_paragraphs_hold_every_word_and_are_never_empty(text: str) -> None:
    found = split_paragraphs(text)
    assert all(each.strip() for each in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@given(st.dictionaries(st.sampled_from(["claude", "gemini", "chatgpt"]), TEXTS, min_size=1))
def test_every_id_that_the_chair_sees_is_in_the_schema_and_no_other(texts: dict[str, str]) -> None:
    turns = [
        Turn("user", (Text("Well?"),)),
        *(Turn(name, (Text(text),)) for name, text in texts.items()),
    ]
    answers = member_answers(turns)
    sent = chair_history(turns)[-1].parts[0]
    assert isinstance(sent, Text)
    ids = verdict_schema(answers)["properties"]["claims"]["items"]["properties"]["agree"]["items"][
        "enum"
    ]
    assert len(ids) == sum(map(len, answers.values()))
    assert all(f"[{each}]" in sent.content for each in ids)
    assert set(answers) == {name for name, text in texts.items() if text.strip()}
