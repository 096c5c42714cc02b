"""Entries of the revive log in a Java broker's timer, at a slave that acts; and what its pops commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.broker.pop.slave import SlaveReviveLog
from rocketmq_py.protocol.pop_checkpoint import AckRecord, CheckPoint
from tests.unit.broker.harness import START_MS, InProcess, broker
from tests.unit.broker.pop.pop_client import make_topic

TIMER, REVIVE_GROUP = "rmq_sys_wheel_timer", "CID_RMQ_SYS_REVIVE_GROUP"


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[InProcess]:
    with broker(tmp_path, broker_role="SLAVE", broker_id=1, enable_slave_acting_master=True) as running:
        make_topic(running)
        yield running


@pytest.fixture
def log(slave: InProcess) -> SlaveReviveLog:
    found = slave.services.pop.revive_log
    assert isinstance(found, SlaveReviveLog)
    return found


def check_point(count: int = 2) -> CheckPoint:
    return CheckPoint(topic="t", group="g", queue_id=0, start_offset=0, pop_time=START_MS, broker_name="broker-a",
                      invisible_ms=60_000, count=count, diffs=list(range(count)))  # fmt: skip


def ack(offset: int) -> bytes:
    return AckRecord(offset=offset, broker_name="broker-a", group="g", pop_time=START_MS, queue_id=0, start_offset=0,
                     topic="t").encode()  # fmt: skip


def test_a_check_point_is_done_when_its_messages_are_acked(log: SlaveReviveLog) -> None:
    body = check_point().encode()
    assert log.apply_timer_entry("ck", body, 5) is False
    assert check_point().key in log.inflight
    assert log.apply_timer_entry("ck", body, 5) is False, "applied once only"
    assert log.apply_timer_entry("ack", ack(0), 6) is True
    assert log.apply_timer_entry("ck", body, 5) is False
    assert log.apply_timer_entry("ack", ack(1), 7) is True
    assert log.apply_timer_entry("ck", body, 5) is True


def test_entries_that_a_master_of_this_project_has_moved_are_done(slave: InProcess, log: SlaveReviveLog) -> None:
    slave.services.offsets.commit("CID_RMQ_SYS_REVIVE_GROUP", TIMER, 0, 5, "here")
    assert slave.services.offsets.query(REVIVE_GROUP, TIMER, 0) == 5
    body = check_point().encode()
    assert log.apply_timer_entry("ck", body, 4) is True
    assert check_point().key not in log.inflight
    assert log.apply_timer_entry("ck", body, 5) is False
    assert check_point().key in log.inflight


def test_entries_that_cannot_be_read_are_done(log: SlaveReviveLog, caplog: pytest.LogCaptureFixture) -> None:
    assert log.apply_timer_entry("ck", b"no JSON", 5) is True
    assert caplog.text.count("skipping an entry of the revive log in a Java broker's timer, it cannot be read") == 1
    assert log.apply_timer_entry("neither", b"", 5) is True
    assert len(caplog.records) == 1
    assert not log.inflight


def test_a_reload_forgets_what_was_applied(log: SlaveReviveLog) -> None:
    body = check_point().encode()
    assert log.apply_timer_entry("ck", body, 5) is False
    log.reload()
    assert check_point().key not in log.inflight
    assert log.apply_timer_entry("ck", body, 5) is False
    assert check_point().key in log.inflight


def test_at_a_master_an_ack_says_where_it_is_stored(tmp_path: Path) -> None:
    """Answers to acks wait until that is on disk, where sends do."""
    with broker(tmp_path) as running:
        make_topic(running)
        log = running.services.pop.revive_log
        stored = log.check_point(check_point(), 0)
        assert stored is not None
        found = log.ack(check_point().key, [0])
        assert found is not None
        assert found.physical_offset == stored.physical_offset + stored.size
        assert log.ack(check_point().key, [0]) is None, "it was acked already"
        assert log.ack(check_point().key, [7]) is None
        assert log.ack(check_point().key, [1]) is not None
        assert check_point().key not in log.inflight
