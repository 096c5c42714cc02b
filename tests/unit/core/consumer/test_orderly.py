"""Orderly consumption without a broker and without a clock: queue, run and verdicts."""

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.core.consumer import orderly
from rocketmq_py.core.consumer.orderly import (
    OrderedQueue,
    OrderlyRun,
    RunEnd,
    decide_batch,
    read_orderly_result,
    suspend_seconds,
)
from rocketmq_py.model import ConsumeResult, MessageExt, MessageQueue, OrderlyResult

QUEUE = MessageQueue("T", "broker-a", 0)
SUCCESS, COMMIT, ROLLBACK, SUSPEND = (
    OrderlyResult.SUCCESS, OrderlyResult.COMMIT, OrderlyResult.ROLLBACK, OrderlyResult.SUSPEND,
)  # fmt: skip


def of(*offsets, body=b"xy"):
    return [
        MessageExt((0, 0, 0, 0, 0, i, i, 0, 0, bytes(8), 0, bytes(8), 0, 0, len(body)), "T", body, b"") for i in offsets
    ]


def queue_with(*offsets, now=0.0):
    queue = OrderedQueue(QUEUE, now)
    queue.lock(now)
    queue.put(of(*offsets))
    return queue


def run_of(queue, size=1):
    return OrderlyRun(queue, queue.waiting(), size)


def offsets_of(messages):
    return [message.queue_offset for message in messages]


def consume(run, *results, auto_commit=True, now=0.0):
    """Takes a run through batches with the given results; returns the offsets of each batch it gave."""
    given_out = []
    for result in results:
        batch = run.next(now)
        given_out.append(offsets_of(batch))
        run.report(batch, result, auto_commit=auto_commit)
    return given_out


# -- the lock


def test_a_lock_is_valid_for_thirty_seconds_after_its_request():
    queue = OrderedQueue(QUEUE, 0.0)
    assert not queue.is_usable(0.0)
    queue.lock(100.0)
    assert queue.is_usable(130.0)
    assert not queue.is_usable(130.1)
    queue.lock(120.0)
    assert queue.is_usable(150.0)
    queue.unlock()
    assert not queue.is_usable(120.0)


def test_a_client_stops_before_its_lock_expires_at_the_broker():
    from rocketmq_py.core.broker.lock_table import MAX_LIVE_MS

    assert orderly.LOCK_REFRESH < orderly.LOCK_LIVE < MAX_LIVE_MS / 1000


def test_a_broadcasting_consumer_needs_no_lock():
    assert OrderedQueue(QUEUE, 0.0, needs_lock=False).is_usable(1e9)


# -- verdicts


@pytest.mark.parametrize(
    ("result", "auto", "by_hand"),
    [
        (SUCCESS, "COMMIT", "KEEP"),
        (COMMIT, "COMMIT", "COMMIT"),
        (ROLLBACK, "COMMIT", "ROLLBACK"),
        (SUSPEND, "SUSPEND", "SUSPEND"),
    ],
)
def test_results_are_interpreted_with_and_without_auto_commit(result, auto, by_hand):
    assert decide_batch(result, auto_commit=True).name == auto
    assert decide_batch(result, auto_commit=False).name == by_hand


def test_listeners_may_return_each_documented_result():
    assert read_orderly_result(None) is SUCCESS
    assert read_orderly_result(ConsumeResult.SUCCESS) is SUCCESS
    assert read_orderly_result(ConsumeResult.RECONSUME_LATER) is SUSPEND
    assert read_orderly_result(ROLLBACK) is ROLLBACK
    assert read_orderly_result("yes") is None


def test_pauses_are_clamped():
    assert suspend_seconds(None, 1.0) == 1.0
    assert suspend_seconds(5.0, 1.0) == 5.0
    assert suspend_seconds(0.0, 1.0) == 0.01
    assert suspend_seconds(3600.0, 1.0) == 30.0


# -- runs


def test_messages_come_in_order_and_move_the_offset():
    queue = queue_with(3, 4, 7)
    run = run_of(queue, size=2)
    assert consume(run, SUCCESS) == [[3, 4]]
    assert run.settle() == (2, 7)
    assert (queue.count, queue.size, queue.min_offset) == (1, 2, 7)
    assert consume(run, SUCCESS) == [[7]]
    assert run.next(0.0) is None
    assert run.end is RunEnd.EMPTY
    assert run.settle() == (1, 8)
    assert run.settle() == (0, None)
    assert (queue.count, queue.size) == (0, 0)


def test_messages_that_arrive_during_a_run_wait_for_the_next():
    queue = queue_with(0, 1)
    run = run_of(queue)
    consume(run, SUCCESS)
    queue.put(of(2))
    consume(run, SUCCESS)
    assert run.next(0.0) is None
    assert run.settle() == (2, 2)
    assert offsets_of(queue.waiting()) == [2]


