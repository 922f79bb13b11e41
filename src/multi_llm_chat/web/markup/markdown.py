"""Markdown as safe HTML.

Rules:
1. HTML in the text is text. Pictures become links: a page that is read fetches nothing.
2. What the text is turned into goes through the allow-list, without exception.
3. There are no link definitions: no line can change what an earlier block means, so each top-level block is
   rendered by itself, and the whole is its blocks one after the other.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.tasklists import tasklists_plugin
from msgspec import Struct

from multi_llm_chat.web.markup.formulas import formulas
from multi_llm_chat.web.markup.highlight import highlight
from multi_llm_chat.web.markup.sanitizer import clean_html

_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,30}")
_ALIGNMENT: Final = re.compile(r"text-align:(\w+)")


class Block(Struct, frozen=True):
    """A top-level block: its lines and its HTML."""

    first_line: int
    html: str


class _Renderer(RendererHTML):
    """HTML as we want it: code with its language and a button, no pictures, no styles."""

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
        words = self.renderInlineAsText(token.children, options, env) or address
        return f'<a class="picture" href="{escape(address)}">{escape(words)}</a>'

    def th_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A cell, with its alignment as a class."""
        del options, env
        return _cell(tokens[idx])

    td_open = th_open

    def html_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """The box of a task; HTML of the text itself never comes here."""
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
    markdown.use(tasklists_plugin).use(formulas)
    return markdown


_MARKDOWN: Final = _parser()


def blocks(text: str, *, is_open: bool = False) -> list[Block]:
    """The top-level blocks of a text; ``is_open`` tells that its last one still grows."""
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
        Block(_first_line(group), _html(group, is_open=is_open and number == last))
        for number, group in enumerate(groups)
    ]


def first_lines(text: str) -> list[int]:
    """Where each top-level block begins."""
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
    return "".join(block.html for block in blocks(text))


def _first_line(tokens: Sequence[Token]) -> int:
    return tokens[0].map[0] if tokens[0].map else 0


def _html(tokens: list[Token], *, is_open: bool) -> str:
    return clean_html(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {"open": is_open}))
