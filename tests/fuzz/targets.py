"""The servers under test and what is stored in them by well-formed requests while they are fuzzed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rocketmq_py.broker.broker import Broker
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.ha import master as ha_master
from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.namesrv.nameserver import NameServer
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.namesrv import RegisterBroker
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessage
from rocketmq_py.protocol.headers.topic import CreateTopic
from rocketmq_py.proxy import Proxy, ProxyConfig
from rocketmq_py.server.connection import ServerConnection
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.record import decode_records
from tests.fuzz.frames import make_case, make_report
from tests.fuzz.grpc_cases import make_grpc_case
from tests.fuzz.links import (
    GrpcLink,
    GrpcMemoryLink,
    Link,
    MemoryLink,
    ProxiedLink,
    SlaveLink,
    SlaveMemoryLink,
    connect_by_socket,
    connect_in_memory,
)
from tests.fuzz.proxy_cases import make_proxy_case

SMALL = {"mapped_file_size_commit_log": 16 << 20, "max_hash_slot_num": 10_000, "max_index_num": 40_000}
KEPT = "kept"
"""The topic of well-formed requests; no mutated request names it."""
FIRST_OPAQUE = 1 << 30
"""Numbers of well-formed requests begin here, above those of mutated ones."""
PATIENCE = 60.0


class Target(Protocol):
    """A server under test."""

    name: str
    codes: Sequence[Code]

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """Stop in order: what is on hold is answered."""

    def connect(self) -> Link:
        """Connect a client of remoting."""
        ...

    async def connect_by_socket(self) -> Link:
        """The same by a socket."""
        ...

    def connect_client(self) -> Link:
        """Connect a client that sends the frames of the run: one of remoting, unless the target has others."""
        return self.connect()

    async def connect_client_by_socket(self) -> Link:
        """The same by a socket."""
        return await self.connect_by_socket()

    def data(self, seed: int, number: int) -> Any:
        """What a link of the target sends as the frame of a number."""
        ...

    async def store_probe(self) -> None:
        """Make one well-formed request whose effect must last."""

    async def check(self) -> int:
        """Assert that all that was kept is there; return how much that is."""


class Requester:
    """Well-formed requests on a link of their own."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._opaques = itertools.count(FIRST_OPAQUE)

    async def ask(self, command: Command) -> Command:
        command.opaque = next(self._opaques)
        answer = self._link.watch(command.opaque)
        self._link.send(encode_command(command))
        async with asyncio.timeout(PATIENCE):
            return await answer


class BrokerTarget(Target):
    """A broker with a store; its periodic jobs run."""

    name = "broker"
    settings: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ports = itertools.count(20_000)
        self._kept: list[bytes] = []

    async def start(self) -> None:
        self.broker = Broker(
            BrokerConfig(store_path_root_dir=str(self._root), bind_address="127.0.0.1", broker_ip1="127.0.0.1",
                         broker_name="broker-0", listen_port=0, ha_listen_port=0, **self.settings),
            StoreConfig(**SMALL),
        )  # fmt: skip
        await self.broker.start()
        self.server = self.broker._server
        assert self.server is not None
        self.codes = tuple(sorted(map(Code, self.server.dispatcher._all_routes)))
        self._asking = Requester(self.connect())

    async def stop(self) -> None:
        await self.broker.stop()

    def connect(self) -> Link:
        assert self.server is not None
        return connect_in_memory(ServerConnection(self.server), MemoryLink(), next(self._ports) % 65_536)

    async def connect_by_socket(self) -> Link:
        return await connect_by_socket(Link(), self.broker.port)

    def data(self, seed: int, number: int) -> Any:
        return make_case(seed, number, self.codes).data

    async def store_probe(self) -> None:
        if not self._kept:
            created = CreateTopic(topic=KEPT, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
                                  topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False)  # fmt: skip
            assert (await self._asking.ask(Command(Code.UPDATE_AND_CREATE_TOPIC, ext=created.to_ext()))).code == 0
        body = b"kept %d" % len(self._kept)
        header = SendMessage(producer_group="p", topic=KEPT, default_topic="TBW102", default_topic_queue_nums=1,
                             queue_id=0, sys_flag=0, born_timestamp=1, flag=0, properties="")  # fmt: skip
        answer = await self._asking.ask(Command(Code.SEND_MESSAGE, ext=header.to_ext(), body=body))
        assert answer.code == 0, f"a well-formed send was answered with {answer.code}: {answer.remark}"
        self._kept.append(body)

    async def check(self) -> int:
        found: list[bytes] = []
        while len(found) < len(self._kept):
            header = PullMessage(consumer_group="reader", topic=KEPT, queue_id=0, queue_offset=len(found),
                                 max_msg_nums=32, sys_flag=4, commit_offset=0, suspend_timeout_millis=0,
                                 subscription="*", sub_version=0, expression_type="TAG")  # fmt: skip
            answer = await self._asking.ask(Command(Code.PULL_MESSAGE, ext=header.to_ext()))
            assert answer.code == 0, f"reading message {len(found)} was answered with {answer.code}: {answer.remark}"
            found += [message.body for message in decode_records(answer.body)]
        assert found == self._kept
        return len(found)