def test_a_failed_batch_ends_the_run_and_is_first_in_the_next():
    queue = queue_with(0, 1, 2)
    run = run_of(queue)
    consume(run, SUCCESS, SUSPEND)
    assert run.next(0.0) is None
    assert (run.end, offsets_of(run.failed)) == (RunEnd.SUSPEND, [1])
    assert run.settle() == (1, 1)
    assert consume(run_of(queue), SUCCESS, SUCCESS) == [[1], [2]]


def test_without_auto_commit_the_offset_moves_only_at_a_commit():
    queue = queue_with(0, 1, 2, 3)
    run = run_of(queue)
    consume(run, SUCCESS, SUCCESS, auto_commit=False)
    assert run.settle() == (2, None)
    assert (queue.count, queue.size, offsets_of(queue.kept), offsets_of(queue.waiting())) == (4, 8, [0, 1], [2, 3])
    assert queue.min_offset == 0
    consume(run, COMMIT, auto_commit=False)
    assert run.settle() == (1, 3)
    assert (queue.count, queue.size, queue.kept) == (1, 2, [])


def test_a_commit_covers_messages_of_earlier_runs():
    queue = queue_with(0, 1)
    first = run_of(queue)
    consume(first, SUCCESS, SUCCESS, auto_commit=False)
    first.settle()
    queue.put(of(2, 3))
    second = run_of(queue)
    consume(second, COMMIT, SUCCESS, auto_commit=False)
    assert second.settle() == (2, 3)
    assert (offsets_of(queue.kept), queue.count, queue.size) == ([3], 1, 2)


def test_a_rollback_redelivers_everything_since_the_last_commit():
    queue = queue_with(0, 1, 2, 3)
    run = run_of(queue)
    consume(run, COMMIT, SUCCESS, ROLLBACK, auto_commit=False)
    assert (run.next(0.0), run.end) == (None, RunEnd.ROLLBACK)
    assert run.settle() == (2, 1)
    queue.rollback()
    assert consume(run_of(queue), COMMIT, COMMIT, COMMIT) == [[1], [2], [3]]
    assert queue.count == 3


def test_a_run_stops_when_the_queue_is_dropped_or_the_consumer_closes():
    for stop in ("dropped", "closing"):
        queue = queue_with(0, 1)
        run = run_of(queue)
        consume(run, SUCCESS)
        queue.dropped, run.stopped = stop == "dropped", stop == "closing"
        assert (run.next(0.0), run.end) == (None, RunEnd.STOPPED)


def test_a_run_stops_when_its_lock_expires_or_is_lost():
    queue = queue_with(0, 1, 2)
    run = run_of(queue)
    consume(run, SUCCESS, now=30.0)
    assert (run.next(30.1), run.end) == (None, RunEnd.UNLOCKED)
    queue.lock(30.1)
    run = run_of(queue)
    consume(run, SUCCESS, now=30.2)
    queue.unlock()
    assert (run.next(30.2), run.end) == (None, RunEnd.UNLOCKED)


def test_a_run_ends_after_a_minute():
    queue = queue_with(0, 1, 2)
    run = run_of(queue)
    consume(run, SUCCESS)
    queue.lock(60.0)
    consume(run, SUCCESS, now=60.0)
    queue.lock(61.0)
    assert (run.next(61.0), run.end) == (None, RunEnd.TIME)


def test_a_discarded_message_frees_space_without_a_commit():
    queue = queue_with(0, 1, 2)
    run = run_of(queue)
    consume(run, SUCCESS, auto_commit=False)
    run.settle()
    queue.discard(of(1))
    assert (queue.count, queue.size, offsets_of(queue.waiting())) == (2, 4, [2])
    queue.rollback()
    assert offsets_of(queue.waiting()) == [0, 2]


def test_messages_a_broker_sends_again_are_counted_once():
    queue = queue_with(0, 1, 2)
    queue.keep(of(0))
    queue.put(of(1, 2, 3))
    assert (queue.count, queue.size, offsets_of(queue.waiting())) == (4, 8, [1, 2, 3])


@given(
    st.lists(st.tuples(st.sampled_from(list(OrderlyResult)), st.booleans()), max_size=60),
    st.integers(1, 4),
    st.integers(1, 12),
    st.booleans(),
)
def test_any_listener_results_keep_all_messages_in_order(results, size, chunk, settles_often):
    """After any results: each delivery is the successor of the one before it or goes back, and the committed offset is
    never beyond what was consumed."""
    queue, next_pull, committed, done_to = queue_with(), 0, 0, 0
    script = iter(results)
    expected = 0
    while (said := next(script, None)) is not None:
        queue.put(of(*range(next_pull, next_pull + chunk)))
        next_pull += chunk
        run = run_of(queue, size)
        while said is not None and (batch := run.next(0.0)) is not None:
            assert batch[0].queue_offset == expected
            expected += len(batch)
            run.report(batch, said[0], auto_commit=said[1])
            if settles_often or run.end:
                committed = run.settle()[1] or committed
            said = next(script, None)
        committed = run.settle()[1] or committed
        if run.end is RunEnd.ROLLBACK:
            queue.rollback()
        expected = queue.waiting()[0].queue_offset if queue.waiting() else next_pull
        done_to = max(done_to, expected)
        assert committed <= expected
        assert queue.count == next_pull - committed
        assert queue.size == 2 * queue.count
        assert queue.min_offset in (committed, -1)


