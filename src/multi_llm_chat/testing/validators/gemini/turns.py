"""The order of a Gemini conversation.

1. A content with function calls follows the user's or a function response; it is answered by the
   next content, call by call, by name and by id. From Gemini 3 on, neighbouring contents of the model are one step (GEM-20);
   before, neighbouring contents of responses were recorded as accepted too.
2. A content with function responses holds nothing else, on Gemini 3.7 and later (GEM-10).
3. The user speaks somewhere: contents that end with the model are accepted behind the user's (GEM-09).
4. From Gemini 3 on, the first call of each step of the current turn carries its thought signature.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.gemini import wordings as say
from multi_llm_chat.testing.validators.gemini.contents import read
from multi_llm_chat.testing.validators.typed_views import as_array
from multi_llm_chat.testing.validators.violation import Violation

_GENERATION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")


class _Content(msgspec.Struct, frozen=True):
    """One content with its parts sorted by what they are."""

    index: int
    role: object
    parts: list[dict[str, Any]]

    def of_kind(self, name: str) -> list[tuple[int, dict[str, Any]]]:
        """Calls or responses, with their positions."""
        return [(i, read(part[name])) for i, part in enumerate(self.parts) if name in part]

    @property
    def calls(self) -> list[tuple[int, dict[str, Any]]]:
        return self.of_kind("functionCall")

    @property
    def responses(self) -> list[tuple[int, dict[str, Any]]]:
        return self.of_kind("functionResponse")


def needs_signatures(model: str) -> bool:
    """Whether the model checks thought signatures; a name without a number is the newest."""
    found = _GENERATION.search(model.lower())
    return found is None or int(found.group(1)) >= 3


def _wants_responses_alone(model: str) -> bool:
    found = _GENERATION.search(model.lower())
    return found is None or (int(found.group(1)), int(found.group(2) or 0)) >= (3, 7)


def check_turns(body: dict[str, Any], model: str) -> Iterator[Violation]:
    """Hold the conversation against the rules above."""
    contents = _read_contents(body.get("contents"))
    contents = _steps(contents) if needs_signatures(model) else _answers(contents)
    previous: _Content | None = None
    for content in contents:
        yield from _check_place(content, previous, model)
        previous = content
    if previous is not None:
        if previous.calls:
            yield say.RESPONSE_COUNT.fill()
        if all(content.role == "model" for content in contents):
            yield say.LAST_ROLE.fill()
    if needs_signatures(model):
        yield from _check_signatures(contents)


def _read_contents(value: object) -> list[_Content]:
    found: list[_Content] = []
    for index, item in enumerate(as_array(value) or []):
        fields = read(item)
        listed = as_array(fields.get("parts"))
        parts = [read(part) for part in ([fields.get("parts")] if listed is None else listed)]
        found.append(_Content(index, fields.get("role", "user"), parts))
    return found


def _steps(contents: list[_Content]) -> list[_Content]:
    """The contents with neighbours of the model's joined."""
    joined: list[_Content] = []
    for content in contents:
        if joined and content.role == joined[-1].role == "model":
            joined[-1] = msgspec.structs.replace(
                joined[-1], parts=[*joined[-1].parts, *content.parts]
            )
        else:
            joined.append(content)
    return joined


def _answers(contents: list[_Content]) -> list[_Content]:
    """The contents with neighbours that hold nothing but responses joined."""
    joined: list[_Content] = []
    for content in contents:
        last = joined[-1] if joined else None
        if last is not None and _only_answers(last) and _only_answers(content):
            joined[-1] = msgspec.structs.replace(last, parts=[*last.parts, *content.parts])
        else:
            joined.append(content)
    return joined


def _only_answers(content: _Content) -> bool:
    return bool(content.parts) and len(content.responses) == len(content.parts)


def _check_place(content: _Content, previous: _Content | None, model: str) -> Iterator[Violation]:
    calls = previous.calls if previous is not None and previous.role == "model" else []
    if content.responses:
        if not calls:
            yield say.RESPONSE_PLACE.fill()
        else:
            yield from _check_answers(content, calls, model)
        if _wants_responses_alone(model) and len(content.responses) != len(content.parts):
            yield say.RESPONSE_ALONE.fill(index=content.index)
    elif calls:
        yield say.RESPONSE_COUNT.fill()
    if content.calls and (previous is None or previous.role == "model"):
        yield say.CALL_PLACE.fill()


def _check_answers(
    content: _Content, calls: list[tuple[int, dict[str, Any]]], model: str
) -> Iterator[Violation]:
    responses = content.responses
    if len(responses) != len(calls):
        yield say.RESPONSE_COUNT.fill()
    names = Counter(str(call.get("name")) for _, call in calls)
    identifiers = Counter(str(call["id"]) for _, call in calls if "id" in call)
    for position, response in responses:
        path = f"contents[{content.index}].parts[{position}].function_response"
        name = str(response.get("name"))
        names[name] -= 1
        if names[name] < 0:
            yield say.RESPONSE_NAME.fill(path=path, name=name)
        # Older models do not look at ids.
        if needs_signatures(model) and (identifiers or "id" in response):
            identifier = str(response.get("id"))
            identifiers[identifier] -= 1
            if identifiers[identifier] < 0:
                yield say.RESPONSE_IDENTIFIER.fill(path=path, identifier=identifier)


def _check_signatures(contents: list[_Content]) -> Iterator[Violation]:
    start = 0
    for content in contents:
        if content.role != "model" and len(content.responses) < len(content.parts):
            start = content.index
    for content in contents:
        if content.index < start:
            continue
        if content.role != "model" or not content.calls:
            continue
        position, call = content.calls[0]
        if not content.parts[position].get("thoughtSignature"):
            yield say.SIGNATURE_MISSING.fill(name=call.get("name"), position=content.index)
