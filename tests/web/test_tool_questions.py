"""The forms of tool servers: where they are shown, and which answers they accept."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.errors import UsageError
from multi_llm_chat.events import ToolStarted
from multi_llm_chat.history.values import JsonObject, ToolCall
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer
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
        asking = asyncio.ensure_future(forms.ask(Elicitation("hotel", "When?", schema=SCHEMA)))
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
