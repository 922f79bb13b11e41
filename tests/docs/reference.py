"""The pages of the API reference: one for each public package, with every public name.

python -m tests.docs.reference        # write them; make fix does it too
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Unpack, cast, get_args, get_origin, get_overloads

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "reference"

#: The public packages (SPEC, names that stay), and what each is for.
PACKAGES = {
    "multi_llm_chat": "Agents, conversations, providers and repair. The types of keyword arguments (`AgentSettings`, `ProviderSettings`, …) are at the end.",
    "multi_llm_chat.errors": "The exceptions.",
    "multi_llm_chat.events": "The events of replies and runs: one union.",
    "multi_llm_chat.history": "Turns and parts, and functions that read and write them.",
    "multi_llm_chat.tools": "Tools, registries, approval.",
    "multi_llm_chat.tools.mcp": "MCP servers.",
    "multi_llm_chat.store": "The store and its operations.",
    "multi_llm_chat.testing": "The simulator, the validators, and the conformance kit for authors of providers.",
}


def public_names(package: str) -> list[str]:
    """What a package exports."""
    module = import_module(package)
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == package
    ]
    return sorted(names)


def keyword_types(package: str) -> list[str]:
    """The paths of the ``TypedDict`` classes that hold the keyword arguments of what a package exports."""
    module = import_module(package)
    found: set[str] = set()
    for name in public_names(package):
        value = getattr(module, name)
        members = vars(value).values() if isinstance(value, type) else ()
        for function in (value, *members):
            for hint in _annotations(function):
                keywords = get_args(hint) if get_origin(hint) is Unpack else ()
                found |= {f"{each.__module__}.{each.__qualname__}" for each in keywords}
    return sorted(found, key=lambda path: path.rpartition(".")[2])


def _annotations(function: object) -> Iterator[object]:
    if isinstance(function, (classmethod, staticmethod)):
        function = cast("object", function.__func__)
    if not callable(function):
        return
    for each in (function, *get_overloads(function)):
        yield from getattr(each, "__annotations__", {}).values()


def page_of(package: str) -> str:
    """The name of its page."""
    return "index.md" if package == "multi_llm_chat" else package.partition(".")[2] + ".md"


def written(package: str) -> str:
    """The page of a package."""
    lines = [f"# `{package}`", "", PACKAGES[package], ""]
    for name in public_names(package):
        lines += [f"::: {package}.{name}", ""]
    for path in keyword_types(package):
        lines += [f"::: {path}", ""]
    return "\n".join(lines)


def main() -> None:
    """Write all pages."""
    for package in PACKAGES:
        (FOLDER / page_of(package)).write_text(written(package), encoding="utf-8")


if __name__ == "__main__":
    main()
