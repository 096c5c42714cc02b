from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.store import rebuild
from rocketmq_py.store.log import log_parts
from tests.unit.store.helpers import Stores
from tests.unit.store.memoryfs import MemoryFileSystem


@pytest.fixture
def stores():
    """Opens stores in memory, and closes what a test left open."""
    opened = Stores(Path("/store"), MemoryFileSystem())
    yield opened
    opened.close()


@pytest.fixture
def disk_stores(tmp_path):
    """Opens stores on the real file system."""
    opened = Stores(tmp_path / "store", None)
    yield opened
    opened.close()


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of a few records; the end of the log is near where no record is left."""
    monkeypatch.setattr(log_parts, "PART_BYTES", 1000)
    monkeypatch.setattr(rebuild, "_AT_ONCE", 0)
    monkeypatch.setattr(rebuild, "_COMMIT_EVERY", 2)
