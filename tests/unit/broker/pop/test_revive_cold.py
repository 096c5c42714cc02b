"""Popped messages whose bytes are not in memory when they are revived: a thread loads them, then they are revived."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.broker.pop import revive
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.unit.broker.cold import cold_broker, thread
from tests.unit.broker.harness import InProcess
from tests.unit.broker.pop.pop_client import REVIVE_MS, ack, bodies, make_topic, put, take
from tests.unit.broker.requests import send
from tests.unit.store.coldfs import ColdFileSystem

POPS = 6
OLD = [b"%d" % number for number in range(POPS * 5)]
READER = "revive-read"


def fill(running: InProcess) -> None:
    """Messages that were popped, five at a time, between larger ones of another topic; one was acked."""
    client = running.connect()
    make_topic(running)
    for body in OLD:
        put(client, body)
        assert client.ask(Code.SEND_MESSAGE_V2, send("other"), bytes(700)).code == 0
    first, *_ = [take(client, max_msg_nums=5) for _ in range(POPS)]
    assert ack(client, first[0]).code == 0


def revived(running: InProcess, fs: ColdFileSystem) -> list[bytes]:
    assert fs.cold_reads == []
    fs.resident = None
    return sorted(bodies(take(running.connect())), key=int)


def tick(running: InProcess) -> None:
    running.services.pop.tick(running.now)


def test_cold_messages_are_loaded_in_a_thread_and_revived_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER], later_ms=REVIVE_MS) as (running, fs):
        tick(running)
        assert thread(running, READER).work
        while thread(running, READER).work:
            thread(running, READER).finish()
            tick(running)
        assert revived(running, fs) == OLD[1:]
        assert len(running.services.pop.revive_log.inflight) == 1, "the pop of those that were revived"


def test_few_loads_are_under_way_at_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(revive, "_MOST_COLD", 2)
    with cold_broker(tmp_path, fill, by_hand=[READER], later_ms=REVIVE_MS) as (running, fs):
        while True:
            tick(running)
            assert len(thread(running, READER).work) <= 2
            if not thread(running, READER).work:
                break
            thread(running, READER).finish()
        assert revived(running, fs) == OLD[1:]


def test_messages_in_memory_do_not_wait_for_others(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER], later_ms=REVIVE_MS) as (running, fs):
        tick(running)
        client = running.connect()
        put(client, b"100")
        assert bodies(take(client)) == [b"100"]
        running.now += REVIVE_MS
        tick(running)
        assert revived(running, fs) == [b"100"]


def test_a_message_that_is_acked_during_the_load_is_not_revived(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER], later_ms=REVIVE_MS) as (running, fs):
        tick(running)
        log = running.services.pop.revive_log
        for one in running.services.pop.reviver._cold[1:]:
            log.ack(one.check_point.key, one.left)
        while thread(running, READER).work:
            thread(running, READER).finish()
            tick(running)
        assert revived(running, fs) == OLD[1:5]


def test_a_disk_that_fails_delays_messages_and_loses_none(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER], later_ms=REVIVE_MS) as (running, fs):
        fs.failing = {"load"}
        for _ in range(3):
            tick(running)
            while thread(running, READER).work:
                thread(running, READER).finish()
        assert len(running.services.pop.revive_log.inflight) == POPS
        fs.failing = set()
        tick(running)
        while thread(running, READER).work:
            thread(running, READER).finish()
            tick(running)
        assert revived(running, fs) == OLD[1:]


def test_a_platform_that_cannot_tell_revives_at_once(tmp_path: Path) -> None:
    with cold_broker(tmp_path, fill, by_hand=[READER], later_ms=REVIVE_MS) as (running, fs):
        fs.tells_residency = False
        tick(running)
        assert thread(running, READER).work == []
        assert fs.cold_reads
        fs.cold_reads.clear()
        assert revived(running, fs) == OLD[1:]


def test_a_broker_that_closes_reads_nothing_more_to_revive(running: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    read_ahead = running.services.pop.reviver._read_ahead
    closed: list[object] = []

    def close(one: object) -> None:
        closed.append(one)

    with monkeypatch.context() as patched:
        patched.setattr(type(read_ahead), "close", close)
        running.services.pop.close()
    assert closed == [read_ahead]
