"""The modules of the package and what each imports, read from their source."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

import multi_llm_chat

PACKAGE = "multi_llm_chat"
SOURCE = Path(multi_llm_chat.__file__ or "").parent


class Module(Struct, frozen=True):
    """One module: its file, its syntax tree and the modules of the package that it imports.

    ``late`` are the imports inside functions; imports under ``TYPE_CHECKING`` do not count.
    """

    name: str
    file: Path
    tree: ast.Module
    imports: frozenset[str]
    late: frozenset[str]

    @property
    def lines(self) -> int:
        return len(self.file.read_text(encoding="utf-8").splitlines())


@cache
def modules() -> Mapping[str, Module]:
    """All modules, by their names without the package's."""
    files = {_name(file): file for file in sorted(SOURCE.rglob("*.py"))}
    return {name: _read(name, file, frozenset(files)) for name, file in files.items()}


def longest_chain() -> list[str]:
    """The longest chain of modules in which each imports the next.

    Raises:
        AssertionError: Modules import each other in a circle.
    """
    chains: dict[str, list[str]] = {}
    entered: list[str] = []

    def chain(name: str) -> list[str]:
        if name not in chains:
            assert name not in entered, f"circle: {entered[entered.index(name) :]}"
            entered.append(name)
            below = [chain(each) for each in sorted(modules()[name].imports)]
            longest: list[str] = max(below, key=len) if below else []
            chains[name] = [name, *longest]
            entered.pop()
        return chains[name]

    return max((chain(name) for name in modules()), key=len)


def _name(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, file: Path, known: frozenset[str]) -> Module:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = {
        (module, is_late)
        for imported, is_late in _imports(tree, False)
        if (module := _known(imported, known)) is not None and module != name
    }
    imports = frozenset(module for module, _ in found)
    return Module(name, file, tree, imports, frozenset(module for module, late in found if late))


def _imports(node: ast.AST, is_late: bool) -> Iterator[tuple[str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _is_type_checking(child.test):
            for other in child.orelse:
                yield from _imports(other, is_late)
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, is_late) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative import"
            yield from ((f"{child.module}.{alias.name}", is_late) for alias in child.names)
        in_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from _imports(child, is_late or in_function)


def _known(imported: str, known: frozenset[str]) -> str | None:
    """The module of the package that an import loads; None for another package's."""
    if imported.partition(".")[0] != PACKAGE:
        return None
    name = imported.removeprefix(PACKAGE).removeprefix(".")
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
