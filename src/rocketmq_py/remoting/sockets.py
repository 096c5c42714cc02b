"""Socket options that the asyncio and the blocking transport share."""

from __future__ import annotations

import contextlib
import socket


def set_no_delay(sock: socket.socket) -> None:
    """Send small frames at once."""
    with contextlib.suppress(OSError):  # not a TCP socket
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
