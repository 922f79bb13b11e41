"""What the sample files mean: the events of today, one or more of every kind, in the order of the files.

``journal.jsonl`` holds ``JOURNAL`` as rows of ``run_events``, ``jsonl_events.jsonl`` holds ``JSONL`` as lines of
``mlc ask --jsonl``. ``old_journal.jsonl`` and ``old_jsonl_events.jsonl`` are what store version 4 wrote: ``OLD_JOURNAL`` says what
its rows are rewritten to, None for a row that readers pass over.
"""

from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from multi_llm_chat.events import (
    ApprovalDecided,
    ApprovalRequested,
    CompressionNote,
    Cut,
    ErrorRecord,
    Event,
    Finish,
    FormRequested,
    HistoryCompressed,
    MessageFinished,
    MessageSaved,
    NativeItem,
    RunFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    RunWaiting,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Usage,
)
from multi_llm_chat.history.values import (
    Media,
    Native,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

RUN: Final = "run-1"

WEATHER = ToolCall(
    "get_weather", {"city": "東京", "days": 2}, "call_1", '{"city": "東京", "days": 2}'
)
BROKEN = ToolCall("get_weather", {}, "call_2", '{"city": ', "the arguments are not JSON")
SUNNY = ToolResult("get_weather", {"sky": "晴れ", "degrees": [21.5, None, True]}, "call_1")
UNKNOWN = ToolResult("get_weather", "The outcome is not known.", "call_2", True, True)
COUNTED = Usage(1200, 34, 1000, 20, 5)

OLD_JOURNAL: Final[list[Event | None]] = [
    RunStarted("claude-sonnet-4-5"),
    RunWaiting("rate", "Waiting 2 s: the limit of anthropic is used up."),
    None,
    ThinkingDelta('Where is "東京"?\n'),
    TextDelta("Let me look.\t🌦\u2028"),
    ToolCallStart(0, "call_1", "get_weather"),
    ToolCallDelta(0, '{"city": "東京", '),
    ToolCallDelta(0, '"days": 2}'),
    ToolCallEnd(0, WEATHER),
    ToolCallEnd(1, BROKEN),
    COUNTED,
    Finish("tool_calls", "tool_use"),
    TurnFinished(Turn("claude", id=f"{RUN}.0")),
    ToolStarted(WEATHER),
    ToolFinished(WEATHER, SUNNY, 0.25),
    ToolStarted(BROKEN),
    ToolFinished(BROKEN, UNKNOWN, 0.0),
    TurnFinished(Turn("tool", id=f"{RUN}.2.tools")),
    TextDelta("It will be"),
    RunResumed(2),
    TextDelta("It will be sunny."),
    TextDelta("Half a character: \ud83c"),
    Usage(),
    Finish("stop"),
    TurnFinished(Turn("claude", id=f"{RUN}.3"), is_whole=False),
    RunFinished("answered", COUNTED, Decimal("0.0041"), 3.75),
    RunFailed(ErrorRecord("MultiLLMChatError", "The answer failed.")),
    RunFinished("cancelled", COUNTED, None, 1.5),
]

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

SEARCHED: Final = Native(
    "server_tool_use",
    "searched the web for: 東京 weather",
    Origin("anthropic", "api.anthropic.com", "claude-sonnet-4-5"),
    {
        "type": "server_tool_use",
        "id": "srv_1",
        "name": "web_search",
        "input": {"query": "東京 weather"},
    },
)

JOURNAL: Final[list[Event]] = [
    *(event for event in OLD_JOURNAL if event is not None),
    RunWaiting("store", "The disk is full."),
    RunWaiting("rate", "Waiting 2 s.", 1763251202.5),
    HistoryCompressed(SHORTENED),
    RunPaused((SUNNY, UNKNOWN)),
    ApprovalRequested(WEATHER, "weather", "Look at the sky.", interrupted=True),
    ApprovalDecided(WEATHER, allowed=False, reason="Not today."),
    ApprovalDecided(WEATHER, allowed=True, arguments={"city": "大阪", "days": 3}),
    FormRequested(WEATHER, "weather", "Which station?", schema={"type": "object"}),
    NativeItem(SEARCHED),
    TurnFinished(Turn("claude", id=f"{RUN}.4"), COUNTED),
    RunFailed(
        ErrorRecord("RateLimited", "Too many requests.", "anthropic", 429, "rate_limit_error"),
        COUNTED,
        Decimal("0.0041"),
        0.5,
    ),
]

JSONL: Final[list[Event]] = [
    MessageSaved("talk", MESSAGE, ("claude",)),
    *(
        replace(event, run=RUN, speaker="claude")
        for event in (
            RunStarted("claude-sonnet-4-5"),
            *JOURNAL,
            TurnFinished(CALLING, COUNTED),
            TurnFinished(RESULTS, None, is_whole=False, is_saved=False),
        )
        if not isinstance(event, TurnFinished) or event.turn.parts
    ),
    MessageFinished("talk", ("claude",), ("gemini",)),
    MessageFinished("talk"),
]
