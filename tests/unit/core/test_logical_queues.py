"""Logical queues of static topics in routes: which there are, and which broker serves each."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.arrow.remoting.queues import of_route, readable_number
from rocketmq_py.core.logical_queues import NO_BROKER, broker_of, is_logical, leaders_of, mock_broker_name
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import BadHeader
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData

MOCK = "__syslo__global__"


def mapping(broker: str, *queues: int, total: int = 3, epoch: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "topic": "t", "scope": "__global__", "bname": broker, "totalQueues": total, "epoch": epoch, "dirty": False,
        "currIdMap": {str(number): 0 for number in queues}, **more,
    }  # fmt: skip


def data(*mappings: dict[str, Any], order: str | None = None) -> TopicRouteData:
    brokers = [BrokerData(broker_name=name, broker_addrs={0: f"{name}:1"}) for name in "ab"]
    queues = [QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=6) for name in "ab"]
    by_broker = {each["bname"]: each for each in mappings}
    return TopicRouteData(
        queue_datas=queues, broker_datas=brokers, topic_queue_mapping_by_broker=by_broker, order_topic_conf=order
    )


def logical(number: int) -> MessageQueue:
    return MessageQueue("t", MOCK, number)


def test_the_name_of_the_mock_broker_is_javas() -> None:
    assert mock_broker_name("__global__") == MOCK
    assert mock_broker_name("other") == "__syslo__other"
    assert is_logical(logical(0))
    assert not is_logical(MessageQueue("t", "a", 0))


def test_the_mapping_with_the_highest_epoch_says_who_leads() -> None:
    route = data(mapping("a", 0, 1, epoch=2), mapping("b", 1, epoch=3))
    assert leaders_of("t", route) == {logical(0): "a", logical(1): "b", logical(2): NO_BROKER}
    assert leaders_of("t", data()) == {}


def test_a_static_topic_has_its_logical_queues_only() -> None:
    route = TopicRoute("t", data(mapping("b", 2, 0), mapping("a", 1)))
    assert route.read_queues == route.write_queues == [logical(0), logical(1), logical(2)]
    assert [route.broker_of(queue) for queue in route.read_queues] == ["b", "a", "b"]
    assert route.broker_of(MessageQueue("t", "a", 0)) == "a", "as results of sends name it"
    assert broker_of(logical(3), route.leaders) == NO_BROKER


def test_a_static_topic_without_queues_has_none() -> None:
    route = TopicRoute("t", data(mapping("a", total=0)))
    assert (route.read_queues, route.write_queues) == ([], [])


def test_the_queues_of_an_order_topic_are_written() -> None:
    route = TopicRoute("t", data(mapping("a", 0), order="a:1"))
    assert route.write_queues == [MessageQueue("t", "a", 0)]


def test_a_queue_that_moves_changes_the_route() -> None:
    before, after = (
        TopicRoute("t", data(mapping("a", 0), mapping("b"))),
        TopicRoute("t", data(mapping("b", 0, epoch=2))),
    )
    assert before != after


def test_spark_gets_the_brokers_that_lead() -> None:
    found = of_route("t", data(mapping("a", 0), mapping("b", 1)), readable_number)
    assert {queue: at.broker for queue, at in found.items()} == {logical(0): "a", logical(1): "b"}
    assert found[logical(1)].master == "b:1"


@pytest.mark.parametrize(
    "mappings",
    [
        [mapping("a", total=1 << 31)],
        [mapping(str(number), scope=str(number)) for number in range(17)],
        [mapping("a", totalQueues="many")],
        [{"bname": "a"}],
    ],
    ids=["queues", "scopes", "type", "missing"],
)
def test_a_hostile_mapping_is_refused(mappings: list[dict[str, Any]]) -> None:
    with pytest.raises(BadHeader):
        TopicRoute("t", data(*mappings))
