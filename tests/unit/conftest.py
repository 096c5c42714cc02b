"""What holds for the unit tier: no test waits for the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_write_through() -> Iterator[None]:
    """``os.fsync`` does nothing: only a loss of power shows whether it did, and no unit test cuts the power.

    Losses of power are played on ``tests.unit.store.memoryfs``, which never calls it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