def test_the_numbers_of_java():
    assert (orderly.LOCK_LIVE, orderly.LOCK_REFRESH, orderly.RELOCK_DELAY) == (30.0, 20.0, 3.0)
    assert (orderly.MAX_CONTINUOUS, orderly.MAX_RECONSUME, orderly.PAUSES) == (60.0, 2147483647, (0.01, 30.0))


def test_a_lock_is_renewed_after_twenty_seconds():
    queue = OrderedQueue(QUEUE, 0.0)
    assert (queue.locked_at, queue.is_stale(0.0)) == (None, True)
    queue.lock(100.0)
    assert (queue.locked_at, queue.is_stale(119.9), queue.is_stale(120.0)) == (100.0, False, True)
    queue.unlock()
    assert (queue.locked_at, queue.is_stale(100.0), queue.is_usable(100.0)) == (None, True, False)


@pytest.mark.parametrize(
    ("needs_lock", "locked", "dropped", "allowed"),
    [(True, True, False, True), (True, True, True, True), (True, False, False, False),
     (False, False, False, True), (False, False, True, False)],
)  # fmt: skip
def test_offsets_are_committed_with_the_lock_or_while_assigned(needs_lock, locked, dropped, allowed):
    queue = OrderedQueue(QUEUE, 0.0, needs_lock=needs_lock)
    if locked:
        queue.lock(0.0)
    queue.dropped = dropped
    assert queue.may_commit(30.0) is allowed


def test_kept_messages_count_and_are_first():
    queue = queue_with(3, 4, 5)
    queue.keep(of(3, 9))
    assert (queue.count, queue.size, queue.min_offset, offsets_of(queue.kept)) == (3, 6, 3, [3])
    assert offsets_of(queue.waiting()) == [4, 5]
    queue.discard(of(3, 4))  # one that is kept does not wait
    assert (queue.count, queue.size, offsets_of(queue.kept)) == (2, 4, [3])
    assert queue.commit([]) == 5
    assert (queue.count, queue.size, queue.kept) == (1, 2, [])
    assert queue.commit(of(5)) == 6
    assert (queue.count, queue.size, queue.min_offset) == (0, 0, -1)


def test_the_size_includes_kept_messages_when_offsets_come_again():
    queue = queue_with(3, 4)
    queue.keep(of(3))
    queue.put(of(4))
    assert (queue.count, queue.size) == (2, 4)


def test_no_batch_is_under_way_before_and_after_a_run():
    run = run_of(queue_with(3, 4, 5), size=2)
    assert run.under_way() == ()
    batch = run.next(0.0)
    assert offsets_of(run.under_way()) == [3, 4]
    run.report(batch, SUCCESS)
    assert offsets_of(run.under_way()) == [5]
    batch = run.next(0.0)
    run.report(batch, SUSPEND, auto_commit=False, pause=0.5)
    assert run.under_way() == ()
    assert (run.end, run.requested_pause, run.auto_commit, offsets_of(run.failed)) == (RunEnd.SUSPEND, 0.5, False, [5])
    assert run.calls == 2


def test_a_new_run_has_no_result():
    run = run_of(queue_with(3))
    assert (run.calls, run.stopped, run.end, run.failed, run.requested_pause, run.auto_commit) == (
        0, False, None, (), None, True,
    )  # fmt: skip
    assert run.settle() == (0, None)


def test_results_are_settled_once():
    queue = queue_with(3, 4, 5)
    run = run_of(queue)
    consume(run, SUCCESS, SUCCESS)
    assert run.settle() == (2, 5)
    assert run.settle() == (0, None)
    consume(run, SUCCESS)
    assert run.settle() == (1, 6)


def test_a_commit_and_kept_messages_are_settled_together():
    queue = queue_with(3, 4, 5)
    run = run_of(queue)
    consume(run, COMMIT, SUCCESS, auto_commit=False)
    assert run.settle() == (2, 4)
    assert (offsets_of(queue.kept), offsets_of(queue.waiting())) == ([4], [5])


def test_a_run_uses_its_worker_for_exactly_a_minute_at_most():
    queue = queue_with(3, 4)
    queue.lock(90.0)
    just, late = run_of(queue), run_of(queue)
    for run, began in ((just, 90.0), (late, 89.9)):
        run.report(run.next(began), SUCCESS)
    queue.lock(150.0)
    assert just.next(150.0) is not None
    assert late.next(150.0) is None
    assert late.end is RunEnd.TIME
    assert late.next(100.0) is None  # the reason stays


def test_the_minute_of_a_run_begins_when_a_worker_is_free_for_it():
    run = run_of(queue_with(3))
    assert run.began is None
    run.queue.lock(1000.0)
    assert run.next(1000.0) is not None
    assert run.began == 1000.0
    run.next(1001.0)
    assert run.began == 1000.0
