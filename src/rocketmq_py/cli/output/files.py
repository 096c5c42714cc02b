"""Atomic replacement of files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that replaces ``path`` if the block succeeds; after an exception ``path`` is unchanged.

    :raises OSError: the file cannot be written.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
        written = Path(file.name)
        try:
            yield file  # type: ignore[misc]
            file.close()
            written.replace(path)
        except BaseException:
            file.close()
            written.unlink(missing_ok=True)
            raise
