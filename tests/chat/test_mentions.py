import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.chat.mentions import read_mentions

SPEAKERS = ["gemini", "chatgpt", "claude", "claude-opus"]


@pytest.mark.parametrize(
    ("text", "speakers", "rest"),
    [
        ("@gemini What is new?", ("gemini",), "What is new?"),
        ("@Gemini, what is new?", ("gemini",), "what is new?"),
        ("What do you think, @CLAUDE?", ("claude",), "What do you think,?"),
        ("@claude-opus and @claude: hello", ("claude-opus", "claude"), "and: hello"),
        ("@claude @gemini hello", ("claude", "gemini"), "hello"),
        ("@all hello", tuple(SPEAKERS), "hello"),
        ("@council hello", ("claude", "gemini"), "hello"),
        ("@claude @all hello", ("claude", "gemini", "chatgpt", "claude-opus"), "hello"),
        ("東京は？ @gemini", ("gemini",), "東京は？"),
        ("line one\n@gemini\nline two", ("gemini",), "line one\n\nline two"),
        ("write to me@gemini.com", (), "write to me@gemini.com"),
        ("see @gemini.com", (), "see @gemini.com"),
        ("@geminis are twins", (), "@geminis are twins"),
        ("@@gemini", (), "@@gemini"),
        ("@nobody hello", (), "@nobody hello"),
        ("a memo", (), "a memo"),
        ("", (), ""),
    ],
)
def test_a_message_is_addressed_by_whole_words(text: str, speakers: tuple[str, ...], rest: str):
    addressed = read_mentions(text, SPEAKERS, {"council": ["claude", "gemini"]})
    assert (addressed.speakers, addressed.text) == (speakers, rest)


@given(st.text())
def test_a_text_without_mentions_is_left_as_it_is(text: str):
    addressed = read_mentions(text.replace("@", ""), SPEAKERS)
    assert addressed.speakers == ()
    assert addressed.text == text.replace("@", "")


@given(
    st.lists(st.sampled_from(["@gemini", "@claude,", "word", "@claude-opus", "\n", "@all", "x@y"]))
)
def test_what_was_read_once_has_no_mention_left(words: list[str]):
    rest = read_mentions(" ".join(words), SPEAKERS).text
    assert read_mentions(rest, SPEAKERS).speakers == ()
