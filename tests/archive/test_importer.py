"""Import of conversation files: our own, ChatGPT's, Claude's, and plain lists, valid and broken."""

import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.histories import nasty_histories

from multi_llm_chat.archive._turn_tree import Node, grow
from multi_llm_chat.archive.document import MAIN, ConversationDocument, Imported, TreeTurn
from multi_llm_chat.archive.importer import read_conversations
from multi_llm_chat.archive.text_export import shown_turns, write_conversations
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Text, Thinking, ToolCall, ToolResult, Turn

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**40) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def read(document: Any) -> Imported:
    return read_conversations(json.dumps(document).encode())


def words_of(conversation: ConversationDocument) -> list[str]:
    return [
        part.content
        for turn in shown_turns(conversation)
        for part in turn.parts
        if isinstance(part, Text)
    ]


# Our own files.


@st.composite
def conversations(draw: st.DrawFn) -> ConversationDocument:
    turns = read_history(draw(nasty_histories))
    placed: list[TreeTurn] = []
    for number, turn in enumerate(turns):
        above = draw(st.integers(-1, number - 1))
        named = Turn(
            turn.role, turn.parts, f"t{number}", draw(st.none() | st.integers(0, 2**41)),
            turn.model, turn.meta, turn.unreadable,
        )  # fmt: skip
        run = draw(st.none() | st.sampled_from(["r1", "r2"]))
        placed.append(TreeTurn(named, None if above < 0 else f"t{above}", run))
    heads = {MAIN: f"t{draw(st.integers(0, len(turns) - 1))}"} if turns else {}
    return ConversationDocument(
        draw(st.text(min_size=1, max_size=8).filter(lambda text: clean_text(text).strip())),
        draw(st.text()),
        draw(st.integers(0, 2**41)),
        draw(st.none() | st.integers(0, 2**41)),
        tuple(placed),
        heads,
        draw(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)),
    )


@given(st.lists(conversations(), max_size=3))
def test_what_is_exported_imported_and_exported_is_the_same_to_the_byte(
    written: list[ConversationDocument],
) -> None:
    first = write_conversations(written, "json")
    imported = read_conversations(first.encode())
    assert write_conversations(imported.conversations, "json") == first
    assert imported.problems == ()


@given(conversations(), st.data())
def test_one_broken_turn_affects_no_other(
    written: ConversationDocument, data: st.DataObject
) -> None:
    document = json.loads(write_conversations([written], "json"))
    turns = document["conversations"][0]["turns"]
    if not turns:
        return
    broken = data.draw(st.integers(0, len(turns) - 1))
    turns[broken]["content"] = {"not": "content"}
    turns[broken].pop("unreadable", None)
    imported = read(document)
    kept = {each.turn.id for each in imported.conversations[0].turns}
    assert kept == {f"t{number}" for number in range(len(turns)) if number != broken}
    assert any("left out" in problem for problem in imported.problems)


def test_a_newer_file_is_not_guessed_at() -> None:
    with pytest.raises(UsageError, match="newer"):
        read({"format": "multi_llm_chat", "version": 2, "conversations": []})


# ChatGPT.


def node(
    identifier: str, parent: str | None, role: str, content: Any, **message: Any
) -> dict[str, Any]:
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}
    author: dict[str, Any] = {"role": role, "name": message.pop("name", None), "metadata": {}}
    body = {
        "id": identifier,
        "author": author,
        "content": content,
        "recipient": "all",
        "metadata": {},
    }
    return {"id": identifier, "parent": parent, "children": [], "message": body | message}


def chatgpt(*nodes: dict[str, Any], current: str, **settings: Any) -> dict[str, Any]:
    mapping: dict[str, Any] = {
        "root": {"id": "root", "message": None, "parent": None, "children": []}
    }
    mapping |= {each["id"]: each for each in nodes}
    return {
        "title": "Weather", "create_time": 1700000000.5, "mapping": mapping,
        "current_node": current, "conversation_id": "abc", **settings,
    }  # fmt: skip


