"""Registration at the name servers: what is sent, when again, after failures, and at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import pytest

from rocketmq_py.broker.cluster import registration
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectError
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.remoting.rpc_client import NewRpcClient, RpcClient
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import InProcess
from tests.unit.broker.network import until
from tests.unit.broker.rpc import Asked, Others, reply
from tests.unit.broker.workers import WithoutThreads


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


# -- what is sent


REGISTER, UNREGISTER, REGISTER_TOPIC = 103, 104, 217


class Registering:
    """A broker with the topics ``a`` and ``b``, and its registration at the name servers ``one:1`` and ``two:1``."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.answers: dict[str, list[Reply | Exception]] = {"one:1": [], "two:1": []}
        wanted = {"namesrv_addr": "one:1;two:1", "broker_name": "here", "broker_cluster_name": "c"} | config
        self.running = InProcess(root, workers=WithoutThreads(), **wanted)
        s = self.running.services
        self.topics = s.topics
        self.others: Others | None = None

        def connect(*, on_lost: Callable[[str], None]) -> Others:
            self.others = Others(self._answer, on_lost)
            return self.others

        new = cast("NewRpcClient", connect)
        self.role = s.role
        self.subject = registration.Registration(
            self.running.config, s.topics, s.mappings.infos, new, "10.0.0.5:10911", s.role
        )
        put = [TopicConfig(topic_name=name, topic_sys_flag=2, order=True, attributes={"k": "v"}) for name in "ab"]
        self.topics.put(put)

    def close(self) -> None:
        self.running.services.close()

    def _answer(self, address: str, _: Command) -> Reply | Exception:
        waiting = self.answers[address]
        return waiting.pop(0) if waiting else reply()

    @property
    def asked(self) -> list[Asked]:
        assert self.others is not None
        return self.others.asked

    def seen(self, since: int = 0) -> list[tuple[str, int]]:
        return [(asked.address, asked.command.code) for asked in self.asked[since:]]

    def table(self, number: int = -1) -> TopicConfigTable:
        return RegisterBrokerBody.decode(bytes(self.asked[number].command.body)).topic_config_serialize_wrapper

    def changed(self, *names: str) -> None:
        """Topics are created."""
        self.subject.topics_changed(self.topics.put([TopicConfig(topic_name=name) for name in names]))

    def set_permission(self, permission: int) -> None:
        self.running.config.broker_permission = permission


@pytest.fixture
def registering(tmp_path: Path) -> Iterator[Registering]:
    found = Registering(tmp_path)
    yield found
    found.close()


async def test_a_start_registers_all_topics_at_every_name_server(registering: Registering) -> None:
    await registering.subject.start()
    assert registering.seen() == [("one:1", REGISTER), ("two:1", REGISTER)]
    first = registering.asked[0]
    assert first.timeout == 3.0
    assert first.command.ext == {
        "brokerName": "here", "brokerAddr": "10.0.0.5:10911", "clusterName": "c", "haServerAddr": "127.0.0.1:10912",
        "brokerId": "0", "enableActingMaster": "false", "compressed": "false",
        "bodyCrc32": str(crc32(first.command.body) & 0x7FFFFFFF),
    }  # fmt: skip
    table = registering.table()
    assert table.topic_config_table == registering.topics.table
    assert table.data_version == table.mapping_data_version == registering.topics.version
    assert table.topic_queue_mapping_info_map == {}
    await registering.subject.stop()


async def test_a_broker_that_may_act_tells_its_time_to_live(tmp_path: Path) -> None:
    registering = Registering(tmp_path, enable_slave_acting_master=True, broker_role="SLAVE", broker_id=3)
    await registering.subject.start()
    ext = registering.asked[0].command.ext
    assert (ext["brokerId"], ext["enableActingMaster"], ext["heartbeatTimeoutMillis"]) == ("3", "true", "10000")
    await registering.subject.stop()
    registering.close()


@pytest.mark.parametrize(("permission", "registered"), [(6, 6), (4, 4), (2, 2), (0, 0)])
async def test_topics_have_no_more_permission_than_the_broker(
    registering: Registering, permission: int, registered: int
) -> None:
    """All else of a topic stays: name servers sort unit topics by their system flag."""
    registering.set_permission(permission)
    await registering.subject.start()
    topic = registering.table().topic_config_table["a"]
    assert (topic.perm, topic.topic_sys_flag, topic.order, topic.attributes) == (registered, 2, True, {"k": "v"})
    assert registering.topics.table["a"].perm == 6
    await registering.subject.stop()


def test_a_topic_without_a_permission_gets_none() -> None:
    assert registration.masked(TopicConfig(topic_name="t", perm=4), 6).perm == 4
    assert registration.masked(TopicConfig(topic_name="t", perm=4), 2).perm == 0
    assert registration.masked(TopicConfig(topic_name="t", perm=7), 6).perm == 7, "bits that no broker has"
    assert registration.masked(TopicConfig(topic_name="t", perm=7), 4).perm == 4


