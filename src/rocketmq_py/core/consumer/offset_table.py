"""The consume offsets of a client in memory, before a commit stores them in the broker or a file.

By default, offsets only increase. A frozen offset does not change until its queue is removed (ControllableOffset of
Apache RocketMQ).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator

from rocketmq_py.model import MessageQueue


class OffsetTable:
    """Offset of the next message to consume in each queue."""

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
        """Set the offset of a queue; ignored if it is frozen, or would decrease while ``increase_only`` is set."""
        if queue in self._frozen:
            return
        if increase_only and offset <= self._offsets.get(queue, -1):
            return
        self._offsets[queue] = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset of a queue and freeze it, so that results of listeners still running do not change it."""
        self._offsets[queue] = offset
        self._frozen.add(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Remove the offset of a queue, even if it is frozen."""
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def retain(self, owned: Collection[MessageQueue]) -> None:
        """Remove the offsets of all queues that are not in ``owned``."""
        for queue, _ in self:
            if queue not in owned:
                self.remove(queue)


def first_of_each_table(
    queues: Iterable[MessageQueue], broker_of: Callable[[MessageQueue], str], known: Container[tuple[str, str]]
) -> set[MessageQueue]:
    """Return the queues whose offsets are committed before those of the others: one of each broker and topic.

    A Java broker makes a table for a group and topic when the first offset arrives. If two arrive at the same time it
    makes two tables, and the offsets in one of them are lost (ConsumerOffsetManager.commitOffset).

    :param broker_of: returns the broker of a queue, as a name or address.
    :param known: brokers and topics that already have an offset of the group; their queues are not returned.
    """
    first: dict[tuple[str, str], MessageQueue] = {}
    for queue in queues:
        if (table := (broker_of(queue), queue.topic)) not in known:
            first.setdefault(table, queue)
    return set(first.values())
