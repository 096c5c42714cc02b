"""Files that are opened on demand: no more than a limit at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.store.fs.open_files import OpenFiles
from tests.unit.store.memoryfs import MemoryFileSystem


@pytest.mark.parametrize(("limit", "most"), [(0, 1), (1, 1), (2, 2)])
def test_no_more_files_are_open_than_the_limit_and_one_at_least(limit: int, most: int) -> None:
    fs = MemoryFileSystem()
    files = OpenFiles(fs, 100, limit)
    for name in "abc":
        files.get(Path("/folder") / name, create=True)
    assert len(files._open) == most
