"""Where readers of a slave are sent; what a Java slave says of each is checked in tests/interop."""

from __future__ import annotations

import pytest

from rocketmq_py.core.slaveread import SlaveAnswer, slave_answer
from rocketmq_py.protocol.codes import ResponseCode as Code

FOUND, RETRY, NOT_FOUND, MOVED = (
    Code.SUCCESS, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_NOT_FOUND, Code.PULL_OFFSET_MOVED,
)  # fmt: skip
SUGGESTED, PREFERRED = 1, 0


def answer(code: int, *, far: bool = False, master: bool = False, corrects: bool = False) -> SlaveAnswer:
    return slave_answer(code, SUGGESTED, PREFERRED, is_far_behind=far, has_master=master, corrects=corrects)


@pytest.mark.parametrize("code", [FOUND, RETRY, NOT_FOUND, MOVED])
@pytest.mark.parametrize("corrects", [False, True])
def test_who_keeps_up_goes_back_to_a_master_that_is_there(code: int, corrects: bool) -> None:
    wanted = FOUND if code == FOUND else RETRY
    assert answer(code, master=True, corrects=corrects) == (wanted, 0)


@pytest.mark.parametrize("code", [FOUND, RETRY, NOT_FOUND])
@pytest.mark.parametrize("master", [False, True])
def test_who_is_far_behind_is_served_as_by_a_master(code: int, master: bool) -> None:
    assert answer(code, far=True, master=master) == (code, SUGGESTED)


@pytest.mark.parametrize("code", [FOUND, RETRY, NOT_FOUND])
def test_without_a_master_readers_may_wait(code: int) -> None:
    assert answer(code) == (code, SUGGESTED)


def test_a_slave_that_may_lag_corrects_nobody() -> None:
    assert answer(MOVED) == (RETRY, PREFERRED)
    assert answer(MOVED, corrects=True) == (MOVED, SUGGESTED)
