"""Thinking, as far as a request shows it (ANT-10 to ANT-15), and what a Claude model's name says about it.

Whether a signature is genuine cannot be seen; that one is there, and where blocks stand, can.
With adaptive thinking a turn need not begin with a thinking block; with a fixed budget it must.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.anthropic import wordings as say
from multi_llm_chat.testing.validators.anthropic.turns import MergedTurn, open_loop, read_turns
from multi_llm_chat.testing.validators.typed_views import (
    as_integer,
    as_number,
    as_object,
    as_string,
    members,
)
from multi_llm_chat.testing.validators.violation import Violation

# What a Claude model's name says about what it takes.

_NEW_STYLE = re.compile(r"claude-([a-z]+)-(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_OLD_STYLE = re.compile(r"claude-(\d+)(?:[-.](\d{1,2}))?-[a-z]+")


class ClaudeModel(msgspec.Struct, frozen=True):
    """Abilities of one model; an unknown name gets those of the newest generation."""

    family: str = ""
    version: tuple[int, int] = (5, 0)

    @property
    def is_new_generation(self) -> bool:
        """Opus 4.7 and later and the 5 family: adaptive thinking only, no sampling parameters."""
        if self.family in ("mythos", "fable"):
            return True
        return self.version >= ((4, 7) if self.family == "opus" else (5, 0))

    @property
    def thinking_types(self) -> tuple[str, ...]:
        """The values of ``thinking.type`` that the model takes."""
        if self.family in ("fable", "mythos") or (self.family, self.version) == ("opus", (5, 5)):
            return ("adaptive",)
        if self.version >= (5, 5):
            return ("adaptive", "between_tools" if self.family == "sonnet" else "disabled")
        if self.is_new_generation:
            return ("adaptive", "disabled")
        if self.version >= (4, 6):
            return ("enabled", "adaptive", "disabled")
        return ("enabled", "disabled")

    @property
    def thinks_by_default(self) -> bool:
        """Whether thinking is on when the request does not mention it."""
        return self.version >= (5, 0)

    @property
    def takes_prefill(self) -> bool:
        """Whether the request may end with the beginning of the answer."""
        return self.version < (4, 6) and self.family != "mythos"

    @property
    def wants_user_first(self) -> bool:
        """Whether the first message must be the user's; Sonnet 4.5 and later were recorded without it (ANT-21)."""
        return self.version < (4, 5)

    @property
    def takes_system_messages(self) -> bool:
        """Whether a system message may stand in the middle of the conversation."""
        if self.family == "sonnet":
            return self.version >= (5, 5)
        return self.version >= (4, 8)

    @property
    def takes_forced_tool(self) -> bool:
        """Whether ``tool_choice`` may force a tool (ANT-34)."""
        if self.family in ("fable", "mythos"):
            return self.version < (5, 1)
        return self.version < (5, 5) or self.family == "haiku"

    @property
    def binds_thinking(self) -> bool:
        """Whether a thinking block is valid only behind the prefix it was made for (ANT-28)."""
        if self.family in ("fable", "mythos"):
            return self.version >= (5, 1)
        return self.version >= (5, 5)

    @property
    def efforts(self) -> tuple[str, ...]:
        """The words for ``output_config.effort`` (ANT-36); empty where the parameter is refused."""
        if self.is_new_generation:
            return ("low", "medium", "high", "xhigh", "max")
        if self.version >= (4, 6):
            return ("low", "medium", "high", "max")
        return ("low", "medium", "high") if (self.family, self.version) == ("opus", (4, 5)) else ()

    @property
    def wants_tools(self) -> bool:
        """Whether tool blocks in the history need declared tools; claude-haiku-4-5 was seen to accept them without."""
        return self.version < (4, 5)

    @property
    def compares_ids(self) -> bool:
        """Whether results must name the uses before them; Claude 3 of 2024 was recorded not to look (ANT-01, ANT-02)."""
        return self.version != (3, 0)


def claude_model(name: str) -> ClaudeModel:
    """Read the family and version off a model's name."""
    lowered = name.lower()
    found = _NEW_STYLE.search(lowered)
    if found is not None:
        return ClaudeModel(found.group(1), (int(found.group(2)), int(found.group(3) or 0)))
    found = _OLD_STYLE.search(lowered)
    if found is not None:
        return ClaudeModel("", (int(found.group(1)), int(found.group(2) or 0)))
    return ClaudeModel("mythos" if "mythos" in lowered else "")


# Thinking.

_THINKING = ("thinking", "redacted_thinking")
_KEYS = {
    "enabled": frozenset({"type", "budget_tokens", "display"}),
    "adaptive": frozenset({"type", "display"}),
    "disabled": frozenset({"type"}),
    "between_tools": frozenset({"type"}),
}
_SAMPLING = ("temperature", "top_p", "top_k")


