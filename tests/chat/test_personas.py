"""Personas: named speakers with their own instructions, options and tools, in config, library and command line."""

import json
from pathlib import Path

import pytest
from tests.chat.stage import Read, stage
from tests.cli.commands import shell

from multi_llm_chat.chat.agent import load_agent
from multi_llm_chat.config.config_file import parse_settings
from multi_llm_chat.config.settings import PersonaSettings, Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.events import Event, MessageFinished
from multi_llm_chat.testing.simulator import Call, Say, Simulator

CONFIG = """
[speakers.claude]
provider = "anthropic"
[speakers.claude.options]
max_tokens = 500

[personas.reviewer]
speaker = "claude"
system_prompt = "Review code."
options = { stop = ["END"] }
tools = ["read_*"]

[groups]
desk = ["claude", "reviewer"]
"""


def answered(events: list[Event]) -> set[str]:
    last = events[-1]
    assert isinstance(last, MessageFinished)
    return set(last.answered)


def test_a_persona_answers_when_it_is_named(read: Read) -> None:
    persona = PersonaSettings(
        "Claude", model="claude-haiku-4-5", system_prompt="Review.", options={"temperature": 0.1}
    )
    settings = Settings(personas={"reviewer": persona}, groups={"desk": ("claude", "reviewer")})
    with stage(settings, claude=["c", "R", "c", "R"], gemini=["g"]) as scene:
        assert scene.service.names == ("claude", "gemini")
        assert answered(read(scene.service.process_message("@all hello"))) == {"claude", "gemini"}
        read(scene.service.process_message("@Reviewer look"))
        assert scene.service.turns[-1].role == "reviewer"
        assert answered(read(scene.service.process_message("@desk hello"))) == {
            "claude",
            "reviewer",
        }
        bodies = [request.body for request in scene.simulators["claude"].requests]
        asked = bodies[1]
        assert (asked["model"], asked["temperature"]) == ("claude-haiku-4-5", 0.1)
        assert "Review." in json.dumps(asked["system"])
        assert "temperature" not in bodies[0]
        assert "system" not in bodies[0]


def test_a_persona_of_an_unknown_speaker_is_an_error_of_its_own(read: Read) -> None:
    settings = Settings(personas={"ghost": PersonaSettings("casper")})
    with stage(settings, claude=["c"]) as scene:
        read(scene.service.process_message("hello"))
        with pytest.raises(UsageError, match="speaks as 'casper'"):
            read(scene.service.process_message("@ghost hello"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ('[personas.claude]\nspeaker = "gemini"', "two speakers, personas or groups"),
        ('[personas.all]\nspeaker = "gemini"', "meaning of its own"),
        ('[personas.b]\nspeaker = "reviewer"', "not another persona"),
        ('[personas.c]\nspeaker = "claude"\nsystem = "x"', "'system' is no setting"),
    ],
)
def test_mistakes_in_the_configuration_are_named(wrong: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_settings(f"{CONFIG}\n{wrong}")


def test_an_agent_is_loaded_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_file(path: str) -> str:
        """Read a file."""
        return f"content of {path}"

    def delete_file(path: str) -> str:
        """Delete a file."""
        raise AssertionError(path)

    calls = [Call("read_file", {"path": "a"}), Call("delete_file", {"path": "a"})]
    with Simulator({"anthropic": [Say(calls=calls), Say("Good.")]}) as simulator:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", simulator.base_url("anthropic"))
        settings = parse_settings(CONFIG)
        with load_agent("Reviewer", settings=settings, tools=[read_file, delete_file]) as agent:
            result = agent.run_sync("Review a.")
        body = simulator.requests[0].body
    assert result.text == "Good."
    assert [tool["name"] for tool in body["tools"]] == ["read_file"]
    assert (body["stop_sequences"], body["max_tokens"]) == (["END"], 500)
    assert "Review code." in json.dumps(body["system"])
    with pytest.raises(UsageError, match="no speaker"):
        load_agent("nosuch", settings=settings)


def test_a_persona_is_asked_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(CONFIG)
    with shell(tmp_path, anthropic=[Say("Fine."), Say("Fine again.")]) as (mlc, simulator):
        assert mlc.run("@reviewer hello") == "Fine.\n"
        assert mlc.run("ask", "-m", "reviewer:claude-haiku-4-5", "hello") == "Fine again.\n"
        assert "@reviewer" in mlc.run("speakers")
        assert "reviewer" in mlc.run("doctor")
    for request in simulator.requests:
        assert "Review code." in json.dumps(request.body["system"])
    assert simulator.requests[1].body["model"] == "claude-haiku-4-5"
