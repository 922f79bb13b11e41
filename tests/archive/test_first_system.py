"""Import of the first system's files, written as its documents describe them, without loss."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import Shell

from multi_llm_chat import open_store, render
from multi_llm_chat.archive.importer import read_conversations, read_files
from multi_llm_chat.chat.transfer import import_conversations
from multi_llm_chat.history.values import Text, ToolCall, ToolResult
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.store import list_conversations, read_document

NAMES = ["東京の天気", "旅行の計画", "買い物リスト", "料理レシピ", "プログラミング相談"]
#: The notes about a missing or orphan result.
PAIRING = re.compile(r"unanswered call|whose call is not in the history")
CREATED = "2025-03-0{day}T10:30:00+00:00"


def turns(number: int) -> list[dict[str, Any]]:
    """Return a conversation with two rounds of Gemini's tools, a note, and an answer of ChatGPT's."""
    call = {
        "type": "tool_call",
        "content": {"name": "get_weather", "arguments": {"city": f"Tokyo {number}"}},
    }
    named = {
        "type": "tool_call",
        "content": {"name": "search", "arguments": {"q": "x"}, "tool_call_id": None},
    }
    return [
        {"role": "user", "content": "@gemini 天気は？"},
        {"role": "gemini", "content": [{"type": "text", "content": "調べます。"}, call, call]},
        {
            "role": "tool",
            "content": [
                # Gemini has no ids: the result has the tool's name instead, or nothing.
                {"type": "tool_result", "name": "get_weather", "content": '{"temp": 1}', "tool_call_id": "get_weather"},
                {"type": "tool_result", "name": "get_weather", "content": "[2]"},
            ],
        },
        {"role": "gemini", "content": [named]},
        {"role": "tool", "content": [{"type": "tool_result", "name": "search", "content": {"hits": []}}]},
        {"role": "gemini", "content": [{"type": "text", "content": "晴れです。"}]},
        {"role": "user", "content": None},
        {"role": "user", "content": [{"type": "text", "content": "@ChatGPT: agree?"}]},
        {"role": "chatgpt", "content": "はい。"},
        {"role": "user", "content": "@all thanks"},
    ]  # fmt: skip


def files() -> dict[str, Any]:
    """Return thirty files of three users: 27 conversations, a draft, a prompt alone, and one in the oldest form."""
    made: dict[str, Any] = {}
    for number in range(27):
        user = ["hanako", "taro", "jiro"][number % 3]
        made[f"{user}/{'_' * 5}{number}.json"] = {
            "display_name": f"{NAMES[number % 5]} {number}",
            "system_prompt": "親切に。" if number % 2 else "",
            "turns": turns(number),
            "metadata": {
                "schema_version": 2,
                "created_at": CREATED.format(day=number % 9 + 1),
                "updated_at": "2025-04-01T00:00:00+00:00",
            },
        }
    made["taro/_autosave.json"] = {
        "type": "autosave_draft", "schema_version": 1, "user_id": "taro", "system_prompt": "",
        "turns": turns(28), "metadata": {"updated_at": "2025-05-05T05:05:05+00:00"},
    }  # fmt: skip
    made["jiro/prompt.json"] = {"display_name": "役割", "system_prompt": "あなたは先生です。", "turns": [], "metadata": {}}  # fmt: skip
    made["hanako/old.json"] = {
        "system_prompt": "", "turns": [{"role": "user", "content": "Hello"}, {"role": "gemini", "content": "Hi there"}],
    }  # fmt: skip
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, document in files().items():
        path = tmp_path / "chat_histories" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return tmp_path / "chat_histories"


def test_thirty_files_import_with_dates_titles_and_paired_rounds(folder: Path):
    data = [
        (f"x/{path.relative_to(folder)}", path.read_bytes())
        for path in sorted(folder.rglob("*.json"))
    ]
    with open_store(":memory:") as store:
        report = store.run(import_conversations, data)
        assert (len(report.conversations), report.problems) == (30, ())
        found = [store.run(read_document, each) for each in report.conversations]
        assert len(store.run(list_conversations, limit=50).conversations) == 30
    titles = {document.title for document in found}
    assert {"Draft of taro", "役割", "old", "東京の天気 0"} <= titles
    dated = [document for document in found if document.title not in ("役割", "old")]
    assert all(1_740_000_000_000 < document.created_ms < 1_750_000_000_000 for document in dated)
    prompt = next(document for document in found if document.title == "役割")
    assert (prompt.turns, prompt.settings["system_prompt"]) == ((), "あなたは先生です。")
    users = [document.settings["imported_from"]["user"] for document in found]
    assert {user: users.count(user) for user in users} == {"hanako": 10, "taro": 10, "jiro": 10}
    for document in dated:
        read = [placed.turn for placed in document.turns]
        assert len(read) == 10
        words = [turn.parts[0].content for turn in read if turn.role == "user" and turn.parts and isinstance(turn.parts[0], Text)]  # fmt: skip
        assert words == ["天気は？", "agree?", "thanks"]
        assert read[0].meta["typed"] == "@gemini 天気は？"
        assert read[-1].meta["addressed"] == ["gemini", "chatgpt"]
        calls = [part for turn in read for part in turn.parts if isinstance(part, ToolCall)]
        results = [part for turn in read for part in turn.parts if isinstance(part, ToolResult)]
        assert [part.tool_call_id for part in calls] == [part.tool_call_id for part in results]
        assert len({part.tool_call_id for part in calls}) == 3
        for provider in ROWS:
            notes = [note.message for note in render(read, provider).notes]
            assert [note for note in notes if PAIRING.search(note)] == [], provider


def test_the_pattern_finds_such_notes():
    broken = [
        {"role": "user", "content": "x"},
        *(turn for turn in turns(1) if turn["role"] != "tool"),
    ]
    orphan = [{"role": "user", "content": "x"}, turns(1)[2]]
    for history in (broken, orphan):
        notes = [note.message for note in render(history, "gemini").notes]
        assert any(PAIRING.search(note) for note in notes), notes


def test_a_zip_of_the_folder_and_one_bad_file(folder: Path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*.json")):
            archive.write(path, str(path.relative_to(folder)))
        archive.writestr("taro/broken.json", "{")
    imported = read_conversations(packed.getvalue())
    assert len(imported.conversations) == 30
    [problem] = imported.problems
    assert problem.startswith("taro/broken.json: ")
    assert read_files([("a/x.json", b'{"turns": [], "system_prompt": ""}')]).conversations == ()


def test_the_command_takes_folders_files_and_the_first_systems_own_folder(
    folder: Path, tmp_path: Path
):
    (tmp_path / ".env").write_text(
        "GOOGLE_API_KEY=google-secret-key-0123456789\nOPENAI_API_KEY=your_openai_api_key_here\n"
        "GEMINI_MODEL=models/gemini-pro-latest\nPATH=/evil\n",
        encoding="utf-8",
    )
    home = tmp_path / "home"
    home.mkdir()
    mlc = Shell(home, CHAT_HISTORY_DIR=str(folder))
    assert len(mlc.run("import").split()) == 30
    assert "30 conversations imported." in mlc.errors
    assert (
        "GOOGLE_API_KEY, GEMINI_MODEL=models/gemini-pro-latest; mlc import --take-env" in mlc.errors
    )
    assert "secret" not in mlc.errors
    assert "OPENAI_API_KEY" not in mlc.errors
    one, two = sorted(folder.rglob("*.json"))[:2]
    assert len(mlc.run("import", str(one), str(two)).split()) == 2
    mlc.run("import", str(folder / "taro"), "--take-env")
    mlc.run("import", str(folder), "--take-env")
    assert "GOOGLE_API_KEY is saved." in mlc.errors
    assert "…6789" in mlc.run("keys", "list")
    shown = json.loads(mlc.run("config", "show"))
    assert shown["speakers"]["gemini"]["model"] == "models/gemini-pro-latest"
    assert "Draft of taro" in mlc.run("history", "list", "--limit", "99")
    mlc.run("import", str(home / "nothing"), code=2)


def test_without_a_folder_the_command_asks_for_one(tmp_path: Path):
    Shell(tmp_path, HOME=str(tmp_path), XDG_DATA_HOME="", CHAT_HISTORY_DIR="").run("import", code=2)
