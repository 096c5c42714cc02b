"""Stores of small records: local directories, HDFS and object stores.

A record is stored as a whole or not at all, and only one of several writers of a name succeeds. Each store has a
primitive for that: a hard link in a local directory, a rename that does not replace on HDFS, a conditional write in an
object store. A store that cannot be listed must raise: "no records" would lead to a wrong decision.

This module chooses the store of a location, and has the local one.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree

from rocketmq_py.core.paths import below
from rocketmq_py.errors import ConfigError

OBJECT_STORES = frozenset({"s3", "s3a", "s3n", "gs", "abfs", "abfss"})
HADOOP = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})
"""File systems of Hadoop whose rename is atomic and refuses to replace."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://)?")


class DecisionStore(Protocol):
    """A directory of records. All methods raise OSError, and NameIllegal for a name that leads out of it."""

    def names(self) -> list[str]:
        """The names of all records; none if the directory certainly does not exist."""
        ...

    def read(self, name: str) -> bytes:
        """The content of a record."""
        ...

    def create(self, name: str, content: bytes) -> None:
        """Store a record durably, as a whole or not at all.

        :raises FileExistsError: it exists, and is not changed.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a record, if it exists."""
        ...


class LocalDecisionStore:
    """A directory of this machine, or one that is mounted.

    :param sibling: a file that must exist; without it, this is not the machine with the checkpoint.
    """

    def __init__(self, path: Path, sibling: Path | None = None) -> None:
        self._path = path
        self._sibling = sibling

    def names(self) -> list[str]:
        if self._sibling is not None and not self._sibling.is_file():
            raise FileNotFoundError(
                f"Spark's own part of the checkpoint, {self._sibling}, is not on this machine. Spark takes a path"
                " without a scheme as one of its default file system (fs.defaultFS): write the whole URI (hdfs://…, s3a://…)"
            )
        return [entry.name for entry in self._path.iterdir()] if self._path.is_dir() else []

    def read(self, name: str) -> bytes:
        return below(self._path, name).read_bytes()

    def create(self, name: str, content: bytes) -> None:
        target = below(self._path, name)
        self._path.mkdir(parents=True, exist_ok=True)
        draft = self._path / f".{name}.{secrets.token_hex(4)}"
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, target)  # unlike a rename, this does not replace what is there
        finally:
            draft.unlink(missing_ok=True)
        self._sync()

    def remove(self, name: str) -> None:
        below(self._path, name).unlink(missing_ok=True)

    def _sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check(location: str, environ: Mapping[str, str]) -> None:
    """Check without a connection that this process supports a location.

    :raises ConfigError: it does not.
    """
    scheme, _ = split(location, environ)
    if scheme in OBJECT_STORES and find_spec("obstore") is None:
        raise ConfigError(f"{location} is in an object store: pip install 'rocketmq-py[objectstore]' on the driver")
    if scheme not in OBJECT_STORES | HADOOP | {"file"}:
        raise ConfigError(
            f"Python cannot keep decisions in {location} (file, hdfs, s3a, gs and abfs it can). Give option"
            " transactionsLocation: a directory that outlives the driver"
        )


def store_at(location: str, environ: Mapping[str, str], sibling: str | None = None) -> DecisionStore:
    """The store of a location, which is read as Spark reads checkpoint locations.

    :param sibling: name of a file that Spark has written next to the directory, if it must exist.
    :raises ConfigError: it cannot be reached from Python.
    """
    check(location, environ)
    scheme, path = split(location, environ)
    if scheme in OBJECT_STORES:
        from rocketmq_py.spark.decision_store.object_store import ObjectDecisionStore

        return ObjectDecisionStore.at(location)
    if scheme in HADOOP:
        from rocketmq_py.spark.decision_store.hadoop import HadoopDecisionStore

        return HadoopDecisionStore(location, environ)
    return LocalDecisionStore(Path(path), Path(path).parent / sibling if sibling else None)


def split(location: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Scheme and path of a location; one without a scheme is in Hadoop's default file system, as for Spark."""
    found = _SCHEME.match(location)
    if found is None:  # also C:\\: a scheme has more than one letter
        return _default_scheme(environ), location
    return found[1].lower(), location[found.end() :]


def _default_scheme(environ: Mapping[str, str]) -> str:
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        settings = Path(environ.get(variable, ""), "core-site.xml")
        if environ.get(variable) and settings.is_file():
            for each in ElementTree.parse(settings).iter("property"):  # noqa: S314 - this machine's configuration
                if each.findtext("name") in ("fs.defaultFS", "fs.default.name"):
                    return split(each.findtext("value", ""), {})[0]
    return "file"
