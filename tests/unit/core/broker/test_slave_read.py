"""Answers to readers of a slave; tests/interop compares them with a Java slave."""

from __future__ import annotations

import pytest

from rocketmq_py.core.broker.slave_read import slave_answer
from rocketmq_py.protocol.codes import ResponseCode as Code


@pytest.mark.parametrize("code", [Code.SUCCESS, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_NOT_FOUND])
@pytest.mark.parametrize("corrects", [False, True])
@pytest.mark.parametrize("has_master", [False, True])
def test_a_slave_answers_as_a_master_does(code: int, corrects: bool, has_master: bool) -> None:
    assert slave_answer(code, 1, 0, corrects=corrects, has_master=has_master) == (code, 1)


def test_a_lagging_slave_corrects_no_offset() -> None:
    moved = Code.PULL_OFFSET_MOVED
    assert slave_answer(moved, 1, 0, corrects=False, has_master=True) == (Code.PULL_RETRY_IMMEDIATELY, 0)
    assert slave_answer(moved, 1, 0, corrects=False, has_master=False) == (Code.PULL_NOT_FOUND, 0)
    assert slave_answer(moved, 1, 0, corrects=True, has_master=False) == (moved, 1)
