"""A Python function as a tool: its schema, and its arguments back in its own types.

Rules:
1. The schema comes from the annotations; the descriptions from ``Annotated``, else from the docstring.
   A parameter without an annotation takes any JSON.
2. The function gets every argument that the schema allows, converted to the annotated type; absent ones get the function's own defaults. A
   value that cannot be converted is a bad argument.
3. Models of pydantic are recognised by their methods (``schema.python_types``).
4. Parameters without a possible schema (``*arguments``, unknown classes) are refused when the tool is registered.
"""

import inspect
import typing
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Final, cast

import docstring_parser
import msgspec
from msgspec import Struct

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema.cleanup import clean_schema
from multi_llm_chat.schema.python_types import (
    DEFINITION,
    ForeignSchemas,
    decode_foreign,
    decode_value,
    encode_foreign,
)
from multi_llm_chat.tools._tool_names import LEGAL_NAME
from multi_llm_chat.tools.schema_validation import bad_arguments
from multi_llm_chat.tools.threads import in_thread
from multi_llm_chat.tools.tool import Approval, Resume, Tool, ToolContext

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
#: The attributes of ``Annotated`` metadata that hold a description: ours, pydantic's, ``typing.Doc``.
_DESCRIBING: Final = ("description", "documentation")

Function: typing.TypeAlias = Callable[..., Any]


class Bound(Struct, frozen=True):
    """Arguments ready for the call."""

    positional: tuple[Any, ...]
    named: dict[str, Any]


class _Slot(Struct, frozen=True):
    """One parameter, and the decoder of its argument; ``decoder`` is None for the parameter that gets the context."""

    name: str
    positional_only: bool
    decoder: "msgspec.json.Decoder[Any] | None"


class Signature:
    """The schema of a function for the model, and the conversion of its arguments."""

    def __init__(self, function: Function, name: str) -> None:
        self.name = name
        parsed = _docstring(function)
        self.description = parsed.description
        parameters = _parameters(function, name)
        slots: list[_Slot] = []
        offered: list[inspect.Parameter] = []
        for parameter in parameters:
            if ToolContext in (parameter.annotation, typing.get_origin(parameter.annotation)):
                slots.append(_slot(parameter, None))
            else:
                slots.append(_slot(parameter, self._decoder(parameter)))
                offered.append(parameter)
        self._slots = tuple(slots)
        self.schema = clean_schema(self._schema(offered, parsed.parameters))

    def bind(self, arguments: JsonObject, context: ToolContext[Any]) -> Bound:
        """The arguments in the function's own types.

        Raises:
            NotRun: An argument cannot be converted; the text is for the model.
        """
        positional: list[Any] = []
        named: dict[str, Any] = {}
        complaints: list[str] = []
        for slot in self._slots:
            if slot.decoder is None:
                value: Any = context
            elif slot.name not in arguments:
                continue
            else:
                try:
                    value = decode_value(slot.decoder, arguments[slot.name])
                except (msgspec.ValidationError, ValueError, TypeError) as error:
                    complaints.append(f"- $.{slot.name}: {error}")
                    continue
            if slot.positional_only:
                positional.append(value)
            else:
                named[slot.name] = value
        if complaints:
            raise bad_arguments(self.name, complaints)
        return Bound(tuple(positional), named)

    def _decoder(self, parameter: inspect.Parameter) -> "msgspec.json.Decoder[Any]":
        try:
            msgspec.json.schema(parameter.annotation, schema_hook=ForeignSchemas())
            return msgspec.json.Decoder(parameter.annotation, dec_hook=decode_foreign)
        except (TypeError, ValueError) as error:
            raise self._unusable(parameter, error) from error

    def _schema(
        self, parameters: list[inspect.Parameter], descriptions: dict[str, str]
    ) -> JsonObject:
        foreign = ForeignSchemas()
        annotations = [parameter.annotation for parameter in parameters]
        # All in one call, so that classes with the same name get separate definitions.
        schemas, components = msgspec.json.schema_components(
            annotations, schema_hook=foreign, ref_template=DEFINITION
        )
        properties = {
            parameter.name: _described(schema, parameter, descriptions)
            for parameter, schema in zip(parameters, schemas, strict=True)
        }
        definitions = components | foreign.definitions
        required = [
            parameter.name
            for parameter in parameters
            if parameter.default is inspect.Parameter.empty
        ]
        whole: JsonObject = {"type": "object", "properties": properties}
        if required:
            whole["required"] = required
        whole["additionalProperties"] = False
        return whole | ({"$defs": definitions} if definitions else {})

    def _unusable(self, parameter: inspect.Parameter, error: Exception) -> UsageError:
        return UsageError(
            f"the parameter {parameter.name!r} of the tool {self.name!r} cannot be offered to a "
            f"model: {error}"
        )


