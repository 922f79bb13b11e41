"""What this machine must be able to do before the runtime is touched.

Rules:
1. The runtime's code uses AVX2 on x86 processors: without it the process would die with an
   illegal instruction, so the processor is asked before the runtime is imported.
2. Where nothing can be learnt about the processor, it is taken to be able.
3. One core is left to everybody else: two threads on two busy cores are slower than one.
"""

import os
import platform
from pathlib import Path

from multi_llm_chat.errors import ProviderError

PROVIDER = "local"

_X86 = frozenset({"x86_64", "amd64", "i386", "i686"})
_PROCESSORS = Path("/proc/cpuinfo")


def thread_count() -> int:
    """How many threads a model may use."""
    return max(1, (os.cpu_count() or 1) - 1)


def check_processor(description: Path = _PROCESSORS, machine: str | None = None) -> None:
    """Refuse a processor on which the runtime would crash.

    Args:
        description: Where Linux describes the processor.
        machine: The architecture's name; this machine's otherwise.

    Raises:
        ProviderError: The processor has no AVX2 (``code`` is ``no_avx2``).
    """
    if (machine or platform.machine()).lower() not in _X86:
        return
    flags = _flags(description)
    if flags and "avx2" not in flags:
        raise ProviderError(
            "This processor has no AVX2, which the embedded model's runtime needs. Set a "
            "provider's key, or run a model with Ollama and choose the provider 'ollama'.",
            provider=PROVIDER,
            code="no_avx2",
        )


def _flags(description: Path) -> frozenset[str]:
    try:
        text = description.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()  # not Linux
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return frozenset(value.split())
    return frozenset()
