"""Pulls ahead against a broker that cuts, filters, grows and loses: each message is delivered once, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings, strategies as st

from rocketmq_py.core.consumer.pulls_ahead import NextPull, PullsAhead, PullsInFlight

BATCH = 8


@dataclass
class Broker:
    """A queue with messages at ``offsets``, of which those in ``matching`` pass the filter."""

    end: int
    matching: set[int]
    filtered: bool
    cuts: list[int]
    examines: int = 20
    held: int = 0
    asked: list[NextPull] = field(default_factory=list)

    def answer(self, pull: NextPull) -> tuple[list[int], int]:
        """The messages and the next offset, at most as many as the next cut says."""
        most = min(pull.number, self.cuts[len(self.asked) % len(self.cuts)]) if self.cuts else pull.number
        self.asked.append(pull)
        found, at = list[int](), pull.offset
        while at < self.end and len(found) < most and at - pull.offset < (self.examines if self.filtered else most):
            if at in self.matching:
                found.append(at)
            at += 1
        return found, at


@settings(max_examples=100)
@given(
    st.sampled_from([1, 2, 5, "auto"]),
    st.integers(1, 80),
    st.booleans(),
    st.lists(st.integers(1, BATCH), max_size=5),
    st.lists(st.sampled_from(["grow", "late", "full", "stop", "restart", "quick"]), max_size=20),
    st.randoms(use_true_random=False),
)
def test_each_message_once_in_order_within_flow_control(
    in_flight: PullsInFlight, end: int, filtered: bool, cuts: list[int], events: list[str], random: object
) -> None:
    chance = random.random  # type: ignore[attr-defined]
    matching = {at for at in range(end + 90) if not filtered or chance() < 0.4}
    broker = Broker(end, matching, filtered, cuts)
    ahead, got = PullsAhead(in_flight, BATCH), list[int]()
    most = 64 if in_flight == "auto" else in_flight
    room, offset = 1000, 0
    ahead.begin(0, filtered=filtered)
    under_way: deque[NextPull] = deque()

    def fill() -> None:
        asked = ahead.pulls(lambda coming: coming < room)
        under_way.extend(asked)
        in_order = sorted(under_way, key=lambda pull: pull.offset)
        under_way.clear()
        under_way.extend(in_order)
        assert len(under_way) <= most
        assert sum(pull.segment is None for pull in under_way) <= 1
        for pull in asked:
            assert 1 <= pull.number <= BATCH
            if pull.segment is not None:
                assert pull.offset < broker.end  # the broker never holds it
        offsets = [pull.offset for pull in under_way]
        assert len(offsets) == len(set(offsets))
        assert ahead.coming == sum(pull.segment.stop - pull.offset for pull in under_way if pull.segment is not None)

    fill()
    steps = deque(events)
    while offset < broker.end or steps:
        event = steps.popleft() if steps else ""
        if event == "grow":
            broker.end = min(broker.end + 30, end + 90)
        room = 3 if event == "full" else 0 if event == "stop" else 1000
        if event == "restart" or not under_way:
            under_way.clear()  # as after an error: answers under way are ignored
            ahead.begin(offset, filtered=filtered)
            room = 1000
            fill()
        pull = under_way.popleft()
        found, next_offset = broker.answer(pull)
        if next_offset == pull.offset:
            assert pull.segment is None  # the long poll at the end
            assert not under_way
            ahead.begin(offset, filtered=filtered)
            fill()
            continue
        assert pull.offset == offset
        offset = ahead.answered(pull.segment, next_offset, broker.end, size=100, waited=event != "quick")
        got += [at for at in found if at < offset]
        fill()
    assert got == sorted(at for at in matching if at < broker.end)
