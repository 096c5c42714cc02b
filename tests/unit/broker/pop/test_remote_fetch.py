"""Checkpoints of other brokers, and pops whose messages are at another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.pop.remote_fetch import RemoteFetcher
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.core.pop.inflight import InflightPop
from rocketmq_py.errors import BrokerError, ConnectError, NoRouteError, RocketMQError
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.pop_checkpoint import REVIVE_GROUP, AckRecord, CheckPoint, revive_topic
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.pop.pop_client import REVIVE_MS, ack, bodies, make_topic, popped, put, take
from tests.unit.broker.requests import pop, send

REVIVE = revive_topic("DefaultCluster")
QUEUE = 3
"""The revive queue pops of a minute are noted in."""


def check_point(start: int = 0, count: int = 1, name: str = "broker-z", pop_time: int = START_MS) -> CheckPoint:
    return CheckPoint(
        topic="t", group="g", queue_id=0, start_offset=start, pop_time=pop_time, broker_name=name,
        invisible_ms=60_000, count=count, diffs=list(range(count)),
    )  # fmt: skip


def acked(ck: CheckPoint, offset: int) -> AckRecord:
    return AckRecord(
        topic=ck.topic, group=ck.group, queue_id=ck.queue_id, start_offset=ck.start_offset, pop_time=ck.pop_time,
        broker_name=ck.broker_name, offset=offset,
    )  # fmt: skip


def note(entry: CheckPoint | AckRecord, queue_id: int = QUEUE) -> tuple[Header, bytes]:
    """The send by which another broker has it noted here."""
    tag = "ck" if isinstance(entry, CheckPoint) else "ack"
    properties = {"TAGS": tag, "UNIQ_KEY": entry.unique_key, "TIMER_DELIVER_MS": str(START_MS + 59_000)}
    return send(REVIVE, queue_id, properties), entry.encode()


def sent(client: Client, *entries: CheckPoint | AckRecord) -> None:
    for entry in entries:
        assert client.ask(Code.SEND_MESSAGE_V2, *note(entry)).code == 0


@pytest.fixture
def elsewhere(running: InProcess) -> list[InflightPop]:
    """Pops that were found to be another broker's. A message of this one is in the same place as theirs."""
    make_topic(running)
    put(running.connect(), b"ours", b"ours, too")
    running.services.groups.put([SubscriptionGroupConfig(group_name="g")])
    found: list[InflightPop] = []
    running.services.pop.remote_fetcher.fetch = found.append
    return found


def progress(running: InProcess) -> int:
    return running.services.offsets.query(REVIVE_GROUP, REVIVE, QUEUE)


# -- notes of others


def test_a_check_point_of_another_broker_is_applied_at_once(
    running: InProcess, client: Client, elsewhere: list[InflightPop]
) -> None:
    ck = check_point(count=2)
    sent(client, ck, acked(ck, 1))
    raw = running.services.store.record_at_queue(REVIVE, QUEUE, 0)
    assert raw is not None, "it did not go to the timer"
    assert decode_properties(read_stored(raw).properties)["TIMER_DELIVER_MS"] == str(START_MS)
    running.turn(59_000)
    assert elsewhere == []
    assert progress(running) == -1
    running.turn(3_300)
    assert [(one.check_point.key, one.left) for one in elsewhere] == [(ck.key, [0])]
    assert take(client, invisible_time=600_000)[0].body == b"ours", "and not from the retry topic"
    sent(client, acked(ck, 0))
    running.turn(1)
    assert progress(running) == 2


def test_a_check_point_of_another_broker_between_own_ones_is_applied(
    running: InProcess, client: Client, elsewhere: list[InflightPop]
) -> None:
    mine, theirs = take(client, max_msg_nums=1), check_point()
    assert mine[0].handle.revive_queue == QUEUE
    header, body = note(theirs)
    pair = [Command(Code.SEND_MESSAGE_V2, 1, ext=header.to_ext(), body=body),
            Command(Code.POP_MESSAGE, 2, ext=pop(max_msg_nums=1).to_ext())]  # fmt: skip
    stored, second = client.read(pair)
    assert (stored.code, stored.ext["queueOffset"]) == (0, "1")
    for one in (*mine, *popped(second)):
        assert ack(client, one).code == 0
    running.turn(1)
    assert progress(running) == 0, "theirs is out"
    running.turn(REVIVE_MS)
    assert [one.check_point.key for one in elsewhere] == [theirs.key]
    sent(client, acked(theirs, 0))
    running.turn(1)
    assert progress(running) == running.services.store.queue_range(REVIVE, QUEUE)[1] - 1
    assert not running.services.pop.revive_log.inflight


