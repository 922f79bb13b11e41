"""What a deviation may change: the reply, its events, its frames, its whole body."""

from collections.abc import Callable, Sequence

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.events import StreamEvent
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
