"""Writing a file as a whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file that becomes ``path`` when the block ends well; else what was there stays as it was.

    :raises OSError: it cannot be written.
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
