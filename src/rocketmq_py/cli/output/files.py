"""Atomic replacement of files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Context manager with a temporary file, which replaces ``path`` if the block succeeds; otherwise it is deleted.

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
