"""A client of the official package for one server, ready to be entered.

Rules:
1. What the program does not allow is not offered to the server either.
2. The server's description of its own results is not enforced: its patterns would run in our process, and
   a model can read a result that is not as promised.
"""

from importlib.metadata import version
from typing import Any, Final

import mcp_types
from mcp.client import Client, ClientRequestContext
from mcp.client.session import MessageHandlerFnT

from multi_llm_chat.tools.mcp.server_requests import Answers, Callbacks

_LOG_LEVEL: Final = "info"
_PROGRAM: Final = "multi_llm_chat"


def new_client(
    transport: Any, answers: Answers, callbacks: Callbacks, on_message: MessageHandlerFnT
) -> Client:
    """A client that is not connected yet."""
    listens = callbacks.on_event is not None
    return Client(
        transport,
        client_info=mcp_types.Implementation(name=_PROGRAM, version=version(_PROGRAM)),
        elicitation_callback=answers.elicit if callbacks.elicit is not None else _decline,
        sampling_callback=answers.sample if answers.may_sample else None,
        list_roots_callback=answers.roots if callbacks.roots else None,
        logging_callback=answers.log if listens else None,
        log_level=_LOG_LEVEL if listens else None,
        message_handler=on_message,
        cache=None,
    )


async def trust_results(client: Client) -> None:
    """Leave the results of this client unchecked (rule 2)."""
    client.session.validate_tool_result = _unchecked


async def _unchecked(name: str, result: mcp_types.CallToolResult) -> None:
    del name, result


async def _decline(
    context: ClientRequestContext, params: mcp_types.ElicitRequestParams
) -> mcp_types.ElicitResult | mcp_types.ErrorData:
    """Nobody can be asked: a clear no, which a server can handle better than an error."""
    del context, params
    return mcp_types.ElicitResult(action="decline")
