"""Turn values of every kind, with arbitrary strings and JSON."""

from typing import Any

from hypothesis import strategies as st
from tests.strategies.histories import NAMES, VALUES, WORDS

from multi_llm_chat.history.values import (
    Media,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

_OBJECTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(WORDS, VALUES, max_size=3)
_MAYBE = st.none() | WORDS
_ORIGINS = st.builds(Origin, WORDS, WORDS, WORDS)
_DATA = st.one_of(
    _MAYBE,
    st.binary(min_size=3000, max_size=3200).map(lambda data: data.hex()),
    st.sampled_from(["QUJD" * 1100, "QUJD" * 1100 + "QQ==", "QUJD" * 1100 + "QR==", "A" * 4097]),
)

parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, WORDS),
    st.builds(ToolCall, NAMES, _OBJECTS, WORDS, _MAYBE, _MAYBE),
    st.builds(ToolResult, NAMES, VALUES, WORDS, st.booleans(), st.booleans()),
    st.builds(Thinking, WORDS, _ORIGINS, _OBJECTS),
    st.builds(Media, WORDS, _DATA, _MAYBE, _MAYBE),
)

turns: st.SearchStrategy[Turn] = st.builds(
    Turn,
    role=WORDS,
    parts=st.lists(parts, max_size=4).map(tuple),
    created_at=st.none() | VALUES,
    model=_MAYBE,
    meta=_OBJECTS,
    unreadable=_MAYBE,
)
