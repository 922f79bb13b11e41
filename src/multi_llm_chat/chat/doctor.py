"""A diagnosis: what is configured, what is missing, and what works.

Rules:
1. It changes nothing and shows no secret.
2. Every check has its own finding, so that one failure never hides another.
3. Each finding of a fault says what to do.
4. A speaker with settings that its model refuses gets the rule and its source as advice: a trial request is rendered, but not sent.
5. With ``ask_providers`` it requests the model list of every provider with a key, all at once; these requests are free.
"""

import asyncio
import importlib.util
import platform
import sys
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.agent.providers import create_provider, find_factory
from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.folders import Folders, program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.settings import Settings, SpeakerSettings
from multi_llm_chat.errors import MultiLLMChatError, UsageError
from multi_llm_chat.local import list_models
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.protocol.rendered_request import render
from multi_llm_chat.protocol.rules import all_rules, source_of
from multi_llm_chat.store import list_conversations, open_store
from multi_llm_chat.tools.mcp.server_settings import read_servers

State: TypeAlias = Literal["ok", "missing", "wrong"]

#: The extras of the package, their purpose, and the module that shows whether they are installed.
_EXTRAS: Final = (
    ("local", "the embedded model", "xllamacpp"),
    ("mcp", "tools of MCP servers", "mcp"),
    ("postgres", "conversations in Postgres", "psycopg"),
    ("tokens", "exact token counts", "kitoken"),
    ("web", "the web app", "starlette"),
)


_TRIAL: Final = {"role": "user", "content": "Hello"}


class Finding(Struct, frozen=True):
    """The result of one check; ``advice`` says what to do about a fault."""

    area: str
    name: str
    state: State
    detail: str = ""
    advice: str = ""


class Diagnosis(Struct, frozen=True):
    """All findings."""

    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        """Whether there is no fault; missing parts do not count, since they may not be needed."""
        return all(finding.state != "wrong" for finding in self.findings)


async def diagnose(
    folders: Folders | None = None,
    keys: Keys | None = None,
    *,
    ask_providers: bool = False,
) -> Diagnosis:
    """Make all checks.

    Args:
        folders: Where configuration and data are.
        keys: Where keys are found.
        ask_providers: Whether to try the keys.
    """
    places = folders or program_folders()
    known = keys or Keys(folders=places)
    settings, configuration = _configuration(places.config_file)
    findings = [
        Finding("system", "python", "ok", f"{platform.python_version()} on {sys.platform}"),
        configuration,
        *_speakers(settings),
        _store(settings, places),
        *_servers(places.servers_file),
        *_models(),
        *_extras(),
        *await _keys(known, ask_providers=ask_providers),
    ]
    return Diagnosis(tuple(findings))


def _configuration(path: Path) -> tuple[Settings, Finding]:
    try:
        settings = read_settings(path)
    except MultiLLMChatError as error:
        advice = "Mend the file; until then the defaults are used"
        return Settings(), Finding("config", str(path), "wrong", str(error), advice)
    if not path.exists():
        return settings, Finding("config", str(path), "missing", "the defaults are used")
    return settings, Finding("config", str(path), "ok")


def _speakers(settings: Settings) -> list[Finding]:
    findings: list[Finding] = []
    for name, speaker in settings.speakers.items():
        providers = (speaker.provider,) if isinstance(speaker.provider, str) else speaker.provider
        try:
            for each in providers:
                find_factory(each)
        except UsageError as error:
            findings.append(Finding("speaker", name, "wrong", str(error), "Name another provider"))
        else:
            findings.append(Finding("speaker", name, "ok", " → ".join(providers)))
            findings += _trial(name, speaker, [each for each in providers if each in ROWS])
    for name, persona in settings.personas.items():
        known = {*settings.speakers, *ROWS, *(row.speaker for row in ROWS.values()), "local"}
        if persona.speaker.lower() in {each.lower() for each in known}:
            findings.append(Finding("persona", name, "ok", persona.speaker))
        else:
            text = f"there is no speaker {persona.speaker!r}"
            findings.append(Finding("persona", name, "wrong", text, "Name a configured speaker"))
    names = {
        *settings.speakers,
        *settings.personas,
        *(row.speaker for row in ROWS.values()),
        "local",
    }
    for group, members in settings.groups.items():
        unknown = [each for each in members if each not in names]
        if unknown:
            findings.append(
                Finding("group", group, "wrong", f"no speaker is called {unknown[0]!r}", "Name configured speakers")
            )  # fmt: skip
    return findings


