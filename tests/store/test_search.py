"""Search gives the same results for every script and database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.history.values import Text, Thinking, ToolResult, Turn
from multi_llm_chat.store import Store, append, create, open_store, rename, search
from multi_llm_chat.store._search_terms import MAX_TERM, fold, read_query, terms_of

MESSAGES = {
    "tower": "東京タワーはどこですか？港区にあります。",
    "kyoto": "京都の天気は晴れ、気温は25℃です。",
    "half": "ｶﾞﾗｽの靴と　ＡＢＣ１２３",
    "seoul": "서울에서 부산까지 기차로 얼마나 걸려요?",
    "beijing": "北京今天的天气怎么样？我想去故宫博物院。",
    "cafe": "È così: il Caffè Müller apre alle 9, STRASSE straße.",
    "decomposed": "Cafe\u0301 noir",
    "thai": "สวัสดีครับ วันนี้อากาศดี",
    "hindi": "नमस्ते दुनिया, हिन्दी में खोज",
    "russian": "Привет, мир! Ёлка",
    "code": "def get_user_name(self): return self.user['name']  # e-mail: a.b@c.de",
    "long": "x" * 200 + " end",
    "emoji": "👍🏽 done 🎉",
}

FOUND = {
    "東": {"tower"},
    "京": {"tower", "kyoto", "beijing"},
    "天気": {"kyoto"},
    "タワー": {"tower"},
    "東京タワーはどこ": {"tower"},
    "東京 港区": {"tower"},
    "京東": set[str](),
    "すか。港": {"tower"},
    "すか港": set[str](),
    "ガラス": {"half"},
    "abc123": {"half"},
    "25℃": {"kyoto"},
    "서울": {"seoul"},
    "울에": {"seoul"},
    "차": {"seoul"},
    "天气": {"beijing"},
    "博物院 故宫": {"beijing"},
    "caffè": {"cafe"},
    "CAFFÈ MÜL": {"cafe"},
    "mül caffè": set[str](),  # only the last word may be a prefix
    '"caffè mül"': set[str](),
    '"caffè müller apre"': {"cafe"},
    '"müller caffè"': set[str](),
    "strasse": {"cafe"},
    "café": {"decomposed"},
    "caf": {"cafe", "decomposed"},
    "สวัสดี": {"thai"},
    "อากาศ": {"thai"},
    "हिन्दी": {"hindi"},
    "हिन्": {"hindi"},
    "ПРИВЕТ ёлк": {"russian"},
    "get_user_name": {"code"},
    '"user name"': {"code"},
    "a.b@c.de": {"code"},
    "ser": set[str](),
    "x" * 80: {"long"},
    "x" * 200 + " end": {"long"},
    '"unclosed': set[str](),
    '"apre alle': {"cafe"},
    "": set[str](),
    "!?…": set[str](),
    "' OR 1=1 --": set[str](),
    "*": set[str](),
    'NOT "a': set[str](),
    "done": {"emoji"},
}  # fmt: skip


@pytest.fixture
def library(store: Store) -> Store:
    for name, words in MESSAGES.items():
        conversation = store.run(create, name).id
        store.run(append, conversation, [Turn("user", (Text(words),))])
    return store


def test_words_of_every_script_are_found(library: Store):
    found = {words: {hit.title for hit in library.run(search, words)} for words in FOUND}
    assert found == FOUND


def test_snippets_show_the_message_and_mark_the_words(store: Store):
    conversation = store.run(create, "t").id
    words = "…" * 500 + "ここに ｶﾞﾗｽ が straße" + "!" * 500
    store.run(append, conversation, [Turn("claude", (Text(words),), id="t1")])
    (hit,) = store.run(search, "strasse ガラス")
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["ｶﾞﾗｽ", "straße"]
    assert hit.snippet in words
    assert (hit.turn, hit.author, hit.conversation) == ("t1", "claude", conversation)


def test_only_spoken_words_are_searched_and_all_of_them(store: Store):
    conversation = store.run(create, "t").id
    turn = Turn(
        "claude", (Text("first"), Thinking("hidden"), ToolResult("f", "raw"), Text("second"))
    )
    store.run(append, conversation, [turn])
    found = [len(store.run(search, words)) for words in ("first second", "hidden", "raw")]
    assert found == [1, 0, 0]


def test_the_newest_message_comes_first_and_pages_follow(store: Store):
    conversation = store.run(create, "t").id
    for number in range(12):
        # Every third message has the terms, but not as the quoted phrase: the index alone would be wrong.
        words = "beta alpha" if number % 3 == 0 else "alpha beta"
        store.run(append, conversation, [Turn("user", (Text(words),), id=f"{number}")])
    first = store.run(search, '"alpha beta"', limit=5)
    rest = store.run(search, '"alpha beta"', limit=5, before=first[-1].number)
    assert [hit.turn for hit in (*first, *rest)] == ["11", "10", "8", "7", "5", "4", "2", "1"]


def test_hits_show_the_title_of_today(library: Store):
    (hit,) = library.run(search, "東京タワー")
    library.run(rename, hit.conversation, "新しい題")
    assert library.run(search, "東京タワー")[0].title == "新しい題"


def test_a_very_long_message_is_saved_and_found_by_its_beginning(store: Store):
    conversation = store.run(create, "t").id
    words = " ".join(f"word{number:x}" for number in range(150_000))
    store.run(append, conversation, [Turn("user", (Text(words),))])
    assert len(store.run(search, "word7 word8")) == 1


_LETTERS = st.sampled_from("abAßée\u0301 _-.\"'東京タｶﾞは서울ก็हि१İǰŉﬁ\u200b\0\ud800😀")
_TEXTS = st.one_of(st.text(_LETTERS, max_size=12), st.text(max_size=8))


@given(text=_TEXTS, words=_TEXTS)
def test_the_index_proposes_whatever_matches(text: str, words: str):
    query = read_query(words)
    places = query.places(text)
    terms = terms_of(text)
    assert all(0 <= start < end <= len(text) for start, end in places)
    if places:
        for piece in query.pieces:
            assert set(piece.terms) <= set(terms)
            assert any(term.startswith(piece.beginning) for term in terms)


@given(text=_TEXTS)
def test_a_text_is_found_by_each_of_its_terms_and_folding_is_done_once(text: str):
    for term in terms_of(text):
        assert len(term) <= MAX_TERM
        assert read_query(term).places(text)
        term.encode()
    assert terms_of(fold(text)) == terms_of(text)


@given(text=st.text(st.characters(codec="ascii")) | _TEXTS.filter(str.isascii))
def test_the_terms_of_a_text_do_not_depend_on_the_script_of_another(text: str):
    assert [*terms_of(text), "東"] == terms_of(f"{text} 東")


@given(texts=st.lists(_TEXTS, min_size=1, max_size=4), words=_TEXTS)
def test_the_store_finds_exactly_what_matches(texts: list[str], words: str):
    with open_store(":memory:") as store:
        conversation = store.run(create, "t").id
        store.run(
            append,
            conversation,
            [Turn("user", (Text(text),), id=str(n)) for n, text in enumerate(texts)],
        )
        query = read_query(words)
        wanted = [str(n) for n, text in enumerate(texts) if query.pieces and query.places(text)]
        assert [hit.turn for hit in store.run(search, words)][::-1] == wanted
