"""``mlc import``: conversations of other programs, and the settings of the first system.

Rules:
1. A folder is read recursively, its ``.json`` and ``.zip`` files. Without a path, the first system's own folder is read:
   ``CHAT_HISTORY_DIR``, or that system's default.
2. All files are imported in one transaction; a file that holds no conversations is reported.
3. A ``.env`` in an imported folder or the one above it is read, and its settings are offered: keys for our store of keys, models for
   ``config.toml``. They are imported only if the user agrees (``--take-env``, or an answer at the terminal). Keys are not shown.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from multi_llm_chat.chat.transfer import import_conversations
from multi_llm_chat.cli.attachments import read_files_at
from multi_llm_chat.cli.messages import one_line, print_message
from multi_llm_chat.cli.workspace_option import open_workspace, store_option
from multi_llm_chat.config.config_file import parse_settings
from multi_llm_chat.config.folders import program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.errors import UsageError
from multi_llm_chat.protocol.providers import ROWS

#: The first system's models: the speaker and the provider of each variable.
_MODELS: Final = {"CHATGPT_MODEL": ("chatgpt", "openai"), "GEMINI_MODEL": ("gemini", "gemini")}


@click.command("import")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--take-env/--ignore-env", default=None, help="Take over keys and models of a .env file that is found; asked for at a terminal.")  # fmt: skip
@store_option
def import_command(paths: tuple[Path, ...], take_env: bool | None, db: str | None) -> None:
    """Take in the conversations of PATHS: ours, ChatGPT's or Claude's export (also as zip), lists of messages.

    Folders are read with everything below. Without PATHS, the first system's conversations are imported.
    """
    for path in paths:
        if str(path) != "-" and not path.exists():
            raise UsageError(f"There is no file or folder {path}")
    chosen = paths or (_first_systems_folder(),)
    files = [file for path in chosen for file in read_files_at(path)]
    if not files:
        raise UsageError(f"There are no .json or .zip files below {chosen[0]}")
    with open_workspace(db) as workspace:
        report = workspace.store.run(import_conversations, files)
    for problem in report.problems:
        print_message(one_line(problem))
    for identifier in report.conversations:
        click.echo(identifier)
    count = len(report.conversations)
    print_message(f"{count} conversation{'' if count == 1 else 's'} imported.")
    for file in _env_files(chosen):
        _offer(file, take_env)
    if report.problems and not count:
        raise click.exceptions.Exit(1)


def _first_systems_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    places = [
        Path(os.environ["CHAT_HISTORY_DIR"]) if os.environ.get("CHAT_HISTORY_DIR") else None,
        Path(data) / "multi_llm_chat" / "chat_histories" if data else None,
        Path.home() / ".multi_llm_chat" / "chat_histories",
    ]
    found = next((place for place in places if place is not None and place.is_dir()), None)
    if found is None:
        raise UsageError("Name a file or a folder: there is no CHAT_HISTORY_DIR with conversations")
    return found


# The settings of the first system.


def _env_files(paths: Iterable[Path]) -> list[Path]:
    folders = [path.absolute() for path in paths if path.is_dir()]
    candidates = [place / ".env" for folder in folders for place in (folder, folder.parent)]
    return [file for file in dict.fromkeys(candidates) if file.is_file()]


def _offer(file: Path, take: bool | None) -> None:
    found = _settings(file)
    keys = {name: value for name, value in found.items() if name not in _MODELS}
    new_keys = [name for name in keys if Keys().find(name) is None]
    models = {name: found[name] for name in _MODELS if name in found}
    if not new_keys and not models:
        return
    names = ", ".join([*new_keys, *(f"{name}={one_line(value)}" for name, value in models.items())])
    if take is None and sys.stdin.isatty():
        take = click.confirm(f"{file} sets {names}. Take over?", default=False, err=True)
    if not take:
        print_message(f"{file} sets {names}; mlc import --take-env takes it over.")
        return
    for name in new_keys:
        Keys().set(name, keys[name])
        print_message(f"{name} is saved.")
    _take_models(models)


def _settings(file: Path) -> dict[str, str]:
    """The keys and models that a file sets, without placeholders of example files."""
    from dotenv import dotenv_values  # noqa: PLC0415  few have such a file

    known = {name for row in ROWS.values() for name in row.key_variables} | set(_MODELS)
    try:
        values = dotenv_values(file, interpolate=False)
    except (OSError, UnicodeError):
        return {}
    stripped = {name: (value or "").strip() for name, value in values.items() if name in known}
    return {name: value for name, value in stripped.items() if value and "your_" not in value}


def _take_models(models: Mapping[str, str]) -> None:
    """Add speakers with these models to the configuration, unless it has speakers of these names."""
    path = program_folders().config_file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    settings = parse_settings(text, str(path))
    added = ""
    for variable, model in models.items():
        speaker, provider = _MODELS[variable]
        if speaker in settings.speakers or not model.isprintable() or '"' in model or "\\" in model:
            print_message(
                f"{variable} is not taken over: @{speaker} is configured, or the name is no model's"
            )
            continue
        added += f'\n[speakers.{speaker}]\nprovider = "{provider}"\nmodel = "{model}"\n'
    if added:
        changed = f"{text.rstrip()}\n{added}".lstrip()
        parse_settings(changed, str(path))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(changed, encoding="utf-8")
        print_message(f"The models are set in {path}.")
