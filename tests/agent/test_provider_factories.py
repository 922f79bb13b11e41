"""Providers by name: built-in rows, registered factories, and those of installed packages."""

import importlib
import sys
import tomllib
from collections.abc import Generator
from pathlib import Path
from typing import Any, Unpack

import pytest

from multi_llm_chat import LLMProvider, UsageError, create_provider, register_provider
from multi_llm_chat.agent import providers as factories
from multi_llm_chat.agent.providers import ClaudeProvider, FallbackProvider, ProviderSettings
from multi_llm_chat.testing.simulated import SimulatedProvider

ROOT = Path(__file__).parents[2]


class AcmeProvider(LLMProvider):
    """A third-party provider that uses another provider's dialect."""

    default_provider = "openai-chat"


@pytest.fixture(autouse=True)
def as_before() -> Generator[None]:
    """Undo a test's registrations at its end."""
    registered = dict(factories._FACTORIES)  # pyright: ignore[reportPrivateUsage]
    yield
    factories._FACTORIES.clear()  # pyright: ignore[reportPrivateUsage]
    factories._FACTORIES.update(registered)  # pyright: ignore[reportPrivateUsage]


def test_a_registered_factory_gets_the_settings() -> None:
    register_provider("Acme", AcmeProvider)
    provider = create_provider(" ACME ", model="m", speaker="bob")
    assert type(provider) is AcmeProvider
    assert (provider.model, provider.speaker) == ("m", "bob")
    chain = create_provider(["acme", "claude"])
    assert isinstance(chain, FallbackProvider)
    assert [type(member) for member in chain.members] == [AcmeProvider, ClaudeProvider]


def test_a_function_will_do_and_a_known_name_may_be_replaced() -> None:
    def through_the_gateway(**settings: Unpack[ProviderSettings]) -> LLMProvider:
        settings["base_url"] = "http://gateway/v1"
        return AcmeProvider(**settings)

    register_provider("openai", through_the_gateway)
    assert create_provider("openai").request([]).base_url == "http://gateway/v1"


def test_a_factory_needs_a_name() -> None:
    with pytest.raises(UsageError, match="needs a name"):
        register_provider(" ", AcmeProvider)


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, package: str, **offered: str) -> None:
    """Simulate an installed package that offers these providers."""
    information = folder / f"{package}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = [f"[{factories.ENTRY_POINTS}]", *(f"{name} = {at}" for name, at in offered.items())]
    (information / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    importlib.invalidate_caches()


def test_an_installed_package_offers_a_provider(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "acme_llm.py").write_text(
        "from multi_llm_chat import LLMProvider\n"
        "class Acme(LLMProvider):\n    default_provider = 'openai-chat'\n",
        encoding="utf-8",
    )
    installed(monkeypatch, tmp_path, "acme_llm", acme="acme_llm:Acme", openai="acme_llm:Nothing")
    for _ in range(2):
        assert type(create_provider("acme", model="m")).__module__ == "acme_llm"
    # A known name does not load installed packages: this one would fail.
    assert create_provider("openai").name == "openai"


def test_a_package_that_cannot_be_loaded_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, tmp_path, "broken_llm", acme="no_such_module_at_all:Acme")
    with pytest.raises(UsageError, match=r"'acme' of broken_llm .* cannot be loaded"):
        create_provider("acme")


def test_two_packages_with_one_name_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, tmp_path / "a", "one_llm", acme="one:Acme")
    installed(monkeypatch, tmp_path / "b", "two_llm", acme="two:Acme")
    with pytest.raises(UsageError, match=r"one_llm .*, two_llm"):
        create_provider("acme")


def test_this_package_offers_the_simulated_provider() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    offered = project["entry-points"][factories.ENTRY_POINTS]
    module, _, name = offered["simulated"].partition(":")
    assert (module, name) == (SimulatedProvider.__module__, SimulatedProvider.__name__)


def test_an_unknown_keyword_is_named() -> None:
    wrong: dict[str, Any] = {"colour": "red"}
    for name in ("claude", "groq", "local", "simulated"):
        with pytest.raises(TypeError, match="colour"):
            create_provider(name, **wrong)


def test_no_source_below_the_tests_kit_names_it() -> None:
    package = ROOT / "src" / "multi_llm_chat"
    below = [
        path
        for folder in ("client", "drive", "exchange", "transport", "local", "tools", "store")
        for path in (package / folder).rglob("*.py")
    ]
    naming = [path for path in below if "multi_llm_chat.testing" in path.read_text("utf-8")]
    assert naming == []
