"""Limits for the sends in progress."""

from __future__ import annotations

import pytest

from rocketmq_py.core.producer.send_window import SendWindow
from rocketmq_py.errors import ConfigError


def test_the_number_of_sends_is_limited() -> None:
    window = SendWindow(2, None)
    window.enter(1 << 40)
    assert not window.is_full
    window.enter(1)
    assert window.is_full
    window.leave(1)
    assert not window.is_full


def test_the_bytes_of_sends_are_limited_but_one_message_always_fits() -> None:
    window = SendWindow(None, 10)
    assert not window.is_full
    window.enter(100)
    assert window.is_full
    window.leave(100)
    assert (window.sends, window.bytes, window.is_full) == (0, 0, False)


def test_several_sends_may_leave_together() -> None:
    window = SendWindow(None, None)
    for size in (1, 10, 100):
        window.enter(size)
    window.leave(110, 2)
    assert (window.sends, window.bytes) == (1, 1)


def test_sends_that_enter_elsewhere_count_and_leave_like_others() -> None:
    window = SendWindow(2, 100)
    window.enter_elsewhere(10)
    assert window.admit(20)
    assert (window.sends, window.bytes, window.is_full) == (2, 30, True)
    assert not window.admit(1)
    assert (window.sends, window.bytes) == (2, 30)
    window.leave(30, 2)
    assert (window.sends, window.bytes, window.is_full) == (0, 0, False)
    window.enter_elsewhere(100)
    assert not window.admit(1)


def test_what_is_in_progress_is_told() -> None:
    window = SendWindow(None, None)
    window.enter(10)
    window.enter_elsewhere(20)
    assert str(window) == "2 sends with 30 bytes are in progress"


@pytest.mark.parametrize(("sends", "size", "name"), [(0, 1, "max_pending_sends=0"), (1, -1, "max_pending_bytes=-1")])
def test_limits_that_admit_no_send_are_refused(sends: int, size: int, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        SendWindow(sends, size)
