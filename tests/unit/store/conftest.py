from __future__ import annotations

from pathlib import Path

import pytest

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
