"""The broker as a whole, on a network in memory: what it listens on, what it starts and stops, and in which order."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from rocketmq_py.broker import broker as module
from rocketmq_py.broker.broker import Broker, wall_clock
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metrics.monitor import Monitor
from rocketmq_py.core.access.permissions import User
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder
from tests.unit.broker.harness import SMALL
from tests.unit.broker.network import Network, until
from tests.unit.broker.requests import pull, send
from tests.unit.broker.rpc import Others, reply
from tests.unit.broker.workers import WithoutThreads

REGISTER, UNREGISTER = 103, 104
SEND_V2, PULL, HEARTBEAT, LIST_USERS = 310, 11, 34, 3005


class Connection(asyncio.Protocol):
    """A client's connection: the answers it got."""

    def __init__(self) -> None:
        self._frames = FrameDecoder()
        self.answers: list[Command] = []
        self.transport: Any = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.answers += map(decode_command, self._frames.feed(data))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_lost = True

    def write(self, code: int, header: Header | None = None, body: bytes = b"", version: int = 0) -> None:
        ext = header.to_ext() if header else {}
        self.transport.write(encode_command(Command(code, 1, ext=ext, body=body, version=version)))

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"", version: int = 0) -> Command:
        count = len(self.answers)
        self.write(code, header, body, version)
        await until(lambda: len(self.answers) > count)
        return self.answers[-1]


