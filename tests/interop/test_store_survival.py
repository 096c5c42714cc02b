"""A Java broker serves a store of ours after kills, clean-up and a power failure."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocketmq_py.store import SYNC_FLUSH, MessageStore, NewRecord, StoreConfig
from rocketmq_py.store.queue.consume_queue import ENTRY
from rocketmq_py.wire.record import MAGIC_V2, decode_records, pack_host
from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.ours import OurServers
from tests.killing import SETTINGS, Queue, Rounds, body, number_of, queues, read_everything, send
from tests.retention import trim
from tests.unit.store.memoryfs import PAGE, MemoryFileSystem

ROUNDS = 3
LONG_GROUP = "g" * 130
LONG_TOPIC = f"%RETRY%{LONG_GROUP}"
LOST_QUEUES = [*queues(), (LONG_TOPIC, 0)]
HOST = pack_host("127.0.0.1", 10911)
SECONDS = 240.0
NOW = 1_700_000_000_000
OUR_SIZES = {
    "mapped_file_size_commit_log": SETTINGS["mappedFileSizeCommitLog"],
    "mapped_file_size_consume_queue": SETTINGS["mappedFileSizeConsumeQueue"],
    "max_hash_slot_num": SETTINGS["maxHashSlotNum"],
    "max_index_num": SETTINGS["maxIndexNum"],
}
SIZES = {key: value for key, value in SETTINGS.items() if "Size" in key or "Num" in key}


def config(**changes: Any) -> StoreConfig:
    """The sizes of both sides."""
    return StoreConfig(**OUR_SIZES, **changes)


def java_broker(java: JavaPeer, servers: OurServers, store: Path) -> JavaServer:
    """A Java broker on a store, at a name server of ours, which takes a tenth of the time to start."""
    return java.broker(servers.namesrv().namesrv, store=store, conf=SIZES)


def test_java_serves_our_store_after_kills_and_clean_up(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    """We kill and trim, Java serves the same and appends; Java is killed, we serve the same and what it appended."""
    rounds = Rounds(tmp_path, seed=2, least=200)  # several files of the log
    asyncio.run(rounds.run(ROUNDS))
    assert trim(rounds.store, **OUR_SIZES) > 0
    served = servers.serve(rounds.store, **SIZES)
    ours = asyncio.run(read_everything(served.broker))
    served.stop()
    assert 0 < sum(map(len, ours.values())) < rounds.sent_messages.count
    for queue, found in ours.items():
        known = rounds.sent_messages.acknowledged[queue]
        assert found.items() >= {offset: known[offset] for offset in known if offset >= min(found)}.items()

    theirs = java_broker(java, servers, rounds.store)
    assert asyncio.run(read_everything(theirs.address)) == ours
    sent = asyncio.run(send(theirs.address, range(900_000, 900_016)))
    theirs.process.kill()

    again = servers.serve(rounds.store, **SIZES)
    both = asyncio.run(read_everything(again.broker))
    assert both == {queue: found | sent[queue] for queue, found in ours.items()}
    again.stop()


def test_java_serves_our_store_after_a_power_failure(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    """Of what was not flushed each half kilobyte is there or not. What was flushed a Java broker serves.

    No entry of a consume queue is torn: of one whose size is on disk and whose place is not, a Java broker takes the
    place for 0 and sends what is there. We don't trust entries that were not flushed.

    All messages are of one millisecond, so that timestamps do not tell Java where to begin with the rebuild.

    Some messages are of a topic whose name is too long for records of version 1.
    """
    fs, root = MemoryFileSystem(), Path("/store")
    lost, flushed = asyncio.run(lose_power(fs, root))
    dump(lost, root, tmp_path / "ours")
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    with opened(tmp_path / "ours") as store:
        ends = {queue: store.queue_range(*queue)[1] for queue in LOST_QUEUES}
    assert all(ends[queue] >= len(numbers) > 0 for queue, numbers in flushed.items())

    known = {
        topic: {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for topic, _ in LOST_QUEUES
    }
    configs = tmp_path / "theirs" / "config"
    configs.mkdir()
    (configs / "topics.json").write_text(json.dumps({"topicConfigTable": known}))
    group = {"groupName": LONG_GROUP, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}
    (configs / "subscriptionGroup.json").write_text(json.dumps({"subscriptionGroupTable": {LONG_GROUP: group}}))
    theirs = java_broker(java, servers, tmp_path / "theirs")
    found = asyncio.run(read_everything(theirs.address, LOST_QUEUES))
    sent = asyncio.run(send(theirs.address, range(900_000, 900_004), [(LONG_TOPIC, 0)]))
    theirs.process.kill()
    for queue, numbers in flushed.items():
        assert [found[queue][offset] for offset in range(len(numbers))] == numbers
    assert all(len(messages) <= ends[queue] for queue, messages in found.items()), "Java cuts off at a lost page"

    with opened(tmp_path / "theirs") as store:
        for offset, number in (found[LONG_TOPIC, 0] | sent[LONG_TOPIC, 0]).items():
            raw = store.record_at_queue(LONG_TOPIC, 0, offset)
            assert raw is not None
            assert int.from_bytes(raw[4:8], "big", signed=True) == MAGIC_V2
            (message,) = decode_records(raw)
            assert (message.topic, number_of(message.body)) == (LONG_TOPIC, number)


def test_java_serves_our_store_after_a_rebuild(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    """A Java broker serves every message and gives no offset twice, also where the log has lost the end of a queue."""
    root, chosen = tmp_path / "store", queues()[:3]
    with opened(root) as store:
        places = [store.append(NewRecord(*chosen[i % 3], body(i), b"")).physical_offset for i in range(1200)]
        store.commit_pending()
        log_size = store.config.mapped_file_size_commit_log
    lost = places[1197]  # the last message of each queue
    path = root / "commitlog" / f"{lost // log_size * log_size:020d}"
    log = bytearray(path.read_bytes())
    log[lost % log_size : lost % log_size + 8] = bytes(8)
    path.write_bytes(log)
    shutil.rmtree(root / "consumequeue" / chosen[0][0] / str(chosen[0][1]))
    for queue in chosen[1:]:
        newest = max((root / "consumequeue" / queue[0] / str(queue[1])).iterdir())
        newest.write_bytes(b"\xa5" * newest.stat().st_size)
    with opened(root) as store:
        assert {queue: store.queue_range(*queue) for queue in chosen} == dict.fromkeys(chosen, (0, 400))
    table = {topic: {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for topic, _ in chosen}
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    theirs = java_broker(java, servers, root)
    found = asyncio.run(read_everything(theirs.address, chosen, gaps=True))
    sent = asyncio.run(send(theirs.address, [900_000], chosen[:1]))
    theirs.process.kill()
    for position, queue in enumerate(chosen):
        assert found[queue] == {offset: 3 * offset + position for offset in range(399)}
    assert sent[chosen[0]] == {400: 900_000}, "offset 399 belonged to a message that is lost"
    with opened(root) as store:
        assert store.queue_range(*chosen[0]) == (0, 401)


@contextmanager
def opened(root: Path) -> Iterator[MessageStore]:
    store = MessageStore(root, config(), store_host=HOST)
    store.open()
    try:
        yield store
    finally:
        store.close()


def page_size(path: Path) -> int:
    """What the disk writes as a whole: in consume queues 25 entries."""
    return 25 * ENTRY if "consumequeue" in path.parts else PAGE


async def lose_power(fs: MemoryFileSystem, root: Path) -> tuple[MemoryFileSystem, dict[Queue, list[int]]]:
    """What the disk has after a loss of power, and the numbers of the messages known to be on it."""
    chance = random.Random(3)
    hangs, outage = threading.Event(), threading.Event()

    def hang(operation: str, _: Path) -> bool:
        """The syncs of the last messages hang until the power is gone, and then fail."""
        if operation != "sync":
            return False
        hangs.set()
        return outage.wait(SECONDS)

    settings = config(flush_disk_type=SYNC_FLUSH, flush_consume_queue_thorough_interval=1)
    store = MessageStore(root, settings, store_host=HOST, fs=fs, clock=lambda: NOW)
    store.open()
    flushed: dict[Queue, list[int]] = {queue: [] for queue in LOST_QUEUES}
    appended = dict.fromkeys(LOST_QUEUES, 0)
    for number in range(1200):
        queue = chance.choice(LOST_QUEUES)
        done = store.append(NewRecord(*queue, body(number), b"UNIQ_KEY\x01U%d\x02" % number, uniq_key=f"U{number}"))
        assert done.queue_offset == appended[queue]
        appended[queue] += 1
        if number < 1000:
            flushed[queue].append(number)
        if number % 50 == 49:
            store.commit_pending()
            store.tick(NOW + number)
        if number == 999:
            await store.wait_flushed(done.physical_offset + done.size)
            fs.fails = hang
    assert hangs.wait(SECONDS)  # else files could be synced, and a checkpoint written, while the disk is copied
    lost = fs.after_power_loss(chance, page_size)
    fs.fails = lambda *_: False
    outage.set()
    store.close()
    return lost, flushed


def dump(fs: MemoryFileSystem, root: Path, target: Path) -> None:
    """The files of a file system in memory, on the disk."""
    for path, node in fs.nodes.items():
        file = target / path.relative_to(root)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(node.content)
