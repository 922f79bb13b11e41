"""The context window of each model: how many tokens it can read and write.

Rules:
1. The first row of the table whose pattern is found in the model's lower-case name decides, so that
   ``openai/gpt-5`` and ``gpt-5-2025-08-07`` match too; narrower patterns come first.
2. Windows from the caller or the configuration (``windows=``, ``[context.windows]``) take precedence over those that a
   plug-in registered, and these over the table.
3. An unknown model gets a small default window with ``is_known=False``.
4. A request may use the window minus the room for the answer (at most a third of the window) and a reserve of 2,000 tokens
   (at most an eighth).

The figures are those of genai-prices 0.2.1 (November 2026); the current Claude, GPT and Gemini models and Ollama's
defaults were compared with their makers' pages. Where sources disagree, the smaller figure stands here.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

# The table.


def _row(pattern: str, tokens: int, output: int) -> tuple[re.Pattern[str], int, int]:
    return re.compile(pattern), tokens, output


ROWS: Final = (
    # OpenAI. From gpt-5.4 on the large models take 922,000 in and 128,000 out; the small ones 272,000 in.
    _row(r"gpt-oss", 131_072, 32_768),
    _row(r"gpt-5[.\d]*-chat|gpt-5\.3(?!-codex)", 128_000, 16_384),
    _row(r"gpt-5\.\d+-(mini|nano)", 400_000, 128_000),
    _row(r"gpt-5\.[4-9]|gpt-[6-9]", 1_000_000, 128_000),
    _row(r"gpt-5", 400_000, 128_000),
    _row(r"gpt-4\.1", 1_000_000, 32_768),
    _row(r"gpt-4o|chatgpt-4o", 128_000, 16_384),
    _row(r"gpt-4\.5|gpt-4-turbo|gpt-4-(1106|0125|vision)", 128_000, 4_096),
    _row(r"gpt-4-32k", 32_768, 8_192),
    _row(r"gpt-4", 8_192, 4_096),
    _row(r"gpt-3\.5", 16_385, 4_096),
    _row(r"\bo1-(mini|preview)", 128_000, 32_768),
    _row(r"\bo[1-4]\b|codex-mini", 200_000, 100_000),
    # Anthropic. One million from Opus and Sonnet 4.6 and in the 5 family; before that only as a beta.
    _row(r"claude-(opus|sonnet)-4[-.][6-9]|claude-[a-z]+-[5-9]", 1_000_000, 128_000),
    _row(r"claude-[a-z]+-4[-.]5|claude-sonnet-4|claude-3[-.]7", 200_000, 64_000),
    _row(r"claude-opus-4", 200_000, 32_000),
    _row(r"claude-(3|2)", 200_000, 8_192),
    # Google. The published limit is for the input alone; the answer has its own.
    _row(r"gemini-[\d.]+-[a-z-]*(image|tts)", 32_768, 8_192),
    _row(r"gemini-[\d.]*-?live|gemini-[\d.]+-[a-z-]*live", 131_072, 8_192),
    _row(r"gemini-(2\.0|1\.5)|gemini-flash-1\.5", 1_000_000, 8_192),
    _row(r"gemini-(2\.5|[3-9])", 1_000_000, 65_536),
    _row(r"gemma-4", 262_144, 8_192),
    _row(r"gemma-3", 128_000, 8_192),
    # xAI.
    _row(r"grok-4[-.]?(1-)?fast", 2_000_000, 30_000),
    _row(r"grok-4\.(20|3)", 1_000_000, 64_000),
    _row(r"grok-4\.[4-9]", 500_000, 64_000),
    _row(r"grok-(4|code|build)", 256_000, 64_000),
    _row(r"grok-3", 131_072, 16_384),
    # Mistral.
    _row(r"mistral-large-4", 1_000_000, 65_536),
    _row(r"mistral-(large|medium|small)|devstral|codestral", 128_000, 32_768),
    _row(r"ministral|magistral|pixtral|nemo", 128_000, 32_768),
    _row(r"mixtral|mistral-7b", 32_768, 8_192),
    # DeepSeek. Names without a version have pointed to several; the smallest of them was 64,000.
    _row(r"deepseek-(v4|flash)", 1_000_000, 65_536),
    _row(r"deepseek-v3", 128_000, 8_192),
    _row(r"deepseek", 64_000, 8_192),
    # Open weights, as hosted ones are usually served.
    _row(r"kimi-k3|glm-5", 1_000_000, 65_536),
    _row(r"kimi-k2", 131_072, 16_384),
    _row(r"glm-4", 128_000, 32_768),
    _row(r"llama-?4|llama-?3[.p][1-3]", 128_000, 8_192),
    _row(r"llama", 8_192, 2_048),
    _row(r"qwen-?3", 131_072, 16_384),
    _row(r"qwen", 32_768, 8_192),
    _row(r"smollm2", 4_096, 1_024),
)

#: Servers whose own setting decides, whatever the model's window. Ollama uses 4,096 on a machine
#: with less than 24 GiB of video memory and silently drops the beginning of a longer request
#: (docs.ollama.com/context-length); LM Studio's default is 4,096 as well.
SERVERS: Final = {
    "ollama": (4_096, 1_024),
    "lmstudio": (4_096, 1_024),
    "local": (4_096, 1_024),
    "llamacpp": (8_192, 2_048),
}

#: For unknown models: small enough for most, large enough to work with.
UNKNOWN: Final = (32_768, 4_096)


# The window of a model.

#: Tokens kept free for counting errors and for text that the repair adds.
RESERVE: Final = 2_000


class Window(Struct, frozen=True):
    """A model's window: ``tokens`` for request and answer together, and at most ``output`` of them for the answer."""

    tokens: int
    output: int = 0
    is_known: bool = True

    def budget(self, max_tokens: int | None = None) -> int:
        """How many tokens a request may have; ``max_tokens`` is the requested maximum of the answer."""
        wanted = max_tokens or self.output or self.tokens
        reserve = min(RESERVE, self.tokens // 8)
        return self.tokens - min(wanted, self.tokens // 3) - reserve


_REGISTERED: dict[str, int | Window] = {}


def register_windows(windows: Mapping[str, int | Window]) -> None:
    """Register the windows of a plug-in's models, by name or by pattern such as ``acme-*``."""
    _REGISTERED.update(windows)


def window_of(
    model: str, provider: str = "", overrides: Mapping[str, int | Window] | None = None
) -> Window:
    """The window of a model.

    Args:
        model: The model's name, with or without the vendor's prefix.
        provider: The provider that serves it: some servers allow less than the model's window.
        overrides: Windows by model name or by pattern such as ``my-*``, as in the configuration.
    """
    for pattern, size in (*(overrides or {}).items(), *_REGISTERED.items()):
        if fnmatchcase(model, pattern):
            return size if isinstance(size, Window) else Window(size)
    served = SERVERS.get(provider)
    if served is not None:
        return Window(*served, is_known=False)
    name = model.lower()
    for row, tokens, output in ROWS:
        if row.search(name):
            return Window(tokens, output)
    return Window(*UNKNOWN, is_known=False)
