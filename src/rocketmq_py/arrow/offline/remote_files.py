"""Store directories on file systems other than this machine's, read through Arrow's (:mod:`pyarrow.fs`).

Arrow is there wherever a store is read, and brings clients of Amazon S3, Google Cloud Storage and Azure; HDFS needs
Hadoop's native client, and others go through fsspec. Credentials are theirs: they come from the environment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
from pyarrow import fs as arrow_fs

from rocketmq_py.arrow.offline.block_cache import BlockCache
from rocketmq_py.arrow.options.stores import StoreDirectory, shown
from rocketmq_py.core.paths import component_fault, quoted_name
from rocketmq_py.errors import ConfigError, StoreError
from rocketmq_py.store.fs.filesystem import DiskUsage, InnerFolder, Lock
from rocketmq_py.store.fs.readonly import UnchangingFile, UnchangingFileSystem

_S3_OF_HADOOP = ("s3a://", "s3n://")
_OF_HDFS = ". HDFS needs JAVA_HOME, Hadoop's libhdfs.so (ARROW_LIBHDFS_DIR) and its jars in CLASSPATH"
_MOST_WHOLE = 64 * 1024 * 1024
"""Bytes of a small file that is read as a whole."""
_DENIED = ("ACCESS_DENIED", "AccessDenied", "Permission denied", "403", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT")


class RemoteStore(NamedTuple):
    """Where a store is: its file system, and the paths of its directories there.

    :ivar commit_log: None for ``commitlog`` below ``root``.
    """

    files: RemoteFileSystem
    root: Path
    commit_log: Path | None


def remote_store(place: StoreDirectory) -> RemoteStore:
    """Return where the store of a URI is; its directories are not looked at.

    :raises ConfigError: there is no file system for the URI, or the commit log is on another one.
    """
    arrow, root = file_system(place.root)
    files = RemoteFileSystem(arrow, {path_of(place.root): root})
    if place.commit_log is None:
        return RemoteStore(files, path_of(place.root), None)
    other, log = file_system(place.commit_log)
    if not other.equals(arrow):
        raise ConfigError(f"{shown(place.commit_log)} is not on the file system of {shown(place.root)}")
    files.places[path_of(place.commit_log)] = log
    return RemoteStore(files, path_of(place.root), path_of(place.commit_log))


def path_of(uri: str) -> Path:
    """Return the path that stands for the directory of a URI in the readers of stores."""
    return Path(shown(uri))


def file_system(uri: str) -> tuple[Any, str]:
    """Return Arrow's file system for a URI, and the path of the directory there.

    :raises ConfigError: there is none.
    """
    known = next((f"s3://{uri[len(scheme) :]}" for scheme in _S3_OF_HADOOP if uri.lower().startswith(scheme)), uri)
    try:
        files, path = arrow_fs.FileSystem.from_uri(known)
    except (pa.ArrowException, ValueError, OSError, ImportError) as e:
        more = _OF_HDFS if uri.lower().startswith("hdfs:") else ""
        raise ConfigError(f"{shown(uri)} cannot be opened: {_reason(e, uri)}{more}") from e
    return files, path.rstrip("/")


class RemoteFile(UnchangingFile):
    """A file of a remote file system; implements :class:`rocketmq_py.store.fs.filesystem.File`."""

    def __init__(self, files: RemoteFileSystem, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self._files = files
        with files.failing(path):
            self._input = files.arrow.open_input_file(files.key(path))

    @property
    def buffer(self) -> RemoteBuffer:
        """The bytes of the file, each slice read when it is asked for."""
        return RemoteBuffer(self)

    def read(self, position: int, length: int) -> bytes:
        with self._files.failing(self.path):
            return self._files.blocks.read(str(self.path), self.size, self._fetch, position, length)

    def _fetch(self, position: int, length: int) -> bytes:
        return bytes(self._input.read_at(length, position))

    def read_if_resident(self, position: int, length: int) -> None:
        """Return None: nothing of it is in memory, as far as is known."""

    def is_resident(self, position: int, length: int) -> bool:
        del position, length
        return False

    def close(self) -> None:
        self._files.blocks.forget_ahead(str(self.path))
        self._input.close()


class RemoteBuffer:
    """What :class:`rocketmq_py.store.fs.filesystem.Buffer` has for reading, without a mapping."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file

    def __getitem__(self, key: slice) -> bytes:
        start, stop, _ = key.indices(self._file.size)
        return self._file.read(start, stop - start)

    def __setitem__(self, key: slice, value: bytes | bytearray) -> NoReturn:
        del key
        self._file.write(0, value)

    def __buffer__(self, flags: int) -> memoryview:
        del flags
        raise BufferError(f"{_uri(self._file.path)} is not mapped")


