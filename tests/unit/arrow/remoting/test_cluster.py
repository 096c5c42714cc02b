"""What a planner asks name servers and brokers: many questions at a time, each answered once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing, nullcontext
from types import SimpleNamespace

import pytest

from rocketmq_py.arrow.options.selection import Topics
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.cluster import Cluster, Request
from rocketmq_py.arrow.remoting.message_sizes import message_sizes
from rocketmq_py.arrow.remoting.parallel import at_once
from rocketmq_py.arrow.remoting.queues import Addresses, QueueRoutes
from rocketmq_py.errors import NetworkError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.arrow.scripted import answer, scripted

MANY = 600
"""More topics than requests are in flight."""


def by_queue(request: Command) -> Command:
    """The offset of a queue is its number, its earliest 0."""
    return answer(offset=0 if request.code == RequestCode.GET_MIN_OFFSET else request.ext["queueId"])


def test_the_routes_of_many_topics_are_asked_on_one_connection() -> None:
    names = tuple(f"t{number}" for number in range(MANY))
    with scripted(by_queue, queues=2) as peer, closing(Cluster((peer.address,), 10, 0)) as cluster:
        found = cluster.selected(Topics(names))
        assert [request.ext["topic"] for request in peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)] == list(names)
    assert set(found.addresses) == {MessageQueue(name, "broker-a", queue) for name in names for queue in (0, 1)}


def test_a_missing_topic_among_many_is_named_or_left_out() -> None:
    with scripted(by_queue) as peer, closing(Cluster((peer.address,), 10, 0)) as cluster:
        peer.not_yet["gone"] = 2
        with pytest.raises(NoRouteError, match="topic 'gone' does not exist"):
            cluster.selected(Topics(("there", "gone", "also")))
        found = cluster.selected(Topics(("there", "gone", "also")), missing=True)
    assert {queue.topic for queue in found.addresses} == {"there", "also"}


def test_another_name_server_answers_all_if_one_refuses_some() -> None:
    with scripted(by_queue) as good, scripted(by_queue) as bad:
        respond = bad.respond
        bad.respond = lambda request: (  # type: ignore[method-assign]
            answer(ResponseCode.SYSTEM_ERROR) if request.ext["topic"] == "b" else respond(request)
        )
        with closing(Cluster((bad.address, good.address), 10, 0)) as cluster:
            assert len(cluster.selected(Topics(("a", "b"))).addresses) == 2
        assert len(good.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 2


def test_brokers_are_asked_at_the_same_time() -> None:
    """Each of two brokers answers only when the other has been asked."""
    together = threading.Barrier(2)

    def meet(request: Command) -> Command:
        if request.ext["queueId"] == "0":
            together.wait(10)
        return by_queue(request)

    with scripted(meet) as one, scripted(meet) as two:
        queues = QueueRoutes(
            {
                MessageQueue("t", name, number): Addresses(peer.address, (), name)
                for name, peer in (("a", one), ("b", two))
                for number in range(MANY)
            }
        )
        with closing(Cluster((one.address,), 10, 0)) as cluster:
            latest = cluster.latest(queues)
    assert latest == {queue: queue.queue_id for queue in queues.addresses}


def test_two_names_of_one_broker_take_turns_on_its_connection() -> None:
    with scripted(by_queue) as peer, closing(Cluster((peer.address,), 10, 0)) as cluster:
        queues = QueueRoutes(
            {
                MessageQueue("t", name, number): Addresses(peer.address, (), name)
                for name in ("a", "b", "c")
                for number in range(MANY)
            }
        )
        assert cluster.latest(queues) == {queue: queue.queue_id for queue in queues.addresses}


def test_a_broker_that_closes_in_between_is_an_error() -> None:
    def most(request: Command) -> Command | None:
        return None if request.ext["queueId"] == "400" else by_queue(request)

    with scripted(most, queues=MANY) as peer, closing(Cluster((peer.address,), 10, 0)) as cluster:
        queues = cluster.readable(["t"])
        with pytest.raises(NetworkError):
            cluster.latest(queues)


def test_the_first_error_of_several_threads_is_raised() -> None:
    def work(number: int) -> int:
        if number > 2:
            raise ValueError(number)
        return number

    assert at_once(work, [0, 1, 2]) == [0, 1, 2]
    with pytest.raises(ValueError, match="3"):
        at_once(work, [1, 2, 3, 4])


def test_the_size_of_messages_is_that_of_some_in_the_middle() -> None:
    def pulled(request: Command) -> Command:
        number = 4 if request.ext["topic"] == "t" else 0
        found = {"suggestWhichBrokerId": 0, "nextBeginOffset": int(request.ext["queueOffset"]) + number}
        if request.ext["topic"] == "gone":
            return answer(ResponseCode.PULL_OFFSET_MOVED, **found, minOffset=0, maxOffset=100)
        return answer(body=b"x" * 1000, **found, minOffset=0, maxOffset=100)

    with scripted(pulled) as peer, closing(Cluster((peer.address,), 10, 0)) as cluster:
        wanted = [QueueRange(MessageQueue(topic, "broker-a", 0), 10, 90) for topic in ("t", "gone", "empty")]
        queues = QueueRoutes({one.queue: Addresses(peer.address) for one in wanted})
        assert message_sizes(cluster, wanted, queues, "g") == {"t": 250.0}
        asked = peer.asked(RequestCode.PULL_MESSAGE)
        assert {request.ext["queueOffset"] for request in asked} == {"50"}
        peer.script = lambda _: None
        assert message_sizes(cluster, wanted, queues, "g") == {}, "the read itself says what fails"
        assert message_sizes(cluster, wanted, QueueRoutes({}), "g") == {}


class Counting:
    """A connection that answers in turn and remembers how many requests were in flight at most."""

    def __init__(self) -> None:
        self.sent = self.received = self.most = 0

    def send(self, requests: Sequence[Request]) -> list[int]:
        first, self.sent = self.sent, self.sent + len(requests)
        self.most = max(self.most, self.sent - self.received)
        return list(range(first, self.sent))

    def receive(self) -> SimpleNamespace:
        assert self.received < self.sent
        self.received += 1
        return SimpleNamespace(opaque=self.received - 1)


def test_as_many_requests_are_in_flight_as_a_server_may_leave_unread() -> None:
    counting = Counting()
    with closing(Cluster(("ns:1",), 10, 0)) as cluster:
        cluster._connections = SimpleNamespace(  # type: ignore[assignment]
            lock=lambda address: nullcontext(), to=lambda address: counting, close=lambda: None
        )
        requests: list[Request] = [(RequestCode.GET_MAX_OFFSET, {}, b"")] * 1_000
        assert [answer.opaque for answer in cluster.exchange("b:1", requests)] == list(range(1_000))
    assert counting.most == 256
