"""What the documentation claims: links lead somewhere, every public name and every command that is shown exists."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from tests.docs.pages import ROOT, read_blocks
from tests.docs.reference import FOLDER, PACKAGES, page_of, public_names, written

from multi_llm_chat.cli.main import main

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
#: Pages that people wrote; the reference is made.
GUIDES = [page for page in PAGES if page.parent != FOLDER]

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_COMMAND = re.compile(r"`(mlc(?: [^`\n]*)?)`")


def _prose(page: Path) -> str:
    return _CODE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Markdown renderers make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()).strip() for heading in headings]
    return {re.sub(r"[\s]+", "-", each) for each in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    for link in _LINK.findall(_prose(page)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), link


def test_every_page_is_in_the_navigation():
    loader = type("Loader", (yaml.SafeLoader,), {})
    navigation = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), loader)["nav"]

    def paths(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            for value in entry.values():  # pyright: ignore[reportUnknownVariableType]
                yield from paths(value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(entry, list):
            for value in entry:  # pyright: ignore[reportUnknownVariableType]
                yield from paths(value)  # pyright: ignore[reportUnknownArgumentType]

    listed = set(paths(navigation))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_every_public_name_is_on_a_page():
    text = "\n".join(page.read_text(encoding="utf-8") for page in GUIDES)
    words = set(re.findall(r"\w+", text))
    assert [name for name in public_names("multi_llm_chat") if name not in words] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_name(package: str):
    page = FOLDER / page_of(package)
    assert page.read_text(encoding="utf-8") == written(package), "run: make fix"


def _commands(page: Path) -> Iterator[str]:
    for block in read_blocks(page):
        if block.language == "sh":
            joined = block.code.replace("\\\n", " ")
            yield from (line for line in joined.splitlines() if re.match(r"(\$ )?mlc\b", line))
    yield from _COMMAND.findall(page.read_text(encoding="utf-8"))


def _find(command: click.Command, word: str) -> click.Command | None:
    if isinstance(command, click.Group):
        return command.get_command(click.Context(command), word)
    return None


def _flags(command: click.Command) -> set[str]:
    named = [command]
    if command is main:  # a question needs no command word: its flags are those of ask
        named += [found for found in (_find(main, "ask"), _find(main, "chat")) if found]
    return {"-h", "--help"} | {
        flag for each in named for option in each.params for flag in (*option.opts, *option.secondary_opts)
    }  # fmt: skip


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_flags_that_are_shown_exist(page: Path):
    for line in _commands(page):
        command: click.Command = main
        for word in shlex.split(line.removeprefix("$ ").partition("|")[0], comments=True)[1:]:
            found = _find(command, word)
            if found is not None:
                command = found
            elif command.context_settings.get("ignore_unknown_options"):
                break  # what follows is another program's
            elif re.match(r"--?[a-z]", word):
                assert word.partition("=")[0] in _flags(command), line


#: Words that the field has better ones for; DESIGN, plain words.
BANNED = re.compile(
    r"gone on\b|goes on\b|\btold\b|\bheard\b|\bwhoever\b|\bnobody\b|\bsomebody\b|\belsewhere\b|\bbeside\b|what is said|"
    r"\bmended\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_plain_words(page: Path):
    text = page.read_text(encoding="utf-8")
    quoted = {"architecture.md", "changelog.md"}  # which name old modules
    assert page.name in quoted or BANNED.findall(text) == []


def _texts(path: Path) -> Iterator[str]:
    """The strings of a module that a user can read: all but docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_no_text_of_the_program_has_banned_words():
    source = ROOT / "src" / "multi_llm_chat"
    modules = [path for path in source.rglob("*.py") if "testing" not in path.parts]
    found = {
        str(path.relative_to(source)): texts
        for path in modules
        if (texts := [text for text in _texts(path) if BANNED.search(text) and " " in text])
    }
    assert found == {}
