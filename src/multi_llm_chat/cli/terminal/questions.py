"""Questions of tools and servers to the user at the terminal.

Rules:
1. While one is asked, no answers are drawn (``Board.suspended``); questions are asked one at a time.
2. The user can read the complete call before allowing it: cut text is marked, and a key shows the rest.
3. Ctrl-C, Ctrl-D and Escape mean no. The decision stays on the screen, in one line. Changed arguments are shown in full before they are
   allowed; Ctrl-C and Ctrl-D keep the previous ones.

Rules of forms, which are filled in field by field:
4. A field accepts only values that its schema allows; errors, and the number of choices, are shown during typing.
5. An empty answer omits an optional field. A default is the initial text.
6. Nothing is sent before the user has seen all answers. Ctrl-C cancels, Ctrl-D declines.

Rules of questions that one key answers:
7. Keys that were typed before the question was asked do not answer it.
8. Only the keys that are shown answer; Enter does not, unless it is shown.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema_rs
from msgspec import Struct
from msgspec.structs import replace
from prompt_toolkit.application import Application
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.shortcuts import PromptSession, print_formatted_text
from prompt_toolkit.validation import ValidationError, Validator

from multi_llm_chat.cli.messages import one_line, sanitize, tr
from multi_llm_chat.cli.terminal.boards import Board
from multi_llm_chat.cli.terminal.words import argument_lines
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.approval import (
    Allow,
    ApprovalRequest,
    Decision,
    Deny,
    edit_text,
    read_edit,
    visible_text,
)
from multi_llm_chat.tools.mcp.server_messages import Elicitation, ElicitationAnswer

if sys.platform != "win32":
    import termios
else:  # pragma: no cover
    termios = None

_BACK: Final = ("c-c", "c-d", "escape")
Line = tuple[str, str]


class Teletype(Struct, frozen=True):
    """A keyboard and a screen."""

    input: Input
    output: Output

    def show(self, lines: Sequence[Line]) -> None:
        """Write lines, each with its style."""
        for style, text in lines:
            print_formatted_text(FormattedText([(style, text)]), output=self.output)

    def session(self) -> PromptSession[str]:
        """A prompt for one line."""
        return PromptSession(input=self.input, output=self.output)

    def choose(self, options: Mapping[str, str], back: str) -> str:
        """Wait for one of the keys; ``back`` is returned for Ctrl-C, Ctrl-D and Escape."""
        self.drop_typed_keys()
        bindings = KeyBindings()

        def bind(key: str, answer: str) -> None:
            @bindings.add(key, eager=True)
            def _(event: KeyPressEvent) -> None:
                event.app.exit(result=answer)

        for key in options:
            bind(key, key)
            if len(key) == 1:
                bind(key.upper(), key)
        for key in _BACK:
            bind(key, back)
        shown: list[tuple[str, str]] = []
        for key, label in options.items():
            shown += [("bold", f"[{key}]"), ("", f" {label}  ")]
        window = Window(FormattedTextControl(FormattedText(shown)), wrap_lines=True, height=None)
        application: Application[str] = Application(
            Layout(window),
            key_bindings=bindings,
            erase_when_done=True,
            input=self.input,
            output=self.output,
        )
        # Escape alone is an answer; waiting for the rest of an escape sequence would only delay it.
        application.ttimeoutlen = 0.05
        return application.run(handle_sigint=False)

    def drop_typed_keys(self) -> None:
        """Discard the keys that were not read yet."""
        clear_typeahead(self.input)
        if termios is not None:
            with suppress(OSError, ValueError, termios.error):
                termios.tcflush(self.input.fileno(), termios.TCIFLUSH)


def open_teletype() -> Teletype:
    """Open the terminal, also if some of the standard streams are pipes, but not all."""
    return Teletype(create_input(always_prefer_tty=True), create_output(always_prefer_tty=True))


# Forms.

CANCELLED: Final = ElicitationAnswer("cancel")
_DECLINED: Final = ElicitationAnswer("decline")
_TRUE: Final = frozenset({"y", "yes", "true", "1"})
_FALSE: Final = frozenset({"n", "no", "false", "0"})


class Field(Struct, frozen=True):
    """A field of a form; ``choices`` are values by their titles."""

    name: str
    schema: JsonObject
    required: bool
    choices: dict[str, Any]
    several: bool = False

    @property
    def title(self) -> str:
        """The title of the field."""
        return one_line(as_text(self.schema.get("title")) or self.name)

    @property
    def hint(self) -> str:
        """A hint at the allowed values."""
        hints = [one_line(as_text(self.schema.get("description")))]
        if self.choices:
            choices = ", ".join(self.choices)
            several = tr("any of: {choices}", choices=choices)
            hints.append(several if self.several else tr("one of: {choices}", choices=choices))
        elif self.schema.get("type") == "boolean":
            hints.append(tr("yes or no"))
        hints.append(tr("required") if self.required else tr("may be left empty"))
        return " · ".join(word for word in hints if word)

    @property
    def default(self) -> str:
        """The initial text."""
        value = self.schema.get("default")
        if value is None:
            return ""
        if isinstance(value, bool):
            return tr("yes") if value else tr("no")
        listed = as_list(value)
        return ", ".join(map(self._called, [value] if listed is None else listed))

    def _called(self, value: Any) -> str:
        names = (name for name, choice in self.choices.items() if choice == value)
        return next(names, None) or one_line(str(value))

    def read(self, text: str) -> Any:
        """The value of a text; None if it is empty.

        Raises:
            ValueError: The value does not fit the schema; the text is for the user.
        """
        text = text.strip()
        if not text:
            if self.required:
                raise ValueError(tr("This field is required."))
            return None
        value = self._value(text)
        for error in jsonschema_rs.validator_for(self.schema, validate_formats=True).iter_errors(
            value
        ):
            raise ValueError(one_line(error.message))
        return value

    def _value(self, text: str) -> Any:
        if self.several:
            return [self._choice(part.strip()) for part in text.split(",") if part.strip()]
        if self.choices:
            return self._choice(text)
        read = _READERS.get(as_text(self.schema.get("type")))
        return read(text) if read else text

    def _choice(self, text: str) -> Any:
        for name, value in self.choices.items():
            if text.casefold() in {name.casefold(), str(value).casefold()}:
                return value
        choices = ", ".join(self.choices)
        several = tr("Choose from: {choices}.", choices=choices)
        raise ValueError(
            several if self.several else tr("Choose one of: {choices}.", choices=choices)
        )


def fields_of(schema: JsonObject) -> list[Field]:
    """The fields of a form."""
    required = as_list(schema.get("required")) or []
    fields: list[Field] = []
    for name, value in (as_object(schema.get("properties")) or {}).items():
        described = as_object(value) or {}
        items = as_object(described.get("items"))
        choices = _choices(described if items is None else items)
        fields.append(Field(name, described, name in required, choices, items is not None))
    return fields


def ask_form(teletype: Teletype, question: Elicitation) -> ElicitationAnswer:
    """Ask the user to fill in a form."""
    fields = fields_of(question.schema)
    content: JsonObject = {}
    while True:
        try:
            content = {
                field.name: value
                for field in fields
                if (value := _ask(teletype, field, content.get(field.name))) is not None
            }
        except KeyboardInterrupt:
            return CANCELLED
        except EOFError:
            return _DECLINED
        options = {
            "y": tr("send to {server}", server=one_line(question.server)),
            "e": tr("edit"),
            "n": tr("decline"),
            "c": tr("cancel"),
        }
        key = teletype.choose(options, back="c")
        if key != "e":
            answers = {"y": ElicitationAnswer("accept", content), "n": _DECLINED}
            return answers.get(key, CANCELLED)


class _Typed(Validator):
    def __init__(self, field: Field) -> None:
        self._field = field

    def validate(self, document: Document) -> None:
        """Report what is wrong."""
        try:
            self._field.read(document.text)
        except ValueError as error:
            raise ValidationError(len(document.text), str(error)) from None


def _ask(teletype: Teletype, field: Field, before: Any) -> Any:
    shown = field.default if before is None else field.title and _again(field, before)
    text = teletype.session().prompt(
        f"  {field.title}: ",
        default=shown,
        validator=_Typed(field),
        validate_while_typing=False,
        completer=WordCompleter(list(field.choices), ignore_case=True) if field.choices else None,
        bottom_toolbar=field.hint,
    )
    return field.read(text)


def _again(field: Field, value: Any) -> str:
    return Field(field.name, {"default": value}, False, field.choices, field.several).default


def _choices(schema: JsonObject) -> dict[str, Any]:
    titled = as_list(schema.get("oneOf")) or as_list(schema.get("anyOf")) or []
    options = [option for item in titled if (option := as_object(item)) and "const" in option]
    if options:
        return {one_line(str(item.get("title", item["const"]))): item["const"] for item in options}
    values = as_list(schema.get("enum")) or []
    names = as_list(schema.get("enumNames")) or []
    if len(names) != len(values):
        names = values
    return {one_line(str(name)): value for name, value in zip(names, values, strict=True)}


def _boolean(text: str) -> bool:
    word = text.casefold()
    if word in _TRUE or word == tr("yes").casefold():
        return True
    if word in _FALSE or word == tr("no").casefold():
        return False
    raise ValueError(tr("Answer yes or no."))


def _number(text: str) -> float | int:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(tr("This is not a number."))
    return value


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": _boolean,
    "integer": _number,
    "number": _number,
}


# Questions.

_MOST_LINES: Final = 12


class TerminalQuestions:
    """Asks the user at the terminal. ``approve`` and ``elicit`` are callbacks: plain functions, to be called in a thread."""

    def __init__(self, board: Board, teletype: Teletype | None = None) -> None:
        self._board = board
        self._teletype = teletype

    def approve(self, request: ApprovalRequest) -> Decision:
        """Ask whether a call may run."""
        with self._board.suspended():
            teletype = self._teletype or open_teletype()
            return _approve(teletype, request)

    def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Ask a server's question."""
        with self._board.suspended():
            teletype = self._teletype or open_teletype()
            teletype.drop_typed_keys()
            source = one_line(question.server)
            teletype.show([("", ""), ("bold fg:ansicyan", tr("? {source} asks", source=source))])
            teletype.show([("", f"  {line}") for line in sanitize(question.message).split("\n")])
            ask = _visit if question.mode == "url" else ask_form
            answer = ask(teletype, question)
            teletype.show([("fg:ansibrightblack", f"  {_elicited(answer, source)}"), ("", "")])
            return answer


