"""Consume queues that are lent to the accelerator, which appends runs of sends to them.

With tens of thousands of queues, most of what a send costs is waiting for main memory: the objects of a queue lie in
dozens of places. The accelerator keeps what a send needs of a queue in one place. A queue that is lent is behind: it
lacks the newest entries, which the accelerator has. :class:`LendingTable` takes a queue back when it is looked up, so
that only those that hold a queue for longer must know of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

from rocketmq_py.accelerator import Accelerator, MissingKind, SendKind, SendQueues, SendRun
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.queue.runs import AppendedRun, Arrival, KindTarget
from rocketmq_py.store.settings import CONSUME_QUEUE_ENTRY, SYNC_FLUSH, StoreConfig

Key = tuple[str, int]
TargetOf = Callable[[SendKind], KindTarget | None]
"""Returns what messages of a kind become; None for those that must be appended singly."""
Append = Callable[[SendRun, int, TargetOf, bytes, bytes], AppendedRun | None]

KINDS_OF_A_QUEUE, MOST_KINDS = 16, 300_000
"""Of so many kinds of a queue, and of all queues, it is noted what they become. There is no end of kinds where
properties differ in every message.
"""
LONGEST_KIND = 128
"""Nothing is noted of a kind with more characters of properties or of an access key."""


class LendingTable(dict[Key, ConsumeQueue]):
    """Consume queues by topic and queue id; one that is looked up, replaced or removed is taken back first.

    Iterations take none back.
    """

    def __init__(self, lent: LentQueues) -> None:
        super().__init__()
        self._lent = lent

    @overload
    def get(self, key: Key, default: None = None, /) -> ConsumeQueue | None: ...
    @overload
    def get(self, key: Key, default: Any, /) -> Any: ...
    def get(self, key: Key, default: Any = None, /) -> Any:
        queue = dict.get(self, key)
        if queue is None:
            return default
        if queue.is_lent:
            self._lent.take_back(queue)
        return queue

    def __getitem__(self, key: Key, /) -> ConsumeQueue:
        queue = dict.__getitem__(self, key)
        if queue.is_lent:
            self._lent.take_back(queue)
        return queue

    def __setitem__(self, key: Key, queue: ConsumeQueue, /) -> None:
        self._retire(key)
        dict.__setitem__(self, key, queue)

    def __delitem__(self, key: Key, /) -> None:
        self._retire(key)
        dict.__delitem__(self, key)

    def pop(self, key: Key, default: Any = None, /) -> Any:
        """Remove a queue and return it; ``default`` if there is none."""
        self._retire(key)
        return dict.pop(self, key, default)

    def _retire(self, key: Key) -> None:
        queue = dict.get(self, key)
        if queue is not None:
            self._lent.retire(queue)


class LentQueues:
    """The queues of a store that have places in the accelerator."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._new = accelerator.SendQueues
        self.is_awaited: Callable[[], bool] = lambda: True
        """Returns whether somebody waits for messages, and must be told which queues got some."""
        self.on_counted: Callable[[int], None] = lambda _: None
        """Called with the number of messages that have become readable, if nobody is told; see :meth:`counted`."""
        self.append: Append = lambda *_: None
        """Appends a run to lent queues, see ``Writer.append_lent``."""
        self.begin(self.append, lambda _: None)

    @classmethod
    def of(cls, accelerator: Accelerator | None, config: StoreConfig, *, is_slave: bool) -> LentQueues | None:
        """Return one for a store; None if its queues cannot be lent.

        Nobody sends to a slave. Entries that must wait for the flush of their messages need queues of Python.
        """
        waits = config.flush_disk_type == SYNC_FLUSH and not config.read_un_committed
        return None if accelerator is None or is_slave or waits else cls(accelerator)

    def begin(self, append: Append, on_pending: Callable[[ConsumeQueue], None]) -> None:
        """Forget all queues: the store is opened.

        :param append: see :attr:`append`.
        :param on_pending: called with a queue that was taken back with entries which are not written yet.
        """
        self.native: SendQueues = self._new()
        self._places: dict[int, ConsumeQueue] = {}
        self._taught: dict[int, int] = {}  # number of kinds by place
        self._kinds = 0
        self.append = append
        self._on_pending = on_pending
        self.is_ahead = False
        """True if something was appended since the last :meth:`commit`."""

    def table(self) -> LendingTable:
        """Return an empty table for the queues that may be lent."""
        return LendingTable(self)

    def counted(self) -> tuple[int, list[tuple[str, int, int, int]]]:
        """Return what :attr:`on_counted` was told since the last call: the number of these calls; topic, messages,
        bytes and number of times of each topic.
        """
        return self.native.counted()

    def forget(self) -> None:
        """Forget what messages of all kinds become, because topics or settings have changed."""
        self.native.forget()
        self._taught.clear()
        self._kinds = 0

    def bring(self, queues: Iterable[ConsumeQueue]) -> None:
        """Bring queues up to date, as far as their messages are written; those that are lent stay lent."""
        for queue in queues:
            if queue.is_lent:
                _receive(queue, self.native.bring(queue.place))

    def take_back(self, queue: ConsumeQueue) -> None:
        """End the lending of a queue."""
        readable, pending = self.native.take(queue.place)
        queue.is_lent = False
        _receive(queue, readable)
        queue.next_offset = queue.max_offset
        if pending:
            queue.pending = pending
            queue.next_offset += len(pending) // 3
            self._on_pending(queue)

    def retire(self, queue: ConsumeQueue) -> None:
        """Take a queue back for ever."""
        if queue.is_lent:
            self.take_back(queue)
        if queue.place >= 0:
            self.native.retire(queue.place)
            del self._places[queue.place]
            self._taught.pop(queue.place, None)
            queue.place = -1

    def lend(self, missing: MissingKind) -> bool:
        """Lend the queue of a known kind again; False if the kind is unknown, or the queue cannot be lent now."""
        place = missing[1]
        return place is not None and self._lend(self._places[place])

    def teach(self, run: SendRun, number: int, target: KindTarget, queue: ConsumeQueue) -> bool:
        """Note what the messages of a kind of a run become, and lend its queue.

        :returns: False if that cannot be: they go to several topics, the kind is long or one of too many, or the queue
            cannot be lent now.
        """
        if target.half is not None or type(queue) is not ConsumeQueue or not (queue.is_lent or is_at_rest(queue)):
            return False
        if self._kinds >= MOST_KINDS:
            self.forget()
        taught = self._taught.get(queue.place, 0)
        if taught >= KINDS_OF_A_QUEUE or any(len(text) > LONGEST_KIND for text in run.kind(number)[3:]):
            return False
        if queue.place < 0:
            queue.place = self.native.add(queue.queue_id, queue.magic, queue.topic_part, queue.key_hash)
            self._places[queue.place] = queue
        self._taught[queue.place] = taught + 1
        self._kinds += 1
        self.native.learn(run, number, queue.place, target.sys_flag, target.tags_code)
        return self._lend(queue)

    def _lend(self, queue: ConsumeQueue) -> bool:
        if not queue.is_lent:
            if not is_at_rest(queue):
                return False
            self.native.lend(queue.place, queue.next_offset)
            queue.is_lent = True
        return True

    def commit(self, timestamp: int, *, tells: bool) -> tuple[list[ConsumeQueue], list[Arrival]]:
        """Make what was appended readable, since it is written.

        :param timestamp: store timestamp of the newest message, in milliseconds.
        :param tells: whether to tell what arrived even if nobody waits.
        :returns: queues with many entries, which have got them; what to tell those who wait for messages.
        """
        self.is_ahead = False
        tells = tells or self.is_awaited()
        count, places, arrived = self.native.commit(tells)
        if not tells:
            self.on_counted(count)
        long = [self._places[place] for place in places]
        self.bring(long)
        arrivals = []
        for place, first, end, flat in arrived:
            queue = self._places[place]
            arrivals.append(Arrival(queue.topic, queue.queue_id, first, end, timestamp, flat))
        return long, arrivals


def arrivals_in(queues: Iterable[ConsumeQueue], timestamp: int) -> list[Arrival]:
    """Return what to tell those who wait for messages before the pending entries of some queues become readable.

    :param timestamp: store timestamp of the newest message, in milliseconds.
    """
    return [Arrival(q.topic, q.queue_id, q.max_offset, q.next_offset, timestamp, q.pending) for q in queues]


def is_at_rest(queue: ConsumeQueue) -> bool:
    """True if all entries of a queue are readable."""
    return not queue.pending and queue.max_offset == queue.next_offset


def _receive(queue: ConsumeQueue, readable: bytes) -> None:
    queue.tail += readable
    queue.max_offset += len(readable) // CONSUME_QUEUE_ENTRY
