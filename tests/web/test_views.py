"""View data of the page: tables, hues, the order of answers, windows of exchanges, the source of an answer."""

import asyncio
import csv
import io
import json
import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies.schemas import values
from tests.web.payloads import PAYLOADS

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.events import ApprovalDecided, NativeItem, ToolFinished, ToolStarted
from multi_llm_chat.history.values import (
    Extras,
    JsonObject,
    Native,
    Origin,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.store import Placed, append, create, open_store
from multi_llm_chat.tools.approval import ApprovalRequest, visible_text
from multi_llm_chat.tools.tool_output import note_edit
from multi_llm_chat.web.answers import LiveAnswer
from multi_llm_chat.web.exchange_groups import (
    TURNS_PER_PAGE,
    BranchReader,
    PagePlace,
    answer_source,
    choose_window,
    group_exchanges,
)
from multi_llm_chat.web.history_view import HistoryDetails, HistoryRenderer, in_order
from multi_llm_chat.web.remote_runs import TURNS_AT_FIRST
from multi_llm_chat.web.templating import HtmlRenderer, Translations
from multi_llm_chat.web.views import (
    ArgumentChange,
    PageAnswer,
    Segment,
    SourcesSegment,
    StepSegment,
    TextSegment,
    ToolSegment,
    VerdictSegment,
    changed_arguments,
    format_arguments,
    hue_of,
    read_table,
)

cells = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
names = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=1, max_size=5, unique=True)


@given(columns=names, data=st.data())
def test_flat_objects_with_the_same_names_are_a_table(columns: list[str], data: st.DataObject):
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(columns, cells)), min_size=1))
    table = read_table(json.dumps(rows))
    assert table is not None
    assert set(table.columns) == set(columns)
    assert table.count == len(rows)
    assert len(table.rows) == min(len(rows), 200)
    assert len(table.numeric) == len(columns)


