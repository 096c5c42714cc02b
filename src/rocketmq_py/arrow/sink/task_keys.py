"""Unique keys (client message ids) for the messages that one task sends."""

from __future__ import annotations

import os
import random
import socket
import time

import numpy as np

from rocketmq_py.arrow.decode.arrays import Ints
from rocketmq_py.wire.ids import UniqueKeys


class TaskKeys:
    """Generates unique keys (client message ids) of this process."""

    def __init__(self) -> None:
        self._keys = UniqueKeys(_own_ip(), os.getpid(), random.getrandbits(32))

    def one(self) -> str:
        """Return the next key."""
        return self._keys.next(_now_ms())

    def reserve(self, count: int) -> tuple[str, Ints]:
        """Return the next ``count`` keys: their common prefix, and as numbers the last four hexadecimal digits."""
        stem, first = self._keys.reserve(_now_ms(), count)
        return stem, np.arange(first, first + count) & 0xFFFF


def _now_ms() -> int:
    return int(time.time() * 1000)


def _own_ip() -> bytes:
    try:
        return socket.inet_aton(socket.gethostbyname(socket.gethostname()))
    except OSError:  # the host name has no address; process id and random bits keep the id unique
        return random.randbytes(4)
