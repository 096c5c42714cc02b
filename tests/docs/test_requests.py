"""The page of requests lists what the servers handle."""

from __future__ import annotations

from tests.docs.requests_table import COMMAND, PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), f"run: {COMMAND}"
