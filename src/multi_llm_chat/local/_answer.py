"""One answer of the embedded model: a tool call, a sentence about a tool's result, or plain text.

Rules:
1. Once its tools have returned results, a question is answered from these results and no further tool is called
   for it. So every question ends after one round.
2. If the model does not produce valid arguments, the call is not made and the model answers with text. Only if the
   caller requires a tool is the call returned with its error; it is never run.
3. If a prompt does not fit the window, its oldest exchanges are dropped; the newest question stays.
4. Every answer ends with one ``Usage`` over all its steps and one ``Finish``.

The sentence about a tool's result:
5. The model writes the sentence from the question and the facts, after two examples.
6. A sentence that contains none of the facts, or a number that is neither in the facts nor in the
   question, is discarded and the plain facts are returned instead. So the sentence is
   emitted only when it is complete.
7. The text of a failure is returned unchanged; the model is not asked to explain it.

The arguments of a call:
8. The tool's schema is the grammar of the generation, so the model can only write what the schema allows.
9. The prompt names the arguments and nothing else about the tool: a very small model copies
   anything else it sees, especially examples in a description.
10. The arguments are checked against the full schema; if the check fails, the call has an error text.
11. For a tool without arguments, the model is not asked.
12. ``jsonschema-rs`` checks the arguments if it is installed; otherwise types, required keys, enums and
    forbidden keys are checked here, at every depth. If the schema itself is invalid, any arguments pass.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct, field

from multi_llm_chat.errors import BadRequest, ContextTooLong
from multi_llm_chat.events import (
    Finish,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_list, as_object, compact_json
from multi_llm_chat.history.values import JsonObject, ToolCall
from multi_llm_chat.local._engine import GenerationSink, PromptTooLong
from multi_llm_chat.local._generation import EngineClient, GeneratedText
from multi_llm_chat.local._prompt import LocalPrompt, ToolExchange
from multi_llm_chat.local._tool_choice import Example, Offer, Router, make_offers
from multi_llm_chat.local.catalogue import PROVIDER
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.schema.dialect_rules import LLAMACPP
from multi_llm_chat.schema.tool_schema import project_schema

# The arguments of a call.

_MOST_ARGUMENT_TOKENS = 200

#: Examples of copying, from tools that do not exist.
_COPYING = (
    Example("Translate 'good morning' into French", {"text": "good morning", "language": "French"}),
    Example("Order 3 pizzas for tonight", {"dish": "pizza", "count": 3}),
    Example("Show me pages about blue whales", {"topic": "blue whales"}),
    Example("What is six plus 5?", {"formula": "6 + 5"}),
)


def fill(client: EngineClient, offer: Offer, question: str, tool_call_id: str) -> ToolCall:
    """Generate the arguments of a call of the tool; the call's ``error`` says why it cannot be used."""
    tool = offer.tool
    properties = as_object(tool.schema.get("properties")) or {}
    if not properties:
        return ToolCall(tool.name, {}, tool_call_id)
    projected = project_schema(tool.schema, LLAMACPP)
    messages = _messages([*_COPYING, *offer.filled], question, properties)
    text = _ask(client, messages, projected.schema)
    arguments, raw, error = parse_arguments(text)
    arguments = {projected.renamed.get(key, key): value for key, value in arguments.items()}
    error = error or argument_error(arguments, tool.schema)
    if error is not None:
        return ToolCall(tool.name, {}, tool_call_id, raw or text, error)
    return ToolCall(tool.name, arguments, tool_call_id, compact_json(arguments))


def _ask(client: EngineClient, messages: list[JsonObject], schema: JsonObject) -> str:
    settings: JsonObject = {"max_tokens": _MOST_ARGUMENT_TOKENS, "temperature": 0}
    try:
        return client.ask(messages, settings | {"json_schema": schema}).text
    except BadRequest:
        # The runtime cannot turn the schema into a grammar: allow any object, and let the check decide.
        return client.ask(messages, settings | {"json_schema": {"type": "object"}}).text