class HaTarget(BrokerTarget):
    """The HA port of a master. Nothing is answered there: connections stay or are closed."""

    name = "ha"

    async def start(self) -> None:
        await super().start()
        self._master = self.broker.services.replication.master

    def connect_client(self) -> Link:
        return connect_in_memory(ha_master.SlaveLink(self._master), SlaveMemoryLink(), next(self._ports) % 65_536)

    async def connect_client_by_socket(self) -> Link:
        assert self._master._server is not None
        return await connect_by_socket(SlaveLink(), int(self._master._server.sockets[0].getsockname()[1]))

    def data(self, seed: int, number: int) -> bytes:
        return make_report(seed, number, self.broker.services.store.max_physical_offset)


class GrpcTarget(BrokerTarget):
    """A broker whose clients speak gRPC; what must last comes by remoting."""

    name = "grpc"

    def connect_client(self) -> Link:
        assert self.server is not None
        return connect_in_memory(ServerConnection(self.server), GrpcMemoryLink(), next(self._ports) % 65_536)

    async def connect_client_by_socket(self) -> Link:
        return await connect_by_socket(GrpcLink(), self.broker.port)

    def data(self, seed: int, number: int) -> Any:
        return make_grpc_case(seed, number)


class FrontTarget(BrokerTarget):
    """``rocketmq proxy`` in front of a name server and a broker, which it reaches by sockets of this process."""

    name = "grpc-front"

    async def start(self) -> None:
        config = NamesrvConfig(
            bind_address="127.0.0.1", listen_port=0, kv_config_path=str(self._root / "namesrv" / "kvConfig.json")
        )
        self._namesrv = NameServer(config)
        await self._namesrv.start()
        namesrv = f"127.0.0.1:{self._namesrv.port}"
        self.settings = {"namesrv_addr": namesrv}
        await super().start()
        self._proxy = Proxy(ProxyConfig(namesrv, port=0))
        await self._proxy.start()

    async def stop(self) -> None:
        await self._proxy.stop()
        await super().stop()
        await self._namesrv.stop()

    def connect_client(self) -> Link:
        return connect_in_memory(ServerConnection(self._proxy._server), GrpcMemoryLink(), next(self._ports) % 65_536)

    async def connect_client_by_socket(self) -> Link:
        return await connect_by_socket(GrpcLink(), self._proxy.port)

    def data(self, seed: int, number: int) -> Any:
        return make_grpc_case(seed, number)


class ProxiedTarget(BrokerTarget):
    """A broker behind a balancer that writes PROXY headers, which are read from sockets."""

    name = "proxied"
    settings: dict[str, Any] = {"proxy_protocol_sources": "127.0.0.1"}  # noqa: RUF012 - never changed

    async def connect_client_by_socket(self) -> Link:
        return await connect_by_socket(ProxiedLink(), self.broker.port)

    def data(self, seed: int, number: int) -> Any:
        return make_proxy_case(seed, number, super().data(seed, number))


class NamesrvTarget(Target):
    """A name server with one broker that keeps itself registered."""

    name = "namesrv"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ports = itertools.count(20_000)
        self._is_registered = False

    async def start(self) -> None:
        config = NamesrvConfig(
            bind_address="127.0.0.1", listen_port=0, kv_config_path=str(self._root / "kvConfig.json")
        )
        self._root.mkdir(parents=True, exist_ok=True)
        self._server = NameServer(config)
        await self._server.start()
        self.codes = tuple(sorted(Code(route.code) for route in self._server.routes))
        self._asking = Requester(self.connect())
        self._is_registered = False

    async def stop(self) -> None:
        await self._server.stop()

    def connect(self) -> Link:
        return connect_in_memory(ServerConnection(self._server._server), MemoryLink(), next(self._ports) % 65_536)

    async def connect_by_socket(self) -> Link:
        return await connect_by_socket(Link(), self._server.port)

    def data(self, seed: int, number: int) -> bytes:
        return make_case(seed, number, self.codes).data

    async def store_probe(self) -> None:
        header = RegisterBroker(broker_name="kept-broker", broker_addr="127.0.0.1:5", cluster_name="kept-cluster",
                                ha_server_addr="127.0.0.1:6", broker_id=0)  # fmt: skip
        topics = (KEPT, f"{KEPT}-too")  # the first registration of a broker is refused with one topic alone
        table = TopicConfigTable(topic_config_table={topic: TopicConfig(topic_name=topic) for topic in topics})
        body = RegisterBrokerBody(topic_config_serialize_wrapper=table, filter_server_list=[]).encode()
        answer = await self._asking.ask(Command(Code.REGISTER_BROKER, ext=header.to_ext(), body=body, version=433))
        assert answer.code == 0, f"a well-formed registration was answered with {answer.code}: {answer.remark}"
        self._is_registered = True

    async def check(self) -> int:
        if not self._is_registered:
            return 0
        answer = await self._asking.ask(Command(Code.GET_ROUTEINFO_BY_TOPIC, ext={"topic": KEPT}, version=500))
        assert answer.code == 0, f"the route of {KEPT} was answered with {answer.code}: {answer.remark}"
        assert b"kept-broker" in answer.body
        return 1


TARGETS = {
    "broker": BrokerTarget, "namesrv": NamesrvTarget, "ha": HaTarget, "grpc": GrpcTarget, "grpc-front": FrontTarget,
    "proxied": ProxiedTarget,
}  # fmt: skip
