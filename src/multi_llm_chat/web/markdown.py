"""Markdown as safe HTML, whole or while it streams.

Rules:
1. HTML in the text is shown as text. Pictures become links, so reading a page fetches nothing.
2. All HTML passes an allow-list of elements and attributes, independently of the parser. Nothing on the list can fetch anything: no
   pictures, fonts, frames or styles. Links send no referrer.
3. There are no link definitions: no line can change the meaning of an earlier block. So each top-level block is rendered separately, and
   the HTML of a text is that of its blocks in order.
4. Code is coloured with classes. Code in an unknown language, code that is too long, and a block that still grows are not coloured.
5. While a text streams, a block is final when a later block has begun on a complete line; a paragraph of plain lines also when an empty
   line follows it. Nothing that arrives later can change it. All final blocks and the last tail equal the result of ``render_markdown`` for
   the whole text; only the colours of code in the tail wait for ``finish``. The cost of a piece depends on the tail, not on the final
   blocks; most pieces of prose only append their own HTML to an open paragraph.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib import import_module
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.tasklists import tasklists_plugin
from msgspec import Struct

from multi_llm_chat.web.formulas import add_formulas

# Code.

#: Longer code is shown without colours.
LONGEST_CODE: Final = 40_000


@lru_cache(maxsize=256)
def highlight(code: str, language: str) -> str:
    """The code as HTML."""
    lexer = _lexer(language) if language and len(code) <= LONGEST_CODE else None
    if lexer is None:
        return escape(code, quote=False)
    from pygments import highlight as colour  # noqa: PLC0415  slow to load, and needed only for code

    return colour(code, lexer, _formatter())


@lru_cache(maxsize=1)
def _formatter() -> Any:
    """The formatter, created once: it builds a style sheet, which takes longer than formatting a few lines of code."""
    formatters: Any = import_module("pygments.formatters.html")
    return formatters.HtmlFormatter(nowrap=True)


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    lexers: Any = import_module("pygments.lexers")
    from pygments.util import ClassNotFound  # noqa: PLC0415  as above

    try:
        return lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


# The allow-list.

_MATH: Final = {
    "math", "mrow", "mi", "mo", "mn", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup",
    "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mtd",
    "menclose", "mpadded", "mphantom", "mstyle", "merror",
}  # fmt: skip
_TEXT: Final = {
    "a", "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "code", "pre", "blockquote",
    "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "button", "figure",
    "figcaption", "sup", "sub", "del", "kbd",
}  # fmt: skip
_ATTRIBUTES: Final[dict[str, set[str]]] = {
    "a": {"href", "title", "class"},
    "ol": {"start"},
    "button": {"type", "class", "data-action", "title", "aria-label"},
    "math": {"display"},
    "mo": {"stretchy", "fence", "separator", "form", "minsize", "maxsize", "lspace", "rspace"},
    "mi": {"mathvariant"},
    "mspace": {"width", "height", "depth", "linebreak"},
    "mtable": {"columnalign", "columnlines", "rowlines", "rowspacing", "columnspacing", "displaystyle"},
    "mtd": {"columnalign", "columnspan", "rowspan"},
    "mfrac": {"linethickness"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "menclose": {"notation"},
    "mover": {"accent"},
    "munder": {"accentunder"},
} | {
    name: {"class"}
    for name in ("span", "div", "code", "pre", "figure", "figcaption", "ul", "li", "th", "td", "p")
}  # fmt: skip

_CLEANER: Final = nh3.Cleaner(
    tags=_TEXT | _MATH,
    clean_content_tags={"script", "style"},
    attributes=_ATTRIBUTES,
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
    set_tag_attribute_values={"a": {"target": "_blank"}},
    strip_comments=True,
)


def clean_html(html: str) -> str:
    """Remove everything that is not on the allow-list."""
    return _CLEANER.clean(html)


# Rendering.

_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,30}")
_ALIGNMENT: Final = re.compile(r"text-align:(\w+)")


class MarkdownBlock(Struct, frozen=True):
    """A top-level block: its first line and its HTML."""

    first_line: int
    html: str


class _Renderer(RendererHTML):
    """Renders code with its language and a copy button, pictures as links, and no styles."""

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Code between fences."""
        del options
        token = tokens[idx]
        found = _LANGUAGE.match(token.info.strip())
        return _code(token.content, found[0] if found else "", is_open=bool(env.get("open")))

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Indented code."""
        del options, env
        return _code(tokens[idx].content, "", is_open=False)

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A picture, as a link to it."""
        token = tokens[idx]
        address = str(token.attrs.get("src", ""))
        text = self.renderInlineAsText(token.children, options, env) or address
        return f'<a class="picture" href="{escape(address)}">{escape(text)}</a>'

    def th_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A cell, with its alignment as a class."""
        del options, env
        return _cell(tokens[idx])

    td_open = th_open

    def html_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """The box of a task; HTML in the text is never parsed as HTML."""
        del options, env
        return "☑" if "checked" in tokens[idx].content else "☐"


def _cell(token: Token) -> str:
    found = _ALIGNMENT.match(str(token.attrs.get("style", "")))
    return f'<{token.tag} class="{found[1]}">' if found else f"<{token.tag}>"


def _code(code: str, language: str, *, is_open: bool) -> str:
    inner = escape(code, quote=False) if is_open else highlight(code, language)
    return (
        f'<figure class="code"><figcaption><span>{escape(language)}</span>'
        '<button type="button" data-action="copy-code"></button></figcaption>'
        f"<pre><code>{inner}</code></pre></figure>\n"
    )


def _parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    markdown.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    markdown.use(tasklists_plugin).use(add_formulas)
    return markdown


_MARKDOWN: Final = _parser()


def render_blocks(text: str, *, is_open: bool = False) -> list[MarkdownBlock]:
    """The top-level blocks of a text; ``is_open`` if the last one still grows."""
    tokens = _MARKDOWN.parse(text)
    groups: list[list[Token]] = []
    depth = 0
    for token in tokens:
        if depth == 0:
            groups.append([])
        groups[-1].append(token)
        depth += token.nesting
    last = len(groups) - 1
    return [
        MarkdownBlock(_first_line(group), _html(group, is_open=is_open and number == last))
        for number, group in enumerate(groups)
    ]


def find_first_lines(text: str) -> list[int]:
    """The first line of each top-level block."""
    lines: list[int] = []
    depth = 0
    for token in _BLOCKS_ONLY.parse(text):
        if depth == 0:
            lines.append(_first_line([token]))
        depth += token.nesting
    return lines


def _without_inline() -> MarkdownIt:
    markdown = _parser()
    markdown.core.ruler.enableOnly(["normalize", "block"])
    return markdown


_BLOCKS_ONLY: Final = _without_inline()


@lru_cache(maxsize=4096)
def render_markdown(text: str) -> str:
    """The whole text as HTML."""
    return "".join(block.html for block in render_blocks(text))


def _first_line(tokens: Sequence[Token]) -> int:
    return tokens[0].map[0] if tokens[0].map else 0


def _html(tokens: list[Token], *, is_open: bool) -> str:
    return clean_html(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {"open": is_open}))


# Markdown that arrives in pieces.


class RenderedPiece(Struct, frozen=True):
    """New final HTML, and the HTML of the unfinished tail, which replaces the previous tail.

    ``grown`` is the HTML appended to the last paragraph of the tail, if that is the only change; else None.
    """

    final: str
    tail: str
    grown: str | None = None


#: Text that is its own HTML and does not change the paragraph before it, also after an open mark.
_PLAIN: Final = re.compile(r"[^\W_](?:[^\W_]|[ ,.?!])*|[ ](?:[^\W_]|[ ,.?!])*")
#: White space except spaces, and other invisible characters: a paragraph loses some at its end, and nh3 escapes some.
_HIDDEN: Final = r"\x00-\x1f\x7f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
#: Like ``_PLAIN``, for paragraphs without an open mark.
_UNMARKED: Final = re.compile(rf"[^{_HIDDEN}*_`~\[\]\\&$<>]+")
#: Text of one line without formulas and escapes: if no mark is open, its own HTML can be appended.
_ONE_LINE: Final = re.compile(rf"[^{_HIDDEN}\\$]+")
#: Bold text and code whose marks have this meaning at every position.
_BOLD_OR_CODE: Final = re.compile(
    r"\*\*([^\W_]+(?:[ ][^\W_]+)*)\*\*|`([\w.(),:=/-]+(?:[ ][\w.(),:=/-]+)*)`"
)
#: The last words of a paragraph, and the empty lines behind it.
_PARAGRAPH_END: Final = re.compile(r"([^\n]*)\n[ ]*\n(?:[ ]*\n)*")
#: Characters in rendered text that may be a mark, or part of one.
_MARKS: Final = re.compile(r"[*_`~\[\]\\&$]")
#: Characters whose meaning at the end of a text depends on what follows.
_OPEN_ENDS: Final = frozenset("*_`~[]\\!&$<")
_TAGS: Final = re.compile(r"<[^<>]*>")
#: A line that cannot become anything but a paragraph, or a line of one.
_WORDS_FIRST: Final = re.compile(r" {0,3}[^\W\d_]")
_END: Final = "</p>\n"


def _growing(tail: str, html: str) -> str | None:
    """The spaces at the end of a text, if plain text can be appended to the HTML of its last block; else None."""
    line = tail[tail.rfind("\n") + 1 :]
    words = tail.rstrip(" ")
    is_paragraph = html.startswith("<p>") and html.endswith(_END) and html.count("<p>") == 1
    # An open formula depends on what follows too.
    is_settled = words != tail or words[-1:] not in _OPEN_ENDS
    if words[-1:].isspace() or "$" in tail or not _WORDS_FIRST.match(line):
        return None
    if not is_paragraph or not is_settled:
        return None
    return tail[len(words) :]


def _tagged(found: re.Match[str]) -> str:
    return f"<strong>{found[1]}</strong>" if found[1] else f"<code>{found[2]}</code>"


def _is_balanced(html: str) -> bool:
    """Whether rendered text has no unmatched mark."""
    return _MARKS.search(_TAGS.sub("", html)) is None


class IncrementalMarkdown:
    """Renders a text while it streams."""

    def __init__(self) -> None:
        self._tail = ""
        self._carriage_return = ""
        self._checked = 0
        self._final: list[str] = []
        self._tail_html = ""
        #: The spaces at the end of an open paragraph to which plain text can be appended; None if it must be rendered again.
        self._spaces: str | None = None
        #: Whether that paragraph has no unmatched mark.
        self._is_balanced = False

    @property
    def html(self) -> RenderedPiece:
        """All HTML so far."""
        return RenderedPiece("".join(self._final), self._tail_html)

    def feed(self, piece: str) -> RenderedPiece:
        """Receive more of the text."""
        if self._spaces is not None and not self._carriage_return:
            html = self._appended(piece)
            if html is not None:
                return self._grow(piece, html)
            end = _PARAGRAPH_END.match(piece) if "\r" not in piece else None
            html = None if end is None else self._appended(end[1])
            if end is not None and html is not None:
                return self._end_paragraph(end[1], html, piece[end.end() :])
        piece = self._carriage_return + piece
        # The line feed of a CRLF may come with the next piece.
        self._carriage_return = "\r" if piece.endswith("\r") else ""
        piece = piece.removesuffix("\r")
        self._tail += piece.replace("\r\n", "\n").replace("\r", "\n")
        return self._render("")

    def _render(self, final: str) -> RenderedPiece:
        """Render the tail; ``final`` are the blocks that became final before it."""
        cut = self._settled_lines()
        blocks = render_blocks(self._tail, is_open=True)
        if cut:
            final += "".join(block.html for block in blocks if block.first_line < cut)
            blocks = [block for block in blocks if block.first_line >= cut]
            offset = _offset(self._tail, cut)
            self._tail = self._tail[offset:]
            self._checked -= offset
        if final:
            self._final.append(final)
        self._tail_html = "".join(block.html for block in blocks)
        self._spaces = _growing(self._tail, blocks[-1].html) if blocks else None
        self._is_balanced = self._spaces is not None and _is_balanced(blocks[-1].html)
        return RenderedPiece(final, self._tail_html)

    def _appended(self, piece: str) -> str | None:
        """The HTML that a piece appends to an open paragraph; None if the paragraph must be rendered again."""
        spaces = self._spaces or ""
        words = piece.rstrip(" ")
        if not words:
            return ""
        if (_UNMARKED if self._is_balanced else _PLAIN).fullmatch(piece):
            return spaces + words
        if not self._is_balanced or not _ONE_LINE.fullmatch(piece):
            return None
        # A mark depends on the characters next to it.
        is_apart = (spaces or piece[0] not in _OPEN_ENDS) and (
            words != piece or words[-1] not in _OPEN_ENDS
        )
        if not is_apart:
            return None
        if _UNMARKED.fullmatch(_BOLD_OR_CODE.sub("-", words)):  # nothing else is a mark
            return spaces + _BOLD_OR_CODE.sub(_tagged, words)
        return spaces + clean_html(_MARKDOWN.renderInline(words))

    def _end_paragraph(self, words: str, html: str, rest: str) -> RenderedPiece:
        """Append the last text to an open paragraph, which an empty line makes final, and render the rest."""
        final = self._grow(words, html).tail
        self._tail, self._checked = rest, 0
        return self._render(final)

    def _grow(self, piece: str, html: str) -> RenderedPiece:
        """Append text to an open paragraph without rendering it again, which would cost a hundred times as much."""
        self._tail += piece
        words = piece.rstrip(" ")
        if not words:
            self._spaces = f"{self._spaces}{piece}"
            return RenderedPiece("", self._tail_html, "")
        self._tail_html = f"{self._tail_html.removesuffix(_END)}{html}{_END}"
        self._spaces = piece[len(words) :]
        self._is_balanced = self._is_balanced and _is_balanced(html)
        return RenderedPiece("", self._tail_html, html)

    def finish(self) -> str:
        """The HTML of the complete text."""
        tail = self._tail + self._carriage_return
        return "".join(self._final) + "".join(block.html for block in render_blocks(tail))

    def _settled_lines(self) -> int:
        """How many lines of the tail belong to blocks that are final."""
        complete = self._tail.rfind("\n") + 1
        if complete <= self._checked:
            return 0
        self._checked = complete
        starts = find_first_lines(self._tail[:complete])
        return starts[-1] if len(starts) > 1 else 0


def _offset(text: str, line: int) -> int:
    at = 0
    for _ in range(line):
        at = text.index("\n", at) + 1
    return at
