"""The pull loop of one queue of a lite pull consumer: fills the message cache until the queue is dropped.

``core.consumer.flow_control`` and ``core.consumer.lite_pull`` decide when it pulls. After a pull that found messages,
the next pull is sent before the answer is decoded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

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
from rocketmq_py.client.consumer.filters import check_version
from rocketmq_py.client.consumer.flow_control_log import FlowControlLog
from rocketmq_py.client.consumer.lite_pull.options import LitePullOptions
from rocketmq_py.client.hooks.filter_hooks import filter_messages
from rocketmq_py.client.queue_requests import broker_of
from rocketmq_py.core.consumer.flow_control import PullDecision, PullStep, failure_delay
from rocketmq_py.core.consumer.lite_pull import PULL_FLAGS, MessageCache
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.pull_result import queue_end
from rocketmq_py.core.consumer.pulls_ahead import NextPull
from rocketmq_py.core.consumer.subscription import is_tag_type
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import RocketMQError, TopicNotExist
from rocketmq_py.model import MessageExt
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.remoting.connection import Connection

_log = logging.getLogger(__name__)

START_DELAY = 3.0
"""The least pause in seconds after a failure to read the start offset of a queue."""


class LitePullLoop:
    """Pulls one queue into the message cache of a lite pull consumer.

    :param cache: gets the messages.
    :param subscription: returns the subscription of a topic; called before every pull.
    :param arrived: called when the cache has new messages.
    :param move: replaces this loop by one that starts at another offset (None: at the committed one).
    """

    def __init__(
        self,
        group: ConsumerGroup,
        options: LitePullOptions,
        process: ProcessQueue,
        cache: MessageCache,
        subscription: Callable[[str], SubscriptionData],
        arrived: Callable[[], None],
        move: Callable[[ProcessQueue, int | None], None],
    ) -> None:
        self._group = group
        self._options = options
        self._rules = group.options.body_rules
        self._process = process
        self._cache = cache
        self._subscription = subscription
        self._arrived = arrived
        self._move = move
        self._offset: int | None = None
        self._is_damaged = False  # True if the message at self._offset was damaged
        self._broker_id = group.options.pull_from_broker_id or MASTER_ID
        self._failures = group.failure_log(("queue", process.queue), process.queue.broker_name)
        self._flow = FlowControlLog(group.name, process, logging.INFO)  # a slow poll loop is the application's choice
        self._pause = WakeUp()
        self._has_pulled = False
        self._pulls = PullPipeline(
            process.queue, group.options.pulls_in_flight, options.pull_batch_size, self._decide, self._send
        )

    def wake(self) -> None:
        """Check now whether flow control still forbids to fetch messages, without waiting for the end of its pause."""
        self._pause.set()

    async def run(self, delay: float, offset: int | None) -> None:
        """Wait ``delay`` seconds, then pull until the queue is dropped.

        :param offset: the offset to start at; None: the offset that is committed after the delay.
        """
        self._offset = offset
        await asyncio.sleep(delay)
        try:
            while not self._process.dropped:
                await self._step()
        finally:
            self._failures.close()

    async def _step(self) -> None:
        """Pull until a pull finds no message, or wait if flow control forbids to pull."""
        now = self._process.pulled_at = self._group.now()
        decision = self._decide()
        if decision.step is PullStep.WAIT:
            self._flow.waits(decision, self._group.options.limits, now)
            await self._pause.wait(decision.delay)
            return
        self._flow.pulls(now)
        try:
            if self._offset is None:
                self._offset = await self._start_offset()
                self._cache.skip(self._process, self._offset)
            await (self._pull_one if self._is_damaged else self._pull)(self._offset)
        except RocketMQError as e:
            await asyncio.sleep(await self._failed(e))
        except Exception:  # noqa: BLE001 - a fault here must not end the consumption of a queue unnoticed
            _log.exception("pulling %s at %s failed", self._process.queue, self._offset)
            await asyncio.sleep(self._group.options.pull_delay_after_error)

    def _decide(self, coming: int = 0, coming_bytes: int = 0) -> PullDecision:
        running = self._group.state is ConsumerState.RUNNING
        return self._cache.decide_pull(self._process, running=running, coming=coming, coming_bytes=coming_bytes)

    async def _failed(self, error: RocketMQError) -> float:
        """Log a failed pull, refresh the route if that may help; return the seconds to wait before the next pull."""
        queue = self._process.queue
        delay = failure_delay(error, self._group.options.pull_delay_after_error)
        if self._offset is None:
            delay = max(delay, START_DELAY)
        level = self._failures.failed(error)
        self._pulls.forget_end()
        where = "its start" if self._offset is None else self._offset
        lasting = self._failures.duration
        _log.log(level, "pulling %s at %s failed%s, again in %g s: %s", queue, where, lasting, delay, error)
        if error.refresh_route:
            await self._group.instance.routes.refresh_all({queue.topic})
        if isinstance(error, TopicNotExist) and error.address == self._group.instance.routes.queue_master(queue):
            self._topic_deleted()  # only the master counts: a slave may not have copied the topic yet
        return delay

    def _topic_deleted(self) -> None:
        """Discard the queue's offset and cached messages: they do not apply to a new topic of the same name."""
        self._group.offsets.remove(self._process.queue)
        self._offset = None
        if self._has_pulled:
            self._has_pulled = False
            _log.warning("the topic of %s was deleted: its cached messages are discarded", self._process.queue)
            self._move(self._process, None)

    async def _start_offset(self) -> int:
        """The offset to start at: the one in memory, else the one committed at the broker, else by ``consume_from``."""
        queue, offsets, options = self._process.queue, self._group.offsets, self._group.options
        stored = offsets.get(queue)
        if stored is None:
            stored = await offsets.fetch(queue)
        return await offsets.start_of(queue, stored, options.consume_from, options.start_timestamp_ms)

    # -- pulling

    async def _pull(self, offset: int) -> None:
        """Pull from ``offset`` on until a pull finds no message or flow control forbids the next pull."""
        pulls, queue = self._pulls, self._process.queue
        instance = self._group.instance
        address = await broker_of(instance, queue, broker_id=self._broker_id)
        check_version(instance, address, self._subscription(queue.topic))
        connection = await instance.connections.get(address)
        pulls.begin(connection, offset, self._subscription(queue.topic))
        try:
            while pulls:
                answer = await pulls.next(instance)
                self._log_recovery()
                may_follow = pulls.may_follow(answer) and self._next_broker(answer.header) == self._broker_id
                reached = pulls.take(answer) if may_follow else answer.header.next_begin_offset
                if may_follow and pulls.fill(connection, reached - answer.pull.offset, len(answer.body)):
                    await asyncio.sleep(0)  # sends the next pulls before the answer is decoded
                self._offset = await self._handle(answer, reached)
                self._broker_id = self._next_broker(answer.header)
                if self._is_damaged or self._offset != reached or not may_follow:
                    return  # some messages are pulled again, or from another broker
        finally:
            pulls.discard()

    async def _pull_one(self, offset: int) -> None:
        """Pull only the message at ``offset``, from other replicas if it is damaged; skip it if all copies are."""
        queue = self._process.queue
        subscription = self._subscription(queue.topic)
        pulled = await self._group.single_pulls.pull(queue, offset, subscription, broker_id=self._broker_id)
        self._log_recovery()
        self._is_damaged = False
        self._offset = pulled.next_offset
        messages = self._finished(pulled.messages)
        if messages:
            self._cache.put(self._process, messages, queue_end(messages))
            self._arrived()
        else:
            self._cache.skip(self._process, pulled.next_offset)

    def _send(self, connection: Connection, pull: NextPull, _may_commit: bool) -> PendingPull:
        queue, options = self._process.queue, self._options
        subscription = self._subscription(queue.topic)
        version = 0 if is_tag_type(subscription.expression_type) else subscription.sub_version
        header = pull_header(
            self._group.name, queue, pull.offset, pull.number, PULL_FLAGS, subscription, version=version,
            suspend=options.broker_suspend_time,
        )  # fmt: skip
        sent = begin_pull(
            RequestCode.LITE_PULL_MESSAGE, header, subscription, connection, timeout=options.timeout_when_suspend,
            is_master=False, segment=pull.segment,
        )  # fmt: skip
        self._process.pulled_at = self._group.now()
        return sent

    def _log_recovery(self) -> None:
        self._has_pulled = True
        level = self._failures.recovered()
        if level is not None:
            _log.log(level, "pulling %s works again", self._process.queue)

    def _next_broker(self, header: PullResponse) -> int:
        """The broker id to pull from next: the option ``pull_from_broker_id``, or what the last answer suggests."""
        chosen = self._group.options.pull_from_broker_id
        return header.suggest_which_broker_id if chosen is None else chosen

    # -- answers

    async def _handle(self, answer: PullAnswer, reached: int) -> int:
        """Put the messages of an answer into the cache; returns the offset of the next pull.

        :param reached: the offset up to which its messages count, unless some cannot be decoded.
        """
        group, queue = self._group, self._process.queue
        messages, next_offset = list[MessageExt](), reached
        if answer.code == FOUND or answer.header.damaged is not None:
            tags = answer.pull.subscription.tags_set
            pulled = await decode_pull(answer.body, answer.header, queue, answer.pull.offset, tags, self._rules)
            group.skipped.undecoded(group.shown(queue), pulled.undecoded)
            self._is_damaged = pulled.damage is not None
            messages = self._finished(within(pulled.messages, answer.pull))
            next_offset = min(pulled.next_offset, reached)
        if messages:
            self._cache.put(self._process, messages, answer.header.max_offset)
            self._arrived()
            return next_offset
        if answer.code == OFFSET_MOVED:
            self._pulls.forget_end()
            self._offset_illegal(answer.pull.offset, next_offset)
        self._cache.skip(self._process, next_offset)
        return next_offset

    def _finished(self, messages: list[MessageExt]) -> list[MessageExt]:
        """Remove the namespace from pulled messages, and apply the filter hooks."""
        group = self._group
        group.show(messages)
        return filter_messages(group.options.filter_hooks, group.name, group.shown(self._process.queue), messages)

    def _offset_illegal(self, offset: int, next_offset: int) -> None:
        queue = self._process.queue
        _log.warning("offset %d of %s lies outside the queue or was reset: on from %d", offset, queue, next_offset)
        if next_offset <= self._process.max_offset:  # cached messages are ahead of it and would count as consumed
            self._move(self._process, next_offset)
