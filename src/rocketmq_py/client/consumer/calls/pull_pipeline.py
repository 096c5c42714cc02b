"""The pulls of one queue that are in flight, by offset; ``core.consumer.pulls_ahead`` decides about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.calls.pull_calls import FOUND, PendingPull, PullAnswer, discard, pull_answer
from rocketmq_py.core.consumer.flow_control import PullDecision, PullStep
from rocketmq_py.core.consumer.pulls_ahead import NextPull, PullsAhead, PullsInFlight
from rocketmq_py.core.consumer.subscription import ALL, is_tag_type
from rocketmq_py.core.logical_queues import is_logical
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.remoting.connection import Connection


class PullPipeline:
    """Sends the pulls of one queue, and returns their answers in the order of offsets.

    :param in_flight: the option ``pulls_in_flight``. A queue of a static topic always has one pull in flight, since its
        offsets have gaps between the brokers.
    :param batch_size: maximum number of messages of a pull.
    :param decide: takes the number of messages that are coming and their bytes; decides whether to pull now.
    :param send: sends a pull over a connection; the third argument is True if no pull in flight commits an offset.
    """

    def __init__(
        self,
        queue: MessageQueue,
        in_flight: PullsInFlight,
        batch_size: int,
        decide: Callable[[int, int], PullDecision],
        send: Callable[[Connection, NextPull, bool], PendingPull],
    ) -> None:
        self._ahead = PullsAhead(1 if is_logical(queue) else in_flight, batch_size)
        self._decide = decide
        self._send = send
        self._pulls: deque[PendingPull] = deque()
        self._message_bytes = 0
        self._waited = False

    def __bool__(self) -> bool:
        return bool(self._pulls)

    def begin(self, connection: Connection, offset: int, subscription: SubscriptionData) -> None:
        """Send the first pulls from ``offset`` on."""
        takes_all = is_tag_type(subscription.expression_type) and subscription.sub_string == ALL
        self._ahead.begin(offset, filtered=not takes_all)
        self.fill(connection)

    def fill(self, connection: Connection, coming: int = 0, coming_bytes: int = 0) -> bool:
        """Send further pulls as far as flow control allows; return False if there are none.

        :param coming: number of messages that have arrived and are not handled yet. :param coming_bytes: their bytes.
        """
        if connection.closed:
            return False

        def admit(ahead: int) -> bool:
            decision = self._decide(coming + ahead, coming_bytes + ahead * self._message_bytes)
            return decision.step is PullStep.PULL

        pulls = self._ahead.pulls(admit)
        last = self._pulls[-1].offset if self._pulls else -1
        for pull in pulls:
            self._pulls.append(self._send(connection, pull, not any(each.commits for each in self._pulls)))
        if pulls and pulls[0].offset < last:  # the rest of a pull whose answer was short
            self._pulls = deque(sorted(self._pulls, key=_offset))
        return bool(pulls)

    async def next(self, instance: ClientInstance) -> PullAnswer:
        """Wait for the answer to the oldest pull. Errors as of ``pull_answer``."""
        self._waited = not self._pulls[0].answer.done()
        answer = await pull_answer(instance, self._pulls[0])
        self._pulls.popleft()
        return answer

    def may_follow(self, answer: PullAnswer) -> bool:
        """Return True if pulls after ``answer`` need not wait until it is handled: it has messages, or skips some."""
        code, header = answer.code, answer.header
        skips = code == ResponseCode.PULL_RETRY_IMMEDIATELY and self._ahead.goes_ahead
        return (code == FOUND or skips) and header.next_begin_offset > answer.pull.offset

    def take(self, answer: PullAnswer) -> int:
        """Record an answer that others may follow; return the offset up to which its messages count."""
        header, size = answer.header, len(answer.body)
        reached = header.next_begin_offset
        self._message_bytes = size // max(reached - answer.pull.offset, 1)
        return self._ahead.answered(answer.pull.segment, reached, header.max_offset, size=size, waited=self._waited)

    def discard(self) -> None:
        """Give up the pulls in flight; their answers are ignored."""
        while self._pulls:
            discard(self._pulls.popleft())

    def forget_end(self) -> None:
        """Send one pull only until the next answer, because something went wrong."""
        self._ahead.forget_end()


def _offset(pull: PendingPull) -> int:
    return pull.offset
