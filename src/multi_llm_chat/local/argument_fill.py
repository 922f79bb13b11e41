"""Have a small model fill in the arguments of a tool.

Rules:
1. The model can write nothing that the tool's schema does not allow: the schema is its grammar.
2. The prompt names the arguments and nothing else about the tool: a very small model copies
   whatever else it sees, a description's own sample first of all.
3. What comes back is checked against the full schema; arguments that fail come with an error.
4. A tool without arguments is not asked about.
"""

import json
from collections.abc import Sequence

from multi_llm_chat.errors import BadRequest
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_object, compact_json
from multi_llm_chat.history.values import JsonObject, ToolCall
from multi_llm_chat.local.argument_check import fault_in
from multi_llm_chat.local.generation import Asking
from multi_llm_chat.local.tool_examples import Example, Offer
from multi_llm_chat.schema.dialect_rules import LLAMACPP
from multi_llm_chat.schema.tool_schema import project_schema

_LONGEST = 200

#: Examples of copying, from tools nobody has.
_COPYING = (
    Example("Translate 'good morning' into French", {"text": "good morning", "language": "French"}),
    Example("Order 3 pizzas for tonight", {"dish": "pizza", "count": 3}),
    Example("Show me pages about blue whales", {"topic": "blue whales"}),
    Example("What is six plus 5?", {"formula": "6 + 5"}),
)


def fill(asking: Asking, offer: Offer, question: str, tool_call_id: str) -> ToolCall:
    """The call of the tool that answers the question; ``error`` tells that it cannot be used."""
    tool = offer.tool
    properties = as_object(tool.schema.get("properties")) or {}
    if not properties:
        return ToolCall(tool.name, {}, tool_call_id)
    projected = project_schema(tool.schema, LLAMACPP)
    messages = _messages([*_COPYING, *offer.filled], question, properties)
    text = _ask(asking, messages, projected.schema)
    arguments, raw, error = parse_arguments(text)
    arguments = {projected.renamed.get(key, key): value for key, value in arguments.items()}
    error = error or fault_in(arguments, tool.schema)
    if error is not None:
        return ToolCall(tool.name, {}, tool_call_id, raw or text, error)
    return ToolCall(tool.name, arguments, tool_call_id, compact_json(arguments))


def _ask(asking: Asking, messages: list[JsonObject], schema: JsonObject) -> str:
    settings: JsonObject = {"max_tokens": _LONGEST, "temperature": 0}
    try:
        return asking.ask(messages, settings | {"json_schema": schema}).text
    except BadRequest:
        # A schema that the runtime cannot make a grammar of: any object, and the check decides.
        return asking.ask(messages, settings | {"json_schema": {"type": "object"}}).text


def _messages(
    examples: Sequence[Example], question: str, properties: JsonObject
) -> list[JsonObject]:
    messages: list[JsonObject] = [
        {"role": "system", "content": "Copy the arguments from the message, as JSON."}
    ]
    for example in examples:
        asked = _asked(example.message, example.arguments)
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": json.dumps(example.arguments)})
    return [*messages, {"role": "user", "content": _asked(question, properties)}]


def _asked(message: str, properties: JsonObject) -> str:
    return f"{message}\n({', '.join(properties)})"
