"""``mlc history`` and ``mlc export``: the saved conversations."""

from datetime import datetime
from pathlib import Path
from typing import cast

import click

from multi_llm_chat import store as operations
from multi_llm_chat.archive.text_export import Format, write_conversations
from multi_llm_chat.chat.transfer import export_conversations
from multi_llm_chat.cli.messages import (
    one_line,
    print_json,
    print_message,
    printable_json,
    sanitize,
)
from multi_llm_chat.cli.workspace_option import find_conversation, open_workspace, store_option
from multi_llm_chat.errors import UsageError

# Saved conversations.


@click.group()
def history() -> None:
    """List, search, show, rename and delete conversations.

    A conversation is named by its id, the beginning of its id, or its exact title.
    """


@history.command("list")
@click.option("--archived", is_flag=True, help="The archived ones.")
@click.option("--limit", default=30, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@store_option
def list_command(archived: bool, limit: int, as_json: bool, db: str | None) -> None:
    """List conversations, the last changed first."""
    with open_workspace(db) as workspace:
        which = "archived" if archived else "open"
        found = workspace.store.run(
            operations.list_conversations, which=which, limit=limit
        ).conversations
    if as_json:
        rows = [
            {"id": each.id, "title": each.title, "changed_ms": each.changed_ms} for each in found
        ]
        print_json(rows)
        return
    for each in found:
        click.echo(f"{each.id}  {_time(each.changed_ms)}  {one_line(each.title) or '(untitled)'}")


@history.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", default=20, show_default=True, help="How many.")
@store_option
def search_command(words: tuple[str, ...], limit: int, db: str | None) -> None:
    """Search all messages for WORDS; "quoted words" stand together."""
    with open_workspace(db) as workspace:
        hits = workspace.store.run(operations.search, " ".join(words), limit=limit)
    for hit in hits:
        click.echo(f"{hit.conversation}  {one_line(hit.title)}")
        click.echo(f"    {one_line(hit.author)}: {_marked(hit.snippet, hit.marks)}")
    if not hits:
        print_message("Nothing was found.")
        raise click.exceptions.Exit(1)


@history.command("show")
@click.argument("conversation")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True, help="How it is written.")  # fmt: skip
@store_option
def show_command(conversation: str, form: str, db: str | None) -> None:
    """Print a conversation."""
    with open_workspace(db) as workspace:
        found = find_conversation(workspace.store, conversation)
        document = workspace.store.run(operations.read_document, found.id)
    click.echo(_printable(write_conversations([document], form), form), nl=False)  # type: ignore[arg-type]  click has checked it


@history.command("rename")
@click.argument("conversation")
@click.argument("title")
@store_option
def rename_command(conversation: str, title: str, db: str | None) -> None:
    """Give a conversation another title."""
    with open_workspace(db) as workspace:
        found = find_conversation(workspace.store, conversation)
        workspace.store.run(operations.rename, found.id, title)


@history.command("delete")
@click.argument("conversation")
@store_option
def delete_command(conversation: str, db: str | None) -> None:
    """Delete a conversation; "mlc history restore" brings it back."""
    with open_workspace(db) as workspace:
        found = find_conversation(workspace.store, conversation)
        workspace.store.run(operations.delete, found.id)
    print_message(f"Deleted {one_line(found.title)!r}. To undo: mlc history restore {found.id}")


@history.command("restore")
@click.argument("identifier")
@store_option
def restore_command(identifier: str, db: str | None) -> None:
    """Bring back the deleted conversation with this id."""
    with open_workspace(db) as workspace:
        click.echo(workspace.store.run(operations.undelete, identifier).title)


@history.command("archive")
@click.argument("conversation")
@click.option("--undo", is_flag=True, help="Take it out of the archive.")
@store_option
def archive_command(conversation: str, undo: bool, db: str | None) -> None:
    """Put a conversation away; it is still found by searching."""
    with open_workspace(db) as workspace:
        found = find_conversation(workspace.store, conversation)
        workspace.store.run(operations.archive, found.id, archived=not undo)


def _time(moment_ms: int) -> str:
    return f"{datetime.fromtimestamp(moment_ms / 1000).astimezone():%Y-%m-%d %H:%M}"


def _marked(snippet: str, marks: tuple[tuple[int, int], ...]) -> str:
    """The snippet in one line, with the words that were searched for in bold."""
    pieces: list[str] = []
    at = 0
    for start, end in marks:
        pieces += [_flat(snippet[at:start]), click.style(_flat(snippet[start:end]), bold=True)]
        at = end
    return "".join([*pieces, _flat(snippet[at:])]).strip()


def _flat(text: str) -> str:
    return sanitize(text).replace("\n", " ")


# Export.


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
        click.echo(_printable(written, form), nl=False)
        return
    try:
        output.write_text(written, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
    print_message(f"Written to {output}")


def _printable(written: str, form: str) -> str:
    return printable_json(written) if form == "json" else written
