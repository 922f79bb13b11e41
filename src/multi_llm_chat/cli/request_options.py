"""Options of ``mlc ask`` and ``mlc chat`` that become settings of the conversation: speakers, models and request options.

``mlc chat`` imports this module before its prompt is shown, so it must not import large modules.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from multi_llm_chat.errors import UsageError

if TYPE_CHECKING:
    from multi_llm_chat.chat.chat_service import ChatService

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: The prefix of options that are sent to the provider unchanged.
_EXTRA = "extra."


def request_options(command: _Command) -> _Command:
    """``-m``, ``--system``, ``--temperature`` and ``--option``."""
    for option in (
        click.option(
            "-o",
            "--option",
            "option",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of the requests, such as max_tokens=500 or extra.top_k=20.",
        ),
        click.option("-t", "--temperature", type=float, help="How freely the model chooses words."),
        click.option("-s", "--system", help="The system prompt of this conversation."),
        click.option(
            "-m",
            "--speaker",
            "to",
            multiple=True,
            metavar="SPEAKER[:MODEL]",
            help="Who answers, and with which model; may be given several times.",
        ),
    ):
        command = option(command)
    return command


def configure_requests(service: "ChatService", options: Mapping[str, Any]) -> tuple[str, ...]:
    """Make the options settings of the conversation; return the speakers that ``-m`` names.

    Raises:
        UsageError: There is no such speaker or option.
    """
    names: list[str] = []
    models: dict[str, str] = dict(service.own_settings.get("models") or {})
    for given in options["to"]:
        name, model = _speaker(service, given)
        names.append(name)
        if model:
            models[name] = model
    changes: dict[str, Any] = {}
    if models:
        changes["models"] = models
    if options["system"]:
        changes["system_prompt"] = options["system"]
    settings = read_settings(options["option"])
    if options["temperature"] is not None:
        settings["temperature"] = options["temperature"]
    if settings:
        changes["options"] = {**(service.own_settings.get("options") or {}), **settings}
    if changes:
        service.configure(**changes)
    return tuple(dict.fromkeys(names))


def read_settings(given: tuple[str, ...]) -> dict[str, Any]:
    """Read settings from ``KEY=VALUE``; a value that is not JSON counts as text.

    Raises:
        UsageError: An item is not of the form ``KEY=VALUE``.
    """
    found: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for pair in given:
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"An option is given as KEY=VALUE, not as {pair!r}")
        try:
            value: Any = json.loads(text)
        except ValueError:
            value = text
        if key.startswith(_EXTRA):
            extra[key.removeprefix(_EXTRA)] = value
        else:
            found[key] = value
    return {**found, "extra": extra} if extra else found


def _speaker(service: "ChatService", given: str) -> tuple[str, str]:
    """The speaker and the model of ``SPEAKER[:MODEL]``; a speaker's name may contain a colon."""
    given = given.removeprefix("@")
    try:
        return service.known_speaker(given), ""
    except UsageError:
        name, separator, model = given.partition(":")
        if not separator:
            raise
    return service.known_speaker(name), model
