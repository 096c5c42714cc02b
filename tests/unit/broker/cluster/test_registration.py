"""Registration at the name servers: what they are told, when, again after failures, and at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

from rocketmq_py.broker.cluster import registration
from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectError
from rocketmq_py.protocol.bodies.route import TopicRouteData
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store.config.config_journal import JournaledFile
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import START_MS, InProcess, broker


class NameServer(RpcClient):
    """Answers every request and remembers it."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Command] = []
        self.running = self.most = 0

    async def ask(self, address: str, command: Command, timeout: float) -> Command:
        del address, timeout
        self.requests.append(command)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        return Command(0)

    async def invoke(self, address: str, command: Command, timeout: float) -> Command:
        return await self.ask(address, command, timeout)


def topics(count: int) -> list[TopicConfig]:
    return [TopicConfig(topic_name=f"t{n}", read_queue_nums=1, write_queue_nums=1, perm=6) for n in range(count)]


def registered(running: InProcess, namesrv: NameServer) -> registration.Registration:
    return registration.Registration(
        running.config,
        running.services.topics,
        running.services.mappings.infos,
        lambda **_: namesrv,
        running.services.address,
        running.services.role,
    )


def test_all_topics_are_encoded_again_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = []
    encode = RegisterBrokerBody.encode
    monkeypatch.setattr(RegisterBrokerBody, "encode", lambda self: encoded.append(1) or encode(self))
    with broker(tmp_path, namesrv_addr="127.0.0.1:9876") as running:
        namesrv = NameServer()
        subject = registered(running, namesrv)

        async def register() -> RegisterBrokerBody:
            await subject._register_all(running.config.namesrv_addresses)
            return RegisterBrokerBody.decode(bytes(namesrv.requests[-1].body))

        asyncio.run(register())
        asyncio.run(register())
        assert len(encoded) == 1
        running.services.topics.put(topics(1))
        body = asyncio.run(register())
        assert len(encoded) == 2
        assert "t0" in body.topic_config_serialize_wrapper.topic_config_table
        running.config.broker_permission = 4
        body = asyncio.run(register())
        assert body.topic_config_serialize_wrapper.topic_config_table["t0"].perm == 4


def test_a_burst_of_topics_is_registered_a_few_at_a_time(tmp_path: Path) -> None:
    with broker(tmp_path, namesrv_addr="127.0.0.1:9876", enable_single_topic_register=True) as running:
        namesrv = NameServer()
        subject = registered(running, namesrv)

        async def flush() -> None:
            subject.topics_changed(topics(100))
            await subject.flush()

        asyncio.run(flush())
        assert [request.code for request in namesrv.requests] == [Code.REGISTER_TOPIC_IN_NAMESRV] * 100
        assert namesrv.most == registration._AT_ONCE


# -- a life at two name servers

ONE, TWO = "10.0.0.1:9876", "10.0.0.2:9876"


class NameServers(RpcClient):
    """Two name servers: those in ``down`` refuse, ``held`` answers wait for ``release``."""

    def __init__(self) -> None:
        super().__init__()
        self.down: set[str] = set()
        self.bodies: dict[str, bytes] = {}
        self.ext: dict[str, str] = {}
        self.asked: list[tuple[str, Command, float, float]] = []
        self.release = asyncio.Event()
        self.release.set()
        self.on_lost: Callable[[str], None] = lambda _: None
        self.closed = 0

    async def invoke(self, address: str, command: Command, timeout: float) -> Reply:
        self.asked.append((address, command, timeout, asyncio.get_running_loop().time()))
        await self.release.wait()
        if address in self.down:
            raise ConnectError(f"{address} refused")
        fields = msgspec.Raw(msgspec.json.encode(self.ext))
        return Reply(0, command.opaque, fields=fields, body=self.bodies.get(address, b""))

    def close(self) -> None:
        self.closed += 1

    def taken(self) -> list[tuple[str, Command, float, float]]:
        """What was asked since."""
        asked, self.asked = self.asked, []
        return asked


def where(asked: list[tuple[str, Command, float, float]]) -> list[tuple[str, int]]:
    return [(address, command.code) for address, command, _, _ in asked]


def topics_in(command: Command) -> dict[str, TopicConfig]:
    return RegisterBrokerBody.decode(bytes(command.body)).topic_config_serialize_wrapper.topic_config_table


BOTH = [(ONE, 103), (TWO, 103)]


class Site:
    """What a registration knows of its broker, without a store and its threads: waits take no time."""

    address = "10.0.0.7:10911"

    def __init__(self, folder: Path, **config: Any) -> None:
        self.config = BrokerConfig(namesrv_addr=f"{ONE};{TWO}", **config)
        file = JournaledFile(folder / "topics.json")
        self.topics = TopicConfigs(file, self.config, lambda: START_MS, self._changed)
        self.on_change: Callable[[list[TopicConfig]], None] = lambda _: None
        self.role = Role(self.config, 10911)

    def _changed(self, found: list[TopicConfig]) -> None:
        self.on_change(found)


