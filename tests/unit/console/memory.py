"""A cluster in memory for the console's pages, and a browser of the application over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx

from rocketmq_py.console.app import create_app
from rocketmq_py.console.connection import Connection
from rocketmq_py.console.masks import Masks
from rocketmq_py.console.state import Console
from rocketmq_py.errors import PermissionDenied
from rocketmq_py.model import Message, MessageExt, MessageQueue, RecordHead
from rocketmq_py.properties import Property, encode_properties
from rocketmq_py.protocol.bodies.access import UserInfo
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from rocketmq_py.protocol.bodies.statistics import (
    ConsumerRunningInfo,
    ConsumeTimes,
    CounterValues,
    CounterWindow,
    HeldQueue,
    HeldRequest,
    HeldRequests,
    ProducerInfo,
)
from tests.unit.cli.memory_admin import MemoryAdmin

NOW = 1_700_000_000_000
QUEUE = MessageQueue("orders", "broker-a", 0)
DEAD = MessageQueue("%DLQ%billing", "broker-a", 0)
JSON = {"accept": "application/json"}
HOST = b"\x7f\x00\x00\x01\x00\x00\x00\x01"


def message(queue: MessageQueue = QUEUE, offset: int = 0, body: bytes = b"{}", **properties: str) -> MessageExt:
    """A stored message; ``properties`` by their names on the wire."""
    head = RecordHead(100, 0, 0, queue.queue_id, 0, offset, offset * 100, 0, NOW, HOST, NOW + offset, HOST, 0, 0, 2)
    return MessageExt(head, queue.topic, body, encode_properties(properties), queue.broker_name)


class Cluster(MemoryAdmin):
    """A topic with messages, a group with a member, and a dead letter."""

    def __init__(self) -> None:
        super().__init__()
        self._silent = {}
        self.states["10.0.0.1:10911"] = {"putTps": "5.0 4.0 3.0", "getTransferredTps": "x", "brokerVersionDesc": "V5"}
        self.configs["10.0.0.1:10911"] = {"fileReservedTime": "72"}
        self.user_table["bob"] = UserInfo(username="bob", user_type="Normal", user_status="enable")
        self.add_topic("orders")
        self.add_topic(DEAD.topic)
        self.add_group("billing")
        self.add_messages(
            *(message(offset=number, UNIQ_KEY=f"{number:032}", KEYS=f"k-{number}") for number in range(3))
        )
        self.add_messages(message(DEAD, 0, b"<b>dead</b>", **{Property.RETRY_TOPIC: "orders", "UNIQ_KEY": "A" * 32}))
        self.consuming["orders"] = ["billing"]
        self.commit("billing", QUEUE, 1, 3)
        self.connected["billing"] = ConsumerConnection(
            connection_set=[ConnectionInfo(client_id="c@1", client_addr="h:1", language="PYTHON", version=1)],
            subscription_table={}, consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
        )  # fmt: skip
        held = HeldQueue(
            cached_count=1001, cached_min_offset=1, cached_max_offset=2, last_consume_timestamp=NOW - 90_000
        )
        key = '{"brokerName":"broker-a","queueId":0,"topic":"orders"}'
        self.running = ConsumerRunningInfo(
            properties={"pullThresholdForQueue": "1000", "x": "y"}, mq_table={key: held}, jstack="main"
        )

    async def group_topics(self, group: str) -> list[str]:
        return sorted({queue.topic for queue in self.committed[group]})

    async def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        return {queue: one.consumer_offset for queue, one in self.committed[group].items() if queue.topic == topic}

    async def running_info(self, group: str, client_id: str, *, stack: bool = False) -> ConsumerRunningInfo | None:
        return self.running if client_id == "c@1" else None

    async def all_progress(self, *, cluster: str | None = None) -> Any:
        return {group: dict(queues) for group, queues in self.committed.items()}

    async def consume_times(self, group: str, topic: str) -> dict[MessageQueue, ConsumeTimes]:
        return {}

    async def counter(self, name: str, key: str, *, cluster: str | None = None) -> dict[str, CounterValues]:
        window = CounterWindow(sum=10 if name.endswith("NUMS") else 1000, tps=2.0)
        return {"broker-a": CounterValues(stats_minute=window, stats_hour=window, stats_day=window)}

    async def timers(self, *, cluster: str | None = None) -> dict[str, dict[str, int]]:
        return {"orders": {"broker-a": 4}}

    async def held(self, topic: str = "", group: str = "", *, cluster: str | None = None) -> Any:
        one = HeldRequest(kind="pull", topic="orders", queue_id=0, consumer_group="billing", client_addr="h:1",
                          since=NOW - 5_000, until=NOW + 5_000, offset=3)  # fmt: skip
        return {"broker-a": HeldRequests(held=[one], total=1)}

    async def producers(self, *, cluster: str | None = None) -> dict[str, list[ProducerInfo]]:
        return {"shop": [ProducerInfo(client_id="p@1", last_update_timestamp=NOW)]}


class MemoryConnection(Connection):
    """Connects to nothing: asks a cluster in memory, and keeps what is sent."""

    def __init__(self, cluster: Cluster, accepted: bool = True) -> None:
        super().__init__("h:1")
        self.cluster = cluster
        self.accepted = accepted
        self.sent: list[Message] = []

    def admin(self) -> Cluster:
        return self.cluster

    def admin_of(self, namesrv: str) -> Cluster:
        return self.cluster

    @asynccontextmanager
    async def producer(self) -> Any:
        async def send(one: Message) -> Any:
            self.sent.append(one)
            return SimpleNamespace(msg_id="new", offset_msg_id="o", queue=QUEUE, queue_offset=9)

        yield SimpleNamespace(send=send)

    async def invoke(self, address: str, code: int, body: bytes) -> None:
        if not self.accepted:
            raise PermissionDenied(16, "refused", address)


def browse(
    work: Callable[[httpx.AsyncClient, Console], Awaitable[None]], *, read_only: bool = False, sessions: Any = None,
    cluster: Cluster | None = None, masks: Masks | None = None,
) -> None:  # fmt: skip
    """Run a test with a browser of the application over a cluster in memory."""

    async def run() -> None:
        connection = MemoryConnection(cluster or Cluster())
        console = Console(connection, read_only=read_only, masks=masks or Masks(), now=lambda: NOW)
        transport = httpx.ASGITransport(create_app(console, (), sessions))
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
                await work(browser, console)
        finally:
            await console.close()

    asyncio.run(run())
