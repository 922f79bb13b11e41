"""Views as HTML in the reader's language.

Rules:
1. Templates escape everything that is not HTML already. Only what ``render_markdown`` made is marked as HTML, with ``|safe``.
2. Every word of ours comes from a catalogue. All catalogues have the same keys; English is the one others are compared with.
3. The reader's choice decides the language, then what the browser accepts, then English.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from multi_llm_chat.web.views import AnswerView, Asked, Drawable, Exchange, Phrase, address_of

#: Languages by the name that their speakers give them.
LANGUAGES: Final = {"en": "English", "ja": "日本語", "ko": "한국어", "it": "Italiano"}

_CATALOGUES: Final = Path(__file__).parent / "catalogues"

#: What the scripts say; the rest is said by templates.
_FOR_SCRIPTS: Final = "js_"


class Words:
    """One language's words."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"
        self._catalogue = catalogue(self.language)

    def text(self, key: str) -> str:
        """The words for a key."""
        return self._catalogue[key]

    def maybe(self, key: str) -> str:
        """The words for a key, or the key itself where it is none, as a month."""
        return self._catalogue.get(key, key)

    @property
    def for_scripts(self) -> str:
        """The words that scripts need, as JSON."""
        chosen = {
            key.removeprefix(_FOR_SCRIPTS): text
            for key, text in self._catalogue.items()
            if key.startswith(_FOR_SCRIPTS)
        }
        return msgspec.json.encode(chosen).decode()


@cache
def catalogue(language: str) -> dict[str, str]:
    """All words of a language."""
    data = (_CATALOGUES / f"{language}.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, str])


def chosen_language(choice: str, accepted: str) -> str:
    """The language for a reader who chose one, or whose browser asks for some."""
    if choice in LANGUAGES:
        return choice
    for wanted in re.findall(r"[a-z]{2,3}", accepted.lower()):
        if wanted in LANGUAGES:
            return wanted
    return "en"


_TEMPLATES: Final = Path(__file__).parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["seconds"] = _seconds
    environment.filters["address"] = address_of
    return environment


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.0f} min"


class Drawing:
    """Draws in one language."""

    def __init__(self, words: Words) -> None:
        self.words = words

    def draw(self, template: str, **values: Any) -> str:
        """A template, filled in."""
        found = _environment().get_template(template)
        return found.render(t=self.words.text, words=self.words, **values)

    def html(self, view: Drawable) -> str:
        """What a change of a page holds; words of ours are plain text."""
        match view:
            case Phrase():
                return f"{self.words.text(view.key)} {view.names}".rstrip()
            case AnswerView():
                return self._macro("answer", view, None)
            case Exchange():
                return self._macro("exchange", view)
            case Asked():
                return self._macro("question", view)
            case _:
                return self._macro("segment", view)

    def exchanges(self, exchanges: Sequence[Exchange]) -> str:
        """Several messages, each with its answers."""
        return "".join(map(self.html, exchanges))

    def _macro(self, name: str, *views: Any) -> str:
        return str(getattr(_macros(self.words.language), name)(*views))


@cache
def _macros(language: str) -> Any:
    words = Words(language)
    found = _environment().get_template("messages.html")
    return found.make_module({"t": words.text, "words": words})


def day_of(milliseconds: int, today: datetime | None = None) -> str:
    """The heading under which a conversation stands: a key of the catalogues, or a month."""
    now = today or datetime.now(UTC).astimezone()
    then = datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone()
    days = (now.date() - then.date()).days
    for limit, key in ((1, "today"), (2, "yesterday"), (8, "last_week"), (31, "last_month")):
        if days < limit:
            return key
    return f"{then:%Y-%m}"
