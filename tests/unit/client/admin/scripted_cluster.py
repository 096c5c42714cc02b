"""A cluster without sockets for the administration: masters a and b and slaves in cluster c1, a master in cluster c2.

``answers`` says what each address answers to a request code; every other request is answered with success.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from rocketmq_py.aio import Admin, ClientInstance
from rocketmq_py.model import RecordHead
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import encode_record
from tests.unit.client.scripted import ScriptedNetwork

BROKERS = {"a": ("c1", {0: "a:1", 1: "a:2"}), "b": ("c1", {0: "b:1"}), "s": ("c1", {1: "s:2"}), "z": ("c2", {0: "z:1"})}
"""Cluster and addresses by broker id of each broker name."""
MASTERS = ["a:1", "b:1", "z:1"]
REACHED = {"a": "a:1", "b": "b:1", "s": "s:2", "z": "z:1"}
"""The address of each broker that a question goes to."""

Answer = Callable[[str, Command], Command | None]


class ScriptedCluster:
    def __init__(self, topics: dict[str, dict[str, int]] | None = None) -> None:
        self.topics = {"t": {"a": 2, "s": 1}} if topics is None else topics
        self.brokers = dict(BROKERS)
        self.answers: dict[int, Answer] = {}
        self.network = ScriptedNetwork(self._answer)

    def _answer(self, address: str, request: Command) -> Command | None:
        if request.code in self.answers:
            return self.answers[request.code](address, request)
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return body(self._info())
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            queues = self.topics.get(request.ext["topic"])
            return refused(ResponseCode.TOPIC_NOT_EXIST) if queues is None else body(self._route(queues))
        return Command(0)

    def _data(self, name: str) -> BrokerData:
        cluster, addresses = self.brokers[name]
        return BrokerData(cluster=cluster, broker_name=name, broker_addrs=addresses)

    def _info(self) -> ClusterInfo:
        clusters: dict[str, list[str]] = {}
        for name, (cluster, _) in self.brokers.items():
            clusters.setdefault(cluster, []).append(name)
        clusters["c1"].append("gone")
        return ClusterInfo(
            broker_addr_table={name: self._data(name) for name in self.brokers}, cluster_addr_table=clusters
        )

    def _route(self, queues: dict[str, int]) -> TopicRouteData:
        return TopicRouteData(
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=number, write_queue_nums=number, perm=6)
                for name, number in queues.items()
            ],
            broker_datas=[self._data(name) for name in queues],
        )

    def asked(self, code: RequestCode) -> list[str]:
        """The addresses that a request came to, in order."""
        return [address for address, request in self.network.requests if request.code == code]

    def fields(self, code: RequestCode) -> list[dict[str, str]]:
        """The header fields of the requests that came."""
        return [request.ext for _, request in self.network.requests if request.code == code]

    def bodies(self, code: RequestCode) -> list[bytes]:
        return [request.body for _, request in self.network.requests if request.code == code]


def with_admin(
    topics: dict[str, dict[str, int]] | None = None, **options: Any
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Decorates a test whose first arguments are an Admin and its :class:`ScriptedCluster`."""

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        async def main(*given: Any, **named: Any) -> None:
            cluster = ScriptedCluster(topics)
            instance = ClientInstance("ns:1", timeout=1.0)
            cluster.network.carry(instance.connections)
            async with Admin(instance=instance, **options) as admin:
                await test(admin, cluster, *given, **named)
            await instance.stop()

        @functools.wraps(test)
        def wrapped(*given: Any, **named: Any) -> None:
            asyncio.run(main(*given, **named))

        left = list(inspect.signature(test).parameters.values())[2:]
        wrapped.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return wrapped

    return decorate


def body(of: Any) -> Command:
    return Command(0, body=of if isinstance(of, bytes) else of.encode())


def refused(code: int) -> Command:
    return Command(code, remark="no")


def record(
    offset: int, *, topic: str = "t", queue_id: int = 0, stored_at: int = 0, at: int = 0, properties: bytes = b"",
    content: bytes = b"x",
) -> bytes:  # fmt: skip
    """A stored message; ``at`` is its commit log offset."""
    host = bytes(8)
    head = RecordHead(0, 0, 0, queue_id, 0, offset, at, 0, 1, host, stored_at, host, 0, 0, len(content))
    return encode_record(head, topic, content, properties)
