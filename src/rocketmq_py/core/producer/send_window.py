"""Back pressure of a producer: limits for the number and the bytes of the sends in progress."""

from __future__ import annotations

import math

from rocketmq_py.errors import ConfigError


class SendWindow:
    """Counts the sends in progress and their bytes. Not thread-safe.

    A send may begin while both numbers are below their limits, so a message larger than ``max_bytes`` can be sent, too.

    :param max_sends: maximum number of sends in progress; None for no limit.
    :param max_bytes: maximum bytes of their bodies, after compression; None for no limit.
    :param bytes_option: name of the option for ``max_bytes``, for the error.
    :raises ConfigError: a limit is below 1.
    """

    __slots__ = ("_max_bytes", "_max_sends", "bytes", "sends")

    def __init__(self, max_sends: int | None, max_bytes: int | None, bytes_option: str = "max_pending_bytes") -> None:
        for name, limit in (("max_pending_sends", max_sends), (bytes_option, max_bytes)):
            if limit is not None and limit < 1:
                raise ConfigError(f"{name}={limit} must be at least 1, or None for no limit")
        self._max_sends = math.inf if max_sends is None else max_sends
        self._max_bytes = math.inf if max_bytes is None else max_bytes
        self.sends = 0
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """True if no further send may begin now."""
        return self.sends >= self._max_sends or self.bytes >= self._max_bytes

    def enter(self, size: int) -> None:
        """Count a send that begins, with a body of ``size`` bytes."""
        self.sends += 1
        self.bytes += size

    def leave(self, size: int, sends: int = 1) -> None:
        """Subtract a send that has ended, with a body of ``size`` bytes, or several with so many bytes together."""
        self.sends -= sends
        self.bytes -= size

    def __str__(self) -> str:
        return f"{self.sends} sends with {self.bytes} bytes are in progress"
