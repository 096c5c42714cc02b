"""Name servers, routes, and what the members of one client share."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter

import pytest

from rocketmq_py.client.client_instance import ClientInstance, make_client_id
from rocketmq_py.client.name_servers import name_servers
from rocketmq_py.errors import ConfigError, NetworkError, NoRouteError
from rocketmq_py.protocol.bodies.client import ConsumerData, ProducerData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, encode_command
from tests.unit.client.scripted import Answerer, ScriptedNetwork, cluster, route_answer


class Someone:
    """A member."""

    def __init__(self, group: str, data: ProducerData | ConsumerData, topics: set[str]) -> None:
        self.group = group
        self._data = data
        self._topics = topics
        self.changes = asyncio.Event()
        self.persisted = asyncio.Event()

    def heartbeat(self) -> ProducerData | ConsumerData:
        return self._data

    def topics(self) -> set[str]:
        return self._topics

    async def on_ids_changed(self) -> None:
        self.changes.set()

    async def persist_offsets(self) -> None:
        self.persisted.set()


def producer(group: str = "p", *topics: str) -> Someone:
    return Someone(group, ProducerData(group_name=group), set(topics))


def consumer(group: str = "c", *topics: str) -> Someone:
    return Someone(group, ConsumerData(group_name=group), set(topics))


def made(answer: Answerer, namesrv: str = "ns:1", **options: float) -> tuple[ClientInstance, ScriptedNetwork]:
    network = ScriptedNetwork(answer)
    instance = ClientInstance(namesrv, **options)  # type: ignore[arg-type]
    network.carry(instance.connections)
    return instance, network


# -- name servers


async def test_another_name_server_is_used_when_one_does_not_answer() -> None:
    instance, network = made(cluster(t={"a": 1}), "n:1;n:2")
    network.unreachable = {"n:1"}
    for _ in range(3):
        await instance.routes.refresh("t")
    assert network.codes("n:2") == [105] * 3
    network.unreachable = {"n:2"}
    instance.connections.drop("n:2")
    await instance.routes.refresh("t")
    assert network.codes("n:1") == [105]
    network.unreachable = {"n:1", "n:2"}
    instance.connections.drop("n:1")
    with pytest.raises(NetworkError, match=r"none of 2 name servers answers: .*n:[12].*n:[12].*Does a name"):
        await instance.routes.refresh("t")
    assert instance.routes.known("t") is not None  # what was known stays in use
    await instance.stop()


@pytest.mark.parametrize("given", ["a:1;b:2", "a:1,b:2", " a:1 ; b:2 ;", ["a:1", "b:2"]])
def test_name_servers_can_be_given_in_several_forms(given: str | list[str]) -> None:
    assert name_servers(given) == ["a:1", "b:2"]


# -- routes


async def test_concurrent_lookups_share_one_request() -> None:
    instance, network = made(cluster(t={"a": 2}))
    routes = await asyncio.gather(*(instance.routes.get("t") for _ in range(5)))
    assert network.codes() == [105]
    assert len({id(route) for route in routes}) == 1
    assert await instance.routes.get("t") is routes[0]
    assert await instance.routes.refresh("t") is routes[0]  # nothing changed, so nothing is new
    await instance.stop()


def test_addresses_follow_the_routes() -> None:
    topics = {"t": {"a": 1}, "u": {"b": 1}}

    async def main() -> None:
        instance, _ = made(cluster(topics))
        routes = instance.routes
        await asyncio.gather(routes.get("t"), routes.get("u"))
        assert routes.broker_addresses() == {"a": {0: "a:1"}, "b": {0: "b:1"}}
        assert (routes.master("a"), routes.broker_address("b"), routes.broker_name("b:1")) == ("a:1", "b:1", "b")
        await instance.stop()

    asyncio.run(main())


def test_a_route_is_kept_until_its_brokers_register_again() -> None:
    topics = {"t": {"a": 1}, "u": {"b": 1}}

    async def main() -> None:
        instance, _ = made(cluster(topics))
        routes = instance.routes
        route, _ = await asyncio.gather(routes.get("u"), routes.get("t"))
        del topics["u"]
        with pytest.raises(NoRouteError):
            await routes.refresh("u")
        assert routes.known("u") is route
        assert routes.master("b") == "b:1"
        topics["u"] = {"a": 2}
        assert len((await routes.refresh("u")).read_queues) == 2
        assert routes.master("b") is None
        await instance.stop()

    asyncio.run(main())


async def test_a_recovered_broker_gets_a_heartbeat_first() -> None:
    instance, network = made(cluster(t={"a": 1}))
    instance.register(consumer())
    await instance.routes.get("t")
    await instance.heartbeat_all()
    network.transports["a:1"].close()
    await asyncio.sleep(0)
    network.requests.clear()
    await instance.connections.invoke("a:1", RequestCode.GET_MAX_OFFSET)
    assert network.codes("a:1") == [RequestCode.HEART_BEAT, RequestCode.GET_MAX_OFFSET]
    await instance.stop()


def test_failed_route_refreshes_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        instance, network = made(cluster(t={"a": 1}, u={"a": 1}))
        topics = {"t", "u", "unknown"}
        await instance.routes.refresh_all(topics)
        network.unreachable = {"ns:1"}
        instance.connections.drop("ns:1")
        for _ in range(3):
            await instance.routes.refresh_all(topics)
        await instance.routes.refresh_all(set())
        network.unreachable = set()
        await instance.routes.refresh_all(topics)
        await instance.stop()

    asyncio.run(main())
    first, second = (record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert first.startswith("routes are not refreshed, the known ones stay in use (3 topics): cannot connect to ns:1")
    assert second == "routes are refreshed again"


def test_a_name_server_that_goes_away_is_replaced() -> None:
    def answer(address: str, request: Command) -> Command | None:
        return Command(1500, remark="please go away") if address == "ns:1" else cluster(t={"a": 1})(address, request)

    async def main() -> None:
        for _ in range(4):  # the first one asked is drawn by lot
            instance, network = made(answer, "ns:1;ns:2")
            await instance.routes.get("t")
            await instance.routes.refresh("t")
            assert network.codes("ns:1").count(RequestCode.GET_ROUTEINFO_BY_TOPIC) in (0, 2), "asked twice, then left"
            await instance.stop()
        instance, _ = made(answer)
        with pytest.raises(NetworkError, match="ns:1 is shutting down"):
            await instance.routes.get("t")
        await instance.stop()

    asyncio.run(main())


@pytest.mark.parametrize("at_once", [2, 3])
def test_concurrent_failed_requests_all_use_the_next_name_server(at_once: int) -> None:
    """Each that fails moves to the next name server; together they must not move past it."""
    topics = {f"t{number}": {"a": 1} for number in range(at_once)}

    def answer(where: str, request: Command) -> Command | None:
        return cluster(topics)(where, request) if where == "n:2" else None

    async def main() -> None:
        instance, _ = made(answer, "n:1;n:2", timeout=5)
        instance.name_servers._current = 0
        routes = await asyncio.gather(*map(instance.routes.get, topics))
        assert [route.topic for route in routes] == list(topics)
        await instance.stop()

    asyncio.run(main())


def test_an_empty_name_server_does_not_remove_routes() -> None:
    full = cluster(t={"a": 1})

    def answer(where: str, request: Command) -> Command | None:
        return full(where, request) if where == "ns:3" else Command(17, remark="no route")

    async def main() -> None:
        instance, network = made(answer, "ns:1;ns:2;ns:3")
        assert (await instance.routes.get("t")).topic == "t"
        with pytest.raises(NoRouteError, match="'v'"):
            await instance.routes.get("v")
        assert Counter(where for where, _ in network.requests[-3:]) == {"ns:1": 1, "ns:2": 1, "ns:3": 1}
        network.unreachable = {"ns:3"}
        instance.connections.drop("ns:3")
        with pytest.raises(NoRouteError, match="'t'"):
            await instance.routes.refresh("t")
        await instance.stop()

    asyncio.run(main())


async def test_another_answer_to_a_lookup_is_raised() -> None:
    instance, _ = made(lambda *_: Command(1, remark="not ready"))
    with pytest.raises(NoRouteError, match=r"'t'.*ns:1.*not ready"):
        await instance.routes.get("t")
    await instance.stop()


# -- members


async def test_a_client_has_one_member_of_a_group() -> None:
    instance, _ = made(cluster())
    instance.register(producer("g"))
    instance.register(consumer("g"))
    for member, kind in ((producer("g"), "producer"), (consumer("g"), "consumer")):
        with pytest.raises(ConfigError, match=f"already has a {kind} of group 'g'"):
            instance.register(member)
    await instance.stop()


def test_producers_register_at_masters_and_consumers_at_all_brokers() -> None:
    def with_slave(where: str, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            found = route_answer({"a": 1})
            found.body = found.body.replace(b'{"0":"a:1"}', b'{"0":"a:1","1":"slave:1"}')
            return found
        return cluster()(where, request)

    async def main() -> None:
        instance, network = made(with_slave)
        await instance.routes.get("t")
        await instance.heartbeat_all()
        assert network.codes("a:1") == []  # nobody is there yet
        instance.register(producer())
        await instance.heartbeat_all()
        assert (network.codes("a:1"), network.codes("slave:1")) == ([34], [])
        member = consumer()
        instance.register(member)
        await instance.heartbeat_all()
        assert (network.codes("a:1"), network.codes("slave:1")) == ([34, 34], [34])
        await instance.unregister(member)
        await instance.unregister(member)
        assert network.codes("slave:1") == [34, 35]
        assert network.requests[-1][1].ext == {"clientID": instance.client_id, "consumerGroup": "c"}
        await instance.stop()

    asyncio.run(main())


async def test_a_failed_heartbeat_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    instance, network = made(cluster(t={"a": 1, "b": 1}))
    await instance.routes.get("t")
    instance.register(producer())
    network.unreachable = {"a:1"}
    with caplog.at_level(logging.WARNING):
        await instance.heartbeat_all()
        await instance.heartbeat_all()
        network.unreachable = set()
        await instance.heartbeat_all()
        network.unreachable = {"a:1"}
        network.transports["a:1"].close()
        await asyncio.sleep(0.01)
        await instance.heartbeat_all()
    first, second, third = (record.getMessage() for record in caplog.records)
    assert third.startswith("HEART_BEAT to broker a:1 failed"), "again after it had answered"
    assert first.startswith("HEART_BEAT to broker a:1 failed: cannot connect to a:1")
    assert second == "broker a:1 answers again"
    assert network.codes("b:1") == [34, 34, 34, 34]
    instance.connections.invoke = None  # type: ignore[assignment, method-assign]
    with pytest.raises(TypeError):  # a fault of the client is no failure of a broker
        await instance.heartbeat_all()
    await instance.stop()


def test_defaults_are_seconds_and_a_client_id_of_its_own() -> None:
    parameters = inspect.signature(ClientInstance).parameters.values()
    assert {each.name: each.default for each in parameters if each.default not in (None, inspect.Parameter.empty)} == {
        "timeout": 3.0, "connect_timeout": 3.0, "route_interval": 30.0, "heartbeat_interval": 30.0,
        "offset_interval": 5.0,
    }  # fmt: skip
    assert make_client_id(client_ip="1.2.3.4").startswith("1.2.3.4@")
    assert make_client_id() != make_client_id()


async def test_members_are_notified_of_group_changes() -> None:
    instance, network = made(cluster())
    member = consumer("g")
    instance.register(member)
    await instance.connections.get("a:1")
    for group in ("other", "g"):
        push = Command(40, 1, ONEWAY_FLAG, ext={"consumerGroup": group})
        network.transports["a:1"].deliver(encode_command(push))
    await asyncio.wait_for(member.changes.wait(), 5)
    await instance.stop()


def test_periodic_jobs_are_repeated() -> None:
    heard = asyncio.Event()

    def answer(where: str, request: Command) -> Command | None:
        if request.code == RequestCode.HEART_BEAT:
            heard.set()
        return cluster(t={"a": 1})(where, request)

    async def main() -> None:
        instance, network = made(answer, route_interval=0.01, heartbeat_interval=0.01, offset_interval=0.01)
        member = consumer("g", "t", "nobody has this one")
        instance.register(member)
        await instance.start()
        await instance.start()
        await asyncio.wait_for(asyncio.gather(heard.wait(), member.persisted.wait()), 5)
        assert instance.routes.known("t") is not None
        assert 34 in network.codes("a:1")
        await instance.stop()
        await instance.stop()

    asyncio.run(main())


def test_client_ids_contain_instance_and_unit() -> None:
    assert make_client_id("DEFAULT").endswith("@DEFAULT")
    assert make_client_id("DEFAULT", "unit").endswith("@DEFAULT@unit")
    assert make_client_id() != make_client_id()


def test_an_unreachable_address_gets_advice() -> None:
    async def main() -> None:
        instance, _ = made(cluster(t={"b": 1}))
        await instance.routes.get("t")
        assert instance._hint("ns:1").startswith("Does a name server run there?")
        assert "the address broker b advertises" in instance._hint("b:1")
        assert "address_map={'b:1': 'host:port'}" in instance._hint("b:1")
        assert instance._hint("x:1") == ""
        await instance.stop()

    asyncio.run(main())
