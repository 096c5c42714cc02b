"""The pull loop of one queue of a push consumer: pulls messages and passes them to the dispatcher.

``core.consumer.flow_control`` decides when it pulls. After a pull that found many messages, the next pull is sent
before the answer is decoded, so that broker and client work at the same time. A few messages, as a pull that was held
finds, go to their listener first: they are decoded faster than a request is written.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from rocketmq_py.client.consumer.calls.decoding import decode_pull
from rocketmq_py.client.consumer.calls.pull_calls import (
    FOUND,
    OFFSET_MOVED,
    PendingPull,
    PullAnswer,
    WakeUp,
    begin_pull,
    pull_header,
    within,
)
from rocketmq_py.client.consumer.calls.pull_pipeline import PullPipeline
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup, ConsumerState
from rocketmq_py.client.consumer.dispatch.concurrent import Dispatcher
from rocketmq_py.client.consumer.filters import check_version
from rocketmq_py.client.consumer.flow_control_log import FlowControlLog
from rocketmq_py.client.hooks.filter_hooks import filter_messages
from rocketmq_py.client.queue_requests import broker_of
from rocketmq_py.core.consumer.flow_control import (
    NOT_SUBSCRIBED,
    FlowLimits,
    PullDecision,
    PullStep,
    decide_pull,
    failure_delay,
    pull_flags,
)
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.pull_result import queue_end, restore_topic
from rocketmq_py.core.consumer.pulls_ahead import NextPull
from rocketmq_py.core.logical_queues import is_logical
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import ConnectError, ConnectionLost, NotLeader, RocketMQError, SubscriptionError, TopicNotExist
from rocketmq_py.model import MessageExt
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.protocol.pop_handle import normal_topic
from rocketmq_py.remoting.connection import Connection

_log = logging.getLogger(__name__)

SUSPEND_SECONDS = 15.0
"""Seconds a broker may hold a pull until a message arrives (long polling)."""
PULL_TIMEOUT = 30.0
"""Seconds to wait for the answer to a pull."""
_FEW = 8
"""The most messages of an answer that go to their listener before the next pull is sent."""


class PullEvents(Protocol):
    """The events that a pull loop reports."""

    def connection_lost(self, queue: ProcessQueue) -> None:
        """The connection to the queue's broker is lost, or another broker has become the queue's master."""
        ...

    async def offset_illegal(self, queue: ProcessQueue, offset: int, next_offset: int) -> None:
        """The broker refuses ``offset`` as outside of the queue; the loop must restart at ``next_offset``."""
        ...

    async def topic_deleted(self, queue: ProcessQueue) -> None:
        """The topic no longer exists at the queue's master."""
        ...


