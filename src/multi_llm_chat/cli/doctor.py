"""``mlc doctor``: what is configured, what is missing, what works."""

import asyncio
import json

import click

from multi_llm_chat.chat.doctor import diagnose
from multi_llm_chat.cli.terminal.safety import one_line
from multi_llm_chat.event_codec import write_value

_SIGNS = {"ok": ("✓", "green"), "missing": ("·", "bright_black"), "wrong": ("✗", "red")}


@click.command()
@click.option("--online", is_flag=True, help="Try the keys: asks each provider for its models.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def doctor(online: bool, as_json: bool) -> None:
    """Tell what is configured, what is missing and what works; exits with 1 if something is wrong."""
    found = asyncio.run(diagnose(ask_providers=online))
    if as_json:
        click.echo(json.dumps(write_value(found.findings), ensure_ascii=False, indent=2))
    area = ""
    for finding in () if as_json else found.findings:
        if finding.area != area:
            area = finding.area
            click.secho(area, bold=True)
        sign, colour = _SIGNS[finding.state]
        click.secho(f"  {sign} ", fg=colour, nl=False)
        click.echo(one_line(f"{finding.name}  {finding.detail}"))
        if finding.advice:
            click.secho(f"      {one_line(finding.advice)}", fg="bright_black")
    if not found.is_well:
        raise click.exceptions.Exit(1)
