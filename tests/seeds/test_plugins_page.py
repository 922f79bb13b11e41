"""The plug-in of ``docs/plugins.md``: built, installed, and used by everything that uses providers."""

import base64
import hashlib
import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import Shell
from tests.web.server_process import run_server
from tests.web.test_streams import changes, new_conversation, read_until_idle

from multi_llm_chat import ChatService, ToolRegistry, create_provider, execute_with_tools_sync
from multi_llm_chat.agent import providers as factories
from multi_llm_chat.chat.speakers import configured_speakers
from multi_llm_chat.config.config_file import parse_settings
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.secrets import MemorySecrets
from multi_llm_chat.history.values import Text
from multi_llm_chat.metering.model_windows import window_of
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing import conform

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TOML = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)

#: A subclass with only the seeds' contract.
SUBCLASS = """
from multi_llm_chat import LLMProvider

class Sub(LLMProvider):
    def call_api(self, history, system_prompt=None, tools=None):
        yield {"type": "text", "content": "Sub: " + str(history[-1]["content"][0]["content"])}
"""

CONFIG = (
    TOML[1]
    + """
[speakers.sub]
provider = "llm_sub:Sub"
[speakers.chain]
provider = ["echo", "llm_sub:Sub"]
"""
)


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the page's two files, as a build backend does for a project of one module."""
    project = tomllib.loads(TOML[0])["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    information = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
    entries = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in project["entry-points"].items()
    )
    files = {
        f"{name}.py": PYTHON[0],
        "llm_sub.py": SUBCLASS,
        f"{information}/METADATA": metadata,
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{information}/entry_points.txt": entries,
    }
    lines = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{information}/RECORD"] = "\n".join([*lines, f"{information}/RECORD,,", ""])
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the plug-in, and return its folder."""
    folder = tmp_path_factory.mktemp("plugin")
    wheel = build_wheel(folder)
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    options = ["--disable-pip-version-check", "--target", str(target), str(wheel)]
    subprocess.run([*pip, *options], check=True, capture_output=True)
    return target


@pytest.fixture(autouse=True)
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    importlib.invalidate_caches()
    registered, rows = dict(factories._FACTORIES), dict(ROWS)  # pyright: ignore[reportPrivateUsage]
    yield
    for table, before in ((factories._FACTORIES, registered), (ROWS, rows)):  # pyright: ignore[reportPrivateUsage]
        whole: Any = table
        whole.clear()
        whole.update(before)


def test_it_has_at_most_forty_lines():
    assert sum(bool(line.strip()) for line in (PYTHON[0] + TOML[0]).splitlines()) <= 40


@pytest.mark.parametrize("name", ["echo", "llm_echo:Echo", "llm_sub:Sub"])
def test_the_kit_passes_it(name: str):
    assert conform(name) == []


def test_the_pages_other_blocks_run():
    space: dict[str, Any] = {}
    for block in PYTHON[1:]:
        exec(compile(block, "docs/plugins.md", "exec"), space)
    assert create_provider("acme", api_key="k").model == "acme-large"
    assert window_of("acme-large").tokens == 128_000


def test_conversations_chains_and_all_ask_it():
    settings = parse_settings(CONFIG)
    speakers = configured_speakers(settings, Keys(environment={}, secrets=MemorySecrets()))
    with ChatService(speakers, settings=settings) as chat:
        list(chat.process_message("@all Hello there"))
        found = {turn.role: turn.parts[0] for turn in chat.turns if turn.role != "user"}
        assert chat.speakers["mine"].provider.model == "echo-2"
    assert found == {
        "mine": Text("Echo: Hello there "),
        "sub": Text("Sub: Hello there"),
        "chain": Text("Echo: Hello there "),
    }


def test_the_loop_runs_its_tools():
    tools = ToolRegistry()

    @tools.tool
    def now() -> str:
        """The time."""
        return "noon"

    result = execute_with_tools_sync(create_provider("echo"), [{"role": "user", "content": "Use a tool"}], tools)  # fmt: skip
    assert (result.stop_reason, result.iterations_used) == ("answered", 2)
    assert result.usage.input_tokens


@pytest.mark.parametrize(("speaker", "answer"), [("mine", "Echo: Hello "), ("sub", "Sub: Hello"), ("chain", "Echo: Hello ")])  # fmt: skip
def test_the_command_line_asks_it(speaker: str, answer: str, site: Path, tmp_path: Path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(CONFIG, encoding="utf-8")
    mlc = Shell(tmp_path, PYTHONPATH=":".join([str(site), *sys.path]))
    with mlc.start("ask", "-m", speaker, "Hello") as process:
        printed, errors = process.communicate()
    assert (process.returncode, printed.decode().rstrip("\n")) == (0, answer.rstrip("\n")), errors


def test_the_page_asks_it(tmp_path: Path):
    with (
        run_server(tmp_path, speakers=(), config=CONFIG) as server,
        server.signed_in_client() as client,
    ):
        identifier, position = new_conversation(client)
        sent = client.post(f"/c/{identifier}/messages", data={"text": "@mine @sub Hello"})
        assert sent.status_code == 200, sent.text
        address = f"/c/{identifier}/events"
        with client.stream("GET", address, params={"after": position}) as stream:
            read_until_idle(changes(stream.iter_lines()))
        html = client.get(f"/c/{identifier}").text
    assert 'data-name="mine"' in html
    shown = re.sub(r"<[^>]+>", "", html)
    assert "Echo: Hello" in shown
    assert "Sub: Hello" in shown
