"""Messages with a time of their own while their master is away: another one gets them, and they do not come again."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from rocketmq_py.broker import Broker
from rocketmq_py.broker.records.stored_record import StoredRecord, read_stored
from rocketmq_py.broker.timer.timers import Timers
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store.timer.timer_wheel import progress
from tests.server.test_acting_master import trio
from tests.server.test_broker import make, until
from tests.server.test_escape import LaterClock, bodies, send

SOON_MS, LATER_MS = 60_000, 62_000


def topic(name: str) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)


def delivered_before(timers: Timers) -> int:
    check = timers.checkpoint()
    assert check is not None
    return progress(check)[0]


def handed_on_before(timers: Timers) -> int:
    """What a master of this project is told."""
    more = timers.checkpoint_extension()
    assert more is not None
    assert more.delivered_before is not None
    return more.delivered_before


def stored(broker: Broker, name: str) -> list[StoredRecord]:
    store = broker.services.store
    raws = [store.record_at_queue(name, 0, offset) for offset in range(store.queue_range(name, 0)[1])]
    return [read_stored(raw) for raw in raws if raw is not None]


async def test_timed_messages_come_once_from_another_master(tmp_path: Path) -> None:
    """The master does not deliver before it goes, so whatever has come came through its slave."""
    async with AsyncExitStack() as stack:
        clock = LaterClock()
        three = await stack.enter_async_context(trio(tmp_path, notify=True, clock=clock, enable_remote_escape=True))
        master, slave, outward = three.master, three.slave, RpcClient()
        stack.callback(outward.close)
        other = make(tmp_path / "other", three.server.address, clock=clock, broker_name="broker-b")
        await other.start()
        stack.push_async_callback(other.stop)
        master.store_config.timer_stop_dequeue = True
        master.services.topics.put([topic("t"), topic("lonely")])
        other.services.topics.put([topic("t")])
        await other.services.registration.flush()
        begin = clock()
        due = {b"soon": begin + SOON_MS, b"later": begin + LATER_MS}
        for body, at in due.items():
            await send(outward, master, "t", body, TIMER_DELIVER_MS=str(at), UNIQ_KEY=body.decode())
        await send(outward, master, "lonely", b"x", TIMER_DELIVER_MS=str(begin + SOON_MS), UNIQ_KEY="x")
        end = master.services.store.max_physical_offset
        await until(lambda: slave.services.store.max_physical_offset == end)
        await master.stop()
        clock.ahead_ms = SOON_MS
        await until(lambda: bodies(other, "t") == [b"soon", b"later"])
        assert all(one.head.store_timestamp >= due[one.body] for one in stored(other, "t"))
        assert slave.services.store.max_physical_offset == end, "its log stays its master's"
        past = begin + LATER_MS + 1_000
        assert delivered_before(slave.services.timers) < past, "nobody has taken the lonely one"
        await until(lambda: handed_on_before(slave.services.timers) > past)

        master.store_config.timer_stop_dequeue = False
        await three.restart_master()
        await until(lambda: delivered_before(master.services.timers) > past)
        assert (bodies(master, "t"), bodies(master, "lonely")) == ([], [b"x"])
        await until(lambda: not slave.services.role.is_acting)
        await until(lambda: delivered_before(slave.services.timers) > past)
        await send(outward, master, "t", b"new", TIMER_DELAY_MS="500", UNIQ_KEY="new")
        await until(lambda: bodies(master, "t") == [b"new"])
