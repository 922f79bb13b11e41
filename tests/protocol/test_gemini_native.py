"""Gemini's native parts: kept unchanged, sent back unchanged, described to other providers (GEM-23, GEM-24, GEM-26, GEM-27,
GEM-30, GEM-33, GEM-34, STR-21)."""

import json
import re
import warnings
from typing import Any

import pytest
from tests.protocol.corpus import CONTEXT, run

from multi_llm_chat import history_from, render
from multi_llm_chat.events import Event, Finish, NativeItem
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Extras, Media, Native, Part, Text, Thinking, ToolCall
from multi_llm_chat.protocol.gemini.decode import decode_reply
from multi_llm_chat.testing.validators import validate

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings in the SDK's sources are not ours to fix
    from google.genai import types

Body = dict[str, Any]

MODEL = "gemini-3.5-flash"
PNG = "iVBORw0KGgo="
SIGNED: Body = {"thoughtSignature": "c2ln"}
QUESTION: Body = {"role": "user", "parts": [{"text": "hi"}]}
NEXT: Body = {"role": "user", "parts": [{"text": "and?"}]}
CODE: Body = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
OUTPUT: Body = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "one"}}
SEARCH: Body = {
    "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["rain"]}, "id": "s1"}
}
FOUND: Body = {
    "toolResponse": {
        "toolType": "GOOGLE_SEARCH_WEB",
        "response": {"search": "<b>wet</b>"},
        "id": "s1",
    }
}

#: Model turns by the field of the SDK's ``Part`` that they show, with words that other providers get.
REPLIES: dict[str, tuple[list[Body], list[str]]] = {
    "text": ([{"text": "Warm."}], ["Warm."]),
    "thought": ([{"text": "hm", "thought": True}, {"text": "x"}], ["x"]),
    "thought_signature": ([{"text": "x"}, {"text": "Warm."} | SIGNED, {"text": ""} | SIGNED], ["Warm."]),
    "empty signed thought": ([{"thought": True} | SIGNED, {"text": "x"}], ["x"]),
    "inline_data": ([{"text": "x"}, {"inlineData": {"mimeType": "image/png", "data": PNG}} | SIGNED], ["x"]),
    "file_data": ([{"text": "x"}, {"fileData": {"mimeType": "image/png", "fileUri": "https://files.test/a"}}], ["https://files.test/a"]),
    "executable_code": ([CODE | SIGNED, OUTPUT, {"text": "x"}], ["print(1)"]),
    "code_execution_result": ([CODE, OUTPUT, {"text": "x"}], ["one"]),
    "tool_call": ([SEARCH | SIGNED, FOUND, {"text": "x"}], ["rain"]),
    "tool_response": ([SEARCH, FOUND, {"text": "x"}], ["wet"]),
    "part_metadata": ([{"text": "x", "partMetadata": {"a": "b"}}], ["x"]),
    "speech_metadata": ([{"text": "x", "speechMetadata": {"a": "b"}}], ["x"]),
    "audio_transcription": ([{"audioTranscription": {"text": "spoken"}}, {"text": "x"}], ["spoken"]),
    "not known yet": ([{"hologram": {"words": "far away"}}, {"text": "x"}], ["far away"]),
}  # fmt: skip

#: The parts of a user content.
SENT: dict[str, list[Body]] = {
    "video_metadata": [{"inlineData": {"mimeType": "video/mp4", "data": "AAAAHGZ0eXBtcDQy"}, "videoMetadata": {"startOffset": "2s"}}],
    "video_metadata alone": [{"text": "x"}, {"videoMetadata": {"startOffset": "2s"}}],
    "media_resolution": [{"inlineData": {"mimeType": "image/png", "data": PNG}, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}],
    "media_processing": [{"inlineData": {"mimeType": "image/png", "data": PNG}, "mediaProcessing": {"a": 1}}],
    "display name": [{"inlineData": {"mimeType": "image/png", "data": PNG, "displayName": "map.png"}}],
    "file": [{"fileData": {"mimeType": "audio/mpeg", "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1"}}],
    "video of YouTube": [{"fileData": {"fileUri": "https://youtu.be/1"}}],
    "bucket": [{"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/a.mp4"}}],
    "text file": [{"inlineData": {"mimeType": "text/plain", "data": "aGk="}}],
}  # fmt: skip