def _elicited(answer: ElicitationAnswer, source: str) -> str:
    match answer.action:
        case "accept":
            return tr("answered {source}", source=source)
        case "decline":
            return tr("declined to answer {source}", source=source)
        case _:
            return tr("did not answer {source}", source=source)


def _approve(teletype: Teletype, request: ApprovalRequest) -> Decision:
    edited, key = None, "e"
    while key == "e":
        call = request.call if edited is None else replace(request.call, arguments=edited)
        lines = argument_lines(call)
        teletype.show([("", ""), *_question_lines(request), *_indented(lines[:_MOST_LINES])])
        options = {
            "y": tr("once"),
            "a": tr("in this conversation"),
            "n": tr("no"),
            "r": tr("no, because …"),
            "e": tr("edit"),
        }
        if request.conversation is None:
            del options["a"]
        hidden = len(lines) - _MOST_LINES
        if hidden > 0:
            options["v"] = tr("{count} more lines", count=f"{hidden:,}")
        key = teletype.choose(options, back="n")
        if key == "v":
            teletype.show(_indented(lines[_MOST_LINES:]))
            del options["v"]
            key = teletype.choose(options, back="n")
        if key == "e":
            edited = _edit(teletype, request, edited)
    decision = _decided(teletype, key, edited)
    teletype.show([_outcome(decision, one_line(request.tool)), ("", "")])
    return decision


