"""The normal form of text in the search, the same for every database.

Rules:
1. Text is compared after NFKC and case folding.
2. A word is a sequence of letters, digits and marks. In scripts without spaces, a sequence is indexed as single characters and as pairs of
   neighbours, so that any part of it is found.
3. The index returns candidates; ``Query`` decides on the text of a message whether it matches.
4. Every piece of a query must be found. Quoted pieces must occur exactly as quoted; the last piece, if it is an unquoted word, may be the
   beginning of a word.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

#: Longer words are indexed by their first characters.
MAX_TERM = 60

#: The terms of a message beyond this number of bytes are not indexed: Postgres accepts no more in one row.
MAX_BYTES = 700_000

#: Scripts without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Hangul, kana, Han and Yi.
_DENSE = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3031-\u3035"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
#: Marks of the scripts that use them within words (Latin to Indic); others are rare.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u0711\u0730-\u074a\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09d7"
    "\u0a01-\u0a51\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bd7\u0c00-\u0c04\u0c3e-\u0c56"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d81-\u0d83\u0dca-\u0ddf\u1dc0-\u1dff\u20d0-\u20ff"
)
_WORD = rf"(?:[^\W_{_DENSE}]|[{_MARKS}])"
_RUN = re.compile(rf"(?P<dense>[{_DENSE}]+)|(?P<word>{_WORD}+)")
_ASCII_WORD = re.compile("[a-z0-9]+")
_PIECE = re.compile(r'"([^"]*)"?|(\S+)')

#: These combine with the preceding character, although their Unicode class says otherwise.
_JOINING = frozenset("\uff9e\uff9f") | {chr(code) for code in range(0x1160, 0x1200)}


class Piece(Struct, frozen=True):
    """One piece of a query: its terms in the index, and its form in the text."""

    terms: tuple[str, ...]
    beginning: str
    pattern: str


class Query(Struct, frozen=True):
    """All pieces that must be found."""

    pieces: tuple[Piece, ...]

    def places(self, text: str) -> list[tuple[int, int]]:
        """The positions of the pieces in the text, in order; empty unless all of them occur."""
        folded = fold(text)
        found: list[tuple[int, int]] = []
        for piece in self.pieces:
            here = [match.span() for match in _compiled(piece.pattern).finditer(folded)]
            if not here:
                return []
            found += here
        return _joined(_original(text, folded, found))


def fold(text: str) -> str:
    """The text in the form in which it is compared."""
    if _is_plain(text) and _is_plain(folded := text.casefold()):
        return folded
    return "".join(_fold_cluster(cluster) for cluster in _clusters(text))


def terms_of(text: str) -> list[str]:
    """The distinct terms by which a text is indexed."""
    # Most texts are ASCII: one expression finds all terms.
    if text.isascii() and len(text) * 20 <= MAX_BYTES:
        return list(dict.fromkeys([word[:MAX_TERM] for word in _ASCII_WORD.findall(text.lower())]))
    terms: dict[str, None] = {}
    folded = fold(text)
    for run in _RUN.finditer(folded):
        if dense := run["dense"]:
            terms.update(dict.fromkeys(dense))
            terms.update(dict.fromkeys(map("".join, pairwise(dense))))
        else:
            terms[run["word"][:MAX_TERM]] = None
    # A character yields at most 20 bytes of terms, so most messages need no counting.
    return list(terms) if len(folded) * 20 <= MAX_BYTES else list(_within_limit(terms))


def read_query(words: str) -> Query:
    """Parse a query that a person typed."""
    folded = fold(words)
    pieces: list[Piece] = []
    found = [match for match in _PIECE.finditer(folded) if _RUN.search(match[0])]
    for match in found:
        quoted = match[1] is not None
        runs = list(_RUN.finditer(match[1] if quoted else match[2]))
        if quoted:
            pieces.append(_piece(runs, open_end=False))
        else:
            last = match is found[-1]
            pieces += [_piece([run], open_end=last and run is runs[-1]) for run in runs]
    return Query(tuple(pieces))


def _piece(runs: Sequence[re.Match[str]], *, open_end: bool) -> Piece:
    terms: list[str] = []
    patterns: list[str] = []
    beginning = ""
    for run in runs:
        if dense := run["dense"]:
            terms += [dense[at : at + 2] for at in range(max(1, len(dense) - 1))]
            patterns.append(re.escape(dense))
            continue
        word = run["word"]
        if open_end:
            beginning = word[:MAX_TERM]
        else:
            terms.append(word[:MAX_TERM])
        end = "" if open_end else f"(?!{_WORD})"
        patterns.append(f"(?<!{_WORD}){re.escape(word)}{end}")
    return Piece(tuple(dict.fromkeys(terms)), beginning, r"[\W_]*".join(patterns))


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _within_limit(terms: Iterable[str]) -> Iterator[str]:
    size = 0
    for term in terms:
        size += len(term.encode()) + 4
        if size > MAX_BYTES:
            return
        yield term


def _clusters(text: str) -> Iterator[str]:
    """Characters, each with its combining marks."""
    start = 0
    for at in range(1, len(text)):
        character = text[at]
        if not (unicodedata.combining(character) or character in _JOINING):
            yield text[start:at]
            start = at
    if text:
        yield text[start:]


@lru_cache(maxsize=8192)
def _fold_cluster(cluster: str) -> str:
    # Folding may break the normal form; after another normalisation, the result is stable.
    folded = unicodedata.normalize("NFKC", cluster).casefold()
    return unicodedata.normalize("NFKC", folded)


def _is_plain(text: str) -> bool:
    return unicodedata.is_normalized("NFKC", text)


def _original(text: str, folded: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same positions in the text before folding."""
    if len(folded) == len(text) and folded == text.casefold():
        return list(places)
    # For each folded character the start and end of its cluster.
    origins: list[tuple[int, int]] = []
    at = 0
    for cluster in _clusters(text):
        end = at + len(cluster)
        origins += [(at, end)] * len(_fold_cluster(cluster))
        at = end
    return [(origins[start][0], origins[end - 1][1]) for start, end in places]


def _joined(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The positions in order; adjacent and overlapping ones are merged."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