#: The keys of a response beside its id and name.
ANSWERED: dict[str, Body] = {
    "parts": {"response": {}, "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG, "displayName": "map.png"}}]},
    "response and parts": {"response": {"name": "x", "n": 1}, "parts": [{"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}]},
    "file": {"response": {"result": "see"}, "parts": [{"fileData": {"mimeType": "image/png", "fileUri": "https://files.test/a"}}]},
    "nothing": {"response": {}},
    "will_continue": {"response": {"result": "wet"}, "willContinue": True, "scheduling": "SILENT"},
}  # fmt: skip

TOOLS: list[Any] = [{"name": "f", "inputSchema": {"type": "object"}}]


def test_every_published_field_of_a_part_has_a_row() -> None:
    calls = {"function_call", "function_response"}
    assert set(types.Part.model_fields) <= {*REPLIES, *SENT, *calls}


def again(contents: list[Body]) -> list[Body]:
    stored = read_history(json.loads(json.dumps(history_from(contents, "gemini", model=MODEL))))
    rendered = render(stored, "gemini", model=MODEL, tools=TOOLS)
    return rendered.body["contents"]


@pytest.mark.parametrize("name", REPLIES)
def test_what_the_model_said_goes_back_as_it_came(name: str) -> None:
    parts, words = REPLIES[name]
    contents = [QUESTION, {"role": "model", "parts": parts}, NEXT]
    assert again(contents) == contents
    history = history_from(contents, "gemini", model=MODEL)
    for provider in ("openai", "openai-chat", "anthropic", "mistral"):
        said = json.dumps(render(history, provider, tools=TOOLS).body)
        assert [each for each in words if each not in said] == [], provider
        assert "[left out" not in said


@pytest.mark.parametrize("name", SENT)
def test_what_the_user_sent_goes_back_as_it_came(name: str) -> None:
    contents = [{"role": "user", "parts": SENT[name]}]
    assert again(contents) == contents


@pytest.mark.parametrize("name", ANSWERED)
def test_what_a_tool_answered_goes_back_as_it_came(name: str) -> None:
    call: Body = {"functionCall": {"id": "a", "name": "f", "args": {}, "willContinue": False}}
    response: Body = {"functionResponse": {"id": "a", "name": "f"} | ANSWERED[name]}
    contents: list[Body] = [
        QUESTION,
        {"role": "model", "parts": [call | SIGNED]},
        {"role": "user", "parts": [response]},
    ]
    assert again(contents) == contents


@pytest.mark.parametrize("name", ["executable_code", "tool_call", "inline_data", "file_data"])
def test_gem_33_snake_case_and_nulls_say_the_same(name: str) -> None:
    camel = [QUESTION, {"role": "model", "parts": REPLIES[name][0]}, NEXT]
    keys = re.compile(r'"([a-z]+[A-Z]\w*)":')
    snake = keys.sub(
        lambda found: re.sub("[A-Z]", lambda each: "_" + each[0].lower(), found[0]),
        json.dumps(camel),
    )
    contents: list[Body] = json.loads(snake)
    assert contents != camel
    for content in contents:
        content["parts"] = [part | {"code_execution": None} for part in content["parts"]]
    assert again(contents) == again(camel)


def test_gem_33_one_part_stands_for_a_list() -> None:
    assert again([{"role": "user", "parts": {"text": "hi"}}]) == [QUESTION]


def test_gem_26_the_request_says_that_it_holds_calls_of_server_tools() -> None:
    contents = [QUESTION, {"role": "model", "parts": REPLIES["tool_call"][0]}, NEXT]
    history = history_from(contents, "gemini", model=MODEL)
    rendered = render(history, "gemini", model=MODEL, tools=TOOLS)
    assert rendered.body["toolConfig"] == {"includeServerSideToolInvocations": True}
    older = render(history, "gemini", model="gemini-2.5-flash", tools=TOOLS)
    assert "toolConfig" not in older.body
    assert [note.rule for note in older.notes if "Google" in note.message] == ["GEM-26", "GEM-26"]
    assert "rain" in json.dumps(older.body)


def test_gem_26_half_a_pair_is_written_as_words() -> None:
    for half in (SEARCH, FOUND):
        contents = [QUESTION, {"role": "model", "parts": [half, {"text": "x"}]}, NEXT]
        parts = again(contents)[1]["parts"]
        assert all(part.keys() == {"text"} for part in parts)


def test_gem_34_a_signature_goes_to_its_own_model_only() -> None:
    contents = [QUESTION, {"role": "model", "parts": REPLIES["executable_code"][0]}, NEXT]
    history = history_from(contents, "gemini", model="gemini-3-pro")
    sent = render(history, "gemini", model=MODEL).body["contents"]
    assert sent[1]["parts"][0] == CODE


def test_gem_24_other_media_of_a_response_follow_as_the_users() -> None:
    sound = {"type": "media", "mime": "audio/mpeg", "data": "SUQz"}
    call: Body = {"name": "f", "arguments": {}, "tool_call_id": "a"}
    history: list[Body] = [
        {"role": "user", "content": "hi"},
        {"role": "gemini", "content": [{"type": "tool_call", "content": call}]},
        {"role": "tool", "content": [{"type": "tool_result", "name": "f", "tool_call_id": "a", "content": [sound]}]},
    ]  # fmt: skip
    rendered = render(history, "gemini", model=MODEL, tools=TOOLS)
    *_, response, following = rendered.body["contents"]
    assert "parts" not in response["parts"][0]["functionResponse"]
    assert following["parts"] == [{"inlineData": {"mimeType": "audio/mpeg", "data": "SUQz"}}]
    assert validate("gemini", rendered.body, model=MODEL) == []


# Replies.


def reply(parts: Any, finish: str = "STOP", **more: Any) -> Body:
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": finish, "index": 0, **more}]}


def whole(body: Body) -> tuple[tuple[Part, ...], list[Event]]:
    return decode_reply(json.dumps(body).encode(), CONTEXT)


def streamed(*bodies: Body) -> bytes:
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)


@pytest.mark.parametrize("name", REPLIES)
def test_a_streamed_and_a_whole_reply_give_the_same_parts(name: str) -> None:
    given = REPLIES[name][0]
    chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in given]
    stream = run("gemini", [streamed(*chunks, reply([]))])
    parts, events = whole(reply(given))
    assert stream.parts == parts
    natives = [part for part in parts if isinstance(part, Native)]
    for each in (stream.events, events):
        assert [event.item for event in each if isinstance(event, NativeItem)] == natives
    assert [part.raw for part in natives] == [
        part for part in given if part.keys() & {*CODE, *OUTPUT, *SEARCH, *FOUND, "audioTranscription", "hologram"}
    ]  # fmt: skip


def test_extras_of_a_reply_are_kept_beside_plain_parts() -> None:
    call = {"functionCall": {"name": "f", "args": {"a": 1}, "willContinue": True}}
    parts, _ = whole(reply([{"text": "a"}, {"text": "b", "partMetadata": {"k": 1}}, call]))
    origin = CONTEXT.origin
    assert parts == (
        Text("a"),
        Text("b", Extras(origin, {"partMetadata": {"k": 1}})),
        ToolCall("f", {"a": 1}, "call_0", extras=Extras(origin, {"functionCall": {"willContinue": True}})),
    )  # fmt: skip


GROUNDED: Body = {
    "webSearchQueries": ["rain today"],
    "groundingChunks": [{"web": {"uri": "https://w.test", "title": "Weather"}}],
}


def test_grounding_is_kept_shown_and_not_sent() -> None:
    body = reply([{"text": "Wet."}], groundingMetadata=GROUNDED, urlContextMetadata={
        "urlMetadata": [{"retrievedUrl": "https://p.test", "urlRetrievalStatus": "OK"}]},
        citationMetadata={"citationSources": [{"uri": "https://c.test"}]}, logprobsResult={"chosenCandidates": [{"token": "W"}]})  # fmt: skip
    parts, _ = whole(body)
    assert [part.kind for part in parts if isinstance(part, Native)] == [
        "groundingMetadata",
        "urlContextMetadata",
        "citationMetadata",
    ]
    assert parts[0] == Text(
        "Wet.", Extras(CONTEXT.origin, {"logprobsResult": {"chosenCandidates": [{"token": "W"}]}})
    )
    assert run("gemini", [streamed(body)]).parts == parts
    history = [{"role": "user", "content": "hi"}, {"role": "gemini", "content": list(parts)}]
    history.append({"role": "user", "content": "and?"})
    sent = render(history, "gemini", model=CONTEXT.origin.model).body["contents"]
    assert [part for content in sent for part in content["parts"] if part.keys() != {"text"}] == []
    said = json.dumps(render(history, "openai-chat").body)
    for words in ("rain today", "Weather (https://w.test)", "https://p.test", "https://c.test"):
        assert words in said


def test_further_candidates_are_kept() -> None:
    first = {"content": {"parts": [{"text": "One"}]}, "index": 0, "finishReason": "STOP"}
    second: Body = {"content": {"parts": [{"text": "T"}]}, "index": 1}
    third = {"content": {"parts": [{"text": "wo"}]}, "index": 1, "finishReason": "STOP"}
    stream = run("gemini", [streamed({"candidates": [second]}, {"candidates": [first, third]})])
    text, other = stream.parts
    assert text == Text("One")
    assert isinstance(other, Native)
    assert (other.kind, other.text) == ("candidate", "another answer: Two")


def test_parts_may_be_one_object() -> None:
    assert whole(reply({"text": "x"}))[0] == (Text("x"),)


def test_an_empty_signed_thought_is_not_the_signature_of_what_follows() -> None:
    parts, _ = whole(reply([{"thought": True} | SIGNED, {"text": "x"}]))
    signed = Thinking("", CONTEXT.origin, {"thoughtSignature": "c2ln", "thought": True})
    assert parts == (signed, Text("x"))


@pytest.mark.parametrize("finish", [each.name for each in types.FinishReason] + ["MODEL_ARMOR"])
def test_str_21_every_published_finish_word_has_its_reason(finish: str) -> None:
    # The unspecified finish reason has no meaning: the reply ends with the next one.
    spoken = reply([{"text": "x"}], finish if finish != "FINISH_REASON_UNSPECIFIED" else "STOP")
    finished = whole(spoken)[1][-1]
    assert isinstance(finished, Finish)
    assert (finished.reason == "other") == (finish == "OTHER")


def test_media_of_a_reply_keep_their_extras() -> None:
    blob = {"mimeType": "image/png", "data": PNG, "displayName": "a.png"}
    (media,), _ = whole(reply([{"inlineData": blob}]))
    extras = Extras(CONTEXT.origin, {"inlineData": {"displayName": "a.png"}})
    assert media == Media("image/png", PNG, extras=extras)
