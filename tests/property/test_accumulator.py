"""Batches of a producer: nothing is lost, sent twice or overtaken, and no limit is exceeded."""

from __future__ import annotations

import math

from hypothesis import given, settings, strategies as st

from rocketmq_py.core.producer.accumulator import Accumulator, BatchLimits, Lane, Linger, Parcel
from rocketmq_py.model import MessageQueue

TIMEOUT = 3.0
ORDERED = [Lane("t", MessageQueue("t", "b", number)) for number in range(2)]
LANES = [Lane("t"), Lane("u"), *ORDERED]
MAX_BYTES, MAX_MESSAGES = 100, 5

ADD = st.tuples(st.just("add"), st.integers(0, 3), st.integers(1, 120), st.sampled_from([None, "k", "k", "k", "l"]))
STEPS = st.lists(
    st.one_of(
        ADD,
        ADD,
        st.tuples(st.just("pass"), st.sampled_from([0.0, 0.001, 0.004, 0.02, 1.0, 4.0])),
        st.tuples(st.just("end"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("release"), st.sampled_from([None, "t"])),
    ),
    max_size=60,
)


class Producer:
    """Drives an accumulator as the batcher does, and checks everything that leaves."""

    def __init__(self, linger: Linger) -> None:
        self.linger = linger
        self.acc: Accumulator[tuple[int, Lane, int, object]] = Accumulator(BatchLimits(linger, MAX_BYTES, MAX_MESSAGES))
        self.now = 0.0
        self.number = 0
        self.came: dict[Lane, list[int]] = {lane: [] for lane in LANES}
        self.left: dict[Lane, list[int]] = {lane: [] for lane in LANES}
        self.late: set[int] = set()
        self.refused: set[int] = set()
        self.at: dict[int, float] = {}
        self.under_way: list[Parcel[tuple[int, Lane, int, object]]] = []

    def add(self, lane: Lane, size: int, kind: object) -> None:
        self.number += 1
        self.came[lane].append(self.number)
        self.at[self.number] = self.now
        entry = (self.number, lane, size, kind)
        self.leave(self.acc.add(lane, entry, size, kind, self.now, self.now + TIMEOUT))

    def leave(self, parcels: object) -> None:
        for parcel in parcels:  # type: ignore[attr-defined]
            sizes = [size for _, _, size, _ in parcel.entries]
            assert {lane for _, lane, _, _ in parcel.entries} == {parcel.lane}
            assert len({kind for *_, kind in parcel.entries}) == 1
            if len(parcel.entries) > 1:
                assert sum(sizes) <= MAX_BYTES
                assert len(parcel.entries) <= MAX_MESSAGES
                assert parcel.kind is not None
            if parcel.lane.queue is not None:
                assert all(other.lane != parcel.lane for other in self.under_way)
            for number, *_ in parcel.entries:
                assert number in self.refused or number not in self.left[parcel.lane]
                if number not in self.refused:
                    self.left[parcel.lane].append(number)
            self.under_way.append(parcel)

    def take(self) -> None:
        taken = self.acc.take(self.now)
        self.leave(taken.leaving)
        for parcel in taken.late:
            for number, *_ in parcel.entries:
                assert self.now >= self.at[number] + TIMEOUT or number in self.refused
                self.late.add(number)
        assert not self.acc.waits_for_turn
        assert self.acc.next_at > self.now
        if not self.under_way and isinstance(self.linger, float):
            assert self.acc.next_at <= self.now + self.linger or len(self.acc) == 0
        if not self.under_way and self.linger == "natural":
            assert len(self.acc) == 0  # nothing is under way, so nothing waits

    def end(self, which: int, *, refused: bool) -> None:
        if self.under_way:
            parcel = self.under_way.pop(which % len(self.under_way))
            self.acc.ended(parcel, self.now)
            if refused and len(parcel.entries) > 1:
                self.refused |= {number for number, *_ in parcel.entries}
                self.acc.put_back(parcel)

    def turn(self) -> None:
        if self.acc.waits_for_turn or self.acc.next_at <= self.now:
            self.take()


@settings(max_examples=300)
@given(st.sampled_from([0.005, 1.0, 2.5, "natural"]), STEPS)
def test_everything_leaves_once_in_order_within_all_limits(linger: Linger, steps: list[tuple[object, ...]]) -> None:
    producer = Producer(linger)
    for step in steps:
        match step:
            case "add", int(lane), int(size), kind:
                producer.add(LANES[lane], size, kind)
                if size % 2:
                    continue  # the next step is in the same turn of the event loop
            case "pass", float(seconds):
                until = producer.now + seconds
                while producer.acc.next_at <= until:
                    producer.now = max(producer.now, producer.acc.next_at)
                    producer.take()
                producer.now = until
            case "end", int(which), bool(refused):
                producer.end(which, refused=refused)
            case "release", topic:
                producer.acc.release(topic)  # type: ignore[arg-type]
        producer.turn()
    producer.acc.release()
    producer.take()
    while producer.under_way:
        producer.end(0, refused=False)
        producer.turn()
    assert len(producer.acc) == 0
    assert producer.acc.next_at == math.inf
    for lane, came in producer.came.items():
        expected = [number for number in came if number not in producer.late or number in producer.left[lane]]
        assert producer.left[lane] == expected
