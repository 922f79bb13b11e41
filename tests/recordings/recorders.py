"""Readers of recording formats: they return pairs of a request and a response.

Rules:
1. Supported are the cassettes of vcrpy (``interactions`` or ``requests``/``responses``), of Ruby VCR (``http_interactions``), of
   go-vcr and of opencode's recorder (``interactions``), of Mastra's (``recordings``, a stream in ``chunks``), of Braintrust's
   (``entries``), of Datadog's test agent (one ``request`` and ``response``), of httpmock (``when``/``then``, several documents
   in a file), of Azure's test proxy (``Entries``), of nock (a list with ``scope`` and ``path``), of WireMock
   (``bodyPatterns``, the reply in a file of its own), traces of httprr, Datadog's ``.rec`` and HAR files,
   also gzipped.
2. If a recorder writes no host, the folder's name or the path identifies the provider.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml

from multi_llm_chat.history.json_values import as_list, as_object, as_text

Pair = tuple[dict[str, Any], dict[str, Any]]
ReadFile = Callable[[str], bytes]

ENDINGS = (
    ".yaml", ".yml", ".yaml.gz", ".yml.gz", ".har", ".json", ".httprr", ".httprr.gz", ".rec",
)  # fmt: skip
PLACES = (
    "cassette", "vcr", "recording", ".har", "/e2e/", "testdata/", "sessionrecords", "http-records", "mock-responses",
    "/mappings/", "fixtures/",
)  # fmt: skip

#: The hosts of requests without a host, by folder.
_FOLDERS = {
    "openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com", "azure": "https://x.openai.azure.com",
    "gemini": "https://generativelanguage.googleapis.com", "groq": "https://api.groq.com", "mistral": "https://api.mistral.ai",
    "deepseek": "https://api.deepseek.com", "xai": "https://api.x.ai", "openrouter": "https://openrouter.ai",
    "together": "https://api.together.xyz", "huggingface": "https://router.huggingface.co", "zai": "https://api.z.ai",
    "moonshot": "https://api.moonshot.ai", "ollama": "http://localhost:11434", "llamacpp": "http://localhost:8080",
    "vllm": "http://localhost:8000", "doubleword": "https://api.doubleword.ai",
}  # fmt: skip


#: The hosts of requests without a host, by path.
_PATHS = {
    "/messages": "https://api.anthropic.com", "enerateContent": "https://generativelanguage.googleapis.com",
    "/chat/completions": "https://api.openai.com", "/responses": "https://api.openai.com",
}  # fmt: skip


def read_pairs(path: str, data: bytes, read_file: ReadFile) -> Iterator[Pair]:
    """Return the exchanges of a file; none if it has none or cannot be parsed. ``read_file`` reads another file of the repository."""
    try:
        documents = list(_parse(path, data))
    except (yaml.YAMLError, ValueError):
        return
    for document in documents:
        yield from _pairs(path, document, read_file)


def _pairs(path: str, document: object, read_file: ReadFile) -> Iterator[Pair]:
    listed = as_list(document)
    if listed is not None:
        yield from filter(None, (_nock(as_object(each) or {}) for each in listed))
        return
    form = as_object(document) or {}
    when, then = as_object(form.get("when")), as_object(form.get("then"))
    request = as_object(form.get("request")) or {}
    if when is not None and then is not None:
        yield from _addressed(path, when, then, as_text(when.get("path")))
    elif "bodyPatterns" in request:
        yield from _wiremock(path, request, as_object(form.get("response")) or {}, read_file)
    elif "Entries" in form:
        yield from map(_proxied, _objects(form["Entries"]))
    else:
        for entry in _entries(form):
            asked, answered = as_object(entry.get("request")), as_object(entry.get("response"))
            if asked is not None and answered is not None:
                yield _unwrapped(path, asked, read_file), _unwrapped(path, answered, read_file)


def _unwrapped(path: str, message: dict[str, Any], read_file: ReadFile) -> dict[str, Any]:
    """Return the message with its body as text if Braintrust's recorder states the body's kind."""
    body = as_object(message.get("body")) or {}
    match body.get("kind"):
        case "json":
            return message | {"body": json.dumps(body.get("value"))}
        case "text":
            return message | {"body": as_text(body.get("value"))}
        case "sse":
            events = [as_text(each).rstrip() for each in as_list(body.get("chunks")) or []]
            return message | {"body": "".join(f"{event}\n\n" for event in events)}
        case "base64":
            return message | {"body": base64.b64decode(as_text(body.get("value")))}
        case "binary":
            return message | {"body": read_file(f"{path.rpartition('/')[0]}/{body.get('path')}")}
        case _:
            return message


def _objects(value: object) -> list[dict[str, Any]]:
    return [as_object(each) or {} for each in as_list(value) or []]


def _entries(document: dict[str, Any]) -> Iterable[dict[str, Any]]:
    log = as_object(document.get("log"))
    if log is not None:
        return _objects(log.get("entries"))
    if "requests" in document:
        pairs = zip(
            as_list(document["requests"]) or [],
            as_list(document.get("responses")) or [],
            strict=False,
        )
        return [{"request": request, "response": response} for request, response in pairs]
    if "request" in document:
        return [document]
    names = ("interactions", "http_interactions", "recordings", "entries")
    return _objects(next((document[name] for name in names if document.get(name)), None))


def _addressed(
    path: str, request: dict[str, Any], response: dict[str, Any], address: str
) -> Iterator[Pair]:
    """Yield the pair with the host that the folder or the path identifies; nothing if neither does."""
    folders = path.lower().split("/")[:-1]
    named = [_FOLDERS[each] for each in folders if each in _FOLDERS]
    shown = [host for part, host in _PATHS.items() if part in f"/{address}"]
    host = next(iter(named[-1:] + shown), None)
    if host is not None:
        yield request | {"uri": f"{host}/{address.lstrip('/')}"}, response


def _nock(entry: dict[str, Any]) -> Pair | None:
    scope, address = as_text(entry.get("scope")), as_text(entry.get("path"))
    if not scope or not address:
        return None
    response = entry.get("response")
    pieces = as_list(response)
    if pieces is not None and all(isinstance(each, str) for each in pieces):
        response = bytes.fromhex("".join(pieces))
    elif not isinstance(response, str):
        response = json.dumps(response)
    request = {"uri": scope + address, "body": json.dumps(entry.get("body"))}
    return request, {"status": entry.get("status"), "body": response}


def _wiremock(
    path: str, request: dict[str, Any], response: dict[str, Any], read_file: ReadFile
) -> Iterator[Pair]:
    patterns = _objects(request["bodyPatterns"])
    body = next((each["equalToJson"] for each in patterns if "equalToJson" in each), None)
    name = as_text(response.get("bodyFileName"))
    if name:
        response = response | {
            "body": read_file(f"{path.rpartition('/mappings/')[0]}/__files/{name}")
        }
    elif "jsonBody" in response:
        response = response | {"body": json.dumps(response["jsonBody"])}
    address = next(
        (as_text(request[key]) for key in ("url", "urlPath", "urlPathTemplate") if key in request),
        "",
    )
    asked = {"body": body if isinstance(body, str) else json.dumps(body)}
    yield from _addressed(path, asked, response, address)


def _proxied(entry: dict[str, Any]) -> Pair:
    """Return an entry of Azure's test proxy, which writes bodies as values, and streams as lists of lines."""
    bodies: list[str] = []
    for name in ("RequestBody", "ResponseBody"):
        value = entry.get(name)
        lines = as_list(value)
        is_text = lines is not None and all(isinstance(line, str) for line in lines)
        bodies.append("".join(lines or []) if is_text else value if isinstance(value, str) else json.dumps(value))  # fmt: skip
    request = {"uri": entry.get("RequestUri"), "body": bodies[0]}
    return request, {"status": entry.get("StatusCode"), "body": bodies[1]}


