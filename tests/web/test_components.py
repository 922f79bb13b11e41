"""The component page: every card in every state, in every theme and language, from the templates of the real page."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect
from tests.web.conftest import Visitor
from tests.web.payloads import PAYLOADS
from tests.web.server_process import RunningServer, run_server
from tests.web.test_accessibility import axe

from multi_llm_chat.web.components import render_components, sample_exchanges
from multi_llm_chat.web.guard import POLICY
from multi_llm_chat.web.templating import LANGUAGES
from multi_llm_chat.web.views import ToolSegment

__all__ = ["axe"]

WIDTHS = (1440, 1000, 390)
THEMES = ("light", "dark", "contrast")


@pytest.fixture
def server(tmp_path: Path) -> Generator[RunningServer]:
    with run_server(tmp_path, shows_components=True) as opened:
        yield opened


def photograph(page: Page, folder: Path, theme: str, language: str, width: int) -> bytes:
    page.set_viewport_size({"width": width, "height": 900})
    return page.screenshot(path=folder / f"{theme}-{language}-{width}.png", full_page=True)


def violations(page: Page, axe: str) -> list[str]:
    """Return all violations that axe finds, of any severity."""
    page.evaluate(axe)
    report = page.evaluate("() => axe.run()")
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in report["violations"]]


def test_a_server_for_users_has_no_component_page(tmp_path: Path):
    with run_server(tmp_path) as usual, usual.signed_in_client() as visitor:
        assert visitor.get("/components").status_code == 404


@pytest.mark.judge
@pytest.mark.parametrize("theme", THEMES)
def test_every_card_in_every_theme_is_accessible(
    theme: str,
    server: RunningServer,
    new_visitor: Callable[..., Visitor],
    axe: str,
    tmp_path: Path,
):
    # The content security policy would forbid injecting the rules.
    page = new_visitor(bypass_csp=True, reduced_motion="reduce").open()
    page.goto(f"{server.url}/components?theme={theme}&language=en")
    page.locator("body[data-ready]").wait_for()
    for width in WIDTHS:
        assert len(photograph(page, tmp_path, theme, "en", width)) > 50_000
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert violations(page, axe) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_card_in_every_language_fits(
    language: str, server: RunningServer, new_visitor: Callable[..., Visitor], tmp_path: Path
):
    page = new_visitor().open()
    page.goto(f"{server.url}/components?theme=light&language={language}")
    expect(page.locator("html")).to_have_attribute("lang", language)
    for width in WIDTHS:
        photograph(page, tmp_path, "light", language, width)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_page_shows_every_state_of_a_tool_and_an_answer():
    answers = [answer for _, exchange in sample_exchanges() for answer in exchange.answers]
    cards = [
        each for answer in answers for each in answer.segments if isinstance(each, ToolSegment)
    ]
    assert {card.state for card in cards} == {"writing", "waiting", "running", "done", "failed"}
    assert any(card.form for card in cards)
    assert {answer.is_live for answer in answers} == {True, False}
    assert {answer.hue for answer in answers} >= {0, 1, 2, 3, 4, 6, 7}


@pytest.mark.judge
def test_nothing_in_a_card_runs_or_fetches(
    server: RunningServer, new_visitor: Callable[..., Visitor]
):
    """Attacks are in every place that models, tools, servers and users fill."""
    page = new_visitor().open()
    waiting = list(PAYLOADS)

    def answer(route: Route) -> None:
        html = render_components("light", "en", waiting.pop())
        route.fulfill(
            body=html, content_type="text/html", headers={"content-security-policy": POLICY}
        )

    page.route("**/components", answer)
    while waiting:
        page.goto(f"{server.url}/components")
        assert "pwned" not in page.title()
        assert page.locator(".exchange").count() == len(sample_exchanges())
        harmful = "main :is(script, iframe, object, embed, link, style, base, [style], [onerror])"
        assert page.locator(harmful).count() == 0
        assert page.locator('main :is(a, form)[href^="javascript"]').count() == 0
