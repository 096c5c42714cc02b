"""What was decided about the micro-batches of an exactly-once query, on durable storage.

A decision says which attempts at the tasks of a micro-batch count. It is written before the first transaction of the
micro-batch ends, and never changed: what it names is committed, whatever happens, and everything else of the
micro-batch is rolled back. The decision about a micro-batch is only made when all transactions of the one before have
ended.

Knows the form of a decision, how the question about one message is answered from it, and the directory it lies in.
Refuses to know brokers.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from rocketmq_py.errors import RocketMQError
from rocketmq_py.properties import Property
from rocketmq_py.spark.rows import ATTEMPT, BATCH_ID, QUERY_ID, ROW_KEY

_FORM = 1
_KEPT = 2
_NAME = re.compile(r"([0-9]{20})\.json")


class Verdict(enum.Enum):
    """What is known about a half message."""

    COMMIT = "its row counts: it has to be delivered unless it has been"
    ROLLBACK = "its row does not count, or it has been delivered"
    UNKNOWN = "nothing is decided yet, or it is not of this query"


class DecisionError(RocketMQError):
    """A decision cannot be written or read, or contradicts what the query is about to do."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Which rows of a micro-batch count.

    :ivar attempts: the attempts at tasks that count.
    :ivar resent: row key and unique key of those rows of which one half message counts, and others, sent before over a
        connection that broke, do not.
    :ivar topics: where the rows go.
    :ivar brokers: where their half messages are.
    """

    query_id: str
    batch_id: int
    attempts: frozenset[str]
    resent: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()

    def counts(self, properties: Mapping[str, str]) -> bool:
        """Whether the half message with these properties is to be delivered."""
        attempt, row = properties.get(ATTEMPT), properties.get(ROW_KEY, "")
        is_last = self.resent.get(row, properties.get(Property.UNIQUE_KEY)) == properties.get(Property.UNIQUE_KEY)
        return self.is_about(properties) and attempt in self.attempts and is_last

    def is_about(self, properties: Mapping[str, str]) -> bool:
        """Whether a half message is of this micro-batch."""
        return properties.get(QUERY_ID) == self.query_id and properties.get(BATCH_ID) == str(self.batch_id)

    def encode(self) -> bytes:
        """The bytes of the record."""
        document = {
            "form": _FORM, "query": self.query_id, "batch": self.batch_id, "attempts": sorted(self.attempts),
            "resent": dict(self.resent), "topics": list(self.topics), "brokers": list(self.brokers),
        }  # fmt: skip
        return json.dumps(document, indent=1).encode()

    @staticmethod
    def decode(raw: bytes) -> Decision:
        """A decision of its record.

        :raises DecisionError: it is none, or of a later form.
        """
        try:
            found: dict[str, Any] = json.loads(raw)
            if found["form"] != _FORM:
                raise DecisionError(f"it has form {found['form']}, this version knows {_FORM}: use a newer version")
            return Decision(
                str(found["query"]), int(found["batch"]), frozenset(map(str, found["attempts"])),
                {str(row): str(key) for row, key in found["resent"].items()}, tuple(map(str, found["topics"])),
                tuple(map(str, found["brokers"])),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise DecisionError(f"it is no decision record: {e!r}") from e


def verdict(properties: Mapping[str, str], latest: Decision | None, settled: int | None = None) -> Verdict:
    """What is to become of a half message that a broker asks about.

    :param latest: the latest decision of this query.
    :param settled: the number of a micro-batch all of whose transactions have ended, if that is known.
    """
    batch = properties.get(BATCH_ID, "")
    if latest is None or properties.get(QUERY_ID) != latest.query_id or not batch.isdecimal():
        return Verdict.UNKNOWN
    if int(batch) > latest.batch_id:
        return Verdict.UNKNOWN
    if latest.counts(properties) and settled != latest.batch_id:
        return Verdict.COMMIT
    return Verdict.ROLLBACK


# -- where they lie


class Directory(Protocol):
    """What is asked of a place for records."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def create(self, name: str, content: bytes) -> None:
        """Durably and as a whole, or not at all. Raises FileExistsError."""
        ...

    def remove(self, name: str) -> None: ...


