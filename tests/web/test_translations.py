"""Every text of the page exists in every language."""

import gzip
import re
from pathlib import Path
from typing import get_args

import pytest

import multi_llm_chat.web
from multi_llm_chat import errors
from multi_llm_chat.events import StopReason, WaitReason
from multi_llm_chat.web.templating import LANGUAGES, Translations, choose_language, read_catalogue

WAITS: tuple[str, ...] = get_args(WaitReason)
HERE = Path(multi_llm_chat.web.__file__ or "").parent


@pytest.mark.parametrize("language", LANGUAGES)
def test_catalogues_have_the_same_keys_and_no_empty_texts(language: str):
    assert list(read_catalogue(language)) == list(read_catalogue("en"))
    assert all(text.strip() for text in read_catalogue(language).values())


def test_all_used_keys_exist_and_all_keys_are_used():
    templates = "".join(
        path.read_text(encoding="utf-8") for path in (HERE / "templates").glob("*.html")
    )
    scripts = "".join(path.read_text(encoding="utf-8") for path in (HERE / "assets").glob("*.js"))
    code = "".join(path.read_text(encoding="utf-8") for path in HERE.rglob("*.py"))
    used = set(re.findall(r"""\bt\(["'](\w+)["']\)""", templates))
    used |= {f"js_{key}" for key in re.findall(r"""word\("(\w+)"\)""", scripts)}
    used |= {
        f"js_{key}"
        for pair in re.findall(r"""word\([\w.()]+ \? "(\w+)" : "(\w+)"\)""", scripts)
        for key in pair
    }
    used |= set(re.findall(r"""(?:text|Phrase)\(["'](\w+)["'][,)]""", code))
    assert used - set(read_catalogue("en")) == set()
    made = (
        r"tool_|server_|theme_|stop_|password_|today|yesterday|last_|js_command_|js_theme_|branch"
        r"|failure_|advice_|wait_|scene_|costs_|filter_|artifact_|js_can_|page_|words_|key_state_|rule_|effort_|hint_"
    )
    assert {
        key for key in read_catalogue("en") if key not in used and not re.match(made, key)
    } == set()


def test_every_stop_reason_has_a_text():
    endings = set(StopReason.__args__) - {"answered"}
    assert {f"stop_{ending}" for ending in endings} <= set(read_catalogue("en"))


def test_the_language_is_chosen_by_the_reader_then_by_the_browser():
    assert choose_language("ko", "ja-JP,ja;q=0.9") == "ko"
    assert choose_language("", "ja-JP,ja;q=0.9") == "ja"
    assert choose_language("xx", "de-DE,de;q=0.9,it;q=0.5") == "it"
    assert choose_language("", "*") == "en"
    assert Translations("tlh").text("send") == "Send"


def test_scripts_and_styles_stay_small():
    """Compressed, as browsers get them."""
    files = [path for path in (HERE / "assets").iterdir() if path.suffix in {".js", ".css"}]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= 60_000


def test_every_kind_of_failure_and_wait_has_a_text():
    kinds = {name for name, kind in vars(errors).items() if _is_provider_error(kind)}
    wanted = {f"{kind}_{name}" for name in kinds for kind in ("failure", "advice")}
    wanted |= {f"wait_{reason}" for reason in WAITS}
    assert wanted <= set(read_catalogue("en"))


def _is_provider_error(kind: object) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, errors.ProviderError)
        and kind is not errors.ProviderError
    )
