"""What a Python process takes from its machine, taken from the simulation instead: time, chance, ids, sockets.

Modules keep such functions (``from time import monotonic``, default arguments), so they are replaced before the first
of them is imported, and for the rest of this process.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial

EPOCH = 1_700_000_000.0
"""The time on the wall when the virtual clock shows 0, seconds since the epoch."""
PID = 4242


_WORK_SECONDS = 0.003


class Clock:
    """The clock all of this process reads.

    Every callback asks for the time, so ``monotonic`` is a function in C: it returns the only item of a list, to which
    the event loop writes.

    :ivar monotonic: returns virtual seconds, also between schedules.
    :ivar moment: a list of one item, the virtual time.
    """

    def __init__(self) -> None:
        self.moment = [0.0]
        self.monotonic: Callable[[], float] = partial(self.moment.__getitem__, 0)
        self._worked = 0.0
        self.real = time.monotonic

    def begin(self) -> None:
        """A schedule begins."""
        self._worked = 0.0

    def counter(self) -> float:
        """The clock that work is measured with: some passes between two looks at it.

        So long work is done in slices, and changes that follow the rewrite of a table closely go to its journal.
        """
        self._worked += _WORK_SECONDS
        return self.moment[0] + self._worked

    def wall(self) -> float:
        return EPOCH + self.moment[0]

    def wall_ns(self) -> int:
        return int((EPOCH + self.moment[0]) * 1e9)

    def wall_ms(self) -> int:
        return int((EPOCH + self.moment[0]) * 1e9) // 1_000_000

    def processor(self) -> float:
        """The time the thread has worked: none, work takes no virtual time."""
        return 0.0


clock = Clock()


def _uuid4() -> uuid.UUID:
    return uuid.UUID(int=random.getrandbits(128), version=4)


def install() -> None:
    """Replace them.

    :raises RuntimeError: it is too late.
    """
    if any(name.startswith("rocketmq_py") for name in sys.modules):
        raise RuntimeError("rocketmq_py has been imported already: simulations need a process of their own")
    time.monotonic = clock.monotonic
    time.perf_counter = clock.counter
    time.time = clock.wall
    time.time_ns = clock.wall_ns
    time.thread_time = clock.processor
    uuid.uuid4 = _uuid4
    os.getpid = lambda: PID


install()


class Socket:
    """A socket before it has a transport; :meth:`tests.simulation.loop.SimLoop.sock_connect` connects it."""

    def __init__(self, *_: object) -> None:
        self.end: object = None

    def setblocking(self, _: bool) -> None: ...

    def setsockopt(self, *_: object) -> None: ...

    def close(self) -> None:
        if self.end is not None:
            self.end.abort()  # type: ignore[attr-defined]


class SocketModule:
    """The module ``socket`` whose sockets are simulated; all hosts are IP addresses."""

    socket = Socket

    @staticmethod
    def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    def __getattr__(self, name: str) -> object:
        return getattr(socket, name)
