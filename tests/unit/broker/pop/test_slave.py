"""Pops at an acting slave: served from memory, and offsets reported only as far as messages are acked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.broker.pop.slave import SlaveReviveLog
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.pop_checkpoint import REVIVE_GROUP, CheckPoint
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.pop.pop_client import (
    Popped,
    ack,
    bodies,
    change_invisible,
    extended,
    make_topic,
    popped,
    put,
    take,
)
from tests.unit.broker.requests import pop

ACTING = {"broker_role": "SLAVE", "broker_id": 1, "enable_slave_acting_master": True}
MESSAGES = [b"%d" % number for number in range(6)]


@pytest.fixture
def from_master(tmp_path: Path) -> list[Popped]:
    """Two messages that were popped at the master, of six; it is gone, and its store is the slave's."""
    with broker(tmp_path) as master:
        make_topic(master)
        client = master.connect()
        put(client, *MESSAGES)
        return take(client, max_msg_nums=2)


@pytest.fixture
def slave(tmp_path: Path, from_master: list[Popped]) -> Iterator[InProcess]:
    with broker(tmp_path, **ACTING) as running:
        yield running


@pytest.fixture
def client(slave: InProcess) -> Client:
    assert slave.services.role.update_smallest_id(1, "127.0.0.1:10911")
    return slave.connect()


def told(slave: InProcess) -> int:
    """Where whoever goes on after this slave begins."""
    return slave.services.offsets.query("g", "t", 0)


def test_a_slave_refuses_pops_while_it_does_not_act(slave: InProcess) -> None:
    for code in (Code.POP_MESSAGE, Code.PEEK_MESSAGE, Code.NOTIFICATION, Code.POLLING_INFO):
        answer = slave.connect().ask(code, pop())
        assert answer.code == 14
        assert "broker-a (id 1) is a slave that does not act as master" in answer.remark


def test_the_committed_offset_stays_before_unacked_messages(slave: InProcess, client: Client) -> None:
    end = slave.services.store.max_physical_offset
    first, second = take(client, max_msg_nums=1), take(client, max_msg_nums=2)
    assert bodies(first + second) == MESSAGES[2:5]
    assert told(slave) == 2
    assert ack(client, second[0]).code == 0
    assert told(slave) == 2, "the one before is out"
    assert ack(client, first[0]).code == 0
    assert told(slave) == 4
    assert ack(client, first[0]).code == 0, "as at a master: nothing happens"
    assert ack(client, second[1]).code == 0
    assert told(slave) == 5
    assert bodies(take(client)) == MESSAGES[5:]
    assert slave.services.store.max_physical_offset == end, "a slave's log is its master's"


def test_messages_kept_invisible_stay_in_flight(slave: InProcess, client: Client) -> None:
    (one,) = take(client, max_msg_nums=1)
    slave.turn(10)
    longer = extended(one, change_invisible(client, one, 120_000))
    assert told(slave) == 2
    assert change_invisible(client, one, 120_000).code == 208, "another handle counts now"
    assert ack(client, one).code == 0
    assert told(slave) == 2
    assert ack(client, longer).code == 0
    assert told(slave) == 3


def test_an_acting_slave_continues_the_pops_of_its_master(
    slave: InProcess, client: Client, from_master: list[Popped]
) -> None:
    """Those are before what it tells: they come back through the log of the master unless they are acked here."""
    ledger = slave.services.pop.revive_log.inflight
    assert [one.left for one in ledger.take_due(slave.now + 120_000)] == [[0, 1]]
    longer = extended(from_master[0], change_invisible(client, from_master[0], 5_000))
    assert ack(client, longer).code == ack(client, from_master[1]).code == 0
    assert not ledger
    assert told(slave) == 2