class House:
    """A broker on a network in memory, the requests it sends, and the answers to them."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, access: AuthDispatcher | None = None,
        store: dict[str, Any] | None = None, **config: Any,
    ) -> None:  # fmt: skip
        self._network: Network | None = None
        self.turns = 0
        self.asked: list[tuple[str, int]] = []
        self.clients: list[Others] = []
        self.answer: Callable[[str, Command], Reply | Exception] = lambda *_: reply()

        def connect(_tls: object, _credentials: object, *, on_lost: Callable[[str], None] = lambda _: None) -> Others:
            self.clients.append(Others(self._answer, on_lost))
            self.clients[-1].turns = self.turns
            return self.clients[-1]

        monkeypatch.setattr(module, "RpcClient", connect)
        wanted = {"store_path_root_dir": str(root), "bind_address": "127.0.0.1", "namesrv_addr": "ns:1"}
        self._broker = Broker(
            BrokerConfig(**wanted | config), StoreConfig(**SMALL | (store or {})), access=access,
            workers=WithoutThreads(),
        )  # fmt: skip

    @property
    def network(self) -> Network:
        """That of the running loop."""
        if self._network is None:
            self._network = Network()
        return self._network

    @property
    def broker(self) -> Broker:
        assert self.network
        return self._broker

    def _answer(self, address: str, command: Command) -> Reply | Exception:
        self.asked.append((address, command.code))
        return self.answer(address, command)

    async def connect(self, port: int = 10911) -> Connection:
        return (await self.network._create_connection(Connection, "127.0.0.1", port))[1]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Broker]:
        await self.broker.start()
        try:
            yield self.broker
        finally:
            await self.broker.stop()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    return House(tmp_path, monkeypatch)


def left_running() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


# -- start


async def test_a_started_broker_listens_registers_and_serves(house: House, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with house.serving() as broker:
            assert sorted(house.network.listening) == [10909, 10911, 10912]
            assert house.asked == [("ns:1", REGISTER)]
            assert broker.address == "127.0.0.1:10911"
            for port in (10911, 10909):
                client = await house.connect(port)
                assert (await client.ask(SEND_V2, send(), b"body")).code == 0
            assert broker.services.store.queue_range("t", 0) == (0, 2)
    said = [record.message for record in caplog.records if record.name.endswith("broker.broker")]
    assert said == [
        "broker broker-a (DefaultCluster) serves at 127.0.0.1:10911", "broker broker-a has stopped",
    ]  # fmt: skip


async def test_the_monitor_hears_that_the_broker_serves_once_it_does(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[Monitor, bool]] = []

    class Hearing(Monitor):
        def started(self) -> None:
            super().started()
            heard.append((self, 10911 in house.network.listening and ("ns:1", REGISTER) in house.asked))

    monkeypatch.setattr(module, "Monitor", Hearing)
    async with house.serving() as broker:
        assert [served for one, served in heard if one is broker._monitor] == [True]


async def test_a_broker_that_does_not_run_has_no_services(house: House) -> None:
    for _ in range(2):
        with pytest.raises(ClosedError, match="broker broker-a is not running: start it first"):
            _ = house.broker.services
        async with house.serving() as broker:
            assert broker.services.store.is_writable


async def test_stopping_twice_or_before_a_start_does_nothing(house: House) -> None:
    await house.broker.stop()
    async with house.serving():
        pass
    await house.broker.stop()
    assert house.asked == [("ns:1", REGISTER), ("ns:1", UNREGISTER)]


async def test_a_stopped_broker_starts_again_with_its_messages(house: House) -> None:
    async with house.serving():
        await (await house.connect()).ask(SEND_V2, send(), b"body")
    async with house.serving():
        found = await (await house.connect()).ask(PULL, pull())
        assert (found.code, found.ext["maxOffset"]) == (0, "1")


async def test_port_zero_is_a_free_port_that_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch, listen_port=0)
    async with house.serving() as broker:
        port = broker.port
        assert port > 1023
        assert {port, port - 2} <= house.network.listening.keys()
    async with house.serving() as broker:
        assert broker.port == port


@pytest.mark.parametrize(
    ("ip", "address"), [("10.0.0.5", "10.0.0.5:10911"), ("::1", "[::1]:10911"), ("host", "host:10911")]
)
def test_the_address_is_the_one_for_clients(ip: str, address: str) -> None:
    assert Broker(BrokerConfig(broker_ip1=ip)).address == address


@pytest.mark.parametrize("port", [10909, 10911])
async def test_a_port_that_is_taken_ends_the_start_and_frees_the_others(house: House, port: int) -> None:
    house.network.taken.add(port)
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}") as caught:
        await house.broker.start()
    assert str(caught.value).startswith("the fast port, two below the broker's port") == (port == 10909)
    assert house.network.listening == {}
    assert house.asked == []
    assert left_running() == set()
    house.network.taken.clear()
    async with house.serving():
        pass


async def test_a_picked_port_needs_no_fast_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path, monkeypatch, listen_port=0)
    monkeypatch.setattr(module, "_free_port", lambda host: 20911 if host == "127.0.0.1" else 0)
    house.network.taken.add(20909)
    with caplog.at_level(logging.INFO):
        async with house.serving():
            assert sorted(house.network.listening) == [20911, 20912]
    assert "no fast port: cannot listen on 127.0.0.1:20909" in caplog.text


async def test_an_ha_port_that_is_taken_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch, ha_listen_port=30912)
    house.network.taken.add(30912)
    with pytest.raises(ConfigError, match="haListenPort"):
        await house.broker.start()
    assert house.network.listening == {}
    house.network.taken.clear()
    async with house.serving():
        assert 30912 in house.network.listening


async def test_a_start_that_is_cancelled_while_it_registers_stops_everything(house: House) -> None:
    house.turns = 1_000_000
    start = asyncio.create_task(house.broker.start())
    await until(lambda: house.clients and house.clients[0].asked)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert house.network.listening == {}
    assert left_running() == set()
    with pytest.raises(ClosedError):
        _ = house.broker.services
    house.turns = 0
    async with house.serving():
        pass


async def test_settings_without_effect_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path, monkeypatch, ignored={"rocksdbCompressionType": "lz4"})
    async with house.serving():
        pass
    said = "settings of Apache RocketMQ that have no effect here: rocksdbCompressionType=lz4"
    assert [record.message for record in caplog.records] == [said]


async def test_a_name_of_a_host_is_resolved_for_stored_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To an IPv4 address if there is one; clients get the name."""
    house = House(tmp_path, monkeypatch, broker_ip1="broker.example")
    loop: Any = asyncio.get_running_loop()
    assert house.network

    async def found(host: str, port: object, **_: object) -> list[Any]:
        assert (host, port) == ("broker.example", None)
        return [(socket.AF_INET6, 1, 6, "", ("::5", 0, 0, 0)), (socket.AF_INET, 1, 6, "", ("10.0.0.5", 0))]

    loop.getaddrinfo = found
    async with house.serving() as broker:
        sent = await (await house.connect()).ask(SEND_V2, send(), b"body")
        assert sent.ext["msgId"].startswith(f"0A000005{10911:08X}")
        assert broker.address == broker.services.address == "broker.example:10911"


async def test_a_name_that_cannot_be_resolved_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch, broker_ip1="nowhere.example")
    loop: Any = asyncio.get_running_loop()
    assert house.network

    async def found(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    loop.getaddrinfo = found
    expected = "brokerIP1 is 'nowhere.example', which cannot be resolved: Name or service not known"
    with pytest.raises(ConfigError, match=expected):
        await house.broker.start()
    assert house.network.listening == {}


# -- access control


def guarded() -> AuthDispatcher:
    access = AuthDispatcher(
        AccessSettings(authentication_enabled=True, authorization_enabled=True), lambda: None, lambda _: None, "c"
    )
    access.table.create_user(User(name="root", password="secret", is_super=True))
    return access


async def test_unsigned_requests_are_refused_if_access_control_is_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, monkeypatch, access=guarded())
    async with house.serving() as broker:
        client = await house.connect()
        for code, header in ((SEND_V2, send()), (LIST_USERS, None)):
            answer = await client.ask(code, header)
            assert answer.code == 16
            assert "the request is not signed" in (answer.remark or "")
        answer = await client.ask(HEARTBEAT, body=b" " * (1 << 20) + b"{}")
        assert answer.code == 29
        assert "at most 1048576 are possible" in (answer.remark or "")
        assert broker.services.store.max_physical_offset == 0


