"""The file of users and permissions, ``config/access.json`` of the store, readable by the broker's user only."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from rocketmq_py.errors import ConfigError
from rocketmq_py.server import Peer, Reply
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.access.table import ACLS, USERS, Entry, EntryKey
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.entry_file import EntryFile
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.fastjson import pretty, pretty_array, pretty_object

_log = logging.getLogger(__name__)

FILE = "access.json"

_LOOK_SECONDS = 1.0
"""Interval between two checks whether another process has changed the file."""

_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class SecretFileSystem(OsFileSystem):
    """Writes files that only their owner may read, from their creation on."""

    def _create(self, path: Path) -> BinaryIO:
        path.unlink(missing_ok=True)  # one that a crash left behind may have other permissions
        return os.fdopen(os.open(path, _NEW_FILE, 0o600), "wb")


def open_access(settings: AccessSettings, store_root: Path, cluster: str) -> AuthDispatcher:
    """Load a broker's users and permissions from its file, and return its access control.

    :raises ConfigError: neither the file nor its backup can be read.
    """
    path = store_root / "config" / FILE
    file = ConfigFile(path, SecretFileSystem())
    saved = file.load()
    if saved is None and path.exists() and path.stat().st_size:
        raise ConfigError(f"{path} is damaged, and so is its backup: restore or remove it")
    file.restore()
    return AuthDispatcher(settings, lambda: saved, AccessWriter(file).save, cluster)


class AccessWriter:
    """Writes the file in a thread; changes made during a write are written together by the next one."""

    def __init__(self, file: ConfigFile) -> None:
        self._file: EntryFile[EntryKey, Entry] = EntryFile(file, _text, _content)
        self._changes: dict[EntryKey, Entry | None] = {}
        """What no write has begun to write."""
        self._write: asyncio.Task[None] | None = None
        """The write that ends last; it has not begun if there are changes."""

    def save(self, changes: Mapping[EntryKey, Entry | None]) -> asyncio.Future[None] | None:
        """Save changed entries; None for a removed one.

        Outside of an event loop they are on disk at the return. In one, the result is done when they are, and raises
        OSError if the disk is full or fails; the next write has these changes, too.
        """
        is_begun = not self._changes
        self._changes |= changes
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._file.save(self._take())
            return None
        if self._write is None or self._write.done() or is_begun:
            self._write = loop.create_task(self._write_after(self._write))
        return self._write

    async def _write_after(self, previous: asyncio.Task[None] | None) -> None:
        if previous is not None and not previous.done():
            await asyncio.wait([previous])
        await asyncio.to_thread(self._file.save, self._take())

    def _take(self) -> dict[EntryKey, Entry | None]:
        changes, self._changes = self._changes, {}
        return changes


def _text(entry: Entry) -> str:
    return pretty(msgspec.to_builtins(entry()), 2)


def _content(texts: Mapping[EntryKey, str]) -> str:
    """Return the content of the file, sorted by name."""
    names = {member: [name for kind, name in texts if kind == member] for member in (USERS, ACLS)}
    members = {
        member: pretty_array([texts[member, name] for name in sorted(names[member])], 1) for member in (USERS, ACLS)
    }
    return pretty_object(members, 0)


class FollowedAccess:
    """Access control by the users and permissions of a broker in another process, which may change at any time.

    :param settings: the settings of this server.
    :param store_root: the broker's store; its file is read again when it has changed.
    :param cluster: the name of the cluster.
    :raises ConfigError: neither the file nor its backup can be read.
    """

    def __init__(self, settings: AccessSettings, store_root: Path, cluster: str) -> None:
        self._settings = settings
        self._file = ConfigFile(store_root / "config" / FILE, SecretFileSystem())
        self._cluster = cluster
        self._state = self._stat()
        self._looked_at = time.monotonic()
        self._control = self._read()

    @property
    def enabled(self) -> bool:
        """True if requests are checked."""
        return self._control.enabled

    def admit(self, peer: Peer, request: Command) -> Reply | None:
        """Return the refusal of a request, None if it is admitted; a changed file is read again within a second."""
        now = time.monotonic()
        if now - self._looked_at > _LOOK_SECONDS:
            self._looked_at = now
            state = self._stat()
            if state != self._state:
                self._state = state
                self._read_again()
        return self._control.admit(peer, request)

    def _read_again(self) -> None:
        try:
            self._control = self._read()
        except ConfigError as e:
            _log.error("users and permissions stay as they were, because %s cannot be read: %s", self._file.path, e)

    def _read(self) -> AuthDispatcher:
        return AuthDispatcher(self._settings, self._file.load, lambda _: None, self._cluster)

    def _stat(self) -> tuple[int, int]:
        try:
            found = self._file.path.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_mtime_ns, found.st_ino
