"""Every provider on this machine: a real HTTP server that speaks as they do.

    >>> with Simulator([Say("Hello.")]) as simulator:
    ...     answer = ask(base_url=simulator.base_url("anthropic"))

It is strict in what it accepts (a request that the provider would refuse gets the provider's own
text), scripted or ruled in what it answers, and as faulty as a test wants it.
"""

from multi_llm_chat.testing.simulator.demonstration import demo
from multi_llm_chat.testing.simulator.faults import (
    Disconnect,
    Drop,
    ErrorInStream,
    Garbage,
    Gate,
    Hang,
    KeepAlive,
    Quirk,
    Slow,
    Status,
)
from multi_llm_chat.testing.simulator.http import Prebuilt
from multi_llm_chat.testing.simulator.plan import Signal
from multi_llm_chat.testing.simulator.quirks.registry import QUIRKS, has_effect
from multi_llm_chat.testing.simulator.received_conversation import OfferedTool, ReceivedConversation
from multi_llm_chat.testing.simulator.reply_plan import encode_reply
from multi_llm_chat.testing.simulator.request_log import RecordedRequest, RequestLog
from multi_llm_chat.testing.simulator.says import Call, Say
from multi_llm_chat.testing.simulator.script import Reply, Rule, Script, always, echo
from multi_llm_chat.testing.simulator.service import Simulator

__all__ = [
    "QUIRKS",
    "Call",
    "Disconnect",
    "Drop",
    "ErrorInStream",
    "Garbage",
    "Gate",
    "Hang",
    "KeepAlive",
    "OfferedTool",
    "Prebuilt",
    "Quirk",
    "ReceivedConversation",
    "RecordedRequest",
    "Reply",
    "RequestLog",
    "Rule",
    "Say",
    "Script",
    "Signal",
    "Simulator",
    "Slow",
    "Status",
    "always",
    "demo",
    "echo",
    "encode_reply",
    "has_effect",
]
