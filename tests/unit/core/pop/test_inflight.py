from __future__ import annotations

from hypothesis import given, strategies as st

from rocketmq_py.core.pop.inflight import (
    REVIVE_AFTER_MS,
    TRY_AGAIN_SECONDS,
    InflightPops,
    has_no_retries_left,
    retry_check_point,
)
from rocketmq_py.protocol.pop_checkpoint import CheckPoint, decode_revive

NOW = 1_700_000_000_000
LATE = REVIVE_AFTER_MS + 256
"""How long after the invisible time messages are surely due."""


def check_point(start: int = 100, *, pop_time: int = NOW, invisible_ms: int = 60_000, bit_map: int = 0) -> CheckPoint:
    return CheckPoint(
        topic="T", group="g", queue_id=0, start_offset=start, pop_time=pop_time, broker_name="b",
        invisible_ms=invisible_ms, diffs=[0, 1, 3], count=3, bit_map=bit_map,
    )  # fmt: skip


def left(ledger: InflightPops, ck: CheckPoint | None = None) -> list[int]:
    one = ledger.find((ck or check_point()).key)
    return [] if one is None else one.left


def test_unacked_messages_are_due_after_their_invisible_time() -> None:
    ledger = InflightPops()
    ck = check_point()
    ledger.add(ck, 3, 7)
    ledger.ack(ck.key, [101])
    assert ledger.take_due(NOW + 60_000 + REVIVE_AFTER_MS - 1) == []
    [one] = ledger.take_due(NOW + 60_000 + LATE)
    assert one.left == [100, 103]
    assert (one.revive_queue, one.revive_offset) == (3, 7)
    assert ledger.take_due(NOW + 120_000) == []
    ledger.finish(ck.key)
    assert len(ledger) == 0


def test_an_acked_pop_is_never_due() -> None:
    ledger = InflightPops()
    ck = check_point()
    ledger.add(ck, 0, 0)
    ledger.ack(ck.key, [100, 101])
    assert left(ledger, ck) == [103]
    ledger.ack(ck.key, [103])
    assert ck.key not in ledger
    assert ledger.take_due(NOW + 3_600_000) == []


def test_bits_of_a_checkpoint_are_acks() -> None:
    ledger = InflightPops()
    ledger.add(check_point(bit_map=0b101), 0, 0)
    assert left(ledger) == [101]
    ledger.add(check_point(bit_map=0b111), 0, 1)
    assert len(ledger) == 0
    full = CheckPoint(topic="T", group="g", queue_id=0, start_offset=0, pop_time=NOW, broker_name="b", invisible_ms=1,
                      count=32, bit_map=-1)  # fmt: skip
    ledger.add(full, 0, 2)
    assert len(ledger) == 0


def test_only_messages_of_the_pop_that_are_not_acked_are_out() -> None:
    ledger = InflightPops()
    ledger.add(check_point(bit_map=0b010), 0, 0)
    one = ledger.find(check_point().key)
    assert one is not None
    assert [one.out(offsets) for offsets in ([100], [101], [102], [103], [99, 100, 101, 103])] == [1, 0, 0, 4, 5]


def test_acks_of_unknown_pops_and_offsets_change_nothing() -> None:
    ledger = InflightPops()
    ledger.ack(check_point().key, [100])
    ledger.add(check_point(), 0, 0)
    ledger.ack(check_point().key, [102])
    ledger.ack(check_point(start=5).key, [100])
    assert left(ledger) == [100, 101, 103]


def test_a_checkpoint_read_twice_counts_once() -> None:
    ledger = InflightPops()
    ledger.add(check_point(), 0, 0)
    ledger.add(check_point(), 0, 9)
    assert len(ledger) == 1
    assert ledger.first_offset(0) == 9
    assert len(ledger.take_due(NOW + 60_000 + LATE)) == 1


def test_the_revive_offset_stops_at_the_oldest_pop_in_flight() -> None:
    ledger = InflightPops()
    points = [check_point(start=10 * i) for i in range(3)]
    for i, ck in enumerate(points):
        ledger.add(ck, 1, 5 + i)
    assert (ledger.first_offset(1), ledger.first_offset(2)) == (5, None)
    ledger.finish(points[1].key)
    assert ledger.first_offset(1) == 5
    ledger.finish(points[0].key)
    assert ledger.first_offset(1) == 7


