"""Every block of README and docs runs, a whole page as one script."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT, all_pages, read_blocks, read_scripts, run_script

#: Those that a newcomer reads first; the others are for make judges.
FIRST = ("README.md", "index.md", "agents.md", "tutorial")


def _param(page: Path) -> Any:
    is_first = page.name in FIRST or page.parent.name in FIRST
    marks = () if is_first else pytest.mark.judge
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [_param(page) for page in all_pages() if read_scripts(page)])
def test_the_page_runs_as_one_script(page: Path, tmp_path: Path):
    for number, script in enumerate(read_scripts(page)):
        folder = tmp_path / str(number)
        folder.mkdir()
        run_script(script, folder)


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_json_and_toml_can_be_read(page: Path):
    for block in read_blocks(page):
        if block.language == "json":
            json.loads(block.code)
        elif block.language == "toml":
            tomllib.loads(block.code)
