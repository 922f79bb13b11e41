"""``mlc runs``: running and interrupted answers."""

import asyncio
import sys
import time
from importlib import import_module
from typing import Any

import click

from multi_llm_chat.chat.approvals import read_request
from multi_llm_chat.chat.planner import Planner, configured_prices
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.cli.messages import one_line, print_message
from multi_llm_chat.cli.terminal.words import cost_text
from multi_llm_chat.cli.workspace_option import open_workspace, start_tools, store_option
from multi_llm_chat.errors import UsageError
from multi_llm_chat.metering.prices import savings_of
from multi_llm_chat.runs.owner import is_dead
from multi_llm_chat.runs.recovery import drive_run
from multi_llm_chat.store import (
    RunInfo,
    Store,
    Total,
    calls,
    list_runs,
    read_conversation_state,
    reopen_run,
    run_info,
    run_totals,
    stop_run,
)
from multi_llm_chat.tools.approval import ApprovalRequest, Decision

_STOP_MESSAGES = {
    "over": "It had ended before.",
    "stopped": "It is stopped.",
    "asked": "Its owner stops it within moments.",
}


@click.group()
def runs() -> None:
    """List, show, cancel and resume answers.

    A run is one speaker's answer. It is named by its id or the beginning of its id.
    """


@runs.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
@click.option("--limit", default=50, show_default=True, help="How many.")
@store_option
def list_command(everything: bool, limit: int, db: str | None) -> None:
    """List the answers that are being given, the newest last; of all users."""
    with open_workspace(db) as workspace:
        found = workspace.store.run(list_runs, None if everything else "running", limit=limit)
    for info in found:
        click.echo(
            f"{info.id}  {_state(info):<11}  {_ago(info.began_ms):>8}  {one_line(info.speaker)}"
            f"  {one_line(info.user)}/{one_line(info.conversation)}"
        )
    if not found:
        print_message("No answer is being given.")


@runs.command("show")
@click.argument("run")
@store_option
def show_command(run: str, db: str | None) -> None:
    """Show the owner of an answer, its calls and its error; never its text."""
    with open_workspace(db) as workspace:
        info = find_run(workspace.store, run)
        store = workspace.store.as_user(info.user)
        made, state, spent = (
            store.run(calls, info.id),
            store.run(read_conversation_state, info.conversation),
            store.run(run_totals, info.conversation, info.id),
        )
        costs = [_cost_line(workspace, info, model, total) for model, total in spent.items()]
    click.echo(f"run           {info.id}\nstate         {_state(info)}")
    click.echo(f"speaker       {one_line(info.speaker)}")
    click.echo(f"conversation  {one_line(info.user)}/{one_line(info.conversation)}")
    click.echo(f"began         {_ago(info.began_ms)} ago")
    click.echo(f"owner         {info.owner or 'none'}, epoch {info.epoch}")
    if info.status == "running" and info.lease_left_ms is not None:
        click.echo(f"lease         {info.lease_left_ms / 1000:.0f} s left")
    for line in costs:
        click.echo(f"cost          {line}")
    for question in state.questions if state is not None else ():
        tool = one_line(read_request(question).tool)
        click.echo(f"waits         for a decision, on the conversation's page, about {tool}")
    if info.error is not None:
        click.echo(f"error         {info.error.kind}: {one_line(info.error.message)}")
    for call in made:
        attempts = f", {call.attempts} attempts" if call.attempts > 1 else ""
        click.echo(
            f"  {call.number:>3}  {call.kind:<5}  {one_line(call.name)}  {call.state}{attempts}"
        )


@runs.command("cancel")
@click.argument("run")
@store_option
def cancel_command(run: str, db: str | None) -> None:
    """Stop an answer, whichever process drives it; what has arrived is kept."""
    with open_workspace(db) as workspace:
        outcome = workspace.store.run(stop_run, find_run(workspace.store, run).id)
    print_message(_STOP_MESSAGES[outcome])


@runs.command("resume")
@click.argument("run")
@click.option("--engine", metavar="ADDRESS", help="Let workers do it: the database of their queue.")
@store_option
def resume_command(run: str, engine: str | None, db: str | None) -> None:
    """Resume an answer that failed or was interrupted.

    Without --engine this process drives it to its end, and asks at the terminal about its tools.
    """
    with open_workspace(db, _approve if sys.stdin.isatty() else None) as workspace:
        info = find_run(workspace.store, run)
        if not workspace.store.run(reopen_run, info.id):
            raise UsageError(f"This answer is {info.status}: there is nothing to resume.")
        info = workspace.store.run(run_info, info.id)
        if engine is not None:
            workspace.use_queue(engine).enqueue(info.id, info.epoch)
            print_message("It waits for a worker.")
            return
        start_tools(workspace)
        status: Any = asyncio.run(_drive(workspace, info))
    print_message("Another process drives it." if status is None else f"It is {status}.")


def _cost_line(workspace: Workspace, info: RunInfo, model: str, total: Total) -> str:
    """The tokens of an answer, what they cost, and what the provider's cache saved."""
    tokens = total.tokens
    cached = f" ({tokens.cache_read_tokens:,} cached)" if tokens.cache_read_tokens else ""
    paid = " + ".join(map(cost_text, total.costs.values())) or "unknown"
    saved = None
    if tokens.cache_read_tokens and info.speaker in workspace.speakers:
        provider = workspace.speakers[info.speaker].provider
        prices = configured_prices(workspace.settings)
        saved = savings_of(tokens, provider.priced_as, model, prices)
    words = f", {cost_text(saved)} saved by caching" if saved is not None and saved > 0 else ""
    return f"{tokens.input_tokens:,} in{cached}, {tokens.output_tokens:,} out: {paid}{words}"


def _approve(request: ApprovalRequest) -> Decision:
    terminal: Any = import_module("multi_llm_chat.cli.terminal")  # a large package
    with terminal.open_board() as board:
        return terminal.TerminalQuestions(board).approve(request)


async def _drive(workspace: Workspace, info: RunInfo) -> object:
    planner = Planner(workspace.settings, workspace.speakers, workspace.tools)
    try:
        gone = info.owner if is_dead(info.owner or "") else None
        return await drive_run(workspace.host, info.id, RunResolver(planner), dead=gone)
    finally:
        await workspace.speakers.aclose()


def find_run(store: Store, words: str) -> RunInfo:
    """The run with this id or beginning of an id.

    Raises:
        UsageError: No run matches, or several do.
    """
    found = [
        info for info in store.run(list_runs, None, limit=100_000) if info.id.startswith(words)
    ]
    if len(found) != 1:
        several = "no run" if not found else f"{len(found)} runs"
        raise UsageError(f"There is {several} {words!r}; see: mlc runs list --all")
    return found[0]


def _state(info: RunInfo) -> str:
    if info.status != "running":
        return info.status
    return (
        "stopping" if info.stopping else "interrupted" if info.is_free and info.epoch else "running"
    )


def _ago(moment_ms: int) -> str:
    seconds = max(0, int(time.time() - moment_ms / 1000))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
