"""What the doctor finds, and that it reveals no secret."""

import asyncio
from pathlib import Path

import pytest

from multi_llm_chat.chat.doctor import Diagnosis, Finding, diagnose
from multi_llm_chat.config.folders import Folders, program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.secrets import MemorySecrets
from multi_llm_chat.store import open_store
from multi_llm_chat.testing.simulator import Simulator


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    places = program_folders({"MULTI_LLM_CHAT_HOME": str(tmp_path)})
    places.config.mkdir()
    places.data.mkdir()
    return places


def examine(folders: Folders, *, ask: bool = False, **environment: str) -> Diagnosis:
    keys = Keys(
        folders=folders,
        environment=environment,
        secrets=MemorySecrets(),
        working_folder=folders.state,
    )
    return asyncio.run(diagnose(folders, keys, ask_providers=ask))


def finding(found: Diagnosis, area: str, name: str = "") -> Finding:
    return next(each for each in found.findings if each.area == area and name in each.name)


def test_a_fresh_machine_is_healthy_and_the_doctor_says_what_can_be_added(folders: Folders) -> None:
    found = examine(folders)
    assert found.is_well
    assert finding(found, "config").state == "missing"
    assert finding(found, "store").state == "missing"
    key = finding(found, "key", "anthropic")
    assert (key.state, "ANTHROPIC_API_KEY" in key.advice) == ("missing", True)
    assert finding(found, "extra", "mcp").state == "ok"


def test_every_trouble_is_found_at_once(folders: Folders) -> None:
    folders.config_file.write_text("speekers = 1")
    folders.servers_file.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {}}}')
    folders.store_file.write_text("no database at all, but long enough to be looked at" * 100)
    found = examine(folders)
    assert not found.is_well
    assert "did you mean 'speakers'" in finding(found, "config").detail
    assert finding(found, "store").state == "wrong"
    assert finding(found, "mcp", "a").state == "ok"
    assert any(each.state == "wrong" and "'b'" in each.detail for each in found.findings)


def test_speakers_and_groups_are_checked(folders: Folders) -> None:
    folders.config_file.write_text(
        '[speakers.bob]\nprovider = "nobody"\n[speakers.ann]\nprovider = ["claude", "local"]\n'
        '[groups]\nteam = ["ann", "carl"]\n'
    )
    with open_store(folders.store_file):
        pass
    found = examine(folders)
    assert "'nobody'" in finding(found, "speaker", "bob").detail
    assert finding(found, "speaker", "ann").state == "ok"
    assert "'carl'" in finding(found, "group", "team").detail
    assert finding(found, "store").state == "ok"


def test_keys_are_tried_and_never_shown(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "gsk_0123456789abcdefghij"
    with Simulator(key=key) as simulator:
        monkeypatch.setenv("GROQ_BASE_URL", simulator.base_url("groq"))
        works = examine(folders, ask=True, GROQ_API_KEY=key)
        fails = examine(folders, ask=True, GROQ_API_KEY="gsk_wrong_wrong_wrong_wrong")
    assert "works" in finding(works, "key", "groq").detail
    assert finding(fails, "key", "groq").state == "wrong"
    assert not fails.is_well
    assert key not in repr(works)
    assert "gsk_wrong" not in repr(fails)


def test_settings_that_a_model_does_not_take_are_named_with_rule_and_source(
    folders: Folders,
) -> None:
    folders.config_file.write_text(
        '[speakers.wise]\nprovider = ["anthropic", "openai"]\nmodel = "claude-opus-5-5"\n'
        "options = { temperature = 0.3 }\n"
        '[speakers.odd]\nprovider = "openai"\noptions = { temperatur = 1 }\n'
    )
    found = examine(folders)
    wise = [each for each in found.findings if each.name == "wise"]
    assert [each.state for each in wise] == ["ok"] * len(wise)
    advice = next(each.advice for each in wise if "temperature" in each.detail)
    assert advice.startswith("ANT-35: No temperature where the model takes none (")
    odd = [each for each in found.findings if each.name == "odd"]
    assert "temperatur" in next(each.detail for each in odd if each.state == "wrong")