def _parse(path: str, data: bytes) -> Iterator[object]:
    name = path.removesuffix(".gz")
    if name.endswith(".httprr"):
        return _traced(data)
    if name.endswith(".rec"):
        return _datadog(path, data)
    if name.endswith((".har", ".json")):
        return iter([json.loads(data)])
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load_all(data, Loader=loader)


def _traced(data: bytes) -> Iterator[object]:
    """Return the exchanges of a trace of Go's httprr: after the first line the sizes of a request and a response, then both."""
    at = data.index(b"\n") + 1
    while at < len(data):
        end = data.index(b"\n", at)
        sizes = [int(size) for size in data[at:end].split()]
        at = end + 1
        heads: list[list[bytes]] = []
        for size in sizes:
            heads.append(data[at : at + size].split(b"\r\n\r\n", 1))
            at += size
        (asked, body), (answered, reply) = heads
        yield {
            "request": {"url": asked.split()[1].decode(), "body": body},
            "response": {"status": answered.split()[1].decode(), "body": reply},
        }


def _datadog(path: str, data: bytes) -> Iterator[object]:
    """Return the exchange of a file: ``path:``, ``status code:``, and bodies between marks."""
    text = data.decode("utf-8", "replace")
    sections = dict(re.findall(r"-- begin (\w+ \w+) --\n(.*?)\n?-- end \1 --", text, re.DOTALL))
    address, status = (
        re.search(r"^path: (.*)$", text, re.MULTILINE),
        re.search(r"^status code: (\d+)", text, re.MULTILINE),
    )
    if address is None or status is None:
        return
    when = {"path": f"/v1/{address[1]}", "body": sections.get("request body", "")}
    yield {"when": when, "then": {"status": status[1], "body": sections.get("response body", "")}}
