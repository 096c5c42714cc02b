"""Rules for tests of the server: a busy machine does not cut a read into parts."""

from __future__ import annotations

import pytest

from rocketmq_py.server.requests import dispatcher


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatcher's clock stands still: a read that took more than 20 ms would leave its rest to the next turn."""
    monkeypatch.setattr(dispatcher, "monotonic", lambda: 0.0)
