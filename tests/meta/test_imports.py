"""Heavy libraries are loaded by those who use them, and by nobody else."""

import subprocess
import sys

import pytest

HEAVY = ("aiohttp", "httpx", "mcp", "starlette", "sqlite3", "psycopg", "openai", "anthropic", "google.genai")  # fmt: skip
LINES = {
    "the package": "import multi_llm_chat",
    "render": "from multi_llm_chat import render; render([{'role': 'user', 'content': 'hi'}], 'openai')",
    "a provider": "from multi_llm_chat.agent.providers import create_provider; create_provider('claude')",
}  # fmt: skip


def loaded_after(line: str, names: tuple[str, ...]) -> list[str]:
    program = f"{line}\nimport sys\nprint(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.split()


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_no_heavy_library_is_loaded(line: str) -> None:
    assert loaded_after(line, HEAVY) == []


def test_importing_and_rendering_load_neither_asyncio_nor_a_network_library() -> None:
    light = ("asyncio", "ssl", "http.client", "socket", "logging")
    assert loaded_after(LINES["the package"], light) == []
    assert loaded_after(LINES["render"], light) == []


def test_asking_without_async_loads_no_heavy_library() -> None:
    line = (
        "from multi_llm_chat.agent.providers import create_provider\n"
        "from multi_llm_chat.protocol.retry import ONCE\n"
        "provider = create_provider('ollama', base_url='http://127.0.0.1:1', retry=ONCE)\n"
        "try: provider.complete([{'role': 'user', 'content': 'x'}])\n"
        "except Exception as error: assert type(error).__name__ == 'ConnectionFailed', error"
    )
    assert loaded_after(line, HEAVY) == []
