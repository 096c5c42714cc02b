"""Rules for the unit tests of reads and writes: retries do not wait."""

from __future__ import annotations

import pytest

from rocketmq_py.core.backoff import Backoff


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of a second between attempts."""
    monkeypatch.setattr(Backoff, "seconds", lambda *_: 0.001)
