"""Replies as they stand on the wire, in four dialects, made once by the simulator's own encoders.

Rules:
1. A kind of reply is a ``Say``: the same words, or the same calls, in every dialect.
2. Every word has eight characters and is a delta of its own; every fragment of arguments has five.
3. ``EXPECTED`` is what a reader must have in hand at the end; an answer that differs counts as wrong.
"""

from typing import Any

from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator import Call, Prebuilt, Say, encode_reply

DELTAS = 3000
SHORT_DELTAS = 20
THROUGHPUT_DELTAS = 200
FRAGMENTS = (500, 4000)
PARALLEL = 20

PROVIDERS = ("openai-chat", "openai", "anthropic", "gemini")
_WORD = 8
_FRAGMENT = 5


def words(count: int) -> str:
    """A text of so many deltas."""
    return "".join(f"{number:>7} " for number in range(count))


def _call(fragments: int) -> Call:
    """A call whose arguments are so many fragments, the brackets around them not counted."""
    return Call("write", {"text": "word " * fragments})


_CALLS = {f"call{count}": [_call(count)] for count in FRAGMENTS} | {
    "parallel": [Call("write", {"text": f"{'word ' * 8}{number}"}) for number in range(PARALLEL)]
}
_TEXTS = {
    "burst": words(DELTAS),
    "short": words(SHORT_DELTAS),
    "middle": words(THROUGHPUT_DELTAS),
}
KINDS: dict[str, Say] = {name: Say(text, delta_size=_WORD) for name, text in _TEXTS.items()} | {
    name: Say(calls=calls, delta_size=_FRAGMENT) for name, calls in _CALLS.items()
}
EXPECTED: dict[str, Any] = _TEXTS | {
    name: [[call.name, call.arguments] for call in calls] for name, calls in _CALLS.items()
}

#: Where each dialect is asked, below the address that its own SDK is given; Google's users are on two versions.
_GEMINI = f"/models/{ROWS['gemini'].default_model}"
_PATHS = {
    "openai-chat": ("/v1/chat/completions",),
    "openai": ("/v1/responses",),
    "anthropic": ("/v1/messages",),
    "gemini": (f"/v1beta{_GEMINI}:streamGenerateContent", f"/v1{_GEMINI}:streamGenerateContent"),
}


def address(server: str, kind: str, provider: str) -> str:
    """The base URL that the provider's own SDK takes: OpenAI's with the version, the others' without.

    A strict server knows no kinds: ``kind`` is empty.
    """
    version = "/v1" if provider.startswith("openai") else ""
    return f"{server}{kind and '/' + kind}/{provider}{version}"


def frames(provider: str, kind: str) -> list[bytes]:
    """The events of a reply, each as it stands on the wire."""
    steps = encode_reply(provider, KINDS[kind]).steps
    return [step for step in steps if isinstance(step, bytes)]


def prebuilt() -> dict[str, Prebuilt]:
    """Every reply by its path; ``whole`` is the short one, not streamed."""
    made: dict[str, Prebuilt] = {}
    for provider, paths in _PATHS.items():
        plan = encode_reply(provider, KINDS["short"], stream=False)
        body = b"".join(step for step in plan.steps if isinstance(step, bytes))
        for path in paths:
            for kind in KINDS:
                made[f"/{kind}/{provider}{path}"] = Prebuilt.stream(frames(provider, kind))
            whole = path.replace("streamGenerateContent", "generateContent")
            made[f"/whole/{provider}{whole}"] = Prebuilt.whole(body)
    return made
