"""Replies in their wire format, in four dialects, created once by the simulator's own encoders.

Rules:
1. A kind of reply is a ``Say``: the same words, or the same calls, in every dialect.
2. Every word has eight characters and is its own delta; every fragment of arguments has five characters.
3. ``EXPECTED`` is the answer that a reader must return; any other answer is wrong.
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
    """Return a text of so many deltas."""
    return "".join(f"{number:>7} " for number in range(count))


def _call(fragments: int) -> Call:
    """Return a call whose arguments are so many fragments, not counting the brackets around them."""
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

#: The path of each dialect's requests, below the base URL of its SDK; Google has two versions in use.
_GEMINI = f"/models/{ROWS['gemini'].default_model}"
_PATHS = {
    "openai-chat": ("/v1/chat/completions",),
    "openai": ("/v1/responses",),
    "anthropic": ("/v1/messages",),
    "gemini": (f"/v1beta{_GEMINI}:streamGenerateContent", f"/v1{_GEMINI}:streamGenerateContent"),
}


def address(server: str, kind: str, provider: str) -> str:
    """Return the base URL for the provider's own SDK: OpenAI's with the version, the others' without.

    For a strict server, which has no kinds, ``kind`` is empty.
    """
    version = "/v1" if provider.startswith("openai") else ""
    return f"{server}{kind and '/' + kind}/{provider}{version}"


def frames(provider: str, kind: str) -> list[bytes]:
    """Return the events of a reply, each in its wire format."""
    steps = encode_reply(provider, KINDS[kind]).steps
    return [step for step in steps if isinstance(step, bytes)]


def prebuilt() -> dict[str, Prebuilt]:
    """Return every reply by its path; ``whole`` is the short one, not streamed."""
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
