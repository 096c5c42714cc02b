"""Rules for the unit tier: no test waits for the disk or for a timer."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.virtual_time import Clock, virtual_time


@pytest.fixture(scope="module", autouse=True)
def no_write_through() -> Iterator[None]:
    """``os.fsync`` does nothing: only a loss of power shows whether it did, and no unit test cuts the power.

    Losses of power are played on ``tests.unit.store.memoryfs``, which never calls it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def unit_clock() -> Iterator[Clock]:
    """One clock for the process: modules keep it that imported ``monotonic`` by name."""
    with virtual_time() as clock:
        yield clock


@pytest.fixture(scope="module", autouse=True)
def virtual_clock(unit_clock: Clock) -> Iterator[Clock]:
    """Event loops skip waits that only a timer can end, in this tier only."""
    unit_clock.start_skipping()
    yield unit_clock
    unit_clock.skips_waits = False
