"""The current settings of a running name server, which administrators can change by requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rocketmq_py.core.java_config import decode_text, split_lines, write_properties
from rocketmq_py.errors import BrokerError
from rocketmq_py.namesrv.config import NamesrvConfig, read_lines
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem


class NamesrvSettings:
    """The current configuration (``current``), and its changes by requests.

    :param on_change: called with each new configuration.
    :param fs: the file system; the operating system's by default.
    """

    def __init__(
        self,
        config: NamesrvConfig,
        on_change: Callable[[NamesrvConfig], None] = lambda _: None,
        fs: FileSystem | None = None,
    ) -> None:
        self.current = config
        self._on_change = on_change
        self._fs = fs or OsFileSystem()

    def update(self, text: str) -> None:
        """Apply the settings of ``key=value`` lines, and write them to ``configStorePath`` if that is set.

        :raises BrokerError: NO_PERMISSION, one of the keys cannot be changed by requests; nothing is changed.
        :raises ConfigError: a value has the wrong type; nothing is changed.
        """
        changes = read_lines(split_lines(text))
        if self.current.forbidden(changes):
            raise BrokerError(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        self.current = self.current.updated(changes)
        self._on_change(self.current)
        if self.current.config_store_path:
            path = Path(self.current.config_store_path).expanduser()
            kept = {key: value for key, value in changes.items() if key in self.current.table()}
            before, encoding = decode_text(self._fs.read(path) or b"")
            self._fs.write(path, write_properties(before, kept).encode(encoding, "backslashreplace"))
