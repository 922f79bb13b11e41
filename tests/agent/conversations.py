"""Long conversations for tests of shortening, with tools, thinking and several speakers."""

from typing import Any

from hypothesis import strategies as st

from multi_llm_chat.history.values import (
    Media,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

ORIGIN = Origin("anthropic", "", "claude-sonnet-5")
SIZES = st.sampled_from([1, 10, 80, 400, 3000])


def _thinking(mark: str) -> Thinking:
    return Thinking(f"hm {mark}", ORIGIN, {"signature": f"sig-{mark}"})


class _Writing:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.turns: list[Turn] = []
        self._count = iter(range(100_000))

    def mark(self, kind: str) -> str:
        padding = "x " * self.draw(SIZES)
        return f"{kind}-{next(self._count)}-end {padding}"

    def say(self, role: str, *parts: Part) -> None:
        number = len(self.turns)
        self.turns.append(Turn(role, parts, id=f"t{number}", created_at=f"2026-11-{number:02}"))

    def round(self, speaker: str) -> None:
        """Return a turn that calls tools, and their results."""
        calls = [
            ToolCall("look", {"mark": self.mark("call")}, f"c{next(self._count)}")
            for _ in range(self.draw(st.integers(1, 3)))
        ]
        self.say(speaker, _thinking(self.mark("thought")), Text(self.mark("aside")), *calls)
        results = [ToolResult("look", self.mark("result"), call.tool_call_id) for call in calls]
        self.say("tool", *results)

    def exchange(self) -> None:
        picture = [Media("image/png", "iVBORw0KGgo=", name="a.png")] * self.draw(st.integers(0, 1))
        self.say("user", Text(self.mark("question")), *picture)
        if self.draw(st.integers(0, 5)) == 0:
            self.say("system", Text(self.mark("rule")))
        for _ in range(self.draw(st.integers(0, 2))):
            self.round("claude")
        for speaker in self.draw(st.sampled_from([(), ("claude",), ("claude", "gemini")])):
            self.say(speaker, Text(self.mark("answer")))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Turn, ...]:
    """Draw exchanges of every kind; the last one may end in the middle of its tool calls."""
    writing = _Writing(draw)
    if draw(st.booleans()):
        writing.say("system", Text("Be kind."))
    for _ in range(draw(st.integers(1, 6))):
        writing.exchange()
    return tuple(writing.turns)


def texts(turns: Any) -> str:
    return "\n".join(repr(turn) for turn in turns)
