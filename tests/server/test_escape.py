"""A slave hands due messages of its lost master to another master."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rocketmq_py.broker import Broker
from rocketmq_py.broker.broker import wall_clock
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.pop import PopMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command
from tests.server.test_broker import make, name_server, until

POPPED_AGAIN = "%RETRY%g_popped"
DELAY_LEVEL, DUE_MS = 5, 60_000
"""Level 5 is a minute, and so long is what is popped out."""


async def send(
    outward: RpcClient, broker: Broker, topic: str, body: bytes, sys_flag: int = 0, **properties: str
) -> None:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    header = SendMessageV2(
        producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0,
        sys_flag=sys_flag, born_timestamp=1, flag=0, properties=text,
    )  # fmt: skip
    reply = await outward.invoke(broker.address, Command(Code.SEND_MESSAGE_V2, ext=header.to_ext(), body=body), 30)
    assert reply.code == 0, reply.remark


class LaterClock:
    """The clock of all brokers: it is later when a test says so, so that nothing is due before, however slow it is."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return wall_clock() + self.ahead_ms

    def pass_time(self) -> None:
        """What was sent and popped is due."""
        self.ahead_ms += 2 * DUE_MS


async def pop(outward: RpcClient, broker: Broker, topic: str, now_ms: int) -> None:
    header = PopMessage(
        consumer_group="g", topic=topic, queue_id=0, max_msg_nums=1, invisible_time=DUE_MS, poll_time=60_000,
        born_time=now_ms, init_mode=0, exp_type="TAG", exp="*",
    )  # fmt: skip
    reply = await outward.invoke(broker.address, Command(Code.POP_MESSAGE, ext=header.to_ext()), 30)
    assert reply.code == 0, reply.remark


def bodies(broker: Broker, topic: str) -> list[bytes]:
    """The messages of a topic's first queue."""
    store = broker.services.store
    first, end = store.queue_range(topic, 0)
    found = [store.record_at_queue(topic, 0, offset) for offset in range(first, end)]
    return [read_stored(raw).body for raw in found if raw is not None]


@asynccontextmanager
async def left_alone(root: Path, clock: LaterClock, **config: object) -> AsyncIterator[tuple[Broker, Broker, Broker]]:
    """A master that is gone, its slave, and the master of another name."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(name_server())
        outward = RpcClient()
        stack.callback(outward.close)
        topics = [TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1) for name in ("t", "popped")]
        master = make(root / "master", server.address, clock=clock, enable_slave_acting_master=True)
        other = make(root / "other", server.address, clock=clock, broker_name="broker-b")
        for broker in (master, other):
            await broker.start()
            stack.push_async_callback(broker.stop)
            broker.services.topics.put(topics)
            broker.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        other.services.topics.put([TopicConfig(topic_name=POPPED_AGAIN, read_queue_nums=1, write_queue_nums=1)])
        await other.services.registration.flush()
        for body in (b"popped", b"popped at the slave"):
            await send(outward, master, "popped", body)
        await pop(outward, master, "popped", clock())
        await send(outward, master, "t", b"delayed", DELAY=str(DELAY_LEVEL), UNIQ_KEY="D")
        await send(outward, master, "t", b"half", 4, TRAN_MSG="true", PGROUP="p", UNIQ_KEY="H")
        await master.stop()
        shutil.copytree(root / "master", root / "slave")
        clock.pass_time()
        slave = make(
            root / "slave", server.address, clock=clock, broker_role="SLAVE", broker_id=1,
            enable_slave_acting_master=True, broker_heartbeat_interval=50, sync_broker_member_group_period=50,
            transaction_check_interval=100, **config,
        )  # fmt: skip
        await slave.start()
        stack.push_async_callback(slave.stop)
        yield master, slave, other


async def test_due_messages_go_to_another_master_once(tmp_path: Path) -> None:
    clock = LaterClock()
    async with left_alone(tmp_path, clock, enable_remote_escape=True) as (master, slave, other):
        await until(lambda: bodies(other, "t") == [b"delayed"])
        await until(lambda: bodies(other, names.HALF_TOPIC) == [b"half"])
        await until(lambda: bodies(other, POPPED_AGAIN) == [b"popped"])
        outward = RpcClient()
        await pop(outward, slave, "popped", clock())
        outward.close()
        # What is out begins there: nobody else is to leave it out.
        await until(lambda: slave.services.offsets.query("g", "popped", 0) == 1)
        clock.pass_time()
        await until(lambda: bodies(other, POPPED_AGAIN) == [b"popped", b"popped at the slave"])
        raw = other.services.store.record_at_queue(names.HALF_TOPIC, 0, 0)
        assert raw is not None
        properties = decode_properties(read_stored(raw).properties)
        assert {name: properties.get(name) for name in ("REAL_TOPIC", "PGROUP", "UNIQ_KEY")} == {
            "REAL_TOPIC": "t", "PGROUP": "p", "UNIQ_KEY": "H",
        }  # fmt: skip
        tables = slave.services
        await until(lambda: tables.delay.offsets[DELAY_LEVEL] == 1)
        await until(lambda: tables.offsets.query("CID_RMQ_SYS_TRANS", names.HALF_TOPIC, 0) == 1)
        await until(lambda: not tables.pop.revive_log.inflight)
        assert slave.services.offsets.query("g", "popped", 0) == 2
        await master.start()
        assert master.services.delay.offsets[DELAY_LEVEL] == 1, "it goes on behind what was delivered for it"
        assert master.services.transactions.table.base == 1
        assert not master.services.pop.revive_log.inflight
        assert master.services.offsets.query("g", "popped", 0) == 2
        await until(lambda: not slave.services.role.is_acting)
        assert bodies(master, "t") == []
