"""Conversations as they occur in practice: broken, truncated, and passed from one provider's model to another's.

Rules:
1. A history is in our provider-neutral serialised form; every contender receives it in its own types.
2. Every text has a unique marker to find it by in the request; ``texts`` are the texts that must arrive (all non-blank texts of users,
   speakers and system turns). A text that cannot be sent unchanged (half a surrogate pair) is found by its valid part.
3. ``rules`` are the rows of docs/rules.md that the history exercises; tests/rules and tests/strategies cover the same situations.
"""

from typing import Any

from msgspec import Struct, field

Body = dict[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQK"


def tool(name: str = "get_weather", schema: Any = None) -> Body:
    """Return a tool as MCP lists it."""
    plain = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {"name": name, "description": "The weather in a city.", "inputSchema": schema or plain}


class Case(Struct, frozen=True):
    """One conversation and the texts that a request built from it must contain."""

    name: str
    rules: tuple[str, ...]
    history: list[Body]
    tools: list[Body] = field(default_factory=lambda: [tool()])
    said: tuple[str, ...] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that must arrive."""
        if self.said is not None:
            return self.said
        found: list[str] = []
        for turn in self.history:
            content = turn["content"]
            parts = [content] if isinstance(content, str) else content
            for part in parts:
                text = part if isinstance(part, str) else part["content"] if part["type"] == "text" else ""  # fmt: skip
                if text.strip():
                    found.append(text)
        return tuple(found)


def says(text: Any, role: str = "user") -> Body:
    """Return a turn with one text."""
    return {"role": role, "content": text}


def speaks(*parts: Any, role: str = "assistant") -> Body:
    """Return a turn with several parts."""
    return {"role": role, "content": list(parts)}


def words(text: str) -> Body:
    """Return a text part."""
    return {"type": "text", "content": text}


def wants(identifier: str = "call_a1", name: str = "get_weather", **more: Any) -> Body:
    """Return a tool call part."""
    content: Body = {"name": name, "arguments": {"city": "Tokyo"}, "tool_call_id": identifier}
    return {"type": "tool_call", "content": content | more}


def gave(identifier: str = "call_a1", content: Any = "25 degrees", name: str = "get_weather") -> Body:  # fmt: skip
    """Return a tool result part."""
    return {"type": "tool_result", "name": name, "content": content, "tool_call_id": identifier}


def tells(*results: Body) -> Body:
    """Return a turn of tool results."""
    return {"role": "tool", "content": list(results)}


def thinks(text: str, provider: str, model: str, **opaque: Any) -> Body:
    """Return a thinking part and its origin."""
    return {
        "type": "thinking",
        "content": text,
        "origin": {"provider": provider, "model": model, "endpoint": ""},
        "opaque": opaque,
    }


ASKS = says("question-one: what is the weather?")
MORE = says("question-two: and now?")
ANSWERS = says("answer-one: it is warm.", "assistant")
_LONG = "call_" + "x" * 70
_NAN, _INFINITY = float("nan"), float("inf")

CASES = (
    Case("plain talk (control)", (), [ASKS, ANSWERS, MORE]),
    Case("a whole tool exchange (control)", (), [ASKS, speaks(wants()), tells(gave()), ANSWERS, MORE]),
    Case("two calls, two results (control)", (), [ASKS, speaks(words("looking-up"), wants("call_a1"), wants("call_b2", arguments={"city": "Kyoto"})), tells(gave("call_a1"), gave("call_b2")), ANSWERS, MORE]),
    # Calls without results.
    Case("unanswered call, the user continues", ("OAI-02", "RSP-01", "ANT-02"), [ASKS, speaks(words("looking-up"), wants()), MORE]),
    Case("unanswered call is the end", ("OAI-02", "RSP-01", "ANT-02", "GEM-09"), [ASKS, speaks(words("looking-up"), wants())]),
    Case("one of two calls is answered", ("OAI-04", "ANT-02", "GEM-03"), [ASKS, speaks(wants("call_a1"), wants("call_b2", arguments={"city": "Kyoto"})), tells(gave("call_b2")), MORE]),
    Case("stopped in the middle of a sentence", ("ANT-08",), [ASKS, says("answer-cut: it is w", "assistant"), MORE]),
    # Results without calls.
    Case("orphan result", ("OAI-01", "RSP-02", "ANT-01", "GEM-02"), [ASKS, tells(gave()), MORE]),
    Case("window cut: begins with a result", ("OAI-01", "RSP-02", "ANT-01", "GEM-02"), [tells(gave()), ANSWERS, MORE]),
    Case("window cut: begins with a call", ("ANT-21", "GEM-01"), [speaks(wants()), tells(gave()), ANSWERS, MORE]),
    Case("window cut: begins with the model", ("ANT-21", "GEM-01"), [ANSWERS, MORE]),
    # Order.
    Case("late result: the user spoke in between", ("OAI-03", "ANT-01", "GEM-02"), [ASKS, speaks(wants()), says("meanwhile-said"), tells(gave()), MORE]),
    Case("late result: user and model spoke in between", ("OAI-03", "ANT-01", "GEM-02"), [ASKS, speaks(wants()), says("meanwhile-said"), says("patience-please", "assistant"), tells(gave()), MORE]),
    Case("early result", ("OAI-01", "ANT-01", "GEM-02"), [ASKS, tells(gave()), speaks(wants()), MORE]),
    Case("results in another order", ("GEM-03",), [ASKS, speaks(wants("call_a1"), wants("call_b2", arguments={"city": "Kyoto"})), tells(gave("call_b2"), gave("call_a1")), ANSWERS, MORE]),
    Case("words before the result in one turn", ("ANT-03", "GEM-10"), [ASKS, speaks(wants()), speaks(words("aside-said"), gave(), role="user"), ANSWERS, MORE]),
    # Ids.
    Case("two results for one call", ("OAI-23", "ANT-04", "GEM-03"), [ASKS, speaks(wants()), tells(gave(content="first"), gave(content="second")), ANSWERS, MORE]),
    Case("one id for two calls of a turn", ("ANT-04",), [ASKS, speaks(wants("call_a1"), wants("call_a1", arguments={"city": "Kyoto"})), tells(gave("call_a1", "first"), gave("call_a1", "second")), ANSWERS, MORE]),
    Case("id used again in a later turn", ("ANT-04",), [ASKS, speaks(wants()), tells(gave()), ANSWERS, says("again-asked"), speaks(wants()), tells(gave()), MORE]),
    Case("ids with colons and dots", ("ANT-05",), [ASKS, speaks(wants("functions.get:0")), tells(gave("functions.get:0")), ANSWERS, MORE]),
    Case("ids that look alike once cleaned", ("ANT-05",), [ASKS, speaks(wants("f:0"), wants("f.0", arguments={"city": "Kyoto"})), tells(gave("f:0"), gave("f.0")), ANSWERS, MORE]),
    Case("id of 75 characters", ("OAI-07", "RSP-07", "ANT-05"), [ASKS, speaks(wants(_LONG)), tells(gave(_LONG)), ANSWERS, MORE]),
    Case("no id at all", ("RSP-14", "ANT-05"), [ASKS, speaks(wants("")), tells(gave("")), ANSWERS, MORE]),
    # Names.
    Case("tool name with a dot", ("OAI-08", "ANT-17"), [ASKS, speaks(wants(name="weather.get")), tells(gave(name="weather.get")), ANSWERS, MORE], [tool("weather.get")]),
    Case("made-up tool name with spaces", ("OAI-08", "ANT-17", "GEM-11"), [ASKS, speaks(wants(name="get the weather!")), tells(gave(name="get the weather!")), ANSWERS, MORE]),
    Case("tool name of 80 characters", ("OAI-08", "ANT-17", "GEM-11"), [ASKS, speaks(wants(name="w" * 80)), tells(gave(name="w" * 80)), ANSWERS, MORE], [tool("w" * 80)]),
    Case("history speaks of tools, none is offered", ("ANT-16",), [ASKS, speaks(wants()), tells(gave()), ANSWERS, MORE], []),
    Case("a tool whose schema is a choice", ("OAI-14", "ANT-18"), [ASKS], [tool(schema={"type": "object", "oneOf": [{"properties": {"city": {"type": "string"}}, "required": ["city"]}, {"properties": {"zip": {"type": "string"}}, "required": ["zip"]}]})]),
    Case("a tool with a list of nothing known", ("OAI-14",), [ASKS], [tool(schema={"type": "object", "properties": {"cities": {"type": "array"}}})]),
    # Empty content.
    Case("empty turn of the model", ("ANT-07", "GEM-08"), [ASKS, speaks(), MORE]),
    Case("blank turn of the model", ("ANT-06", "GEM-08"), [ASKS, says(" \n", "assistant"), MORE]),
    Case("empty words of the user", ("ANT-07", "GEM-08"), [ASKS, ANSWERS, says(""), MORE]),
    Case("blank parts next to words", ("ANT-06",), [speaks(words(""), words("question-one"), words(" "), role="user")]),
    Case("nothing but an empty message", ("ANT-07", "GEM-08"), [says("")]),
    Case("empty result", ("ANT-26",), [ASKS, speaks(wants()), tells(gave(content="")), ANSWERS, MORE]),
    Case("result is null", ("OAI-09", "ANT-26"), [ASKS, speaks(wants()), tells(gave(content=None)), ANSWERS, MORE]),
    Case("result is a list of objects", ("OAI-10", "GEM-18"), [ASKS, speaks(wants()), tells(gave(content=[{"t": 25}, {"t": 26}])), ANSWERS, MORE]),
    # Speakers.
    Case("the model has the last word", ("ANT-08", "GEM-09"), [ASKS, ANSWERS]),
    Case("the user speaks twice", ("ANT-21",), [ASKS, says("addition-said"), MORE]),
    Case("two models answer in a row", ("ANT-21",), [ASKS, says("answer-gemini", "gemini"), says("answer-claude", "claude"), says("answer-chatgpt", "chatgpt"), MORE]),
    Case("each model used a tool of its own", ("ANT-21", "GEM-05"), [ASKS, speaks(wants("gem_1"), role="gemini"), tells(gave("gem_1")), says("answer-gemini", "gemini"), says("same-again"), speaks(wants("toolu_1"), role="claude"), tells(gave("toolu_1")), says("answer-claude", "claude"), MORE]),
    Case("system words in the middle", ("ANT-20", "MIS-05"), [says("be-kind rule", "system"), ASKS, ANSWERS, says("be-brief rule", "system"), MORE]),
    Case("nothing but a system turn", ("ANT-07", "RSP-11", "GEM-08"), [says("be-kind rule", "system")]),
    # Thinking.
    Case("signed thinking of Claude in a tool loop", ("ANT-10", "ANT-11", "OAI-11"), [ASKS, speaks(thinks("hm", "anthropic", "claude-opus-4-6", signature="c2ln"), words("looking-up"), wants(), role="claude"), tells(gave()), MORE]),
    Case("unsigned thinking of another provider", ("ANT-13", "OAI-11"), [ASKS, speaks(thinks("hm", "deepseek", "deepseek-reasoner"), words("answer-one"), role="deepseek"), MORE]),
    Case("encrypted reasoning of another provider's model", ("RSP-05",), [ASKS, speaks(thinks("hm", "openai", "gpt-5.1", encrypted_content="gAAAAABo"), words("answer-one"), role="chatgpt"), MORE]),
    # Values that JSON cannot express.
    Case("NaN in the arguments", ("ANT-22", "OAI-20"), [ASKS, speaks(wants(arguments={"city": "Tokyo", "limit": _NAN})), tells(gave()), ANSWERS, MORE]),
    Case("infinity in a result", ("ANT-22",), [ASKS, speaks(wants()), tells(gave(content={"t": _INFINITY})), ANSWERS, MORE]),
    Case("half a surrogate pair", ("ANT-22",), [says("question-smile \ud83d"), ANSWERS, MORE], said=("question-smile", "answer-one", "question-two")),
    Case("arguments that are no JSON", ("OAI-20", "ANT-23"), [ASKS, speaks(wants(arguments={}, raw_arguments='{"city": "Tok', error="not JSON")), tells(gave(content="error: not JSON")), ANSWERS, MORE]),
    # Media.
    Case("a picture from the user", (), [speaks(words("picture-question"), {"type": "media", "mime": "image/png", "data": PNG}, role="user")]),
    Case("a document from the user", (), [speaks(words("document-question"), {"type": "media", "mime": "application/pdf", "data": PDF, "name": "a.pdf"}, role="user")]),
)  # fmt: skip