@given(st.recursive(cells, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_every_other_result_is_no_table_or_a_whole_one(value: object):
    table = read_table(json.dumps(value))
    assert table is None or all(len(row) == len(table.columns) for row in table.rows)
    assert read_table(str(value)) is None or isinstance(value, list)


@given(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=4))
def test_the_first_speakers_have_hues_and_signs_of_their_own(others: list[str]):
    known = ["gemini", "chatgpt", "claude"]
    local = {"local", "ollama", "llamacpp", "lmstudio"}
    speakers = [*known, *(name for name in others if name not in {*known, *local})]
    hues = [hue_of(name, speakers) for name in speakers]
    assert len(set(hues)) == len(hues)
    assert hues == list(range(len(hues)))
    assert hue_of("local", [*speakers, "local"]) == 7


@given(addressed=st.permutations(["a", "b", "c", "d"]), arrived=st.permutations(["a", "b", "c"]))
def test_answers_keep_the_order_of_the_addressees(addressed: list[str], arrived: list[str]):
    answers = [PageAnswer(f"run-{name}", name, 0) for name in arrived]
    verdict = PageAnswer("verdict", addressed[0], 0, is_council=True)
    shown = [answer.speaker for answer in in_order([verdict, *answers], addressed)]
    assert shown[:-1] == [name for name in addressed if name != "d"]
    assert shown[-1] == addressed[0]


def branch(exchanges: int) -> list[Placed]:
    turns = [
        Turn(role, (Text(f"**{role}** {number}"),), f"{role}-{number}")
        for number in range(exchanges)
        for role in ("user", "claude", "gemini")
    ]
    return [Placed(turn, None, None, 0) for turn in turns]


@given(sizes=st.lists(st.integers(1, 70), max_size=90), data=st.data())
def test_a_window_is_at_most_one_page_or_one_exchange_and_contains_its_turn(
    sizes: list[int], data: st.DataObject
):
    turns = [
        Turn("gemini" if at else "user", id=f"{'gemini' if at else 'user'}-{number}")
        for number, size in enumerate(sizes)
        for at in range(size + 1)
    ]
    groups = group_exchanges(Placed(turn, None, None, 0) for turn in turns)
    count = len(sizes)
    assert len(groups) == count

    def fits(first: int, last: int) -> bool:
        shown = sum(len(group) for group in groups[first:last])
        return 0 <= first <= last and (shown <= TURNS_PER_PAGE or last == first + 1)

    first, last = choose_window(groups, None, None, None)
    assert last == count
    assert fits(first, last)
    if count == 0:
        return
    assert first < last
    number = data.draw(st.integers(0, count - 1))
    first, last = choose_window(groups, None, None, f"gemini-{number}")
    assert first <= number < last
    assert fits(first, last)
    first, last = choose_window(groups, f"user-{number}", None, None)
    assert last == number
    first, last = choose_window(groups, None, f"user-{number}", None)
    assert first == number + 1


@given(st.integers(1, 30))
def test_windows_one_after_the_other_are_the_whole_branch(pages: int):
    groups = group_exchanges(branch(pages * 7))
    first, _ = choose_window(groups, None, None, None)
    seen = list(range(first, len(groups)))
    while first > 0:
        first, last = choose_window(groups, f"user-{first}", None, None)
        seen = [*range(first, last), *seen]
    assert seen == list(range(len(groups)))


@given(sizes=st.lists(st.integers(1, 70) | st.just(200), min_size=1, max_size=30), data=st.data())
def test_pages_read_only_what_they_show_and_show_what_the_whole_branch_has_there(
    sizes: list[int], data: st.DataObject
):
    page = "```html\n<title>Page</title>" + "<p>words</p>" * 12 + "\n```"
    turns = [
        Turn("gemini" if at else "user", (Text(page if at == 1 else "words"),), f"{number}-{at}")
        for number, size in enumerate(sizes)
        for at in range(size + 1)
    ]
    name = data.draw(st.sampled_from(["before", "after", "around"]))
    number = data.draw(st.integers(0, len(sizes) - 1))
    at = data.draw(st.integers(0, sizes[number])) if name == "around" else 0
    place = PagePlace(**{name: f"{number}-{at}"})

    async def check() -> None:
        with open_store(":memory:") as store:
            conversation = store.run(create, "t").id
            store.run(append, conversation, turns)
            whole = ChatService({}, store=store, conversation=conversation)
            part = ChatService({}, store=store, conversation=conversation)
            await part.arefresh(TURNS_AT_FIRST)
            await whole.arefresh()
            known = len(part.placed)
            readers = BranchReader(part), BranchReader(whole)
            read = await readers[0].read(place)
            assert readers[0].window(read, place) == readers[1].window(None, place)
            assert await readers[0].source(f"{number}-0") == "words"
            await readers[0].read_artifacts()
            assert readers[0].artifacts() == readers[1].artifacts()
            assert len(part.placed) == known

    asyncio.run(check())


def test_the_source_of_an_answer_is_its_markdown():
    placed = branch(3)
    assert answer_source(placed, "claude-1") == "**claude** 1"
    assert answer_source(placed, "user-2") == "**user** 2"
    assert answer_source(placed, "missing") is None


# Citations.

ORIGIN = Origin("anthropic")


def cited(content: str, *citations: JsonObject) -> Text:
    return Text(content, Extras(ORIGIN, {"citations": list(citations)}) if citations else None)


def render_answer(*parts: Part) -> tuple[Segment, ...]:
    renderer = HistoryRenderer("conversation", ["claude"], HistoryDetails())
    return renderer.answer("run", [Turn("claude", parts, "turn")]).segments


def test_cited_texts_are_one_text_with_numbers_and_a_list_of_sources():
    rfc: JsonObject = {"url": "https://www.rfc-editor.org/9562", "title": "RFC 9562"}
    book: JsonObject = {"document_title": "The book", "cited_text": "a passage"}
    words, sources = render_answer(
        cited("It sorts ", rfc), cited("by *time*", rfc, book), cited(", always.")
    )
    assert isinstance(words, TextSegment)
    assert words.final.count("<p>") == 1
    assert words.final.count('class="cite"') == 3
    assert 'href="https://www.rfc-editor.org/9562"' in words.final
    assert ", always." in words.final
    assert isinstance(sources, SourcesSegment)
    assert [(each.number, each.title, each.host) for each in sources.sources] == [
        (1, "RFC 9562", "rfc-editor.org"),
        (2, "The book", ""),
    ]
    assert sources.sources[1].passage == "a passage"


def test_texts_without_citations_stay_as_they_are():
    one, two = render_answer(cited("One."), cited("Two."))
    assert isinstance(one, TextSegment)
    assert isinstance(two, TextSegment)
    assert "cite" not in one.final + two.final


# Verdicts.

MEMBERS = ("gemini", "chatgpt", "claude")
paragraph_ids = st.lists(
    st.from_regex(r"(gemini|chatgpt|claude|x:y):(-1|[0-4])", fullmatch=True) | st.text(max_size=6),
    max_size=4,
)


@given(agree=paragraph_ids, contradict=paragraph_ids, arrived=st.permutations(MEMBERS))
def test_a_verdict_has_a_cell_for_each_member_with_the_paragraphs_it_names(
    agree: list[str], contradict: list[str], arrived: list[str]
):
    claims = [{"claim": "So it is.", "agree": agree, "contradict": contradict}]
    message = Turn("user", (Text("Well?"),), "m", meta={"addressed": list(MEMBERS)})
    answers = [Turn(name, (Text(f"**{name}** one\n\ntwo `of` {name}"),)) for name in arrived]
    verdict = Turn(
        "claude",
        (Text(json.dumps({"answer": "*Yes.*", "claims": claims})),),
        "v",
        meta={"verdict": True, "council": True},
    )
    renderer = HistoryRenderer("conversation", MEMBERS, HistoryDetails())
    (found,) = renderer.answer("run", [verdict], [message, *answers, verdict]).segments
    assert isinstance(found, VerdictSegment)
    assert "<em>Yes.</em>" in found.html
    assert [name for name, _ in found.members] == list(MEMBERS)
    (row,) = found.claims
    for name, cell in zip(MEMBERS, row.cells, strict=True):
        named = {each for each in (*agree, *contradict) if re.fullmatch(f"{name}:[0-9]+", each)}
        assert (cell.stance == "silent") == (not named)
        assert {f"{name}:{each.number}" for each in cell.passages} <= named
        for each in cell.passages:
            assert each.text == {1: f"{name} one", 2: f"two of {name}"}.get(each.number, "")
    assert (row.reading == "contradiction") == any(
        cell.stance == "contradict" for cell in row.cells
    )


def test_a_verdict_that_cannot_be_read_is_shown_as_it_is():
    turn = Turn("claude", (Text("No JSON."),), "v", meta={"verdict": True})
    renderer = HistoryRenderer("conversation", MEMBERS, HistoryDetails())
    (words,) = renderer.answer("run", [turn], [turn]).segments
    assert isinstance(words, TextSegment)
    assert "No JSON." in words.final


attacks = st.sampled_from(PAYLOADS) | st.text(max_size=30)


@given(before=attacks, after=attacks, title=attacks, path=attacks)
@example(before="$", after="$", title="", path="")
@example(before="$$x", after="$$", title="", path="")
def test_a_citation_adds_nothing_that_runs_or_fetches(
    before: str, after: str, title: str, path: str
):
    entry: JsonObject = {"url": f"https://site.example/{path}", "title": title}
    segments = render_answer(cited(f"x [{before}", entry), cited(f"]({after})"))
    assert isinstance(segments[0], TextSegment)
    found = Tags()
    found.feed(segments[0].final)
    assert found.names.isdisjoint({"script", "img", "iframe", "svg", "style", "form", "object"})
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"]
    addresses = [value or "" for name, value in found.attributes if name in {"href", "src"}]
    schemes = {urlsplit(address).scheme for address in addresses}
    assert schemes <= {"http", "https", "mailto", ""}
    assert "\ue000" not in segments[0].final


class Tags(HTMLParser):
    """The elements and attributes of a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs


def test_the_step_of_a_provider_is_shown_in_words():
    (step,) = render_answer(Native("web_search_call", "uuid v7 index size"))
    assert step == StepSegment("run-0", "web_search_call", "uuid v7 index size")
    live = LiveAnswer(PageAnswer("run", "claude", 2))
    live.apply(NativeItem(item=Native("web_search_call", "uuid v7 index size")))
    assert live.view.segments == (step,)


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_no_hidden_character_of_an_argument_stays_hidden(value: str):
    ((name, shown),) = format_arguments(ToolCall("run", {"\u202ecommand": value}, "1"), whole=True)
    assert name == "⟨U+202E⟩command"
    assert all(character.isprintable() or character in "\n\t" for character in shown)
    kept = re.sub(r"⟨U\+([0-9A-F]{4,6})⟩", lambda found: chr(int(found[1], 16)), shown)
    assert "⟨" in value or kept == value  # nothing is lost


def test_what_is_approved_is_shown_whole():
    call = ToolCall("run", {"command": "echo hi\n" * 10_000 + "rm -rf /"}, "1")
    answer = LiveAnswer(PageAnswer("run", "claude", 2))
    answer.apply(ToolStarted(call))
    answer.ask_approval(ApprovalRequest(call, "run", "shell", "Adds.\u202e"), "key")
    (card,) = answer.view.segments
    assert isinstance(card, ToolSegment)
    assert card.rows == (("command", call.arguments["command"]),)
    assert (card.source, card.description) == ("shell", "Adds.⟨U+202E⟩")
    answer.end_approval("key")
    (card,) = answer.view.segments
    assert isinstance(card, ToolSegment)
    assert len(card.rows[0][1]) < 21_000


_OBJECTS = st.dictionaries(st.text(max_size=3), st.text(max_size=9) | values, max_size=4)


@given(_OBJECTS, _OBJECTS)
def test_changed_arguments_look_the_same_while_the_call_runs_and_afterwards(
    written: JsonObject, ran: JsonObject
):
    call = ToolCall("run", written, "1")
    result = note_edit(ToolResult("run", "name,price\nTea,2\nCake,4", "1"), ran)
    live = LiveAnswer(PageAnswer("run", "claude", 2))
    live.apply(ToolStarted(call))
    live.ask_approval(ApprovalRequest(call, "run"), "key")
    live.apply(ApprovalDecided(call, allowed=True, arguments=ran))
    live.end_approval("key")
    live.apply(ToolFinished(call, result, 1.0))
    turns = [
        Turn("claude", (call,), id="a"),
        Turn("tool", (result,), id="b", meta={"arguments": {"1": ran}, "seconds": {"1": 1.0}}),
    ]
    (later,) = HistoryRenderer("c", ["claude"], HistoryDetails()).answer("run", turns).segments
    (card,) = live.view.segments
    assert isinstance(card, ToolSegment)
    assert isinstance(later, ToolSegment)
    assert later.changes == card.changes
    assert later.rows == card.rows
    if card.changes:
        assert later.table == card.table
        assert card.table is not None
    changed = {each.name for each in card.changes}
    assert {visible_text(name) for name in written.keys() ^ ran.keys()} <= changed
    for name in written.keys() & ran.keys():
        same = json.dumps(written[name]) == json.dumps(ran[name])
        assert same or visible_text(name) in changed
    assert HtmlRenderer(Translations("en")).html(card)


def test_changed_lines_of_a_text_are_a_diff():
    (change,) = changed_arguments({"body": "a\nb\nc", "to": "x"}, {"body": "a\nB\nc", "to": "x"})
    assert "-b\n+B" in change.diff
    assert ArgumentChange("n", "1", "2").diff == ""
    assert ArgumentChange("n", "1\n" * 10_000, "2\n" * 10_000).diff == ""


def test_a_number_that_falls_into_a_formula_is_no_part_of_it():
    entry: JsonObject = {"url": "https://site.example/", "title": "A page"}
    (segment, *_) = render_answer(cited("so $a + ", entry), cited("b$ holds"))
    assert isinstance(segment, TextSegment)
    assert "<mn>1</mn>" not in segment.final
    assert "<mi>b</mi>" in segment.final


@given(
    st.integers(2, 8),
    st.lists(st.lists(st.text("abc 1.-", min_size=1, max_size=8), min_size=8, max_size=8), min_size=2, max_size=20),
    st.sampled_from([",", ";", "\t"]),
)  # fmt: skip
def test_a_csv_text_is_a_table_with_the_same_cells(
    width: int, rows: list[list[str]], delimiter: str
):
    names = [f"name{at}" for at in range(width)]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(
        [names, *(row[:width] for row in rows)]
    )
    table = read_table(out.getvalue())
    assert table is not None
    assert table.columns == tuple(names)
    assert list(table.rows) == [tuple(row[:width]) for row in rows]


@pytest.mark.parametrize(
    "text",
    [
        "One, two\nthree, four\nfive, six",
        "a,b\n1,2",
        "a,b\n1,2\n3",
        "a,a\n1,2\n3,4",
        "1,2\n3,4\n5,6",
        "plain\ntext\nhere",
    ],
)
def test_other_texts_are_no_tables(text: str):
    assert read_table(text) is None


def test_a_diff_is_coloured_and_escaped():
    text = "--- a\n+++ b\n@@ -1 +1 @@\n-<b>old</b>\n+<b>new</b>"
    html = HtmlRenderer(Translations("en")).html(ToolSegment("t", "diff", "done", result=text))
    assert '<span class="gd">-&lt;b&gt;old&lt;/b&gt;</span>' in html
    assert "<b>old" not in html
