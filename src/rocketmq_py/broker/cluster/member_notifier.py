"""Notifications of consumer groups whose members changed (NOTIFY_CONSUMER_IDS_CHANGED).

Members rebalance when they are notified, at once instead of within 20 s. When N members join one after the other, a
notification of every member about every change would be N² messages; so a group is notified at most once in 100 ms, and
its members in slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketmq_py.core.broker.client_registry import ConsumerRegistry
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.server import Peer
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.wire.command import Command

INTERVAL_MS = 100


class MemberNotifier:
    """Notifies the members of changed groups.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, consumers: ConsumerRegistry, slices: SlicedWork, clock: Callable[[], int]) -> None:
        self._consumers = consumers
        self._slices = slices
        self._clock = clock
        self._notified_ms: dict[str, int] = {}
        """By group: the time in milliseconds of its last notification; only groups notified within the interval."""
        self._changed: dict[str, None] = {}
        """Groups of ``_notified_ms`` that have changed since their notification."""

    def changed(self, group: str) -> None:
        """Notify the members of a group that its members changed.

        If the group was notified in the last 100 ms, that happens at the end of these 100 ms (see :meth:`tick`).
        """
        if group in self._notified_ms:
            self._changed[group] = None
        else:
            self._start(group, self._clock())

    def tick(self, now_ms: int) -> None:
        """Notify changed groups whose interval has ended; called several times a second."""
        ended = [group for group, notified_ms in self._notified_ms.items() if now_ms - notified_ms >= INTERVAL_MS]
        for group in ended:
            del self._notified_ms[group]
            if group in self._changed:
                del self._changed[group]
                self._start(group, now_ms)

    def _start(self, group: str, now_ms: int) -> None:
        self._notified_ms[group] = now_ms
        self._slices.add(self._notify(group))

    def _notify(self, name: str) -> Iterator[None]:
        group = self._consumers.groups.get(name)
        command = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": name})
        for channel in list(group.members) if group is not None else ():
            if isinstance(channel, Peer):
                channel.send(command)
            yield
