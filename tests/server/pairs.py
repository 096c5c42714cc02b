"""Masters and slaves in this process with explicit replication addresses.

Knows how far each has come. Believes nothing a broker says about its log: files are compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rocketmq_py.broker import Broker
from rocketmq_py.broker.broker import wall_clock
from rocketmq_py.broker.config.broker_config import SLAVE, configure
from rocketmq_py.core.peer import Reply
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command

FILE = 64 * 1024
SECONDS = 240.0
SMALL = {
    "mapped_file_size_commit_log": FILE, "mapped_file_size_consume_queue": 4000, "max_hash_slot_num": 100,
    "max_index_num": 400, "bind_address": "127.0.0.1", "sync_flush_timeout": 60_000,
    "os_page_cache_busy_time_out_mills": 60_000,
}  # fmt: skip


class Pairs:
    """Brokers of one test."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.caller = RpcClient()

    async def broker(self, name: str, clock: Callable[[], int] = wall_clock, **settings: Any) -> Broker:
        """A running broker with a store of its own, the one it had before if it had one."""
        fixed = {"store_path_root_dir": str(self.work / name), "listen_port": 0}
        broker = Broker(*configure({}, **{**SMALL, **fixed, **settings}), clock)
        await broker.start()
        return broker

    async def slave_of(self, master: Broker, name: str = "slave", number: int = 1, **settings: Any) -> Broker:
        """A running slave; it may not have connected yet."""
        return await self.broker(
            name, broker_role=SLAVE, broker_id=number, ha_master_address=ha_address(master), **settings
        )

    async def send(
        self, broker: Broker, content: bytes, topic: str = "T", queue_id: int = 0, code: Code = Code.SEND_MESSAGE_V2,
        properties: str = "", sys_flag: int = 0,
    ) -> Reply:  # fmt: skip
        """The answer to a send."""
        header = SendMessageV2(
            producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id,
            sys_flag=sys_flag, born_timestamp=1, flag=0, properties=f"KEYS\x01k\x02TAGS\x01t\x02{properties}",
            batch=code == Code.SEND_BATCH_MESSAGE,
        )  # fmt: skip
        return await self.caller.invoke(broker.address, Command(code, ext=header.to_ext(), body=content), SECONDS)

    async def load(self, broker: Broker, rounds: int = 3) -> None:
        """A bit of everything: several queues, batches, large messages, half messages, delays and timers."""
        for number in range(rounds):
            batch = encode_batch([(0, b"b%d" % i, b"KEYS\x01b%d" % i) for i in range(20)])
            half = "TRAN_MSG\x01true\x02PGROUP\x01p\x02"
            answers = await asyncio.gather(
                *(self.send(broker, b"%d|%d" % (number, i) + bytes(i * 50), queue_id=i % 4) for i in range(30)),
                self.send(broker, batch, "B", code=Code.SEND_BATCH_MESSAGE),
                self.send(broker, bytes(FILE // 2)),
                self.send(broker, b"half", "H", properties=f"{half}UNIQ_KEY\x01U{number}\x02", sys_flag=4),
                self.send(broker, b"late", "D", properties="DELAY\x0118\x02"),
                self.send(broker, b"later", "L", properties="TIMER_DELAY_SEC\x017200\x02"),
            )
            assert [answer.code for answer in answers] == [0] * len(answers), answers


def ha_address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.services.role.ha_port}"


def log_end(broker: Broker) -> int:
    return broker.services.store.max_physical_offset


async def eventually(look: Callable[[], object]) -> None:
    """Waits for a state of a broker that nobody announces."""
    async with asyncio.timeout(SECONDS):
        while not look():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def caught_up(master: Broker, *slaves: Broker) -> None:
    """Until the slaves have everything their master has, and it knows."""
    await eventually(lambda: all(log_end(slave) == log_end(master) for slave in slaves))
    await eventually(
        lambda: master.services.replication.master.acknowledged_offset(max(1, len(slaves))) == log_end(master)
    )


@asynccontextmanager
async def pairs(work: Path) -> AsyncIterator[Pairs]:
    made = Pairs(work)
    async with AsyncExitStack() as stack:
        start = made.broker

        async def and_stop(name: str, *clock: Callable[[], int], **settings: Any) -> Broker:
            broker = await start(name, *clock, **settings)
            stack.push_async_callback(broker.stop)
            return broker

        made.broker = and_stop  # type: ignore[method-assign]
        stack.callback(made.caller.close)
        yield made


def files(store: Path, folder: str) -> dict[str, bytes]:
    """The files below a folder of a store, by their path in it."""
    return {str(path.relative_to(store)): path.read_bytes() for path in (store / folder).rglob("*") if path.is_file()}
