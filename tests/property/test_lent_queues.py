"""Queues that are lent to the accelerator have the entries that they have without it, whatever else uses them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.broker.stats import BROKER_PUT_NUMS, BROKER_PUT_NUMS_OF_USERS, TOPIC_PUT_NUMS, TOPIC_PUT_SIZE
from rocketmq_py.server import Peer
from rocketmq_py.store.queue import lent_queues
from rocketmq_py.store.queue.lent_queues import KINDS_OF_A_QUEUE, LONGEST_KIND
from tests.accelerated import needs_accelerator
from tests.examples import examples
from tests.property.test_send_runs import PEER, Pair, plain_send
from tests.unit.broker.harness import InProcess

pytestmark = needs_accelerator

Step = Callable[["LentPair"], None]
ODD = "DELAY\x012\x02"
"""Properties of a message that is not plain."""


class LentPair(Pair):
    """Two brokers, of which one lends; they are compared only when a step says so."""

    def __init__(self) -> None:
        self.compares = False
        super().__init__()
        lent = self.fast.services.store.lent
        assert lent is not None
        self.lent = lent

    def state(self, running: InProcess) -> list[object]:
        return super().state(running) if self.compares else []

    def both(self) -> tuple[InProcess, InProcess]:
        return self.plain, self.fast

    def compare(self) -> None:
        self.compares = True
        assert self.state(self.plain) == self.state(self.fast)
        assert counts(self.plain) == counts(self.fast)
        self.compares = False


def counts(running: InProcess) -> list[object]:
    """What is counted of all messages, and of those of each topic."""
    stats = running.services.stats
    names = [(TOPIC_PUT_NUMS, "t"), (TOPIC_PUT_SIZE, "t"), (BROKER_PUT_NUMS, "DefaultCluster")]
    names.append((BROKER_PUT_NUMS_OF_USERS, "DefaultCluster"))
    items = [stats.find(*name) for name in names]
    return [stats.put.count, *[(item.value, item.times) for item in items if item is not None]]


def read(sends: list[tuple[int, bool]]) -> Step:
    """A read of sends to queues, which may be not plain."""
    return lambda pair: pair.feed(b"".join(plain_send(q, f"K{q}", ODD if odd else "") for q, odd in sends))


def look_up(queue: int) -> Step:
    def step(pair: LentPair) -> None:
        ranges = [running.services.store.queue_range("t", queue) for running in pair.both()]
        entries = [running.services.store.queue_entries("t", queue, 0, 1000) for running in pair.both()]
        assert ranges[0] == ranges[1]
        assert entries[0] == entries[1]

    return step


def spill(pair: LentPair) -> None:
    for running in pair.both():
        running.services.store._queues.spill()


def fail(pair: LentPair) -> None:
    """A read that cannot be written, and becomes readable with the next one."""
    for running in pair.both():
        running.services._fs.failing.add("write")
    pair.feed(plain_send(0, "A") + plain_send(1, "B"))
    for running in pair.both():
        running.services._fs.failing.clear()
        running.services.store.commit_pending()


def forget(pair: LentPair) -> None:
    for running in pair.both():
        running.services.sender.targets.forget()


def delete(pair: LentPair) -> None:
    for running in pair.both():
        running.services.store.delete_topic("t")


def wait(pair: LentPair) -> None:
    """From now on, or no longer, somebody waits for messages."""
    before = pair.lent.is_awaited()
    pair.lent.is_awaited = lambda: not before


def compare(pair: LentPair) -> None:
    pair.compare()


def vary(count: int) -> Step:
    """Sends to one queue, each with another property."""
    return lambda pair: pair.feed(b"".join(plain_send(0, "V", f"order\x01{number}\x02") for number in range(count)))


plain = st.lists(st.tuples(st.integers(0, 2), st.just(False)), min_size=1, max_size=8).map(read)
mixed = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=5).map(read)
others: st.SearchStrategy[Step] = st.sampled_from([spill, fail, forget, delete, wait, compare])
varied = st.integers(1, KINDS_OF_A_QUEUE * 2).map(vary)
steps = st.one_of(plain, plain, plain, mixed, varied, st.integers(0, 2).map(look_up), others)


@given(st.lists(steps, max_size=12))
@settings(max_examples=examples(200))
def test_lent_queues_have_what_others_have(taken: list[Step]) -> None:
    both = LentPair()
    try:
        for step in taken:
            step(both)
        both.compare()
    finally:
        both.plain.services.close()
        both.fast.services.close()
    both.compares = True
    assert files(both.plain) == files(both.fast)


def files(running: InProcess) -> dict[str, bytes]:
    nodes = running.services._fs.nodes
    return {str(path): bytes(node.content) for path, node in nodes.items() if "consumequeue" in str(path)}


def test_a_run_goes_to_lent_queues() -> None:
    """That the property above compares something: sends to known queues are appended without objects of queues."""
    both = LentPair()
    sends = b"".join(plain_send(queue, "A") for queue in (0, 1, 0))
    both.feed(sends)
    both.feed(sends)
    table = both.fast.services.store._queues.by_key
    queue = dict.get(table, ("t", 0))
    assert queue is not None
    assert queue.is_lent
    assert (queue.max_offset, table["t", 0].max_offset) == (1, 5)
    assert not queue.is_lent
    both.plain.services.close()
    both.fast.services.close()


def is_lent(pair: LentPair, *properties: str) -> bool:
    """Send messages with these properties twice; return whether their queue is lent then."""
    for _ in range(2):
        pair.feed(b"".join(plain_send(0, "A", others) for others in properties))
    queue = dict.get(pair.fast.services.store._queues.by_key, ("t", 0))
    assert queue is not None
    return queue.is_lent


def test_properties_of_applications_need_not_be_noted() -> None:
    """They may differ in each message, and so may sharding keys."""
    both = LentPair()
    assert is_lent(both, "p\x01" + "x" * 2 * LONGEST_KIND + "\x02")
    for name in "order", "__SHARDINGKEY", "CORRELATION_ID":
        assert is_lent(both, *(f"{name}\x01{number}\x02" for number in range(KINDS_OF_A_QUEUE + 1)))


def test_what_is_noted_of_properties_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With tags, for example, that differ in every message the accelerator would note them without end."""
    both = LentPair()
    name = "INSTANCE_ID\x01"
    room = LONGEST_KIND - len(f"TAGS\x01A\x02{name}\x02")
    assert is_lent(both, name + "x" * room + "\x02")
    assert not is_lent(both, name + "x" * (room + 1) + "\x02")
    kinds = [f"{name}{number}\x02" for number in range(KINDS_OF_A_QUEUE)]
    assert is_lent(both, *kinds[1:])
    assert not is_lent(both, kinds[0])
    forget(both)
    assert is_lent(both, *kinds)
    monkeypatch.setattr(lent_queues, "MOST_KINDS", KINDS_OF_A_QUEUE)
    assert is_lent(both, "p\x01x\x02"), "all are forgotten when there are too many"
    both.compare()
    both.plain.services.close()
    both.fast.services.close()


def test_those_who_wait_are_told_of_each_queue() -> None:
    both = LentPair()
    told: list[tuple[int, int, int, int]] = []
    store = both.fast.services.store
    sends = b"".join(plain_send(queue, "A") for queue in (0, 1, 0))
    both.feed(sends)
    both.lent.is_awaited = lambda: True
    store._on_arrival = lambda found: told.extend(
        (one.queue_id, one.queue_offset, one.next_offset, len(one.tags_codes)) for one in found
    )
    both.peer = Peer(PEER, ("127.0.0.1", 10_911))
    both.fast.dispatcher.serve(both.peer, both._runs.feed(sends))
    assert sorted(told) == [(0, 3, 5, 2), (1, 2, 3, 1)]
    both.plain.services.close()
    both.fast.services.close()