def _trial(name: str, speaker: SpeakerSettings, providers: Iterable[str]) -> list[Finding]:
    """The changes that each provider's rules make to the speaker's settings, with the rules."""
    findings: list[Finding] = []
    for provider in providers:
        if provider in {"local", "simulated"}:
            continue
        try:
            trial = render([_TRIAL], provider, model=speaker.model, options=speaker.options)
        except MultiLLMChatError as error:
            return [Finding("speaker", name, "wrong", str(error), "Change its options")]
        for note in trial.notes:
            rule = all_rules().get(note.rule)
            known = f"{rule.id}: {rule.rule} ({source_of(rule)})" if rule else note.rule
            findings.append(Finding("speaker", name, "ok", f"{provider}: {note.message}", known))
    return findings


def _store(settings: Settings, places: Folders) -> Finding:
    place = settings.store or str(places.store_file)
    shown = place.split("@")[-1] if "://" in place else place
    if not settings.store and not places.store_file.exists():
        return Finding("store", shown, "missing", "it is made with the first message")
    try:
        with open_store(place) as store:
            store.run(list_conversations, limit=1)
    except MultiLLMChatError as error:
        return Finding("store", shown, "wrong", str(error), "See the message")
    return Finding("store", shown, "ok")


def _servers(path: Path) -> list[Finding]:
    try:
        found = read_servers(path.read_bytes())
    except FileNotFoundError:
        return [Finding("mcp", str(path), "missing", "no MCP servers are configured")]
    except (OSError, MultiLLMChatError) as error:
        return [Finding("mcp", str(path), "wrong", str(error), "Mend the file")]
    servers = [
        Finding("mcp", server.name, "ok", "disabled" if server.disabled else "configured")
        for server in found.servers
    ]
    return servers + [Finding("mcp", str(path), "wrong", problem) for problem in found.problems]


def _models() -> list[Finding]:
    advice = "mlc local install"
    return [
        Finding("local", model.name, "ok" if model.is_installed else "missing", "", "" if model.is_installed else advice)
        for model in list_models()
        if model.is_chosen or model.is_installed
    ]  # fmt: skip


def _extras() -> list[Finding]:
    findings: list[Finding] = []
    for extra, purpose, module in _EXTRAS:
        there = importlib.util.find_spec(module) is not None
        advice = "" if there else f"pip install 'multi_llm_chat[{extra}]'"
        findings.append(Finding("extra", extra, "ok" if there else "missing", purpose, advice))
    return findings


async def _keys(keys: Keys, *, ask_providers: bool) -> list[Finding]:
    checks: list[Awaitable[Finding]] = []
    missing: list[Finding] = []
    for row in ROWS.values():
        if row.key_variable is None or row.name == "openai-chat":
            continue
        found = keys.find_first(row.key_variables)
        if found is None:
            advice = f"mlc keys set {row.name}, or set {row.key_variable}"
            missing.append(Finding("key", row.name, "missing", row.key_variable, advice))
            continue
        text = f"{found.variable} {found.hint} ({found.place})"
        checks.append(
            _try_key(row.name, found.value, text) if ask_providers else _as_is(row.name, text)
        )
    return [*await asyncio.gather(*checks), *missing]


async def _as_is(name: str, text: str) -> Finding:
    return Finding("key", name, "ok", text)


async def _try_key(name: str, key: str, text: str) -> Finding:
    try:
        async with create_provider(name, api_key=key) as provider:
            models = await provider.alist_models()
    except MultiLLMChatError as error:
        return Finding("key", name, "wrong", f"{text}: {error}", "See the message")
    return Finding("key", name, "ok", f"{text}: works, {len(models)} models")
