"""Histories as they occur in practice, and worse.

``nasty_histories`` draws anything that the readers accept. ``marked_histories`` draws histories in which
every text, argument and result is unique, so that a test can trace each of them, together
with what must survive.
"""

from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

Anything = st.SearchStrategy[Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

SPEAKERS = ["gemini", "chatgpt", "claude", "groq", "mistral", "my-bot", "assistant", "model"]

WORDS: Anything = st.one_of(
    st.sampled_from(
        [
            "Hello",
            "",
            " ",
            "\n\t ",
            "\0",
            "a\0b",
            "\ud800",
            "x\udfffy",
            "\ud83d\ude00",
            "東京の天気は？",
            "안녕하세요",
            "È così",
            "🙂",
            "\u200b",
            "[gemini] hi",
            "null",
            "{}",
            "line\r\nline",
            "\x1b[0m",
            "\x1f",
        ]
    ),
    st.text(max_size=12),
)

IDS: Anything = st.one_of(
    st.sampled_from(
        [
            "",
            "call_0",
            "call_1",
            "f:0",
            "f.0",
            "functions.get:0",
            "abcdefgh9",
            "toolu_01",
            "call00000",
            "x" * 43,
            "y" * 70,
            "ид",
            "a b",
            "\ud800",
            "call_0_0",
        ]
    ),
    st.text(alphabet="ab0_-:.", max_size=4),
)

NAMES: Anything = st.one_of(
    st.sampled_from(
        [
            "get_weather",
            "search",
            "fs.read",
            "fs_read",
            "fs-read",
            "fs:read",
            "検索",
            "",
            "1st",
            "a b",
            "n" * 70,
            "n" * 69 + "m",
            "tool",
            "_",
            "-x",
            "\ud800",
            "get_weather\n",
        ]
    ),
    st.text(max_size=5),
)

_SCALARS: Anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.just(float("nan")), st.just(float("-inf")), st.just("\ud800"), st.just(10**30),
)  # fmt: skip


def _nested(inner: Anything) -> Anything:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)


VALUES: Anything = st.recursive(_SCALARS, _nested, max_leaves=6)


