"""The stores that are damaged: all kinds of messages in several log files, closed cleanly or left by a kill."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.wire.batch import encode_batch
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.requests import send

SETTINGS = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 100 * 20,
    "max_message_size": 20_000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
    "mapped_file_size_timer_log": 1 << 16,
}
TOPICS = ("plain", "other")
QUEUES = 4
GROUP = "readers"
WAITING = ("delayed", "timed")
"""Topics of messages with a delay level, and of those with a delivery time."""
LATE = ("late-a", "late-b", "late-c")
"""Topics without messages, created shortly before the kill."""
WAIT_MS = 60_000
_LARGE = 1 << 20
_FLUSHED_ROUND = 27


def body(number: int) -> bytes:
    """The body of the message with this number, of varying size."""
    return b"%d|" % number + bytes((number * 31 + at * 7) % 251 for at in range(number * 7919 % 900))


def _send(client: Client, topic: str, queue_id: int, content: bytes, **more: object) -> dict[str, str]:
    properties = more.pop("properties", None) or {"UNIQ_KEY": f"U{content[:8]!r}", "KEYS": "k", "WAIT": "true"}
    code = Code.SEND_BATCH_MESSAGE if more.get("batch") else Code.SEND_MESSAGE_V2
    answer = client.ask(code, send(topic, queue_id, properties, **more), content)  # type: ignore[arg-type]
    assert answer.code == 0, answer.remark
    return answer.ext


class Sample(NamedTuple):
    """A store that is damaged in copies.

    :ivar state: ``closed``; ``killed`` after its queues were flushed for the first time; ``young``: killed before that.
    :ivar on_disk: the end of the log that its checkpoint confirms; that of the whole log if it was closed.
    :ivar whole: the same store, closed cleanly.
    """

    root: Path
    state: str
    on_disk: int
    whole: Path

    @property
    def was_closed(self) -> bool:
        return self.state == "closed"


def fill(running: InProcess, *, flushes: bool) -> int:
    """Send messages of all kinds, and commit offsets; return the end of the log at the flush of the queues.

    :param flushes: whether the queues are flushed in the middle.
    """
    client, number, flushed = running.connect(), 0, 0
    for round_ in range(40):
        running.now += 10
        if round_ == _FLUSHED_ROUND and flushes:
            flushed = _flush_queues(running)
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                number += 1
                answer = _send(client, topic, queue_id, body(number))
                if number % 29 == 0:
                    place = int(answer["msgId"][16:], 16)
                    level = -1 if number % 58 == 0 else 3
                    back = ConsumerSendMsgBack(
                        offset=place, group=GROUP, delay_level=level, origin_topic=topic, max_reconsume_times=16
                    )
                    assert client.ask(Code.CONSUMER_SEND_MSG_BACK, back).code == 0
        triples = [(0, body(10_000 + round_ * 10 + i), b"UNIQ_KEY\1B%d\2" % (round_ * 10 + i)) for i in range(5)]
        _send(client, "batches", round_ % QUEUES, encode_batch(triples), batch=True)
        half = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": f"H{round_}"}
        if round_ % 4 == 0:
            _send(client, "half", 0, body(20_000 + round_), properties=half, sys_flag=4)
            _send(client, "delayed", 0, body(30_000 + round_), properties={"DELAY": "4"})
            _send(client, "timed", 0, body(40_000 + round_), properties={"TIMER_DELAY_SEC": "30"})
        if round_ % 10 == 0:
            running.turn()
    for topic in TOPICS:
        for queue_id in range(QUEUES):
            running.services.offsets.commit(GROUP, topic, queue_id, 10 + queue_id, "c")
    running.services.offsets.persist()
    running.services.groups.find(GROUP)
    running.services.saver.wait()
    running.turn(1)
    return flushed


def _flush_queues(running: InProcess) -> int:
    """Flush everything as a round of the flush schedule does; return the end of the log."""
    store = running.services.store
    store._schedule.everything(store._readable())
    store._flusher.complete(1)
    return store.max_physical_offset


@contextmanager
def opened(root: Path, now: int, **store: Any) -> Iterator[InProcess]:
    """The broker on a store, with the settings of the sample and others."""
    running = InProcess(root, store=SETTINGS | store, now=now)
    try:
        yield running
    finally:
        running.services.close()


def make(root: Path, now: int) -> tuple[dict[str, Sample], int]:
    """Make the samples below ``root``, by their states; also return their last time."""
    closed, killed, young, other = (root / name for name in ("closed", "killed", "young", "other"))
    with opened(closed, now) as running:
        flushed = _fill_and_copy(running, killed, flushes=True)
    with opened(other, now) as running:
        _fill_and_copy(running, young, flushes=False)
        last = running.now
    return {
        "closed": Sample(closed, "closed", 1 << 63, closed),
        "killed": Sample(killed, "killed", flushed, closed),
        "young": Sample(young, "young", 0, other),
    }, last


def _fill_and_copy(running: InProcess, killed: Path, *, flushes: bool) -> int:
    """Fill a store, and copy it as a kill leaves it; return the end of the log at the flush of its queues."""
    flushed = fill(running, flushes=flushes)
    for name in LATE:  # soon one after the other: the file has the first one, its journal the others
        running.services.topics.put([TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=2)])
    running.services.catch_up()
    running.services.saver.wait()
    running.services.store._flusher.complete(1)
    copy(Path(running.config.store_path_root_dir), killed)
    assert (killed / "config" / "topics.json.journal").exists()
    return flushed


def copy(source: Path, target: Path) -> None:
    """Copy a store with times of modification; the zeros of large files are not written."""
    for folder, _, names in os.walk(source):
        there = target / Path(folder).relative_to(source)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            _copy_file(Path(folder) / name, there / name)


def _copy_file(source: Path, target: Path) -> None:
    size = source.stat().st_size
    if size < _LARGE:
        shutil.copy2(source, target)
        return
    with source.open("rb") as old, target.open("wb") as new:
        new.truncate(size)
        at = 0
        while at < size:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA)
            except OSError:  # there is only a hole
                break
            old.seek(at)
            block = old.read(1 << 16)
            if block.count(0) != len(block):
                new.seek(at)
                new.write(block)
            at += len(block)
    shutil.copystat(source, target)