async def test_the_answer_names_the_master_and_order_topics(tmp_path: Path) -> None:
    registering = Registering(tmp_path, broker_role="SLAVE", broker_id=1)
    registering.topics.put([TopicConfig(topic_name="c"), TopicConfig(topic_name="d")])
    order = b'{"table":{"c":"here:4","elsewhere":"x:1"}}'
    registering.answers["one:1"] = [reply(body=order, masterAddr="10.0.0.1:10911", haServerAddr="10.0.0.1:10912")]
    await registering.subject.start()
    assert registering.role.master == ("10.0.0.1:10911", "10.0.0.1:10912")
    assert [registering.topics.table[name].order for name in "cd"] == [True, False]
    await registering.subject.stop()
    registering.close()


# -- again and again


async def test_everything_is_registered_again_every_half_minute(registering: Registering) -> None:
    await registering.subject.start()
    await asyncio.sleep(29.5)
    assert len(registering.asked) == 2
    await asyncio.sleep(1)
    assert registering.seen(2) == [("one:1", REGISTER), ("two:1", REGISTER)]
    assert registering.asked[2].timeout == 24.0
    await asyncio.sleep(30)
    assert len(registering.asked) == 6
    await registering.subject.stop()


async def test_changed_topics_are_registered_at_once_and_alone(registering: Registering) -> None:
    await registering.subject.start()
    registering.changed("x", "y")
    registering.changed("z")
    await asyncio.sleep(0.1)
    assert registering.seen(2) == [("one:1", REGISTER), ("two:1", REGISTER)]
    assert registering.table().topic_config_table.keys() == {"x", "y", "z"}
    assert registering.asked[2].timeout == 3.0
    await registering.subject.flush()
    assert len(registering.asked) == 4
    await asyncio.sleep(27)
    assert len(registering.asked) == 4
    await asyncio.sleep(4)
    assert len(registering.asked) == 6, "the half minute goes on"
    await registering.subject.stop()


async def test_topics_that_change_meanwhile_are_registered_together(registering: Registering) -> None:
    assert registering.others is not None
    registering.others.turns = 3
    registering.changed("x")
    first = asyncio.create_task(registering.subject.flush())
    await until(lambda: registering.asked)
    registering.changed("y")
    registering.changed("z")
    second = asyncio.create_task(registering.subject.flush())
    await asyncio.sleep(0)
    assert len(registering.asked) == 2, "one registration at a time"
    await asyncio.gather(first, second, registering.subject.flush())
    tables = [registering.table(number).topic_config_table.keys() for number in range(4)]
    assert tables == [{"x"}, {"x"}, {"y", "z"}, {"y", "z"}]
    await registering.subject.flush()
    assert len(registering.asked) == 4


async def test_a_single_topic_is_registered_by_its_name(tmp_path: Path) -> None:
    registering = Registering(tmp_path, enable_single_topic_register=True)
    registering.set_permission(4)
    changed = TopicConfig(topic_name="x", read_queue_nums=3, write_queue_nums=2, topic_sys_flag=1)
    registering.subject.topics_changed([changed])
    await registering.subject.flush()
    assert registering.seen() == [("one:1", REGISTER_TOPIC), ("two:1", REGISTER_TOPIC)]
    asked = registering.asked[0]
    assert (asked.command.ext, asked.timeout) == ({"topic": "x"}, 3.0)
    route = fastjson.loads(asked.command.body)
    assert route["brokerDatas"] == []
    [queues] = route["queueDatas"]
    assert queues == {"brokerName": "here", "perm": 4, "readQueueNums": 3, "writeQueueNums": 2, "topicSysFlag": 1}
    registering.close()


async def test_a_static_topic_is_registered_with_all_its_mapping(tmp_path: Path) -> None:
    registering = Registering(tmp_path, enable_single_topic_register=True)
    mappings = registering.running.services.mappings
    queues = {0: [MappingItem(gen=0, queue_id=0, bname="here", logic_offset=0)]}
    detail = MappingDetail(topic="x", bname="here", total_queues=1, epoch=1, hosted_queues=queues)
    mappings.put(detail, "x", force=False)
    registering.changed("x", "y")
    await registering.subject.flush()
    assert registering.seen() == [("one:1", REGISTER), ("two:1", REGISTER)]
    table = registering.table()
    assert table.topic_config_table.keys() == {"x", "y"}
    assert (table.topic_queue_mapping_info_map or {}).keys() == {"x"}
    registering.close()


# -- failures


