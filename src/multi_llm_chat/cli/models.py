"""``mlc models`` and ``mlc speakers``: lists of models and speakers."""

import asyncio

import click

from multi_llm_chat.agent.model_list import ModelInfo
from multi_llm_chat.chat.council import COUNCIL_PREFIX
from multi_llm_chat.chat.speakers import Speaker
from multi_llm_chat.cli.messages import one_line, print_json, print_message
from multi_llm_chat.cli.workspace_option import open_workspace
from multi_llm_chat.errors import MultiLLMChatError


@click.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def models(names: tuple[str, ...], as_json: bool) -> None:
    """List the models that speakers could use; of all speakers if none of NAMES is given."""
    with open_workspace() as workspace:
        wanted = [workspace.speakers.named(name) for name in names or workspace.speakers]
        found = asyncio.run(_list(wanted))
    if as_json:
        print_json({name: [each.id for each in listed] for name, listed in found.items() if not isinstance(listed, str)})  # fmt: skip
        return
    for name, listed in found.items():
        if isinstance(listed, str):
            print_message(f"{name}: {listed}")
            continue
        for model in listed:
            click.echo(f"{name:12} {model.id}")
    if all(isinstance(listed, str) for listed in found.values()):
        raise click.exceptions.Exit(1)


@click.command()
def speakers() -> None:
    """List who can be talked to, and the groups."""
    with open_workspace() as workspace:
        for name in workspace.speakers:
            try:
                provider = workspace.speakers[name].provider
            except MultiLLMChatError as error:
                print_message(f"{name}: {error}")
                continue
            default = " (default)" if workspace.settings.default_speaker == name else ""
            click.echo(f"@{name:15} {provider.name:12} {provider.model or ''}{default}")
        for name, persona in workspace.settings.personas.items():
            prompt = one_line(persona.system_prompt or "")
            click.echo(f"@{name:15} as @{persona.speaker}  {prompt[:60]}".rstrip())
        for name, panel in workspace.settings.councils.items():
            click.echo(f"@{COUNCIL_PREFIX + name:15} = {', '.join(panel.members)}")
        for group, members in workspace.settings.groups.items():
            click.echo(f"@{group:15} = {', '.join(members)}")


async def _list(wanted: list[Speaker]) -> dict[str, list[ModelInfo] | str]:
    async def one(speaker: Speaker) -> list[ModelInfo] | str:
        try:
            async with speaker.provider:
                return await speaker.provider.alist_models()
        except MultiLLMChatError as error:
            return str(error)

    listed = await asyncio.gather(*map(one, wanted))
    return {speaker.name: found for speaker, found in zip(wanted, listed, strict=True)}