def _messages(
    examples: Sequence[Example], question: str, properties: JsonObject
) -> list[JsonObject]:
    messages: list[JsonObject] = [
        {"role": "system", "content": "Copy the arguments from the message, as JSON."}
    ]
    for example in examples:
        prompt = _arguments_prompt(example.message, example.arguments)
        messages.append({"role": "user", "content": prompt})
        messages.append({"role": "assistant", "content": json.dumps(example.arguments)})
    return [*messages, {"role": "user", "content": _arguments_prompt(question, properties)}]


def _arguments_prompt(message: str, properties: JsonObject) -> str:
    return f"{message}\n({', '.join(properties)})"


# Checking arguments.

_TYPES: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}


def argument_error(arguments: JsonObject, schema: JsonObject) -> str | None:
    """Check the arguments against the schema; return an error text or None."""
    try:
        checker: Any = import_module("jsonschema_rs")
    except ImportError:
        return basic_argument_error(arguments, schema)
    try:
        checker.validate(schema, arguments)
    except checker.ValidationError as error:
        return f"The arguments do not fit the tool: {error.message}."
    except (ValueError, checker.ReferencingError):
        return None  # the schema is invalid, not the arguments
    return None


def basic_argument_error(arguments: JsonObject, schema: JsonObject) -> str | None:
    """Check the arguments against the most common keywords only; return an error text or None."""
    found = next(_faults(arguments, schema, "arguments"), None)
    return None if found is None else f"The arguments do not fit the tool: {found}."


def _faults(value: Any, schema: JsonObject, where: str) -> Iterator[str]:
    kinds = schema.get("type")
    names: list[Any] = as_list(kinds) or ([kinds] if isinstance(kinds, str) else [])
    if names and not any(_TYPES.get(str(name), _anything)(value) for name in names):
        yield f"{where} must be {' or '.join(map(str, names))}"
        return
    choices = as_list(schema.get("enum"))
    if choices is not None and value not in choices:
        yield f"{where} must be one of {choices}"
    fields, items = as_object(value), as_list(value)
    if fields is not None:
        yield from _field_faults(fields, schema, where)
    element = as_object(schema.get("items"))
    if items is not None and element is not None:
        for at, item in enumerate(items):
            yield from _faults(item, element, f"{where}[{at}]")


def _field_faults(fields: JsonObject, schema: JsonObject, where: str) -> Iterator[str]:
    properties = as_object(schema.get("properties")) or {}
    for name in as_list(schema.get("required")) or ():
        if name not in fields:
            yield f"{where} lack {name!r}"
    for name, value in fields.items():
        inner = as_object(properties.get(name))
        if inner is not None:
            yield from _faults(value, inner, f"{where}.{name}")
        elif name not in properties and schema.get("additionalProperties") is False:
            yield f"{where} may not have {name!r}"


def _anything(_: object) -> bool:
    return True


# The answer.

_AUTO = frozenset({None, "auto"})
#: The characters of a question that are used to choose a tool: the beginning usually decides.
_CHOICE_LENGTH = 600


class AnswerTask(Struct, frozen=True):
    """One question to the model, with its tools and settings."""

    prompt: LocalPrompt
    settings: JsonObject
    tool_call_id: str
    tools: Sequence[ToolDefinition] = ()
    tool_choice: str | None = None
    examples: Mapping[str, Sequence[Example]] = field(default_factory=dict[str, Sequence[Example]])


def answer(task: AnswerTask, router: Router, client: EngineClient, sink: GenerationSink) -> None:
    """Answer the task; the sink receives the events."""
    prompt = task.prompt
    if prompt.tool_exchanges:
        sink.emit(TextDelta(describe_result(client, prompt.question, prompt.tool_exchanges)))
        finish = Finish("stop", "stop")
    elif (call := _call(task, router, client)) is not None:
        _emit_call(call, sink)
        finish = Finish("tool_calls", "tool_calls")
    else:
        asked = _emit_text(task, client, sink)
        finish = Finish(asked.reason, asked.raw_reason)
    sink.emit(client.usage)
    sink.emit(finish)


def _call(task: AnswerTask, router: Router, client: EngineClient) -> ToolCall | None:
    choice = task.tool_choice
    if not task.tools or choice == "none":
        return None
    question = task.prompt.question
    try:
        offer = _offer(task, router, client)
        call = None if offer is None else fill(client, offer, question, task.tool_call_id)
    except PromptTooLong:
        return None  # a question that is too long for the tool prompts is answered with text
    if call is None or (call.error is not None and choice in _AUTO):
        return None
    return call