async def test_a_name_server_that_fails_is_asked_every_second_others_are_not(
    registering: Registering, caplog: pytest.LogCaptureFixture
) -> None:
    registering.answers["two:1"] = [ConnectError("two is down")] * 4
    await registering.subject.start()
    await asyncio.sleep(3.5)
    assert registering.seen(2) == [("two:1", REGISTER)] * 3
    [record] = caplog.records
    assert record.message == (
        "cannot register at name server two:1, clients will not find this broker there: two is down; "
        "trying again every 1 s"
    )
    await asyncio.sleep(1)
    assert caplog.records[-1].message == "registered at name server two:1"
    seen = len(registering.asked)
    await asyncio.sleep(10)
    assert len(registering.asked) == seen, "it does not fail any more"
    assert len(caplog.records) == 2
    registering.answers["two:1"] = [ConnectError("two is down")]
    await asyncio.sleep(30)
    assert len(caplog.records) == 4, "it is told again"
    await registering.subject.stop()


async def test_a_refusal_of_a_name_server_is_a_failure(
    registering: Registering, caplog: pytest.LogCaptureFixture
) -> None:
    registering.answers["one:1"] = [reply(1, remark="crc32 not match")]
    await registering.subject.start()
    assert "cannot register at name server one:1" in caplog.text
    await asyncio.sleep(1.5)
    assert registering.seen(2) == [("one:1", REGISTER)]
    await registering.subject.stop()


async def test_a_lost_connection_is_a_reason_to_register_there(registering: Registering) -> None:
    await registering.subject.start()
    assert registering.others is not None
    registering.others.on_lost("one:1")
    await asyncio.sleep(1.5)
    assert registering.seen(2) == [("one:1", REGISTER)]
    await registering.subject.stop()


async def test_a_renewal_registers_everywhere_within_a_second(registering: Registering) -> None:
    await registering.subject.start()
    registering.subject.renew()
    await asyncio.sleep(0.5)
    assert len(registering.asked) == 2
    await asyncio.sleep(0.7)
    assert sorted(registering.seen(2)) == [("one:1", REGISTER), ("two:1", REGISTER)]
    await registering.subject.stop()


# -- the end


async def test_a_stop_unregisters_everywhere(registering: Registering, caplog: pytest.LogCaptureFixture) -> None:
    await registering.subject.start()
    registering.answers["one:1"] = [ConnectError("one is down")]
    with caplog.at_level("INFO"):
        await registering.subject.stop()
    assert registering.seen(2) == [("one:1", UNREGISTER), ("two:1", UNREGISTER)]
    asked = registering.asked[-1]
    assert asked.timeout == 0.5
    assert asked.command.ext == {
        "brokerName": "here", "brokerAddr": "10.0.0.5:10911", "clusterName": "c", "brokerId": "0",
    }  # fmt: skip
    assert "not unregistered at name server one:1: one is down" in caplog.text
    assert registering.others is not None
    assert registering.others.is_closed
    await asyncio.sleep(60)
    assert len(registering.asked) == 4
    await registering.subject.stop()
    assert len(registering.asked) == 4, "once"


async def test_a_registration_that_has_not_started_unregisters_nothing(registering: Registering) -> None:
    registering.changed("x")
    await registering.subject.stop()
    assert registering.asked == []
    assert registering.others is not None
    assert registering.others.is_closed


async def test_a_stop_ends_a_registration_under_way(registering: Registering, monkeypatch: pytest.MonkeyPatch) -> None:
    await registering.subject.start()
    assert registering.others is not None
    never = asyncio.Event()
    ask = registering.others.invoke

    async def invoke(address: str, command: Command, timeout: float) -> Reply:
        if command.code == REGISTER:
            await never.wait()
        return await ask(address, command, timeout)

    monkeypatch.setattr(registering.others, "invoke", invoke)
    registering.changed("x")
    await asyncio.sleep(0.1)
    assert registering.subject._running
    async with asyncio.timeout(5):
        await registering.subject.stop()
    assert not registering.subject._running
    assert registering.seen(2) == [("one:1", UNREGISTER), ("two:1", UNREGISTER)]


async def test_a_broker_that_goes_away_withdraws_its_write_permission(registering: Registering) -> None:
    registering.topics._on_change = registering.subject.topics_changed
    await registering.subject.start()
    before = registering.topics.version
    await registering.subject.refuse_writes()
    assert registering.seen(2) == [("one:1", REGISTER), ("two:1", REGISTER)]
    table = registering.table()
    assert {topic.perm & 6 for topic in table.topic_config_table.values()} <= {4, 0}
    assert table.topic_config_table["a"].perm == 4
    assert table.topic_config_table.keys() == registering.topics.table.keys()
    assert table.data_version.counter > before.counter
    assert registering.topics.table["a"].perm == 6
    await registering.subject.stop()
    assert registering.topics.version.counter > table.data_version.counter, "the next start must be seen"


async def test_an_ordinary_stop_changes_no_version(registering: Registering) -> None:
    await registering.subject.start()
    before = registering.topics.version
    await registering.subject.stop()
    assert registering.topics.version == before


async def test_a_slave_has_no_write_permission_to_withdraw(tmp_path: Path) -> None:
    registering = Registering(tmp_path, broker_role="SLAVE", broker_id=1)
    before = registering.topics.version
    await registering.subject.refuse_writes()
    assert (registering.asked, registering.topics.version) == ([], before)
    registering.close()
