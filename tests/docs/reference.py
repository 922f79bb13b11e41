"""The pages of the API reference: one for each public package, with every public name.

python -m tests.docs.reference        # write them; make fix does it too
"""

from importlib import import_module

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "reference"

#: The public packages (SPEC, names that stay), and what each is for.
PACKAGES = {
    "multi_llm_chat": "The front door: agents, conversations, providers, repair.",
    "multi_llm_chat.errors": "Everything that is raised.",
    "multi_llm_chat.events": "The one union of events.",
    "multi_llm_chat.history": "Turns and parts, and reading and writing them.",
    "multi_llm_chat.tools": "Tools, registries, approval.",
    "multi_llm_chat.tools.mcp": "MCP servers.",
    "multi_llm_chat.store": "The store and its operations.",
    "multi_llm_chat.testing": "The simulator, the judges, the kit for authors of providers.",
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


def page_of(package: str) -> str:
    """The name of its page."""
    return "index.md" if package == "multi_llm_chat" else package.partition(".")[2] + ".md"


def written(package: str) -> str:
    """The page of a package."""
    lines = [f"# `{package}`", "", PACKAGES[package], ""]
    for name in public_names(package):
        lines += [f"::: {package}.{name}", ""]
    return "\n".join(lines)


def main() -> None:
    """Write all pages."""
    for package in PACKAGES:
        (FOLDER / page_of(package)).write_text(written(package), encoding="utf-8")


if __name__ == "__main__":
    main()
