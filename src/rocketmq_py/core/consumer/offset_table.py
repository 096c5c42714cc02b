"""The consume offsets of a member in memory, before they are stored in a broker or file.

Offsets only increase unless a caller says otherwise; a frozen one does not change until its queue is removed
(ControllableOffset of Apache RocketMQ).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rocketmq_py.model import MessageQueue


class OffsetTable:
    """Offsets by queue: the next offset to consume, which a commit stores."""

    __slots__ = ("_frozen", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    def __iter__(self) -> Iterator[tuple[MessageQueue, int]]:
        return iter(list(self._offsets.items()))

    def __len__(self) -> int:
        return len(self._offsets)

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Set an offset; ignored if frozen, or if smaller and ``increase_only``."""
        if queue in self._frozen:
            return
        if increase_only and offset <= self._offsets.get(queue, -1):
            return
        self._offsets[queue] = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set an offset that results of running listeners can no longer change."""
        self._offsets[queue] = offset
        self._frozen.add(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Remove a queue, frozen or not."""
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def retain(self, owned: Collection[MessageQueue]) -> None:
        """Remove every queue that is not in ``owned``."""
        for queue, _ in self:
            if queue not in owned:
                self.remove(queue)
