"""Every item type that the openai SDK publishes, read and written back."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseInputItem, ResponseOutputItem

from multi_llm_chat import history_from, render
from multi_llm_chat.events import Finish, NativeItem
from multi_llm_chat.history.json_values import as_object, as_text
from multi_llm_chat.history.values import Media, Native, Origin, Part, Text, ToolCall
from multi_llm_chat.protocol.calls import DecodeContext
from multi_llm_chat.protocol.openai_responses.decode import OpenAIResponsesDecoder, decode_reply

Item = dict[str, Any]

MODEL = "gpt-5.6-terra"
CONTEXT = DecodeContext(origin=Origin("openai", "", MODEL))
PNG = "iVBORw0KGgo="
SHOT = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}


def user(text: str) -> Item:
    return {"type": "message", "role": "user", "content": text}


USER = user("hi")
THOUGHT: Item = {
    "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gAAA", "status": "completed",
}  # fmt: skip
CITED: Item = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final_answer",
    "content": [
        {"type": "output_text", "text": "It rains.", "annotations": [
            {"type": "url_citation", "url": "https://weather.example", "title": "Weather", "start_index": 0, "end_index": 8}],
         "logprobs": [{"token": "It", "bytes": [73], "logprob": -0.1, "top_logprobs": []}]},
        {"type": "refusal", "refusal": "More I cannot say."},
    ],
}  # fmt: skip
# RSP-15: a message keeps its phase, and is never joined with another. RSP-18: a call keeps its namespace.
# RSP-20: a step of the server's gets no output. RSP-23: a compaction is kept as it is. RSP-24: documents are files.
COMMENT: Item = {
    "type": "message", "id": "msg_0", "role": "assistant", "status": "completed", "phase": "commentary",
    "content": [{"type": "output_text", "text": "Let me look."}],
}  # fmt: skip

#: Items whose calls the server runs itself, each with words that other models must get.
NATIVE: list[tuple[Item, str]] = [
    ({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "rain tomorrow", "sources": [{"type": "url", "url": "https://weather.example"}]}}, "rain tomorrow"),
    ({"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["wages"], "results": [{"file_id": "f1", "filename": "staff.csv", "score": 0.9, "text": "Ada, 3"}]}, "Ada, 3"),
    ({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "container_id": "cntr_1", "code": "print(6*7)", "outputs": [{"type": "logs", "logs": "42"}]}, "print(6*7)"),
    ({"type": "image_generation_call", "id": "ig_1", "status": "completed", "revised_prompt": "an otter", "output_format": "png", "result": PNG}, "an otter"),
    ({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "wiki", "tools": [{"name": "read_page", "input_schema": {"type": "object"}}]}, "read_page"),
    ({"type": "mcp_call", "id": "mcp_1", "server_label": "wiki", "name": "read_page", "arguments": '{"page":"Otter"}', "output": "Otters swim."}, "Otters swim."),
    ({"type": "tool_search_call", "id": "tsc_1", "call_id": None, "execution": "server", "status": "completed", "arguments": {"queries": ["exchange rate"]}}, "exchange rate"),
    ({"type": "tool_search_output", "id": "tso_1", "call_id": None, "execution": "server", "status": "completed", "tools": [{"type": "namespace", "name": "money", "description": "", "tools": [{"type": "function", "name": "rate", "parameters": {}}]}]}, "money (rate)"),
    ({"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}, "summarised"),
    ({"type": "program", "id": "prog_1", "call_id": "call_p", "code": "await tools.f()", "fingerprint": "x"}, "await tools.f()"),
    ({"type": "program_output", "id": "po_1", "call_id": "call_p", "result": "seven", "status": "completed"}, "seven"),
    ({"type": "shell_call", "id": "sh_1", "call_id": "call_s", "status": "completed", "action": {"commands": ["ls /tmp"]}, "environment": {"type": "container_reference", "container_id": "cntr_1"}}, "ls /tmp"),
    ({"type": "agent_message", "id": "am_1", "text": "unheard of"}, "unheard of"),
]  # fmt: skip

#: Calls that the client answers, their outputs, and the calls that the loop runs.
CALLS: list[tuple[Item, Item, str, Item]] = [
    ({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "rate", "namespace": "money", "arguments": '{"of":"EUR"}', "status": "completed"},
     {"type": "function_call_output", "call_id": "call_1", "output": "1.1"}, "rate", {"of": "EUR"}),
    ({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "sql", "input": "select 1", "status": "completed"},
     {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"}, "sql", {"input": "select 1"}),
    ({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {"commands": ["ls"], "timeout_ms": 5}, "status": "completed", "environment": {"type": "local"}},
     {"type": "shell_call_output", "call_id": "call_1", "output": [{"stdout": "a.py", "stderr": "slow", "outcome": {"type": "exit", "exit_code": 1}}]}, "shell", {"commands": ["ls"], "timeout_ms": 5}),
    ({"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {"type": "exec", "command": ["ls"], "env": {}}, "status": "completed"},
     {"type": "local_shell_call_output", "id": "call_1", "output": '{"stdout":"a.py"}'}, "local_shell", {"type": "exec", "command": ["ls"], "env": {}}),
    ({"type": "apply_patch_call", "id": "apc_1", "call_id": "call_1", "operation": {"type": "delete_file", "path": "a.py"}, "status": "completed"},
     {"type": "apply_patch_call_output", "call_id": "call_1", "status": "failed", "output": "no such file"}, "apply_patch", {"type": "delete_file", "path": "a.py"}),
    ({"type": "computer_call", "id": "cu_1", "call_id": "call_1", "action": {"type": "click", "x": 1, "y": 2, "button": "left"}, "pending_safety_checks": [], "status": "completed"},
     {"type": "computer_call_output", "call_id": "call_1", "output": SHOT, "acknowledged_safety_checks": [{"id": "s1"}]}, "computer", {"type": "click", "x": 1, "y": 2, "button": "left"}),
    ({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "wiki", "name": "read_page", "arguments": '{"page":"Otter"}'},
     {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False, "reason": "too wet"}, "mcp_approval", {"server_label": "wiki", "name": "read_page", "arguments": '{"page":"Otter"}'}),
    ({"type": "tool_search_call", "id": "tsc_1", "call_id": "call_1", "execution": "client", "status": "completed", "arguments": {"goal": "money"}},
     {"type": "tool_search_output", "call_id": "call_1", "execution": "client", "status": "completed", "tools": [{"type": "function", "name": "rate", "parameters": {}, "strict": False}]}, "tool_search", {"goal": "money"}),
]  # fmt: skip

#: Items that only a client sends.
WRITTEN: list[Item] = [
    {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "rate", "parameters": {}}]},
    {"type": "configuration_update", "model": "gpt-5.6-sol"},
    {"type": "compaction_trigger"},
    {"type": "item_reference", "id": "msg_9"},
    {"type": "message", "role": "developer", "id": "msg_8", "content": "Be brief."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Read"}, {"type": "input_file", "file_id": "file-1"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Read"}, {"type": "input_file", "file_url": "https://a.example/b.pdf"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": SHOT["image_url"], "detail": "high"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Long", "prompt_cache_breakpoint": {"mode": "explicit"}}]},
]  # fmt: skip


def name_of(value: Any) -> str:
    found = as_object(value) or {}
    return as_text(found.get("type")) or "rest"


def again(items: list[Item]) -> tuple[list[Item], tuple[Any, ...]]:
    history = history_from(items, "openai-responses", provider="openai", model=MODEL)
    rendered = render(history, "openai", model=MODEL)
    return rendered.body["input"], rendered.notes


def published(union: Any) -> set[str]:
    """Return the ``type`` values of the members of the SDK's union."""
    members = get_args(get_args(union)[0])
    words: set[str] = set()
    for member in members:
        annotation = member.model_fields["type"].annotation
        for literal in (annotation, *get_args(annotation)):
            words |= {word for word in get_args(literal) if isinstance(word, str)}
    return words