class _Edited(Validator):
    def __init__(self, request: ApprovalRequest) -> None:
        self._request = request

    def validate(self, document: Document) -> None:
        """Report why these arguments are invalid."""
        try:
            read_edit(self._request, document.text)
        except UsageError as error:
            raise ValidationError(len(document.text), one_line(str(error))) from None


def _edit(
    teletype: Teletype, request: ApprovalRequest, before: JsonObject | None
) -> JsonObject | None:
    """Let the user edit the arguments; return None if they equal those of the call."""
    try:
        text = teletype.session().prompt(
            f"  {tr('Arguments')}: ",
            default=edit_text(before or request.call.arguments, indent=None),
            validator=_Edited(request),
            validate_while_typing=False,
            enable_open_in_editor=True,
            tempfile_suffix=".json",
            bottom_toolbar=tr("Enter: look at them, then decide · Ctrl-X Ctrl-E: in $EDITOR"),
        )
    except (KeyboardInterrupt, EOFError):
        return before
    return read_edit(request, text)


def _question_lines(request: ApprovalRequest) -> list[Line]:
    name = one_line(request.tool)
    if request.source:
        name = tr("{tool} of {source}", tool=name, source=one_line(request.source))
    question = tr("? May {name} run?", name=name)
    if request.interrupted:
        question = tr(
            "? {name} was interrupted and may have done its work. Run it again?", name=name
        )
    lines = [("bold fg:ansiyellow", question)]
    if request.description:
        lines.append(
            ("fg:ansibrightblack", f"  {one_line(visible_text(request.description))[:200]}")
        )
    return lines


