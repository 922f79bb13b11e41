"""The page about the command line matches the commands' help."""

from tests.cli.reference import PAGE, reference


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: make fix"
