"""From a request to the plan of its reply.

Rules:
1. A request is judged in the order in which a provider does it: path, key, JSON, content.
2. Only a request that the provider would accept reaches the script.
3. What the judges call silent is recorded and answered as if it were right.

The lists of models, the counting of tokens and embeddings, in each provider's form. Embeddings take no reply from the script: equal
texts have equal vectors.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping

import msgspec

from multi_llm_chat.history.json_values import as_list
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator.encoders.events import CREATED, Request
from multi_llm_chat.testing.simulator.faults import Drop, Garbage, Hang, Status
from multi_llm_chat.testing.simulator.http import RawRequest
from multi_llm_chat.testing.simulator.plan import Break, Plan, Stall
from multi_llm_chat.testing.simulator.refusals import key_refusal, status_body
from multi_llm_chat.testing.simulator.reply_plan import Form, json_plan, say_plan
from multi_llm_chat.testing.simulator.request_log import RecordedRequest
from multi_llm_chat.testing.simulator.routes import Route, find_route
from multi_llm_chat.testing.simulator.says import Say
from multi_llm_chat.testing.simulator.script import Reply, Script
from multi_llm_chat.testing.validators import error_body, validate
from multi_llm_chat.testing.validators.typed_views import members

_NOWHERE = Route("openai-chat", "openai_chat", "unknown")


class Answerer:
    """Decides what is answered."""

    def __init__(self, script: Script, key: str | None, models: Mapping[str, list[str]]) -> None:
        self._script = script
        self._key = key
        self._models = models

    def record(self, raw: RawRequest, number: int) -> RecordedRequest:
        """The request as it is kept."""
        route = find_route(raw.path, raw.query, raw.headers) or _nearest(raw.path)
        return RecordedRequest(
            number=number,
            method=raw.method,
            path=raw.path,
            query=raw.query,
            headers=raw.headers,
            content=raw.content,
            body=members(_parsed(raw.content)),
            route=route,
        )

    def answer(self, request: RecordedRequest) -> Plan:
        """The plan of the reply."""
        if (
            request.method == "HEAD"
        ):  # clients ask so whether a server is there; no reply to it has a body
            return Plan(200, {}, [], 0)
        plan = self._refuse(request)
        if plan is not None:
            return plan
        if request.route.operation == "models":
            return json_plan(200, list_models(request.provider, self._models))
        plan = self._judge(request)
        if plan is not None:
            return plan
        if request.route.operation == "count":
            return json_plan(200, count_tokens(request.provider, len(request.content)))
        return self._reply(request)

    def _refuse(self, request: RecordedRequest) -> Plan | None:
        """Refuse what does not even name an operation, or comes without the right key."""
        operation = request.route.operation
        if operation == "unknown":
            message = f"Invalid URL ({request.method} {request.path})"
            return _status_plan(request, Status(404, message))
        if request.method != ("GET" if operation == "models" else "POST"):
            return _status_plan(request, Status(405, f"Not allowed: {request.method}"))
        if self._key is not None and ROWS[request.provider].key_variable is not None:
            sent = _sent_key(request)
            if sent != self._key:
                return json_plan(*key_refusal(request.provider, sent))
        return None

    def _judge(self, request: RecordedRequest) -> Plan | None:
        """Refuse what the provider would refuse."""
        if request.provider == "anthropic" and "anthropic-version" not in request.headers:
            return _status_plan(request, Status(400, "anthropic-version: header is required"))
        body = _parsed(request.content)
        if body is _NOT_JSON:
            words = _NOT_JSON_WORDS.get(request.provider, _OPENAI_NOT_JSON)
            return _status_plan(request, Status(400, words))
        if request.route.operation == "embed":
            refusal = refuse_embeddings(request.provider, request.body)
            return None if refusal is None else _status_plan(request, Status(400, refusal))
        if request.route.operation != "generate":
            return None
        found = validate(request.provider, body, model=request.route.model, headers=request.headers)
        request.violations = tuple(found)
        refused = next((violation for violation in found if violation.status >= 400), None)
        if refused is None:
            return None
        return json_plan(refused.status, error_body(request.provider, refused))

    def _reply(self, request: RecordedRequest) -> Plan:
        if request.route.operation == "embed":
            return json_plan(200, make_embeddings(request.provider, request.body))
        reply = self._script.next_reply(request)
        if reply is None:
            message = f"The simulator's script has no reply for request {request.number}."
            return _status_plan(request, Status(400, message))
        return _plan_of(reply, request)


def _plan_of(reply: Reply, request: RecordedRequest) -> Plan:
    match reply:
        case Say():
            asked = Request(
                provider=request.provider,
                model=request.model,
                body=request.body,
                number=request.number,
                size=len(request.content),
            )
            route = request.route
            return say_plan(reply, asked, Form(route.dialect, request.streamed, route.array))
        case Status():
            return _status_plan(request, reply)
        case Hang():
            return Plan(0, {}, [Stall()])
        case Drop():
            return Plan(0, {}, [Break(reply.reset)])
        case Garbage():
            headers = {"content-type": reply.content_type}
            return Plan(reply.status, headers, [reply.data], len(reply.data))


def _status_plan(request: RecordedRequest, fault: Status) -> Plan:
    return json_plan(fault.status, status_body(request.provider, fault), fault.headers)


def _nearest(path: str) -> Route:
    """The provider whose error an unknown path gets: that of the provider before it."""
    provider = path.lstrip("/").partition("/")[0]
    if provider not in ROWS:
        return _NOWHERE
    return Route(provider, ROWS[provider].dialect, "unknown")


def _sent_key(request: RecordedRequest) -> str | None:
    headers = request.headers
    for name in ("x-api-key", "x-goog-api-key", "api-key"):
        if name in headers:
            return headers[name]
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key:
        return key.strip()
    return request.query.get("key")


def _parsed(content: bytes) -> object:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _NOT_JSON


_NOT_JSON = object()
_NOT_JSON_WORDS = {
    "anthropic": "The request body is not valid JSON: unexpected character: line 1 column 1 (char 0)",
    "gemini": "Invalid JSON payload received. Unexpected token.",
}
_OPENAI_NOT_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using "
    "your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was "
    "not valid JSON. If you have trouble figuring out how to fix this, please contact us through "
    "our help center at help.openai.com.)"
)


# Lists of models, and the counting of tokens, in each provider's form.


def list_models(provider: str, models: Mapping[str, list[str]]) -> JsonObject:
    """The provider's list; its default model where the test names none."""
    names = models.get(provider) or [ROWS[provider].default_model]
    if provider == "anthropic":
        return _anthropic_list(names)
    if provider == "gemini":
        return {"models": [_gemini_model(name) for name in names]}
    entries = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": provider} for name in names
    ]
    return {"object": "list", "data": entries}