def test_a_conversation_of_chatgpt_is_read_with_its_branches_and_tools() -> None:
    document = chatgpt(
        node("s", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
        node("u", "s", "user", "What is 2+2?", create_time=1700000001),
        node("a1", "u", "assistant", "5", metadata={"model_slug": "gpt-4o"}),
        node("th", "u", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "Adding", "content": "2 and 2"}]}),
        node("c", "th", "assistant", {"content_type": "code", "language": "python", "text": "2+2"}, recipient="python"),
        node("t", "c", "tool", {"content_type": "execution_output", "text": "4"}, name="python"),
        node("a2", "t", "assistant", "It is 4."),
        node("u2", "a2", "user", {"content_type": "multimodal_text", "parts": [
            {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}, "And this?"]}),
        current="u2",
    )  # fmt: skip
    imported = read([document])
    conversation = imported.conversations[0]
    assert imported.problems == ()
    assert (conversation.id, conversation.title, conversation.created_ms) == (
        "abc",
        "Weather",
        1700000000500,
    )
    shown = shown_turns(conversation)
    assert [turn.role for turn in shown] == [
        "user",
        "chatgpt",
        "chatgpt",
        "tool",
        "chatgpt",
        "user",
    ]
    assert shown[1].parts == (Thinking("Adding\n2 and 2"),)
    assert shown[2].parts == (ToolCall("python", {"input": "2+2"}, "c"),)
    assert shown[3].parts == (ToolResult("python", "4", "c"),)
    assert words_of(conversation)[-1] == "[image: file-service://x]\nAnd this?"
    other = next(each for each in conversation.turns if each.turn.id == "a1")
    assert (other.parent, other.turn.model) == ("u", "gpt-4o")


def test_broken_trees_lose_no_words() -> None:
    document = chatgpt(
        node("u", "gone", "user", "Hello"),
        node("x", "y", "assistant", "in a"),
        node("y", "x", "assistant", "circle"),
        node("?", "u", "alien", "who"),
        node("a", "?", "assistant", "Hi"),
        current="nowhere",
    )
    imported = read([document, {"mapping": 7}, "junk"])
    said = {part.content for each in imported.conversations[0].turns for part in each.turn.parts if isinstance(part, Text)}  # fmt: skip
    assert said == {"Hello", "in a", "circle", "Hi"}
    assert len(imported.conversations) == 1
    problems = "\n".join(imported.problems)
    assert "'u' is missing" in problems
    assert "answers itself" in problems
    assert "no known author" in problems
    assert "conversation 2" in problems
    assert "conversation 3" in problems


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.fixed_dictionaries(
            {
                "parent": st.none() | st.text(max_size=3),
                "message": st.none()
                | st.fixed_dictionaries(
                    {
                        "author": st.fixed_dictionaries(
                            {"role": st.sampled_from(["user", "assistant", "tool", "system", 7])}
                        ),
                        "recipient": st.sampled_from(["all", "python", None]),
                        "content": json_values
                        | st.fixed_dictionaries(
                            {
                                "content_type": st.sampled_from(
                                    ["text", "code", "thoughts", "odd"]
                                ),
                                "parts": json_values,
                                "text": json_values,
                            }
                        ),
                    }
                ),
            }
        ),
        min_size=1,
        max_size=8,
    ),
    json_values,
)
def test_any_tree_of_chatgpt_gives_a_tree(mapping: dict[str, Any], current: Any) -> None:
    imported = read([{"mapping": mapping, "current_node": current, "id": "c"}])
    for conversation in imported.conversations:
        assert_sound(conversation)


# Claude.


