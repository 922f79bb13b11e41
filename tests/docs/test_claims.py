"""What the documentation claims: links lead somewhere, every public name and every command that is shown exists."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
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


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _prose(page: Path) -> str:
    return _CODE.sub("", page.read_text(encoding="utf-8"))


@cache
def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Markdown renderers make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()).strip() for heading in headings]
    return {re.sub(r"[\s]+", "-", each) for each in words}


def _leads_somewhere(page: Path, link: str) -> bool:
    if "://" in link or link.startswith("mailto:"):
        return True
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if anchor and target.suffix == ".md":
        return target.exists() and anchor in _anchors(target)
    return target.exists()


def test_links_lead_somewhere():
    broken = [
        (_name(page), link)
        for page in PAGES
        for link in _LINK.findall(_prose(page))
        if not _leads_somewhere(page, link)
    ]
    assert broken == []


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


def test_the_reference_has_every_public_name():
    old = [
        package
        for package in PACKAGES
        if (FOLDER / page_of(package)).read_text(encoding="utf-8") != written(package)
    ]
    assert old == [], "run: make fix"


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


def _unknown_flags(line: str) -> Iterator[str]:
    command: click.Command = main
    for word in shlex.split(line.removeprefix("$ ").partition("|")[0], comments=True)[1:]:
        found = _find(command, word)
        if found is not None:
            command = found
        elif command.context_settings.get("ignore_unknown_options"):
            return  # what follows is another program's
        elif re.match(r"--?[a-z]", word) and word.partition("=")[0] not in _flags(command):
            yield word


def test_commands_and_flags_that_are_shown_exist():
    unknown = [
        (_name(page), line, flag)
        for page in GUIDES
        for line in _commands(page)
        for flag in _unknown_flags(line)
    ]
    assert unknown == []


#: Words that the field has better ones for; DESIGN, plain words.
BANNED = re.compile(
    r"gone on\b|goes on\b|\btold\b|\bheard\b|\bwhoever\b|\bnobody\b|\bsomebody\b|\belsewhere\b|\bbeside\b|what is said|"
    r"\bmended\b",
    re.IGNORECASE,
)


def test_plain_words():
    quoted = {"architecture.md", "changelog.md"}  # which name old modules
    found = [
        (_name(page), word)
        for page in GUIDES
        if page.name not in quoted
        for word in BANNED.findall(page.read_text(encoding="utf-8"))
    ]
    assert found == []


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
