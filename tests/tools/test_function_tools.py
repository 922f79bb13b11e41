"""Python functions as tools: the schema for the model, and the arguments of the function."""

import dataclasses
import enum
import functools
import pathlib
import uuid
from datetime import date
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest
from dirty_equals import IsPartialDict

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult
from multi_llm_chat.tools import Tool, ToolContext, ToolRegistry, function_tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Size(msgspec.Struct):
    width: float
    height: float | None = None


class Label(TypedDict):
    text: str
    bold: NotRequired[bool]


class Corner(pydantic.BaseModel):
    radius: int


class Shape(pydantic.BaseModel):
    name: str
    corners: list[Corner] = []


def schema_of(function: Any) -> JsonObject:
    return function_tool(function, name="it").schema


def run(function: Any, **arguments: Any) -> ToolResult:
    registry = ToolRegistry()
    registry.tool(name="it")(function)
    return registry.execute_sync(ToolCall("it", arguments, "call"))


def given(annotation: Any, value: Any) -> Any:
    """Return what a function with a parameter of this type receives for this argument."""
    seen: list[Any] = []

    def it(value: Any) -> None:
        seen.append(value)

    it.__annotations__["value"] = annotation
    result = run(it, value=value)
    assert not result.is_error, result.content
    return seen[0]


@pytest.mark.parametrize(
    ("annotation", "argument", "expected"),
    [
        (int, 5, 5),
        (int, 5.0, 5),
        (list[int], [1.0, 2], [1, 2]),
        (float, 5, 5.0),
        (str | None, None, None),
        (Literal["a", "b"], "b", "b"),
        (Colour, "blue", Colour.BLUE),
        (Colour | None, "red", Colour.RED),
        (Point, {"x": 1}, Point(1)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2)]),
        (dict[str, Point], {"a": {"x": 3}}, {"a": Point(3)}),
        (Size, {"width": 1}, Size(1.0)),
        (Label, {"text": "hi", "bold": True}, {"text": "hi", "bold": True}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (bytes, "aGk=", b"hi"),
        (date, "2026-11-15", date(2026, 11, 15)),
        (uuid.UUID, "12345678123456781234567812345678", uuid.UUID(int=0x12345678 << 96 | 0)),
        (pathlib.Path, "/tmp/a", pathlib.Path("/tmp/a")),
        (Shape, {"name": "s", "corners": [{"radius": 2}]}, Shape(name="s", corners=[Corner(radius=2)])),
        (Shape | None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
    ],
)  # fmt: skip
def test_an_argument_arrives_in_the_annotated_type(
    annotation: Any, argument: Any, expected: Any
) -> None:
    if annotation is uuid.UUID:
        expected = uuid.UUID(argument)
    value = given(annotation, argument)
    assert value == expected
    assert type(value) is type(expected)


def test_the_schema_tells_names_types_defaults_and_descriptions() -> None:
    def it(
        city: Annotated[str, "which city"],
        days: int = 3,
        units: Literal["metric", "imperial"] = "metric",
        *,
        place: Point | None = None,
    ) -> str:
        """Tell the weather.

        More about it.

        Args:
            city: this one is not used
            days: how many days
        """
        return f"{city}{days}{units}{place}"

    tool = function_tool(it)
    assert tool.description == "Tell the weather.\n\nMore about it."
    assert tool.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "which city"},
            "days": {"type": "integer", "description": "how many days", "default": 3},
            "units": {"enum": ["imperial", "metric"], "default": "metric"},
            "place": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": None},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "title": "Point",
                "description": "A place.",
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            }
        },
    }


def test_definitions_of_pydantic_models_stand_at_the_root() -> None:
    def it(shape: Shape, other: Corner) -> None: ...

    schema = schema_of(it)
    jsonschema_rs.Draft202012Validator(schema)
    assert schema["$defs"] == {"Shape.Corner": IsPartialDict(type="object", title="Corner")}
    assert not run(
        it, shape={"name": "a", "corners": [{"radius": 1}]}, other={"radius": 1}
    ).is_error
    refused = run(it, shape={"name": "a", "corners": [{"radius": "big"}]}, other={"radius": 1})
    assert "$.shape.corners[0].radius" in refused.content


def test_two_classes_of_one_name_have_definitions_of_their_own() -> None:
    def first() -> type:
        @dataclasses.dataclass
        class Twin:
            a: int

        return Twin

    def second() -> type:
        @dataclasses.dataclass
        class Twin:
            b: str

        return Twin

    def it(one: Any, two: Any) -> None: ...

    it.__annotations__.update(one=first(), two=second())
    assert len(schema_of(it)["$defs"]) == 2
    assert not run(it, one={"a": 1}, two={"b": "x"}).is_error


