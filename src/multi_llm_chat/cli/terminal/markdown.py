"""The Markdown of an answer as blocks, which are rendered one by one, also while the answer arrives.

Rules of blocks:
1. No content disappears: HTML is shown as text, a picture as its address, a link with its address.
2. No block depends on a later one: there are no reference links, and list numbers always have room for two digits.
3. Line breaks of the model are kept: lines are not joined to paragraphs.
4. All blocks are separated by one empty line, items of a list by none.
5. A block that cannot be laid out in the width (deep nesting, a table with many columns) is shown as written.

Rules of the stream:
6. ``feed`` only stores text; its cost does not depend on the length of the answer.
7. A block is finished when a later one has begun on a complete line: nothing that follows can change it. ``finished`` returns it once, and
   drops it.
8. Only unfinished blocks are parsed again, and inside a long paragraph, table or code block not even those.
9. The returned lines together equal the lines of the whole text, rendered at once.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, ListElement, Markdown
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text

from multi_llm_chat.cli.messages import sanitize
from multi_llm_chat.cli.terminal.renderer import Renderer

# Blocks.

_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["image", "reference"])
)
#: The most levels of nesting that are laid out; markdown-it itself drops text nested deeper than twenty.
_DEEPEST: Final = 14
_LISTS: Final = frozenset({"bullet_list_open", "ordered_list_open"})
_CELL_END: Final = re.compile(r"(?<!\\)\|")


#: Lines that may end a paragraph or a table; all other lines continue it.
_PARAGRAPH_END: Final = re.compile(r"[ \t]*(?:$|[#>`~*+=|:_-]|\d{1,9}[.)])")
_TABLE_END: Final = re.compile(r"[ \t]|$|[#>`~*+=_-]|\d{1,9}[.)]")


class TerminalBlock(Struct, frozen=True):
    """A unit of layout: a top-level block, or an item of a top-level list.

    ``begin`` is its first line, ``joined`` says that it follows the previous one without an empty line, and ``number`` is that of a list
    item.
    """

    tokens: tuple[Token, ...]
    source: str
    begin: int
    joined: bool = False
    number: int | None = None

    @property
    def end(self) -> re.Pattern[str] | None:
        """The pattern of lines that may end the block; None if any line may."""
        match self.tokens[0]:
            case Token(type="paragraph_open"):
                return _PARAGRAPH_END
            case Token(type="table_open"):
                return _TABLE_END
            case Token(type="fence", markup=mark) as token if _is_open(token):
                return re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
            case _:
                return None

    @property
    def head(self) -> int:
        """How many of its first lines are needed to lay out its last lines."""
        return {"table_open": 2, "fence": 1}.get(self.tokens[0].type, 0)


def blocks_of(text: str, after: TerminalBlock | None = None) -> list[TerminalBlock]:
    """The blocks of a text; ``after`` is its first block, as parsed earlier as part of a longer text."""
    lines = text.split("\n")
    joined, number = (after.joined, after.number) if after else (False, None)
    parts: list[tuple[list[Token], bool, int | None]] = []
    for group in _groups(_PARSER.parse(text)):
        if group[0].type in _LISTS:
            parts += _items(group, joined, number)
        else:
            parts.append((group, joined, None))
        joined, number = False, None
    begins = [_begin(tokens) for tokens, _, _ in parts]
    return [
        TerminalBlock(
            tuple(tokens), "\n".join(lines[begin:end]).rstrip("\n"), begin, joined, number
        )
        for (tokens, joined, number), (begin, end) in zip(
            parts, pairwise([*begins, len(lines)]), strict=True
        )
    ]


def _groups(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """The tokens of each top-level block."""
    group: list[Token] = []
    for token in tokens:
        if token.children:
            token.children = _adapted(token.children)
        group.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield group
            group = []


def _adapted(children: list[Token]) -> list[Token]:
    """Adapt tokens: keep line breaks, and show an address that is its own link text only once."""
    for child in children:
        if child.type == "softbreak":
            child.type = "hardbreak"
    return [child for child in children if child.info != "auto"]


def _items(
    group: list[Token], joined: bool, number: int | None
) -> Iterator[tuple[list[Token], bool, int | None]]:
    """The items of a list, each as a list of its own."""
    opening, *inside, closing = group
    if number is None:
        number = int(opening.attrs.get("start", 1))
    item: list[Token] = []
    for token in inside:
        item.append(token)
        if token.type == "list_item_close" and token.level == 1:
            first = opening.copy(attrs={"start": number})
            yield [first, *item, closing], joined, number
            item, joined, number = [], True, number + 1


def _begin(tokens: Sequence[Token]) -> int:
    placed = tokens[1] if tokens[0].type in _LISTS else tokens[0]
    return placed.map[0] if placed.map else 0


def _is_open(fence: Token) -> bool:
    """Whether the end of the code block is still missing."""
    begin, end = fence.map or (0, 0)
    return end - begin < fence.content.count("\n") + 2


def lines_of(renderer: Renderer, blocks: Sequence[TerminalBlock], width: int) -> list[str]:
    """The lines of blocks: laid out if the width allows it, else as written."""
    rows: list[list[Segment]] = []
    for at, block in enumerate(blocks):
        if at and not block.joined:
            rows.append([])
        shown = _OneBlock(block) if _fits(block, width) else Text(block.source, overflow="fold")
        rows += _without_empty_edges(renderer.rows(shown, width))
    return renderer.written(rows)


class _OneBlock(Markdown):
    """A block in rich's rendering, with the changes below."""

    def __init__(self, block: TerminalBlock) -> None:
        # Not the constructor of the base class, which would create another parser each time.
        self.markup = ""
        self.parsed = list(block.tokens)
        self.code_theme = self.inline_code_theme = "ansi_dark"
        self.justify = None
        self.style = "none"
        self.hyperlinks = False
        self.inline_code_lexer = None


