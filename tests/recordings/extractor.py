"""Read recorded exchanges from git snapshots of public repositories.

The environment variable ``RECORDINGS`` names a folder of bare or ordinary repositories, or a file with their
exchanges, written by ``RECORDINGS=folder python -m tests.recordings.extractor FILE``. They are never committed.

Rules:
1. ``recorders`` reads the file formats.
2. An exchange counts if its request is JSON with a history in one of the four dialects, or if its address is
   a provider's; everything else in a cassette is skipped.
3. A file that cannot be read or parsed is skipped.
"""

import base64
import gzip
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from multi_llm_chat.history.json_values import as_list, as_object, as_text
from tests.recordings.recorders import ENDINGS, PLACES, read_pairs

VARIABLE = "RECORDINGS"

#: Providers by the host of the recorded address; the first match counts.
_HOSTS = (
    ("api.openai.com", "openai"),
    ("openai.azure.com", "azure"),
    ("cognitiveservices.azure.com", "azure"),
    ("api.anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "gemini"),
    ("aiplatform.googleapis.com", "vertex"),
    ("api.groq.com", "groq"),
    ("api.cerebras.ai", "cerebras"),
    ("api.fireworks.ai", "fireworks"),
    ("api.mistral.ai", "mistral"),
    ("api.deepseek.com", "deepseek"),
    ("api.x.ai", "xai"),
    ("openrouter.ai", "openrouter"),
    ("api.together", "together"),
    ("router.huggingface.co", "huggingface"),
    ("api.moonshot", "kimi"),
    ("dashscope", "dashscope"),
    ("api.z.ai", "zai"),
    ("ollama.com", "ollama"),
    (":11434", "ollama"),
    ("localhost:8080", "llamacpp"),
    ("localhost:8000", "vllm"),
    ("bedrock-mantle", "mantle"),
    ("bedrock-runtime", "bedrock"),
)


class Recorded(Struct, frozen=True):
    """One exchange: the request's JSON, and the reply's status and bytes."""

    source: str
    provider: str
    dialect: str
    url: str
    request: dict[str, Any]
    status: int
    reply: bytes
    is_stream: bool
    headers: dict[str, str]

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300


def repositories() -> list[Path]:
    """Return the repositories below the folder that the environment names; none if it names none."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return []
    heads = [*Path(folder).glob("*/HEAD"), *Path(folder).glob("*/*/HEAD")]
    return sorted({head.parent for head in heads if head.parent.name != "logs"})


def all_exchanges() -> list[Recorded]:
    """Return the exchanges of all repositories, or those of the file that the environment names."""
    place = Path(os.environ.get(VARIABLE) or ".")
    if place.is_file():
        return msgspec.msgpack.decode(place.read_bytes(), type=list[Recorded])
    return [each for repository in repositories() for each in exchanges(repository)]


def exchanges(repository: Path) -> Iterator[Recorded]:
    """Return all exchanges of a repository's newest commit."""
    for path in _files(repository):
        try:
            data = _git(repository, "show", f"HEAD:{path}")
        except subprocess.CalledProcessError:
            continue  # a snapshot lists its largest files without containing them
        if path.endswith(".gz"):
            data = gzip.decompress(data)
        for number, (request, response) in enumerate(
            read_pairs(path, data, partial(_side_file, repository))
        ):
            recorded = _recorded(f"{repository.parent.name}:{path}#{number}", request, response)
            if recorded is not None:
                yield recorded


def _side_file(repository: Path, path: str) -> bytes:
    """Return another file of the repository; empty if it does not exist."""
    try:
        return _git(repository, "show", f"HEAD:{path}")
    except subprocess.CalledProcessError:
        return b""


def _files(repository: Path) -> list[str]:
    names = _git(repository, "ls-tree", "-r", "--name-only", "-z", "HEAD").decode().split("\0")
    return [
        name
        for name in names
        if name.endswith(ENDINGS) and any(place in name.lower() for place in PLACES)
    ]


def _git(repository: Path, *words: str) -> bytes:
    command = ["git", "-C", str(repository), *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


def _recorded(source: str, request: dict[str, Any], response: dict[str, Any]) -> Recorded | None:
    url = as_text(request.get("uri")) or as_text(request.get("url"))
    body = _json(_body(request))
    sent = as_object(body)
    if sent is None or not url.startswith("http"):
        return None
    dialect = _dialect(urlsplit(url).path, sent)
    if dialect is None:
        return None
    reply = _body(response)
    return Recorded(
        source,
        _provider(url, dialect),
        dialect,
        url,
        sent,
        _status(response),
        reply,
        reply.lstrip()[:6] in (b"event:", b"data: ") or reply.lstrip()[:5] == b"data:",
        _headers(request.get("headers")),
    )


def _dialect(path: str, body: Mapping[str, Any]) -> str | None:
    if path.endswith("/chat/completions") and isinstance(body.get("messages"), list):
        return "openai_chat"
    if path.endswith("/responses") and "input" in body:
        return "openai_responses"
    if (path.endswith("/messages") or "rawPredict" in path) and isinstance(
        body.get("messages"), list
    ):
        return "anthropic"
    if "enerateContent" in path and isinstance(body.get("contents"), list):
        return "gemini"
    return None


def _provider(url: str, dialect: str) -> str:
    host = urlsplit(url).netloc.lower()
    found = next((name for part, name in _HOSTS if part in host), "other")
    return "openai-chat" if found == "openai" and dialect == "openai_chat" else found


def _status(response: Mapping[str, Any]) -> int:
    status = response.get("status")
    code = cast("dict[str, Any]", status).get("code") if isinstance(status, dict) else status
    named = (response[name] for name in ("code", "status_code") if response.get(name) is not None)
    code = next(named, code)
    return int(code) if isinstance(code, (int, str)) and str(code).isdigit() else 0


def _headers(value: object) -> dict[str, str]:
    headers = as_object(value)
    if headers is not None:
        return {name.lower(): _first(each) for name, each in headers.items()}
    listed = [as_object(each) or {} for each in as_list(value) or []]
    return {as_text(each.get("name")).lower(): as_text(each.get("value")) for each in listed}


def _first(value: object) -> str:
    listed = as_list(value)
    return as_text(listed[0]) if listed else as_text(value)


def _body(message: Mapping[str, Any]) -> bytes:
    """Return the body of a request or response, from any recorder's format."""
    if message.get("parsed_body") is not None:
        return json.dumps(message["parsed_body"]).encode()
    chunks = as_list(message.get("chunks"))
    if chunks is not None:
        return b"".join(map(_bytes, chunks))
    for key in ("body", "content", "postData"):
        value = message.get(key)
        if value is not None:
            return _bytes(value)
    return b""


#: A recorder's keys around a body; an object without them is the body itself.
_WRAPPERS = frozenset({"string", "text", "data", "encoding", "mimeType", "size"})


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return _unzipped(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    form = as_object(value) or {}
    if isinstance(form.get("base64_string"), str):
        return _unzipped(base64.b64decode(form["base64_string"]))
    if not form.keys() & _WRAPPERS:
        return json.dumps(form).encode()
    text = next((form[key] for key in ("string", "text", "data") if form.get(key) is not None), b"")
    data = _bytes(text) if isinstance(text, (bytes, str)) else json.dumps(text).encode()
    if as_text(form.get("encoding")) == "base64":
        return _unzipped(_decoded(data))
    return data


def _decoded(data: bytes) -> bytes:
    """Decode base64; Polly's recorder writes a list of pieces."""
    pieces = as_list(_json(data)) if data[:1] == b"[" else None
    return b"".join(map(base64.b64decode, map(as_text, pieces or []))) or base64.b64decode(data)


def _unzipped(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        return b""


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(msgspec.msgpack.encode(all_exchanges()))
