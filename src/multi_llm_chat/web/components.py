"""Every card of the page in every state, as values for the component page.

Rules:
1. The component page is for development. It is served only if the server was started for it.
2. It uses only the templates of the real page.
3. ``text`` is put in every place whose text comes from outside: models, tools, servers, users. Tests pass attacks.
"""

import re
import time
from typing import Final

from multi_llm_chat.events import Usage
from multi_llm_chat.store import ErrorRecord
from multi_llm_chat.tools.approval import edit_text
from multi_llm_chat.tools.mcp import Elicitation
from multi_llm_chat.web.cited_text import mark_citations, render_cited
from multi_llm_chat.web.markdown import render_markdown
from multi_llm_chat.web.templating import HtmlRenderer, Translations, read_template
from multi_llm_chat.web.views import (
    ArgumentChange,
    ArtifactSegment,
    CitedParagraph,
    ClaimCell,
    ClaimRow,
    Footer,
    NoteSegment,
    PageAnswer,
    PageExchange,
    PageMessage,
    PageOutbox,
    Segment,
    ServerForm,
    Source,
    SourcesSegment,
    StepSegment,
    Switch,
    TextSegment,
    ThinkingSegment,
    ToolSegment,
    VerdictSegment,
    WaitingMessage,
    hue_of,
)

#: The default for every place whose text comes from outside.
TEXT: Final = "UUIDv7, if ids leave the database"

_WORDS: Final = """**{text}.** It sorts by time, so inserts stay at the right edge of the index.

- Postgres 18 has `uuidv7()` built in
- 16 bytes against 8: about 30 % larger index

| key | bytes |
|---|--:|
| bigint | 8 |
| uuid | 16 |

```python
def next_id() -> int:
    return 7  # the next one
```

Do not hand it out where that is a secret"""
_RFC: Final = "https://www.rfc-editor.org/rfc/rfc9562"
_ROWS: Final = (
    '[{"relname":"session","rows":41208117},{"relname":"session_event","rows":688914002}]'
)
_SCHEMA: Final = {
    "type": "object",
    "required": ["arrival", "nights"],
    "properties": {
        "arrival": {"type": "string", "format": "date", "title": "Arrival"},
        "nights": {
            "type": "integer",
            "minimum": 1,
            "maximum": 14,
            "default": 3,
            "title": "Nights",
        },
        "room": {"type": "string", "enum": ["Japanese", "Western"], "title": "Room"},
        "city": {
            "type": "string",
            "enum": ["Kyoto", "Nara", "Osaka", "Kobe", "Uji"],
            "title": "City",
        },
        "breakfast": {"type": "boolean", "title": "Breakfast", "default": True},
        "wish": {"type": "string", "maxLength": 80, "title": "Wish", "description": "In short."},
    },
}
_PAID: Final = Footer(Usage(input_tokens=1204, output_tokens=212), "$0.0061", 5.0)


def sample_form(text: str = TEXT, key: str = "form") -> ServerForm:
    """A form with a field of every kind."""
    return ServerForm(key, Elicitation("yado-search", text, schema=_SCHEMA))


def sample_outbox(text: str = TEXT) -> PageOutbox:
    """Two waiting messages."""
    return PageOutbox(
        (WaitingMessage("q1", text, ("gemini", "claude")), WaitingMessage("q2", f"{text}, later"))
    )


def sample_exchanges(text: str = TEXT) -> list[tuple[str, PageExchange]]:
    """All states of answers, by their names."""
    return [
        ("Writing, waiting for an approval, complete", _exchange(text, "a", *_usual(text))),
        ("Refused, broken, stopped", _exchange(text, "b", *_broken(text))),
        ("Tools", _exchange(text, "c", *_with_tools(text))),
        ("A single answer, at the limit of the provider", _exchange(text, "d", _waiting(text))),
        ("A memo", _exchange(text, "e", is_memo=True)),
        ("A council", _exchange(text, "f", *_council(text))),
    ]


def _exchange(text: str, key: str, *answers: PageAnswer, is_memo: bool = False) -> PageExchange:
    switch = Switch(1, 2, None, "other") if key == "d" else None
    message = PageMessage(f"m-{key}", render_markdown(text), text, (), is_memo, (), switch)
    return PageExchange(f"x-{key}", message, answers)


def _answer(
    run: str,
    speaker: str,
    hue: int,
    *segments: Segment,
    footer: Footer = _PAID,
    is_live: bool = False,
) -> PageAnswer:
    turn = None if is_live else f"turn-{run}"
    return PageAnswer(
        run, speaker, hue, "model-5", segments, Footer() if is_live else footer, turn, is_live=is_live
    )  # fmt: skip


