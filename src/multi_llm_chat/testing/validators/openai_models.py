"""What an OpenAI model's name says about what it takes: the kit's own table."""

import re

import msgspec

_GENERATION = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?![\d])")
_O_SERIES = re.compile(r"(?:^|/)o\d")
_WITHOUT_SYSTEM = re.compile(r"(?:^|/)o1-(?:mini|preview)")
_OWN = re.compile(r"^(?:gpt-\d|o\d)")
_SOUND = re.compile(r"gpt-audio")
_LOW_TO_HIGH = ("low", "medium", "high")


class OpenAIModel(msgspec.Struct, frozen=True):
    """What a model's name says about it; ``efforts`` is empty where nothing is known."""

    can_reason: bool = False
    reasons_by_default: bool = False
    refuses_tools_while_reasoning: bool = False
    efforts: tuple[str, ...] = ()
    takes_stop: bool = True
    takes_system: bool = True
    is_known_deaf: bool = False
    is_always_on: bool = False
    #: A model of sound: no pictures, no structured output, no logprobs (recorded: maruel/genai providers/openaichat gpt-audio).
    is_for_sound: bool = False

    def is_reasoning(self, effort: object) -> bool:
        """Whether a request with this effort makes the model reason."""
        if effort is None or self.is_always_on:
            return self.reasons_by_default
        return self.can_reason and effort != "none"


def openai_model(name: str) -> OpenAIModel:
    """Read a model's abilities off its name; an unknown name promises nothing."""
    lowered = name.lower().replace("gpt-35", "gpt-3.5")  # as Azure spells it
    deaf = bool(_OWN.match(lowered)) and "audio" not in lowered
    if _O_SERIES.search(lowered):
        return OpenAIModel(
            can_reason=True,
            reasons_by_default=True,
            efforts=() if _WITHOUT_SYSTEM.search(lowered) else _LOW_TO_HIGH,
            takes_stop="o3-mini" in lowered,
            takes_system=not _WITHOUT_SYSTEM.search(lowered),
            is_known_deaf=deaf,
            is_always_on=True,
        )
    if _SOUND.match(lowered):
        return OpenAIModel(is_for_sound=True)
    found = _GENERATION.search(lowered)
    if found is None or "chat" in lowered or "oss" in lowered:
        return OpenAIModel()
    version = (int(found.group(1)), int(found.group(2) or 0))
    if version < (5, 0):
        return OpenAIModel(is_known_deaf=deaf)
    variant = "codex" in lowered or "-pro" in lowered
    # gpt-5.1 to gpt-5.4 do not reason unless asked; gpt-5 and gpt-5.5 onwards do (OAI-16, OAI-19).
    by_default = not (5, 1) <= version <= (5, 4) or variant
    return OpenAIModel(
        can_reason=True,
        reasons_by_default=by_default,
        refuses_tools_while_reasoning=version >= (5, 4),
        efforts=() if variant else _efforts(version),
        takes_stop=False,
        is_known_deaf=deaf,
        is_always_on=variant or version == (5, 0),
    )


def _efforts(version: tuple[int, int]) -> tuple[str, ...]:
    """The words of a plain gpt-5 or later; sources disagree on ``minimal`` from gpt-5.1 on, so it is not refused (OAI-30)."""
    if version == (5, 0):
        return ("minimal", *_LOW_TO_HIGH)
    deepest = ("xhigh",) if version >= (5, 2) else ()
    return ("none", "minimal", *_LOW_TO_HIGH, *deepest, *(("max",) if version >= (5, 6) else ()))