def claude(*messages: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {
        "uuid": "c1", "name": "挨拶", "created_at": "2026-01-02T03:04:05.000Z",
        "chat_messages": list(messages), **settings,
    }  # fmt: skip


def test_a_conversation_of_claude_is_read_with_tools_and_attachments() -> None:
    document = claude(
        {"uuid": "m1", "sender": "human", "text": "Look", "content": [{"type": "text", "text": "Look"}],
         "attachments": [{"file_name": "a.txt", "extracted_content": "Alpha"}], "files": [{"file_name": "p.png"}],
         "created_at": "2026-01-02T03:04:06Z"},
        {"uuid": "m2", "sender": "assistant", "text": "", "content": [
            {"type": "thinking", "thinking": "Hm"},
            {"type": "text", "text": "I search."},
            {"type": "tool_use", "name": "search", "input": {"q": "x"}},
            {"type": "tool_result", "name": "search", "content": [{"type": "text", "text": "found"}], "is_error": False},
            {"type": "text", "text": "Found it."}]},
        {"uuid": "m3", "sender": "human", "text": "Only text", "content": []},
    )  # fmt: skip
    imported = read([document])
    conversation = imported.conversations[0]
    shown = shown_turns(conversation)
    assert imported.problems == ()
    assert [turn.role for turn in shown] == ["user", "claude", "tool", "claude", "user"]
    assert words_of(conversation) == [
        "Look", "[Attachment: a.txt]\nAlpha", "[File: p.png]", "I search.", "Found it.", "Only text",
    ]  # fmt: skip
    call, result = shown[1].parts[-1], shown[2].parts[0]
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (result.tool_call_id, result.content) == (call.tool_call_id, "found")
    assert shown[0].created_at == 1767323046000
    assert conversation.title == "挨拶"


def say(name: str, parent: str, sender: str) -> dict[str, Any]:
    return {"uuid": name, "sender": sender, "text": name, "parent_message_uuid": parent}


def test_messages_of_claude_that_name_their_parents_are_a_tree() -> None:
    document = claude(
        say("m1", "00000000-0000-4000-8000-000000000000", "human"),
        say("m2", "m1", "assistant"),
        say("m3", "m1", "assistant"),
        current_leaf_message_uuid="m2",
    )
    conversation = read([document]).conversations[0]
    assert words_of(conversation) == ["m1", "m2"]
    assert [each.parent for each in conversation.turns] == [None, "m1", "m1"]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "uuid": json_values,
                "sender": st.sampled_from(["human", "assistant", "x"]),
                "text": json_values,
                "parent_message_uuid": json_values,
                "content": json_values
                | st.lists(
                    st.fixed_dictionaries(
                        {
                            "type": st.sampled_from(
                                ["text", "tool_use", "tool_result", "thinking"]
                            ),
                            "text": json_values,
                            "content": json_values,
                            "input": json_values,
                        }
                    )
                ),
                "attachments": json_values,
            }
        ),
        max_size=6,
    )
)
def test_any_messages_of_claude_give_a_tree(messages: list[Any]) -> None:
    for conversation in read([claude(*messages)]).conversations:
        assert_sound(conversation)


# Plain lists.


@pytest.mark.parametrize(
    "document",
    [
        [{"role": "user", "content": "Hi"}, {"role": "gemini", "content": "Hello"}],
        {"turns": [{"role": "user", "content": "Hi"}, {"role": "gemini", "content": [{"type": "text", "content": "Hello"}]}]},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
        {"history": [{"role": "user", "content": "Hi"}, {"role": "gemini", "content": "Hello"}]},
    ],
)  # fmt: skip
def test_the_first_systems_files_and_plain_lists_are_read(document: Any) -> None:
    conversation = read(document).conversations[0]
    assert words_of(conversation) == ["Hi", "Hello"]


def test_what_stands_beside_the_list_is_kept() -> None:
    document = {
        "display_name": "Reise",
        "system_prompt": "Be kind.",
        "turns": [{"role": "user", "content": "Hi"}, 7],
    }
    imported = read(document)
    assert imported.conversations[0].title == "Reise"
    assert imported.conversations[0].settings == {"system_prompt": "Be kind."}
    assert imported.problems == ("turn 2 is left out: it is no turn",)


@given(nasty_histories)
def test_any_history_is_read_as_a_conversation(history: list[Any]) -> None:
    try:
        data = json.dumps(history).encode()
    except (ValueError, TypeError, RecursionError):
        return
    try:
        imported = read_conversations(data)
    except UsageError:
        return
    for conversation in imported.conversations:
        assert_sound(conversation)


# Any file.