def _offer(task: AnswerTask, router: Router, client: EngineClient) -> Offer | None:
    question = task.prompt.question[:_CHOICE_LENGTH]
    named = [tool for tool in task.tools if tool.name == task.tool_choice]
    offers = make_offers(named or task.tools, question, task.examples)
    must = bool(named) or task.tool_choice == "required"
    if must and len(offers) == 1:
        return offers[0]
    return router.choose(client, offers, question, must=must)


def _emit_call(call: ToolCall, sink: GenerationSink) -> None:
    sink.emit(ToolCallStart(0, call.tool_call_id, call.name))
    sink.emit(ToolCallDelta(0, call.raw_arguments or compact_json(call.arguments)))
    sink.emit(ToolCallEnd(0, call))


def _emit_text(task: AnswerTask, client: EngineClient, sink: GenerationSink) -> GeneratedText:
    prompt = task.prompt
    room = client.context - int(task.settings["max_tokens"])
    while True:
        try:
            return client.ask(prompt.messages(), task.settings, on_delta=sink.emit)
        except PromptTooLong as error:
            shorter = prompt.shorter(1 - room / error.tokens)
            if shorter is None:
                raise ContextTooLong(
                    f"The newest message and the system prompt have {error.tokens} tokens; the "
                    f"embedded model can read {room}. Shorten them or choose another model.",
                    provider=PROVIDER,
                ) from None
            prompt = shorter


# The sentence about a tool's result.

_MOST_SENTENCE_TOKENS = 120
_MOST_FACTS = 1200

_EXAMPLES = (
    ("What is 3 + 4?", "7", "3 + 4 is 7."),
    (
        "How is the sea at Nice?",
        "waves 2 m, wind strong",
        "At Nice the waves are 2 m and the wind is strong.",
    ),
)

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"\w{3,}")


def describe_result(client: EngineClient, question: str, exchanges: Sequence[ToolExchange]) -> str:
    """A sentence that answers the question from the tools' results."""
    failures = [item for item in exchanges if item.is_error]
    if failures:
        return "\n".join(f"{item.call.name} failed: {item.result}" for item in failures)
    facts = "; ".join(flatten_result(item.result) for item in exchanges)[:_MOST_FACTS]
    messages: list[JsonObject] = [
        {"role": "system", "content": "Answer the question with the facts in one sentence."}
    ]
    for asked, known, answer in _EXAMPLES:
        messages.append({"role": "user", "content": _facts_prompt(asked, known)})
        messages.append({"role": "assistant", "content": answer})
    messages.append({"role": "user", "content": _facts_prompt(question, facts)})
    sentence = client.ask(
        messages, {"max_tokens": _MOST_SENTENCE_TOKENS, "temperature": 0}
    ).text.strip()
    return sentence if is_faithful(sentence, question, facts) else _facts_text(exchanges)


def flatten_result(result: str) -> str:
    """A JSON result as plain text: ``temperature 7, sky rain``; any other result unchanged."""
    try:
        value = json.loads(result)
    except ValueError:
        return result
    return ", ".join(_flat(value))


def _flat(value: Any) -> Iterator[str]:
    fields, items = as_object(value), as_list(value)
    if fields is not None:
        for name, inner in fields.items():
            yield f"{name.replace('_', ' ')} {', '.join(_flat(inner))}"
    elif items is not None:
        for item in items:
            yield ", ".join(_flat(item))
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def is_faithful(sentence: str, question: str, facts: str) -> bool:
    """Whether the sentence contains a fact and invents no number."""
    known = set(_NUMBER.findall(facts))
    said = set(_NUMBER.findall(sentence))
    if said - known - set(_NUMBER.findall(question)):
        return False
    if known:
        return bool(known & said)
    return bool(_words(facts) & _words(sentence))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _facts_text(exchanges: Sequence[ToolExchange]) -> str:
    return "\n".join(f"{item.call.name}: {flatten_result(item.result)}" for item in exchanges)


def _facts_prompt(question: str, facts: str) -> str:
    return f"Question: {question}\nFacts: {facts}"
