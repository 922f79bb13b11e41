"""Counting tokens without a tokenizer, and context windows."""

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.histories import nasty_histories

from multi_llm_chat.agent.window import Counter, Window, estimate_tokens, fit, window_of
from multi_llm_chat.agent.window._summary import limited, summary_request
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import Media, Text, Thinking, ToolCall, ToolResult, Turn
from multi_llm_chat.metering.model_windows import ROWS
from multi_llm_chat.request import Options, ToolDefinition


def test_dense_scripts_have_more_tokens_than_others():
    assert estimate_tokens("") == 0
    assert estimate_tokens("a" * 40) == 10
    assert estimate_tokens("東京の天気") == 4  # 5 / 1.5
    assert estimate_tokens("안녕하세요") == 4
    assert estimate_tokens("東京 is big") == 4  # 2 / 1.5 + 7 / 4


@given(st.text(max_size=50), st.text(max_size=50))
def test_a_longer_text_never_has_fewer_tokens(one: str, other: str):
    together = estimate_tokens(one + other)
    assert max(estimate_tokens(one), estimate_tokens(other)) <= together
    assert together <= estimate_tokens(one) + estimate_tokens(other)


@given(nasty_histories)
def test_any_history_can_be_counted(history: list[object]):
    turns = read_history(history)
    counter = Counter()
    assert counter.turns(turns) == sum(map(Counter().turn, turns)) == counter.turns(turns)
    assert all(counter.turn(turn) == 0 for turn in turns if turn.unreadable is not None)


def test_a_turn_is_counted_once():
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return 1

    counter = Counter(count, is_exact=True)
    turns = (Turn("user", (Text("hello"),)), Turn("claude", (Text("hi"),)))
    assert counter.turns(turns) == counter.turns(turns) == 10
    assert asked == ["hello", "hi"]


def test_every_kind_of_part_has_its_tokens():
    def tokens(part: object) -> int:
        return Counter().turn(Turn("claude", (part,))) - 4  # pyright: ignore[reportArgumentType]

    assert tokens(Text("x" * 40)) == 10
    assert tokens(ToolCall("look", {"at": "x" * 39}, "c1")) > 12 + 10
    assert tokens(ToolResult("look", {"found": ["x" * 40]}, "c1")) > 12 + 10
    assert tokens(Thinking("x" * 40, opaque={"signature": "y" * 400})) > 110
    assert tokens(Media("image/png", "A" * 9_000_000)) == 1_600
    assert tokens(Media("application/pdf", "A" * 4_000_000)) > 90_000


def test_schemas_of_tools_are_counted_in_any_form():
    schema = {"type": "object", "properties": {"location": {"type": "string"}}}
    own = Counter().tools([ToolDefinition("weather", "Tell the weather", schema)])
    mcp = Counter().tools(
        [{"name": "weather", "description": "Tell the weather", "inputSchema": schema}]
    )
    assert own > 20
    assert abs(own - mcp) < 3


def test_windows_are_known_by_name_by_server_and_by_order():
    assert window_of("gpt-5.6-terra").tokens == 1_000_000
    assert window_of("openai/gpt-5.4-mini").tokens == 400_000
    assert window_of("gpt-4o-2024-05-13") == Window(128_000, 16_384)
    assert window_of("gpt-4").tokens == 8_192
    assert window_of("claude-sonnet-4-5-20250929").tokens == 200_000
    assert window_of("claude-sonnet-5").tokens == 1_000_000
    assert window_of("gemini-3.7-flash").output == 65_536
    assert window_of("o3-mini").tokens == 200_000
    assert window_of("qwen3", "ollama") == Window(4_096, 1_024, is_known=False)
    assert not window_of("somebody/knows-better").is_known
    assert window_of("my-model", overrides={"my-*": 99_000}).tokens == 99_000
    assert window_of("gpt-5", overrides={"gpt-5": Window(5, 1)}) == Window(5, 1)


def test_every_row_of_the_table_has_room_for_an_answer():
    for pattern, tokens, output in ROWS:
        assert 0 < output < tokens, pattern


def test_the_budget_is_the_window_without_answer_and_reserve():
    assert Window(200_000, 64_000).budget() == 134_000
    assert Window(200_000, 64_000).budget(1_000) == 197_000
    assert Window(8_000, 8_000).budget() == 8_000 - 2_666 - 1_000
    assert Window(1_000_000, 128_000).budget(900_000) > 600_000


def test_fit_counts_system_text_and_tools_too():
    history = [
        {"role": role, "content": "word " * 400} for _ in range(4) for role in ("user", "claude")
    ]
    everything, nothing = fit(history, 20_000)
    assert (len(everything), nothing) == (8, None)
    _, by_system = fit(history, 20_000, "rule " * 5_000)
    tool = ToolDefinition("look", "see " * 5_000)
    _, by_tools = fit(history, 20_000, tools=[tool])
    _, by_answer = fit(history, 8_000, options=Options(max_tokens=3_000))
    for note in (by_system, by_tools, by_answer):
        assert note is not None
        assert note.fits
        assert note.tokens_after <= note.budget
    assert by_system is not None
    assert by_system.budget == 20_000 - 6_666 - 2_000


def test_a_cut_is_carried_on_and_can_be_forgotten():
    history = [
        {"role": role, "content": "word " * 400} for _ in range(9) for role in ("user", "claude")
    ]
    _, note = fit(history, 10_000)
    assert note is not None
    again, same = fit(history, 1_000_000, cut=note.cut)
    assert same is not None
    assert same.left_out == note.left_out
    assert len(again) < len(history)
    assert fit(history, 1_000_000) == (read_history(history), None)


@given(st.text(max_size=400), st.integers(0, 60))
def test_a_text_is_limited_to_its_tokens(text: str, budget: int):
    assert estimate_tokens(limited(text, budget, Counter())) <= budget


def test_the_summariser_reads_words_and_tools_but_no_thoughts():
    turns = (
        Turn("user", (Text("Where is it?"),)),
        Turn("claude", (Thinking("secret"), ToolCall("look", {"at": "home"}, "c1"))),
        Turn("tool", (ToolResult("look", "z" * 9_000, "c1"),)),
    )
    asked = summary_request(turns, "They met.", 2_000, Counter())
    assert "summary of what came before: They met." in asked
    assert "user: Where is it?" in asked
    assert 'called look {"at":"home"}' in asked
    assert "secret" not in asked
    assert len(asked) < 2_000
