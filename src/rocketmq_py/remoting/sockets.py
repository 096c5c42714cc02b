"""Socket options that the asyncio and the blocking transport share."""

from __future__ import annotations

import contextlib
import socket


def set_no_delay(sock: socket.socket) -> None:
    """Set TCP_NODELAY, so that small frames are sent at once; no effect on a socket that is not TCP."""
    with contextlib.suppress(OSError):  # not a TCP socket
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
