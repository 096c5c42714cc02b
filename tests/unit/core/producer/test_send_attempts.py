"""Which queue next, whether again, how long still."""

from __future__ import annotations

from collections import Counter

import pytest

from rocketmq_py.core.producer.outgoing_message import OutgoingMessage
from rocketmq_py.core.producer.send_attempts import (
    NoMasterError,
    RoundRobin,
    SendAttempts,
    is_retried,
    reached_no_broker,
    select_by_hash,
)
from rocketmq_py.errors import (
    BrokerError,
    ConnectError,
    FlushTimeout,
    MessageIllegal,
    NetworkError,
    NoRouteError,
    NotLeader,
    RequestTimeout,
    RocketMQError,
)
from rocketmq_py.model import MessageQueue, SendResult, SendStatus

A = [MessageQueue("t", "a", i) for i in range(4)]
B = [MessageQueue("t", "b", i) for i in range(4)]


def delivery(deadline: float = 3.0, retries: int = 2, queue: MessageQueue | None = None) -> SendAttempts:
    return SendAttempts(OutgoingMessage("t", "id", b"x", b""), deadline, retries, queue)


def test_queues_take_turns() -> None:
    turn = RoundRobin(start=7)
    assert Counter(turn.pick(A + B) for _ in range(24)) == dict.fromkeys(A + B, 3)


def test_a_failed_broker_is_avoided_while_there_is_another() -> None:
    turn = RoundRobin()
    assert {turn.pick(A + B, avoid="a").broker_name for _ in range(20)} == {"b"}
    assert {turn.pick(A, avoid="a").broker_name for _ in range(20)} == {"a"}


@pytest.mark.parametrize(
    ("key", "index"),
    # As Java: Math.abs("...".hashCode() % 4), and Integer.hashCode() is the number
    [("a", 97 % 4), ("hello", 99162322 % 4), ("polygenelubricants", 0), (7, 3), (-7, 3)],
)
def test_a_key_has_its_queue(key: str | int, index: int) -> None:
    assert select_by_hash(A, key) == A[index]


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
def test_some_response_codes_are_retried_at_another_broker(code: int) -> None:
    assert is_retried(BrokerError.of(code, "no"))


@pytest.mark.parametrize(
    "error", [BrokerError.of(13, "illegal"), BrokerError.of(29, ""), MessageIllegal("no"), NoRouteError("no")]
)
def test_illegal_messages_are_not_retried(error: RocketMQError) -> None:
    assert not is_retried(error)
    with pytest.raises(type(error)):
        delivery().failed(error, now=0.0)


@pytest.mark.parametrize("error", [ConnectError("no"), RequestTimeout("no"), NoMasterError("no")])
def test_network_failures_are_retried(error: RocketMQError) -> None:
    delivery().failed(error, now=0.0)


def test_the_last_error_lists_the_brokers_of_all_attempts() -> None:
    way = delivery(retries=2)
    for broker in ("a", "b"):
        way.tried += (broker,)
        way.failed(ConnectError("no"), now=0.0)
    way.tried += ("a",)
    with pytest.raises(ConnectError) as caught:
        way.failed(ConnectError("the last"), now=0.0)
    assert caught.value.__notes__ == ["tried 3 times, at brokers a, b"]


def test_a_send_ends_at_its_deadline() -> None:
    way = delivery(deadline=3.0)
    assert way.remaining(1.0) == 2.0
    with pytest.raises(ConnectError):
        way.failed(ConnectError("no"), now=3.0)
    with pytest.raises(RequestTimeout, match="no time is left"):
        way.remaining(3.0)


def test_a_given_queue_is_not_replaced() -> None:
    way = delivery(retries=0, queue=A[2])
    assert way.next_queue(A + B, RoundRobin()) == A[2]
    with pytest.raises(ConnectError):
        way.failed(ConnectError("no"), now=0.0)


def test_a_selector_is_called_once() -> None:
    asked = []
    way = SendAttempts(OutgoingMessage("t", "id", b"x", b""), 3.0, choose=lambda queues: asked.append(1) or queues[1])
    assert way.next_queue(A, RoundRobin()) == A[1]
    assert way.next_queue(B, RoundRobin()) == A[1]
    assert asked == [1]


def test_the_first_go_away_costs_no_attempt() -> None:
    way = delivery(retries=0)
    way.failed(BrokerError.of(1500, "bye"), now=0.0)
    with pytest.raises(BrokerError):
        way.failed(BrokerError.of(1500, "bye"), now=0.0)


def test_pauses_grow_when_no_other_broker_is_left() -> None:
    way = delivery(retries=5, deadline=60.0)
    assert [way.failed(RequestTimeout("no"), now=0.0) for _ in range(3)] == [0.05, 0.1, 0.2]
    assert way.failed(RequestTimeout("no"), now=0.0, jitter=0.0) == 0.2  # half of 0.4
    assert way.failed(RequestTimeout("no"), now=0.0, elsewhere=True) == 0.0


def test_attempts_that_reach_no_broker_do_not_count_until_the_deadline() -> None:
    way = delivery(retries=1, deadline=3.0)
    way.waits = True
    now = 0.0
    with pytest.raises(ConnectError) as caught:  # noqa: PT012 - the last of several calls raises
        while True:
            now += way.failed(ConnectError("refused"), now)
    assert 2.0 < now <= 3.0
    assert way.failures > 5
    assert caught.value.__notes__ == [f"tried {way.failures} times"]


