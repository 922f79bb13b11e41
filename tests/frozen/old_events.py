"""The events of the first format as values: one or more of every kind, in the order of the sample files.

``old_journal.jsonl`` holds ``JOURNAL`` as rows of ``run_events``, ``old_jsonl_events.jsonl`` holds ``JSONL`` as lines of
``mlc ask --jsonl``. The files are the contract; this module only says what their lines mean.
"""

from decimal import Decimal
from typing import Final

from multi_llm_chat.client.agent_events import (
    AgentEvent,
    Delayed,
    HistoryCompressed,
    RunPaused,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from multi_llm_chat.context.notes import CompressionNote, Cut
from multi_llm_chat.durable.stream import (
    Begun,
    Compressed,
    Ended,
    Resumed,
    StreamEvent,
    TurnKept,
)
from multi_llm_chat.events import (
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from multi_llm_chat.history.values import (
    Media,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.metering.prices import Cost
from multi_llm_chat.service.events import (
    AnswerEvent,
    AnswerFailed,
    AnswerFinished,
    AnswerResumed,
    AnswerStarted,
    ChatEvent,
    MessageFinished,
    MessageSaved,
    NotSaved,
    TurnSaved,
)
from multi_llm_chat.store.values import ErrorRecord

RUN: Final = "run-1"

WEATHER = ToolCall(
    "get_weather", {"city": "東京", "days": 2}, "call_1", '{"city": "東京", "days": 2}'
)
BROKEN = ToolCall("get_weather", {}, "call_2", '{"city": ', "the arguments are not JSON")
SUNNY = ToolResult("get_weather", {"sky": "晴れ", "degrees": [21.5, None, True]}, "call_1")
UNKNOWN = ToolResult("get_weather", "The outcome is not known.", "call_2", True, True)
COUNTED = Usage(1200, 34, 1000, 20, 5)

JOURNAL: Final[list[StreamEvent]] = [
    Begun("claude", "claude-sonnet-4-5"),
    Delayed("anthropic", 2.5),
    Compressed("History shortened to fit the window (9,000 → 6,000 tokens of 8,000): not sent: 3 earlier exchanges."),
    ThinkingDelta("Where is \"東京\"?\n"),
    TextDelta("Let me look.\t🌦\u2028"),
    ToolCallStart(0, "call_1", "get_weather"),
    ToolCallDelta(0, '{"city": "東京", '),
    ToolCallDelta(0, '"days": 2}'),
    ToolCallEnd(0, WEATHER),
    ToolCallEnd(1, BROKEN),
    COUNTED,
    Finish("tool_calls", "tool_use"),
    TurnKept(f"{RUN}.0", "claude"),
    ToolStarted(WEATHER),
    ToolFinished(WEATHER, SUNNY, 0.25),
    ToolStarted(BROKEN),
    ToolFinished(BROKEN, UNKNOWN, 0.0),
    TurnKept(f"{RUN}.2.tools", "tool"),
    TextDelta("It will be"),
    Resumed(2),
    TextDelta("It will be sunny."),
    TextDelta("Half a character: \ud83c"),
    Usage(),
    Finish("stop"),
    TurnKept(f"{RUN}.3", "claude", is_whole=False),
    Ended("done", "answered", COUNTED, "0.0041", 3.75),
    Ended("failed", "error", Usage(), None, 0.0),
    Ended("cancelled", "cancelled", COUNTED, None, 1.5),
]  # fmt: skip

MESSAGE = Turn(
    "user",
    (Text("@claude What is the weather in 東京?"), Media("image/png", data="iVBORw0KGgo=", name="map.png")),
    id="message-1",
    created_at=1763251200000,
    meta={"addressed": ["claude"]},
)  # fmt: skip
CALLING = Turn(
    "claude",
    (
        Thinking("Where is it?", Origin("anthropic", "https://api.anthropic.com", "claude-sonnet-4-5"), {"signature": "c2ln"}),
        Text("Let me look."),
        WEATHER,
        BROKEN,
    ),
    id=f"{RUN}.0",
    created_at="2026-11-16T00:00:01Z",
    model="claude-sonnet-4-5",
)  # fmt: skip
RESULTS = Turn("tool", (SUNNY, UNKNOWN), id=f"{RUN}.2.tools", created_at=1763251202000)
SHORTENED = CompressionNote(
    cut=Cut(talk=4, words=2, gone=2, results=1024, summary="They spoke of trains."),
    reason="window",
    tokens_before=9000,
    tokens_after=6000,
    budget=8000,
    fits=True,
    is_estimate=False,
    left_out=(0, 1),
    shortened=(2, 3),
    turn_ids=("a", "b"),
    exchanges_gone=1,
    exchanges_as_words=1,
    exchanges_without_tools=1,
    results_cut=1,
    first="1763251100000",
    last="1763251150000",
    summary="They spoke of trains.",
    summary_usage=Usage(500, 20),
    trouble=None,
)

ANSWER: Final[list[AgentEvent]] = [
    Delayed("anthropic", 2.5),
    HistoryCompressed(SHORTENED),
    ThinkingDelta("Where is \"東京\"?\n"),
    TextDelta("Let me look.\t🌦\u2028"),
    TextDelta("Half a character: \ud83c"),
    ToolCallStart(0, "call_1", "get_weather"),
    ToolCallDelta(0, '{"city": "東京", "days": 2}'),
    ToolCallEnd(0, WEATHER),
    ToolCallEnd(1, BROKEN),
    COUNTED,
    Finish("tool_calls", "tool_use"),
    TurnFinished(CALLING, COUNTED),
    ToolStarted(WEATHER),
    ToolFinished(WEATHER, SUNNY, 0.25),
    ToolFinished(BROKEN, UNKNOWN, 0.0),
    RunPaused((SUNNY, UNKNOWN)),
    TurnFinished(RESULTS, None, is_whole=False),
]  # fmt: skip

JSONL: Final[list[ChatEvent]] = [
    MessageSaved("talk", MESSAGE, ("claude",)),
    AnswerStarted(RUN, "claude", "claude-sonnet-4-5"),
    *(AnswerEvent(RUN, "claude", event) for event in ANSWER),
    TurnSaved(RUN, "claude", CALLING),
    NotSaved("The disk is full."),
    TurnSaved(RUN, "claude", RESULTS, is_saved=False),
    AnswerResumed(RUN, "claude", 2),
    AnswerFinished(RUN, "claude", "answered", COUNTED, Cost(Decimal("0.0036"), Decimal("0.0005")), 3.75),
    AnswerFinished(RUN, "claude", "length", Usage(), None, 0.0),
    AnswerFailed(
        RUN, "claude", ErrorRecord("RateLimited", "Too many requests.", "anthropic", 429, "rate_limit_error"),
        COUNTED, Cost(), 0.5,
    ),
    AnswerFailed(RUN, "claude", ErrorRecord("StoreError", "The disk is full."), Usage(), None, 0.0),
    MessageFinished("talk", ("claude",), ("gemini",)),
    MessageFinished("talk"),
]  # fmt: skip
