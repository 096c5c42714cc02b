"""The page about compatibility says of each client what the tests of that client find."""

from __future__ import annotations

from tests.docs.clients_table import COMMAND, END, MODES, PAGE, START, page
from tests.interop.foreign_modes import JUDGES


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert text.count(START) == text.count(END) == 1
    assert text == page(text), f"run: {COMMAND}"


def test_every_mode_has_a_column() -> None:
    assert set(MODES) == set(JUDGES)
