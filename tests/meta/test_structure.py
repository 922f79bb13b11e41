"""The numbers and words of the code's structure (docs/architecture.md): what can be counted is counted here."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from statistics import median

from tests.meta.import_graph import PACKAGE, SOURCE, longest_chain, modules

ROOT = Path(__file__).parents[2]

#: Imports inside functions, by module, each with its reason. Everything else is imported at the top.
LATE_IMPORTS = {
    "__main__": "Ctrl-C while the command line loads is caught",
    "chat.workspace": "the extras mcp and scale load when they are used",
    "cli.mcp": "the extra mcp loads when it is used",
    "cli.terminal.boards": "the full-screen view loads when a terminal shows it: the first prompt stays quick",
    "tools.mcp": "the extra mcp loads when it is used",
    "web.servers": "the extra mcp loads when it is used",
}

BANNED_IDENTIFIERS = re.compile(r"told|heard|Keeping|handing|looking")
BANNED_PHRASES = re.compile(r"\b(?:gone on with|told as|whoever)\b", re.IGNORECASE)


def test_there_are_few_modules_of_a_readable_size():
    lines = {name: module.lines for name, module in modules().items()}
    assert len(lines) <= 400
    assert 120 <= median(lines.values()) <= 180
    assert {name: count for name, count in lines.items() if count > 600} == {}


def test_import_chains_are_short_and_have_no_circle():
    chain = longest_chain()
    assert len(chain) <= 22, chain


def test_imports_inside_functions_are_listed():
    late = {name for name, module in modules().items() if module.late}
    assert late == set(LATE_IMPORTS)


def test_modules_are_nouns():
    activities = [name for name in modules() if name.rpartition(".")[2].endswith("ing")]
    assert len(activities) <= 25, activities


def test_a_module_with_an_underscore_is_imported_by_its_own_package_alone():
    crossing = {
        (name, imported)
        for name, module in modules().items()
        for imported in module.imports
        if "._" in imported and name.partition(".")[0] != imported.partition(".")[0]
    }
    assert crossing == set()


def test_no_public_class_name_is_used_twice():
    homes: dict[str, list[str]] = defaultdict(list)
    for name, module in modules().items():
        if name.partition(".")[0] == "compat":
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_one_module_drives_the_agent_loop():
    callers = {
        name
        for name, module in modules().items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "agent_loop"
    }
    assert {name for name in callers if not name.startswith("compat.")} == {"runs.driver"}


def test_one_module_defines_events():
    unions = [
        name
        for name, module in modules().items()
        for node in module.tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == "Event"
    ]
    assert unions == ["events"]


def _identifiers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case _:
                pass


def test_identifiers_are_plain_words():
    found = {
        (name, identifier)
        for name, module in modules().items()
        for identifier in (name.rpartition(".")[2], *_identifiers(module.tree))
        if any(BANNED_IDENTIFIERS.fullmatch(word) for word in re.split(r"_+|(?<=[a-z])(?=[A-Z])", identifier))
    }  # fmt: skip
    assert found == set()


def _prose() -> Iterator[Path]:
    for kind in ("py", "js", "html", "css"):
        yield from SOURCE.rglob(f"*.{kind}")
    yield from (ROOT / "docs").rglob("*.md")
    yield from ROOT.glob("*.md")


def test_prose_is_plain():
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in _prose()
        for line in file.read_text(encoding="utf-8").splitlines()
        if BANNED_PHRASES.search(line)
    ]
    assert found == []


def _glossary() -> dict[str, str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| ([^|`]+?) \| `([\w.]+)` \|", section, re.MULTILINE))


def test_the_glossary_is_short_and_each_word_names_one_thing():
    words = _glossary()
    assert 20 <= len(words) <= 32
    assert len(set(words.values())) == len(words)


def _exists(thing: str) -> bool:
    home, _, name = thing.rpartition(".")
    return thing in modules() or hasattr(import_module(f"{PACKAGE}.{home}"), name)


def test_a_glossary_word_names_what_exists():
    missing = {word: thing for word, thing in _glossary().items() if not _exists(thing)}
    assert missing == {}
