"""Where commands write: standard output, or files that are replaced completely or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.errors import RocketMQError


@contextmanager
def output_to(path: Path) -> Iterator[BinaryIO]:
    """Context manager with standard output if ``path`` is ``-``, otherwise with a file as :func:`replaced`.

    :raises CommandFailure: it cannot be written.
    """
    try:
        if str(path) == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        else:
            with replaced(path) as file:
                yield file
    except (BrokenPipeError, RocketMQError):
        raise  # a timeout is both a RocketMQError and an OSError
    except OSError as e:
        if str(path) == "-":
            discard_output()
        raise CommandFailure(f"{path} cannot be written: {e.strerror or e}") from e


def discard_output() -> None:
    """Redirect standard output to the null device: it cannot be written, and the flush at exit would fail again."""
    with suppress(OSError, ValueError):  # standard output has no file descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


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
