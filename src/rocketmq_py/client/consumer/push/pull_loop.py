"""The pull loop of one queue: asks its broker for messages and hands them to the dispatcher, until it is dropped.

Carries out what ``core.consumer.flow_control`` decides. While messages come, the next pull leaves before the answer
to the last one is decoded, so that broker and client work at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import NamedTuple

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup, ConsumerState
from rocketmq_py.client.consumer.dispatch.concurrent import Dispatcher
from rocketmq_py.client.consumer.failure_log import FailureLog
from rocketmq_py.client.consumer.filters import check_version
from rocketmq_py.client.consumer.offsets import broker_of
from rocketmq_py.core.consumer.flow_control import (
    STATE_DELAY,
    PullDecision,
    PullStep,
    decide_pull,
    failure_delay,
    pull_flags,
)
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.pull_result import pulled_messages, restore_topic
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import (
    BrokerError,
    ConnectError,
    ConnectionLost,
    RocketMQError,
    SubscriptionError,
    TopicNotExist,
)
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.protocol.pop_handle import normal_topic
from rocketmq_py.remoting.connection import Connection, settler

_log = logging.getLogger(__name__)

SUSPEND_SECONDS = 15.0
"""How long a broker may hold a pull that finds nothing."""
PULL_TIMEOUT = 30.0

_FOUND, _ILLEGAL = ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED
_PULLED = frozenset({_FOUND, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, _ILLEGAL})

IllegalOffset = Callable[[ProcessQueue, int, int], Awaitable[None]]
"""Hears of a queue whose offset the broker refuses: the offset, and the one to go on from."""


class _PendingPull(NamedTuple):
    """A pull under way."""

    at: float
    subscription: SubscriptionData
    connection: Connection
    is_master: bool
    answer: asyncio.Future[Reply]


class _Pulled(NamedTuple):
    """The answer to a pull."""

    asked: _PendingPull
    code: int
    header: PullResponse
    body: bytes


class PullLoop:
    """Pulls one queue.

    :param queue: what was taken over.
    :param dispatcher: takes the messages.
    :param on_illegal_offset: puts a refused offset right; the queue is dropped then.
    """

    def __init__(
        self, group: ConsumerGroup, queue: ProcessQueue, dispatcher: Dispatcher, on_illegal_offset: IllegalOffset
    ) -> None:
        self._group = group
        self._queue = queue
        self._dispatcher = dispatcher
        self._on_illegal_offset = on_illegal_offset
        self._offset: int | None = None
        self._broker_id = MASTER_ID
        self._told = 0
        self._failures = FailureLog(queue.queue.broker_name, group.instance.lost)
        self._changed: asyncio.Event | None = None

    def wake(self) -> None:
        """Something has changed that a pull may be waiting for."""
        if self._changed is not None:
            self._changed.set()

    async def run(self, delay: float) -> None:
        """Pulls, after ``delay`` seconds and from where the group is by then, until the queue is dropped."""
        await asyncio.sleep(delay)
        while not self._queue.dropped:
            self._queue.pulled_at = self._group.now()
            admission = self._admit()
            if admission.step is PullStep.WAIT:
                _log.debug("%s waits: %s", self._queue, admission.reason)
                await self._wait(admission.delay)
                continue
            pause = self._group.options.pull_interval
            try:
                if self._offset is None:
                    self._offset = await self._start()
                await self._pull(self._offset)
            except RocketMQError as e:
                pause = await self._failed(e)
            except Exception:  # noqa: BLE001 - a fault here must not end the consumption of a queue in silence
                _log.exception("pulling %s at %s failed", self._queue.queue, self._offset)
                pause = STATE_DELAY
            if pause:
                await asyncio.sleep(pause)

    def _admit(self, coming: int = 0, coming_bytes: int = 0) -> PullDecision:
        group, topic = self._group, self._queue.queue.topic
        return decide_pull(
            self._queue,
            group.limits.get(topic) or group.options.limits,
            running=group.state is ConsumerState.RUNNING,
            suspended=group.suspended,
            subscribed=topic in group.announced,
            usable=self._queue.is_usable(group.now()),
            coming=coming,
            coming_bytes=coming_bytes,
        )

    async def _wait(self, seconds: float) -> None:
        """Waits, but no longer than until something changes that a pull could wait for."""
        self._changed = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed = None

    async def _failed(self, error: RocketMQError) -> float:
        """Looks for a way out of a failure; returns the seconds to wait before the next pull."""
        delay, queue = failure_delay(error), self._queue.queue
        level = self._failures.failed(error)
        self._told = 0
        where = "its start" if self._offset is None else self._offset
        _log.log(level, "pulling %s at %s failed, again in %g s: %s", queue, where, delay, error)
        if isinstance(error, SubscriptionError) and self._group.now() - self._group.announced_at >= delay:
            await self._group.announce()  # the broker has forgotten us, or has not heard of us yet
        if isinstance(error, ConnectError | ConnectionLost):
            self._group.doubt(self._queue)
        if error.refresh_route:
            await self._group.instance.routes.refresh_all({queue.topic})
        if isinstance(error, TopicNotExist) and error.address == self._group.instance.routes.master(queue.broker_name):
            # A slave may only not have heard of the topic yet.
            await self._group.vanished(self._queue)
        return delay

    async def _start(self) -> int:
        """Where the queue starts."""
        queue, offsets, options = self._queue.queue, self._group.offsets, self._group.options
        stored = await offsets.fetch(queue)
        if stored is not None:
            offsets.update(queue, stored, increase_only=False)
        return await offsets.start_of(queue, stored, options.consume_from, options.start_timestamp_ms)

    # -- pulling

    async def _pull(self, offset: int) -> None:
        """Pulls from ``offset``, and goes on as long as messages come and nothing holds a pull back."""
        asked: _PendingPull | None = await self._ask(offset)
        try:
            while asked is not None:
                pulled = await self._answer(asked)
                asked = self._request_next(pulled)
                if asked is not None:
                    await asyncio.sleep(0)  # lets it leave
                if not self._queue.dropped:
                    await self._take(pulled)
        finally:
            if asked is not None:
                _forget(asked.answer)

    async def _ask(self, offset: int) -> _PendingPull:
        """Begins a pull at the broker to be asked now."""
        queue, instance = self._queue.queue, self._group.instance
        address = await broker_of(instance, queue, broker_id=self._broker_id)
        subscription = self._group.announced[queue.topic]
        check_version(instance, address, subscription)
        connection = await instance.connections.get(address)
        is_master = address == instance.routes.broker_address(queue.broker_name, MASTER_ID, only_this=True)
        return self._request_over(connection, offset, subscription, is_master=is_master)

    def _request_next(self, pulled: _Pulled) -> _PendingPull | None:
        """Begins the pull after one that found messages; None when it has to wait for those."""
        if pulled.code != _FOUND or self._group.options.pull_interval:
            return None
        asked, header = pulled.asked, pulled.header
        if header.suggest_which_broker_id != self._broker_id or asked.connection.closed:
            return None
        coming = header.next_begin_offset - (self._offset or 0)
        if self._admit(coming, len(pulled.body)).step is not PullStep.PULL:
            return None
        subscription = self._group.announced[self._queue.queue.topic]
        return self._request_over(asked.connection, header.next_begin_offset, subscription, is_master=asked.is_master)

    def _request_over(
        self, connection: Connection, offset: int, subscription: SubscriptionData, *, is_master: bool
    ) -> _PendingPull:
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        header = self._request(offset, subscription, is_master=is_master)
        connection.request(RequestCode.PULL_MESSAGE, header, b"", settler(answer), monotonic() + PULL_TIMEOUT)
        now = self._queue.pulled_at = self._group.now()
        return _PendingPull(now, subscription, connection, is_master, answer)

    def _request(self, offset: int, subscription: SubscriptionData, *, is_master: bool) -> PullMessage:
        queue, options = self._queue.queue, self._group.options
        commit = self._offset_to_commit(queue) if is_master else 0
        posted = options.post_subscription_when_pull
        flags = pull_flags(commit, from_master=is_master, with_subscription=posted)
        return PullMessage(
            consumer_group=self._group.name, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset,
            max_msg_nums=options.pull_batch_size, sys_flag=flags, commit_offset=commit,
            suspend_timeout_millis=int(SUSPEND_SECONDS * 1000), sub_version=subscription.sub_version,
            subscription=subscription.sub_string if posted else None, expression_type=subscription.expression_type,
            max_msg_bytes=options.pull_batch_bytes, request_source=-1, bname=queue.broker_name,
        )  # fmt: skip

    def _offset_to_commit(self, queue: MessageQueue) -> int:
        """The offset to send along; 0 when the last pull carried it: read late, it could undo what was stored since."""
        commit = 0 if self._group.is_broadcasting else self._group.offsets.get(queue) or 0
        known, self._told = self._told, commit
        return 0 if commit == known else commit

    async def _answer(self, asked: _PendingPull) -> _Pulled:
        """The answer to a pull; raises what a broker refuses it with."""
        reply = await asked.answer
        if reply.code not in _PULLED:
            if reply.code == ResponseCode.GO_AWAY:
                self._group.instance.connections.retire(asked.connection)
            raise BrokerError.of(reply.code, reply.remark, asked.connection.address)
        level = self._failures.recovered()
        if level is not None:
            _log.log(level, "pulling %s works again", self._queue.queue)
        return _Pulled(asked, reply.code, reply.header(PullResponse), reply.body)

    # -- what was pulled

    async def _take(self, pulled: _Pulled) -> None:
        """Hands over what was found and moves on."""
        queue, header = self._queue, pulled.header
        if pulled.code == _FOUND:
            messages = self._received(pulled)
            self._group.stats(queue.queue.topic).pulled.add(len(messages), self._group.now() - pulled.asked.at)
            if messages:
                queue.put(messages, header.max_offset)
                self._dispatcher.submit(queue, messages)
        elif pulled.code == _ILLEGAL:
            await self._on_illegal_offset(queue, self._offset or 0, header.next_begin_offset)
        elif not queue.count:
            self._group.offsets.update(queue.queue, header.next_begin_offset)
        self._offset = header.next_begin_offset
        self._broker_id = header.suggest_which_broker_id

    def _received(self, pulled: _Pulled) -> list[MessageExt]:
        source = self._queue.queue
        # A pull that a broker held meanwhile was filtered by what is wanted now, not by what was when it was asked.
        wanted = self._group.subscriptions.get(source.topic, pulled.asked.subscription)
        messages = pulled_messages(pulled.body, pulled.header, source.broker_name, wanted.tags_set)
        if source.topic == self._group.retry_topic:
            restore_topic(messages, source.topic)
        elif self._group.is_pop_retry(source.topic):
            for message in messages:
                message.topic = normal_topic(message.topic, self._group.name)
        return messages


def _forget(answer: asyncio.Future[Reply]) -> None:
    """Nobody waits for an answer any more, be it a result, an error or still to come."""
    if not answer.cancel() and not answer.cancelled():
        answer.exception()
