"""Loads about what is stored, while a steady producer sends: old messages on a slow disk, a frequent key, tables."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.control import Control
from benchmarks.errors import BenchError
from benchmarks.growth.sides import Running, Side, running
from benchmarks.growth.tables import BYSTANDER, QUEUES, group_names, topic_names, write_groups, write_topics
from benchmarks.growth.works import PERIOD_SECONDS, Context, Measured, steady
from benchmarks.loads import KIB, Load
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.admin import BrokerConsumeStats
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.cluster import AllGroups, AllTopics
from rocketmq_py.protocol.headers.pull import QueryMessage

_OLD, _KEY = "old", "frequent"
_MIB = 1024 * 1024
_PULLS = Load("pull", inflight=8, topic=_OLD, queues=QUEUES, size=KIB)
DISK_BYTES_A_SECOND = 20 * _MIB


def cold(context: Context, side: Side, mebibytes: int) -> Measured:
    """Read old messages, ``mebibytes`` of bodies, that are not in the page cache, from a disk of 20 MB/s."""
    found: Measured = {}
    each = mebibytes * _MIB // KIB // QUEUES
    with running(side, context.work, lambda store: write_topics(store, [_OLD])) as server:
        context.generator.drive(server.broker, replace(_PULLS, kind="batch", inflight=16), each * QUEUES // 32)
        server.stop()
    _drop_from_page_cache(context.work)
    with running(side, context.work, lambda _: None) as server, slow_disk(context.work, server.pid):
        with steady(context, server, found):
            reader = context.generator.drive(
                server.broker, _PULLS, each * QUEUES // 32 * 3 // 4, until=each, seconds=PERIOD_SECONDS
            )
        found["reader, MiB/s"] = reader.messages * KIB / _MIB / reader.seconds
    return found


def keys(context: Context, side: Side, count: int) -> Measured:
    """Query a key of ``count`` messages for the first second of them, again and again."""
    with running(side, context.work, lambda store: write_topics(store, [_OLD])) as server:
        load = Load("send", 256, topic=_OLD, queues=QUEUES, size=128, properties={"KEYS": _KEY})
        begin = int(time.time() * 1000)
        context.generator.drive(server.broker, load, count)
        header = QueryMessage(
            topic=_OLD, key=_KEY, max_num=32, begin_timestamp=begin - 1_000, end_timestamp=begin + 1_000
        )
        return _ask_again_and_again(context, server, {"query by key": (RequestCode.QUERY_MESSAGE, header)})


def answers(context: Context, side: Side, count: int) -> Measured:
    """Request all topics and all groups of a broker with ``count`` of both, and the progress of all groups."""

    def prepare(store: Path) -> None:
        write_topics(store, topic_names(count))
        write_groups(store, group_names(count), BYSTANDER)

    with running(side, context.work, prepare) as server:
        return _ask_again_and_again(context, server, {
            "topics (21)": (RequestCode.GET_ALL_TOPIC_CONFIG, AllTopics()),
            "groups (201)": (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, AllGroups()),
            "progress (317)": (RequestCode.GET_BROKER_CONSUME_STATS, BrokerConsumeStats(is_order=False)),
        })  # fmt: skip


def _ask_again_and_again(
    context: Context, server: Running, requests: dict[str, tuple[RequestCode, Header]]
) -> Measured:
    found: Measured = {}
    with Control(server.broker) as control, steady(context, server, found):
        end = time.monotonic() + PERIOD_SECONDS
        while time.monotonic() < end:
            for name, (code, header) in requests.items():
                begin = time.monotonic()
                control.call(code, header)
                found[f"{name}, longest, s"] = max(found.get(f"{name}, longest, s", 0.0), time.monotonic() - begin)
    return found


def _drop_from_page_cache(work: Path) -> None:
    for path in work.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


@contextmanager
def slow_disk(work: Path, pid: int) -> Iterator[None]:
    """Let a process read at most 20 MB/s from the disk of a directory during the block.

    :raises BenchError: this user or kernel cannot limit it: that needs root, and blkio of control groups, version 1.
    """
    group = Path(f"/sys/fs/cgroup/blkio/rocketmq-growth-{os.getpid()}")
    device = work.stat().st_dev
    try:
        group.mkdir()
        limit = f"{os.major(device)}:{os.minor(device)} {DISK_BYTES_A_SECOND}"
        (group / "blkio.throttle.read_bps_device").write_text(limit)
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as e:
        raise BenchError(f"the disk cannot be slowed down: {e}") from e
    try:
        yield
    finally:
        for one in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(one)
        group.rmdir()