@pytest.mark.parametrize(("later_ms", "begins"), [(0, 2), (100_000, 0)])
def test_pops_newer_than_the_copied_offsets_are_not_repeated(slave: InProcess, later_ms: int, begins: int) -> None:
    """The log knows of it already; what is older the master has told."""
    slave.services.offsets.commit("g", "t", 0, 0, "the master")
    slave.now += later_ms
    slave.services.role.update_smallest_id(1, "127.0.0.1:10911")
    assert told(slave) == begins
    assert bodies(take(slave.connect())) == MESSAGES[begins:]


def test_an_ordered_group_continues_at_an_acting_slave(slave: InProcess, client: Client) -> None:
    first = take(client, max_msg_nums=1, order=True)
    assert bodies(first) == MESSAGES[2:3]
    assert told(slave) == 2
    assert take(client, max_msg_nums=1, order=True) == []
    assert ack(client, first[0]).code == 0
    assert told(slave) == 3
    assert bodies(take(client, max_msg_nums=1, order=True)) == MESSAGES[3:4]


def test_held_pops_are_answered_when_the_master_returns(slave: InProcess, client: Client) -> None:
    """What was popped here and not acked is forgotten: the master gives it out again."""
    held_back = take(client)
    assert bodies(held_back) == MESSAGES[2:]
    assert client.call(Code.POP_MESSAGE, pop(poll_time=15_000, born_time=slave.now)) is None
    assert slave.services.role.update_smallest_id(0, "127.0.0.1:10912")
    assert [answer.code for answer in client.heard] == [210]
    assert client.ask(Code.POP_MESSAGE, pop()).code == 14
    assert ack(client, held_back[0]).code == 0
    assert told(slave) == 2
    assert slave.services.role.update_smallest_id(1, "127.0.0.1:10911")
    assert bodies(popped(client.ask(Code.POP_MESSAGE, pop()))) == MESSAGES[2:]


def test_an_offset_reset_drops_messages_in_flight(slave: InProcess, client: Client) -> None:
    (one,) = take(client, max_msg_nums=1)
    slave.services.offsets.reset("g", "t", 0, 1)
    assert bodies(take(client, max_msg_nums=2)) == MESSAGES[1:3]
    assert ack(client, one).code == 0
    assert told(slave) == 1


# -- entries of a Java master's timer


def revive_log(slave: InProcess) -> SlaveReviveLog:
    log = slave.services.pop.revive_log
    assert isinstance(log, SlaveReviveLog)
    return log


CHECK = CheckPoint(
    broker_name="broker-a", group="g", invisible_ms=60_000, count=2, pop_time=START_MS + 7, queue_id=0, start_offset=2,
    topic="t",
)  # fmt: skip


def test_a_check_point_of_the_timer_is_done_when_its_messages_are(slave: InProcess, client: Client) -> None:
    log = revive_log(slave)
    tag, body = "ck", CHECK.encode()
    assert not log.apply_timer_entry(tag, body, 0)
    assert CHECK.key in log.inflight
    assert not log.apply_timer_entry(tag, body, 0), "its messages are in flight"
    log.inflight.ack(CHECK.key, [2])
    assert not log.apply_timer_entry(tag, body, 0)
    log.inflight.ack(CHECK.key, [3])
    assert log.apply_timer_entry(tag, body, 0)
    assert not log.apply_timer_entry(tag, body, 0), "another check-point of the same pop begins again"


def test_entries_that_the_master_has_moved_are_done(slave: InProcess, client: Client) -> None:
    log = revive_log(slave)
    slave.services.offsets.commit(REVIVE_GROUP, TIMER_TOPIC, 0, 5, "the master")
    tag, body = "ck", CHECK.encode()
    assert log.apply_timer_entry(tag, body, 4)
    assert CHECK.key not in log.inflight
    assert not log.apply_timer_entry(tag, body, 5)
    assert CHECK.key in log.inflight


def test_an_entry_that_cannot_be_read_is_skipped(
    slave: InProcess, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert revive_log(slave).apply_timer_entry("ck", b"{", 0)
    assert "skipping an entry of the revive log in a Java broker's timer" in caplog.text