def test_every_published_type_has_an_example():
    items = [item for item, _ in NATIVE] + [one for call in CALLS for one in call[:2]] + WRITTEN
    known = {item["type"] for item in items} | {"message", "reasoning"}
    assert published(ResponseInputItem) | published(ResponseOutputItem) <= known


@pytest.mark.parametrize("thought", [[], [THOUGHT]], ids=["plain", "reasoned"])
@pytest.mark.parametrize(("item", "words"), NATIVE, ids=name_of)
def test_a_step_of_the_server_goes_back_as_it_came(item: Item, words: str, thought: list[Item]):
    items = [USER, *thought, item, CITED, user("and?")]
    assert again(items) == (items, ())


@pytest.mark.parametrize(("item", "words"), NATIVE, ids=name_of)
@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai-chat", "mistral", "llamacpp"])
def test_another_provider_gets_what_the_step_says(item: Item, words: str, provider: str):
    history = history_from([USER, item, CITED, user("and?")], "openai-responses", model=MODEL)
    rendered = render(history, provider)
    sent = json.dumps(rendered.body)
    assert json.dumps(words)[1:-1] in sent
    assert item["type"] == "image_generation_call" or PNG not in sent
    assert rendered.notes


@pytest.mark.parametrize("thought", [[], [THOUGHT]], ids=["plain", "reasoned"])
@pytest.mark.parametrize(("call", "output", "name", "arguments"), CALLS, ids=name_of)
def test_a_call_of_the_clients_goes_back_with_its_output(
    call: Item, output: Item, name: str, arguments: Item, thought: list[Item]
):
    items = [USER, *thought, COMMENT, call, output, CITED, user("and?")]
    assert again(items) == (items, ())


