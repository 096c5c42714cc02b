"""Back pressure of a producer: limits for the number and the bytes of the sends in progress."""

from __future__ import annotations

import math

from rocketmq_py.errors import ConfigError


class SendWindow:
    """Counts the sends in progress and their bytes.

    A send may begin while both numbers are below their limits, so a message larger than ``max_bytes`` can be sent, too.
    One thread calls :meth:`enter` and :meth:`leave`, and needs no lock for that; others call :meth:`enter_elsewhere`,
    one at a time. Each of the two changes only numbers of its own.

    :param max_sends: maximum number of sends in progress; None for no limit.
    :param max_bytes: maximum bytes of their bodies, after compression; None for no limit.
    :param bytes_option: name of the option for ``max_bytes``, for the error.
    :raises ConfigError: a limit is below 1.
    """

    __slots__ = ("_bytes", "_bytes_elsewhere", "_max_bytes", "_max_sends", "_sends", "_sends_elsewhere")

    def __init__(self, max_sends: int | None, max_bytes: int | None, bytes_option: str = "max_pending_bytes") -> None:
        for name, limit in (("max_pending_sends", max_sends), (bytes_option, max_bytes)):
            if limit is not None and limit < 1:
                raise ConfigError(f"{name}={limit} must be at least 1, or None for no limit")
        self._max_sends = math.inf if max_sends is None else max_sends
        self._max_bytes = math.inf if max_bytes is None else max_bytes
        self._sends = self._bytes = 0  # below 0 while sends are under way that entered elsewhere
        self._sends_elsewhere = self._bytes_elsewhere = 0

    @property
    def sends(self) -> int:
        """Number of sends in progress."""
        return self._sends + self._sends_elsewhere

    @property
    def bytes(self) -> int:
        """Bytes of the bodies of the sends in progress."""
        return self._bytes + self._bytes_elsewhere

    @property
    def is_full(self) -> bool:
        """True if no further send may begin now."""
        return (
            self._sends + self._sends_elsewhere >= self._max_sends
            or self._bytes + self._bytes_elsewhere >= self._max_bytes
        )

    def enter(self, size: int) -> None:
        """Count a send that begins, with a body of ``size`` bytes."""
        self._sends += 1
        self._bytes += size

    def admit(self, size: int) -> bool:
        """Count a send as :meth:`enter` does, if it may begin now; return whether it may."""
        if (  # as ``is_full``, without a call: each message comes here
            self._sends + self._sends_elsewhere >= self._max_sends
            or self._bytes + self._bytes_elsewhere >= self._max_bytes
        ):
            return False
        self._sends += 1
        self._bytes += size
        return True

    def enter_elsewhere(self, size: int) -> None:
        """As :meth:`enter`, in another thread than the one that calls :meth:`leave`."""
        self._sends_elsewhere += 1
        self._bytes_elsewhere += size

    def leave(self, size: int, sends: int = 1) -> None:
        """Subtract a send that has ended, with a body of ``size`` bytes, or several with so many bytes together."""
        self._sends -= sends
        self._bytes -= size

    def __str__(self) -> str:
        return f"{self.sends} sends with {self.bytes} bytes are in progress"