def test_a_check_point_of_another_broker_changes_no_offset(tmp_path: Path) -> None:
    crashed = InProcess(tmp_path)
    make_topic(crashed)
    sent(crashed.connect(), check_point(0, 2), check_point(0, 1, name="broker-a"))
    crashed.services.saver.close()
    crashed.services.store.close()
    (tmp_path / "abort").touch()
    with broker(tmp_path) as again:
        assert len(again.services.pop.revive_log.inflight) == 2
        assert again.services.offsets.query("g", "t", 0) == 1, "as far as our own was popped"


# -- messages of others


class Other:
    """The other brokers: what they say of a message, by its offset; ``asked`` tells what they were asked for."""

    def __init__(self, says: Callable[[int], bytes | RocketMQError | None]) -> None:
        self.says = says
        self.asked: list[int] = []

    async def get(self, broker_name: str, topic: str, queue_id: int, offset: int) -> bytes | None:
        assert (broker_name, topic, queue_id) == ("broker-z", "t", 0)
        self.asked.append(offset)
        await asyncio.sleep(0)
        said = self.says(offset)
        if isinstance(said, RocketMQError):
            raise said
        return said


def fetching(running: InProcess, other: Other) -> RemoteFetcher:
    pop = running.services.pop
    return RemoteFetcher(running.config, cast("EscapeBridge", other), pop.revive_log, pop.retry_messages, pop.reviver)


def fetched(running: InProcess, other: Other, *due: InflightPop) -> None:
    """What is due has been fetched, or not."""

    async def scenario() -> None:
        fetches = fetching(running, other)
        for one in due:
            fetches.fetch(one)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(scenario())


@pytest.fixture
def theirs(tmp_path: Path) -> Callable[[int], bytes | None]:
    """The messages of another broker."""
    with broker(tmp_path / "other", broker_name="broker-z") as other:
        make_topic(other)
        put(other.connect(), b"theirs", b"theirs, too", properties={"TAGS": "A"})
        records = [other.services.store.record_at_queue("t", 0, offset) for offset in range(2)]
    return records.__getitem__


def due(running: InProcess, client: Client, elsewhere: list[InflightPop], *entries: CheckPoint) -> list[InflightPop]:
    """Pops of another broker whose time is up."""
    sent(client, *entries)
    running.turn(REVIVE_MS)
    return elsewhere


def back(client: Client) -> list[bytes]:
    """What is in the retry topic."""
    return bodies([one for one in take(client, invisible_time=6_000_000) if one.message.reconsume_times])


def test_messages_of_another_broker_are_revived_here(
    running: InProcess, client: Client, elsewhere: list[InflightPop], theirs: Callable[[int], bytes | None]
) -> None:
    [one] = due(running, client, elsewhere, check_point(count=2))
    fetched(running, Other(theirs), one)
    found = [one for one in take(client) if one.message.reconsume_times]
    assert bodies(found) == [b"theirs", b"theirs, too"]
    assert {name: found[0].message.properties.get(name) for name in ("TAGS", "1ST_POP_TIME")} == {
        "TAGS": "A", "1ST_POP_TIME": str(START_MS),
    }  # fmt: skip
    running.turn(1)
    assert len(running.services.pop.revive_log.inflight) == 2, "they are popped from the retry topic, and what is ours"


def test_messages_gone_from_another_broker_are_finished(
    running: InProcess, client: Client, elsewhere: list[InflightPop], theirs: Callable[[int], bytes | None]
) -> None:
    [one] = due(running, client, elsewhere, check_point(count=2))
    fetched(running, Other(lambda offset: theirs(offset) if offset else None), one)
    assert back(client) == [b"theirs, too"]
    assert one.check_point.key not in running.services.pop.revive_log.inflight


@pytest.mark.parametrize("why", [ConnectError("no"), NoRouteError("unknown"), BrokerError.of(17, "no topic")])
def test_unfetched_messages_are_retried(
    running: InProcess, client: Client, elsewhere: list[InflightPop], theirs: Callable[[int], bytes | None],
    why: RocketMQError,
) -> None:  # fmt: skip
    [one] = due(running, client, elsewhere, check_point(count=2))
    elsewhere.clear()
    fetched(running, Other(lambda offset: why if offset else theirs(offset)), one)
    assert back(client) == [b"theirs"]
    running.turn(11_000)
    assert elsewhere == []
    running.turn(1_300)
    [again] = elsewhere
    assert (again.left, again.check_point.tries) == ([1], 1)
    fetched(running, Other(theirs), again)
    assert back(client) == [b"theirs, too"]


