"""What an OpenAI model's name says about what it takes."""

import re

import msgspec

_GENERATION = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?![\d])")
_O_SERIES = re.compile(r"(?:^|/)o\d")


class OpenAIModel(msgspec.Struct, frozen=True):
    """What a model's name says about it."""

    can_reason: bool = False
    reasons_by_default: bool = False
    refuses_tools_while_reasoning: bool = False

    def is_reasoning(self, effort: object) -> bool:
        """Whether a request with this effort makes the model reason."""
        if effort is None:
            return self.reasons_by_default
        return self.can_reason and effort != "none"


def openai_model(name: str) -> OpenAIModel:
    """Read a model's abilities off its name; an unknown name promises nothing."""
    lowered = name.lower()
    if _O_SERIES.search(lowered):
        return OpenAIModel(can_reason=True, reasons_by_default=True)
    found = _GENERATION.search(lowered)
    if found is None or "chat" in lowered or "oss" in lowered:
        return OpenAIModel()
    version = (int(found.group(1)), int(found.group(2) or 0))
    if version < (5, 0):
        return OpenAIModel()
    # gpt-5.1 to gpt-5.4 do not reason unless asked; gpt-5 and gpt-5.5 onwards do (OAI-16, OAI-19).
    by_default = not (5, 1) <= version <= (5, 4) or "codex" in lowered or "-pro" in lowered
    return OpenAIModel(True, by_default, version >= (5, 4))
