"""The offset a slave reports for a popped queue: never beyond acked messages, and complete in the end."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from rocketmq_py.core.pop.checkpoint_offsets import CommittableOffsets, GroupQueue

PLACE = GroupQueue("g", "t", 0)
STEPS = st.lists(st.tuples(st.sampled_from(["pop", "again", "settle"]), st.integers(0, 30)), max_size=60)


@given(st.integers(0, 5), STEPS)
def test_the_committed_offset_stays_before_messages_in_flight(begin: int, steps: list[tuple[str, int]]) -> None:
    """Pops take some messages and pass over others; a message may be out more than once (kept invisible for longer)."""
    places, told, following = CommittableOffsets(), begin, begin
    out: Counter[int] = Counter()
    for step, number in steps:
        known = [offset for offset, times in sorted(out.items()) if times]
        if step == "pop":
            offsets = [following + i for i in range(number % 7) if number >> i & 1 or i == 0]
            places.add_popped(PLACE, offsets, told)
            out.update(offsets)
            following += number % 7
            told = places.set_next_offset(PLACE, following)
        elif step == "again" and known:
            offset = known[number % len(known)]
            places.add_popped(PLACE, [offset], told)
            out[offset] += 1
        elif step == "settle":
            offset = known[number % len(known)] if known else number
            settled = places.settle(PLACE, [offset])
            assert (settled is None) == (not known)
            told = told if settled is None else settled
            out[offset] -= offset in known
        left = [offset for offset, times in out.items() if times > 0]
        assert told == min([following, *left])
        assert len(places) == bool(left)
        assert places.next_offset(PLACE) == (following if left else None)


def test_the_committed_offset_never_decreases() -> None:
    """Messages before it are accounted for by whoever gave them out; places are apart."""
    places = CommittableOffsets()
    places.add_popped(PLACE, [3, 4], 5)
    assert places.settle(PLACE, [3]) is None
    places.add_popped(PLACE, [4, 5, 6], 5)
    assert places.settle(PLACE, [4, 9]) == 5
    assert places.next_offset(PLACE._replace(queue_id=1)) is None
    assert places.set_next_offset(PLACE._replace(queue_id=1), 7) == 7
    places.forget(PLACE)
    assert places.set_next_offset(PLACE, 2) == 2


def test_finished_pops_leave_no_offsets() -> None:
    places = CommittableOffsets()
    places.add_popped(PLACE, [0], 0)
    places.clear()
    assert not len(places)
    assert places.settle(PLACE, [0]) is None