def _slot(parameter: inspect.Parameter, decoder: "msgspec.json.Decoder[Any] | None") -> _Slot:
    return _Slot(parameter.name, parameter.kind is inspect.Parameter.POSITIONAL_ONLY, decoder)


def _parameters(function: Function, name: str) -> list[inspect.Parameter]:
    """The parameters, with resolved annotations, and with ``Annotated`` strings as descriptions."""
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = typing.get_type_hints(_annotated_part(function), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise UsageError(f"the signature of the tool {name!r} cannot be read: {error}") from error
    for parameter in parameters:
        if parameter.kind in _VARIADIC:
            raise UsageError(
                f"the tool {name!r} takes {parameter}; a model needs named parameters: "
                "list them, or take one dict"
            )
    return [
        parameter.replace(annotation=_with_description(hints.get(parameter.name, Any)))
        for parameter in parameters
    ]


def _annotated_part(function: Function) -> Function:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _with_description(annotation: Any) -> Any:
    """Translate ``Annotated[type, "text"]`` to msgspec's form."""
    if typing.get_origin(annotation) is not Annotated:
        return annotation
    inner, *metadata = typing.get_args(annotation)
    known = [item for item in metadata if isinstance(item, msgspec.Meta)]
    if any(item.description is not None for item in known):
        return annotation
    description = next(filter(None, map(_description_in, metadata)), None)
    if description is None:
        return annotation
    return Annotated[inner, *known, msgspec.Meta(description=description)]


def _description_in(item: object) -> str | None:
    if isinstance(item, str):
        return item
    found = (getattr(item, name, None) for name in _DESCRIBING)
    return next((text for text in found if isinstance(text, str)), None)


def _described(
    schema: JsonObject, parameter: inspect.Parameter, descriptions: dict[str, str]
) -> JsonObject:
    described = dict(schema)
    if "description" not in described and parameter.name in descriptions:
        described["description"] = descriptions[parameter.name]
    if parameter.default is not inspect.Parameter.empty:
        try:
            described["default"] = msgspec.to_builtins(
                parameter.default, str_keys=True, enc_hook=encode_foreign
            )
        except (TypeError, ValueError, RecursionError):
            return described  # a default that is not JSON is left out of the schema
    return described


class _Documentation(Struct, frozen=True):
    description: str
    parameters: dict[str, str]


def _docstring(function: Function) -> _Documentation:
    text = inspect.getdoc(_annotated_part(function)) or ""
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return _Documentation(text.strip(), {})
    described = {item.arg_name: item.description or "" for item in parsed.params}
    whole = [parsed.short_description, parsed.long_description]
    return _Documentation(
        "\n\n".join(part.strip() for part in whole if part),
        {name: words for name, words in described.items() if words},
    )


def function_tool(
    function: Function,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    approval: Approval = "always",
    resume: Resume = "ask",
    max_output: int | None = None,
) -> Tool:
    """Make a tool of a Python function.

    Raises:
        UsageError: Its name is not legal, or its signature cannot be offered.
    """
    called = name or getattr(function, "__name__", "") or type(function).__name__
    if not LEGAL_NAME.fullmatch(called):
        raise UsageError(
            f"{called!r} is no legal tool name: letters, digits, _ and -, at most 64; pass name=…"
        )
    signature = Signature(function, called)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - not whether, but how it is called
    )

    async def run(arguments: JsonObject, context: ToolContext[Any]) -> object:
        bound = signature.bind(arguments, context)
        if is_async:
            return cast("object", await function(*bound.positional, **bound.named))
        value: object = await in_thread(
            lambda: function(*bound.positional, **bound.named), f"tool {called}"
        )
        return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value

    return Tool(
        called,
        run,
        signature.description if description is None else description,
        signature.schema,
        "",
        timeout,
        approval,
        resume,
        max_output,
        stoppable=is_async,
    )
