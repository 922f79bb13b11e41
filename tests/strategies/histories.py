"""Histories as they are found in the wild, and worse.

``nasty_histories`` gives anything the readers accept. ``marked_histories`` gives histories whose
every word, argument and result is unique, so that a test can see what became of each, together
with what must survive.
"""

from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

SPEAKERS = ["gemini", "chatgpt", "claude", "groq", "mistral", "my-bot", "assistant", "model"]

WORDS = st.one_of(
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

IDS = st.one_of(
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

NAMES = st.one_of(
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

_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.just(float("nan")), st.just(float("-inf")), st.just("\ud800"), st.just(10**30),
)  # fmt: skip
VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def _deep(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = {"down": value}
    return value


ARGUMENTS = st.one_of(
    st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    st.sampled_from(
        ["", "{}", "null", "[1,2]", '{"a": 1}', '{"a":', '{"a":1}{"b":2}', "not json", '{"a":NaN}',
         '{"a":"\\ud800"}', "\0", '"text"']
    ),
    st.none(),
    st.just([1, 2]),
    st.builds(_deep, st.sampled_from([5, 63, 64, 120])),
)  # fmt: skip

MEDIA = st.sampled_from(
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

RESULTS = st.one_of(
    WORDS,
    VALUES,
    st.lists(
        st.one_of(MEDIA, st.builds(lambda text: {"type": "text", "content": text}, WORDS)),
        max_size=3,
    ),
    st.just('{"temperature": "25°C"}'),
)

ORIGINS = st.sampled_from(
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
OPAQUE = st.sampled_from(
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
THINKING = st.builds(
    lambda text, origin, opaque: {"type": "thinking", "content": text, "origin": origin, "opaque": opaque},
    WORDS, ORIGINS, OPAQUE,
)  # fmt: skip


def _call(name: str, arguments: Any, identifier: str, form: int) -> dict[str, Any]:
    content = {"name": name, "arguments": arguments, "tool_call_id": identifier}
    if form == 0:
        return {"type": "tool_call", "content": content}
    if form == 1:
        return {"type": "tool_call", "tool_name": name, "arguments": arguments}
    return {"type": "tool_call"} | content


CALLS = st.builds(_call, NAMES, ARGUMENTS, IDS, st.integers(0, 2))


def _result(name: str, content: Any, identifier: str, form: int) -> dict[str, Any]:
    part = {"type": "tool_result", "name": name, "content": content, "tool_call_id": identifier}
    if form == 1:
        del part["tool_call_id"]
    if form == 2:
        part["result"] = part.pop("content")
    return part | ({"is_error": True} if form == 3 else {})


RESULT_PARTS = st.builds(_result, NAMES, RESULTS, IDS, st.integers(0, 3))
TEXTS = st.one_of(WORDS, st.builds(lambda text: {"type": "text", "content": text}, WORDS))

_SPOKEN = st.lists(st.one_of(TEXTS, CALLS, CALLS, THINKING, MEDIA), max_size=5)
_HEARD = st.lists(st.one_of(TEXTS, MEDIA), max_size=3)
_ODD = st.lists(st.one_of(TEXTS, CALLS, RESULT_PARTS, THINKING, MEDIA), max_size=4)


def _turn(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


_MESSAGES = st.one_of(
    st.builds(
        lambda calls: {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": identifier,
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                for identifier, name, arguments in calls
            ],
        },
        st.lists(st.tuples(IDS, NAMES, ARGUMENTS), min_size=1, max_size=3),
    ),
    st.builds(
        lambda identifier, text: {"role": "tool", "tool_call_id": identifier, "content": text},
        IDS,
        WORDS,
    ),
)

TURNS = st.one_of(
    st.builds(_turn, st.just("user"), st.one_of(WORDS, _HEARD)),
    st.builds(_turn, st.sampled_from(SPEAKERS), st.one_of(WORDS, _SPOKEN)),
    st.builds(_turn, st.sampled_from(SPEAKERS), _SPOKEN),
    st.builds(_turn, st.just("tool"), st.one_of(WORDS, st.lists(RESULT_PARTS, max_size=4))),
    st.builds(_turn, st.just("tool"), st.lists(RESULT_PARTS, max_size=4)),
    st.builds(_turn, st.just("system"), WORDS),
    st.builds(_turn, st.sampled_from(["user", "tool", "system", *SPEAKERS]), _ODD),
    _MESSAGES,
    st.sampled_from([None, 7, "not a turn"]),
)

nasty_histories = st.lists(TURNS, max_size=12)


class Marked(Struct):
    """A history and what must be found in any request made from it.

    ``texts`` are all words of users and speakers, ``pairs`` the marker of each answered call with
    the marker of its (last) result, by who made the call; ``repeated`` results may be superseded.
    """

    history: list[dict[str, Any]]
    texts: list[str]
    pairs: list[tuple[str, str, str]]


@st.composite
def marked_histories(draw: st.DrawFn) -> Marked:
    """Turns of several speakers whose results come late, early, twice, in part or not at all."""
    history: list[dict[str, Any]] = []
    texts: list[str] = []
    pairs: list[tuple[str, str, str]] = []
    late: list[dict[str, Any]] = []
    count = iter(range(10_000))
    reused = draw(st.booleans())

    def words(role: str) -> dict[str, Any]:
        texts.append(f"words-{next(count)}-end")
        return {"role": role, "content": texts[-1]}

    for number in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            history.append(words("user"))
        role = draw(st.sampled_from(SPEAKERS))
        calls, results = [], []
        for position in range(draw(st.integers(0, 3))):
            mark = f"call-{next(count)}-end"
            # With reused ids a result can only be told from another's by its place.
            identifier = f"call_{position}" if reused else f"call_{number}_{position}"
            calls.append(_call("get_weather", {"mark": mark}, identifier, 0))
            if draw(st.integers(0, 4)):
                answer = f"result-{next(count)}-end"
                results.append(_result("get_weather", answer, identifier, 0))
                pairs.append((role, mark, answer))
        parts = [{"type": "text", "content": words(role)["content"]}] if draw(st.booleans()) else []
        if parts or calls:
            history.append({"role": role, "content": parts + calls})
        if not reused:
            results = draw(st.permutations(results))
        for result in results:
            turn = {"role": "tool", "content": [result]}
            if not reused and draw(st.integers(0, 3)) == 0:
                late.append(turn)
            elif not reused and draw(st.integers(0, 6)) == 0:
                history.insert(draw(st.integers(0, len(history))), turn)
            elif history and history[-1]["role"] == "tool" and draw(st.booleans()):
                history[-1]["content"].append(result)
            else:
                history.append(turn)
                if not reused and draw(st.integers(0, 4)) == 0:
                    history.append(words(draw(st.sampled_from(["user", "system", *SPEAKERS]))))
    history.extend(late)
    if draw(st.booleans()):
        history.append(words("user"))
    return Marked(history, texts, pairs)
