"""The manifest of an archive: which Parquet files it has, and which offsets of which queues are in each.

A file that is not in the manifest does not belong to the archive: a run that was killed has left it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.model import MessageQueue
from rocketmq_py.store.fs.os_files import OsFileSystem

NAME = "archive.json"
_FORM = 1


class Stretch(msgspec.Struct, array_like=True):
    """The offsets of a queue in one file, from ``start`` up to, not including, ``stop``."""

    broker: str
    queue_id: int
    start: int
    stop: int


class Part(msgspec.Struct):
    """A Parquet file of an archive.

    :ivar rows: number of its messages.
    :ivar size: bytes of the file.
    """

    name: str
    rows: int
    size: int
    stretches: list[Stretch]


class Manifest(msgspec.Struct):
    """The content of an archive of one topic."""

    topic: str
    parts: list[Part] = []
    form: int = _FORM

    @property
    def rows(self) -> int:
        """The number of messages in the archive."""
        return sum(part.rows for part in self.parts)

    def ends(self) -> dict[MessageQueue, int]:
        """Return the offset of each queue at which the next run begins."""
        found: dict[MessageQueue, int] = {}
        for part in self.parts:
            for one in part.stretches:
                queue = MessageQueue(self.topic, one.broker, one.queue_id)
                found[queue] = max(found.get(queue, 0), one.stop)
        return found


def load(directory: Path) -> Manifest | None:
    """Read the manifest of an archive; None if the directory has none.

    :raises CommandFailure: it cannot be read, or is of a newer version.
    """
    path = directory / NAME
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as e:
        raise CommandFailure(f"{path} cannot be read: {e}") from e
    if found.form != _FORM:
        raise CommandFailure(f"{path} has form {found.form}, this version reads {_FORM}: use a newer version")
    for part in found.parts:
        if Path(part.name).name != part.name:
            raise CommandFailure(f"{path} names {part.name!r}, which is no file of {directory}")
    return found


def save(directory: Path, manifest: Manifest) -> None:
    """Write the manifest; after a crash it has the old or the new content.

    :raises OSError: the disk is full or fails.
    """
    OsFileSystem().write(directory / NAME, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
