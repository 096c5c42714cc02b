"""Pull small ranges of many queues together: their first pulls are sent in one write over one connection.

A range of a thousand messages needs one pull. With a connection of its own, it would cost a write, a read and a wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice

from rocketmq_py.arrow.remoting.connection import IdleConnections
from rocketmq_py.arrow.remoting.one_pull import OnePull
from rocketmq_py.errors import NetworkError, NoRouteError
from rocketmq_py.remoting.blocking import BlockingConnection

MOST_RANGES = 32
"""Maximum number of ranges pulled together; a broker returns up to 256 KiB for each."""
MOST_MESSAGES = 4096


class SharedPulls:
    """The first pulls of some ranges of one broker; of a single range, all its pulls.

    :param idle: pool of connections, to which that of the first pulls returns.
    """

    def __init__(self, fetches: Sequence[OnePull], idle: IdleConnections) -> None:
        self.fetches = fetches
        self._idle = idle
        self._connection: BlockingConnection | None = None
        self._waiting: dict[int, OnePull] = {}

    def begin(self) -> None:
        """Send the pulls. If that fails, each range is pulled by itself later.

        :raises RocketMQError: the only range cannot be pulled after all retries.
        """
        if len(self.fetches) == 1:
            self.fetches[0].begin()
            return
        pulls = [fetch.first_pull() for fetch in self.fetches]
        try:
            self._connection = self.fetches[0].connect()
            opaques = self._connection.send(pulls)
        except (NetworkError, NoRouteError):
            for fetch in self.fetches:
                fetch.unanswered()
            self.close()
        else:
            self._waiting = dict(zip(opaques, self.fetches, strict=True))

    def each(self) -> Iterator[OnePull]:
        """Yield the ranges in order, each when its first pull is answered, and close it afterwards."""
        for fetch in self.fetches:
            while fetch.is_asked and self._connection is not None:
                self._receive(self._connection)
            yield fetch
            fetch.close()

    def _receive(self, connection: BlockingConnection) -> None:
        try:
            answer = connection.receive()
        except NetworkError:
            for fetch in self._waiting.values():
                fetch.unanswered()
            self.close()
            return
        self._waiting.pop(answer.opaque).answered(answer)
        if not self._waiting:
            self._idle.put(connection)
            self._connection = None

    def close(self) -> None:
        """Close the ranges, and the connection if answers are missing."""
        for fetch in self.fetches:
            fetch.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._waiting.clear()


def prefetched(fetches: Iterable[OnePull], limit: int, idle: IdleConnections) -> Generator[OnePull]:
    """Iterate over the fetches in order while the next ones prefetch; each is closed after use.

    :param limit: maximum number of ranges, or groups of small ranges, that are pulled at the same time. Their responses
        wait in the buffers of their connections.
    :raises RocketMQError: a fetch cannot send its first pulls.
    """
    waiting = grouped(fetches)
    started: deque[SharedPulls] = deque()
    try:
        while True:
            for members in islice(waiting, limit - len(started)):
                started.append(SharedPulls(members, idle))
                started[-1].begin()
            if not started:
                return
            yield from started[0].each()
            started.popleft().close()
    finally:
        for pulls in started:
            pulls.close()


def grouped(fetches: Iterable[OnePull]) -> Iterator[list[OnePull]]:
    """Group consecutive fetches of small ranges of one broker; all others are alone."""
    group: list[OnePull] = []
    messages = 0
    for fetch in fetches:
        messages += fetch.size
        may_join = fetch.shared_address is not None and len(group) < MOST_RANGES and messages <= MOST_MESSAGES
        if group and not (may_join and group[-1].shared_address == fetch.shared_address):
            yield group
            group, messages = [], fetch.size
        group.append(fetch)
    if group:
        yield group
