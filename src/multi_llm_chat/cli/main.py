"""``multi-llm-chat`` (short: ``mlc``): the commands, each in a module that is loaded when it is used.

Without a command a conversation starts.
"""

from importlib import import_module

import click

#: Where each command lives, and what the list of commands says about it.
_COMMANDS = {
    "chat": ("multi_llm_chat.cli.chat:chat", "Talk to models in one conversation."),
    "local": ("multi_llm_chat.cli.local:local", "Install, choose and list embedded models."),
    "repair": ("multi_llm_chat.cli.repair:repair", "Make messages a legal request for a provider."),
    "simulate": (
        "multi_llm_chat.cli.simulate:simulate",
        "Run a server that acts like the providers.",
    ),
}


def _load(name: str) -> click.Command:
    module, _, attribute = _COMMANDS[name][0].partition(":")
    return getattr(import_module(module), attribute)


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        return _load(cmd_name) if cmd_name in _COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table: nothing is imported to show it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="multi_llm_chat")
@click.pass_context
def main(ctx: click.Context) -> None:
    """One conversation, many models, one set of tools."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(_load("chat"))
