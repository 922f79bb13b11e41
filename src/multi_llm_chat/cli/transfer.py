"""``mlc export`` and ``mlc import``."""

import sys
from pathlib import Path
from typing import cast

import click

from multi_llm_chat.archive.text_export import Format
from multi_llm_chat.chat.transfer import export_conversations, import_conversations
from multi_llm_chat.cli.stderr import tell
from multi_llm_chat.cli.workspace_option import find_conversation, open_workspace, store_option
from multi_llm_chat.errors import UsageError


@click.command()
@click.argument("conversations", nargs=-1)
@click.option("--format", "form", type=click.Choice(["json", "markdown", "text"]), default="json", show_default=True, help="JSON has everything and can be imported.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; standard output if not given.")  # fmt: skip
@store_option
def export(conversations: tuple[str, ...], form: str, output: Path | None, db: str | None) -> None:
    """Write CONVERSATIONS (ids or titles; all if none is named)."""
    with open_workspace(db) as workspace:
        store = workspace.store
        wanted = [find_conversation(store, each).id for each in conversations] or None
        written = store.run(export_conversations, wanted, cast("Format", form))
    if output is None:
        click.echo(written, nl=False)
        return
    try:
        output.write_text(written, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
    tell(f"Written to {output}")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@store_option
def import_command(file: Path, db: str | None) -> None:
    """Take in the conversations of FILE: ours, ChatGPT's or Claude's export (also as zip), or a list of messages."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    with open_workspace(db) as workspace:
        report = workspace.store.run(import_conversations, data)
    for problem in report.problems:
        tell(problem)
    for identifier in report.conversations:
        click.echo(identifier)
    count = len(report.conversations)
    tell(f"{count} conversation{'' if count == 1 else 's'} imported.")
    if report.problems and not count:
        raise click.exceptions.Exit(1)
