"""One question, one answer: pipes, files, JSON and exit codes."""

import json
import signal
from pathlib import Path

from tests.cli.commands import Shell, shell

from multi_llm_chat.store import list_conversations, open_store, path
from multi_llm_chat.testing.simulator import Call, Gate, Say, Status

SERVER = Path(__file__).parent.parent / "tools" / "servers"


def test_words_alone_are_a_question_and_the_answer_is_all_of_the_output(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("The sky scatters blue.")]) as (mlc, _):
        assert mlc.run("Why is the sky blue?") == "The sky scatters blue.\n"
        assert "out" in mlc.errors
        assert "Why is the sky blue?" in mlc.run("history", "list")


def test_what_is_piped_in_is_part_of_the_question(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("Short.")], gemini=[Say("Brief.")]) as (mlc, simulator):
        printed = mlc.run("@all summarise", "--json", input="my long notes")
        asked = json.dumps(simulator.requests[0].body)
    found = json.loads(printed)
    assert {answer["speaker"]: answer["text"] for answer in found["answers"]} == {
        "claude": "Short.",
        "gemini": "Brief.",
    }
    assert "my long notes" in asked
    assert found["answers"][0]["usage"]["output_tokens"] > 0


def test_every_event_can_be_had_as_a_line(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("One two three")]) as (mlc, _):
        lines = [json.loads(line) for line in mlc.run("count", "--jsonl").splitlines()]
    assert [lines[0]["type"], lines[-1]["type"]] == ["message_saved", "message_finished"]
    text = "".join(line["text"] for line in lines if line["type"] == "text_delta")
    assert text == "One two three"


def test_several_are_named_and_a_conversation_continues(tmp_path: Path) -> None:
    says = [Say("Claude here."), Say("Still here.")]
    with shell(tmp_path, anthropic=says, gemini=[Say("Gemini here.")]) as (mlc, simulator):
        printed = mlc.run("ask", "-m", "claude", "-m", "gemini", "hello", "--no-stream")
        assert printed == "claude:\nClaude here.\ngemini:\nGemini here.\n"
        assert mlc.run("ask", "-c", "-m", "claude", "again") == "Still here.\n"
        assert "[gemini] Gemini here." in json.dumps(simulator.requests[-1].body)


def test_files_and_schemas_go_along(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("alpha beta")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "junk.bin").write_bytes(b"\xff\xfe\x00")
    schema = '{"type":"object","properties":{"city":{"type":"string"}}}'
    with shell(tmp_path, openai=[Say('{"city":"Rome"}')]) as (mlc, simulator):
        mlc.run("which?", "-a", "notes.txt", "-a", "dot.png", "--schema", schema)
        asked = json.dumps(simulator.requests[0].body)
        assert "alpha beta" in asked
        assert "image/png" in asked
        assert "json_schema" in asked
        mlc.run("which?", "-a", "junk.bin", code=2)
        assert "neither text nor a picture" in mlc.errors
        mlc.run("which?", "--schema", "{", code=2)
        assert "not JSON" in mlc.errors
        mlc.run("which?", "--schema", '{"type": "nonsense"}', code=2)
        assert "the schema cannot be used" in mlc.errors


def test_an_answer_that_breaks_its_schema_is_asked_for_again_and_never_printed(
    tmp_path: Path,
) -> None:
    schema = '{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}'
    wrong = Say('{"age": "old"}')
    with shell(tmp_path, openai=[wrong, Say('{"age": 7}'), wrong, wrong, Say("Old.")]) as (
        mlc,
        simulator,
    ):
        assert mlc.run("how old?", "--schema", schema) == '{"age": 7}\n'
        # The error is sent back to the model.
        assert "$.age" in json.dumps(simulator.requests[1].body)
        assert "$.age" in mlc.errors
        assert mlc.run("how old?", "--schema", schema, code=1) == ""
        assert "no JSON" in mlc.errors
        assert "Old." in mlc.errors


def test_the_json_of_an_answer_says_that_it_breaks_its_schema(tmp_path: Path) -> None:
    schema = '{"type":"object","required":["age"]}'
    with shell(tmp_path, openai=[Say("{}")] * 3) as (mlc, _):
        found = json.loads(mlc.run("how old?", "--json", "--schema", schema, code=1))
    assert len(found["answers"]) == 3
    assert all("age" in answer["schema_error"] for answer in found["answers"])


def test_tools_of_the_provider_are_asked_for_by_name(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("Rain."), Say("Still rain.")]) as (mlc, simulator):
        mlc.run("ask", "weather?", "--server-tool", "web_search", "--server-tool", "web_fetch")
        mlc.run("ask", "-c", "and now?")
    for request in simulator.requests:  # it belongs to the conversation
        kinds = [tool["type"] for tool in request.body["tools"] if "type" in tool]
        assert kinds == ["web_search_20250305", "web_fetch_20250910"]


def test_exit_codes_show_the_outcome(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Status(401), Status(401)], gemini=[Say("Fine.")]) as (mlc, _):
        mlc.run("@claude hi", code=1)
        assert "key" in mlc.errors
        assert mlc.run("@all hi", code=3) == "claude:\ngemini:\nFine.\n"
        mlc.run("ask", code=2)
        mlc.run("ask", "--nonsense", code=2)
        mlc.run("ask", "-m", "bard", "hi", code=2)
        assert "There is no speaker 'bard'" in mlc.errors
        mlc.run("histroy", code=2)
        assert "did you mean 'history'" in mlc.errors


