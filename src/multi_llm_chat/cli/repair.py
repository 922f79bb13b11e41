"""``mlc repair``: turn any file of messages into a request that a provider accepts."""

import json
import sys
from collections.abc import Callable
from typing import Any, TextIO

import click

from multi_llm_chat.cli.messages import print_json
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.conversion import history_from
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.providers import ROWS, provider_row
from multi_llm_chat.protocol.rendered_request import render
from multi_llm_chat.testing.validators import validate

_NATIVE = ("anthropic", "gemini", "openai-chat", "openai-responses", "flat")


@click.command()
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@click.option(
    "--for",
    "provider",
    required=True,
    type=click.Choice(sorted(ROWS)),
    help="The provider the request is for.",
)
@click.option(
    "--from",
    "source",
    type=click.Choice(["ours", *_NATIVE]),
    help="The format of the messages; found out if not given.",
)
@click.option("--model", help="The model; the provider's default if not given.")
@click.option(
    "--check",
    is_flag=True,
    help="Only judge: exit with 1 if the provider would refuse the messages as they are.",
)
def repair(file: TextIO, provider: str, source: str | None, model: str | None, check: bool) -> None:
    """Read messages from FILE (or standard input) and print a request PROVIDER accepts.

    The body goes to standard output, what was changed to standard error. FILE holds a list of
    messages, or a whole request body.
    """
    try:
        document = json.load(file)
    except ValueError as error:
        raise click.UsageError(f"This is not JSON: {error}") from None
    try:
        if check:
            _judge(document, provider, model)
        else:
            _mend(document, provider, source, model)
    except UsageError as error:
        raise click.UsageError(str(error)) from None


def _mend(document: Any, provider: str, source: str | None, model: str | None) -> None:
    messages, settings = _taken_apart(document)
    source = source or _format_of(messages)
    history = messages if source == "ours" else history_from(messages, source)
    request = render(history, provider, model=model, **settings)
    for note in request.notes:
        place = "request" if note.turn is None else f"turn {note.turn}"
        click.echo(f"{note.rule}  {place}: {note.message}", err=True)
    print_json(request.body)


def _judge(document: object, provider: str, model: str | None) -> None:
    messages = as_list(document)
    body = document if messages is None else _plain_body(messages, provider, model)
    violations = validate(provider, body, model=model)
    for violation in violations:
        click.echo(f"{violation.rule}  {violation.status}: {violation.message}", err=True)
    if violations:
        sys.exit(1)
    click.echo(f"{provider} accepts this.", err=True)


def _plain_body(messages: list[Any], provider: str, model: str | None) -> JsonObject:
    """The shortest request with these messages."""
    row = provider_row(provider)
    body: JsonObject = {DIALECTS[row.dialect].messages: messages}
    if row.dialect != "gemini":
        body["model"] = model or row.default_model
    if row.dialect == "anthropic":
        body["max_tokens"] = 1024
    return body


def _taken_apart(document: object) -> tuple[list[Any], dict[str, Any]]:
    """The messages of a list or of a whole request body, and the parts of the body that can be kept."""
    messages, body = as_list(document), as_object(document) or {}
    if messages is not None:
        return messages, {}
    for key in ("messages", "contents", "input", "history"):
        messages = as_list(body.get(key))
        if messages is not None:
            return messages, _settings(body)
    raise UsageError(
        "Expected a list of messages, or an object with 'messages', 'input', 'contents' or 'history'."
    )


def _settings(body: JsonObject) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    system = body.get("system", body.get("instructions"))
    blocks = as_list(system)
    if blocks is not None:
        texts = (as_text((as_object(block) or {}).get("text")) for block in blocks)
        system = "\n\n".join(texts)
    if isinstance(system, str):
        settings["system_prompt"] = system
    if isinstance(body.get("tools"), list):
        settings["tools"] = body["tools"]
    return settings


def _format_of(messages: list[Any]) -> str:
    """The format of the messages; ours if there is no sign of another."""
    for value in messages:
        message = as_object(value)
        if message is None:
            continue
        content = as_list(message.get("content")) or []
        parts = [part for item in content if (part := as_object(item)) is not None]
        for name, shows in _SIGNS.items():
            if shows(message, parts):
                return name
    return "ours"


_ITEMS = ("function_call", "function_call_output", "reasoning", "message")
_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking"}
_BLOCK_KEYS = {"tool_use_id", "input", "signature", "data", "text"}


def _is_anthropic(_message: JsonObject, parts: list[JsonObject]) -> bool:
    """Whether it is a block of Anthropic's; ours share two type names with those, but not the keys."""
    return any(part.get("type") in _BLOCKS and _BLOCK_KEYS & part.keys() for part in parts)


def _is_chat(message: JsonObject, parts: list[JsonObject]) -> bool:
    called = "tool_calls" in message or "tool_call_id" in message
    return called or any(part.get("type") in ("image_url", "input_audio") for part in parts)


#: The signs of each format, the most reliable first.
_SIGNS: dict[str, Callable[[JsonObject, list[JsonObject]], bool]] = {
    "gemini": lambda message, _parts: "parts" in message,
    "openai-responses": lambda message, _parts: message.get("type") in _ITEMS,
    "flat": lambda message, _parts: "tool_use" in message or "thinking" in message,
    "anthropic": _is_anthropic,
    "openai-chat": _is_chat,
}
