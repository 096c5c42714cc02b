"""What a store has, and what a damaged copy of it must still serve."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.store import GetStatus, MessageStore
from rocketmq_py.wire.record import QUEUE_ID_AT, QUEUE_OFFSET_AT, decode_record
from tests.damage.damages import Damages
from tests.damage.sample import GROUP, LATE, TOPICS, WAIT_MS, WAITING, Sample
from tests.unit.broker.harness import InProcess
from tests.unit.broker.requests import send

Queue = tuple[str, int]
BODY_AT = 88
"""Position of the body; its length stands before it."""
PHYSICAL_AT = 28
"""Position of the log offset in a record."""


def records(store: MessageStore, queue: Queue) -> Iterator[tuple[int, bytes]]:
    """Queue offset and bytes of the records that a consumer gets and finds whole."""
    offset, end = store.queue_range(*queue)
    while offset < end:
        result = store.get(*queue, offset, 32)
        if result.status is not GetStatus.FOUND:
            offset = max(offset + 1, result.next_offset)
            continue
        data, at = bytes(result.body), 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            raw = data[at : at + size]
            try:
                yield decode_record(raw).queue_offset, raw
            except CorruptRecord:
                logging.getLogger(__name__).debug("a consumer skips a damaged record of %s", queue)
            at += max(1, size)
        assert result.next_offset > offset
        offset = result.next_offset


def delivered(running: InProcess, topic: str) -> list[bytes]:
    """Bodies of all messages of a topic."""
    store = running.services.store
    return [
        decode_record(raw).body for queue in store.queues() if queue[0] == topic for _, raw in records(store, queue)
    ]


@dataclass
class Ledger:
    """Contents of an undamaged store."""

    messages: dict[Queue, dict[int, bytes]] = field(default_factory=dict)
    ends: dict[Queue, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, running: InProcess) -> Ledger:
        services = running.services
        store = services.store
        return cls(
            {queue: dict(records(store, queue)) for queue in store.queues()},
            {queue: store.queue_range(*queue)[1] for queue in store.queues()},
            {name: topic.read_queue_nums for name, topic in services.topics.table.items()},
            set(services.groups.table),
            {key: dict(value) for key, value in services.offsets.table.items()},
        )

    def lost(self, damage: Damages, queue: Queue, offset: int) -> bool:
        """True if the damage hits the record."""
        raw = self.messages[queue][offset]
        return damage.hits(_physical(raw), len(raw))

    def known_end(self, damage: Damages, queue: Queue, sample: Sample) -> int:
        """The offset that the next message of a queue must at least get: those before it are assigned."""
        messages = self.messages[queue]
        if sample.was_closed or not any(self.lost(damage, queue, at) for at in messages):
            return self.ends[queue]
        return max((at + 1 for at, raw in messages.items() if _physical(raw) < sample.on_disk), default=0)

    def faults(self, running: InProcess, damage: Damages, sample: Sample) -> Iterator[str]:
        """What a damaged store has lost or made up."""
        services, store = running.services, running.services.store
        for queue, wanted in self.messages.items():
            found = dict(records(store, queue))
            wrong = [
                at for at in wanted if at in found and found[at] != wanted[at] and not self.lost(damage, queue, at)
            ]
            missing = [at for at in wanted if at not in found and not self.lost(damage, queue, at)]
            if wrong:
                yield f"{queue}: wrong messages at {wrong[:5]} ({len(wrong)})"
            if missing:
                yield f"{queue}: {len(missing)} of {len(wanted)} messages are not served: {missing[:5]}"
            known, end = self.known_end(damage, queue, sample), store.queue_range(*queue)[1]
            if end < known:
                yield f"{queue}: next offset {end} instead of {known}"
        yield from self._topic_faults(running, damage)
        if damage.hits_all("consumerOffset.json", "consumerOffset.json.bak"):
            return  # both generations: consumers begin anew
        for key, offsets in self.offsets.items():
            if key.endswith(f"@{GROUP}") and services.offsets.table.get(key) != offsets:
                yield f"offsets of {key} are {services.offsets.table.get(key)} instead of {offsets}"
        if GROUP not in services.groups.table:
            yield f"group {GROUP} is missing"

    def not_healed(self, running: InProcess, end: int, damage: Damages, sample: Sample) -> Iterator[str]:
        """Messages before the end of the log that are not served although a replica has them.

        That the first file is missing nobody can tell from a clean-up if no consume queue was on disk yet. Damage of
        properties is not found: no checksum covers them. Nor is a damaged topic, queue id or queue offset found if no
        consume queue on disk has another one.

        :param end: where the log ended after the start.
        """
        begin = running.services.store.min_physical_offset
        for queue, wanted in self.messages.items():
            found = dict(records(running.services.store, queue))
            unknown = {
                at for at, raw in wanted.items() if _physical(raw) >= sample.on_disk and _has_other_place(raw, damage)
            }
            missing = [
                at for at, raw in wanted.items()
                if at not in found and at not in unknown and begin <= _physical(raw) < end
            ]  # fmt: skip
            if missing:
                yield f"{queue}: {len(missing)} of {len(wanted)} messages are not healed: {missing[:5]}"
            changed = [at for at in found if at in wanted and _body(found[at]) != _body(wanted[at])]
            if changed:
                yield f"{queue}: {len(changed)} bodies are wrong: {changed[:5]}"

    def _topic_faults(self, running: InProcess, damage: Damages) -> Iterator[str]:
        if damage.hits_all("topics.json", "topics.json.sum"):
            return  # nothing tells which of file and backup is right: the file is used, with a warning
        for name, number in self.topics.items():
            topic = running.services.topics.get(name)
            if damage.hits_all("topics.json", "topics.json.bak"):  # both generations: what messages tell is left
                if name in LATE:
                    continue
                number = max((queue_id + 1 for one, queue_id in self.messages if one == name), default=1)  # noqa: PLW2901
            if damage.hits_journal and (topic is not None or not any(one == name for one, _ in self.messages)):
                continue  # a line is lost for good; topics come back if they have queues
            if topic is None or topic.read_queue_nums < number:
                yield f"topic {name} has {topic and topic.read_queue_nums} queues instead of {number}"

    def undelivered(self, running: InProcess, damage: Damages) -> Iterator[str]:
        """Delayed messages that are not delivered although they are due."""
        waiting = {"delayed": "SCHEDULE_TOPIC_XXXX", "timed": "rmq_sys_wheel_timer"}
        running.turn(WAIT_MS)
        for _ in range(200):
            running.turn(1000)
        for topic in WAITING:
            bodies = {
                decode_record(raw).body: self.lost(damage, queue, at)
                for queue, found in self.messages.items() if queue[0] == waiting[topic] for at, raw in found.items()
                if decode_record(raw).properties.get("REAL_TOPIC") == topic
            }  # fmt: skip
            there = set(delivered(running, topic))
            missing = [one[:6] for one, is_lost in bodies.items() if one not in there and not is_lost]
            if missing:
                yield f"{len(missing)} messages of topic {topic} are never delivered: {missing[:3]}"


def _physical(raw: bytes) -> int:
    return int.from_bytes(raw[PHYSICAL_AT : PHYSICAL_AT + 8], "big")


def _has_other_place(raw: bytes, damage: Damages) -> bool:
    """True if the queue id, the queue offset or the topic of a record is damaged."""
    topic_at = BODY_AT + int.from_bytes(raw[BODY_AT - 4 : BODY_AT], "big")
    places = (QUEUE_ID_AT, 4), (QUEUE_OFFSET_AT, 8), (topic_at, 1 + raw[topic_at])
    return any(damage.touches(_physical(raw) + at, size) for at, size in places)


def _body(raw: bytes) -> bytes:
    return decode_record(raw).body


def send_again(running: InProcess, ledger: Ledger, damage: Damages) -> Iterator[str]:
    """Send a message to each queue; its offset must be new."""
    client = running.connect()
    for topic in TOPICS:
        for (name, queue_id), end in ledger.ends.items():
            if name == topic:
                before = running.services.store.queue_range(name, queue_id)[1]
                answer = client.ask(310, send(topic, queue_id), b"again")
                offset = int(answer.ext.get("queueOffset", -1))
                if answer.code or offset < before:
                    yield f"a send to {topic}-{queue_id} gets {answer.code}, {answer.remark}, offset {offset} of {end}"
