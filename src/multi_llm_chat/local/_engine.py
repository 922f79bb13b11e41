"""The interface to llama.cpp: one model in this process that answers chat requests. No other module imports llama.cpp.

Rules:
1. llama.cpp is imported when a model is loaded, never before. Its code uses AVX2 on x86 processors: without it the
   process would die with an illegal instruction, so the processor is checked before the import. An unknown processor
   passes the check.
2. A request is a chat-completion body; its chunks are passed one by one to the callback ``on_chunk``.
3. An exception in the callback ends the generation at once and is raised from ``chat``: llama.cpp itself
   would swallow it. So a generation is cancelled by raising, while the prompt is read or afterwards.
4. No other process can use the engine. llama.cpp requires a listening socket: it gets one in
   a private folder that is deleted as soon as the model is loaded, or one that requires a random key.
5. One thread at a time uses an engine. An engine leaves one core free: two threads on two busy cores are slower than one.

``Runtime`` is one model file, one engine, one worker thread:
6. The model is loaded once, when it is first needed. Generations run one after the other.
7. Only the runtime's worker thread uses the engine. The events of a generation go
   through a queue, so a slow reader does not block the engine.
8. If the reader stops reading, the generation stops at the next token, or at the next piece of the prompt.
9. An exception in the worker is raised in the reader, after the events that were emitted before it.
"""

import asyncio
import os
import platform
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from multi_llm_chat.errors import BadRequest, ProviderError
from multi_llm_chat.events import Event
from multi_llm_chat.history.json_values import as_object, as_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.local.catalogue import PROVIDER

_X86 = frozenset({"x86_64", "amd64", "i386", "i686"})
_PROCESSORS = Path("/proc/cpuinfo")


def thread_count() -> int:
    """How many threads a model may use."""
    return max(1, (os.cpu_count() or 1) - 1)


def check_processor(description: Path = _PROCESSORS, machine: str | None = None) -> None:
    """Refuse a processor on which the runtime would crash.

    Args:
        description: The file in which Linux describes the processor.
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


#: The tokens of a prompt that are read at once; a generation can be stopped between two such pieces.
_PIECE = 128
#: MiB of memory for the cache of prompt prefixes.
_WARM = 256
#: The longest path of a Unix socket that every system accepts.
_SOCKET_PATH = 100

OnChunk = Callable[[JsonObject], None]


class LlamaEngine(Protocol):
    """A loaded model."""

    def chat(self, body: JsonObject, on_chunk: OnChunk) -> None:
        """Run one chat request; ``on_chunk`` receives every chunk of the answer."""
        ...


class _Server(Protocol):
    """The part of the runtime's server that is used."""

    def handle_chat_completions(
        self, body: JsonObject, on_chunk: Callable[[JsonObject], bool], /
    ) -> object: ...


def load_engine(path: Path, context: int) -> LlamaEngine:
    """Load a model file.

    Args:
        path: The GGUF file.
        context: How many tokens prompt and answer may have together.

    Raises:
        ProviderError: The runtime is not installed, does not run here, or cannot read the file.
    """
    check_processor()
    try:
        runtime: Any = import_module("xllamacpp")
    except ImportError as error:
        raise ProviderError(
            "The embedded model needs a runtime that is not installed: "
            f"pip install 'multi_llm_chat[local]' ({error}).",
            provider=PROVIDER,
            code="no_runtime",
        ) from None
    with _Door() as host:
        settings = runtime.CommonParams()
        settings.model.path = str(path)
        settings.hostnames = [host]
        settings.api_keys = [secrets.token_hex(32)]
        for name, value in _settings(context).items():
            setattr(settings, name, value)
        for processors in (settings.cpuparams, settings.cpuparams_batch):
            processors.n_threads = thread_count()
        try:
            return _ServerEngine(runtime.Server(settings))
        except RuntimeError as error:
            raise ProviderError(
                f"The model file {path.name} cannot be loaded; is it a whole GGUF file? "
                f"Install it again, or choose another with 'mlc local use' ({error}).",
                provider=PROVIDER,
                code="cannot_load",
            ) from None


def _settings(context: int) -> JsonObject:
    return {
        "n_ctx": context,
        "n_parallel": 1,
        "n_batch": _PIECE,
        "n_ubatch": _PIECE,
        "cache_ram_mib": _WARM,
        "warmup": False,
        "verbosity": -1,
        "ui": False,
        "endpoint_slots": False,
    }