def _usual(text: str) -> tuple[PageAnswer, ...]:
    words = _WORDS.replace("{text}", text)
    return (
        PageAnswer(
            "a1",
            "gemini",
            0,
            "gemini-3.7-flash",
            (
                ThinkingSegment("a1-0", text),
                StepSegment("a1-4", "web_search_call", text),
                TextSegment("a1-1", render_cited(mark_citations(words, (1, 2)), {1: _RFC})),
                SourcesSegment(
                    "a1-2",
                    (
                        Source(1, text, _RFC, text),
                        Source(2, "UUID functions", "https://postgresql.org/docs"),
                    ),
                ),
                ArtifactSegment("a1-3", text, "html", 2),
            ),
            _PAID,
            "turn-a1",
            Switch(2, 2, "before", None),
        ),
        _answer(
            "a2",
            "chatgpt",
            1,
            ThinkingSegment("a2-0", text),
            ToolSegment("a2-1", "run_query", "running", "postgres", rows=(("sql", text),)),
            TextSegment("a2-2", render_markdown(text), render_markdown("I would keep")),
            is_live=True,
        ),
        _answer(
            "a3",
            "claude",
            2,
            TextSegment("a3-0", render_markdown(text)),
            ToolSegment(
                "a3-1",
                "create_issue",
                "waiting",
                "github",
                text,
                (("repo", "acme/ledger"), ("title", text), ("body", "\n".join([text] * 12))),
                question="question",
                interrupted=True,
                hints=("reads", "writes", "deletes", "internet"),
                editable=edit_text({"repo": "acme/ledger", "title": text}),
            ),
            is_live=True,
        ),
    )


def _broken(text: str) -> tuple[PageAnswer, ...]:
    words = TextSegment("b-words", render_markdown(text))
    return (
        _answer(
            "b1",
            "gemini",
            0,
            footer=Footer(error=ErrorRecord("AuthError", text, "google", 401), seconds=0.2),
        ),
        _answer(
            "b2",
            "chatgpt",
            1,
            words,
            footer=Footer(_PAID.usage, "$0.0061", 5.0, error=ErrorRecord("StreamBroken", text)),
        ),
        _answer(
            "b3",
            "claude",
            2,
            words,
            footer=Footer(_PAID.usage, "$0.0061", 2.5, "cancelled", is_about=True),
        ),
        _answer("b4", "advisor", 3, words, footer=Footer(None, None, 2.5, "length")),
        _answer(
            "b5", "chatgpt", 1, words, footer=Footer(None, None, 1.5, "cancelled", about_tokens=31)
        ),
    )


def _with_tools(text: str) -> tuple[PageAnswer, ...]:
    long = "\n".join(f"{number}: {text}" for number in range(30))
    return (
        _answer(
            "c1",
            "teal",
            4,
            ToolSegment("c1-0", "search_issues", "done", "github", result=text, seconds=0.8),
            ToolSegment("c1-1", "run_query", "done", "postgres", result=_ROWS, seconds=0.2),
            ToolSegment("c1-2", "read_file", "done", "files", "", (("path", text),), result=long),
            ToolSegment("c1-3", "fetch", "failed", "web", "", (("url", text),), result=text),
            ToolSegment("c1-4", "write_file", "writing", "files"),
            ToolSegment(
                "c1-5",
                "create_issue",
                "failed",
                "github",
                "",
                (("repo", "acme/ledger"), ("title", text), ("body", text)),
                result=text,
                changes=(
                    ArgumentChange("title", text, f"{text}!"),
                    ArgumentChange("body", f"{text}\nnow", f"{text}\nlater"),
                    ArgumentChange("label", None, text),
                    ArgumentChange("repo", "acme/ledger", None),
                ),
            ),
        ),
        _answer(
            "c2",
            "rose",
            6,
            ToolSegment(
                "c2-0", "find_rooms", "running", "yado-search", form=sample_form(text, "c2")
            ),
            is_live=True,
        ),
    )


def _council(text: str) -> tuple[PageAnswer, ...]:
    passage = (CitedParagraph(1, text),)
    agree, contradict = ClaimCell("agree", passage), ClaimCell("contradict", passage)
    members = (("gemini", 0), ("chatgpt", 1), ("claude", 2))
    rows = (
        ClaimRow(text, (agree, agree, agree)),
        ClaimRow(text, (agree, ClaimCell(), agree)),
        ClaimRow(text, (agree, contradict, ClaimCell())),
        ClaimRow(text, (ClaimCell(), ClaimCell(), agree)),
    )
    answers = [
        _answer(f"f{hue}", name, hue, TextSegment(f"f{hue}-0", render_markdown(text)))
        for name, hue in members
    ]
    found = VerdictSegment("f9-0", render_markdown(text), members, rows)
    verdict = PageAnswer("f9", "claude", 2, "model-5", (found,), _PAID, "turn-f9", is_council=True)
    return (*answers, verdict)


def _waiting(text: str) -> PageAnswer:
    until = time.time() + 3600
    notes = (
        NoteSegment("d1-0", text, "rate", until),
        NoteSegment("d1-1", text, "store"),
        NoteSegment("d1-2", text),
    )
    return _answer("d1", "local", 7, *notes, is_live=True)


# The page.

_ICONS: Final = re.compile(r'id="icon-([a-z]+)"')


def render_components(theme: str, language: str, text: str = TEXT) -> str:
    """The component page as HTML."""
    names = ("gemini", "chatgpt", "claude", "local")
    people = [
        {
            "name": name,
            "model": text,
            "chosen": text if at == 2 else "",
            "base": name,
            "hue": hue_of(name, names),
            "is_addressed": at % 2 == 0,
        }
        for at, name in enumerate(names)
    ]
    return HtmlRenderer(Translations(language)).render(
        "components.html",
        theme=theme,
        text=text,
        icons=_ICONS.findall(read_template("icons.html")),
        people=people,
        exchanges=sample_exchanges(text),
        form=sample_form(text),
        outbox=sample_outbox(text),
    )
