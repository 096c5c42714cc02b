"""Cached routes: which answer of the name servers counts, and where brokers are."""

import asyncio

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.errors import ConfigError, NetworkError, NoRouteError, PermissionDenied
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.wire.command import Command
from tests.unit.client.scripted import ScriptedNetwork, made_by

NS = "ns:1"


class Servers:
    """A name server and the routes of a client. ``topics``: of each topic the addresses by broker name and id."""

    def __init__(self):
        self.network = ScriptedNetwork(self.answer)
        self.topics = {"T": {"b": {0: "b:1", 1: "b:2"}}}
        self.refusal = None
        self.instance = ClientInstance(NS, timeout=1.0)
        self.network.carry(self.instance.connections)
        self.routes = self.instance.routes

    def answer(self, _, request):
        if self.refusal is not None:
            return self.refusal
        brokers = self.topics.get(request.ext["topic"])
        if brokers is None:
            return Command(17, remark="No topic route info")
        data = TopicRouteData(
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=4, write_queue_nums=4, perm=6) for name in brokers
            ],
            broker_datas=[BrokerData(broker_name=name, broker_addrs=ids) for name, ids in brokers.items()],
        )
        return Command(0, body=data.encode())

    def asked(self):
        return [request.ext["topic"] for _, request in self.network.requests]


def scenario(function):
    async def run():
        servers = Servers()
        try:
            await function(servers)
        finally:
            await servers.instance.stop()

    asyncio.run(run())


with_servers = made_by(scenario)


@with_servers()
async def test_a_route_is_asked_for_once_and_again_when_it_is_refreshed(servers):
    first = await servers.routes.get("T")
    assert await servers.routes.get("T") is first
    assert servers.asked() == ["T"]
    assert await servers.routes.refresh("T") is first, "an equal route is the same object"
    servers.topics["T"] = {"b": {0: "b:9"}}
    assert await servers.routes.refresh("T") is not first
    assert servers.routes.master("b") == "b:9"
    [(_, request), *_] = servers.network.requests
    assert (request.code, request.ext["acceptStandardJsonOnly"]) == (105, "true")


@with_servers()
async def test_the_replica_that_is_asked_for_or_another_one_is_found(servers):
    await servers.routes.get("T")
    routes, queue = servers.routes, MessageQueue("T", "b", 0)
    assert (routes.queue_address(queue), routes.queue_address(queue, 1), routes.queue_master(queue)) == (
        "b:1", "b:2", "b:1",
    )  # fmt: skip
    assert (routes.broker_address("b", 5), routes.broker_address("b", 5, only_this=True)) == ("b:1", None)
    assert (routes.broker_address("x"), routes.master("x"), routes.broker_name("x:1")) == (None, None, None)
    assert (routes.broker_name("b:2"), routes.broker_addresses()) == ("b", {"b": {0: "b:1", 1: "b:2"}})
    assert routes.broker_of(MessageQueue("unknown", "x", 0)) == "x"
    servers.topics["T"] = {"b": {1: "b:2"}}
    await routes.refresh("T")
    assert (routes.master("b"), routes.broker_address("b"), routes.broker_address("b", only_this=True)) == (
        None, "b:2", None,
    )  # fmt: skip


@with_servers()
async def test_a_route_is_refreshed_when_it_is_too_old(servers):
    routes, loop = servers.routes, asyncio.get_running_loop()
    began = loop.time()
    for at, asked in ((0, 1), (4.5, 1), (5.5, 2), (10.0, 2), (11.0, 3)):
        await asyncio.sleep(max(0.0, began + at - loop.time()))
        assert (await routes.not_older_than("T", 5.0)).topic == "T"
        assert len(servers.asked()) == asked, at
    del servers.topics["T"]
    assert (await routes.not_older_than("T", 0.0)).topic == "T", "the name server may have just started"
    assert await routes.not_older_than("U", 0.0) is None
    servers.network.unreachable.add(NS)
    servers.network.transports[NS].close()
    await asyncio.sleep(0.01)
    with pytest.raises(NetworkError):
        await routes.not_older_than("T", 0.0)


@with_servers()
async def test_a_topic_that_does_not_exist_is_sent_to_where_another_one_would_make_it(servers):
    routes = servers.routes
    with pytest.raises(NoRouteError, match="'U'"):
        await routes.for_sending("U", 4)
    servers.topics["TBW102"] = {"b": {0: "b:1"}}
    made = await routes.for_sending("U", 2)
    assert (made.provisional, len(made.write_queues), routes.known("U"), routes.master("b")) == (True, 2, made, "b:1")
    del servers.topics["TBW102"]
    asked = len(servers.asked())
    assert await routes.for_sending("U", 2) is made
    assert servers.asked()[asked:] == ["U"], "it may exist by now"
    servers.topics["U"] = {"b": {0: "b:1"}}
    real = await routes.for_sending("U", 2)
    assert (real.provisional, len(real.write_queues), routes.known("U")) == (False, 4, real)


@with_servers()
async def test_the_latest_answer_says_where_a_broker_is_unless_its_topic_is_gone_since(servers):
    routes = servers.routes
    servers.topics["U"] = {"b": {0: "old:1"}}
    await routes.refresh("T")
    await routes.refresh("U")
    assert routes.master("b") == "old:1"
    del servers.topics["U"]
    for _ in range(2):
        with pytest.raises(NoRouteError):
            await routes.refresh("U")
        assert routes.master("b") == "b:1"
        assert routes.known("U") is not None
    servers.topics["U"] = {"b": {0: "new:1"}}
    await routes.refresh("U")
    assert routes.master("b") == "new:1"


@with_servers()
async def test_other_answers_of_a_name_server_say_what_is_wrong(servers):
    for code, error, says in (
        (16, PermissionDenied, "no"), (3, ConfigError, "ns:1 is not a name server"), (1, NoRouteError, "ns:1 answered"),
    ):  # fmt: skip
        servers.refusal = Command(code, remark="no")
        with pytest.raises(error, match=says):
            await servers.routes.get("T")


@with_servers()
async def test_refreshes_that_fail_are_logged_until_they_work_again(servers, caplog):
    for topics in ({"T", "U"}, set(), {"T"}):
        await servers.routes.refresh_all(topics)
    assert not caplog.records, "a topic without a route is no failure"
    servers.refusal = Command(16, remark="no")
    for _ in range(2):
        await servers.routes.refresh_all({"T"})
    servers.refusal = None
    for topics in (set(), {"T"}, {"T"}):
        await servers.routes.refresh_all(topics)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "routes are not refreshed, the known ones stay in use (1 topics)", "routes are refreshed again",
    ]  # fmt: skip