class RemoteFileSystem(UnchangingFileSystem):
    """The files of a store on a remote file system; implements :class:`rocketmq_py.store.fs.filesystem.FileSystem`.

    Directories are listed once. What a listing says is checked: its names become parts of paths.

    :param arrow: Arrow's file system.
    :param places: by the path of each directory of the store, its path there.
    """

    tells_residency = False

    def __init__(self, arrow: Any, places: Mapping[Path, str]) -> None:
        self.arrow = arrow
        self.places = dict(places)
        self.blocks = BlockCache()
        self._listings: dict[Path, dict[str, int | None]] = {}

    def key(self, path: Path) -> str:
        """Return the path of a file or directory in Arrow's file system."""
        for place, key in self.places.items():
            if path.is_relative_to(place):
                below = path.relative_to(place).as_posix()
                return key if below == "." else f"{key}/{below}"
        raise StoreError(f"{path} is not in the store")

    def open(self, path: Path, size: int, *, create: bool = False) -> RemoteFile:
        del create
        return RemoteFile(self, path, size)

    def names(self, directory: Path) -> list[str]:
        return sorted(self._listing(directory))

    def size(self, path: Path) -> int | None:
        return self._listing(path.parent).get(path.name)

    def is_directory(self, path: Path) -> bool:
        known = self._listings.get(path.parent)
        if known is not None:
            return path.name in known and known[path.name] is None
        return bool(self._listing(path))

    def read(self, path: Path) -> bytes | None:
        size = self.size(path)
        if size is None:
            return None
        if size > _MOST_WHOLE:
            raise StoreError(f"{_uri(path)} has {size} bytes, which is too much for a file of its kind")
        file = self.open(path, size)
        try:
            return file.read(0, size)
        finally:
            file.close()

    def load(self, path: Path, position: int, length: int) -> None:
        """Do nothing: files are read ahead."""

    def inner_folders(self, root: Path, length: int) -> Iterator[InnerFolder]:
        del length
        _only_brokers(root)

    def modified_ms(self, path: Path) -> int:
        _only_brokers(path)

    def lock(self, path: Path) -> Lock:
        _only_brokers(path)

    def used_ratio(self, path: Path) -> float:
        _only_brokers(path)

    def disk_usage(self, path: Path) -> DiskUsage:
        _only_brokers(path)

    def close(self) -> None:
        """Forget what was read."""
        self.blocks.close()
        self._listings.clear()

    def _listing(self, directory: Path) -> dict[str, int | None]:
        """Return the size of each file in a directory, None for a directory; empty if there is no such directory."""
        if directory not in self._listings:
            with self.failing(directory):
                selector = arrow_fs.FileSelector(self.key(directory), allow_not_found=True)
                found = self.arrow.get_file_info(selector)
            self._listings[directory] = {info.base_name: _size(info) for info in found}
            for name in self._listings[directory]:
                if fault := component_fault(name):
                    raise StoreError(f"{_uri(directory)} lists {quoted_name(name)}: {fault}")
        return self._listings[directory]

    @contextlib.contextmanager
    def failing(self, path: Path) -> Iterator[None]:
        """Context that names the file or directory in errors.

        :raises StoreError: it cannot be read.
        :raises FileNotFoundError: it is missing.
        """
        try:
            yield
        except FileNotFoundError as e:
            raise FileNotFoundError(f"there is no {_uri(path)}") from e
        except (OSError, pa.ArrowException) as e:
            raise StoreError(f"{_uri(path)} cannot be read: {_reason(e)}") from e


def _uri(path: Path) -> str:
    return path.as_posix().replace(":/", "://", 1)


def _size(info: Any) -> int | None:
    """Return the bytes of a file in a listing, None for a directory."""
    return max(info.size or 0, 0) if info.type == arrow_fs.FileType.File else None


def _reason(error: Exception, uri: str = "") -> str:
    """Return what an error says, without a URI's query, and what to do if access is denied."""
    text = (str(error) or type(error).__name__).partition("\n")[0]
    text = text.replace(uri, shown(uri)) if uri else text
    if isinstance(error, PermissionError) or any(word in text for word in _DENIED):
        return f"access is denied; are credentials that may read it in the environment of this process? ({text})"
    return text


def _only_brokers(path: Path) -> NoReturn:
    raise OSError(f"{_uri(path)} is on a file system that no broker uses")