class LocalDirectory:
    """A directory of this machine, or one that is mounted."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        return [entry.name for entry in self._path.iterdir()] if self._path.is_dir() else []

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def create(self, name: str, content: bytes) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        draft = self._path / f".{name}.{secrets.token_hex(4)}"
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, self._path / name)  # unlike a rename, this does not replace what is there
        finally:
            draft.unlink(missing_ok=True)
        self._sync()

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def _sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class ArrowDirectory:
    """A directory of a file system that Arrow knows: HDFS, S3, Google Cloud Storage, Azure.

    :param filesystem: a ``pyarrow.fs.FileSystem``.
    :param renames: whether its files are not there as a whole when they are closed, and have to be moved into place.
    """

    def __init__(self, filesystem: Any, path: str, renames: bool) -> None:
        self._filesystem = filesystem
        self._path = path.rstrip("/")
        self._renames = renames

    def names(self) -> list[str]:
        from pyarrow.fs import FileSelector

        return [info.base_name for info in self._filesystem.get_file_info(FileSelector(self._path, True))]

    def read(self, name: str) -> bytes:
        with self._filesystem.open_input_stream(f"{self._path}/{name}") as stream:
            return bytes(stream.read())

    def create(self, name: str, content: bytes) -> None:
        target = f"{self._path}/{name}"
        if name in self.names():
            raise FileExistsError(target)
        self._filesystem.create_dir(self._path, recursive=True)
        draft = f"{self._path}/.{name}.{secrets.token_hex(4)}" if self._renames else target
        with self._filesystem.open_output_stream(draft) as stream:
            stream.write(content)
        if self._renames:
            self._filesystem.move(draft, target)

    def remove(self, name: str) -> None:
        self._filesystem.delete_file(f"{self._path}/{name}")


_ARROW_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "hdfs": "hdfs", "viewfs": "viewfs", "abfs": "abfs",
                  "abfss": "abfss"}  # fmt: skip


def directory(location: str) -> Directory:
    """The place of a URI or path, as Spark writes checkpoint locations.

    :raises DecisionError: it cannot be reached from Python.
    """
    scheme, rest = urlsplit(location).scheme, urlsplit(location).path
    if scheme in ("", "file"):
        return LocalDirectory(Path(unquote(rest) if scheme else location))
    if scheme not in _ARROW_SCHEMES:
        raise DecisionError(
            f"Python cannot reach {location} (file, hdfs, s3a, gs and abfs it can). Give option transactionsLocation: a"
            " directory that outlives the driver"
        )
    from pyarrow.fs import FileSystem

    try:
        filesystem, path = FileSystem.from_uri(_ARROW_SCHEMES[scheme] + location[len(scheme) :])
    except (OSError, ValueError) as e:
        raise DecisionError(
            f"Arrow cannot open {location} from Python: {e}. Set it up on the driver (for hdfs: HADOOP_HOME and"
            " CLASSPATH), or give option transactionsLocation"
        ) from e
    return ArrowDirectory(filesystem, path, renames=scheme in ("hdfs", "viewfs"))


class Decisions:
    """The decisions of one query.

    :param location: where they lie, for messages.
    """

    def __init__(self, location: str, where: Directory) -> None:
        self._location = location
        self._where = where

    @staticmethod
    def at(location: str) -> Decisions:
        """Those in a directory; it need not exist yet."""
        return Decisions(location, directory(location))

    def latest(self) -> Decision | None:
        """The last decision that was made.

        :raises DecisionError: it cannot be read.
        """
        with self._told("read"):
            numbers = self._numbers()
            return Decision.decode(self._where.read(_name(numbers[-1]))) if numbers else None

    def make(self, decision: Decision) -> None:
        """Make a decision; it is durable when this returns.

        :raises DecisionError: it cannot be written, or one about this micro-batch or a later one is there.
        """
        with self._told("written"):
            numbers = self._numbers()
            if numbers and numbers[-1] >= decision.batch_id:
                raise FileExistsError(f"micro-batch {numbers[-1]} is decided already; does the query run twice?")
            self._where.create(_name(decision.batch_id), decision.encode())
            for number in numbers[: 1 - _KEPT]:
                self._where.remove(_name(number))

    def _numbers(self) -> list[int]:
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, self._where.names()) if match)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, DecisionError) as e:
            raise DecisionError(f"the decision record in {self._location} cannot be {what}: {e}") from e


def _name(batch_id: int) -> str:
    return f"{batch_id:020d}.json"