def test_an_unreachable_broker_of_a_given_queue_is_not_waited_for() -> None:
    with pytest.raises(ConnectError):
        delivery(retries=0, deadline=3.0).failed(ConnectError("refused"), now=0.0)


def test_a_queue_that_has_moved_is_sent_to_again_whatever_the_retries() -> None:
    """Nothing was stored: the broker does not lead the queue any more. The queue stays the same."""
    way = delivery(retries=0, deadline=3.0, queue=A[2])
    assert 0 < way.failed(BrokerError.of(501, "not the leader"), now=0.0) < 1.0
    assert way.next_queue(A + B, RoundRobin()) == A[2]
    with pytest.raises(NotLeader):
        way.failed(BrokerError.of(501, "not the leader"), now=3.0)


def test_the_broker_of_a_logical_queue_is_avoided() -> None:
    queues = [MessageQueue("t", "__syslo__global__", i) for i in range(4)]
    turn = RoundRobin()
    assert {turn.pick(queues, "a", lambda queue: "ab"[queue.queue_id % 2]).queue_id for _ in range(20)} == {1, 3}


@pytest.mark.parametrize(
    ("error", "reached"),
    [
        (ConnectError("refused"), False), (NoMasterError("no"), False), (NetworkError("cut before"), False),
        (RequestTimeout("sent"), True), (BrokerError.of(1, "no"), True), (NoRouteError("no topic"), True),
    ],
)  # fmt: skip
def test_what_reached_a_broker_may_be_stored(error: RocketMQError, reached: bool) -> None:
    assert reached_no_broker(error) is not reached


def test_response_codes_to_retry_may_be_chosen() -> None:
    assert is_retried(BrokerError.of(13, "illegal"), frozenset({13}))
    assert not is_retried(BrokerError.of(1, "no"), frozenset({13}))
    assert is_retried(FlushTimeout(10, "stored", "a:1"), frozenset())


def test_an_attempt_with_retries_left_is_shorter_than_the_send() -> None:
    way = delivery(deadline=3.0, retries=1)
    assert way.until == float("inf")
    way.begin(1.0)
    assert way.until == 3.0
    way.attempt_seconds = 0.5
    way.begin(1.0)
    assert way.until == 1.5
    way.begin(2.75)
    assert way.until == 3.0
    way.retries = 0
    way.begin(1.0)
    assert way.until == 3.0


def test_the_next_attempt_is_timed_from_the_end_of_its_pause() -> None:
    way = delivery(deadline=10.0, retries=2)
    way.attempt_seconds = 0.5
    pause = way.failed(RequestTimeout("no"), now=1.0)
    assert way.until == pytest.approx(1.0 + pause + 0.5)
    way = delivery(deadline=10.0, retries=2)
    way.attempt_seconds = 0.5
    assert way.failed(BrokerError.of(1500, "bye"), now=1.0) == 0.0
    assert (way.until, way.got_go_away, way.failures) == (1.5, True, 0)
    pause = way.failed(BrokerError.of(501, "not the leader"), now=1.0)
    assert way.until == pytest.approx(1.0 + pause + 0.5)


def test_a_wait_extends_both_deadlines() -> None:
    way = delivery(deadline=3.0)
    way.begin(0.0)
    way.until = 2.0
    way.wait_longer(0.25)
    assert (way.deadline, way.until) == (3.25, 2.25)


def sent(status: SendStatus) -> SendResult:
    return SendResult(status, "id", "offset-id", A[0], 1)


def test_a_message_that_is_not_stored_safely_is_an_error_with_its_result() -> None:
    way = delivery()
    assert way.not_stored_safely(sent(SendStatus.SEND_OK), "a:1") is None
    assert way.stored is None
    result = sent(SendStatus.FLUSH_DISK_TIMEOUT)
    error = way.not_stored_safely(result, "a:1")
    assert isinstance(error, FlushTimeout)
    assert (error.code, way.stored) == (10, result)
    assert "FLUSH_DISK_TIMEOUT" in str(error)


def test_a_send_has_no_retries_unless_said() -> None:
    way = SendAttempts(OutgoingMessage("t", "id", b"x", b""), 3.0)
    assert (way.retries, way.tried, way.failures, way.waits, way.got_go_away) == (0, (), 0, False, False)
    assert (way.retry_not_stored_safely, way.stored, way.queue) == (False, None, None)


def test_the_last_retry_is_the_last_attempt() -> None:
    way = delivery(retries=1)
    way.failed(RequestTimeout("no"), now=0.0)
    assert (way.retries, way.queue) == (0, None)
    with pytest.raises(RequestTimeout):
        way.failed(RequestTimeout("no"), now=0.0)


def test_a_failure_gives_up_the_queue_of_the_attempt() -> None:
    way = delivery(retries=1)
    first = way.next_queue(A + B, RoundRobin())
    way.tried += (first.broker_name,)
    way.failed(RequestTimeout("no"), now=0.0)
    assert way.next_queue(A + B, RoundRobin()).broker_name != first.broker_name


def test_a_first_failure_has_no_note() -> None:
    way = delivery(retries=0)
    way.tried = ("a",)
    with pytest.raises(ConnectError) as caught:
        way.failed(ConnectError("no"), now=0.0)
    assert not hasattr(caught.value, "__notes__")
