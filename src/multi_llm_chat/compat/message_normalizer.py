"""Seed 001's ``MessageNormalizer``: the repair engine for flat messages."""

from collections.abc import Iterable
from typing import Any

import msgspec

from multi_llm_chat.history.flat import read_flat, write_flat
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.providers import provider_row
from multi_llm_chat.protocol.rendered_request import target_of
from multi_llm_chat.repair import repair
from multi_llm_chat.repair.policy import PAIRS_ONLY, RepairPolicy


class MessageNormalizer:
    """Repairs flat messages; a request's outer shape is left to the sender."""

    @staticmethod
    def sanitize_messages_for_provider(
        messages: Iterable[Any], provider: str, policy: RepairPolicy = PAIRS_ONLY
    ) -> list[JsonObject]:
        """Flat messages in, flat messages out, legal for the provider.

        Args:
            messages: Objects with ``role`` and ``content``, perhaps ``tool_calls``,
                ``tool_call_id``, ``tool_use``, ``thinking``; every other key is kept. Not changed.
            provider: A provider's name; an enum whose value is the name will do.
            policy: By default unanswered calls and orphan results go, as in seed 001.
        """
        row = provider_row(provider)
        target = msgspec.structs.replace(
            target_of(row, row.default_model, speaker="assistant"), system="anywhere"
        )
        repaired = repair(read_history(read_flat(messages)), target, policy)
        return write_flat(repaired.turns, result_names=row.chat.result_names)
