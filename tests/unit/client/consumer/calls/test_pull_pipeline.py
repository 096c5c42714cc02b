"""Pulls in flight: sent in time, answered in the order of offsets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketmq_py.client.consumer.calls.pull_calls import PendingPull, PullAnswer, within
from rocketmq_py.client.consumer.calls.pull_pipeline import PullPipeline
from rocketmq_py.core.consumer.flow_control import COUNT_EXCEEDED, PULL, PullDecision
from rocketmq_py.core.consumer.pull_window import Segment
from rocketmq_py.core.consumer.pulls_ahead import NextPull
from rocketmq_py.core.peer import Reply
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.headers.pull import PullResponse

QUEUE = MessageQueue("t", "b", 0)
ALL = SubscriptionData.parse("t", "*", 0, "TAG")


class Line:
    """A connection as a pipeline sees it."""

    closed = False


class Loop:
    """What a pull loop gives its pipeline."""

    def __init__(self, queue: MessageQueue = QUEUE, in_flight: Any = 3) -> None:
        self.sent: list[tuple[NextPull, bool]] = []
        self.decisions: list[tuple[int, int]] = []
        self.room = 1000
        self.line: Any = Line()
        self.pulls = PullPipeline(queue, in_flight, 10, self.decide, self.send)

    def decide(self, coming: int, coming_bytes: int) -> PullDecision:
        self.decisions.append((coming, coming_bytes))
        return PULL if coming < self.room else COUNT_EXCEEDED

    def send(self, connection: Any, pull: NextPull, may_commit: bool) -> PendingPull:
        self.sent.append((pull, may_commit))
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        return PendingPull(pull.offset, 0.0, ALL, connection, True, answer, may_commit, pull.segment)

    def offsets(self) -> list[int]:
        return [pull.offset for pull in self.pulls._pulls]

    def take(self, next_offset: int, end: int, size: int = 100) -> int:
        """Take the answer to the oldest pull."""
        pull = self.pulls._pulls.popleft()
        return self.pulls.take(answer_to(pull, next_offset, end, size))


def answer_to(pull: PendingPull, next_offset: int, end: int = 0, size: int = 100, code: int = 0) -> PullAnswer:
    header = PullResponse(suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=0, max_offset=end)
    return PullAnswer(pull, code, header, bytes(size))


def run(body: Any, **options: Any) -> None:
    async def main() -> None:
        body(Loop(**options))

    asyncio.run(main())


def test_the_rest_of_a_short_answer_comes_before_later_pulls() -> None:
    def body(loop: Loop) -> None:
        loop.pulls.begin(loop.line, 0, ALL)
        assert loop.offsets() == [0]
        assert loop.take(10, 100) == 10
        assert loop.pulls.fill(loop.line)
        assert loop.offsets() == [10, 20, 30]
        assert loop.take(14, 100) == 14
        assert loop.pulls.fill(loop.line)
        assert loop.offsets() == [14, 20, 30]

    run(body)


def test_after_a_failure_one_pull_is_in_flight_until_the_end_is_known_again() -> None:
    def body(loop: Loop) -> None:
        loop.pulls.begin(loop.line, 0, ALL)
        loop.take(10, 100)
        loop.pulls.begin(loop.line, 10, ALL)
        assert loop.offsets() == [10, 20, 30]
        loop.pulls.discard()
        loop.pulls.forget_end()
        loop.pulls.begin(loop.line, 10, ALL)
        assert loop.offsets() == [10]

    run(body)


def test_one_pull_in_flight_commits() -> None:
    def body(loop: Loop) -> None:
        loop.pulls.begin(loop.line, 0, ALL)
        loop.take(10, 100)
        loop.pulls.fill(loop.line)
        assert [may_commit for _, may_commit in loop.sent] == [True, True, False, False]
        loop.take(20, 100)
        loop.pulls.fill(loop.line)
        assert loop.sent[-1][1] is True

    run(body)


def test_flow_control_counts_messages_and_bytes_that_are_coming() -> None:
    def body(loop: Loop) -> None:
        loop.pulls.begin(loop.line, 0, ALL)
        loop.take(10, 100, size=500)
        loop.decisions.clear()
        loop.room = 25
        loop.pulls.fill(loop.line, 10, 500)
        assert loop.decisions == [(10, 500), (20, 1000), (30, 1500)]
        assert loop.offsets() == [10, 20]

    run(body)


def test_a_closed_connection_sends_nothing() -> None:
    def body(loop: Loop) -> None:
        loop.line.closed = True
        loop.pulls.begin(loop.line, 0, ALL)
        assert not loop.pulls
        assert not loop.pulls.fill(loop.line)

    run(body)


def test_a_queue_of_a_static_topic_has_one_pull() -> None:
    def body(loop: Loop) -> None:
        loop.pulls.begin(loop.line, 0, ALL)
        loop.take(10, 100)
        loop.pulls.fill(loop.line)
        assert loop.offsets() == [10]

    run(body, queue=MessageQueue("t", "__syslo__global__", 0))


def test_discarded_answers_are_ignored() -> None:
    def body(loop: Loop) -> None:
        loop.pulls.begin(loop.line, 0, ALL)
        (pull,) = loop.pulls._pulls
        loop.pulls.discard()
        assert not loop.pulls
        assert pull.answer.cancelled()

    run(body)


@pytest.mark.parametrize(
    ("code", "next_offset", "in_flight", "follows"),
    [
        (0, 1, 1, True),
        (0, 0, 3, False),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 1, 1, False),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 1, 2, True),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 0, 2, False),
        (ResponseCode.PULL_NOT_FOUND, 1, 2, False),
        (ResponseCode.PULL_OFFSET_MOVED, 1, 2, False),
    ],
)
def test_which_answers_others_may_follow(code: int, next_offset: int, in_flight: int, follows: bool) -> None:
    def body(loop: Loop) -> None:
        loop.pulls.begin(loop.line, 0, ALL)
        (pull,) = loop.pulls._pulls
        assert loop.pulls.may_follow(answer_to(pull, next_offset, code=code)) is follows

    run(body, in_flight=in_flight)


def message(offset: int) -> MessageExt:
    return MessageExt((0, 0, 0, 0, 0, offset, offset, 0, 0, bytes(8), 0, bytes(8), 0, 0, 1), "t", b"x", b"")


@pytest.mark.parametrize(
    ("start", "stop", "kept"), [(0, 9, [3, 4, 5]), (3, 6, [3, 4, 5]), (4, 6, [4, 5]), (3, 5, [3, 4]), (6, 9, [])]
)
def test_messages_of_other_pulls_are_left_out(start: int, stop: int, kept: list[int]) -> None:
    async def main() -> None:
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        connection: Any = Line()
        pull = PendingPull(start, 0.0, ALL, connection, True, answer, False, Segment(start, stop))
        messages = [message(offset) for offset in (3, 4, 5)]
        assert [each.queue_offset for each in within(messages, pull)] == kept
        assert within(messages, pull._replace(segment=None)) == messages
        assert within([], pull) == []

    asyncio.run(main())
