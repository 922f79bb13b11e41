r"""Formulas in Markdown: ``$…$``, ``$$…$$``, ``\(…\)``, ``\[…\]``.

Rules:
1. A block begins with ``$$`` or ``\[`` at the start of a line and ends with its mark at the end of a line. A blank line ends it too; then
   it is not a formula but an ordinary paragraph. So the kind of a block depends only on its own lines.
2. ``$`` opens a formula only if no space follows, and closes it only if no space precedes and no digit follows, so that prices stay prices.
3. A formula that cannot be parsed is shown as written.
"""

import re
from functools import lru_cache
from html import escape
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

#: Longer formulas are shown as written, because the cost of the conversion grows with the length.
LONGEST: Final = 2_000

_BLOCKS: Final = (("$$", "$$"), ("\\[", "\\]"))
_INLINE: Final = re.compile(
    r"\$\$(?P<display>[^$]+)\$\$"
    r"|\$(?P<dollar>(?![\s$])(?:\\.|[^$\\\n])*?(?<!\s))\$(?![\d$])"
    r"|\\\((?P<round>.+?)\\\)"
    r"|\\\[(?P<square>.+?)\\\]",
    re.DOTALL,
)


def add_formulas(markdown: MarkdownIt) -> None:
    """Add formulas to a parser."""
    markdown.block.ruler.before(
        "fence",
        "formula_block",
        _block,
        {"alt": ["paragraph", "reference", "blockquote", "list", "table"]},
    )
    markdown.inline.ruler.before("escape", "formula", _inline)
    markdown.add_render_rule("formula_block", _render_block)
    markdown.add_render_rule("formula", _render_inline)


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start):
        return False
    first = _line(state, start)
    marks = next((pair for pair in _BLOCKS if first.startswith(pair[0])), None)
    if marks is None or first.startswith("$$$"):
        return False
    if silent:
        return True
    lines, closed = _lines(state, start, end, marks[1])
    state.line = start + len(lines)
    text = "\n".join(lines)
    if closed:
        token = state.push("formula_block", "math", 0)
        token.content = text[len(marks[0]) : -len(marks[1])].strip()
        token.map = [start, state.line]
        token.block = True
        return True
    opening = state.push("paragraph_open", "p", 1)
    opening.map = [start, state.line]
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = text, [start, state.line], []
    state.push("paragraph_close", "p", -1)
    return True


def _lines(state: StateBlock, start: int, end: int, mark: str) -> tuple[list[str], bool]:
    """The lines of the block, and whether its closing mark was found."""
    lines: list[str] = []
    for number in range(start, end):
        line = _line(state, number)
        if number > start and (not line or state.sCount[number] < state.blkIndent):
            return lines, False
        lines.append(line)
        if line.endswith(mark) and (number > start or len(line) >= 2 * len(mark)):
            return lines, True
    return lines, False


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].rstrip()


def _inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    found = _INLINE.match(state.src, state.pos, state.posMax)
    if found is None or (found["dollar"] == ""):
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.content = next(group for group in found.groups() if group is not None)
        token.meta = {"block": found["display"] is not None or found["square"] is not None}
        token.markup = found[0]
    state.pos = found.end()
    return True


def _render_block(_self: Any, tokens: Any, at: int, _options: Any, _env: Any) -> str:
    return f'<div class="formula">{mathml(tokens[at].content, True)}</div>\n'


def _render_inline(_self: Any, tokens: Any, at: int, _options: Any, _env: Any) -> str:
    return mathml(tokens[at].content, tokens[at].meta["block"])


@lru_cache(maxsize=512)
def mathml(source: str, block: bool) -> str:
    """The formula as MathML, or its source if it cannot be parsed."""
    from latex2mathml.converter import convert  # noqa: PLC0415  slow to load, and needed only for formulas

    if len(source) <= LONGEST:
        try:
            return convert(source, display="block" if block else "inline")
        except Exception:  # noqa: BLE001, S110  the converter raises exceptions of many types
            pass
    return f"<code>{escape(source)}</code>"
