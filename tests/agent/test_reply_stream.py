"""Streams while they run: cancelling, closing, stopping, and their final state."""

import asyncio
import gc
import threading

import pytest
from tests.agent.replies import stream_of, whole_of
from tests.asking import ASKERS, HISTORY
from tests.servers import PATIENCE, AwaitEnd, ScriptedServer, serving, streamed, whole

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.errors import ConnectionFailed, ProviderError, StreamBroken, UsageError
from multi_llm_chat.events import TextDelta
from multi_llm_chat.history.values import Text

WORD = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
ENDLESS = streamed([WORD], ending=[AwaitEnd()])


def provider(server: ScriptedServer) -> LLMProvider:
    return create_provider("openai-chat", base_url=server.url, api_key="k")


def test_closing_a_stream_closes_the_servers_socket() -> None:
    with serving(ENDLESS) as server, provider(server) as asked:
        stream = asked.stream(HISTORY)
        assert next(stream) == TextDelta("Hello")
        stream.close()
        assert server.client_gone.wait(PATIENCE)


def test_closing_the_seeds_generator_closes_the_servers_socket() -> None:
    with serving(ENDLESS) as server, provider(server) as asked:
        chunks = asked.call_api(HISTORY)
        assert next(chunks) == {"type": "text", "content": "Hello"}
        chunks.close()
        assert server.client_gone.wait(PATIENCE)


def test_leaving_the_loop_closes_the_servers_socket() -> None:
    with serving(ENDLESS) as server, provider(server) as asked:
        for _ in asked.call_api(HISTORY):
            break
        gc.collect()
        assert server.client_gone.wait(PATIENCE)


def test_stopping_from_another_thread_keeps_what_was_said() -> None:
    with serving(ENDLESS) as server, provider(server) as asked:
        stream = asked.stream(HISTORY)
        said = threading.Event()
        stopper = threading.Thread(target=lambda: (said.wait(PATIENCE), stream.stop()))
        stopper.start()
        next(stream)
        said.set()
        with pytest.raises(StreamBroken, match="stopped here") as raised:
            next(stream)
        stopper.join(PATIENCE)
        assert raised.value.partial.parts == (Text("Hello"),)
        assert server.client_gone.wait(PATIENCE)


def test_stopping_before_the_reply_has_begun_ends_the_wait() -> None:
    with serving([AwaitEnd()]) as server, provider(server) as asked:
        stream = asked.stream(HISTORY)
        stopper = threading.Thread(target=lambda: (server.asked.wait(PATIENCE), stream.stop()))
        stopper.start()
        with pytest.raises(ConnectionFailed, match="stopped here"):
            next(stream)
        stopper.join(PATIENCE)
        assert server.client_gone.wait(PATIENCE)
        assert len(server.requests) == 1


def test_a_stream_that_was_stopped_before_it_began_sends_nothing_more() -> None:
    with serving(ENDLESS) as server, provider(server) as asked:
        stream = asked.stream(HISTORY)
        stream.stop()
        with pytest.raises(ConnectionFailed, match="stopped here"):
            next(stream)


def test_stopping_ends_the_wait_for_the_next_attempt() -> None:
    with serving(whole({}, 429, Retry_After="50")) as server, provider(server) as asked:
        stream = asked.stream(HISTORY)
        stopper = threading.Thread(target=lambda: (server.asked.wait(PATIENCE), stream.stop()))
        stopper.start()
        with pytest.raises(ProviderError, match=r"429|stopped here"):  # whichever comes first
            list(stream)
        stopper.join(PATIENCE)
        assert len(server.requests) == 1


def test_closing_the_provider_from_another_thread_ends_its_streams() -> None:
    with serving(ENDLESS) as server, provider(server) as asked:
        said = threading.Event()
        closer = threading.Thread(target=lambda: (said.wait(PATIENCE), asked.close()))
        closer.start()
        stream = asked.stream(HISTORY)
        next(stream)
        said.set()
        with pytest.raises(StreamBroken):
            next(stream)
        closer.join(PATIENCE)
        assert server.client_gone.wait(PATIENCE)


def test_cancelling_the_task_closes_the_servers_socket() -> None:
    async def run(server: ScriptedServer) -> None:
        async with provider(server) as asked:
            said = asyncio.Event()

            async def read() -> None:
                async for _ in asked.astream(HISTORY):
                    said.set()

            task = asyncio.create_task(read())
            await said.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.client_gone.wait, PATIENCE)

    with serving(ENDLESS) as server:
        asyncio.run(run(server))


@pytest.mark.parametrize("plain", [False, True], ids=["events", "seed"])
def test_closing_an_async_stream_closes_the_servers_socket(plain: bool) -> None:
    async def run(server: ScriptedServer) -> None:
        async with provider(server) as asked:
            stream = asked.acall_api(HISTORY) if plain else asked.astream(HISTORY)
            await anext(stream)
            await stream.aclose()
            assert await asyncio.to_thread(server.client_gone.wait, PATIENCE)

    with serving(ENDLESS) as server:
        asyncio.run(run(server))


def test_connections_are_used_again_between_calls() -> None:
    with serving(stream_of("openai_chat"), whole_of("openai_chat")) as server:
        with provider(server) as asked:
            list(asked.stream(HISTORY))
            list(asked.call_api(HISTORY))
            asked.complete(HISTORY)
        assert server.connections == 1
        asked.complete(HISTORY)
        asked.close()
        assert server.connections == 2


def test_async_connections_are_used_again_between_calls() -> None:
    async def run(server: ScriptedServer) -> None:
        async with provider(server) as asked:
            _ = [event async for event in asked.astream(HISTORY)]
            _ = [chunk async for chunk in asked.acall_api(HISTORY)]
            await asked.acomplete(HISTORY)

    with serving(stream_of("openai_chat"), whole_of("openai_chat")) as server:
        asyncio.run(run(server))
        assert server.connections == 1


def test_the_reply_is_there_in_the_end_and_not_before() -> None:
    with serving(stream_of("anthropic")) as server:
        asked = create_provider("claude", base_url=server.url, api_key="k")
        with asked, asked.stream(HISTORY) as stream:
            with pytest.raises(UsageError, match="not complete"):
                _ = stream.reply
            list(stream)
            assert stream.reply.text == "Hello, 世界"
            assert stream.reply.entry["role"] == "claude"


def test_many_streams_run_at_once() -> None:
    async def run(server: ScriptedServer) -> None:
        async with provider(server) as asked:
            replies = await asyncio.gather(*(asked.acomplete(HISTORY) for _ in range(30)))
            assert {reply.text for reply in replies} == {"Hello, 世界"}

    with serving(whole_of("openai_chat")) as server:
        asyncio.run(run(server))


def test_an_unused_stream_opens_nothing() -> None:
    with serving(ENDLESS) as server, provider(server) as asked:
        asked.stream(HISTORY).close()
        asked.call_api(HISTORY)
        assert server.connections == 0


def test_asking_in_one_event_loop_after_the_other_works() -> None:
    with serving(whole({}), whole_of("openai_chat")) as server:
        asked = provider(server)
        server.play(whole_of("openai_chat"))
        for _ in range(3):
            assert ASKERS["async"].complete(asked).reply is not None
