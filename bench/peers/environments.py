"""A separate environment for each peer, as a user would install it.

Rules:
1. An environment has the newest versions that its own packages allow: neither this library nor its version pins apply there.
2. The environment itself reports the installed versions.
3. A peer that cannot be installed is reported with the installer's error; the others continue.

    python -m bench.peers.environments        # create the missing ones
"""

import json
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers"


class Peer(Struct, frozen=True):
    """The packages that a user would install, and the import statement."""

    name: str
    requirements: tuple[str, ...]
    imports: str
    #: The module in ``contenders`` that uses it.
    contender: str


PEERS = (
    Peer("openai", ("openai",), "import openai", "openai_sdk"),
    Peer("anthropic", ("anthropic",), "import anthropic", "anthropic_sdk"),
    Peer("google-genai", ("google-genai",), "from google import genai", "google_sdk"),
    # Without mcp every request of litellm and aisuite that offers tools ends in an ImportError or a NameError.
    Peer("litellm", ("litellm", "mcp"), "import litellm", "litellm_peer"),
    Peer("langchain", ("langchain", "langchain-openai", "langchain-anthropic", "langchain-google-genai"),
        "import langchain_openai, langchain_anthropic, langchain_google_genai", "langchain_peer"),
    Peer("pydantic-ai", ("pydantic-ai-slim[openai,anthropic,google]",), "import pydantic_ai", "pydantic_ai_peer"),
    Peer("openai-agents", ("openai-agents",), "import agents", "openai_agents_peer"),
    Peer("any-llm", ("any-llm-sdk[openai,anthropic,gemini]",), "import any_llm", "any_llm_peer"),
    Peer("aisuite", ("aisuite[mcp]", "openai", "anthropic", "google-genai"), "import aisuite", "aisuite_peer"),
)  # fmt: skip
#: Measured with this interpreter.
OURS = Peer("ours", (), "import multi_llm_chat", "ours")
LIMIT = Peer("limit", (), "import aiohttp, msgspec", "limit")

_VERSIONS = """
import json
from importlib.metadata import distributions
print(json.dumps({found.name.lower(): found.version for found in distributions()}))
"""


def python_of(peer: Peer) -> Path:
    """Return the interpreter of a peer's environment."""
    if not peer.requirements:
        return Path(sys.executable)
    return FOLDER / peer.name / "bin" / "python"


def make(peer: Peer) -> str | None:
    """Create the environment if it does not exist; return the installer's error if it failed."""
    if not peer.requirements or python_of(peer).exists():
        return None
    FOLDER.mkdir(exist_ok=True)
    installer = str(Path(sys.executable).with_name("uv"))
    # Without --no-config the pins of our pyproject.toml would apply to the peer's packages.
    commands = (
        [installer, "venv", "--quiet", "--no-config", "--python", sys.executable, str(FOLDER / peer.name)],
        [installer, "pip", "install", "--quiet", "--no-config", "--python", str(python_of(peer)), *peer.requirements],
    )  # fmt: skip
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        if done.returncode:
            python_of(peer).unlink(missing_ok=True)
            return done.stderr.strip() or f"exit status {done.returncode}"
    return None


def versions(peer: Peer) -> dict[str, str]:
    """Return the versions of the required packages and of the HTTP and JSON libraries that they use."""
    done = subprocess.run(
        [python_of(peer), "-c", _VERSIONS], check=True, capture_output=True, text=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    wanted = [requirement.partition("[")[0] for requirement in peer.requirements] or [
        "multi-llm-chat",
        "multi_llm_chat",
        "aiohttp",
        "msgspec",
    ]
    below = ("openai", "anthropic", "google-genai", "httpx", "httpx2", "pydantic", "mcp")
    named = [*wanted, *(below if peer.requirements else ())]
    return {name: found[name] for name in dict.fromkeys(named) if name in found}


def main() -> int:
    """Create all environments."""
    failed = 0
    for peer in PEERS:
        error = make(peer)
        failed += error is not None
        print(peer.name, error or versions(peer), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
