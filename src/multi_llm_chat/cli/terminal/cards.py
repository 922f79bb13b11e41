"""The lines around an answer's text, in colour: headers, tool cards, thoughts, usage, notices, errors.

A speaker's colour depends only on the name: it is the same in every conversation and on every machine.
"""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from multi_llm_chat.cli.messages import one_line, sanitize
from multi_llm_chat.cli.terminal.renderer import cut
from multi_llm_chat.cli.terminal.words import (
    arguments_text,
    error_lines,
    result_lines,
    seconds_text,
)
from multi_llm_chat.history.citations import Citation
from multi_llm_chat.history.values import Native, ToolCall, ToolResult

_KNOWN: Final = {
    "chatgpt": "green",
    "gemini": "blue",
    "claude": "yellow",
    "local": "magenta",
}
_OTHERS: Final = (
    "cyan", "magenta", "bright_blue", "bright_green", "bright_yellow", "bright_magenta", "bright_cyan",
)  # fmt: skip


def speaker_colour(name: str) -> str:
    """The colour of this speaker, by a name that both rich and prompt_toolkit know."""
    return _KNOWN.get(name) or _OTHERS[crc32(name.encode()) % len(_OTHERS)]


_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TURNS_A_SECOND: Final = 8


def header(speaker: str, model: str) -> Text:
    """The header of an answer: the speaker's name."""
    text = Text(one_line(speaker), style=f"bold {speaker_colour(speaker)}")
    if model:
        text.append(f" {one_line(model)}", style="dim not bold default")
    return text


def card(
    call: ToolCall, result: ToolResult | None, seconds: float | None, width: int
) -> RenderableType:
    """A call and its result; a call without a result did not run."""
    mark, style = _outcome(result)
    title = Text.assemble((f"{mark} ", style), (one_line(call.name), "bold"), " ")
    title.append(arguments_text(call), style="dim")
    took = Text("" if seconds is None else f"  {seconds_text(seconds)}", style="dim")
    title = cut(title, max(width - took.cell_len, 10))
    title.append_text(took)
    body_style = style if result is not None and result.is_error else "dim"
    said = ["not run"] if result is None else result_lines(result)
    lines = [cut(Text(line.expandtabs(4), style=body_style), width - 4) for line in said]
    return Group(title, *(Padding(line, (0, 0, 0, 4)) for line in lines))


def running(call: ToolCall, seconds: float, width: int) -> Text:
    """A running tool."""
    text = Text.assemble((f"{spinner(seconds)} ", "cyan"), (one_line(call.name), "bold"), " ")
    text.append(arguments_text(call), style="dim")
    return cut(text, width)


def thought(seconds: float) -> Text:
    """A finished thought."""
    return Text(f"✻ thought for {seconds_text(seconds)}", style="dim italic")


def thinking(seconds: float, words: str, width: int) -> Text:
    """An unfinished thought: its last words."""
    text = Text.assemble((f"✻ thinking {seconds_text(seconds)}  ", "dim italic"))
    room = max(width - text.cell_len, 0)
    last = Text(one_line(words[-2 * width :]), style="dim")
    while last.cell_len > room:
        last = last[max(1, (last.cell_len - room) // 2) :]
    return cut(text.append_text(last), width)


def status(speaker: str, doing: str, seconds: float, tokens: int, width: int) -> Text:
    """The status line of a speaker."""
    text = Text.assemble(
        (f"{spinner(seconds)} ", speaker_colour(speaker)),
        (one_line(speaker), f"bold {speaker_colour(speaker)}"),
        (f" {doing} · {seconds_text(int(seconds)) if seconds >= 1 else '0 s'}", "dim"),
    )
    if tokens:
        text.append(f" · ~{tokens:,} tokens", style="dim")
    return cut(text, width)


def usage(words: str) -> Text:
    """Tokens, money, time."""
    return Text(words, style="dim")


def notice(words: str) -> Text:
    """A notice."""
    return Text(f"! {sanitize(words)}", style="yellow", overflow="fold")


def step(item: Native) -> Text:
    """A step that the provider ran itself, such as a search, in one line."""
    words = one_line(item.text or item.kind.replace("_", " "))
    return Text(f"◆ {words}", style="dim", no_wrap=True, overflow="ellipsis")


def sources(cited: Sequence[Citation]) -> Text:
    """The pages that an answer cites, with addresses that terminals turn into links."""
    lines = (
        f"[{number}] {one_line(each.title)}"
        + (f"  {one_line(each.url)}" if each.url and each.url != each.title else "")
        for number, each in enumerate(cited, 1)
    )
    return Text("\n".join(lines), style="dim", overflow="fold")


def failure(error: BaseException, *, once: bool = False) -> Text:
    """An error, and below it what to do."""
    first, *others = error_lines(error, once=once)
    text = Text.assemble(("✗ ", "bold red"), (first, "red"), overflow="fold")
    for line in others:
        text.append(f"\n  {line}", style="default")
    return text


def spinner(seconds: float) -> str:
    """The spinner of a running tool."""
    return _SPINNER[int(seconds * _TURNS_A_SECOND) % len(_SPINNER)]


def _outcome(result: ToolResult | None) -> tuple[str, str]:
    if result is None:
        return "○", "dim"
    return ("✗", "red") if result.is_error else ("✓", "green")
