"""The other side of the wire: a ``Say`` in each provider's bytes, written apart from our readers.

A new dialect is one module and one line here.
"""

from multi_llm_chat.testing.simulator.encoders.anthropic import ANTHROPIC
from multi_llm_chat.testing.simulator.encoders.chat import CHAT
from multi_llm_chat.testing.simulator.encoders.events import Encoder
from multi_llm_chat.testing.simulator.encoders.gemini import GEMINI
from multi_llm_chat.testing.simulator.encoders.responses import RESPONSES

ENCODERS: dict[str, Encoder] = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
}