def _anthropic_list(names: list[str]) -> JsonObject:
    entries = [
        {
            "type": "model",
            "id": name,
            "display_name": name.replace("-", " ").title(),
            "created_at": "2026-11-15T00:00:00Z",
        }
        for name in names
    ]
    return {"data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def _gemini_model(name: str) -> JsonObject:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name.replace("-", " ").title(),
        "inputTokenLimit": 1048576,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def count_tokens(provider: str, size: int) -> JsonObject:
    """A rough count of a request's tokens."""
    count = 1 + size // 4
    return {"totalTokens": count} if provider == "gemini" else {"input_tokens": count}


# Embeddings.

#: How many texts a request may have, by each provider's documentation.
_MOST_TEXTS = {
    "openai": 2048,
    "openai-chat": 2048,
    "azure": 2048,
    "gemini": 100,
    "mistral": 256,
    "dashscope": 10,
}
_USUAL_LENGTH = 8
#: Keys that a request for embeddings may have, where the provider refuses others.
_MISTRAL_KEYS = frozenset(
    {"model", "input", "encoding_format", "output_dimension", "output_dtype", "metadata"}
)


def refuse_embeddings(provider: str, body: JsonObject) -> str | None:
    """Why a provider refuses a request for embeddings; None if it does not."""
    texts = _texts(provider, body)
    if not texts or not all(isinstance(text, str) for text in texts):
        return "'$.input' is invalid. Please check the API reference."
    if "" in texts:
        return "Invalid 'input': input cannot be an empty string."
    if len(texts) > _MOST_TEXTS.get(provider, len(texts)):
        return f"Too many inputs in request: {len(texts)}."
    if provider != "gemini" and not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    if provider == "mistral" and set(body) - _MISTRAL_KEYS:
        return "Extra inputs are not permitted"
    return None


def make_embeddings(provider: str, body: JsonObject) -> JsonObject:
    """The vectors of the texts, in the provider's form."""
    texts = [str(text) for text in _texts(provider, body)]
    if provider == "gemini":
        sizes = [
            members(each).get("outputDimensionality")
            for each in as_list(body.get("requests")) or ()
        ]
        vectors = [_vector(text, size) for text, size in zip(texts, sizes, strict=True)]
        return {"embeddings": [{"values": vector} for vector in vectors]}
    size = body.get("dimensions", body.get("output_dimension"))
    is_packed = body.get("encoding_format") == "base64"
    vectors = [_vector(text, size) for text in texts]
    data = [
        {"object": "embedding", "index": at, "embedding": _packed(vector) if is_packed else vector}
        for at, vector in enumerate(vectors)
    ]
    tokens = 1 + sum(map(len, texts)) // 4
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data[::-1], "model": body.get("model"), "usage": usage}


def _texts(provider: str, body: JsonObject) -> list[object]:
    if provider != "gemini":
        given = body.get("input")
        return [given] if isinstance(given, str) else as_list(given) or []
    texts: list[object] = []
    for each in as_list(body.get("requests")) or ():
        parts = as_list(members(members(each).get("content")).get("parts")) or ()
        texts.append("".join(str(members(part).get("text", "")) for part in parts))
    return texts


def _vector(text: str, size: object) -> list[float]:
    length = size if isinstance(size, int) and size > 0 else _USUAL_LENGTH
    digest = hashlib.shake_128(text.encode("utf-8", "replace")).digest(length)
    return [round(byte / 255 - 0.5, 6) for byte in digest]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