def _deep(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = {"down": value}
    return value


ARGUMENTS: Anything = st.one_of(
    st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    st.sampled_from(
        ["", "{}", "null", "[1,2]", '{"a": 1}', '{"a":', '{"a":1}{"b":2}', "not json", '{"a":NaN}',
         '{"a":"\\ud800"}', "\0", '"text"']
    ),
    st.none(),
    st.just([1, 2]),
    st.builds(_deep, st.sampled_from([5, 63, 64, 120])),
)  # fmt: skip


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


MEDIA: Anything = st.sampled_from(
    [
        {"type": "media", "mime": "image/png", "data": PNG},
        {"type": "media", "mime": "image/png", "data": PNG, "name": "a.png"},
        {"type": "media", "mime": "image/gif", "data": "R0lGODlhAQABAAAAACw="},
        {"type": "media", "mime": "image/png", "data": "not base64!"},
        {"type": "media", "mime": "image/png", "data": ""},
        {"type": "media", "mime": "image/jpeg", "url": "https://example.com/a.jpg"},
        {"type": "media", "mime": "image/jpeg", "url": f"data:image/png;base64,{PNG}"},
        {"type": "media", "mime": "image/jpeg", "url": "file:///etc/passwd"},
        {"type": "media", "mime": "image/jpeg", "url": "nonsense \ud800"},
        {"type": "media", "mime": "application/pdf", "data": "JVBERi0xLjQK", "name": "b.pdf"},
        {"type": "media", "mime": "audio/wav", "data": "UklGRg=="},
        {"type": "media", "mime": "video/mp4", "data": "AAAAGGZ0eXA="},
        {"type": "media", "mime": "x/y", "data": "AAAA", "name": "\ud800"},
        {"type": "media", "mime": "", "data": "AAAA"},
        {"type": "media", "mime": "image/svg+xml", "data": "PHN2Zy8+"},
    ]
)

RESULTS: Anything = st.one_of(
    WORDS,
    VALUES,
    st.lists(
        st.one_of(MEDIA, st.builds(_text, WORDS)),
        max_size=3,
    ),
    st.just('{"temperature": "25°C"}'),
)

ORIGINS: Anything = st.sampled_from(
    [
        {},
        {"provider": "anthropic", "model": "claude-sonnet-5"},
        {"provider": "anthropic", "model": "claude-sonnet-4-5"},
        {"provider": "anthropic", "endpoint": "vertex", "model": "claude-sonnet-5"},
        {"provider": "gemini", "model": "gemini-3.7-flash"},
        {"provider": "gemini", "model": "gemini-2.5-pro"},
        {"provider": "openai", "model": "gpt-5.6-terra"},
        {"provider": "deepseek", "model": "deepseek-reasoner"},
        {"provider": "groq", "model": "openai/gpt-oss-120b"},
        {"provider": "openrouter", "model": "openai/gpt-5.4-mini"},
    ]
)
OPAQUE: Anything = st.sampled_from(
    [
        {},
        {"signature": "EqRkc2lnbmF0dXJl"},
        {"signature": ""},
        {"redacted": "EmZvbw=="},
        {"thoughtSignature": "c2lnbmF0dXJl"},
        {"encrypted_content": "gAAAAABo", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"encrypted_content": "gAAAAABo"},
        {"field": "reasoning_content"},
        {"field": "reasoning", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"signature": 5},
    ]
)


def _thinking(text: str, origin: Any, opaque: Any) -> dict[str, Any]:
    return {"type": "thinking", "content": text, "origin": origin, "opaque": opaque}


THINKING: Anything = st.builds(_thinking, WORDS, ORIGINS, OPAQUE)


def _call(name: str, arguments: Any, identifier: str, form: int) -> dict[str, Any]:
    content = {"name": name, "arguments": arguments, "tool_call_id": identifier}
    if form == 0:
        return {"type": "tool_call", "content": content}
    if form == 1:
        return {"type": "tool_call", "tool_name": name, "arguments": arguments}
    return {"type": "tool_call"} | content


CALLS: Anything = st.builds(_call, NAMES, ARGUMENTS, IDS, st.integers(0, 2))


def _result(name: str, content: Any, identifier: str, form: int) -> dict[str, Any]:
    part = {"type": "tool_result", "name": name, "content": content, "tool_call_id": identifier}
    if form == 1:
        del part["tool_call_id"]
    if form == 2:
        part["result"] = part.pop("content")
    return part | ({"is_error": True} if form == 3 else {})


#: Origins that no target of these tests has: items from there are always replaced by descriptions.
_OTHER_PLACES: Anything = st.sampled_from(
    [
        {},
        {"provider": "acme", "endpoint": "acme.test", "model": "acme-1"},
        {"provider": "anthropic", "endpoint": "vertex", "model": "claude-sonnet-5"},
        {"provider": "openai", "endpoint": "old.example", "model": "gpt-5.6-terra"},
        "nowhere",
    ]
)


def _native(kind: Any, text: Any, origin: Any, raw: Any) -> dict[str, Any]:
    return {"type": "native", "kind": kind, "text": text, "origin": origin, "raw": raw}


NATIVES: Anything = st.builds(
    _native,
    st.sampled_from(["server_tool_use", "web_search_call", "compaction", "", "\ud800", None]),
    WORDS,
    _OTHER_PLACES,
    st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
)


def _extended(part: dict[str, Any], origin: Any, fields: Any) -> dict[str, Any]:
    return part | {"extras": {"origin": origin, "fields": fields}}


#: Texts and calls with another provider's fields.
EXTENDED: Anything = st.builds(
    _extended,
    st.one_of(st.builds(_text, WORDS), CALLS),
    _OTHER_PLACES,
    st.one_of(
        st.dictionaries(st.text(max_size=4), VALUES, max_size=2),
        st.sampled_from(
            [
                {"citations": [{"title": "Rain", "url": "https://w.test"}]},
                {"annotations": [{"type": "url_citation", "url_citation": {"url": "\ud800"}}]},
                {"message": {"prefix": True, "id": "msg_1"}},
                {"cache_control": {"type": "ephemeral"}},
            ]
        ),
    ),
)

RESULT_PARTS: Anything = st.builds(_result, NAMES, RESULTS, IDS, st.integers(0, 3))
TEXTS: Anything = st.one_of(WORDS, st.builds(_text, WORDS))

_SPOKEN: Anything = st.lists(
    st.one_of(TEXTS, CALLS, CALLS, THINKING, MEDIA, NATIVES, EXTENDED), max_size=5
)
_TEXT_OR_MEDIA: Anything = st.lists(st.one_of(TEXTS, MEDIA), max_size=3)
_ODD: Anything = st.lists(
    st.one_of(TEXTS, CALLS, RESULT_PARTS, THINKING, MEDIA, NATIVES, EXTENDED), max_size=4
)


def _turn(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def _calling(calls: list[tuple[str, str, Any]]) -> dict[str, Any]:
    written = [
        {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
        for identifier, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": written}


def _answering(identifier: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identifier, "content": text}


_MESSAGES: Anything = st.one_of(
    st.builds(_calling, st.lists(st.tuples(IDS, NAMES, ARGUMENTS), min_size=1, max_size=3)),
    st.builds(_answering, IDS, WORDS),
)

TURNS: Anything = st.one_of(
    st.builds(_turn, st.just("user"), st.one_of(WORDS, _TEXT_OR_MEDIA)),
    st.builds(_turn, st.sampled_from(SPEAKERS), st.one_of(WORDS, _SPOKEN)),
    st.builds(_turn, st.sampled_from(SPEAKERS), _SPOKEN),
    st.builds(_turn, st.just("tool"), st.one_of(WORDS, st.lists(RESULT_PARTS, max_size=4))),
    st.builds(_turn, st.just("tool"), st.lists(RESULT_PARTS, max_size=4)),
    st.builds(_turn, st.just("system"), WORDS),
    st.builds(_turn, st.sampled_from(["user", "tool", "system", *SPEAKERS]), _ODD),
    _MESSAGES,
    st.sampled_from([None, 7, "not a turn"]),
)

nasty_histories: Anything = st.lists(TURNS, max_size=12)


class Marked(Struct):
    """A history and what any request built from it must contain.

    ``texts`` are all texts of users and speakers; ``pairs`` have each answered call's speaker, its
    marker and the marker of its result.
    """

    history: list[dict[str, Any]]
    texts: list[str]
    pairs: list[tuple[str, str, str]]


class _Marking:
    """Builds a marked history, turn by turn.

    With reused ids only its position distinguishes a result from another call's, so it stays in place.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.marked = Marked([], [], [])
        self.late: list[dict[str, Any]] = []
        self.reused: bool = draw(st.booleans())
        self._count = iter(range(10_000))

    def mark(self, kind: str) -> str:
        return f"{kind}-{next(self._count)}-end"

    def words(self) -> str:
        text = self.mark("words")
        self.marked.texts.append(text)
        return text

    def says(self, role: str) -> None:
        self.marked.history.append({"role": role, "content": self.words()})

    def exchange(self, number: int) -> None:
        """Add a speaker's turn with some calls, and the results of most of them."""
        role: str = self.draw(st.sampled_from(SPEAKERS))
        parts: list[dict[str, Any]] = []
        if self.draw(st.booleans()):
            parts.append({"type": "text", "content": self.words()})
        results: list[dict[str, Any]] = []
        for position in range(self.draw(st.integers(0, 3))):
            mark = self.mark("call")
            identifier = f"call_{position}" if self.reused else f"call_{number}_{position}"
            parts.append(_call("get_weather", {"mark": mark}, identifier, 0))
            if self.draw(st.integers(0, 4)):
                answer = self.mark("result")
                results.append(_result("get_weather", answer, identifier, 0))
                self.marked.pairs.append((role, mark, answer))
        if parts:
            self.marked.history.append({"role": role, "content": parts})
        for result in results if self.reused else self.draw(st.permutations(results)):
            self.place(result)

    def place(self, result: dict[str, Any]) -> None:
        """Put a result in its place, or too late, or too early."""
        history = self.marked.history
        turn: dict[str, Any] = {"role": "tool", "content": [result]}
        chance = 9 if self.reused else self.draw(st.integers(0, 9))
        if chance < 2:
            self.late.append(turn)
        elif chance == 2:
            history.insert(self.draw(st.integers(0, len(history))), turn)
        elif history and history[-1]["role"] == "tool" and self.draw(st.booleans()):
            history[-1]["content"].append(result)
        else:
            history.append(turn)
            if chance == 3:
                self.says(self.draw(st.sampled_from(["user", "system", *SPEAKERS])))


@st.composite
def marked_histories(draw: st.DrawFn) -> Marked:
    """Draw turns of several speakers whose results come late, early, in part or not at all."""
    marking = _Marking(draw)
    for number in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            marking.says("user")
        marking.exchange(number)
    marking.marked.history.extend(marking.late)
    if draw(st.booleans()):
        marking.says("user")
    return marking.marked
