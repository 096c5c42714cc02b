"""The store that is damaged: all kinds of messages in several log files, closed cleanly or left by a killed broker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


def body(number: int) -> bytes:
    """The body of the message with this number, of varying size."""
    return b"%d|" % number + bytes((number * 31 + at * 7) % 251 for at in range(number * 7919 % 900))


def _send(client: Client, topic: str, queue_id: int, content: bytes, **more: object) -> dict[str, str]:
    properties = more.pop("properties", None) or {"UNIQ_KEY": f"U{content[:8]!r}", "KEYS": "k", "WAIT": "true"}
    code = Code.SEND_BATCH_MESSAGE if more.get("batch") else Code.SEND_MESSAGE_V2
    answer = client.ask(code, send(topic, queue_id, properties, **more), content)  # type: ignore[arg-type]
    assert answer.code == 0, answer.remark
    return answer.ext


def fill(running: InProcess) -> None:
    """Send messages of all kinds, and commit offsets."""
    client, number = running.connect(), 0
    for round_ in range(40):
        running.now += 10
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


@contextmanager
def opened(root: Path, now: int, **store: Any) -> Iterator[InProcess]:
    """The broker on a store, with the settings of the sample and others."""
    running = InProcess(root, store=SETTINGS | store, now=now)
    try:
        yield running
    finally:
        running.services.close()


def make(root: Path, now: int) -> tuple[Path, Path, int]:
    """Make a store below ``root``: closed cleanly, and as a killed broker leaves it. Also returns its last time."""
    closed, killed = root / "closed", root / "killed"
    with opened(closed, now) as running:
        fill(running)
        for name in LATE:  # soon one after the other: the file has the first one, its journal the others
            running.services.topics.put([TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=2)])
        running.services.catch_up()
        running.services.saver.wait()
        running.services.store._flusher.complete(1)
        copy(closed, killed)
        assert (killed / "config" / "topics.json.journal").exists()
        last = running.now
    return closed, killed, last


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
