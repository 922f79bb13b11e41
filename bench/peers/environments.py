"""Each peer in an environment of its own, as a user would get it.

Rules:
1. An environment holds the newest versions that its own packages allow: nothing of ours is installed there, no pin of ours applies.
2. The versions that were really installed are asked of the environment itself.
3. A peer that cannot be installed is told as such, with the installer's words; the others go on.

    python -m bench.peers.environments        # make those that are missing
"""

import json
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers"


class Peer(Struct, frozen=True):
    """What a user would install, and what a user would import."""

    name: str
    requirements: tuple[str, ...]
    imports: str
    #: The module in ``contenders`` that knows how to use it.
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
#: Measured with our own interpreter.
OURS = Peer("ours", (), "import multi_llm_chat", "ours")
LIMIT = Peer("limit", (), "import aiohttp, msgspec", "limit")

_VERSIONS = """
import json
from importlib.metadata import distributions
print(json.dumps({found.name.lower(): found.version for found in distributions()}))
"""


def python_of(peer: Peer) -> Path:
    """The interpreter of a peer's environment."""
    if not peer.requirements:
        return Path(sys.executable)
    return FOLDER / peer.name / "bin" / "python"


def make(peer: Peer) -> str | None:
    """Make the environment if there is none; what the installer said if it failed."""
    if not peer.requirements or python_of(peer).exists():
        return None
    FOLDER.mkdir(exist_ok=True)
    installer = str(Path(sys.executable).with_name("uv"))
    # Without --no-config the pins of our own pyproject.toml would hold back what the peer needs.
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
    """The versions of what was asked for and of the HTTP and JSON libraries below it."""
    told = subprocess.run(
        [python_of(peer), "-c", _VERSIONS], check=True, capture_output=True, text=True
    )
    found: dict[str, str] = json.loads(told.stdout)
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
    """Make all environments."""
    failed = 0
    for peer in PEERS:
        error = make(peer)
        failed += error is not None
        print(peer.name, error or versions(peer), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