async def test_without_access_control_the_users_are_those_of_the_store(house: House) -> None:
    async with house.serving():
        client = await house.connect()
        answer = await client.ask(LIST_USERS)
        assert (answer.code, answer.body) == (0, b"")
        assert (await client.ask(SEND_V2, send(), b"body")).code == 0


# -- periodic jobs


def test_the_jobs_and_their_intervals(tmp_path: Path) -> None:
    config = BrokerConfig(
        store_path_root_dir=str(tmp_path), flush_consumer_offset_interval=5_001, flush_delay_offset_interval=10_001
    )
    broker = Broker(config, StoreConfig(clean_resource_interval=10_002))
    seen: list[str] = []

    class Recorder:
        def __init__(self, name: str = "") -> None:
            self._name = name

        def __getattr__(self, name: str) -> Recorder:
            return Recorder(f"{self._name}.{name}".lstrip("."))

        def __call__(self) -> None:
            seen.append(self._name)

    jobs = broker._jobs(Recorder())  # type: ignore[arg-type]
    for job in jobs:
        job.run()
    assert list(zip(seen, [job.interval_ms for job in jobs], [job.first_ms for job in jobs], strict=True)) == [
        ("tick_store", 100, None), ("tick_delays", 100, None), ("tick_clients", 100, None),
        ("replication.tick", 100, None), ("tick_timers", 20, None), ("sweep", 5_000, None),
        ("clients.expire", 10_000, None), ("offsets.persist", 5_001, None), ("persist_pops", 5_001, None),
        ("delay.persist", 10_001, None), ("persist_filters", 10_000, None), ("catch_up", 1_000, None),
        ("clean_store", 10_002, 60_000), ("clean_mappings", 300_000, None),
        ("scrubber.tick", 1_000, None),
        ("rebuilder.tick", 1_000, None),
    ]  # fmt: skip


async def test_changed_limits_are_in_force_at_the_next_tick(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, int]] = []
    limit = module.Server.limit

    def noted(server: Any, lanes: Any, writing_limit_ms: int) -> None:
        limits.append((lanes["send"].in_flight, writing_limit_ms))
        limit(server, lanes, writing_limit_ms)

    monkeypatch.setattr(module.Server, "limit", noted)
    async with house.serving() as broker:
        assert limits, "before the first request"
        assert set(limits) == {(10_000, 1_000)}
        broker.config.send_thread_pool_queue_capacity = 7
        broker.config.os_page_cache_busy_time_out_mills = 8
        before = len(limits)
        await until(lambda: len(limits) > before)
        assert limits[before] == (7, 8)
    ended = len(limits)
    await asyncio.sleep(3)
    assert len(limits) == ended