def test_absent_arguments_are_left_to_the_functions_own_defaults() -> None:
    marker = object()

    def it(known: int = 1, odd: Any = marker) -> bool:
        return odd is marker and known == 1

    assert "default" not in schema_of(it)["properties"]["odd"]
    assert run(it).content is True


def test_positional_only_parameters_and_parameters_without_annotation_work() -> None:
    def it(first, /, second, *, third=3):  # type: ignore[no-untyped-def]
        return [first, second, third]  # pyright: ignore[reportUnknownVariableType]

    assert run(it, first=1, second={"a": 2}).content == [1, {"a": 2}, 3]


def test_a_function_may_ask_for_the_context_which_no_model_sees() -> None:
    def it(word: str, context: ToolContext) -> str:
        return f"{word} {context.call.tool_call_id}"

    assert list(schema_of(it)["properties"]) == ["word"]
    assert run(it, word="id:").content == "id: call"


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int) -> int:
        """Add a number."""
        self.total += number
        return self.total

    def __call__(self, number: int) -> int:
        """Add a number by calling."""
        return self.add(number)


def test_methods_callable_objects_and_partials_are_functions_too() -> None:
    counter = Counter()
    assert run(counter.add, number=2).content == 2
    assert run(counter, number=3).content == 5
    assert run(functools.partial(counter.add, number=1)).content == 6
    assert function_tool(counter.add).description == "Add a number."
    assert function_tool(counter, name="call").description == "Add a number by calling."


def test_the_decorator_leaves_the_function_as_it_is() -> None:
    registry = ToolRegistry()

    @registry.tool
    def plain(number: int) -> int:
        return number + 1

    @registry.tool(name="renamed", description="other words", timeout=1, approval="never")
    async def other(number: int) -> int:
        return number + 2

    assert plain(1) == 2
    assert callable(other)
    assert [tool.name for tool in registry.definitions()] == ["plain", "renamed"]
    assert registry.definitions()[1].description == "other words"
    assert registry.approval("renamed") == "never"


class Unknowable:
    pass


def takes_many(*numbers: int) -> None: ...
def takes_anything(**words: int) -> None: ...
def takes_the_unknown(thing: Unknowable) -> None: ...
def takes_a_dream(thing: Any) -> None: ...


takes_a_dream.__annotations__["thing"] = "Nightmare"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (takes_many, "numbers"),
        (takes_anything, "words"),
        (takes_the_unknown, "'thing'"),
        (takes_a_dream, "Nightmare"),
    ],
)
def test_what_no_schema_can_say_is_refused_when_it_is_registered(function: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        function_tool(function)


def test_a_name_that_no_provider_takes_is_refused() -> None:
    with pytest.raises(UsageError, match="pass name="):
        function_tool(lambda: 1)


def test_a_tool_can_be_made_by_hand() -> None:
    async def shout(arguments: JsonObject, context: ToolContext) -> str:
        return f"{arguments['text'].upper()} {context.request_id}"

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    registry = ToolRegistry()
    registry.add(Tool("shout", shout, "Shouts.", schema))
    result = registry.execute_sync(ToolCall("shout", {"text": "hi"}, "1"), request_id="r")
    assert result == ToolResult("shout", "HI r", "1")


@pytest.mark.parametrize(
    ("annotation", "value"), [(date, "tomorrow"), (bytes, "§§"), (uuid.UUID, "x"), (Shape, {})]
)
def test_what_fits_the_schema_but_not_the_type_is_a_bad_argument(
    annotation: Any, value: Any
) -> None:
    def it(value: Any) -> None:
        raise AssertionError

    it.__annotations__["value"] = annotation
    result = run(it, value=value)
    assert result.is_error
    assert result.synthetic
    assert "$.value" in result.content


def test_descriptions_of_other_libraries_are_understood() -> None:
    def it(
        word: Annotated[str, pydantic.Field(description="of pydantic")],
        number: Annotated[int, msgspec.Meta(description="of msgspec", ge=1)],
        plain: Annotated[int, 5],
    ) -> None: ...

    properties = schema_of(it)["properties"]
    assert properties["word"] == {"type": "string", "description": "of pydantic"}
    assert properties["number"] == {"type": "integer", "minimum": 1, "description": "of msgspec"}
    assert properties["plain"] == {"type": "integer"}
    assert "$.number" in run(it, word="", number=0, plain=1).content


SHAPE, POINT, PATH = Shape(name="s"), Point(1), pathlib.Path("/a")


def test_defaults_of_any_kind_are_described_where_they_are_json() -> None:
    def it(shape: Shape = SHAPE, path: pathlib.Path = PATH, point: Point = POINT) -> None: ...

    properties = schema_of(it)["properties"]
    assert properties["shape"]["default"] == {"name": "s", "corners": []}
    assert properties["path"]["default"] == "/a"
    assert properties["point"]["default"] == {"x": 1, "y": 0}