class _Door:
    """Provides the address of the runtime's socket; on exit, deletes the socket's folder so that nobody can connect."""

    def __enter__(self) -> str:
        self._folder = tempfile.mkdtemp(prefix="mlc-")
        path = f"{self._folder}/engine.sock"
        unix = hasattr(socket, "AF_UNIX") and len(path) <= _SOCKET_PATH
        return path if unix else "127.0.0.1"

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _ServerEngine:
    """The model behind the runtime's server."""

    def __init__(self, server: _Server) -> None:
        self._server = server

    def chat(self, body: JsonObject, on_chunk: OnChunk) -> None:
        raised: list[BaseException] = []

        def receive(chunk: JsonObject) -> bool:
            if raised:
                return True
            try:
                on_chunk(_checked(chunk))
            except BaseException as error:  # noqa: BLE001 - raised below
                raised.append(error)
            return bool(raised)

        try:
            self._server.handle_chat_completions(body | {"stream": True}, receive)
        except ValueError as error:
            raise BadRequest(
                f"The embedded model cannot do this: {error}", provider=PROVIDER
            ) from None
        if raised:
            raise raised[0]


def _checked(chunk: JsonObject) -> JsonObject:
    fault = as_object(chunk.get("error"))
    if fault is None:
        return chunk
    if fault.get("type") == "exceed_context_size_error":
        raise PromptTooLong(int(fault["n_prompt_tokens"]))
    raise BadRequest(
        f"The embedded model cannot do this: {as_text(fault.get('message'))}",
        provider=PROVIDER,
        code=as_text(fault.get("type")),
    )


class PromptTooLong(Exception):
    """The prompt has ``tokens`` tokens, more than fit; used for control flow: the caller shortens the prompt."""

    def __init__(self, tokens: int) -> None:
        super().__init__(f"the prompt has {tokens} tokens")
        self.tokens = tokens


# The worker of one model file.


class ReaderGone(Exception):
    """Raised in the worker to end a generation whose reader has stopped reading."""


#: The items that the worker puts into the queue: events, at most one exception, and ``None`` at the end.
_Item: TypeAlias = Event | BaseException | None


class GenerationSink:
    """Passes the events of a generation to its reader."""

    def __init__(self, put: Callable[[_Item], None]) -> None:
        self._put = put
        self._stopped = threading.Event()

    def emit(self, event: Event) -> None:
        """Send an event to the reader; raises ``ReaderGone`` if the reader has stopped."""
        self.check()
        self._put(event)

    def check(self) -> None:
        """Raise ``ReaderGone`` if the reader has stopped."""
        if self._stopped.is_set():
            raise ReaderGone

    def stop(self) -> None:
        """The reader has stopped reading."""
        self._stopped.set()


#: The function of a whole generation: it runs in the worker, uses the engine and emits events.
Work: TypeAlias = Callable[[LlamaEngine, GenerationSink], None]


class Runtime:
    """A model file's engine and the one thread that uses it."""

    def __init__(self, load: Callable[[], LlamaEngine]) -> None:
        self._load = load
        self._engine: LlamaEngine | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-model")

    def stream(self, work: Work) -> Generator[Event]:
        """Run a generation and yield its events."""
        items: SimpleQueue[_Item] = SimpleQueue()
        sink = GenerationSink(items.put)
        running = self._start(work, sink, items.put)
        try:
            while (item := items.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            sink.stop()
            running.cancel()

    async def astream(self, work: Work) -> AsyncGenerator[Event]:
        """Run a generation and yield its events, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[_Item] = asyncio.Queue()

        def put(item: _Item) -> None:
            try:
                loop.call_soon_threadsafe(items.put_nowait, item)
            except RuntimeError:  # the loop is closed, so its readers have stopped
                raise ReaderGone from None

        sink = GenerationSink(put)
        running = self._start(work, sink, put)
        try:
            while (item := await items.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            sink.stop()
            running.cancel()

    def _start(
        self, work: Work, sink: GenerationSink, put: Callable[[_Item], None]
    ) -> Future[None]:
        def run() -> None:
            with suppress(ReaderGone):
                try:
                    sink.check()
                    if self._engine is None:
                        self._engine = self._load()
                    work(self._engine, sink)
                except ReaderGone:
                    raise
                except BaseException as error:  # noqa: BLE001 - raised in the reader
                    put(error)
                put(None)

        return self._worker.submit(run)