async def test_jobs_run_while_the_broker_serves(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[int] = []
    monkeypatch.setattr(module.Services, "tick_clients", lambda _: ticks.append(1))
    loop = asyncio.get_running_loop()
    async with house.serving():
        begin = loop.time()
        await until(lambda: len(ticks) >= 8)
        assert len(ticks) <= (loop.time() - begin) / 0.1 + 1
    count = len(ticks)
    await asyncio.sleep(1)
    assert len(ticks) == count


# -- stop


async def test_a_stop_answers_requests_on_hold_and_frees_the_ports(house: House) -> None:
    await house.broker.start()
    client = await house.connect()
    await client.ask(SEND_V2, send(), b"body")
    client.write(PULL, pull(offset=1, sys_flag=2 | 4))
    await until(lambda: len(house.broker.services.pull_request_hold) == 1)
    await house.broker.stop()
    await until(lambda: len(client.answers) == 2 and client.is_lost)
    assert client.answers[-1].code == 19
    assert house.network.listening == {}
    assert house.asked[-1] == ("ns:1", UNREGISTER)
    assert all(other.is_closed for other in house.clients)
    assert left_running() == set()


async def test_the_parts_are_stopped_in_order(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing new is begun before requests on hold are answered, and the store is closed last."""
    await house.broker.start()
    s = house.broker.services
    order: list[str] = []

    def note(owner: Any, method: str, name: str) -> None:
        before = getattr(owner, method)
        monkeypatch.setattr(owner, method, lambda *more: order.append(name) or before(*more))

    parts = {
        "slave sync": s.slave_sync, "members": s.membership, "remote pops": s.pop.remote_fetcher,
        "mappings": s.mapping_clean_up, "other masters": s.other_masters, "forwarder": s.forwarder,
        "acting": s.acting, "check": s.scrubber,
        "registration": s.registration, "listener": house.broker._server, "replication": s.replication,
    }  # fmt: skip
    note(house.broker._ticker, "stop", "jobs")
    for name, part in parts.items():
        note(part, "stop", name)
    note(s.pull_request_hold, "release", "pulls")
    note(s.pop, "release", "pops")
    note(s.replication, "hand_over", "hand over")
    note(s, "close", "store")
    note(house.broker._monitor, "stop", "monitor")
    await house.broker.stop()
    assert order == [
        "jobs", "slave sync", "members", "remote pops", "mappings", "other masters", "forwarder", "acting", "check",
        "registration",
        "pulls", "pops", "listener", "hand over", "replication", "monitor", "store",
    ]  # fmt: skip


async def test_the_store_is_closed_even_if_the_stop_fails(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.broker.start()
    services = house.broker.services

    async def fail() -> None:
        raise OSError("no")

    monkeypatch.setattr(services.membership, "stop", fail)
    with pytest.raises(OSError, match="no"):
        await house.broker.stop()
    assert not services.store.is_writable
    for part in (services.registration, services.replication, house.broker._server):
        await part.stop()  # type: ignore[union-attr]


async def test_slaves_get_three_seconds_to_copy_the_rest(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.broker.start()
    given: list[float] = []

    async def hand_over(seconds: float) -> None:
        given.append(seconds)

    monkeypatch.setattr(house.broker.services.replication, "hand_over", hand_over)
    await house.broker.stop()
    assert given == [3.0]


@pytest.mark.parametrize("version", [475, 476])
async def test_a_graceful_stop_sends_producers_away_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Consumers are served meanwhile, and producers that do not understand it, too."""
    house = House(tmp_path, monkeypatch, enable_shutdown_gracefully=True, shutdown_wait_time_seconds=20)
    await house.broker.start()
    client = await house.connect()
    given: list[float] = []

    async def hand_over(seconds: float) -> None:
        given.append(seconds)

    monkeypatch.setattr(house.broker.services.replication, "hand_over", hand_over)
    with caplog.at_level(logging.INFO):
        stop = asyncio.create_task(house.broker.stop())
        await until(lambda: len(house.asked) == 2)
        assert house.asked[-1] == ("ns:1", REGISTER), "without write permission"
        await asyncio.sleep(0.2)
        for code in (SEND_V2, 320):
            header = send(batch=True) if code == 320 else send()
            answer = await client.ask(code, header, b"body", version)
            assert answer.code != 1500 if version == 475 else answer.code == 1500
        assert (await client.ask(PULL, pull(), version=version)).code != 1500
        assert not stop.done()
        await stop
    assert "broker broker-a sends its producers to other brokers" in caplog.text
    [rest, last] = given
    assert 0 < rest < 19.9, "what is left of the time"
    assert last == 3.0


async def test_an_ordinary_stop_sends_nobody_away(house: House) -> None:
    async with house.serving():
        pass
    assert house.asked == [("ns:1", REGISTER), ("ns:1", UNREGISTER)]


# -- slaves


async def test_a_slave_copies_its_masters_tables_a_master_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role, broker_id, expected in (("SLAVE", 1, True), ("ASYNC_MASTER", 0, False)):
        house = House(tmp_path / role, monkeypatch, broker_role=role, broker_id=broker_id)
        async with house.serving() as broker:
            assert broker.services.slave_sync._work.runs is expected
            assert (broker.services.replication.slave is not None) is expected


async def test_members_send_heartbeats_if_slaves_may_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server whose answer is malformed does not end the start."""
    house = House(tmp_path, monkeypatch, enable_slave_acting_master=True)
    async with house.serving():
        await asyncio.sleep(1.2)
    assert ("ns:1", 904) in house.asked


async def test_a_master_takes_back_what_its_slave_did_before_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, monkeypatch)
    seen: list[list[int]] = []

    async def take_back(services: Any) -> None:
        assert services.store.is_writable
        seen.append(list(house.network.listening))

    monkeypatch.setattr(module.Services, "take_back", take_back)
    async with house.serving():
        assert seen == [[]]


def test_the_wall_clock_is_in_milliseconds() -> None:
    before = time.time() * 1000
    assert before - 1 <= wall_clock() <= time.time() * 1000


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_a_free_port_is_one_of_the_host(host: str, family: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[Any] = []

    class Probe:
        def __init__(self, chosen: int) -> None:
            bound.append(chosen)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            bound.append("closed")

        def bind(self, address: tuple[str, int]) -> None:
            bound.append(address)

        def getsockname(self) -> tuple[str, int]:
            return host, 4711

    monkeypatch.setattr(module.socket, "socket", Probe)
    assert module._free_port(host) == 4711
    assert bound == [family, (host, 0), "closed"]
