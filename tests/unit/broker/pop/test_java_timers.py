"""Timed revive messages of a Java broker, when our broker starts on its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.protocol.pop_checkpoint import AckRecord, CheckPoint, revive_topic
from rocketmq_py.store import NewRecord
from rocketmq_py.wire.java_hash import tags_code
from tests.unit.broker.harness import START_MS, InProcess
from tests.unit.broker.pop.pop_client import REVIVE_MS, make_topic, put, take

REVIVE = revive_topic("DefaultCluster")


def in_timer(running: InProcess, tag: str, body: bytes, out_ms: int, topic: str = REVIVE) -> None:
    """A message as it lies in the timer's topic."""
    properties = {"TAGS": tag, "UNIQ_KEY": "k", "REAL_TOPIC": topic, "REAL_QID": "2", "TIMER_OUT_MS": str(out_ms)}
    running.services.store.append(
        NewRecord("rmq_sys_wheel_timer", 0, body, encode(properties).encode(), tags_code(tag), uniq_key="k")
    )


def check_point(start: int, count: int) -> CheckPoint:
    return CheckPoint(topic="t", group="g", queue_id=0, start_offset=start, pop_time=START_MS, broker_name="broker-a",
                      invisible_ms=60_000, count=count, diffs=list(range(count)))  # fmt: skip


def ack(ck: CheckPoint, offset: int) -> AckRecord:
    return AckRecord(offset=offset, broker_name=ck.broker_name, group=ck.group, pop_time=ck.pop_time,
                     queue_id=ck.queue_id, start_offset=ck.start_offset, topic=ck.topic)  # fmt: skip


def reopened(running: InProcess, root: Path) -> InProcess:
    running.services.close()
    again = InProcess(root)
    again.now = running.now
    return again


@pytest.fixture
def left_by_java(tmp_path: Path) -> InProcess:
    """Messages a to d were popped two by two, a acked; what is due before ``timercheck`` was delivered."""
    root = tmp_path / "store"
    running = InProcess(root)
    client = running.connect()
    make_topic(running)
    put(client, b"a", b"b", b"c", b"d")
    running.services.groups.find("g")
    running.services.offsets.commit("g", "t", 0, 4, "java")
    first, second = check_point(0, 2), check_point(2, 2)
    in_timer(running, "ck", check_point(0, 1).encode(), START_MS - 1)
    in_timer(running, "ck", first.encode(), START_MS + 59_000)
    in_timer(running, "ck", b"damaged", START_MS + 59_000)
    in_timer(running, "ack", ack(first, 0).encode(), START_MS + 60_000)
    in_timer(running, "", b"a message of somebody", START_MS + 60_000, topic="t")
    in_timer(running, "ck", second.encode(), START_MS + 59_000)
    (root / "config" / "timercheck").write_bytes(START_MS.to_bytes(8, "big") + bytes(48))
    return running


def test_java_timer_entries_are_moved_once(left_by_java: InProcess, tmp_path: Path) -> None:
    running = left_by_java
    for _ in range(2):
        running = reopened(running, tmp_path / "store")
    client = running.connect()
    assert take(client) == []
    running.turn(REVIVE_MS)
    assert sorted(one.body for one in take(client)) == [b"b", b"c", b"d"]
    assert running.services.store.queue_range(REVIVE, 2) == (0, 5)  # two check-points, an ack, what came back
    running.services.close()


def test_java_timer_entries_are_not_moved_again_after_a_crash(left_by_java: InProcess, tmp_path: Path) -> None:
    running = reopened(left_by_java, tmp_path / "store")
    running.services.saver.close()
    running.services.store.close()
    (tmp_path / "store" / "abort").touch()
    running = InProcess(tmp_path / "store")
    assert running.services.store.queue_range(REVIVE, 2) == (0, 3)
    running.services.close()


def test_after_a_crash_pops_newer_than_the_offsets_are_not_popped_again(
    left_by_java: InProcess, tmp_path: Path
) -> None:
    running = left_by_java
    root = tmp_path / "store"
    running.services.offsets.commit("g", "t", 0, 0, "the file is old")
    running.services.close()
    (root / "abort").touch()
    running = InProcess(root)
    running.now = START_MS
    # the file was written now, by the clock of this machine: what was popped long before is in it
    assert [one.body for one in take(running.connect())] == [b"a", b"b", b"c", b"d"]
    running.services.close()
    (root / "abort").touch()
    (root / "config" / "consumerOffset.json").unlink()
    (root / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
    running = InProcess(root)
    running.now = START_MS
    assert take(running.connect()) == []
    assert running.services.offsets.query("g", "t", 0) == 4
    running.services.close()
