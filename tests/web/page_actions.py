"""What tests do on a page."""

from playwright.sync_api import Page, expect


def send(page: Page, text: str) -> None:
    """Send a message."""
    page.locator("#text").fill(text)
    page.locator("#text").press("Enter")


def expect_answers(page: Page, *texts: str) -> None:
    """Wait until these are the answers and none is being given.

    A page that is not busy may not have begun yet: only the texts show that it is done.
    """
    bodies = page.locator(".answer .body")
    expect(bodies).to_have_text(list(texts))
    expect_idle(page)
    expect(bodies).to_have_text(list(texts))


def expect_idle(*pages: Page) -> None:
    """Wait until no answer is being given; a message that was just sent may not have begun one."""
    for page in pages:
        expect(page.locator("body")).to_have_attribute("data-busy", "false")