def _indented(lines: list[str]) -> list[Line]:
    return [("", f"  {line}") for line in lines]


def _decided(teletype: Teletype, key: str, edited: JsonObject | None) -> Decision:
    match key:
        case "y":
            return Allow("once", edited)
        case "a":
            return Allow("conversation", edited)
        case "r":
            try:
                return Deny(teletype.session().prompt(f"  {tr('Why not?')} ").strip())
            except (KeyboardInterrupt, EOFError):
                return Deny()
        case _:
            return Deny()


def _outcome(decision: Decision, name: str) -> Line:
    match decision:
        case Allow("conversation"):
            return "fg:ansigreen", f"  {tr('{name} is allowed in this conversation', name=name)}"
        case Allow():
            return "fg:ansigreen", f"  {tr('{name} is allowed once', name=name)}"
        case Deny(reason):
            denied = tr("{name} is denied", name=name)
            return "fg:ansired", f"  {denied}" + (f": {one_line(reason)}" if reason else "")


def _visit(teletype: Teletype, question: Elicitation) -> ElicitationAnswer:
    """Show an address without opening it; the user decides whether to visit it."""
    url = sanitize(question.url or "").replace("\n", "")
    host = _host(url)
    teletype.show(
        [
            ("", f"  {tr('Open this address in your browser, if you trust it:')}"),
            ("underline", url),
            (
                "",
                f"  {tr('It leads to {host}', host=host) if host else tr('It is no valid address.')}",
            ),
        ]
    )
    key = teletype.choose(
        {"y": tr("done, continue"), "n": tr("decline"), "c": tr("cancel")}, back="c"
    )
    answers = {"y": ElicitationAnswer("accept"), "n": ElicitationAnswer("decline")}
    return answers.get(key, CANCELLED)


def _host(url: str) -> str:
    """The host of the address; a name with look-alike characters is shown encoded."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    if host.isascii():
        return host
    try:
        return f"{host} ({host.encode('idna').decode()})"
    except UnicodeError:
        return tr("{host} (not a valid name)", host=host)
