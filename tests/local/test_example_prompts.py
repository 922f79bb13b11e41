"""The example prompts that need no API key: the embedded model answers them well in nine of ten tries."""

import re
from collections.abc import Callable

import pytest

from multi_llm_chat.history.values import Text
from multi_llm_chat.local import LocalModel
from multi_llm_chat.web.templating import read_catalogue

#: How often each example is tried. The model is random: if ten tries are inconclusive, thirty decide by the same share.
TRIES = (10, 30)


def explains_photosynthesis(answer: str) -> bool:
    """The answer names two of: the energy source, the inputs, and the outputs."""
    parts = ("light|sun", "carbon dioxide|water", "energy|glucose|sugar|organic|oxygen")
    return sum(bool(re.search(words, answer)) for words in parts) >= 2


def gives_tips(answer: str) -> bool:
    """The answer has three tips about sleep."""
    return len(re.findall(r"(?m)^\s*(?:\d[.)]|[-*]) ", answer)) >= 3 and "sleep" in answer.lower()


@pytest.mark.judge
@pytest.mark.parametrize(
    ("key", "is_good"),
    [("try_idea_text", explains_photosynthesis), ("try_words_text", gives_tips)],
)
def test_an_example_is_answered_well_in_nine_of_ten_tries(
    model: LocalModel, key: str, is_good: Callable[[str], bool]
):
    prompt = read_catalogue("en")[key]
    bad: list[str] = []
    tried = 0
    for tries in TRIES:
        for _ in range(tries - tried):
            done = model.complete([{"role": "user", "content": prompt}])
            answer = "".join(part.content for part in done.turn.parts if isinstance(part, Text))
            if done.finish.reason != "stop" or not is_good(answer):
                bad.append(answer)
        tried = tries
        if len(bad) <= tried // 10:
            return
    pytest.fail(f"{len(bad)} of {tried} answers are bad: {bad}")
