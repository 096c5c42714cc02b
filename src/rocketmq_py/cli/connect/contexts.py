"""Saved clusters and the current one, in a JSON file in the user's configuration directory."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from rocketmq_py.cli.connect.security import CliSecurity
from rocketmq_py.cli.output.files import replaced
from rocketmq_py.errors import ConfigError

FILE_VARIABLE = "ROCKETMQ_CONTEXTS"
"""The environment variable that sets another path for the file with saved contexts."""


class SavedCluster(msgspec.Struct, rename="camel", omit_defaults=True):
    """The connection settings of a cluster, as saved in a context."""

    namesrv: str
    address_map: dict[str, str] = {}
    """Reachable addresses by the addresses that brokers advertise."""
    timeout: float | None = None
    """Timeout of a request in seconds; None for the default."""
    security: CliSecurity | None = None
    """TLS options and the access key; never a secret key."""


class Contexts(msgspec.Struct, omit_defaults=True):
    """The contents of the file: saved clusters by name, and the name of the current one (None if there is none)."""

    current: str | None = None
    contexts: dict[str, SavedCluster] = {}

    def get(self, name: str) -> SavedCluster:
        """Return the cluster saved under a name.

        :raises ConfigError: no cluster is saved under this name.
        """
        found = self.contexts.get(name)
        if found is None:
            known = ", ".join(sorted(self.contexts)) or "none; save one with 'rocketmq context set'"
            raise ConfigError(f"there is no context {name!r}; saved are: {known}")
        return found

    def put(self, name: str, cluster: SavedCluster) -> None:
        """Add or replace a cluster; it becomes the current one if there is none.

        :raises ConfigError: the name is empty or contains spaces.
        """
        if not name or any(map(str.isspace, name)):
            raise ConfigError(f"{name!r} is no name for a context: it must not be empty or contain spaces")
        self.contexts[name] = cluster
        self.current = self.current or name

    def use(self, name: str) -> None:
        """Make a saved cluster the current one.

        :raises ConfigError: no cluster is saved under this name.
        """
        self.get(name)
        self.current = name

    def delete(self, name: str) -> None:
        """Delete a saved cluster; if it was the current one, no context is current.

        :raises ConfigError: no cluster is saved under this name.
        """
        self.get(name)
        del self.contexts[name]
        if self.current == name:
            self.current = None


def file_path() -> Path:
    """Return the path of the file with saved contexts.

    It is in the platform's configuration directory, unless the environment variable ROCKETMQ_CONTEXTS sets another.
    """
    named = os.environ.get(FILE_VARIABLE)
    return Path(named).expanduser() if named else Path(click.get_app_dir("rocketmq")) / "contexts.json"


def load(path: Path) -> Contexts:
    """Read the saved contexts; return empty ones if the file does not exist.

    :raises ConfigError: the file cannot be read or parsed.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except OSError as e:
        raise ConfigError(f"the saved contexts in {path} cannot be read: {e.strerror}") from e
    except msgspec.DecodeError as e:
        raise ConfigError(f"the saved contexts in {path} cannot be understood: {e}; repair or remove the file") from e


def save(contexts: Contexts, path: Path) -> None:
    """Write the contexts to the file, replacing it atomically.

    :raises ConfigError: the file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as file:
            file.write(text)
    except OSError as e:
        raise ConfigError(f"contexts cannot be saved in {path}: {e.strerror}") from e
