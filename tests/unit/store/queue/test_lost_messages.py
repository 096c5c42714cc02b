"""Messages in lost parts of the commit log, from the entries of a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from rocketmq_py.store.log.lost_parts import LostPart
from rocketmq_py.store.queue.consume_queue import BLANK_SIZE, ConsumeQueue
from rocketmq_py.store.queue.lost_messages import lost_messages, offsets_between


@dataclass
class Entries:
    """A queue with these entries from ``min_offset`` on: position, size and tags code, or None for one that is gone."""

    entries: list[tuple[int, int, int] | None]
    min_offset: int = 10
    topic: str = "T"
    queue_id: int = 3

    @property
    def max_offset(self) -> int:
        return self.min_offset + len(self.entries)

    def entry(self, offset: int) -> tuple[int, int, int] | None:
        return self.entries[offset - self.min_offset]


def queue(*entries: tuple[int, int, int] | None) -> ConsumeQueue:
    return cast("ConsumeQueue", Entries(list(entries)))


def test_messages_that_are_in_a_part_even_by_one_byte() -> None:
    subject = queue((100, 50, 0), (200, 50, 0), (300, 50, 0))
    parts = [(0, 100), (0, 101), (149, 200), (150, 200), (150, 201), (249, 301), (250, 300), (349, 999), (350, 999)]
    assert [offsets_between(subject, *part) for part in parts] == [
        (10, 10), (10, 11), (10, 11), (11, 11), (11, 12), (11, 13), (12, 12), (12, 13), (13, 13),
    ]  # fmt: skip


def test_blank_entries_and_those_that_are_gone_come_before_all_messages() -> None:
    subject = queue((0, BLANK_SIZE, 0), None, (100, 50, 0))
    assert offsets_between(subject, 0, 101) == (12, 13)
    assert offsets_between(subject, 0, 100) == (12, 12)


def test_a_tags_code_as_large_as_the_size_of_a_blank_entry_is_one_of_a_message() -> None:
    subject = queue((100, 50, BLANK_SIZE), (200, 50, BLANK_SIZE))
    assert offsets_between(subject, 0, 150) == (10, 11)
    assert offsets_between(subject, 150, 250) == (11, 12)


def test_first_and_last_lost_message_of_each_part_are_named() -> None:
    subject = queue((100, 50, 0), (200, 50, 0), (300, 50, 0))
    lost = [LostPart(100, 250, "gone"), LostPart(300, 301, "gone"), LostPart(400, 500, "gone")]
    assert lost_messages([subject], lost) == ["T-3 10 to 11", "T-3 12 to 12"]