@pytest.mark.parametrize("item", WRITTEN, ids=range(len(WRITTEN)))
def test_what_only_a_client_writes_goes_back(item: Item):
    items = [item, USER, CITED, user("and?")]
    assert again(items) == (items, ())


# RSP-16, RSP-17, RSP-21, RSP-22, STR-23: the loop runs the call, and its output has the right type.


@pytest.mark.parametrize(("item", "output", "name", "arguments"), CALLS, ids=name_of)
def test_a_call_reaches_the_loop_and_is_answered_in_its_own_type(
    item: Item, output: Item, name: str, arguments: Item
):
    (call,), _ = decode_reply(
        json.dumps({"status": "completed", "output": [item]}).encode(), CONTEXT
    )
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == (name, arguments)
    content: Any = "approved"
    if item["type"] == "computer_call":
        content = [{"type": "media", "mime": "image/png", "data": PNG}]
    result = {
        "type": "tool_result",
        "name": name,
        "content": content,
        "tool_call_id": call.tool_call_id,
    }
    history = [USER, {"role": "chatgpt", "content": [call]}, {"role": "tool", "content": [result]}]
    written = render(history, "openai", model=MODEL).body["input"]
    assert written[1] == item
    if item["type"] != "tool_search_call":  # words alone are a function's output
        assert written[2]["type"] == output["type"]
    if item["type"] == "mcp_approval_request":
        assert written[2] == {
            "type": "mcp_approval_response",
            "approval_request_id": "mcpr_1",
            "approve": True,
        }


@pytest.mark.parametrize(("item", "output", "name", "arguments"), CALLS, ids=name_of)
def test_a_call_without_an_answer_gets_one_of_its_own_type(
    item: Item, output: Item, name: str, arguments: Item
):
    written, notes = again([USER, item, user("and?")])
    if item["type"] == "computer_call":  # the server accepts only a screenshot
        assert [one["type"] for one in written] == ["message"] * 4
        assert "RSP-22" in {note.rule for note in notes}
    else:
        assert written[1] == item
        assert written[2]["type"] == output["type"]
        assert written[2].get("approve") is not True


@pytest.mark.parametrize(("item", "output", "name", "arguments"), CALLS, ids=name_of)
def test_another_provider_gets_a_function_call_and_its_result(
    item: Item, output: Item, name: str, arguments: Item
):
    history = history_from([USER, item, output, user("and?")], "openai-responses", model=MODEL)
    messages = render(history, "openai-chat").body["messages"]
    function = messages[1]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == (name, arguments)
    assert messages[2]["role"] == "tool"


# Replies. STR-18: what was streamed is not read again.

