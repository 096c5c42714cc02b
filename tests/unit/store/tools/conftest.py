"""The store that most tests of the tools damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.store.write.records import Appended
from tests.unit.store.helpers import Stores, fill

COUNT = 60


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path / "store", None)


@pytest.fixture
def done(stores: Stores) -> list[Appended]:
    """A closed store with COUNT messages in one queue, several log files long."""
    store = stores.open()
    done = fill(store, COUNT, size=200)
    store.close()
    return done
