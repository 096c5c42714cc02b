"""The key-value table of a name server and its file ``kvConfig.json``, which has Java's format (KVConfigManager)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from rocketmq_py.errors import BadHeader, ConfigError
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.bodies.route import KvTable
from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
"""The namespace that brokers and clients read; its values are the queues of globally ordered topics, by topic."""


class _File(Body, kw_only=True):
    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class KvConfig:
    """The key-value table: text values by namespace and key.

    :param path: the file, written by :meth:`save`; None keeps the table in memory only.
    :param fs: the file system; the operating system's by default.
    :raises ConfigError: the file exists but cannot be decoded.
    """

    def __init__(self, path: Path | None = None, fs: FileSystem | None = None) -> None:
        self._path = path
        self._fs = fs or OsFileSystem()
        self._table = self._load()
        self._is_changed = False
        self._one_by_one = asyncio.Lock()
        """Serializes writes of the file; those that waited for one are written together."""

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> KvTable | None:
        """Return the keys and values of a namespace; None if no key was ever set in it."""
        table = self._table.get(namespace)
        return None if table is None else KvTable(table=table)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value."""
        self._table.setdefault(namespace, {})[key] = value
        self._is_changed = True

    def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if there is one."""
        self._table.get(namespace, {}).pop(key, None)
        self._is_changed = True

    async def save(self) -> None:
        """Write all changes to the file, in a thread: a slow disk delays nobody's routes.

        :raises OSError: the file could not be written; the changes are in memory nevertheless.
        """
        if self._path is None:
            return
        async with self._one_by_one:
            if self._is_changed:
                self._is_changed = False
                content = msgspec.json.encode({"configTable": self._table})
                try:
                    await asyncio.to_thread(self._write, self._path, content)
                except OSError:
                    self._is_changed = True
                    raise

    def _load(self) -> dict[str, dict[str, str]]:
        data = self._fs.read(self._path) if self._path else None
        if not data or not data.strip():
            return {}
        try:
            return _File.decode(data).config_table
        except BadHeader as e:
            raise ConfigError(f"{self._path} cannot be understood: {e}; mend it or move it away") from e

    def _write(self, path: Path, content: bytes) -> None:
        previous = self._fs.read(path)
        if previous:
            self._fs.write(path.with_name(path.name + ".bak"), previous)
        self._fs.write(path, content)
