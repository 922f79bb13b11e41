"""Recorded exchanges of public repositories as judges: ``make recordings`` with ``RECORDINGS=folder``; skipped without it.

``RECORDINGS`` names a folder of git repositories, or a file that ``python -m tests.recordings.extractor FILE`` wrote.
"""

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tests.recordings.extractor import VARIABLE, Recorded, all_exchanges
from tests.recordings.judges import (
    alarms,
    changes,
    is_judged,
    is_refused_for_its_body,
    lost_behind,
    lost_words,
    row_of,
)

#: A request with a redacted secret or id is not what the provider saw.
_REDACTED = b"REDACTED"


@pytest.fixture(scope="module")
def exchanges() -> list[Recorded]:
    found = all_exchanges()
    if not found:
        pytest.skip(f"{VARIABLE} names no folder of repositories with recordings")
    return found


def accepted(exchanges: Iterable[Recorded]) -> list[Recorded]:
    return [each for each in exchanges if each.is_accepted]


def requests_of(exchanges: Iterable[Recorded]) -> list[Recorded]:
    """Return accepted requests to servers that have a row, as the server saw them."""
    return [
        each
        for each in accepted(exchanges)
        if row_of(each) and _REDACTED not in str(each.request).encode()
    ]


def sent_whole(exchanges: Iterable[Recorded]) -> list[Recorded]:
    return [each for each in requests_of(exchanges) if _REDACTED not in each.reply]


def report(found: dict[str, list[str]], total: int) -> str:
    """Format the number of findings, and the most frequent kinds with one source each."""
    kinds = Counter({kind: len(sources) for kind, sources in found.items()})
    lines = [f"{count} x {kind}: {found[kind][0]}" for kind, count in kinds.most_common(20)]
    return "\n".join([f"{sum(kinds.values())} findings in {total} exchanges", *lines])


def gather(
    exchanges: Iterable[Recorded], find: Callable[[Recorded], Iterable[str]]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in exchanges:
        for kind in find(each):
            found.setdefault(f"{each.provider} {kind}", []).append(each.source)
    return found


def test_nothing_of_an_answer_is_dropped(exchanges: list[Recorded]) -> None:
    answers = accepted(exchanges)
    found = gather(answers, lambda each: sorted(set(lost_words(each))))
    assert not found, report(found, len(answers))


def test_accepted_requests_raise_few_false_alarms(exchanges: list[Recorded]) -> None:
    requests = [
        each
        for each in accepted(exchanges)
        if is_judged(each) and _REDACTED not in str(each.request).encode()
    ]
    found = gather(requests, lambda each: [each.rule for each in alarms(each)[:1]])
    count = sum(map(len, found.values()))
    assert count <= 0.003 * len(requests), report(found, len(requests))


def test_requests_that_were_refused_for_their_body_are_foreseen(
    exchanges: list[Recorded],
) -> None:
    refused = [each for each in exchanges if is_judged(each) and is_refused_for_its_body(each)]
    missed = {each.source: [str(each.reply[:300])] for each in refused if not alarms(each)}
    assert len(missed) <= 0.1 * len(refused), report(missed, len(refused))


def test_a_request_written_again_is_the_same_or_says_what_changed(
    exchanges: list[Recorded],
) -> None:
    requests = requests_of(exchanges)
    differing = {each.source: found for each in requests if (found := changes(each)) is not None}
    silent = [source for source, found in differing.items() if not found.notes]
    assert silent == []
    shown = {f"{found.place} {found.notes}": [source] for source, found in differing.items()}
    assert len(differing) <= 0.005 * len(requests), report(shown, len(requests))


def test_an_answer_is_whole_in_the_next_request(exchanges: list[Recorded]) -> None:
    answers = sent_whole(exchanges)
    found = gather(answers, lambda each: sorted(set(lost_behind(each))))
    assert not found, report(found, len(answers))
