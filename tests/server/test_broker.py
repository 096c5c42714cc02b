"""A broker on real sockets: start and stop, name servers, and held requests."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker import Broker, BrokerConfig
from rocketmq_py.broker.broker import wall_clock
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ClosedError, ConfigError, ConnectError, ConnectionLost, RequestTimeout, StoreLocked
from rocketmq_py.namesrv import NameServer, NamesrvConfig
from rocketmq_py.protocol.bodies.route import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.namesrv import PutKvConfig
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.protocol.headers.topic import CreateTopic, GetRouteInfo
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.server.runner import started
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire.command import Command

SMALL = {"mapped_file_size_commit_log": 1 << 20, "max_hash_slot_num": 100, "max_index_num": 400}
PATIENT = {"sync_flush_timeout": 60_000, "os_page_cache_busy_time_out_mills": 60_000}
"""A disk that is slow refuses nothing, and has time."""
SECONDS = 240.0
"""Longer than anything here takes; only a test that fails waits for it."""


def make(
    root: Path, namesrv: str = "", store: dict[str, Any] | None = None, clock: Callable[[], int] = wall_clock,
    **config: Any,
) -> Broker:  # fmt: skip
    wanted = {"listen_port": 0, "bind_address": "127.0.0.1", "store_path_root_dir": str(root), **PATIENT}
    return Broker(BrokerConfig(namesrv_addr=namesrv, **wanted | config), StoreConfig(**SMALL | (store or {})), clock)


@asynccontextmanager
async def running(root: Path, *args: Any, **config: Any) -> AsyncIterator[tuple[Broker, RpcClient]]:
    """A started broker and connections to it."""
    broker, caller = make(root, *args, **config), RpcClient()
    await broker.start()
    try:
        yield broker, caller
    finally:
        caller.close()
        await broker.stop()


@asynccontextmanager
async def name_server(port: int = 0) -> AsyncIterator[NameServer]:
    server = NameServer(NamesrvConfig(listen_port=port, bind_address="127.0.0.1"))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def until(happened: Callable[[], object]) -> None:
    """Returns when something has happened that nobody is told of."""
    async with asyncio.timeout(SECONDS):
        while not happened():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


async def until_routed(caller: RpcClient, namesrv: str, topic: str) -> None:
    async with asyncio.timeout(SECONDS):
        while await route(caller, namesrv, topic) is None:  # noqa: ASYNC110 - as clients do
            await asyncio.sleep(0.01)


def send_command(topic: str = "t", wait: bool = True) -> Command:
    header = SendMessageV2(
        producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties=f"WAIT\x01{'true' if wait else 'false'}\x02",
    )  # fmt: skip
    return Command(Code.SEND_MESSAGE_V2, ext=header.to_ext(), body=b"body")


def pull_command(offset: int) -> Command:
    header = PullMessage(
        consumer_group="g", topic="t", queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=6, commit_offset=0,
        suspend_timeout_millis=60_000, sub_version=0, subscription="*",
    )  # fmt: skip
    return Command(Code.PULL_MESSAGE, ext=header.to_ext())


async def ask(caller: RpcClient, address: str, command: Command) -> Reply:
    return await caller.invoke(address, command, SECONDS)


async def route(caller: RpcClient, namesrv: str, topic: str) -> TopicRouteData | None:
    header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
    answer = await ask(caller, namesrv, Command(Code.GET_ROUTEINFO_BY_TOPIC, ext=header.to_ext()))
    return None if answer.code else TopicRouteData.decode(answer.body)


# -- life


def test_a_message_is_sent_and_pulled_also_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker, caller = make(tmp_path), RpcClient()
        for number in range(2):
            await broker.start()
            assert broker.address == f"127.0.0.1:{broker.port}"
            sent = await ask(caller, broker.address, send_command())
            assert (sent.code, sent.ext["queueOffset"]) == (0, str(number))
            pulled = await ask(caller, broker.address, pull_command(0))
            assert (pulled.code, pulled.ext["maxOffset"]) == (0, str(number + 1))
            await broker.stop()
            await broker.stop()
        caller.close()
        with pytest.raises(ClosedError, match="is not running"):
            _ = broker.services

    asyncio.run(scenario())
    assert not (tmp_path / "abort").exists()


async def test_a_port_in_use_is_named_and_the_store_is_released(tmp_path: Path) -> None:
    async with running(tmp_path / "one") as (first, _):
        second = make(tmp_path / "two", listen_port=first.port)
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{first.port}: another process"):
            await second.start()
        async with running(tmp_path / "two") as (third, caller):
            assert (await ask(caller, third.address, send_command())).code == 0


async def test_a_store_in_use_is_named_and_its_broker_keeps_running(tmp_path: Path) -> None:
    async with running(tmp_path) as (first, caller):
        with pytest.raises(StoreLocked, match=f"{tmp_path} is in use"):
            await make(tmp_path).start()
        assert (await ask(caller, first.address, send_command())).code == 0


async def test_a_stop_answers_held_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, caller):
        await ask(caller, broker.address, send_command())
        waiting = asyncio.create_task(ask(caller, broker.address, pull_command(1)))
        await until(lambda: len(broker.services.pull_request_hold))
        await broker.stop()
        assert (await waiting).code == 19


async def test_a_held_pull_is_answered_when_a_message_arrives(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, consumer):
        producer = RpcClient()
        await ask(producer, broker.address, send_command())
        waiting = asyncio.create_task(ask(consumer, broker.address, pull_command(1)))
        await until(lambda: len(broker.services.pull_request_hold))
        await ask(producer, broker.address, send_command())
        answer = await waiting
        assert (answer.code, answer.ext["nextBeginOffset"]) == (0, "2")
        producer.close()


async def test_a_closed_connection_drops_its_held_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, consumer):
        await ask(consumer, broker.address, send_command())
        waiting = asyncio.create_task(ask(consumer, broker.address, pull_command(1)))
        await until(lambda: len(broker.services.pull_request_hold))
        consumer.close()
        with pytest.raises(ConnectionLost):
            await waiting
        await until(lambda: not len(broker.services.pull_request_hold))


# -- name servers


async def test_a_broker_registers_and_unregisters(tmp_path: Path) -> None:
    async with name_server() as first, name_server() as second:
        namesrvs = f"{first.address};{second.address}"
        async with running(tmp_path, namesrvs) as (broker, caller):
            for server in (first, second):
                found = await route(caller, server.address, "TBW102")
                assert found is not None
                assert found.broker_datas[0].broker_addrs == {0: broker.address}
        caller = RpcClient()
        assert await route(caller, first.address, "TBW102") is None
        caller.close()


async def test_a_topic_has_a_route_when_its_creation_is_answered(tmp_path: Path) -> None:
    async with name_server() as server, running(tmp_path, server.address) as (broker, caller):
        header = CreateTopic(
            topic="t", default_topic="TBW102", read_queue_nums=3, write_queue_nums=2, perm=6,
            topic_filter_type="SINGLE_TAG", order=False,
        )  # fmt: skip
        await ask(caller, broker.address, Command(Code.UPDATE_AND_CREATE_TOPIC, ext=header.to_ext()))
        found = await route(caller, server.address, "t")
        assert found is not None
        assert (found.queue_datas[0].read_queue_nums, found.queue_datas[0].write_queue_nums) == (3, 2)


async def test_a_created_topic_can_be_registered_alone(tmp_path: Path) -> None:
    """Where a registration makes the name server forget what it does not list."""
    config = NamesrvConfig(listen_port=0, bind_address="127.0.0.1", delete_topic_with_broker_registration=True)
    async with started(NameServer(config)) as namesrv:
        here = namesrv.address
        async with running(tmp_path, here, enable_single_topic_register=True) as (broker, caller):
            for topic in ("one", "two"):
                create = CreateTopic(
                    topic=topic, default_topic="TBW102", read_queue_nums=3, write_queue_nums=2, perm=6,
                    topic_filter_type="SINGLE_TAG", order=False,
                )  # fmt: skip
                command = Command(Code.UPDATE_AND_CREATE_TOPIC, ext=create.to_ext())
                assert (await ask(caller, broker.address, command)).code == 0
            for topic in ("one", "two", "TBW102"):
                found = await route(caller, here, topic)
                assert found is not None
            assert found.broker_datas[0].broker_addrs == {0: broker.address}


async def test_a_topic_created_by_a_send_gets_a_route(tmp_path: Path) -> None:
    async with name_server() as server, running(tmp_path, server.address) as (broker, caller):
        await ask(caller, broker.address, send_command("made"))
        await until_routed(caller, server.address, "made")


def test_an_unreachable_name_server_is_logged_once_and_found_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with name_server() as gone:
            address, port = gone.address, gone.port
        async with running(tmp_path, address) as (broker, caller):
            assert (await ask(caller, broker.address, send_command())).code == 0
            async with name_server(port) as late:
                await until_routed(caller, late.address, "t")
        [warning] = [record for record in caplog.records if "cannot register" in record.getMessage()]
        assert address in warning.getMessage()
        assert "clients will not find this broker there" in warning.getMessage()

    with caplog.at_level(logging.WARNING, "rocketmq_py.broker"):
        asyncio.run(scenario())


def test_a_cancelled_start_closes_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        asked, left = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await reader.read()
            writer.close()
            await writer.wait_closed()
            left.set()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        broker = make(tmp_path, f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        starting = asyncio.create_task(broker.start())
        await asked.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await left.wait()
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())
    assert not (tmp_path / "abort").exists()


async def test_a_restarted_name_server_gets_all_topics(tmp_path: Path) -> None:
    async with name_server() as first:
        port = first.port
        broker, caller = make(tmp_path, first.address), RpcClient()
        await broker.start()
    async with name_server(port) as second:
        await until_routed(caller, second.address, "TBW102")
        caller.close()
        await broker.stop()


async def test_order_topics_are_marked_at_the_next_registration(tmp_path: Path) -> None:
    async with (
        name_server() as server,
        running(tmp_path, server.address, register_name_server_period=20) as (broker, caller),
    ):
        await ask(caller, broker.address, send_command())
        header = PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="t", value="broker-a:4")
        await ask(caller, server.address, Command(Code.PUT_KV_CONFIG, ext=header.to_ext()))
        await until(lambda: broker.services.topics.is_order("t"))


async def test_failed_calls_to_other_servers_name_the_reason() -> None:
    caller = RpcClient()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    for handler, error, words in (
        (silent, RequestTimeout, "did not answer GET_ROUTEINFO_BY_TOPIC \\(105\\) within 0.05 s"),
        (garbage, ConnectionLost, "not a RocketMQ peer"),
    ):
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        timeout = 0.05 if handler is silent else SECONDS
        with pytest.raises(error, match=words):
            await caller.invoke(f"127.0.0.1:{port}", Command(Code.GET_ROUTEINFO_BY_TOPIC), timeout)
        caller.close()
        server.close()
        await server.wait_closed()
    with pytest.raises(ConnectError, match=r"cannot connect to 127\.0\.0\.1:"):
        await caller.invoke(f"127.0.0.1:{port}", Command(Code.GET_ROUTEINFO_BY_TOPIC), SECONDS)


# -- flushing


SYNC = {"flush_disk_type": "SYNC_FLUSH"}


async def test_under_sync_flush_an_answered_send_is_on_disk(tmp_path: Path) -> None:
    async with running(tmp_path, store=SYNC) as (broker, caller):
        answers = await asyncio.gather(*(ask(caller, broker.address, send_command()) for _ in range(20)))
        assert {answer.code for answer in answers} == {0}
        store = broker.services.store
        assert store.flushed_offset == store.max_physical_offset > 0


async def test_under_sync_flush_a_pull_waits_for_the_flush(tmp_path: Path) -> None:
    async with running(tmp_path, store=SYNC) as (broker, consumer):
        producer = RpcClient()
        await ask(producer, broker.address, send_command())
        for offset in range(1, 6):
            waiting = asyncio.create_task(ask(consumer, broker.address, pull_command(offset)))
            await until(lambda: len(broker.services.pull_request_hold))
            await ask(producer, broker.address, send_command(wait=offset % 2 == 0))
            answer = await waiting
            assert (answer.code, answer.ext["nextBeginOffset"]) == (0, str(offset + 1))
            store = broker.services.store
            assert store.flushed_offset == store.max_physical_offset
        producer.close()


@pytest.mark.parametrize(("wait", "code"), [(True, 10), (False, 0)])
async def test_a_slow_flush_is_answered_with_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: bool, code: int
) -> None:
    async with running(tmp_path, store=SYNC, sync_flush_timeout=50) as (broker, caller):
        answered = threading.Event()
        monkeypatch.setattr(broker.services.store._flusher, "_sync", lambda *_: answered.wait())
        try:
            answer = await ask(caller, broker.address, send_command(wait=wait))
        finally:
            answered.set()
        assert (answer.code, answer.ext["queueOffset"]) == (code, "0")
