"""The file of users and permissions, ``config/access.json`` of the store, readable by the broker's user only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rocketmq_py.errors import ConfigError
from rocketmq_py.server.access_control import AccessControl, AccessSettings
from rocketmq_py.store.config.config_files import ConfigFile

FILE = "access.json"


def open_access(settings: AccessSettings, store_root: Path, cluster: str) -> AccessControl:
    """The access control of a broker, with users and permissions loaded from its file.

    :raises ConfigError: neither the file nor its backup can be read.
    """
    path = store_root / "config" / FILE
    file = ConfigFile(path)

    def save(table: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        for secret in (path, path.with_name(f"{FILE}.bak")):
            os.close(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600))
        file.save(table)
        for secret in (path, path.with_name(f"{FILE}.bak")):
            secret.chmod(0o600)

    saved = file.load()
    if saved is None and path.exists() and path.stat().st_size:
        raise ConfigError(f"{path} is damaged, and so is its backup: restore or remove it")
    return AccessControl(settings, lambda: saved, save, cluster)
