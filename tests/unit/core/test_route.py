"""Routes: queues and addresses from a name server's answer."""

from __future__ import annotations

import re

import pytest

from rocketmq_py.arrow.remoting.queues import of_route, readable_number
from rocketmq_py.core.route import TopicRoute, auto_create_route, pick_address
from rocketmq_py.errors import BadHeader
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData


def queue(broker: str, read: int = 2, write: int = 2, perm: int = 6) -> QueueData:
    return QueueData(broker_name=broker, read_queue_nums=read, write_queue_nums=write, perm=perm)


def broker(name: str, **addresses: str) -> BrokerData:
    return BrokerData(broker_name=name, broker_addrs={int(i[1:]): address for i, address in addresses.items()})


def route(*queues: QueueData, brokers: tuple[BrokerData, ...], order: str | None = None) -> TopicRoute:
    return TopicRoute("t", TopicRouteData(queue_datas=list(queues), broker_datas=list(brokers), order_topic_conf=order))


A, B = broker("a", _0="a0:1", _1="a1:1"), broker("b", _0="b0:1")


def test_queues_are_ordered_and_selected_by_permission() -> None:
    found = route(queue("b", read=1, write=2), queue("a", read=3, write=1), brokers=(A, B))
    assert found.read_queues == [MessageQueue("t", "a", i) for i in range(3)] + [MessageQueue("t", "b", 0)]
    assert found.write_queues == [MessageQueue("t", "a", 0), MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)]


def test_a_read_only_broker_takes_no_messages_and_a_write_only_one_gives_none() -> None:
    found = route(queue("a", perm=4), queue("b", perm=2), brokers=(A, B))
    assert {q.broker_name for q in found.read_queues} == {"a"}
    assert {q.broker_name for q in found.write_queues} == {"b"}


def test_a_broker_without_master_can_be_read_but_not_written() -> None:
    found = route(queue("a"), brokers=(broker("a", _1="a1:1"),))
    assert len(found.read_queues) == 2
    assert found.write_queues == []


def test_an_order_topic_has_its_configured_queues() -> None:
    found = route(queue("a"), brokers=(A,), order="b:1;a:2")
    assert found.write_queues == [MessageQueue("t", "b", 0), MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)]


def test_a_route_of_the_default_topic_has_the_smaller_number_of_queues() -> None:
    lender = TopicRouteData(queue_datas=[queue("a", 8, 8), queue("b", 2, 2)], broker_datas=[A, B])
    found = TopicRoute("new", auto_create_route(lender, 4), provisional=True)
    assert [q.broker_name for q in found.write_queues] == ["a"] * 4 + ["b"] * 2
    assert found.read_queues == []
    assert "provisional" in repr(found)


@pytest.mark.parametrize(
    ("addresses", "wanted", "only", "found"),
    [
        ({0: "m", 1: "s"}, 0, False, "m"),
        ({0: "m", 1: "s"}, 1, False, "s"),
        ({0: "m", 2: "s2"}, 1, False, "s2"),  # the slave's successor
        ({1: "s"}, 0, False, "s"),
        ({1: "s"}, 0, True, None),
        ({0: "m"}, 3, False, "m"),
        ({}, 0, False, None),
    ],
)
def test_a_read_address_is_the_suggested_broker_or_the_master(
    addresses: dict[int, str], wanted: int, only: bool, found: str | None
) -> None:
    assert pick_address(addresses, wanted, only_this=only) == found


def test_routes_are_compared_by_content() -> None:
    assert route(queue("a"), brokers=(A,)) == route(queue("a"), brokers=(A,))
    assert route(queue("a"), brokers=(A,)) != route(queue("a", write=3), brokers=(A,))


MANY = 2**31 - 1


@pytest.mark.parametrize(
    ("queues", "order", "said"),
    [
        ([queue("a", read=MANY)], None, "the route of topic 't' has 2147483647 queues on broker 'a': at most 8192"),
        ([queue("b"), queue("a", write=8_193)], None, "8193 queues on broker 'a'"),
        ([queue("a")], f"a:{MANY}", "2147483647 queues on broker 'a'"),
        ([queue("a")], f"a:{'9' * 5_000}", "queues on broker 'a'"),
        ([queue(f"b{number}", 8_192, 8_192) for number in range(17)], None, "139264 queues on 17 brokers"),
    ],
)
def test_a_route_with_more_queues_than_there_can_be_is_refused(
    queues: list[QueueData], order: str | None, said: str
) -> None:
    with pytest.raises(BadHeader, match=re.escape(said)) as caught:
        route(*queues, brokers=(A, B), order=order)
    assert len(str(caught.value)) < 400
    with pytest.raises(BadHeader, match=re.escape(said)):
        of_route("t", TopicRouteData(queue_datas=queues, order_topic_conf=order), readable_number)


def test_a_topic_may_have_thousands_of_queues() -> None:
    assert len(route(queue("a", 8_192, 8_192), queue("b", -1, -1), brokers=(A, B)).read_queues) == 8_192


def test_numbers_of_an_order_topic_are_plain_digits() -> None:
    assert route(queue("a"), brokers=(A,), order="a:\u00b2;b:1").write_queues == [MessageQueue("t", "b", 0)]