_POOL = [THOUGHT, COMMENT, CITED, *(item for item, _ in NATIVE), *(call[0] for call in CALLS)]


def stream(items: list[Item], *, across: bool = False) -> list[bytes]:
    """The events of a reply; with ``across``, content parts are counted across items (STR-18)."""
    events: list[Item] = []
    count = 0
    for index, item in enumerate(items):
        for number, content in enumerate(item.get("content") or []):
            kind = "refusal" if "refusal" in content else "output_text"
            text = content.get("text") or content["refusal"]
            at = count if across else number
            count += 1
            events += [
                {"type": f"response.{kind}.delta", "output_index": index, "content_index": at, "delta": piece}
                for piece in (text[:3], text[3:])
            ]  # fmt: skip
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    end = {"status": "completed", "output": items}
    return [
        json.dumps(one).encode()
        for one in [*events, {"type": "response.completed", "response": end}]
    ]


def read_stream(data: list[bytes]) -> tuple[tuple[Part, ...], list[Any]]:
    decoder = OpenAIResponsesDecoder(CONTEXT)
    events = [event for one in data for event in decoder.feed(None, one)] + decoder.end()
    return decoder.parts, events


@given(items=st.lists(st.sampled_from(_POOL), max_size=6), across=st.booleans())
def test_streamed_and_whole_replies_give_equal_parts(items: list[Item], across: bool):
    streamed, events = read_stream(stream(items, across=across))
    whole, _ = decode_reply(json.dumps({"status": "completed", "output": items}).encode(), CONTEXT)
    assert streamed == whole
    natives = [part for part in streamed if isinstance(part, Native)]
    assert [event.item for event in events if isinstance(event, NativeItem)] == natives


@given(item=st.sampled_from(_POOL[1:]), model=st.sampled_from([MODEL, "gpt-5.5"]))
def test_a_reply_is_replayed_as_it_came(item: Item, model: str):
    """With its reasoning where the same model reads it; without any id where not (RSP-03, RSP-04)."""
    reply = [THOUGHT, item]
    parts, _ = decode_reply(json.dumps({"status": "completed", "output": reply}).encode(), CONTEXT)
    history = [USER, {"role": "chatgpt", "content": list(parts)}, USER]
    written = render(history, "openai", model=model).body["input"]
    if model == MODEL and item["type"] != "computer_call":
        assert written[1:3] == reply
    elif item["type"] != "mcp_approval_request":  # its answer refers to its id
        assert not any("id" in one for one in written if not one["type"].endswith("_output"))


def test_other_systems_get_sources_and_pictures():
    picture = NATIVE[3][0]
    parts, _ = decode_reply(
        json.dumps({"status": "completed", "output": [picture, CITED]}).encode(), CONTEXT
    )
    assert [type(part) for part in parts] == [Native, Media, Text, Text]
    history = [USER, {"role": "chatgpt", "content": list(parts)}, USER]
    sent = json.dumps(render(history, "gemini").body)
    assert PNG in sent
    assert "https://weather.example" in sent


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_response_in_the_background_is_not_an_answer(status: str):
    """RSP-28."""
    with pytest.raises(Exception, match="no answer yet"):
        decode_reply(json.dumps({"status": status, "output": []}).encode(), CONTEXT)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [("max_output_tokens", "length"), ("content_filter", "safety"), ("odd", "other")],
)
def test_an_incomplete_response_says_why(raw: str, reason: str):
    """STR-21: an unknown word is kept."""
    body = {"status": "incomplete", "incomplete_details": {"reason": raw}, "output": [CITED]}
    _, events = decode_reply(json.dumps(body).encode(), CONTEXT)
    assert events[-1] == Finish(reason, raw)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("arguments", [None, "null", "", " null "])
def test_null_arguments_are_none(arguments: Any):
    """STR-20."""
    item = CALLS[0][0] | {"arguments": arguments}
    (call,), _ = decode_reply(
        json.dumps({"status": "completed", "output": [item]}).encode(), CONTEXT
    )
    assert isinstance(call, ToolCall)
    assert (call.arguments, call.error) == ({}, None)
