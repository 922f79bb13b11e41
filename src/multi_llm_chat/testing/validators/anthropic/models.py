"""What a Claude model's name says about what it takes."""

import re

import msgspec

_NEW_STYLE = re.compile(r"claude-([a-z]+)-(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_OLD_STYLE = re.compile(r"claude-(\d+)(?:[-.](\d{1,2}))?-[a-z]+")


class ClaudeModel(msgspec.Struct, frozen=True):
    """Abilities of one model; an unknown name gets those of the newest generation."""

    family: str = ""
    version: tuple[int, int] = (5, 0)

    @property
    def is_new_generation(self) -> bool:
        """Opus 4.7 and later and the 5 family: adaptive thinking only, no sampling parameters."""
        if self.family == "mythos":
            return True
        return self.version >= ((4, 7) if self.family == "opus" else (5, 0))

    @property
    def thinking_types(self) -> tuple[str, ...]:
        """The values of ``thinking.type`` that the model takes."""
        if self.is_new_generation:
            return ("adaptive", "disabled", "between_tools")
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
    def takes_system_messages(self) -> bool:
        """Whether a system message may stand in the middle of the conversation."""
        return self.version >= (4, 8) or self.is_new_generation


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
