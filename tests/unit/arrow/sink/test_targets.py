"""Which queue a message goes to, and how many requests are in flight."""

from __future__ import annotations

import pytest

from rocketmq_py.arrow.remoting.queues import Addresses, QueueRoutes
from rocketmq_py.arrow.sink.targets import InflightLimit, TopicQueues
from rocketmq_py.errors import ConfigError, NoRouteError
from rocketmq_py.model import MessageQueue

A = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(4)]
B = [MessageQueue("T", "broker-b", queue_id) for queue_id in range(2)]


def queues(*members: MessageQueue) -> TopicQueues:
    addresses = {"broker-a": Addresses("a:1"), "broker-b": Addresses(None, ((1, "b:2"),))}
    return TopicQueues(QueueRoutes({queue: addresses[queue.broker_name] for queue in members}))


@pytest.mark.parametrize(("key", "hash_code"), [("a", 97), ("abc", 96354), ("hello", 99162322), ("Aa", 2112)])
def test_a_sharding_key_selects_the_queue_of_its_java_hash(key: str, hash_code: int) -> None:
    topic = queues(*reversed(A))
    assert {topic.bound(key, None) for _ in range(8)} == {A[hash_code % 4]}
    assert topic.bound("", None) == A[0], "an empty key is one, too"


def test_a_message_without_a_key_may_go_to_any_queue() -> None:
    assert queues(*A).bound(None, None) is None


def test_a_queue_id_takes_precedence_over_a_sharding_key() -> None:
    topic = queues(*A, *B)
    assert topic.bound("abc", 1) == A[1]
    with pytest.raises(ConfigError, match="topic T has no queue 9"):
        topic.bound(None, 9)


def test_queues_are_used_in_turn_and_those_of_a_failed_broker_are_avoided() -> None:
    topic = queues(*A[:2], *B)
    assert [topic.next(None) for _ in range(4)] == [A[1], B[0], B[1], A[0]]
    assert {topic.next(A[0]) for _ in range(4)} == set(B)
    alone = queues(*A[:2])
    assert {alone.next(A[0]) for _ in range(4)} == set(A[:2]), "there is no other broker"


def test_a_queue_without_a_master_takes_no_messages() -> None:
    topic = queues(*A, *B)
    assert topic.address(A[3]) == "a:1"
    for queue in (B[0], MessageQueue("T", "broker-c", 0)):
        with pytest.raises(NoRouteError, match=f"no master of {queue.broker_name} is registered"):
            topic.address(queue)


def test_a_busy_broker_halves_the_requests_in_flight_and_successes_raise_them() -> None:
    limit = InflightLimit(8)
    limit.busy()
    assert int(limit) == 4
    for _ in range(5):
        limit.busy()
    assert int(limit) == 1
    for _ in range(100):
        limit.taken()
    assert int(limit) == 8
