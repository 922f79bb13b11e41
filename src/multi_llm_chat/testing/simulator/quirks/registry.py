"""What a deviation may change (the reply, its events, its frames, its whole body), and which is meant by which id.

Rules:
1. ``QUIRKS`` has every id of the catalogue's section on streams, by variant and dialect; the first
   variant is the one meant when none is named.
2. A quirk that a dialect does not know changes nothing there.
3. An id or a variant that does not exist is refused.

STR-09, the error inside a 200, is ``ErrorInStream``: ``Quirk("STR-09")`` puts it in the middle.
"""

from collections.abc import Callable, Sequence

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.events import StreamEvent
from multi_llm_chat.testing.simulator.faults import Quirk
from multi_llm_chat.testing.simulator.quirks import chat, others
from multi_llm_chat.testing.simulator.says import Say


class Deviation:
    """One quirk in one dialect; what it does not name stays as it is."""

    def __init__(
        self,
        *,
        say: Callable[[Say], Say] | None = None,
        events: Callable[[list[StreamEvent]], list[StreamEvent]] | None = None,
        frames: Callable[[list[bytes]], list[bytes]] | None = None,
        whole: Callable[[JsonObject], JsonObject] | None = None,
    ) -> None:
        self._say = say
        self._events = events
        self._frames = frames
        self._whole = whole

    def change_say(self, say: Say) -> Say:
        """The reply as the server means it."""
        return say if self._say is None else self._say(say)

    def change_events(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """The stream as the server writes it."""
        return list(events) if self._events is None else self._events(list(events))

    def change_frames(self, frames: Sequence[bytes]) -> list[bytes]:
        """The stream's bytes."""
        return list(frames) if self._frames is None else self._frames(list(frames))

    def change_whole(self, body: JsonObject) -> JsonObject:
        """The body of a reply that is not streamed."""
        return body if self._whole is None else self._whole(body)


def _everywhere(deviation: Deviation) -> dict[str, Deviation]:
    return dict.fromkeys(("openai_chat", "openai_responses", "anthropic", "gemini"), deviation)


def _chat(deviation: Deviation) -> dict[str, Deviation]:
    return {"openai_chat": deviation}


def _ids(identifier: str | None) -> Deviation:
    return Deviation(
        events=chat.identified(lambda _old: identifier),
        whole=chat.identified_whole(lambda _old: identifier),
    )


_TRUNCATED = Deviation(say=others.truncated)

QUIRKS: dict[str, dict[str, dict[str, Deviation]]] = {
    "STR-01": {"no_index": _chat(Deviation(events=chat.without_index))},
    "STR-02": {
        "zero": _chat(Deviation(events=chat.zero_index)),
        "concatenated": _chat(Deviation(events=chat.concatenated)),
    },
    "STR-03": {"chunk_local": _chat(Deviation(events=chat.counted_in_chunk))},
    "STR-04": {
        "empty": _chat(_ids("")),
        "missing": _chat(_ids(None)),
        "same": _chat(_ids("call_x")),
    },
    "STR-05": {"reused": _everywhere(Deviation(say=others.reused_ids))},
    "STR-06": {
        "stop": {
            "openai_chat": Deviation(say=others.finishing("stop")),
            "anthropic": Deviation(say=others.finishing("end_turn")),
        },
        "empty": _chat(Deviation(say=others.finishing(""))),
        "missing": _chat(Deviation(events=chat.without_finish)),
        "tool_calls": {
            "openai_chat": Deviation(say=others.finishing("tool_calls")),
            "anthropic": Deviation(say=others.finishing("tool_use")),
        },
    },
    "STR-07": {"no_choices": _chat(Deviation(events=chat.without_choices))},
    "STR-08": {
        "noise": {
            "openai_chat": Deviation(events=chat.obfuscated, frames=others.carriage_returns),
            "openai_responses": Deviation(frames=others.carriage_returns),
            "anthropic": Deviation(events=others.pings, frames=others.carriage_returns),
            "gemini": Deviation(frames=others.carriage_returns),
        }
    },
    "STR-09": {"middle": {}},
    "STR-10": {"no_arguments": _everywhere(Deviation(say=others.no_arguments))},
    "STR-11": {
        "empty_deltas": {
            "openai_chat": Deviation(events=chat.empty_fragments),
            "openai_responses": Deviation(events=others.empty_input),
            "anthropic": Deviation(events=others.empty_input),
        }
    },
    "STR-12": {
        "object": _chat(Deviation(events=chat.object_arguments, whole=chat.object_arguments_whole)),
        "whole": _chat(Deviation(events=chat.whole_calls)),
        "null": _chat(Deviation(events=chat.null_arguments)),
    },
    "STR-13": {
        "late": _chat(Deviation(events=chat.late_name)),
        "repeated": _chat(Deviation(events=chat.repeated_name)),
    },
    "STR-14": {
        "truncated": _everywhere(_TRUNCATED)
        | {"gemini": Deviation(say=others.truncated_whole_calls)}
    },
    "STR-15": {
        "no_ids": {"gemini": Deviation(events=others.without_ids, whole=others.without_ids_whole)},
        "one_chunk": {"gemini": Deviation(events=others.in_one_chunk)},
        "trailing_signature": {"gemini": Deviation(events=others.trailing_signature)},
        "malformed": {"gemini": Deviation(say=others.failed_call("MALFORMED_FUNCTION_CALL"))},
        "unexpected": {"gemini": Deviation(say=others.failed_call("UNEXPECTED_TOOL_CALL"))},
        "too_many": {"gemini": Deviation(say=others.failed_call("TOO_MANY_TOOL_CALLS"))},
    },
    "STR-16": {"signed": {"anthropic": Deviation(events=others.half_a_thought)}},
    "STR-17": {
        "no_finish": _chat(Deviation(events=chat.without_finish)),
        "no_done": {
            "openai_chat": Deviation(events=chat.without_done),
            "anthropic": Deviation(events=others.without("message_stop")),
        },
        "neither": _chat(
            Deviation(events=lambda events: chat.without_done(chat.without_finish(events)))
        ),
    },
}


def deviations(say: Say, dialect: str) -> list[Deviation]:
    """What the quirks of a reply change in this dialect."""
    found = [_variants(fault) for fault in say.faults if isinstance(fault, Quirk)]
    return [forms[dialect] for forms in found if dialect in forms]


def has_effect(quirk: Quirk, dialect: str) -> bool:
    """Whether the quirk changes anything in this dialect."""
    return quirk.rule == "STR-09" or dialect in _variants(quirk)


def _variants(quirk: Quirk) -> dict[str, Deviation]:
    variants = QUIRKS.get(quirk.rule)
    if variants is None:
        raise UsageError(f"Unknown quirk {quirk.rule!r}; known are: {', '.join(QUIRKS)}")
    variant = quirk.variant or next(iter(variants))
    if variant not in variants:
        known = ", ".join(variants)
        raise UsageError(f"{quirk.rule} has no variant {quirk.variant!r}; known are: {known}")
    return variants[variant]