def _without_empty_edges(rows: list[list[Segment]]) -> list[list[Segment]]:
    """Remove the empty lines that rich puts around some blocks."""
    full = [at for at, row in enumerate(rows) if any(piece.text.strip() for piece in row)]
    return rows[full[0] : full[-1] + 1] if full else []


def _fits(block: TerminalBlock, width: int) -> bool:
    deepest = max(token.level for token in block.tokens)
    if deepest > min(_DEEPEST, (width - 16) // 2):
        return False
    columns = sum(token.type == "th_open" for token in block.tokens)
    if not columns:
        return True
    # Cells beyond the last column would be dropped.
    cells = max(len(_CELL_END.split(line.strip().strip("|"))) for line in block.source.split("\n"))
    return cells <= columns and columns * 6 <= width


class _List(ListElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.list_type == "bullet_list_open":
            yield from super().__rich_console__(console, options)
            return
        for number, item in enumerate(self.items, self.list_start or 0):
            yield from item.render_number(console, options, number, max(number, 10))


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _Code(CodeBlock):
    """Code without margin and frame at its sides, so that it can be copied."""

    title = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> "_Code":
        """The code block of a token; the text after its fence is the title."""
        title = " ".join(token.info.split())
        code = cls(title.partition(" ")[0] or "text", markdown.code_theme)
        code.title = title
        return code

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        title = Text(self.title, style="dim", overflow="fold")
        if title.cell_len > options.max_width - 4:
            yield title
            title = Text()
        yield Rule(title, align="left", style="dim")
        code = str(self.text).rstrip()
        if code:
            yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True)
        yield Rule(style="dim")


class _Rule(HorizontalRule):
    new_line: ClassVar = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="dim")


_OneBlock.elements = Markdown.elements | {
    "bullet_list_open": _List,
    "ordered_list_open": _List,
    "heading_open": _Heading,
    "fence": _Code,
    "code_block": _Code,
    "hr": _Rule,
}


# Blocks of a text that streams.

#: Of an open block with more lines than this, only the last ones are laid out for drawing.
_LONGEST_OPEN: Final = 100


class MarkdownStream:
    """Receives text, returns lines."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        #: The unfinished part: complete lines, and the pieces of the last one.
        self._lines: list[str] = []
        self._pieces: list[str] = []
        #: How many of these lines were parsed, and their first block.
        self._parsed = 0
        self._open: TerminalBlock | None = None
        self._begun = False

    def feed(self, text: str) -> None:
        """Add text."""
        head, newline, tail = sanitize(text).rpartition("\n")
        if newline:
            self._lines += "".join([*self._pieces, head]).split("\n")
            self._pieces = []
        if tail:
            self._pieces.append(tail)

    def finished(self, width: int) -> list[str]:
        """The lines of the blocks finished since the last call."""
        if not self._may_have_finished():
            return []
        blocks = blocks_of("".join(f"{line}\n" for line in self._lines), self._open)
        if not blocks:
            return []
        self._open = blocks[-1]
        del self._lines[: self._open.begin]
        self._parsed = len(self._lines)
        return self._rendered(blocks[:-1], width)

    def rest(self, width: int) -> list[str]:
        """The lines of everything that is left, at the end of the text."""
        blocks = blocks_of("\n".join([*self._lines, "".join(self._pieces)]), self._open)
        self._lines, self._pieces, self._parsed, self._open = [], [], 0, None
        return self._rendered(blocks, width)

    def tail(self, width: int, height: int) -> list[str]:
        """The last lines of the unfinished part, for drawing."""
        if height <= 0:
            return []
        blocks = blocks_of("\n".join([*self._recent(height), "".join(self._pieces)]), self._open)
        if not blocks:
            return []
        shown = lines_of(self._renderer, blocks, width)
        return (self._gap(blocks[0]) + shown)[-height:]

    def _recent(self, height: int) -> list[str]:
        """Enough lines of text to draw this many."""
        lines, block = self._lines, self._open
        if block is None or block.end is None or len(lines) <= max(height, _LONGEST_OPEN):
            return lines
        return lines[: block.head] + lines[-height:]

    def _may_have_finished(self) -> bool:
        new = self._lines[self._parsed :]
        self._parsed = len(self._lines)
        end = self._open.end if self._open else None
        return bool(new) if end is None else any(map(end.match, new))

    def _rendered(self, blocks: list[TerminalBlock], width: int) -> list[str]:
        if not blocks:
            return []
        lines = self._gap(blocks[0]) + lines_of(self._renderer, blocks, width)
        self._begun = True
        return lines

    def _gap(self, block: TerminalBlock) -> list[str]:
        return [""] if self._begun and not block.joined else []


def whole(renderer: Renderer, text: str, width: int) -> list[str]:
    """The lines of a complete text."""
    return lines_of(renderer, blocks_of(sanitize(text)), width)