def test_retries_of_a_fetch_survive_a_restart(tmp_path: Path) -> None:
    taken: list[InflightPop] = []
    with broker(tmp_path) as running:
        make_topic(running)
        running.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        running.services.pop.remote_fetcher.fetch = taken.append
        [one] = due(running, running.connect(), taken, check_point(count=2))
        fetched(running, Other(lambda _: ConnectError("no")), one)
        running.turn(1)
        assert progress(running) == 0, "the first note is over"
    with broker(tmp_path, now=running.now) as again:
        taken.clear()
        again.services.pop.remote_fetcher.fetch = taken.append
        again.turn(9_000)
        assert taken == []
        again.turn(3_300)
        assert [(one.left, one.check_point.tries) for one in taken] == [([0, 1], 1)]


def test_an_unreachable_broker_is_asked_once_for_all_pops(
    running: InProcess, client: Client, elsewhere: list[InflightPop]
) -> None:
    pops = due(running, client, elsewhere, *(check_point(start) for start in range(3)))
    other = Other(lambda _: ConnectError("no"))
    fetched(running, other, *pops)
    assert other.asked == [0]
    running.turn(12_300)
    assert [one.check_point.tries for one in elsewhere[3:]] == [1, 1, 1]


def test_messages_acked_during_the_fetch_are_not_revived(
    running: InProcess, client: Client, elsewhere: list[InflightPop], theirs: Callable[[int], bytes | None]
) -> None:
    ck = check_point(count=2)
    [one] = due(running, client, elsewhere, ck)

    def late(offset: int) -> bytes | None:
        if offset:
            sent(client, acked(ck, 0), acked(ck, 1))
            running.services.pop.revive_log.catch_up()
        return theirs(offset)

    fetched(running, Other(late), one)
    assert back(client) == []


def test_messages_of_a_group_that_is_deleted_during_the_fetch_are_not_revived(
    running: InProcess, client: Client, elsewhere: list[InflightPop], theirs: Callable[[int], bytes | None]
) -> None:
    [one] = due(running, client, elsewhere, check_point(count=2))

    def late(offset: int) -> bytes | None:
        running.services.groups.delete("g")
        return theirs(offset)

    before = running.services.store.max_physical_offset
    fetched(running, Other(late), one)
    assert running.services.store.max_physical_offset == before, "nothing was stored"
    assert one.check_point.key not in running.services.pop.revive_log.inflight


def test_a_pop_is_given_up_after_the_last_retry(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with broker(tmp_path / "store", skip_when_ck_re_put_reach_max_times=True) as running:
        make_topic(running)
        running.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        found: list[InflightPop] = []
        running.services.pop.remote_fetcher.fetch = found.append
        ck = check_point()
        ck.re_put_times = "17"
        [one] = due(running, running.connect(), found, ck)
        fetched(running, Other(lambda _: NoRouteError("unknown")), one)
        assert not running.services.pop.revive_log.inflight
        assert "giving up 1 messages of topic t popped by group g at broker broker-z after 17 tries" in caplog.text


def test_an_acting_slave_postpones_unfetched_pops(tmp_path: Path) -> None:
    with broker(tmp_path) as master:
        make_topic(master)
        sent(master.connect(), check_point(), check_point(start=1))
    acting = {"broker_role": "SLAVE", "broker_id": 1, "enable_slave_acting_master": True}
    with broker(tmp_path, **acting) as slave:
        assert slave.services.role.update_smallest_id(1, "127.0.0.1:10911")
        log = slave.services.pop.revive_log
        first, second = log.inflight.take_due(START_MS + REVIVE_MS)
        slave.now += REVIVE_MS
        fetching(slave, Other(lambda _: None)).try_again(first, NoRouteError("unknown"))
        log.inflight.finish(second.check_point.key)
        assert log.inflight.take_due(slave.now + 11_000) == []
        assert log.inflight.take_due(slave.now + 12_300) == [first]
        log.note_progress()
        assert slave.services.offsets.query(REVIVE_GROUP, REVIVE, QUEUE) == -1, "the master has to know of it"
