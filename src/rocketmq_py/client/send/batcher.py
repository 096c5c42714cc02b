"""Sends messages in batches that it makes itself: each send keeps its own future, result and error.

``core.producer.accumulator`` decides which messages leave together and when. A batch is one send with all its attempts;
if a broker refuses it as illegal, each of its messages is sent alone, so that one message costs the others nothing.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from rocketmq_py.client.send.futures import SendFuture, SharedFuture, resolve
from rocketmq_py.client.send.gates import BUSY_SECONDS
from rocketmq_py.core.producer.accumulator import Accumulator, BatchLimits, Lane, Parcel
from rocketmq_py.core.producer.batched_message import BatchedMessage, results_of
from rocketmq_py.core.producer.outgoing_message import OutgoingMessage
from rocketmq_py.core.producer.send_attempts import SendAttempts
from rocketmq_py.errors import BrokerError, RequestTimeout, RocketMQError
from rocketmq_py.model import MessageQueue, SendResult
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.remoting.single_flight import own_copy

_RESOLUTION = 0.001
"""Seconds of the shortest timer: uvloop would make none of a shorter one, and come here again and again."""


class BatchedSend(msgspec.Struct, gc=False, eq=False):
    """A send whose message may leave in a batch.

    :ivar message: the message as a record; None if it goes alone.
    :ivar outgoing: the message as a request, if it goes alone.
    :ivar size: bytes that count for the limits of sends in progress.
    :ivar deadline: when the send fails with a timeout, in monotonic seconds.
    :ivar follows: True if a send to its topic that is not in a batch was under way when it came.
    """

    lane: Lane
    message: BatchedMessage | None
    outgoing: OutgoingMessage | None
    size: int
    deadline: float
    msg_id: str
    follows: bool = False
    future: SendFuture | None = None

    def wait_longer(self, seconds: float) -> None:
        """Extend the deadline by a wait that does not count as sending time."""
        self.deadline += seconds


class Sends(Protocol):
    """What a batcher needs of the sender."""

    def start(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send a request with all its attempts; ``future`` gets the result or the error."""
        ...

    def attempts(self, outgoing: OutgoingMessage, deadline: float, queue: MessageQueue | None) -> SendAttempts:
        """Return the attempts to send a request to ``queue``, or to any queue of its topic."""
        ...

    def join(self, messages: list[BatchedMessage]) -> OutgoingMessage:
        """Return one request for messages of one kind."""
        ...


class Batcher:
    """The messages of one producer that wait to leave in batches. Call it in the event loop's thread.

    :param leave: called with sends that have ended.
    """

    def __init__(self, limits: BatchLimits, sends: Sends, leave: Callable[[Sequence[BatchedSend]], None]) -> None:
        self.accumulator: Accumulator[BatchedSend] = Accumulator(limits)
        self._sends = sends
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._turn_at = math.inf
        """When :meth:`_end_turn` was scheduled; ``math.inf`` if it is not."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def __len__(self) -> int:
        return len(self.accumulator)

    def add(self, send: BatchedSend) -> None:
        """Send a message that the limits of sends in progress admit, now or with others."""
        message, waiting = send.message, self.accumulator
        kind = None if message is None else message.kind
        if waiting.join(send.lane, send, send.size, kind):  # most messages
            return
        now = time.monotonic()
        for parcel in waiting.add(send.lane, send, send.size, kind, now, send.deadline, follows=send.follows):
            self._send(parcel)
        if waiting.next_at < self._timer_at or (waiting.waits_for_turn and self._turn_at == math.inf):
            self._schedule()

    def is_quiet(self, lane: Lane) -> bool:
        """Return True if a message need not pass here, since no other could join it; may be called in any thread."""
        return self.accumulator.is_quiet(lane)

    def release(self, topic: str | None = None) -> None:
        """Send what waits, of one topic or of all, as soon as the order of its queue allows, without lingering."""
        self.accumulator.release(topic)
        self._take(time.monotonic())

    def _schedule(self) -> None:
        """Have :meth:`_take` called when the accumulator needs it."""
        if self.accumulator.waits_for_turn and self._turn_at == math.inf:
            self._turn_at = time.monotonic()
            self._loop.call_soon(self._end_turn)
        at = self.accumulator.next_at
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_later(max(_RESOLUTION, at - time.monotonic()), self._fire)

    def _end_turn(self) -> None:
        due, self._turn_at = self._turn_at, math.inf
        self._take(due)

    def _fire(self) -> None:
        due, self._timer, self._timer_at = self._timer_at, None, math.inf
        self._take(due)

    def _take(self, due: float) -> None:
        """Send what leaves now, and fail what is too late.

        :param due: when this was to happen. A program that starts many sends at once blocks the loop: nothing can leave
            in that time.
        """
        now = time.monotonic()
        if now - due > BUSY_SECONDS:
            self.accumulator.wait_longer(now - due)
        leaving, late = self.accumulator.take(now)
        for parcel in leaving:
            self._send(parcel)
        for parcel in late:
            self._leave(parcel.entries)
            for send in parcel.entries:
                _resolve(send, _late(send))
        self._schedule()

    def _send(self, parcel: Parcel[BatchedSend]) -> None:
        """Send a parcel without the messages whose sends were cancelled."""
        sends = [send for send in parcel.entries if send.future is None or not send.future.done()]
        if len(sends) < len(parcel.entries):
            self._leave([send for send in parcel.entries if send not in sends])
            parcel.entries = sends
        if not sends:
            self.accumulator.ended(parcel, time.monotonic())
            return
        first = sends[0]
        outgoing = first.outgoing or self._sends.join([send.message for send in sends if send.message is not None])
        attempts = self._sends.attempts(outgoing, parcel.deadline, parcel.lane.queue)
        self._sends.start(attempts, SharedFuture(lambda outcome: self._ended(parcel, outcome)))

    def _ended(self, parcel: Parcel[BatchedSend], outcome: SendResult | Exception) -> None:
        self.accumulator.ended(parcel, time.monotonic())
        sends = parcel.entries
        if isinstance(outcome, SendResult):
            self._leave(sends)
            for send, result in zip(sends, results_of(outcome, [send.msg_id for send in sends]), strict=True):
                future = send.future
                if future is not None and not future.done():
                    future.set_result(result)
        elif len(sends) > 1 and isinstance(outcome, BrokerError) and outcome.code == ResponseCode.MESSAGE_ILLEGAL:
            self.accumulator.put_back(parcel)
        else:
            self._leave(sends)
            for send in sends:
                _resolve(send, own_copy(outcome))
        self._schedule()


def _resolve(send: BatchedSend, outcome: SendResult | Exception) -> None:
    if send.future is not None:
        resolve(send.future, outcome)


def _late(send: BatchedSend) -> RocketMQError:
    return RequestTimeout(
        f"message {send.msg_id} was not sent in time: the batches before it in queue {send.lane.queue} took too long"
    )