def check_thinking(body: dict[str, Any], model: ClaudeModel) -> Iterator[Violation]:
    """The ``thinking`` member by itself."""
    if "thinking" not in body:
        return
    config = as_object(body["thinking"])
    if config is None:
        yield say.wrong_type("thinking", "object")
        return
    kind = config.get("type")
    if kind is None:
        yield say.REQUIRED.fill(path="thinking.type")
        return
    if not isinstance(kind, str) or kind not in _KEYS:
        expected = ", ".join(f"'{name}'" for name in sorted(_KEYS))
        yield say.BLOCK_KIND.fill(path="thinking", kind=kind, expected=expected)
        return
    for key in config:
        if key not in _KEYS[kind] and key != "block_binding":
            yield say.EXTRA.fill(path=f"thinking.{kind}.{key}")
    if "block_binding" in config and not model.binds_thinking:
        yield say.EXTRA.fill(path="thinking.block_binding")  # ANT-30
    if kind == "enabled":
        yield from _check_budget(config)


def _check_budget(config: dict[str, Any]) -> Iterator[Violation]:
    path = "thinking.enabled.budget_tokens"
    budget = as_integer(config.get("budget_tokens"))
    if "budget_tokens" not in config:
        yield say.REQUIRED.fill(path=path)
    elif budget is None:
        yield say.wrong_type(path, "integer")
    elif budget < 1024:
        reason = "Input should be greater than or equal to 1024"
        yield say.VALUE.fill(path=path, reason=reason)


def check_thinking_with_request(body: dict[str, Any], model: ClaudeModel) -> Iterator[Violation]:
    """The ``thinking`` member together with the model, the limits and the sampling."""
    config = members(body.get("thinking"))
    kind = as_string(config.get("type"))
    if kind in _KEYS and kind not in model.thinking_types:
        if kind in ("enabled", "disabled") and "adaptive" in model.thinking_types:
            rule = "ANT-33" if kind == "enabled" else "ANT-32"
            yield Violation(rule, say.THINKING_TYPE.format(kind=kind))
        else:
            yield say.THINKING_ADAPTIVE_TYPE.fill()
    budget, limit = as_integer(config.get("budget_tokens")), as_integer(body.get("max_tokens"))
    if kind == "enabled" and budget is not None and limit is not None and budget >= limit:
        yield say.BUDGET_LIMIT.fill()
    is_on = kind in ("enabled", "adaptive")
    if members(body.get("tool_choice")).get("type") in ("any", "tool"):
        if kind == "enabled":
            yield say.FORCED_TOOL.fill()
        elif not model.takes_forced_tool:
            yield say.FORCED_TOOL_REFUSED.fill()
    if model.is_new_generation:
        yield from _check_deprecated_sampling(body, model)
    elif is_on:
        yield from _check_sampling(body)


def check_effort(body: dict[str, Any], model: ClaudeModel) -> Iterator[Violation]:
    """``output_config.effort`` is a word that the model knows."""
    effort = as_string(members(body.get("output_config")).get("effort"))
    if effort is None or effort in model.efforts:
        return
    if model.efforts:
        yield say.EFFORT.fill(effort=effort, supported=", ".join(sorted(model.efforts)))
    else:
        yield say.EFFORT_UNKNOWN.fill()


def _check_deprecated_sampling(body: dict[str, Any], model: ClaudeModel) -> Iterator[Violation]:
    for name in _SAMPLING:
        # Sonnet 5 still takes the default values; the others take none.
        is_default = model.family == "sonnet" and name != "top_k" and body.get(name) == 1
        if body.get(name) is not None and not is_default:
            yield say.DEPRECATED.fill(name=name)


def _check_sampling(body: dict[str, Any]) -> Iterator[Violation]:
    temperature, nucleus = as_number(body.get("temperature")), as_number(body.get("top_p"))
    if temperature is not None and temperature != 1:
        yield say.SAMPLING_THINKING.fill()
    if nucleus is not None and nucleus < 0.95:
        yield say.TOP_P_THINKING.fill()
    if body.get("top_k") is not None:
        yield say.TOP_K_THINKING.fill()


def check_thinking_blocks(body: dict[str, Any], model: ClaudeModel) -> Iterator[Violation]:
    """Thinking blocks in the history."""
    turns = read_turns(body.get("messages"))
    for turn in turns:
        if turn.role == "assistant":
            yield from _check_turn(turn)
    loop = open_loop(turns)
    kind = members(body.get("thinking")).get("type")
    if kind == "enabled":
        yield from _check_loop_start(loop)
    elif kind == "disabled" or (kind is None and not model.thinks_by_default):
        yield from _check_loop_silent(loop)


def _check_turn(turn: MergedTurn) -> Iterator[Violation]:
    for placed in turn.of_kind("thinking"):
        if placed.block.get("signature") == "":
            yield say.SIGNATURE.fill(index=placed.index, position=placed.position)
    if turn.blocks and turn.blocks[-1].kind in _THINKING:
        yield say.FINAL_THINKING.fill(index=turn.blocks[-1].index)


def _check_loop_start(loop: list[MergedTurn]) -> Iterator[Violation]:
    if loop and loop[0].blocks and loop[0].blocks[0].kind not in _THINKING:
        first = loop[0].blocks[0]
        yield say.THINKING_MISSING.fill(index=first.index, found=first.kind)


def _check_loop_silent(loop: list[MergedTurn]) -> Iterator[Violation]:
    for turn in loop:
        for placed in turn.blocks:
            if placed.kind in _THINKING:
                yield say.THINKING_DISABLED.fill(index=placed.index, position=placed.position)
