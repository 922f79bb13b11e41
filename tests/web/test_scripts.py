"""Checks the scripts with TypeScript, which the test installs from npm."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.web.server_process import install_npm_package

import multi_llm_chat.web

ASSETS = Path(multi_llm_chat.web.__file__ or "").parent / "assets"


@pytest.mark.judge
def test_the_scripts_pass_the_type_checker(pytestconfig: pytest.Config):
    checker = install_npm_package(pytestconfig, "typescript@5") / ".bin" / "tsc"
    options = "--noEmit --allowJs --checkJs --strict --target es2022 --module esnext --moduleResolution bundler --lib es2023,dom,dom.iterable"
    entries = [str(ASSETS / f"{name}.js") for name in ("main", "components", "settings", "early")]
    command = [str(checker), *options.split(), *entries]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=90)
    assert done.stdout == ""


def test_scripts_and_pages_load_nothing_from_other_sites_and_nothing_inline():
    for script in ASSETS.glob("*.js"):
        text = script.read_text(encoding="utf-8")
        assert "http://" not in text
        assert "https://" not in text
    for page in (ASSETS.parent / "templates").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert " style=" not in text
        assert "<style" not in text
        assert not any(
            f" on{event}=" in text for event in ("click", "load", "error", "submit", "input")
        )
        loaded = re.findall(r'<script(?: type="module")? src="/assets/\w+\.js"></script>', text)
        assert text.count("<script") == len(loaded)
