"""Texts that cite: numbers in an answer that lead to pages, and claims of a verdict that lead to paragraphs of other answers.

Rules:
1. Each page has one number in an answer, in the order in which it is cited.
2. A number is put at the end of the part that cites the page, and only in text: a number inside a tag or a formula is removed.
3. Adjacent texts are rendered as one text, as they were streamed, if one of them has a citation.
4. A link of a verdict holds the text of its paragraph as the page shows it, and the page finds the paragraph by that text. An id without a
   paragraph (of a deleted answer, or in a verdict that broke its schema) has no text, and leads to the whole answer.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape, unescape
from typing import Final, TypeAlias
from urllib.parse import quote

from multi_llm_chat.chat.branch import addressed_by
from multi_llm_chat.chat.council import Claim, Verdict, member_answers
from multi_llm_chat.history.citations import citations_of
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.web.markdown import clean_html, render_markdown
from multi_llm_chat.web.views import (
    CitedParagraph,
    ClaimCell,
    ClaimRow,
    Source,
    VerdictSegment,
    hue_of,
)

#: Characters that are not escaped in the address of a page.
_URL_CHARACTERS: Final = ":/?#[]@!$&()*+,;=%~"

#: Private-use characters around a number; they are removed from a text before numbers are inserted.
_OPENING, _CLOSING = "\ue000", "\ue001"
_MARK: Final = re.compile(f"{_OPENING}([0-9]+){_CLOSING}")
#: A mark in a formula, which becomes an element for each sign.
_FORMULA_MARK: Final = re.compile(
    f"<mi[^>]*>{_OPENING}</mi>(?:<mn[^>]*>[0-9]+</mn>)?<mi[^>]*>{_CLOSING}</mi>"
)
_TAG: Final = re.compile(r"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")


def mark_citations(text: str, numbers: Sequence[int]) -> str:
    """The text with the numbers of the pages that it cites at its end, for ``render_cited``."""
    plain = text.replace(_OPENING, "").replace(_CLOSING, "")
    words = plain.rstrip()
    marks = "".join(f"{_OPENING}{number}{_CLOSING}" for number in numbers)
    return f"{words}{marks}{plain[len(words) :]}"


def render_cited(text: str, urls: Mapping[int, str]) -> str:
    """A text with marked citations as HTML; each number is a link, or a plain number if it has no address."""

    def number(found: re.Match[str]) -> str:
        url = urls.get(int(found[1]), "")
        if not url.startswith(("http://", "https://")):
            return f'<span class="cite">{found[1]}</span>'
        return clean_html(
            f'<a class="cite" href="{escape(quote(url, safe=_URL_CHARACTERS))}">{found[1]}</a>'
        )

    html = _FORMULA_MARK.sub("", render_markdown(text))
    pieces: list[str] = []
    at = 0
    for tag in _TAG.finditer(html):  # a number inside a tag, such as in an address, is removed
        pieces += [_MARK.sub(number, html[at : tag.start()]), _MARK.sub("", tag[0])]
        at = tag.end()
    numbered = "".join([*pieces, _MARK.sub(number, html[at:])])
    return numbered.replace(_OPENING, "").replace(_CLOSING, "")


#: The pages that an answer cites, by title and address.
Sources: TypeAlias = Mapping[tuple[str, str], Source]


def read_sources(turns: Sequence[Turn]) -> dict[tuple[str, str], Source]:
    """The pages that the turns cite, each once, numbered in the order in which they are cited."""
    found: dict[tuple[str, str], Source] = {}
    for turn in turns:
        for part in turn.parts:
            for each in citations_of(part) if isinstance(part, Text) else ():
                new = Source(len(found) + 1, each.title, each.url, each.passage)
                found.setdefault((each.title, each.url), new)
    return found


def render_text(turn: Turn, position: int, sources: Sources) -> str:
    """A text of a turn as HTML; empty if it is blank, or part of the text before it."""
    run = _cited_run(turn, position)
    if position != run.start:
        return ""
    parts = [part for part in turn.parts[run.start : run.stop] if isinstance(part, Text)]
    if not "".join(part.content for part in parts).strip():
        return ""
    if not any(map(citations_of, parts)):
        return render_markdown(parts[0].content)
    marked = "".join(mark_citations(part.content, _numbers(part, sources)) for part in parts)
    return render_cited(marked, {source.number: source.url for source in sources.values()})


def _numbers(part: Text, sources: Sources) -> list[int]:
    return [sources[each.title, each.url].number for each in citations_of(part)]


def _cited_run(turn: Turn, position: int) -> range:
    """The positions of the adjacent texts around this one, if one of them has a citation; else only its own."""
    first = last = position
    while first > 0 and isinstance(turn.parts[first - 1], Text):
        first -= 1
    while last + 1 < len(turn.parts) and isinstance(turn.parts[last + 1], Text):
        last += 1
    texts = [part for part in turn.parts[first : last + 1] if isinstance(part, Text)]
    is_cited = any(citations_of(part) for part in texts)
    return range(first, last + 1) if is_cited else range(position, position + 1)


# Verdicts.

#: The characters of a paragraph that a link needs to find it and to show it.
_LONGEST_PASSAGE: Final = 160


def verdict_view(
    identifier: str, verdict: Verdict, turns: Sequence[Turn], names: Sequence[str]
) -> VerdictSegment:
    """A verdict as a table: a row for each claim, a column for each member in the order in which the message addresses them.

    Args:
        identifier: The id of the segment.
        verdict: The verdict of the chair.
        turns: The message and the answers of the members.
        names: All speakers, for their hues.
    """
    answers = member_answers(turns)
    message = next((turn for turn in reversed(turns) if turn.role == "user"), None)
    order = addressed_by(message) if message else ()
    members = [
        *(name for name in order if name in answers),
        *(name for name in answers if name not in order),
    ]
    return VerdictSegment(
        identifier,
        render_markdown(verdict.answer),
        tuple((name, hue_of(name, names)) for name in members),
        tuple(
            ClaimRow(claim.text, tuple(_claim_cell(claim, name, answers[name]) for name in members))
            for claim in verdict.claims
        ),
    )


def _claim_cell(claim: Claim, member: str, paragraphs: Sequence[str]) -> ClaimCell:
    against = _passages(claim.contradict, member, paragraphs)
    if against:
        return ClaimCell("contradict", against)
    found = _passages(claim.agree, member, paragraphs)
    return ClaimCell("agree", found) if found else ClaimCell()


def _passages(
    ids: Sequence[str], member: str, paragraphs: Sequence[str]
) -> tuple[CitedParagraph, ...]:
    numbers = [
        int(number)
        for name, _, number in (each.rpartition(":") for each in ids)
        if name == member and number.isdecimal()
    ]
    return tuple(
        CitedParagraph(
            number, _plain(paragraphs[number - 1]) if 0 < number <= len(paragraphs) else ""
        )
        for number in dict.fromkeys(numbers)
    )


def _plain(markdown: str) -> str:
    words = unescape(_TAG.sub("", render_markdown(markdown))).split()
    return " ".join(words)[:_LONGEST_PASSAGE]
