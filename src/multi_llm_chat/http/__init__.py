"""Sends requests and streams replies over HTTP, with and without ``async``.

Each transport is imported with its first request, so that a program that only renders histories, or
uses only one of the two, does not load the other's modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from multi_llm_chat.http._network_settings import Timeouts, TransportSettings, settings_from

if TYPE_CHECKING:
    from multi_llm_chat.http.async_transport import AsyncTransport
    from multi_llm_chat.http.sync_transport import SyncTransport

__all__ = ["Timeouts", "TransportSettings", "open_async", "open_sync", "settings_from"]


def open_async(settings: TransportSettings) -> "AsyncTransport":
    """A transport for use with ``async``."""
    return import_module("multi_llm_chat.http.async_transport").AsyncTransport(settings)


def open_sync(settings: TransportSettings) -> "SyncTransport":
    """A transport for use without ``async``."""
    return import_module("multi_llm_chat.http.sync_transport").SyncTransport(settings)
