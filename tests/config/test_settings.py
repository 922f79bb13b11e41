"""``config.toml``, valid and invalid."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.config.config_file import parse_settings, read_settings
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import UsageError

WHOLE = """
default_speaker = "claude"
system_prompt = "Be brief."
foreign = "adopt"
store = "postgresql://localhost/chat"

[speakers.claude]
provider = "anthropic"
model = "claude-sonnet-5"
system_prompt = "You are Claude."
[speakers.claude.options]
temperature = 0.2

[speakers.safe]
provider = ["anthropic", "gemini"]
tools = ["get_weather"]

[groups]
council = ["claude", "gemini"]

[tools]
approval = "ask"
folders = ["~/notes"]
[tools.rules]
delete_file = "never"

[context]
summarise_with = "gemini"
[context.windows]
"my-model" = 32000

[council]
speaker = "claude"

[prices."my-model"]
input = 1.5
output = 6
"""


def test_every_setting_can_be_written() -> None:
    settings = parse_settings(WHOLE)
    assert settings.speakers["claude"].options == {"temperature": 0.2}
    assert settings.speakers["safe"].provider == ("anthropic", "gemini")
    assert settings.groups == {"council": ("claude", "gemini")}
    assert settings.tools.rules == {"delete_file": "never"}
    assert settings.context.windows == {"my-model": 32000}
    assert settings.prices["my-model"].output == 6
    assert settings.foreign == "adopt"


def test_the_earlier_word_for_foreign_is_read() -> None:
    settings = parse_settings(
        'others = "drop"\n[speakers.a]\nprovider = "gemini"\nothers = "adopt"'
    )
    assert (settings.foreign, settings.speakers["a"].foreign) == ("drop", "adopt")


def test_no_file_and_an_empty_one_are_the_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "none.toml") == Settings()
    empty = tmp_path / "empty.toml"
    empty.write_text("\N{ZERO WIDTH NO-BREAK SPACE}")
    assert read_settings(empty) == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "is not valid TOML"),
        (
            'default_speeker = "x"',
            "'default_speeker' is no setting; did you mean 'default_speaker'?",
        ),
        ('[speakers.c]\nprovider = "x"\nmodle = "y"', "in [speakers.c]; did you mean 'model'?"),
        ("[tools]\nqqqq = 1", "known are: approval"),
        ("[speakers.c]\n", "speakers.c: object missing required field 'provider'"),
        ('foreign = "shout"', "foreign: "),
        ('[speakers.all]\nprovider = "x"', "a speaker cannot be called 'all'"),
        ('[speakers."a b"]\nprovider = "x"', "cannot be addressed"),
        ('[speakers.A]\nprovider = "x"\n[speakers.a]\nprovider = "x"', "two speakers"),
        ("[groups]\nnone = []", "has no members"),
        ("[context.windows]\nm = 'x'", "context.windows"),
    ],
)
def test_an_error_names_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_settings(text, "my.toml")
    assert str(raised.value).startswith("my.toml")
    assert message in str(raised.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'system_prompt = "\xe9"')
    with pytest.raises(UsageError, match="not UTF-8"):
        read_settings(tmp_path / "latin.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        read_settings(tmp_path)


@given(st.text())
def test_any_text_is_settings_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(parse_settings(text), Settings)


def test_the_example_in_the_documentation_is_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    settings = parse_settings(example)
    assert settings.speakers["careful"].provider == ("anthropic", "gemini")
    assert settings.tools.rules == {"git/git_push": "never"}
