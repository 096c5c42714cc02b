"""What runs of sends become, and what queues got."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rocketmq_py.accelerator import RunAnswers, StoredHalf


class HalfPlace(NamedTuple):
    """Where half messages of a run go when their transactions are committed: they are in another topic before.

    ``queue_id`` is also that of the answers, ``group`` is their producers'. ``properties`` are encoded properties to
    append to all others: the parts before and after the unique key, which is repeated there, and those that name topic
    and queue.
    """

    topic: str
    queue_id: int
    group: str
    properties: tuple[bytes, bytes, bytes]


class KindTarget(NamedTuple):
    """Where to store those sends of a run that differ only in body and keys (a kind), and fields of their records.

    ``sys_flag`` and ``tags_code`` are those of ``NewRecord``. ``half`` is None for messages that are not half
    messages.
    """

    topic: str
    queue_id: int
    sys_flag: int
    tags_code: int
    half: HalfPlace | None = None


class AppendedRun(NamedTuple):
    """Sends of a run that were appended together: the index after the last one, the answers, and the half messages."""

    stop: int
    answers: RunAnswers
    halves: Sequence[StoredHalf]


class Arrival(msgspec.Struct):
    """New readable messages of one queue.

    ``entries`` has physical offset, size and tags code of each as a flat list.
    """

    topic: str
    queue_id: int
    queue_offset: int
    next_offset: int
    store_timestamp: int
    entries: list[int]

    @property
    def tags_codes(self) -> list[int]:
        return self.entries[2::3]
