"""The embedded model answers, streams, stops, and respects its window; with the real model."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from multi_llm_chat.errors import ContextTooLong, ProviderError, UsageError
from multi_llm_chat.events import Event, Finish, TextDelta, Usage
from multi_llm_chat.history.values import JsonObject, Text, Turn
from multi_llm_chat.local import DEFAULT_MODEL, LocalModel
from multi_llm_chat.local._engine import LlamaEngine, OnChunk, load_engine

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
STORY = [{"role": "user", "content": "Tell me a long story about a dragon."}]
EXACT: dict[str, Any] = {"temperature": 0, "max_tokens": 24}


def words(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


class Counting:
    """The real engine; it counts the chunks of each request."""

    def __init__(self, engine: LlamaEngine) -> None:
        self._engine = engine
        self.chunks: list[int] = []

    def chat(self, body: JsonObject, on_chunk: OnChunk) -> None:
        self.chunks.append(0)

        def count(chunk: JsonObject) -> None:
            self.chunks[-1] += 1
            on_chunk(chunk)

        self._engine.chat(body, count)


@pytest.fixture(scope="module")
def counted(models: Path) -> tuple[LocalModel, list[Counting]]:
    loaded: list[Counting] = []

    def load(path: Path, context: int) -> LlamaEngine:
        loaded.append(Counting(load_engine(path, context)))
        return loaded[-1]

    return LocalModel(DEFAULT_MODEL, folder=models, context=256, load=load), loaded


def test_it_answers_in_words_and_counts_its_tokens(model: LocalModel) -> None:
    completed = model.complete(QUESTION, options=EXACT)
    (said,) = completed.turn.parts
    assert isinstance(said, Text)
    assert "Paris" in said.content
    assert completed.turn.role == "local"
    assert completed.usage.input_tokens > 10
    assert 0 < completed.usage.output_tokens <= 24


def test_it_streams_word_by_word_then_usage_then_finish(model: LocalModel) -> None:
    events = list(model.stream(STORY, options={"temperature": 0, "max_tokens": 12}))
    *deltas, usage, finish = events
    assert len(deltas) >= 8
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert isinstance(usage, Usage)
    assert finish == Finish("length", "length")


def test_at_temperature_zero_it_repeats_itself(model: LocalModel) -> None:
    first, second = (words(list(model.stream(QUESTION, options=EXACT))) for _ in range(2))
    assert first == second


def test_the_async_twin_says_the_same(model: LocalModel) -> None:
    async def collected() -> list[Event]:
        return [event async for event in model.astream(QUESTION, options=EXACT)]

    assert words(asyncio.run(collected())) == words(list(model.stream(QUESTION, options=EXACT)))
    whole = model.acomplete(QUESTION, options={**EXACT, "max_tokens": 4})
    assert asyncio.run(whole).finish == Finish("length", "length")


def test_closing_the_stream_stops_the_model(
    counted: tuple[LocalModel, list[Counting]],
) -> None:
    model, engines = counted
    stream = model.stream(STORY, options={"temperature": 0, "max_tokens": 160})
    for _ in range(3):
        next(stream)
    stream.close()
    at = len(engines[0].chunks) - 1
    model.complete(QUESTION, options={"max_tokens": 1})  # arrives only after the stopped one
    assert engines[0].chunks[at] < 100


def test_cancelling_the_task_stops_the_model(
    counted: tuple[LocalModel, list[Counting]],
) -> None:
    model, engines = counted

    async def leave_early() -> int:
        begun = asyncio.Event()

        async def stream() -> None:
            async for _ in model.astream(STORY, options={"temperature": 0, "max_tokens": 160}):
                begun.set()

        task = asyncio.create_task(stream())
        await begun.wait()
        at = len(engines[0].chunks) - 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await model.acomplete(QUESTION, options={"max_tokens": 1})
        return engines[0].chunks[at]

    assert asyncio.run(leave_early()) < 100


def test_three_threads_at_once_each_get_their_whole_answer(model: LocalModel) -> None:
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(model.complete, QUESTION, options=EXACT) for _ in range(3)]
    first, second, third = (future.result().turn for future in asked)
    assert first == second == third


def test_a_file_is_loaded_once_however_many_models_use_it(
    counted: tuple[LocalModel, list[Counting]],
) -> None:
    model, engines = counted
    model.complete(QUESTION, options={"max_tokens": 1})
    model.complete(QUESTION, options={"max_tokens": 1})
    assert len(engines) == 1


def test_a_prompt_that_was_read_before_is_warm(model: LocalModel) -> None:
    prompt = "You are a careful and friendly assistant who answers questions about geography."
    model.complete(QUESTION, system_prompt=prompt, options={"max_tokens": 2})
    again = model.complete(QUESTION, system_prompt=prompt, options={"max_tokens": 2})
    assert again.usage.cache_read_tokens > again.usage.input_tokens / 2


def test_other_speakers_and_their_tools_become_text(model: LocalModel) -> None:
    history = [
        {"role": "system", "content": "Answer shortly."},
        {"role": "user", "content": "Which city is the capital of France?"},
        {"role": "claude", "content": [
            {"type": "text", "content": "Let me look."},
            {"type": "tool_call", "content": {
                "name": "look up", "arguments": {"q": "France"}, "tool_call_id": "toolu_1"}},
        ]},
        {"role": "tool", "content": [
            {"type": "tool_result", "name": "look up", "content": "Paris", "tool_call_id": "toolu_1"}
        ]},
        {"role": "gemini", "content": "It is Paris."},
        {"role": "local", "content": "I agree: Paris."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say hello."},
    ]  # fmt: skip
    completed = model.complete(history, options=EXACT)
    assert completed.turn.parts
    assert completed.finish.reason in {"stop", "length"}


def test_an_empty_history_is_answered_too(model: LocalModel) -> None:
    assert model.complete([], options={"max_tokens": 4}).usage.output_tokens > 0


def test_old_exchanges_leave_a_full_window_and_the_newest_stays(
    counted: tuple[LocalModel, list[Counting]],
) -> None:
    model, _ = counted
    old = [
        Turn(role, (Text(f"{number}: " + "word " * 30),))
        for number in range(12)
        for role in ("user", "local")
    ]
    completed = model.complete([*old, *QUESTION], options=EXACT)
    assert 24 < completed.usage.input_tokens <= 256 - 24
    assert "Paris" in str(completed.turn.parts)


def test_a_newest_message_that_cannot_fit_is_refused(
    counted: tuple[LocalModel, list[Counting]],
) -> None:
    model, _ = counted
    with pytest.raises(ContextTooLong, match="Shorten"):
        model.complete([{"role": "user", "content": "word " * 2000}])


def test_a_schema_holds_the_answer_to_its_shape(model: LocalModel) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    completed = model.complete(QUESTION, options={**EXACT, "max_tokens": 40, "schema": schema})
    (said,) = completed.turn.parts
    assert isinstance(said, Text)
    assert json.loads(said.content).keys() == {"city"}


def test_stop_words_stop_it(model: LocalModel) -> None:
    completed = model.complete(QUESTION, options={**EXACT, "stop": ("Paris",)})
    assert "Paris" not in str(completed.turn.parts)
    assert completed.finish.reason == "stop"


def test_mistakes_of_the_caller_are_raised_at_once(model: LocalModel) -> None:
    with pytest.raises(UsageError, match="Unknown options"):
        model.stream(QUESTION, options={"colour": "red"})
    with pytest.raises(UsageError):
        model.stream("no history")
    with pytest.raises(UsageError, match="no local model named"):
        LocalModel("gpt-17")


def test_a_model_that_is_not_installed_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="mlc local install") as caught:
        LocalModel(DEFAULT_MODEL, folder=tmp_path).stream(QUESTION)
    assert caught.value.code == "not_installed"


def test_a_file_that_is_no_model_is_refused_in_words(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF, but not really")
    with pytest.raises(ProviderError, match=r"broken\.gguf") as caught:
        LocalModel(path).complete(QUESTION)
    assert caught.value.code == "cannot_load"


def test_it_says_that_it_is_small(model: LocalModel) -> None:
    assert "very small model" in model.notice
    assert "\n" not in model.notice
