"""What tests do on a page."""

from playwright.sync_api import Page, expect


def send(page: Page, text: str) -> None:
    """Send a message."""
    page.locator("#text").fill(text)
    page.locator("#text").press("Enter")


def answers(page: Page) -> list[str]:
    """The finished answers, once none is being given."""
    expect(page.locator("body")).to_have_attribute("data-busy", "false")
    return page.locator(".answer .body").all_inner_texts()