class PullLoop:
    """Pulls one queue.

    :param dispatcher: gets the messages.
    :param events: gets lost connections, illegal offsets and deleted topics.
    """

    def __init__(self, group: ConsumerGroup, queue: ProcessQueue, dispatcher: Dispatcher, events: PullEvents) -> None:
        self._group = group
        self._queue = queue
        self._dispatcher = dispatcher
        self._rules = group.options.body_rules
        self._events = events
        self._offset: int | None = None
        self._is_damaged = False  # True if the message at self._offset was damaged
        self._broker_id = group.options.pull_from_broker_id or MASTER_ID
        self._sent_commit = 0
        self._is_master = False  # True if pulls go to the queue's master
        self._has_pulled = False
        self._is_unsubscribed = False
        self._broker = group.instance.routes.broker_of(queue.queue)
        self._failures = group.failure_log(("queue", queue.queue), queue.queue.broker_name)
        self._flow = FlowControlLog(group.name, queue)
        self._pause = WakeUp()
        options = group.options
        in_flight = 1 if options.pull_interval else options.pulls_in_flight
        self._pulls = PullPipeline(queue.queue, in_flight, options.pull_batch_size, self._decide, self._send)

    def wake(self) -> None:
        """Check now whether flow control still forbids to fetch messages, without waiting for the end of its pause."""
        self._pause.set()

    async def run(self, delay: float) -> None:
        """Wait ``delay`` seconds, read the committed offset, and pull from there until the queue is dropped."""
        await asyncio.sleep(delay)
        try:
            while not self._queue.dropped:
                await self._step()
        finally:
            self._failures.close()

    async def _step(self) -> None:
        """Pull until a pull finds no message, or wait if flow control forbids to pull."""
        now = self._queue.pulled_at = self._group.now()
        decision = self._decide()
        if decision.step is PullStep.WAIT:
            self._flow.waits(decision, self._limits, now)
            if decision is NOT_SUBSCRIBED and not self._is_unsubscribed:
                _log.warning("%s is not pulled: topic %s is not subscribed", self._queue.queue, self._queue.queue.topic)
            self._is_unsubscribed = decision is NOT_SUBSCRIBED
            await self._pause.wait(decision.delay)
            return
        self._flow.pulls(now)
        pause = self._group.options.pull_interval
        try:
            if self._offset is None:
                self._offset = await self._start_offset()
            await (self._pull_one if self._is_damaged else self._pull)(self._offset)
        except RocketMQError as e:
            pause = await self._failed(e)
        except Exception:  # noqa: BLE001 - a fault here must not end the consumption of a queue unnoticed
            _log.exception("pulling %s at %s failed", self._queue.queue, self._offset)
            pause = self._group.options.pull_delay_after_error
        if pause:
            await asyncio.sleep(pause)

    @property
    def _limits(self) -> FlowLimits:
        return self._group.limits.get(self._queue.queue.topic) or self._group.options.limits

    def _decide(self, coming: int = 0, coming_bytes: int = 0) -> PullDecision:
        group, topic = self._group, self._queue.queue.topic
        return decide_pull(
            self._queue,
            self._limits,
            running=group.state is ConsumerState.RUNNING,
            suspended=group.suspended,
            subscribed=topic in group.announced,
            usable=self._queue.is_usable(group.now()),
            coming=coming,
            coming_bytes=coming_bytes,
        )

    async def _failed(self, error: RocketMQError) -> float:
        """Log a failed pull, refresh the route if that may help; return the seconds to wait before the next pull."""
        delay, queue = failure_delay(error, self._group.options.pull_delay_after_error), self._queue.queue
        level = self._failures.failed(error)
        self._sent_commit = 0
        self._pulls.forget_end()
        where = "its start" if self._offset is None else self._offset
        lasting = self._failures.duration
        _log.log(level, "pulling %s at %s failed%s, again in %g s: %s", queue, where, lasting, delay, error)
        if isinstance(error, SubscriptionError) and self._group.now() - self._group.announced_at >= delay:
            await self._group.announce()  # the broker has no heartbeat of ours, or an old one
        if isinstance(error, ConnectError | ConnectionLost | NotLeader):
            self._events.connection_lost(self._queue)
        if error.refresh_route:
            await self._group.instance.routes.refresh_all({queue.topic})
        if isinstance(error, TopicNotExist) and error.address == self._group.instance.routes.queue_master(queue):
            # Only the master counts: a slave may not have copied the topic yet.
            self._group.problems["deleted topic", queue.topic] = error
            await self._events.topic_deleted(self._queue)
        return delay

    async def _start_offset(self) -> int:
        """The offset to start at: the committed one, or the one that ``consume_from`` selects."""
        queue, offsets, options = self._queue.queue, self._group.offsets, self._group.options
        stored = await offsets.fetch(queue)
        if stored is not None:
            offsets.update(queue, stored, increase_only=False)
        return await offsets.start_of(queue, stored, options.consume_from, options.start_timestamp_ms)

    # -- pulling

    async def _pull(self, offset: int) -> None:
        """Pull from ``offset`` on until a pull finds no message or flow control forbids the next pull."""
        connection = await self._connect()
        if connection is None:
            return
        pulls, queue = self._pulls, self._queue
        pulls.begin(connection, offset, self._group.announced[queue.queue.topic])
        try:
            while pulls:
                answer = await pulls.next(self._group.instance)
                self._log_recovery()
                may_follow = self._may_follow(answer)
                reached = pulls.take(answer) if may_follow else answer.header.next_begin_offset
                has_few = reached - answer.pull.offset <= _FEW and not pulls
                if may_follow and not has_few and self._send_more(connection, reached, len(answer.body)):
                    await asyncio.sleep(0)  # sends the next pulls before the answer is decoded
                if queue.dropped:
                    return
                await self._handle(answer, reached)
                if self._is_damaged or self._offset != reached or not may_follow:
                    return  # some messages are pulled again, or from another broker
                if has_few:
                    await asyncio.sleep(0)  # starts the listener before the next pull is encoded
                    self._send_more(connection, reached, 0)
        finally:
            pulls.discard()

    async def _pull_one(self, offset: int) -> None:
        """Pull only the message at ``offset``, from other replicas if it is damaged; skip it if all copies are."""
        queue = self._queue
        subscription = self._group.announced[queue.queue.topic]
        pulled = await self._group.single_pulls.pull(queue.queue, offset, subscription, broker_id=self._broker_id)
        self._log_recovery()
        if queue.dropped:
            return
        self._is_damaged = False
        self._offset = pulled.next_offset
        self._hand_over(self._finished(pulled.messages), pulled.next_offset, queue_end(pulled.messages))

    async def _connect(self) -> Connection | None:
        """Connect to the replica that the last answer suggested; None if the queue has moved to another broker."""
        queue, instance = self._queue.queue, self._group.instance
        address = await broker_of(instance, queue, broker_id=self._broker_id)
        if self._has_moved():
            return None
        check_version(instance, address, self._group.announced[queue.topic])
        connection = await instance.connections.get(address)
        self._is_master = address == instance.routes.queue_master(queue)
        return connection

    def _has_moved(self) -> bool:
        """Return True if another broker has become the queue's master since the last call.

        If so, also report the lost connection: an orderly consumer must acquire the queue's lock at the new broker.
        """
        broker = self._group.instance.routes.broker_of(self._queue.queue)
        known, self._broker = self._broker, broker
        if known == broker:
            return False
        _log.info("%s has moved from broker %s to %s", self._queue.queue, known, broker)
        self._broker_id = self._group.options.pull_from_broker_id or MASTER_ID
        self._events.connection_lost(self._queue)
        return True

    def _may_follow(self, answer: PullAnswer) -> bool:
        """Return True if the pull after ``answer`` goes to the same broker without a pause."""
        if not self._pulls.may_follow(answer) or self._group.options.pull_interval:
            return False
        return self._next_broker(answer.header) == self._broker_id

    def _send_more(self, connection: Connection, reached: int, size: int) -> bool:
        """Send further pulls as far as flow control allows; False if there are none.

        :param reached: the offset after the messages that have arrived.
        :param size: bytes of those that are not handled yet.
        """
        if self._queue.dropped:
            return False
        coming = reached - (self._offset or 0)
        return self._pulls.fill(connection, coming, size if coming else 0)

    def _send(self, connection: Connection, pull: NextPull, may_commit: bool) -> PendingPull:
        queue, options = self._queue.queue, self._group.options
        subscription = self._group.announced[queue.topic]
        commit = self._offset_to_commit() if self._is_master and may_commit else 0
        posted = options.post_subscription_when_pull
        header = pull_header(
            self._group.name, queue, pull.offset, pull.number,
            pull_flags(commit, from_master=self._is_master, with_subscription=posted), subscription,
            version=subscription.sub_version, suspend=SUSPEND_SECONDS, commit=commit, posted=posted,
            most_bytes=options.pull_batch_bytes,
        )  # fmt: skip
        sent = begin_pull(
            RequestCode.PULL_MESSAGE, header, subscription, connection, timeout=PULL_TIMEOUT,
            is_master=self._is_master, segment=pull.segment,
        )  # fmt: skip
        self._queue.pulled_at = self._group.now()
        return sent

    def _offset_to_commit(self) -> int:
        """The offset to commit with a pull; 0 (none) if the last pull carried the same one.

        Repeating it is harmful: a broker that handles an old pull late would overwrite a newer offset. Pulls of logical
        queues carry none: a Java broker would store it as an offset of the physical queue.
        """
        if is_logical(self._queue.queue):
            return 0
        commit = 0 if self._group.is_broadcasting else self._group.offsets.get(self._queue.queue) or 0
        known, self._sent_commit = self._sent_commit, commit
        return 0 if commit == known else commit

    def _log_recovery(self) -> None:
        if not self._has_pulled:
            self._has_pulled = True
            self._group.problems.pop(("deleted topic", self._queue.queue.topic), None)
        level = self._failures.recovered()
        if level is not None:
            _log.log(level, "pulling %s works again", self._queue.queue)

    # -- answers

    async def _handle(self, answer: PullAnswer, reached: int) -> None:
        """Pass the messages of an answer to the dispatcher and advance to the next offset.

        :param reached: the offset up to which its messages count, unless some cannot be decoded.
        """
        queue, header, next_offset = self._queue, answer.header, reached
        if answer.code == FOUND or header.damaged is not None:
            messages, next_offset = await self._messages(answer)
            next_offset = min(next_offset, reached)
            if queue.dropped:  # while a thread decoded them
                return
            self._group.stats(queue.queue.topic).pulled.add(len(messages), self._group.now() - answer.pull.sent_at)
            self._hand_over(messages, next_offset, header.max_offset)
        elif answer.code == OFFSET_MOVED:  # this loop ends, and another one begins at the new offset
            await self._events.offset_illegal(queue, self._offset or 0, next_offset)
        elif not queue.count:
            self._group.offsets.update(queue.queue, next_offset)
        self._offset = next_offset
        self._broker_id = self._next_broker(header)

    def _hand_over(self, messages: list[MessageExt], next_offset: int, max_offset: int) -> None:
        if messages:
            self._queue.put(messages, max_offset)
            self._dispatcher.submit(self._queue, messages)
        elif not self._queue.count:
            self._group.offsets.update(self._queue.queue, next_offset)  # all were filtered away

    def _next_broker(self, header: PullResponse) -> int:
        """The broker id to pull from next: the option ``pull_from_broker_id``, or what the last answer suggests."""
        chosen = self._group.options.pull_from_broker_id
        return header.suggest_which_broker_id if chosen is None else chosen

    async def _messages(self, answer: PullAnswer) -> tuple[list[MessageExt], int]:
        """Decode an answer: the messages, and the offset of the next pull."""
        source, group = self._queue.queue, self._group
        # The broker may have held the pull: filter by the current subscription, not by that of the request.
        wanted = self._group.subscriptions.get(source.topic, answer.pull.subscription)
        pulled = await decode_pull(answer.body, answer.header, source, answer.pull.offset, wanted.tags_set, self._rules)
        group.skipped.undecoded(group.shown(source), pulled.undecoded)
        self._is_damaged = pulled.damage is not None
        return self._finished(within(pulled.messages, answer.pull)), pulled.next_offset

    def _finished(self, messages: list[MessageExt]) -> list[MessageExt]:
        """Restore the original topics of retried messages, remove namespaces, and apply the filter hooks."""
        source, group = self._queue.queue, self._group
        if source.topic == self._group.retry_topic:
            restore_topic(messages, source.topic)
        elif self._group.is_pop_retry(source.topic):
            for message in messages:
                message.topic = normal_topic(message.topic, self._group.name)
        group.show(messages)
        return filter_messages(group.options.filter_hooks, group.name, group.shown(source), messages)
