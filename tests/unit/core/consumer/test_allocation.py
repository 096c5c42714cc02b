"""Each rule of allocation by example, with the shares Java's classes give."""

import pytest

from rocketmq_py.core.consumer.allocation import (
    Allocation,
    Average,
    Circle,
    ConsistentHash,
    Fixed,
    MachineRoom,
    Nearby,
    check_allocation,
)
from rocketmq_py.model import MessageQueue


def queues(count, broker="broker-a"):
    return [MessageQueue("T", broker, i) for i in range(count)]


def ids(rule: Allocation, count: int, clients: int) -> list[list[int]]:
    names = [f"c{i}" for i in range(clients)]
    return [[queue.queue_id for queue in rule.allocate(name, queues(count), names)] for name in names]


@pytest.mark.parametrize(
    ("rule", "arguments", "name"),
    [
        (Average, {}, "AVG"),
        (Circle, {}, "AVG_BY_CIRCLE"),
        (Fixed, {"queues": ()}, "CONFIG"),
        (MachineRoom, {"rooms": frozenset()}, "MACHINE_ROOM"),
        (ConsistentHash, {}, "CONSISTENT_HASH"),
    ],
)
def test_each_rule_has_the_name_it_has_in_java_and_no_other(rule, arguments, name):
    assert rule(**arguments).name == name
    with pytest.raises(TypeError):
        rule(**arguments, name="another")


@pytest.mark.parametrize(
    ("count", "clients", "shares"),
    [
        (4, 1, [[0, 1, 2, 3]]),
        (4, 2, [[0, 1], [2, 3]]),
        (5, 2, [[0, 1, 2], [3, 4]]),
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (2, 3, [[0], [1], []]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
    ],
)
def test_average_gives_contiguous_shares(count, clients, shares):
    assert ids(Average(), count, clients) == shares


@pytest.mark.parametrize(
    ("count", "clients", "shares"),
    [(4, 2, [[0, 2], [1, 3]]), (5, 3, [[0, 3], [1, 4], [2]]), (2, 3, [[0], [1], []])],
)
def test_circle_deals_queues_in_turn(count, clients, shares):
    assert ids(Circle(), count, clients) == shares


@pytest.mark.parametrize("rule", [Average(), Circle(), ConsistentHash(), MachineRoom(frozenset({"r"}))])
def test_an_unknown_client_gets_no_queues(rule):
    assert rule.allocate("stranger", queues(4, "r@a"), ["c0", "c1"]) == []


def test_a_fixed_allocation_ignores_the_group():
    mine = tuple(queues(2))
    rule = Fixed(mine)
    assert rule.allocate("anyone", queues(4), []) == list(mine)
    assert check_allocation(mine, queues(1)) == [mine[1]]


def test_machine_room_allocates_only_brokers_of_its_rooms():
    near, far = queues(5, "r1@a"), [*queues(3, "r2@a"), *queues(1, "plain")]
    rule = MachineRoom(frozenset({"r1"}))
    assert rule.allocate("c0", [*near, *far], ["c0", "c1"]) == [near[0], near[1], near[4]]
    assert rule.allocate("c1", [*near, *far], ["c0", "c1"]) == [near[2], near[3]]


def test_consistent_hash_moves_only_the_queues_of_a_client_that_left():
    rule, all_queues, three = ConsistentHash(), queues(64), ["c0", "c1", "c2"]
    before = {name: set(rule.allocate(name, all_queues, three)) for name in three}
    after = {name: set(rule.allocate(name, all_queues, ["c0", "c1"])) for name in ("c0", "c1")}
    assert before["c0"] <= after["c0"]
    assert before["c1"] <= after["c1"]
    assert after["c0"] | after["c1"] == set(all_queues)


def test_nearby_allocates_a_room_to_its_members_and_other_queues_to_all():
    in_r1, in_r2 = queues(4, "r1-a"), queues(2, "r2-a")
    rule = Nearby(Average(), lambda queue: queue.broker_name.split("-")[0], lambda client: client.split("-")[0])
    clients = ["r1-x", "r1-y", "r3-z"]
    assert rule.name == "MACHINE_ROOM_NEARBY-AVG"
    assert rule.allocate("r1-x", [*in_r1, *in_r2], clients) == [*in_r1[:2], in_r2[0]]
    assert rule.allocate("r1-y", [*in_r1, *in_r2], clients) == [*in_r1[2:], in_r2[1]]
    assert rule.allocate("r3-z", [*in_r1, *in_r2], clients) == []
