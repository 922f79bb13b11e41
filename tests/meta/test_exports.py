"""What the package promises to export, it exports, from where it says."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import multi_llm_chat

SOURCE = ast.parse(Path(multi_llm_chat.__file__ or "").read_text(encoding="utf-8"))


def imported_for_type_checkers() -> dict[str, str]:
    """Names imported under ``if TYPE_CHECKING``, and from where."""
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    return {
        alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_every_promised_name_is_there():
    homes = imported_for_type_checkers()
    different = [
        name
        for name in multi_llm_chat.__all__
        if getattr(import_module(homes[name]), name) is not getattr(multi_llm_chat, name)
    ]
    assert different == []


def test_type_checkers_see_exactly_what_is_exported():
    assert sorted(imported_for_type_checkers()) == sorted(multi_llm_chat.__all__)
    assert sorted(multi_llm_chat.__all__) == list(multi_llm_chat.__all__)


def test_the_top_level_stays_small():
    assert len(multi_llm_chat.__all__) <= 45


def test_a_name_that_moved_still_works_and_says_where_it_is():
    wrong: list[str] = []
    for name in multi_llm_chat._MOVED_TO:  # pyright: ignore[reportPrivateUsage]
        with pytest.warns(DeprecationWarning, match="import it from") as warned:
            value = getattr(multi_llm_chat, name)
        home = str(warned[0].message).rpartition(" ")[2]
        if getattr(import_module(home), name) is not value:
            wrong.append(name)
    assert wrong == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = multi_llm_chat.no_such_name
    assert "render" in dir(multi_llm_chat)


def test_the_seeds_import_lines_run_as_written():
    lines = [
        "from multi_llm_chat.history_utils import normalize_history_turns",
        "from multi_llm_chat.history_utils import content_to_text",
        "from multi_llm_chat.llm_provider import mcp_tools_to_openai_format, parse_openai_tool_call",
        "from multi_llm_chat.llm_provider import OpenAIToolCallAssembler, GeminiToolCallAssembler",
        "from multi_llm_chat.llm_provider import mcp_tools_to_gemini_format",
    ]
    for line in lines:
        exec(compile(line, "<seed>", "exec"), {})
