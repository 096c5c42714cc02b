"""What Linux says about mapped files."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest

from rocketmq_py.store.fs import mapped_pages

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")


@needs_linux
@pytest.mark.parametrize("begin", [0, 1, mmap.PAGESIZE - 1, mmap.PAGESIZE])
@pytest.mark.parametrize("pages", [3, 2 * mapped_pages._AT_ONCE + 3])
def test_linux_answers_for_pages_that_were_just_written(tmp_path: Path, pages: int, begin: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(pages * mmap.PAGESIZE))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        address = mapped_pages.address_of(mapped)
        for at in range(0, len(mapped), mmap.PAGESIZE):
            mapped[at] = 1
        assert mapped_pages.are_resident(address + begin, len(mapped) - begin) is True


@needs_linux
def test_an_address_that_is_not_mapped_has_no_answer() -> None:
    assert mapped_pages.are_resident(mmap.PAGESIZE, 1) is None
