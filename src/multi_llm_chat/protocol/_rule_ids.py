"""Maps the rule that a change of a request names to the target provider's own rule.

Every step of the repair and every encoder names the rule of one provider that requires the change: the
one with the clearest text. The notes of a request have the id of the target's own rule instead.

Rules:
1. A provider's row has families of rules: its own, and then OpenAI's if it speaks that dialect.
2. The first family that has the same rule, under any id, provides the id.
3. A requirement without a row in the catalogue ends in ``-DOC``, one of JSON itself in ``-JSON``.
4. A requirement of a model's own template (``MIS-06``) keeps its id if the server has no such rule.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

#: The families of a row; LM Studio runs llama.cpp, Hugging Face's router servers like vLLM.
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("RSP", "OAI"),
    "openai-chat": ("OAI",),
    "anthropic": ("ANT",),
    "gemini": ("GEM",),
    "groq": ("GRQ", "OAI"),
    "cerebras": ("CER", "OAI"),
    "fireworks": ("FWK", "OAI"),
    "mistral": ("MIS", "OAI"),
    "deepseek": ("DSK", "OAI"),
    "kimi": ("KMI", "OAI"),
    "dashscope": ("QWN", "OAI"),
    "zai": ("ZAI", "OAI"),
    "xai": ("XAI", "OAI"),
    "openrouter": ("ORT", "OAI"),
    "together": ("OAI",),
    "azure": ("AZR", "OAI"),
    "ollama": ("OLL", "OAI"),
    "vllm": ("VLL", "OAI"),
    "llamacpp": ("LCP", "OAI"),
    "local": ("LCP", "OAI"),
    "lmstudio": ("LCP", "OAI"),
    "huggingface": ("VLL", "OAI"),
}

#: The ids of one rule: the one that a step names, and those of the other families.
_SAME: Final[Mapping[str, Mapping[str, str]]] = {
    # Calls and their results.
    "OAI-01": {"RSP": "RSP-02", "ANT": "ANT-01", "GEM": "GEM-02", "MIS": "MIS-03", "DSK": "DSK-04"},
    "OAI-02": {"RSP": "RSP-01", "ANT": "ANT-02", "GEM": "GEM-03", "MIS": "MIS-02", "DSK": "DSK-04"},
    "OAI-03": {"RSP": "RSP-02", "ANT": "ANT-01", "GEM": "GEM-02", "MIS": "MIS-04", "DSK": "DSK-04"},
    "GEM-03": {"OAI": "OAI-03", "RSP": "RSP-DOC", "ANT": "ANT-03", "MIS": "MIS-03", "DSK": "DSK-04"},
    "GEM-10": {"OAI": "OAI-03", "RSP": "RSP-09", "ANT": "ANT-03", "MIS": "MIS-04", "DSK": "DSK-04"},
    "ANT-04": {"OAI": "OAI-23", "RSP": "RSP-02", "GEM": "GEM-03", "MIS": "MIS-03", "DSK": "DSK-04"},
    "VLL-06": {"OAI": "OAI-DOC", "LCP": "LCP-06"},
    # Ids, names and arguments.
    "ANT-05": {
        "OAI": "OAI-07", "RSP": "RSP-07", "GEM": "GEM-20", "MIS": "MIS-01", "ORT": "ORT-02",
        "AZR": "AZR-01", "OLL": "OLL-08", "VLL": "VLL-07", "LCP": "LCP-06",
    },
    "OAI-08": {
        "RSP": "RSP-07", "ANT": "ANT-17", "GEM": "GEM-11", "MIS": "MIS-09", "DSK": "DSK-07",
        "ORT": "ORT-02", "AZR": "AZR-01",
    },
    "DSK-06": {"OAI": "OAI-08", "RSP": "RSP-07", "ANT": "ANT-17", "GEM": "GEM-11", "MIS": "MIS-09"},
    "GEM-12": {"OAI": "OAI-DOC", "RSP": "RSP-DOC", "ANT": "ANT-17", "MIS": "MIS-DOC"},
    "VLL-01": {
        "OAI": "OAI-20", "RSP": "RSP-DOC", "ANT": "ANT-23", "GEM": "GEM-18", "OLL": "OLL-02",
        "LCP": "LCP-01",
    },
    # The content of turns.
    "OAI-10": {"RSP": "RSP-DOC", "ANT": "ANT-DOC", "GEM": "GEM-DOC"},
    "ANT-06": {"OAI": "OAI-10", "RSP": "RSP-DOC", "GEM": "GEM-08", "MIS": "MIS-08", "LCP": "LCP-02"},
    "ANT-07": {
        "OAI": "OAI-10", "RSP": "RSP-DOC", "GEM": "GEM-08", "MIS": "MIS-08", "LCP": "LCP-02",
        "OLL": "OLL-01", "XAI": "XAI-01", "CER": "CER-03",
    },
    "ANT-26": {
        "OAI": "OAI-09", "RSP": "RSP-DOC", "GEM": "GEM-08", "OLL": "OLL-01", "XAI": "XAI-01",
        "CER": "CER-03", "LCP": "LCP-02",
    },
    "ANT-22": {
        "OAI": "OAI-JSON", "RSP": "RSP-DOC", "GEM": "GEM-JSON", "MIS": "MIS-JSON",
        "OLL": "OLL-JSON", "VLL": "VLL-JSON", "LCP": "LCP-JSON",
    },
    "OAI-11": {"RSP": "RSP-DOC", "ANT": "ANT-DOC", "GEM": "GEM-DOC", "OLL": "OLL-05", "LCP": "LCP-08", "FWK": "FWK-02", "DSK": "DSK-09", "QWN": "QWN-03"},
    "OAI-17": {"OLL": "OLL-03"},
    "OAI-26": {"ANT": "ANT-39", "GEM": "GEM-29"},
    # Thinking.
    "ANT-11": {
        "OAI": "OAI-11", "RSP": "RSP-05", "GEM": "GEM-06", "GRQ": "GRQ-01", "CER": "CER-01",
        "FWK": "FWK-01", "MIS": "MIS-11", "DSK": "DSK-02", "ORT": "ORT-03", "VLL": "VLL-08",
    },
    "ANT-12": {
        "OAI": "OAI-DOC", "GEM": "GEM-01", "MIS": "MIS-DOC", "DSK": "DSK-05", "OLL": "OLL-DOC",
        "VLL": "VLL-06", "LCP": "LCP-04",
    },
    "ANT-14": {"OAI": "OAI-11", "RSP": "RSP-09", "GEM": "GEM-DOC"},
    "GRQ-01": {
        "OAI": "OAI-11", "CER": "CER-01", "FWK": "FWK-01", "MIS": "MIS-11", "DSK": "DSK-02",
        "ORT": "ORT-03", "VLL": "VLL-08",
    },
    # Roles and their order.
    "OAI-18": {"RSP": "RSP-09", "ANT": "ANT-21", "GEM": "GEM-21"},
    "ANT-08": {
        "OAI": "OAI-21", "RSP": "RSP-11", "GEM": "GEM-09", "MIS": "MIS-07", "VLL": "VLL-06",
        "LCP": "LCP-04",
    },
    "ANT-20": {
        "OAI": "OAI-DOC", "GEM": "GEM-21", "MIS": "MIS-05", "DSK": "DSK-05", "OLL": "OLL-DOC",
        "VLL": "VLL-06", "LCP": "LCP-06",
    },
    "ANT-21": {
        "OAI": "OAI-DOC", "RSP": "RSP-DOC", "GEM": "GEM-01", "MIS": "MIS-DOC", "DSK": "DSK-05",
        "OLL": "OLL-DOC", "VLL": "VLL-06", "LCP": "LCP-06",
    },
    "MIS-06": {"AZR": "AZR-03", "VLL": "VLL-06", "LCP": "LCP-06"},
    # Tools and settings.
    "GRQ-07": {"OAI": "OAI-13", "GEM": "GEM-DOC", "AZR": "AZR-01"},
    "OAI-14": {
        "ANT": "ANT-18", "GEM": "GEM-13", "FWK": "FWK-02", "MIS": "MIS-10", "AZR": "AZR-01",
        "OLL": "OLL-06", "LCP": "LCP-07",
    },
    "OAI-15": {"ANT": "ANT-DOC", "GEM": "GEM-DOC", "GRQ": "GRQ-06", "VLL": "VLL-03"},
    "OAI-12": {
        "RSP": "RSP-08", "ANT": "ANT-19", "GEM": "GEM-DOC", "GRQ": "GRQ-02", "FWK": "FWK-01",
        "MIS": "MIS-11", "XAI": "XAI-03",
    },
    "OAI-19": {"XAI": "XAI-02"},
    "OAI-31": {"GEM": "GEM-32"},
    "OAI-30": {
        "GRQ": "GRQ-09", "MIS": "MIS-17", "DSK": "DSK-11", "XAI": "XAI-03", "KMI": "KMI-03",
        "ZAI": "ZAI-01",
    },
    "DSK-08": {"KMI": "KMI-02", "QWN": "QWN-01"},
    "FWK-02": {"OAI": "OAI-12"},
    "MIS-11": {"OAI": "OAI-12", "ANT": "ANT-19", "FWK": "FWK-01"},
    "MIS-12": {"OAI": "OAI-15"},
}  # fmt: skip


@lru_cache(maxsize=2048)
def own_rule(provider: str, rule: str) -> str:
    """The id of the provider's own rule with the same requirement."""
    same = _SAME.get(rule, {})
    for family in FAMILIES.get(provider, ()):
        if rule.startswith(f"{family}-"):
            return rule
        if family in same:
            return same[family]
    return rule
