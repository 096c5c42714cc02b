"""The disk that a test fills: its files are files like all others."""

from __future__ import annotations

from pathlib import Path

from rocketmq_py.store.fs.filesystem import File
from tests.chaoskit.node import FullDiskFileSystem


def test_files_of_a_disk_that_may_be_full_have_all_that_a_store_uses(tmp_path: Path) -> None:
    file = FullDiskFileSystem().open(tmp_path / "file", 64)
    try:
        wanted = {name for name in (*vars(File), *File.__annotations__) if not name.startswith("_")}
        assert wanted >= {"read", "read_if_resident", "write", "size"}
        assert [name for name in sorted(wanted) if not hasattr(file, name)] == []
        file.write(0, b"abc")
        assert file.read(0, 3) == b"abc"
        assert file.read_if_resident(0, 3) in (b"abc", None)
    finally:
        file.close()
