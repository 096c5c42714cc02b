"""Choose the store for decision records by their location: a local directory, HDFS or an object store.

A record is stored completely or not at all, and only one of several writers of a name succeeds. Each store has a
primitive for that: a hard link in a local directory, a rename that does not replace on HDFS, a conditional write in an
object store. A store that cannot be listed must raise: "no records" would lead to a wrong decision.

The local store is in this module.
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
"""URI schemes of object stores."""
HADOOP = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})
"""URI schemes of Hadoop file systems whose rename is atomic and does not replace files."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://)?")


class DecisionStore(Protocol):
    """A directory of records.

    All methods raise OSError on failure, and NameIllegal for a record name that leads out of the directory.
    """

    def names(self) -> list[str]:
        """Return the names of all records; empty only if the directory is empty or verifiably does not exist."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a record."""
        ...

    def create(self, name: str, content: bytes) -> None:
        """Store a record durably, completely or not at all.

        :raises FileExistsError: a record of this name exists; it is not changed.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a record if it exists."""
        ...


class LocalDecisionStore:
    """A :class:`DecisionStore` in a local or mounted directory.

    :param sibling: a file of Spark's checkpoint, which must exist: otherwise the checkpoint is on another machine or
        file system. None for no such check.
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
            os.link(draft, target)  # unlike a rename, a link does not replace an existing file
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
    """Check, without connecting, that this process can store decisions at a location of this kind.

    :raises ConfigError: the scheme of the URI is not supported, or its Python package is not installed.
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
    """Return the store for a location, which is interpreted as Spark interprets checkpoint locations.

    :param sibling: name of a file of Spark's checkpoint that must exist next to a local directory: without it, the
        checkpoint is on another machine or file system. None: not checked.
    :raises ConfigError: as :func:`check`, or the URI is invalid.
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
    """Return scheme and path of a location; a location without a scheme gets that of Hadoop's default file system."""
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
