"""Agents from the user's configuration: a persona, or any speaker, by its name."""

from typing import Any, Unpack, cast

from multi_llm_chat.chat.agent import Agent, AgentSettings
from multi_llm_chat.chat.speakers import configured_speakers
from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.folders import program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.settings import Settings


def load_agent(
    speaker: str,
    *,
    output: type[Any] | None = None,
    settings: Settings | None = None,
    keys: Keys | None = None,
    **given: Unpack[AgentSettings],
) -> Agent[Any]:
    """An agent with the provider, the instructions, the options and the choice of tools of a persona or speaker.

    Args:
        speaker: The persona's or speaker's name in ``config.toml``.
        output: The type of the answer, as for ``Agent``.
        settings: Used instead of the configuration file.
        keys: Finds the providers' keys; the program's own if not given.
        given: Further arguments of ``Agent``; they replace what the configuration says.

    Raises:
        UsageError: There is no such name.
    """
    folders = program_folders()
    found = settings or read_settings(folders.config_file)
    made = configured_speakers(found, keys or Keys(folders=folders)).named(speaker)
    own: AgentSettings = {
        "instructions": made.settings.system_prompt or found.system_prompt,
        "offered_tools": made.settings.tools,
        "name": made.name,
    }
    return Agent(made.provider, output=cast("Any", output), **{**own, **given})
