"""The forms of tool servers: where they are shown, and which answers they accept."""

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.server_process import PATIENCE, form_token, run_server

from multi_llm_chat.chat.tool_scope import scope_of
from multi_llm_chat.errors import UsageError
from multi_llm_chat.events import ToolStarted
from multi_llm_chat.history.values import JsonObject, ToolCall
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer
from multi_llm_chat.web.access import Proxy
from multi_llm_chat.web.answers import LiveAnswer
from multi_llm_chat.web.oplog import OpLog
from multi_llm_chat.web.tool_questions import ServerForms
from multi_llm_chat.web.views import PageAnswer, ToolSegment

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"nights": {"type": "integer", "minimum": 1, "maximum": 14}},
    "required": ["nights"],
}


async def answer_form(
    content: JsonObject, schema: JsonObject = SCHEMA, action: str = "accept"
) -> ElicitationAnswer:
    forms = ServerForms(OpLog(), lambda: ())
    asking = asyncio.ensure_future(forms.ask(Elicitation("hotel", "When?", schema=schema)))
    await asyncio.sleep(0)
    (form,) = forms.outside_cards
    try:
        assert forms.answer(form.key, action, content)
    except UsageError:
        assert forms.count == 1  # it can be answered again
        asking.cancel()
        raise
    return await asking


@given(nights=st.integers(-100, 100))
def test_answers_are_checked_against_the_schema(nights: int):
    if 1 <= nights <= 14:
        assert asyncio.run(answer_form({"nights": nights})).content == {"nights": nights}
    else:
        with pytest.raises(UsageError, match="nights"):
            asyncio.run(answer_form({"nights": nights}))


def test_a_declined_form_needs_no_answers():
    assert asyncio.run(answer_form({}, action="decline")) == ElicitationAnswer("decline")


def test_nothing_is_fetched_for_a_schema_that_cannot_be_used():
    schema: JsonObject = {"$ref": "http://evil.example/schema.json"}
    assert asyncio.run(answer_form({"a": 1}, schema)).content == {"a": 1}


def test_a_form_stands_in_the_card_of_the_call_that_the_server_answers():
    async def check() -> None:
        answer = LiveAnswer(PageAnswer("run", "claude", 2), lambda name: ("hotel", name))
        call = ToolCall("find_rooms", {}, "one")
        answer.apply(ToolStarted(call))
        forms = ServerForms(OpLog(), lambda: [answer])
        question = Elicitation("hotel", "When?", schema=SCHEMA, call=call)
        asking = asyncio.ensure_future(forms.ask(question))
        await asyncio.sleep(0)
        (card,) = answer.view.segments
        assert isinstance(card, ToolSegment)
        assert card.form is not None
        assert forms.outside_cards == ()
        assert answer.waiting_count == 1
        forms.answer(card.form.key, "accept", {"nights": 3})
        assert (await asking).content == {"nights": 3}
        (card,) = answer.view.segments
        assert isinstance(card, ToolSegment)
        assert card.form is None
        assert answer.waiting_count == 0

    asyncio.run(check())


def test_a_form_belongs_to_the_user_of_its_call(tmp_path: Path):
    proxy = Proxy("x-user", ("127.0.0.1",))

    def elicit(*users: str) -> ElicitationAnswer:
        scopes = tuple(scope_of(user, "chat") for user in users)
        question = Elicitation("hotel", "When?", schema=SCHEMA, conversations=scopes)
        return asyncio.run(server.hub.elicit(question))

    with (
        run_server(tmp_path, proxy=proxy) as server,
        httpx2.Client(base_url=server.url) as client,
        ThreadPoolExecutor() as threads,
    ):

        def headers(user: str) -> dict[str, str]:
            html = client.get("/", headers={"x-user": user}).text
            return {"x-user": user, "origin": server.url, "x-form-token": form_token(html)}

        anna, bert = headers("anna"), headers("bert")
        assert threads.submit(elicit, "anna", "bert").result(PATIENCE).action == "decline"
        asking = threads.submit(elicit, "anna")
        deadline = time.monotonic() + PATIENCE
        while not (shown := re.search(r'id="question-([^"]+)"', view(client, anna))):
            assert not asking.done()
            assert time.monotonic() < deadline
        assert "When?" not in view(client, bert)
        body = {"question": shown[1], "decision": "accept", "content": {"nights": 2}}
        assert client.post("/c/chat/answer", json=body, headers=bert).status_code == 400
        assert client.post("/c/chat/answer", json=body, headers=anna).status_code == 200
        assert asking.result(PATIENCE).content == {"nights": 2}


def view(client: httpx2.Client, headers: dict[str, str]) -> str:
    """Return the conversation's questions as its page shows them."""
    return client.get("/c/chat/view", headers=headers).json()["questions"]
