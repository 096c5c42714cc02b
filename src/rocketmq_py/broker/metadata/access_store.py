"""The file of users and permissions, ``config/access.json`` of the store, readable by the broker's user only."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import BinaryIO

from rocketmq_py.errors import ConfigError
from rocketmq_py.server import Peer, Reply
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.wire.command import Command

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
    return AuthDispatcher(settings, lambda: saved, file.save, cluster)


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
