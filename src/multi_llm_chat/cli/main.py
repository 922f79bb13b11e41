"""``multi-llm-chat`` (short: ``mlc``): the commands, each in a module that is imported when the command is used.

Rules:
1. Without arguments a conversation starts; words that are not a command are sent as a question: ``mlc "hello"``.
2. Exit codes: 0 done, 1 failed, 2 used wrongly, 3 some speakers failed, 4 a tool was denied, 130 interrupted.
3. Errors of this package are one sentence on standard error; a closed pipe is no error.
4. The list of commands and the help of every command are translated.
"""

import os
import sys
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from multi_llm_chat.cli.messages import nearest, prepare_streams, terminal_language, tr
from multi_llm_chat.errors import MultiLLMChatError, UsageError

#: The module of each command, and its text in the list of commands.
_COMMANDS: Final = {
    "ask": ("ask:ask", "Ask once and print the answer."),
    "chat": ("chat:chat", "Talk to models in one conversation."),
    "completion": (
        "main:completion",
        "Print a script that completes commands in your shell.",
    ),
    "config": ("config:config", "Show the configuration and where it is."),
    "doctor": ("config:doctor", "Show what is configured, what is missing and what works."),
    "export": ("history:export", "Write conversations as JSON, Markdown or text."),
    "history": ("history:history", "List, search, show, rename and delete conversations."),
    "import": ("imports:import_command", "Take in conversations, also ChatGPT's and Claude's."),
    "keys": ("config:keys", "Set, list and remove the keys of providers."),
    "local": ("local:local", "Install, choose and list embedded models."),
    "mcp": ("mcp:mcp", "List, add, remove and test MCP servers."),
    "migrate": ("servers:migrate", "Make or migrate the databases of a server."),
    "models": ("models:models", "List the models of providers."),
    "repair": ("repair:repair", "Make messages a legal request for a provider."),
    "runs": ("runs:runs", "List, show, cancel and resume answers."),
    "serve": ("servers:serve", "Start the web app."),
    "simulate": ("servers:simulate", "Run a server that acts like the providers."),
    "speakers": ("models:speakers", "List the speakers."),
    "tools": ("mcp:tools", "List the tools that models may use."),
    "worker": ("servers:worker", "Run answers from a queue, on many machines."),
}

_PROGRAM: Final = "mlc"
_OWN_OPTIONS: Final = frozenset({"-h", "--help", "--version"})
_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141


class WrongUse(click.ClickException):
    """The command line is wrong."""

    exit_code = 2


def translated_help(command: click.Command) -> click.Command:
    """The command with its help in the language of the terminal; a text without a translation stays English."""
    if terminal_language() != "en":
        command.help = "\n\n".join(map(tr, help_paragraphs(command)))
        for option in command.params:
            if isinstance(option, click.Option) and option.help:
                option.help = tr(option.help)
        for inner in command.commands.values() if isinstance(command, click.Group) else ():
            translated_help(inner)
    return command


def help_paragraphs(command: click.Command) -> list[str]:
    """The paragraphs of a command's help, each in one line."""
    return [" ".join(each.split()) for each in (command.help or "").strip().split("\n\n")]


def _load(name: str) -> click.Command:
    module, _, attribute = _COMMANDS[name][0].partition(":")
    return getattr(import_module(f"multi_llm_chat.cli.{module}"), attribute)


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is used."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the program."""
        prepare_streams()
        translated_help(self)
        return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        return translated_help(_load(cmd_name)) if cmd_name in _COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table: nothing is imported to show it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, tr(text)) for name, (_, text) in sorted(_COMMANDS.items())])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat words that are not a command as a question."""
        if args and args[0] not in _COMMANDS and args[0] not in _OWN_OPTIONS:
            _refuse_misspelt(args)
            args = ["ask", *args]
        elif not args and sys.stdin is not None and not sys.stdin.isatty():
            args = ["ask"]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors of this package become one sentence."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise WrongUse(str(error)) from None
        except MultiLLMChatError as error:
            raise click.ClickException(str(error)) from None
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        except BrokenPipeError:
            # The reader has closed the pipe. Discard what Python would still write at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_PIPE_CLOSED)


def _refuse_misspelt(args: list[str]) -> None:
    """Raise an error for a single word that is nearly a command, or a slash command: it is more likely a mistake than a question."""
    word = args[0]
    if len(args) > 1 or " " in word or word.startswith("-"):
        return
    is_slash = word.startswith("/") and word[1:].isalpha()
    near = nearest(word.removeprefix("/") if is_slash else word, _COMMANDS)
    if near:
        raise WrongUse(
            f"There is no command {word!r}; did you mean {near!r}? To ask it all the same: mlc ask {word}"
        )
    if is_slash:
        raise WrongUse(
            f"{word} looks like a command of a conversation: did you mean to start one with mlc, and type it there? "
            f"To ask it all the same: mlc ask {word}"
        )


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="multi_llm_chat")
@click.pass_context
def main(ctx: click.Context) -> None:
    """One conversation, many models, one set of tools.

    Without a command a conversation starts; mlc "some words" asks and prints the answer.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(_load("chat"))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for SHELL: eval "$(mlc completion bash)"."""
    made = get_completion_class(shell)
    assert made is not None
    root = ctx.find_root().command
    click.echo(made(root, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())
