"""Back pressure of a producer: how many sends, and how many bytes of them, may be in progress at the same time."""

from __future__ import annotations

import math

from rocketmq_py.errors import ConfigError


class SendWindow:
    """The sends in progress, by number and bytes. The caller holds a lock if several threads use it.

    A send is admitted while both are below their limits, so that one message larger than ``max_bytes`` can be sent.

    :param max_sends: sends in progress at most; None for no limit.
    :param max_bytes: bytes of their bodies, after compression; None for no limit.
    :raises ConfigError: a limit below 1.
    """

    __slots__ = ("_max_bytes", "_max_sends", "bytes", "sends")

    def __init__(self, max_sends: int | None, max_bytes: int | None) -> None:
        for name, limit in (("max_pending_sends", max_sends), ("max_pending_bytes", max_bytes)):
            if limit is not None and limit < 1:
                raise ConfigError(f"{name}={limit} must be at least 1, or None for no limit")
        self._max_sends = math.inf if max_sends is None else max_sends
        self._max_bytes = math.inf if max_bytes is None else max_bytes
        self.sends = 0
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """True if no further send may begin."""
        return self.sends >= self._max_sends or self.bytes >= self._max_bytes

    def enter(self, size: int) -> None:
        """A send of ``size`` bytes begins."""
        self.sends += 1
        self.bytes += size

    def leave(self, size: int) -> None:
        """A send of ``size`` bytes has ended."""
        self.sends -= 1
        self.bytes -= size

    def __str__(self) -> str:
        return f"{self.sends} sends with {self.bytes} bytes are in progress"
