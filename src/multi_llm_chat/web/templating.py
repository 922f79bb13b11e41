"""Views as HTML, by templates that escape everything that is not HTML already.

Rules:
1. Only what ``render_markdown`` made is marked as HTML in a template, with ``|safe``, and nowhere else.
2. Every word of ours comes from a catalogue; the language is the reader's.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from multi_llm_chat.web.addresses import address_of
from multi_llm_chat.web.translations import Words
from multi_llm_chat.web.views import AnswerView, Asked, Drawable, Exchange, Phrase

_FOLDER: Final = Path(__file__).parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
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