def test_a_zip_is_looked_into() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("export/conversations.json", json.dumps([claude()]))
        archive.writestr("export/conversations-001.json", json.dumps([claude(uuid="c2")]))
    found = read_conversations(packed.getvalue()).conversations
    assert [conversation.id for conversation in found] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1, 2]", "no conversations"),
        (b"{}", "no conversations"),
        (b"PK\x03\x04junk", "zip cannot be read"),
        (b"PK\x05\x06" + b"\x00" * 18, "no conversations.json"),
    ],
)
def test_a_file_without_conversations_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_conversations(data)


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_conversations_or_a_usage_error(data: bytes) -> None:
    try:
        imported = read_conversations(data)
    except UsageError:
        return
    for conversation in imported.conversations:
        assert_sound(conversation)


# Trees.


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.none() | st.integers(0, 12), st.integers(0, 2)), max_size=12
    )
)
def test_every_turn_of_every_node_stands_once_and_behind_its_parent(
    drawn: list[tuple[int, int | None, int]],
) -> None:
    nodes = [
        Node(
            str(name),
            None if parent is None else str(parent),
            (Turn("user", (Text("x"),)),) * count,
        )
        for name, parent, count in drawn
    ]
    tree = grow(nodes)
    first = {each.id: each for each in reversed(nodes)}
    assert len(tree.turns) == sum(len(each.turns) for each in first.values())
    assert set(tree.last) == set(first)
    assert_sound(ConversationDocument("c", turns=tree.turns))


def test_a_very_deep_tree_is_no_trouble() -> None:
    nodes = [Node(str(at), str(at - 1) if at else None, (Turn("user"),)) for at in range(20_000)]
    assert len(grow(nodes).turns) == 20_000


def assert_sound(conversation: ConversationDocument) -> None:
    seen: set[str] = set()
    for each in conversation.turns:
        assert each.turn.id
        assert each.turn.id not in seen
        assert each.parent is None or each.parent in seen
        seen.add(each.turn.id)
    assert set(conversation.heads.values()) <= seen
    assert not conversation.turns or not conversation.heads or shown_turns(conversation)


# Readable export.


def test_markdown_and_text_say_everything_that_was_said() -> None:
    turns = (
        Turn("user", (Text("Is it sunny?"),), "1", 1700000000000),
        Turn("claude", (Thinking("secret"), ToolCall("weather", {"city": "東京"}, "c")), "2"),
        Turn("tool", (ToolResult("weather", "```sunny```", "c", is_error=True),), "3"),
        Turn("claude", (Text("Yes."),), "4"),
    )
    placed = tuple(TreeTurn(turn, str(at) if at else None) for at, turn in enumerate(turns))
    conversation = ConversationDocument("x", "A\nday", turns=placed, heads={MAIN: "4"})
    assert write_conversations([conversation], "markdown") == (
        "# A day\n\n## user · 2023-11-14 22:13 UTC\n\nIs it sunny?\n\n## claude\n\n**weather**\n\n"
        '```json\n{"city":"東京"}\n```\n\n## tool\n\n**weather** failed\n\n````\n```sunny```\n````\n\n'
        "## claude\n\nYes.\n"
    )
    assert write_conversations([conversation, conversation], "text").count(
        'claude: [weather {"city":"東京"}]\n\ntool: [weather failed: ```sunny```]\n\nclaude: Yes.'
    ) == 2  # fmt: skip


@given(conversations())
def test_no_words_of_the_shown_branch_are_missing_for_people(
    conversation: ConversationDocument,
) -> None:
    for form in ("markdown", "text"):
        written = write_conversations([conversation], form)
        assert all(words in written for words in words_of(conversation))


@pytest.mark.parametrize("identifier", ["\x00", "", None, 7])
def test_turns_without_a_usable_id_of_their_conversation_are_kept(identifier: object):
    """The store gives the conversation an id; a missing id loses no turns."""
    turns = [{"id": "t0", "parent": None, "role": "user", "content": "words"}]
    entry = {"id": identifier, "title": "t", "heads": {"main": "t0"}, "turns": turns}
    document = json.loads(write_conversations([], "json"))
    document["conversations"] = [entry]
    (conversation,) = read(document).conversations
    assert [each.turn.id for each in conversation.turns] == ["t0"]
