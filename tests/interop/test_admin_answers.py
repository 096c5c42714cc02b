"""Requests no sub-command of mqadmin makes are answered by our broker as by Java's: the same bodies, field by field."""

from __future__ import annotations

import pytest

from tests.interop.admin_requests import REQUESTS
from tests.interop.mqadmin_run import Answers


@pytest.mark.parametrize(
    "number", range(len(REQUESTS)), ids=[f"{code.name} {' '.join(ext.values())}" for code, ext, _ in REQUESTS]
)
def test_the_same_answer(number: int, asked: tuple[Answers, Answers]) -> None:
    theirs, ours = asked
    assert ours.raw[number] == theirs.raw[number]
