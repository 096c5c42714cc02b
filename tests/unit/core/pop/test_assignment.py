from __future__ import annotations

from rocketmq_py.core.consumer.allocation import Average
from rocketmq_py.core.pop.assignment import share_for_pop
from rocketmq_py.model import MessageQueue

QUEUES = [MessageQueue("T", broker, queue) for broker in ("a", "b") for queue in range(3)]
CLIENTS = ["c1", "c2", "c3", "c4"]


def share(me: str, number: int, clients: list[str] = CLIENTS, queues: list[MessageQueue] = QUEUES) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in share_for_pop(Average(), me, queues, clients, number)]


def test_each_client_pops_all_queues() -> None:
    for number in (0, -1, 3, 8):
        assert share("c1", number) == ["a-1", "b-1"]
    assert share("nobody", 0) == ["a-1", "b-1"]


def test_clients_get_their_own_queues_and_those_of_following_clients() -> None:
    assert share("c1", 1) == ["a0", "a1", "a2", "b0"]
    assert share("c3", 1) == ["b1", "b2"]
    assert share("c4", 2) == ["b2", "a0", "a1", "a2", "b0"]
    assert share("nobody", 1) == []


def test_clients_beyond_the_number_of_queues_share_queues() -> None:
    clients = [f"c{i}" for i in range(8)]
    assert share("c1", 2, clients) == ["a1"]
    assert share("c7", 2, clients) == ["a1"]
    assert share("nobody", 2, clients) == []
    assert share("c1", 2, clients, []) == []
