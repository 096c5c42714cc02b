"""The file of users and permissions, ``config/access.json`` of the store, readable by the broker's user only."""

from __future__ import annotations

import os
from pathlib import Path

from rocketmq_py.errors import ConfigError
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.fs.os_files import OsFileSystem

FILE = "access.json"

_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class SecretFileSystem(OsFileSystem):
    """Files of the operating system that only their owner may read, from the moment they exist."""

    def write(self, path: Path, data: bytes) -> None:
        """Replace a file as a whole, as :meth:`OsFileSystem.write` does."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".tmp")
        new.unlink(missing_ok=True)  # one that a crash left behind may have other permissions
        with os.fdopen(os.open(new, _NEW_FILE, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def open_access(settings: AccessSettings, store_root: Path, cluster: str) -> AuthDispatcher:
    """The access control of a broker, with users and permissions loaded from its file.

    :raises ConfigError: neither the file nor its backup can be read.
    """
    path = store_root / "config" / FILE
    file = ConfigFile(path, SecretFileSystem())

    saved = file.load()
    if saved is None and path.exists() and path.stat().st_size:
        raise ConfigError(f"{path} is damaged, and so is its backup: restore or remove it")
    return AuthDispatcher(settings, lambda: saved, file.save, cluster)
