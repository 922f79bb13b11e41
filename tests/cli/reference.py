"""``python -m tests.cli.reference`` writes docs/cli.md from the commands' own help; a test checks that it is up to date."""

from pathlib import Path

import click

from multi_llm_chat.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
WIDTH = 100

HEAD = """\
# The command line

`multi-llm-chat`, short `mlc`. Without a command a conversation starts; `mlc "some words"` asks and prints the answer.
Text goes to standard output, everything else to standard error.

| exit code | |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | used wrongly |
| 3 | some speakers failed |
| 4 | a tool was denied |
| 130 | interrupted; what was said is kept |

Commands that use tools wait until every MCP server has started or failed. After two seconds a line on standard error names the
servers that are still starting, and Ctrl-C leaves; in a conversation it gives the message back to the prompt. A server that does
not start within its `startupTimeout` (60 seconds unless `mcp.json` says otherwise) or fails is named there, with the reason, before
the question is asked without its tools. `--no-tools` starts none.

`NO_COLOR`, `FORCE_COLOR` and `TERM=dumb` are honoured. In a conversation `/help` lists the commands.

This page is made from the commands' own help (`make fix`).
"""


def reference() -> str:
    """Return the whole page."""
    sections = [HEAD, _section("mlc", main, None)]
    context = click.Context(main, info_name="mlc")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        sections.append(_section(f"mlc {name}", command, context))
        if isinstance(command, click.Group):
            inner = click.Context(command, info_name=name, parent=context)
            sections += [
                _section(f"mlc {name} {each}", command.commands[each], inner)
                for each in sorted(command.commands)
            ]
    return "\n".join(sections)


def _section(title: str, command: click.Command, parent: click.Context | None) -> str:
    context = click.Context(
        command,
        info_name=title.rpartition(" ")[2],
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
    )
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
