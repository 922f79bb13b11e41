"""Actions of tests on a page."""

from decimal import Decimal

from playwright.sync_api import Page, expect
from tests.web.server_process import RunningServer

from multi_llm_chat.events import Usage
from multi_llm_chat.store import Spending, create, record_spending


def send(page: Page, text: str) -> None:
    """Send a message."""
    page.locator("#text").fill(text)
    page.locator("#text").press("Enter")


def expect_answers(page: Page, *texts: str) -> None:
    """Wait until the page shows these answers and none is running.

    A page that is not busy may not have begun yet: only the texts show that it is done.
    """
    bodies = page.locator(".answer .body")
    expect(bodies).to_have_text(list(texts))
    expect_idle(page)
    expect(bodies).to_have_text(list(texts))


def expect_idle(*pages: Page) -> None:
    """Wait until no answer is running; one for a message that was just sent may not have begun."""
    for page in pages:
        expect(page.locator("body")).to_have_attribute("data-busy", "false")


def spend(server: RunningServer) -> None:
    """Record answers with known and unknown costs, of a known speaker and of one that is not configured any more."""
    store = server.hub.store("local")
    store.run(create, "A chat", identifier="spending")
    cached = Usage(10_000, 500, 8_000)
    for spending in (
        Spending("a", "claude", "claude-sonnet-4-5", cached, Decimal("0.0159")),
        Spending("b", "claude", "claude-sonnet-4-5", Usage(1_000, 100), Decimal("0.0045")),
        Spending("c", "gone", "gone-1", Usage(50, 5), None),
    ):
        store.run(record_spending, "spending", spending)
