"""How file systems in memory list the folders in the folders of a directory, by their other methods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocketmq_py.store.fs.filesystem import FileSystem, InnerFolder


def inner_folders(fs: FileSystem, root: Path, length: int) -> Iterator[InnerFolder]:
    """As :meth:`FileSystem.inner_folders`."""
    for outer in fs.names(root):
        for name in fs.names(root / outer) if fs.is_directory(root / outer) else ():
            yield _inner_folder(fs, outer, root / outer / name, length)


def _inner_folder(fs: FileSystem, outer: str, path: Path, length: int) -> InnerFolder:
    if not fs.is_directory(path):
        return InnerFolder(outer, path.name, None)
    sizes = {name: fs.size(path / name) or 0 for name in fs.names(path)}
    content = fs.read(path / next(reversed(sizes))) or b""
    return InnerFolder(outer, path.name, sizes, content[:length], not content[length:].strip(b"\0"))