def test_a_pop_that_could_not_be_revived_is_retried() -> None:
    ledger = InflightPops()
    ledger.add(check_point(), 0, 0)
    now = NOW + 60_000 + LATE
    [one] = ledger.take_due(now)
    ledger.postpone(one, now + 1_000)
    assert ledger.first_offset(0) == 0
    assert ledger.take_due(now + 999) == []
    assert ledger.take_due(now + 1_256) == [one]


def test_unreadable_messages_get_a_later_checkpoint() -> None:
    ledger = InflightPops()
    ledger.add(check_point(), 0, 0)
    ledger.ack(check_point().key, [100])
    waits = []
    now = NOW + 60_000 + LATE
    for number in range(1, len(TRY_AGAIN_SECONDS) + 3):
        [one] = ledger.take_due(now)
        assert has_no_retries_left(one.check_point) == (number > len(TRY_AGAIN_SECONDS))
        again = retry_check_point(one, now)
        assert (again.key, again.tries, again.offsets) == (check_point().key, number, [101, 103])
        assert decode_revive("ck", again.encode()) == again
        ledger.add(again, 0, number)
        waits.append((again.revive_time - now) // 1000)
        assert ledger.take_due(again.revive_time) == []
        now = again.revive_time + LATE
    assert waits == [*TRY_AGAIN_SECONDS, 7200, 7200]
    ledger.ack(check_point().key, [100, 101])
    assert left(ledger) == [103]
    assert ledger.first_offset(0) == number


def test_a_finished_pop_is_not_retried() -> None:
    ledger = InflightPops()
    ledger.add(check_point(), 0, 0)
    now = NOW + 60_000 + LATE
    [one] = ledger.take_due(now)
    ledger.add(check_point(invisible_ms=120_000), 0, 1)
    ledger.postpone(one, now)
    assert ledger.take_due(now + 1_000) == []
    assert len(ledger.take_due(NOW + 120_000 + LATE)) == 1


def test_a_pop_read_late_holds_back_the_revive_offset() -> None:
    ledger = InflightPops()
    ledger.add(check_point(start=20), 1, 6)
    ledger.add(check_point(start=10), 1, 5)
    ledger.sort(1)
    ledger.sort(2)
    assert ledger.first_offset(1) == 5
    ledger.finish(check_point(start=10).key)
    assert ledger.first_offset(1) == 6


def test_a_pop_read_long_after_its_time_is_due_at_once() -> None:
    ledger = InflightPops()
    ledger.take_due(NOW)
    ck = check_point(pop_time=NOW - 3_600_000)
    ledger.add(ck, 0, 0)
    assert [one.check_point for one in ledger.take_due(NOW + 256)] == [ck]


def test_a_clock_set_back_loses_no_pop() -> None:
    ledger = InflightPops()
    ledger.add(check_point(), 0, 0)
    assert ledger.take_due(NOW + 50_000) == []
    assert ledger.take_due(NOW - 50_000) == []
    ledger.add(check_point(start=5, pop_time=NOW - 50_000, invisible_ms=1_000), 0, 1)
    assert len(ledger.take_due(NOW + 60_000 + LATE)) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 90_000), st.booleans()), max_size=30))
def test_each_pop_is_revived_once_or_acked(pops: list[tuple[int, int, bool]]) -> None:
    ledger = InflightPops()
    came: list[int] = []
    points = []
    for i, (queue, invisible, _) in enumerate(pops):
        ck = check_point(start=i * 10, invisible_ms=invisible)
        points.append(ck)
        ledger.add(ck, queue, i)
    for ck, (_, _, acked) in zip(points, pops, strict=True):
        if acked:
            ledger.ack(ck.key, ck.offsets)
    for step in range(0, 100_000, 1_000):
        for one in ledger.take_due(NOW + step):
            assert one.check_point.revive_time <= NOW + step
            came.append(one.check_point.start_offset)
            ledger.finish(one.check_point.key)
    assert sorted(came) == [i * 10 for i, (_, _, acked) in enumerate(pops) if not acked]
    assert len(ledger) == 0
    assert all(ledger.first_offset(queue) is None for queue in range(6))
