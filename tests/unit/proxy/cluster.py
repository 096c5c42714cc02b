"""A cluster without sockets for a proxy: two masters of this project, and a name server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.proxy import Proxy, ProxyConfig
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.protobuf import ProtoMessage
from tests.unit.broker.harness import START_MS, InProcess, broker
from tests.unit.grpc.calls import Calls, Running

M = TypeVar("M", bound=ProtoMessage)

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
NAMES = {A: "a", B: "b"}
PushHandler = Callable[[str, Command], None]


class FakeCluster:
    """Stands for a client instance.

    :ivar away: addresses that do not answer, and ``ns``.
    :ivar answers: by code, what is answered instead of a broker.
    :ivar asked: address, code, header and body of each request to a broker.
    """

    def __init__(self, brokers: dict[str, InProcess]) -> None:
        self.brokers = brokers
        self.now = START_MS
        self.ends = 0
        self._clients = {address: one.connect() for address, one in brokers.items()}
        self.away: set[str] = set()
        self.answers: dict[int, Command | Exception | Callable[[str], Awaitable[Command | None]]] = {}
        self.asked: list[tuple[str, int, Header | None, bytes]] = []
        self.routes_asked: list[str] = []
        self.masters = dict.fromkeys(brokers, 0)
        self.client_id = "10.0.0.9@proxy"
        self.connections = self.routes = self
        self.name_servers = _NameServers(self)
        self.handlers: dict[int, PushHandler] = {}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.ends += 1

    def on_request(self, code: int, handler: PushHandler) -> None:
        self.handlers[code] = handler

    async def invoke(
        self, address: str, code: int, header: Header | None, body: bytes, timeout: float, *, check: bool = True
    ) -> Command:
        assert timeout > 0
        self.asked.append((address, code, header, body))
        await asyncio.sleep(0)
        if address in self.away:
            raise NetworkError(f"cannot connect to {address}")
        answer = self.answers.get(code)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = await answer(address)
        answer = answer or self._clients[address].ask(code, header, body)
        if check and answer.code:
            raise BrokerError.of(answer.code, answer.remark, address)
        return answer

    async def fetch(self, topic: str) -> TopicRouteData:
        self.routes_asked.append(topic)
        await asyncio.sleep(0)
        if "ns" in self.away:
            raise NetworkError("no name server answers")
        found = {address: one.services.topics.get(topic) for address, one in self.brokers.items()}
        configs = {address: config for address, config in found.items() if config is not None}
        if not configs:
            raise NoRouteError(topic)
        queues = [
            QueueData(broker_name=NAMES[address], read_queue_nums=config.read_queue_nums,
                      write_queue_nums=config.write_queue_nums, perm=config.perm)
            for address, config in reversed(configs.items())
        ]  # fmt: skip
        return TopicRouteData(queue_datas=queues, broker_datas=self._datas(configs))

    def _datas(self, addresses: Any) -> list[BrokerData]:
        return [
            BrokerData(cluster="c", broker_name=NAMES[address], broker_addrs={self.masters[address]: address})
            for address in addresses
        ]

    def sent(self, code: int) -> list[tuple[str, Any]]:
        """Broker and header of the requests of a code."""
        return [(NAMES[address], header) for address, asked, header, _ in self.asked if asked == code]

    def beats(self) -> list[str]:
        """Addresses of the brokers that got heartbeats."""
        return [address for address, code, _, _ in self.asked if code == RequestCode.HEART_BEAT]


class _NameServers:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    async def invoke(self, code: int) -> Command:
        del code
        if "ns" in self._cluster.away:
            raise NetworkError("no name server answers")
        table = {data.broker_name: data for data in self._cluster._datas(self._cluster.brokers)}
        return Command(0, body=ClusterInfo(broker_addr_table=table).encode())


class ProxyCalls(Calls):
    """The methods of a proxy, for one client."""

    def __init__(self, cluster: FakeCluster, client_id: str = "client", **config: Any) -> None:
        self.cluster = cluster
        self.proxy = Proxy(
            ProxyConfig("ns:9876", **config), clock=lambda: cluster.now, instance=cast("ClientInstance", cluster)
        )
        self.facts = self.proxy.facts
        self._for(client_id)

    def _for(self, client_id: str) -> None:
        self.service = self.proxy.service
        self.client_id = client_id
        self.metadata: dict[str, str] = {}
        self._ports = 60_000

    def another(self, client_id: str) -> ProxyCalls:
        """The same proxy for another client."""
        other = object.__new__(ProxyCalls)
        other.cluster, other.proxy, other.facts = self.cluster, self.proxy, self.facts
        other._for(client_id)
        return other

    async def ask(self, method: str, request: ProtoMessage, kind: type[M]) -> M:
        [found] = await self.ask_many(method, request, kind)
        return found

    async def ask_many(self, method: str, request: ProtoMessage, kind: type[M]) -> list[M]:
        running = self.start(method, request)
        await settled(lambda: running.carrier.end is not None)
        return running.received(kind)

    async def open(self, stream: Running, kind: type[M]) -> M:
        await settled(lambda: bool(stream.carrier.messages))
        [found] = stream.received(kind)
        return found


async def settled(done: Callable[[], bool]) -> None:
    """Let the event loop run until something is the case, which takes a few turns."""
    for _ in range(200):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come")


TOPICS = {"t": ("NORMAL", 2), "fifo": ("FIFO", 2), "delay": ("DELAY", 1), "tx": ("TRANSACTION", 1)}


@contextmanager
def two_masters(root: Path) -> Iterator[FakeCluster]:
    """Masters ``a`` and ``b`` with the same topics; ``only-a`` is at one of them."""
    with ExitStack() as stack:
        brokers = {
            address: stack.enter_context(
                broker(root / name, broker_name=name, recall_message_enable=True, transaction_check_interval=1_000)
            )
            for address, name in NAMES.items()
        }
        for one in brokers.values():
            one.services.topics.put([
                TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues,
                            attributes={"message.type": kind})
                for name, (kind, queues) in TOPICS.items()
            ])  # fmt: skip
        brokers[A].services.topics.put([TopicConfig(topic_name="only-a", read_queue_nums=1, write_queue_nums=3)])
        yield FakeCluster(brokers)