def test_a_tool_without_approval_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("secret word: tulip")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f'[tools]\napproval = "ask"\nfolders = ["{tmp_path / "notes"}"]\n'
    )
    call = Say(calls=[Call("read_file", {"path": str(tmp_path / "notes" / "a.txt")})])
    replies = [call, Say("I could not."), call, Say("tulip")]
    with shell(tmp_path, anthropic=replies) as (mlc, simulator):
        assert mlc.run("read it", code=4) == "I could not.\n"
        assert "denied" in json.dumps(simulator.requests[1].body)
        assert mlc.run("read it", "--yes") == "tulip\n"
        assert "secret word: tulip" in json.dumps(simulator.requests[3].body)


def test_ctrl_c_keeps_what_was_said(tmp_path: Path) -> None:
    gate = Gate(after_frames=6)
    with shell(tmp_path, anthropic=[Say("One two three four", faults=[gate])]) as (mlc, _):
        with mlc.start("count", "--no-tools") as process:
            gate.wait_reached()
            assert process.stdout is not None
            assert process.stdout.read(3) == b"One"
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert process.returncode == 130
    with open_store(tmp_path / "data" / "conversations.db") as store:
        conversation = store.run(list_conversations).conversations[0].id
        turns = store.run(path, conversation)
    assert [turn.role for turn in turns] == ["user", "claude"]
    assert turns[-1].meta["partial"] is True


def test_a_closed_pipe_is_no_error_and_leaves_everything_in_order(tmp_path: Path) -> None:
    gate = Gate(after_frames=6)
    words = "word " * 20_000
    with shell(tmp_path, anthropic=[Say(words, delta_size=500, faults=[gate])]) as (mlc, _):
        with mlc.start("talk", "--no-tools") as process:
            gate.wait_reached()
            assert process.stdout is not None
            process.stdout.read(4)
            process.stdout.close()
            gate.open()
            assert process.stderr is not None
            errors = process.stderr.read().decode()
            process.wait(60)
        assert process.returncode == 141
        assert "Traceback" not in errors
    with open_store(tmp_path / "data" / "conversations.db") as store:
        conversation = store.run(list_conversations).conversations[0].id
        assert [turn.role for turn in store.run(path, conversation)] == ["user", "claude"]


def test_without_any_key_the_embedded_model_is_named_in_one_line(tmp_path: Path) -> None:
    with shell(tmp_path) as (mlc, _):
        assert "@local" in mlc.run("speakers")


def test_without_a_store_nothing_is_saved_and_a_store_that_refuses_does_not_matter(
    tmp_path: Path,
) -> None:
    says = [Say(calls=[Call("nothing", {})]), Say("Sunny."), Say("Still sunny.")]
    with shell(tmp_path, anthropic=says) as (mlc, _):
        broken = tmp_path / "data"
        broken.mkdir()
        (broken / "conversations.db").mkdir()  # no store can be opened at that path
        assert "could not be opened" in _errors_of(mlc, "ask", "weather?")
        assert mlc.run("ask", "--no-store", "weather?") == "Sunny.\n"
        assert list((broken / "conversations.db").iterdir()) == []
        assert mlc.run("--no-store", "and now?") == "Still sunny.\n"


def _errors_of(mlc: Shell, *words: str) -> str:
    mlc.run(*words, code=1)
    return mlc.errors


def test_no_store_contradicts_what_names_a_stored_conversation(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[]) as (mlc, _):
        for words in (("--db", "x.db"), ("--continue",), ("--chat", "x")):
            for command in (("ask", "hello"), ("chat",)):
                mlc.run(*command, "--no-store", *words, code=2)
                assert "--no-store begins a new conversation" in mlc.errors


def test_one_word_near_a_command_is_a_mistake_and_everything_else_a_question(
    tmp_path: Path,
) -> None:
    questions = ["hello", "tool use in short", "histroy of Rome", "/etc/hosts", "Chaat, please"]
    with shell(tmp_path, anthropic=[Say("Answered.")] * 5) as (mlc, simulator):
        for word, meant in {
            "histroy": "history",
            "tols": "tools",
            "/hsitory": "history",
            "Ask": "ask",
        }.items():
            mlc.run(word, code=2)
            assert f"did you mean {meant!r}" in mlc.errors
        mlc.run("/reset", code=2)
        assert "did you mean" in mlc.errors
        assert not simulator.requests
        for words in questions:
            assert mlc.run(*words.split(" ")) == "Answered.\n"


def test_the_first_systems_words_mean_what_they_meant(tmp_path: Path) -> None:
    lines = [
        "/system Be kind.", "@claude one", "@claude two", "/copy 0", "/copy 1", "/copy 7", "/copy x", "/copy -1",
        "/reset", "/system", "/system clear", "/system", "/hepl", "EXIT", "@claude never asked",
    ]  # fmt: skip
    with shell(tmp_path, anthropic=[Say("First."), Say("Second.")]) as (mlc, simulator):
        printed = mlc.run("chat", input="\n".join(lines) + "\n")
        assert len(simulator.requests) == 2
        assert all("Be kind." in request.content.decode() for request in simulator.requests)
    assert printed.count("Second.") == printed.count("First.") == 2
    assert "There is no answer 7" in mlc.errors
    assert mlc.errors.count("/copy takes a number") == 2
    assert "The system prompt stays." in mlc.errors
    assert mlc.errors.index("The system prompt stays.") < mlc.errors.index("Be kind.")
    assert "There is no system prompt" in mlc.errors
    assert "did you mean /help?" in mlc.errors
