"""Notifications of changed groups are coalesced and sliced."""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.broker.cluster.member_notifier import MemberNotifier
from rocketmq_py.core.broker.client_registry import ConsumerRegistry, RegisteredClient
from rocketmq_py.protocol.bodies.client import ConsumerData
from rocketmq_py.server import Peer
from rocketmq_py.server.sliced_work import SlicedWork


class Group:
    """A group whose members count their notifications; time and turns of the loop are in the test's hands."""

    def __init__(self, budget: float = 1.0) -> None:
        self.now = 1_700_000_000_000
        self.steps = 0.0
        self.callbacks: list[Callable[[], None]] = []
        self.registry = ConsumerRegistry()
        slices = SlicedWork(self.callbacks.append, budget, self.tick)
        self.notifier = MemberNotifier(self.registry, slices, lambda: self.now)
        self.received: list[str] = []

    def tick(self) -> float:
        self.steps += 1
        return self.steps

    def join(self, name: str) -> None:
        peer = Peer(write=lambda _: self.received.append(name))
        self.registry.register(ConsumerData(group_name="g"), RegisteredClient(peer, name))
        self.notifier.changed("g")

    def turn(self, forward_ms: int = 0) -> list[str]:
        """One turn of the loop; who was notified."""
        self.now += forward_ms
        self.received.clear()
        self.notifier.tick(self.now)
        callbacks, self.callbacks[:] = self.callbacks[:], []
        for callback in callbacks:
            callback()
        return list(self.received)


def test_the_first_change_is_notified_at_once_and_the_next_ones_together() -> None:
    group = Group(budget=1000)
    group.join("a")
    assert group.turn() == ["a"]
    for name in ("b", "c", "d"):
        group.join(name)
    assert group.turn(99) == []
    assert group.turn(1) == ["a", "b", "c", "d"]
    assert group.turn(100) == []
    group.join("e")
    assert len(group.turn()) == 5


def test_many_members_are_notified_in_slices() -> None:
    group = Group(budget=3)
    for number in range(10):
        group.join(str(number))
    turns = []
    while notified := group.turn():
        turns.append(len(notified))
    assert sum(turns) == 10
    assert len(turns) > 2


def test_a_group_that_is_gone_is_not_notified() -> None:
    group = Group()
    group.join("a")
    group.registry.leave_all(next(iter(group.registry.groups["g"].members)))
    assert group.turn() == []
    assert group.turn(100) == []
    assert not group.notifier._notified_ms
