"""A Claude that binds its thinking to what precedes it (ANT-28, ANT-29, ANT-30).

Rules:
1. Each answer thinks, under a signature that stands for the whole prefix: ``system``, ``tools`` and every message of the
   request. Cache marks are no part of it.
2. A thinking block that stands behind another prefix is refused in Anthropic's words. The last sentence names what changed.
3. A block between others that was left out changes the prefix of the later ones; all of them may be left out.
4. With ``block_binding`` set to ``drop_block`` and its beta header, such blocks are dropped instead; without the header the
   field is refused.
"""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from multi_llm_chat.testing.simulator.faults import Status
from multi_llm_chat.testing.simulator.request_log import RecordedRequest
from multi_llm_chat.testing.simulator.says import Say
from multi_llm_chat.testing.simulator.script import Reply, Script, ScriptLike
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string

_BETA: Final = "thinking-binding-controls-2026-08-01"
_EXTRA: Final = "thinking.block_binding: Extra inputs are not permitted"
_BOUND: Final = (
    "messages.{index}.content.{position}: Invalid `signature` in `thinking` block. The block is bound to a different "
    'conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That '
    f"setting requires the `{_BETA}` value in the `anthropic-beta` header.{{what}}"
)
_DIFFERS: Final = {
    "system": " The `system` prompt differs from the one this block was created with.",
    "tools": " The `tools` differ from those this block was created with.",
    "messages": " An earlier message differs from the one this block was created with.",
}


class PrefixBinding:
    """A rule for a simulator: answers from a script, and refuses thinking behind another prefix."""

    def __init__(self, script: ScriptLike) -> None:
        self._script = Script.of(script)
        self._lock = threading.Lock()
        self._prefixes: dict[str, Mapping[str, str]] = {}
        #: How many requests were refused, and how many thinking blocks came back behind their own prefix.
        self.refused = 0
        self.recognised = 0

    def __call__(self, request: RecordedRequest) -> Reply | None:
        """Judge the request, and answer it."""
        body = request.body
        thinking = as_object(body.get("thinking")) or {}
        drops = "block_binding" in thinking
        if drops and _BETA not in request.headers.get("anthropic-beta", ""):
            return self._refuse(_EXTRA)
        for index, position, signature in _signed(body):
            changed = self._changed(body, index, signature)
            if changed is None:
                with self._lock:
                    self.recognised += 1
            elif not drops:
                what = _DIFFERS.get(changed, "")
                return self._refuse(_BOUND.format(index=index, position=position, what=what))
        answer = self._script.next_reply(request)
        if not isinstance(answer, Say):
            return answer
        prefix = _prefix(body, len(as_array(body.get("messages")) or []))
        signature = hashlib.sha256(json.dumps(prefix).encode()).hexdigest()
        with self._lock:
            self._prefixes[signature] = prefix
        return answer.having(thinking=answer.thinking or "Let me see.", signature=signature)

    def _refuse(self, message: str) -> Status:
        with self._lock:
            self.refused += 1
        return Status(400, message)

    def _changed(self, body: dict[str, Any], index: int, signature: str) -> str | None:
        """What differs from the prefix that the signature was made for; None if nothing does."""
        with self._lock:
            made = self._prefixes.get(signature)
        if made is None:
            return "signature"
        present = _prefix(body, index)
        return next((key for key in made if made[key] != present[key]), None)


def _signed(body: dict[str, Any]) -> Iterator[tuple[int, int, str]]:
    for index, item in enumerate(as_array(body.get("messages")) or []):
        message = as_object(item) or {}
        for position, entry in enumerate(as_array(message.get("content")) or []):
            block = as_object(entry) or {}
            if block.get("type") == "thinking":
                yield index, position, as_string(block.get("signature")) or ""


def _prefix(body: dict[str, Any], length: int) -> dict[str, str]:
    """What a block in the message of this number is bound to."""
    messages = (as_array(body.get("messages")) or [])[:length]
    return {
        "system": _text(_written(body.get("system"))),
        "tools": _text(
            [tool for tool in as_array(body.get("tools")) or () if not _is_deferred(tool)]
        ),
        "messages": _text([_message(message) for message in messages]),
    }


def _is_deferred(tool: object) -> bool:
    """Whether a message adds the tool, so that it is not part of the prefix (ANT-46)."""
    return (as_object(tool) or {}).get("defer_loading") is True


def _message(item: object) -> dict[str, Any]:
    message = as_object(item) or {}
    return message | {"content": _written(message.get("content"))}


def _written(content: object) -> object:
    """Content in its long form: a text is short for one block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(value: object) -> str:
    return json.dumps(_unmarked(value), sort_keys=True)


def _unmarked(value: Any) -> Any:
    entries = as_object(value)
    if entries is not None:
        return {key: _unmarked(each) for key, each in entries.items() if key != "cache_control"}
    listed = as_array(value)
    return value if listed is None else [_unmarked(each) for each in listed]