Test = Callable[[registration.Registration, NameServers, Site], Coroutine[Any, Any, None]]


def played(tmp_path: Path, test: Test, **config: Any) -> None:
    site, servers = Site(tmp_path, **config), NameServers()

    def client(*, on_lost: Callable[[str], None]) -> RpcClient:
        servers.on_lost = on_lost
        return servers

    async def play() -> None:
        subject = registration.Registration(
            site.config, site.topics, lambda _: {}, client, site.address, site.role
        )  # fmt: skip
        site.on_change = subject.topics_changed
        await test(subject, servers, site)
        await subject.stop()
        assert servers.closed == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(play())


def test_a_registration_says_who_the_broker_is(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        asked = servers.taken()
        assert where(asked) == BOTH
        command = asked[0][1]
        assert {key: command.ext.get(key) for key in (
            "brokerName", "brokerAddr", "clusterName", "haServerAddr", "brokerId", "compressed", "bodyCrc32",
            "enableActingMaster", "heartbeatTimeoutMillis",
        )} == {
            "brokerName": "broker-a", "brokerAddr": site.address, "clusterName": "DefaultCluster",
            "haServerAddr": site.role.ha_address, "brokerId": "0", "compressed": "false",
            "bodyCrc32": str(crc32(bytes(command.body)) & 0x7FFFFFFF), "enableActingMaster": "false",
            "heartbeatTimeoutMillis": None,
        }  # fmt: skip
        assert topics_in(command).keys() == site.topics.table.keys()
        assert asked[0][2] == 3.0

    played(tmp_path, test)


def test_a_broker_that_may_act_tells_its_timeout(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        ext = servers.taken()[0][1].ext
        timeout = str(site.config.broker_not_active_timeout_millis)
        assert (ext["enableActingMaster"], ext["heartbeatTimeoutMillis"]) == ("true", timeout)

    played(tmp_path, test, enable_slave_acting_master=True)


def test_all_topics_are_registered_every_thirty_seconds(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        servers.taken()
        await asyncio.sleep(29)
        assert servers.taken() == []
        await asyncio.sleep(2)
        asked = servers.taken()
        assert where(asked) == BOTH
        assert asked[0][2] == site.config.register_broker_timeout_mills / 1000
        await asyncio.sleep(60)
        assert where(servers.taken()) == BOTH * 2

    played(tmp_path, test)


def test_changed_topics_are_registered_at_once_and_alone(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        servers.taken()
        await subject.flush()
        assert servers.taken() == [], "nothing has changed"
        subject.topics_changed(topics(2))
        await asyncio.sleep(0.1)
        asked = servers.taken()
        assert where(asked) == BOTH
        assert topics_in(asked[0][1]).keys() == {"t0", "t1"}

    played(tmp_path, test)


def test_topics_that_change_meanwhile_go_together_with_the_next_request(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        servers.taken()
        servers.release.clear()
        for topic in topics(4):
            subject.topics_changed([topic])
            await asyncio.sleep(0.1)
        asked = servers.taken()
        assert where(asked) == BOTH
        assert topics_in(asked[0][1]).keys() == {"t0"}
        flushed = asyncio.ensure_future(subject.flush())
        await asyncio.sleep(0.1)
        assert not flushed.done()
        servers.release.set()
        await flushed
        asked = servers.taken()
        assert where(asked) == BOTH
        assert topics_in(asked[0][1]).keys() == {"t1", "t2", "t3"}

    played(tmp_path, test)


def test_a_name_server_that_fails_is_asked_every_second_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        servers.down = {TWO}
        await subject.start()
        servers.taken()
        await asyncio.sleep(3.5)
        assert set(where(servers.taken())) == {(TWO, 103)}
        await asyncio.sleep(5)
        assert 4 <= len(servers.taken()) <= 6
        servers.down = set()
        await asyncio.sleep(1.1)
        servers.taken()
        await asyncio.sleep(10)
        assert servers.taken() == []
        servers.down = {TWO}
        subject.topics_changed(topics(1))
        await asyncio.sleep(2)

    played(tmp_path, test)
    texts = [record.getMessage() for record in caplog.records if record.name.endswith("registration")]
    failed = (
        f"cannot register at name server {TWO}, clients will not find this broker there: {TWO} refused; trying again "
        "every 1 s"
    )
    assert texts == [failed, f"registered at name server {TWO}", failed]


def test_a_lost_connection_is_registered_again_at_once(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        servers.taken()
        servers.on_lost(ONE)
        await asyncio.sleep(1.2)
        assert where(servers.taken()) == [(ONE, 103)]
        subject.renew()
        await asyncio.sleep(1.2)
        assert sorted(where(servers.taken())) == BOTH
        await asyncio.sleep(5)
        assert servers.taken() == []

    played(tmp_path, test)


def test_writes_are_withdrawn_before_the_end(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        before = topics_in(servers.taken()[0][1])
        version = site.topics.version.counter
        await subject.refuse_writes()
        asked = servers.taken()
        assert set(where(asked)) == set(BOTH)
        after = topics_in(asked[-1][1])
        assert after.keys() == before.keys()
        assert {name: topic.perm for name, topic in after.items()} == {
            name: topic.perm & 4 for name, topic in before.items()
        }
        assert site.topics.version.counter > version

    played(tmp_path, test)


def test_a_slave_has_no_write_permission_to_withdraw(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        servers.taken()
        await subject.refuse_writes()
        assert servers.taken() == []

    played(tmp_path, test, broker_role="SLAVE", broker_id=1)


def test_a_broker_that_stops_unregisters_everywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        servers.taken()
        servers.down = {ONE}
        subject.topics_changed(topics(1))
        await subject.stop()
        servers.closed -= 1
        asked = servers.taken()
        assert where(asked) == [(ONE, 104), (TWO, 104)]
        assert asked[0][2] == 0.5
        assert asked[0][1].ext == {
            "brokerName": "broker-a", "brokerAddr": site.address, "clusterName": "DefaultCluster",
            "brokerId": "0",
        }  # fmt: skip
        await asyncio.sleep(60)
        assert servers.taken() == []

    played(tmp_path, test)
    assert f"not unregistered at name server {ONE}: {ONE} refused" in caplog.text


def test_a_broker_that_never_started_does_not_unregister(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        pass

    played(tmp_path, test)


def test_a_request_under_way_does_not_delay_the_end(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        servers.release.clear()
        subject.topics_changed(topics(1))
        await asyncio.sleep(0.1)
        servers.taken()
        stopping = asyncio.ensure_future(subject.stop())
        await asyncio.sleep(0.1)
        assert where(servers.taken()) == [(ONE, 104), (TWO, 104)]
        servers.release.set()
        await stopping
        servers.closed -= 1

    played(tmp_path, test)


def test_answers_tell_the_master_and_the_order_of_topics(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        site.topics.put(topics(2))
        servers.ext = {"masterAddr": "10.0.0.9:10911", "haServerAddr": "10.0.0.9:10912"}
        servers.bodies = {ONE: b'{"table":{"t1":"broker-a:1"}}'}
        await subject.start()
        assert site.role.master == ("10.0.0.9:10911", "10.0.0.9:10912")
        assert [name for name, topic in site.topics.table.items() if topic.order] == ["t1"]

    played(tmp_path, test, broker_role="SLAVE", broker_id=1)


def test_single_topics_are_registered_with_their_queues(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        site.config.broker_permission = 4
        subject.topics_changed(
            [TopicConfig(topic_name="t", read_queue_nums=3, write_queue_nums=2, perm=6, topic_sys_flag=1)]
        )
        await subject.flush()
        asked = servers.taken()
        assert where(asked) == [(ONE, 217), (TWO, 217)]
        assert (asked[0][1].ext, asked[0][2]) == ({"topic": "t"}, 3.0)
        [queues] = TopicRouteData.decode(bytes(asked[0][1].body)).queue_datas
        assert (queues.broker_name, queues.read_queue_nums, queues.write_queue_nums, queues.perm) == (
            "broker-a", 3, 2, 4,
        )  # fmt: skip

    played(tmp_path, test, enable_single_topic_register=True)


@pytest.mark.parametrize(("permission", "perm"), [(6, 6), (7, 6), (4, 4), (2, 2), (0, 0)])
def test_permissions_are_those_of_the_broker_at_most(permission: int, perm: int) -> None:
    topic = TopicConfig(topic_name="t", read_queue_nums=3, write_queue_nums=2, perm=6)
    masked = registration.masked(topic, permission)
    assert (masked.topic_name, masked.read_queue_nums, masked.write_queue_nums, masked.perm) == ("t", 3, 2, perm)
    assert topic.perm == 6


def test_a_change_in_between_does_not_put_off_the_next_full_registration(tmp_path: Path) -> None:
    async def test(subject: registration.Registration, servers: NameServers, site: Site) -> None:
        await subject.start()
        await asyncio.sleep(15)
        subject.topics_changed(topics(1))
        await asyncio.sleep(14)
        servers.taken()
        await asyncio.sleep(2)
        assert where(servers.taken()) == BOTH

    played(tmp_path, test)
