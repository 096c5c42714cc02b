"""The pull loop of one queue of a lite pull consumer: fills the cache until the queue is dropped.

Carries out what ``core.consumer.flow_control`` and ``core.consumer.lite_pull`` decide. Refuses to know who takes the
messages out again. While messages come, the next pull leaves before the answer to the last one is decoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup, ConsumerState
from rocketmq_py.client.consumer.failure_log import FailureLog
from rocketmq_py.client.consumer.filters import check_version
from rocketmq_py.client.consumer.lite_pull.options import LitePullOptions
from rocketmq_py.client.consumer.offsets import broker_of
from rocketmq_py.core.consumer.flow_control import STATE_DELAY, PullDecision, PullStep, failure_delay
from rocketmq_py.core.consumer.lite_pull import PULL_FLAGS, MessageCache
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.pull_result import pulled_messages
from rocketmq_py.core.consumer.subscription import is_tag_type
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import BrokerError, RocketMQError, TopicNotExist
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.remoting.connection import Connection, settler

_log = logging.getLogger(__name__)

START_DELAY = 3.0
"""Seconds until the next try when a queue's start could not be found out."""
UNLIMITED = 2**31 - 1

_FOUND, _ILLEGAL = ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED
_PULLED = frozenset({_FOUND, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, _ILLEGAL})


class _PendingPull(NamedTuple):
    """A pull under way."""

    offset: int
    subscription: SubscriptionData
    connection: Connection
    answer: asyncio.Future[Reply]


class LitePullLoop:
    """Pulls one queue into a cache.

    :param cache: takes the messages.
    :param subscription: what is wanted of the topic; asked before every pull.
    :param arrived: told when there is something new in the cache.
    :param jump: has the queue begin anew at another offset (None: where the group is), which ends this loop.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        options: LitePullOptions,
        process: ProcessQueue,
        cache: MessageCache,
        subscription: Callable[[str], SubscriptionData],
        arrived: Callable[[], None],
        jump: Callable[[ProcessQueue, int | None], None],
    ) -> None:
        self._group = group
        self._options = options
        self._process = process
        self._cache = cache
        self._subscription = subscription
        self._arrived = arrived
        self._jump = jump
        self._offset: int | None = None
        self._broker_id = MASTER_ID
        self._failures = FailureLog(process.queue.broker_name, group.instance.lost)
        self._changed = asyncio.Event()
        self._has_pulled = False

    def wake(self) -> None:
        """Something has changed that a pull may be waiting for."""
        self._changed.set()

    async def run(self, delay: float, offset: int | None) -> None:
        """Pulls, after ``delay`` seconds, until the queue is dropped.

        :param offset: where to begin; None: where the group is by then.
        """
        self._offset = offset
        await asyncio.sleep(delay)
        while not self._process.dropped:
            self._process.pulled_at = self._group.now()
            admission = self._admit()
            if admission.step is PullStep.WAIT:
                await self._wait(admission.delay)
                continue
            try:
                if self._offset is None:
                    self._offset = await self._start()
                    self._cache.skip(self._process, self._offset)
                await self._pull(self._offset)
            except RocketMQError as e:
                await asyncio.sleep(await self._failed(e))
            except Exception:  # noqa: BLE001 - a fault here must not end the consumption of a queue in silence
                _log.exception("pulling %s at %s failed", self._process.queue, self._offset)
                await asyncio.sleep(STATE_DELAY)

    def _admit(self, coming: int = 0, coming_bytes: int = 0) -> PullDecision:
        running = self._group.state is ConsumerState.RUNNING
        return self._cache.decide_pull(self._process, running=running, coming=coming, coming_bytes=coming_bytes)

    async def _wait(self, seconds: float) -> None:
        """Waits, but no longer than until something changes that a pull could wait for."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _failed(self, error: RocketMQError) -> float:
        """Looks for a way out of a failure; returns the seconds to wait before the next pull."""
        queue = self._process.queue
        delay = START_DELAY if self._offset is None else failure_delay(error)
        level = self._failures.failed(error)
        where = "its start" if self._offset is None else self._offset
        _log.log(level, "pulling %s at %s failed, again in %g s: %s", queue, where, delay, error)
        if error.refresh_route:
            await self._group.instance.routes.refresh_all({queue.topic})
        if isinstance(error, TopicNotExist) and error.address == self._group.instance.routes.master(queue.broker_name):
            self._vanished()  # a slave may only not have heard of the topic yet
        return delay

    def _vanished(self) -> None:
        """The broker does not know the topic any more: whatever comes under its name later begins anew."""
        self._group.offsets.remove(self._process.queue)
        self._offset = None
        if self._has_pulled:
            self._has_pulled = False
            _log.warning("the topic of %s has gone: what is held of it is void", self._process.queue)
            self._jump(self._process, None)

    async def _start(self) -> int:
        """Where the queue starts: what this consumer has committed, then what the group has, then what options say."""
        queue, offsets, options = self._process.queue, self._group.offsets, self._group.options
        stored = offsets.get(queue)
        if stored is None:
            stored = await offsets.fetch(queue)
        return await offsets.start_of(queue, stored, options.consume_from, options.start_timestamp_ms)

    # -- pulling

    async def _pull(self, offset: int) -> None:
        """Pulls from ``offset``, and goes on as long as messages come and nothing holds a pull back."""
        asked: _PendingPull | None = await self._ask(offset)
        try:
            while asked is not None:
                reply = await self._answer(asked)
                done, header = asked, reply.header(PullResponse)
                asked = self._request_next(done, reply, header)
                if asked is not None:
                    await asyncio.sleep(0)  # lets it leave
                self._take(done, reply, header)
                self._offset = header.next_begin_offset
                self._broker_id = header.suggest_which_broker_id
        finally:
            if asked is not None:
                _forget(asked.answer)

    async def _ask(self, offset: int) -> _PendingPull:
        instance = self._group.instance
        address = await broker_of(instance, self._process.queue, broker_id=self._broker_id)
        check_version(instance, address, self._subscription(self._process.queue.topic))
        return self._request_over(await instance.connections.get(address), offset)

    def _request_next(self, done: _PendingPull, reply: Reply, header: PullResponse) -> _PendingPull | None:
        """Begins the pull after one that found messages; None when it has to wait for those."""
        if reply.code != _FOUND or header.suggest_which_broker_id != self._broker_id or done.connection.closed:
            return None
        if self._admit(header.next_begin_offset - done.offset, len(reply.body)).step is not PullStep.PULL:
            return None
        return self._request_over(done.connection, header.next_begin_offset)

    def _request_over(self, connection: Connection, offset: int) -> _PendingPull:
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        subscription = self._subscription(self._process.queue.topic)
        deadline = monotonic() + self._options.timeout_when_suspend
        header = self._request(offset, subscription)
        connection.request(RequestCode.LITE_PULL_MESSAGE, header, b"", settler(answer), deadline)
        self._process.pulled_at = self._group.now()
        return _PendingPull(offset, subscription, connection, answer)

    def _request(self, offset: int, subscription: SubscriptionData) -> PullMessage:
        queue, options = self._process.queue, self._options
        version = 0 if is_tag_type(subscription.expression_type) else subscription.sub_version
        return PullMessage(
            consumer_group=self._group.name, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset,
            max_msg_nums=options.pull_batch_size, sys_flag=PULL_FLAGS, commit_offset=0,
            suspend_timeout_millis=int(options.broker_suspend_time * 1000), sub_version=version,
            subscription=subscription.sub_string, expression_type=subscription.expression_type,
            max_msg_bytes=UNLIMITED, request_source=-1, bname=queue.broker_name,
        )  # fmt: skip

    async def _answer(self, asked: _PendingPull) -> Reply:
        """The answer to a pull; raises what a broker refuses it with."""
        reply = await asked.answer
        if reply.code not in _PULLED:
            if reply.code == ResponseCode.GO_AWAY:
                self._group.instance.connections.retire(asked.connection)
            raise BrokerError.of(reply.code, reply.remark, asked.connection.address)
        self._has_pulled = True
        level = self._failures.recovered()
        if level is not None:
            _log.log(level, "pulling %s works again", self._process.queue)
        return reply

    # -- what was pulled

    def _take(self, asked: _PendingPull, reply: Reply, header: PullResponse) -> None:
        broker_name, tags = self._process.queue.broker_name, asked.subscription.tags_set
        messages = pulled_messages(reply.body, header, broker_name, tags) if reply.code == _FOUND else []
        if messages:
            self._cache.put(self._process, messages, header.max_offset)
            self._arrived()
            return
        if reply.code == _ILLEGAL:
            self._refused(asked.offset, header.next_begin_offset)
        self._cache.skip(self._process, header.next_begin_offset)

    def _refused(self, offset: int, next_offset: int) -> None:
        queue = self._process.queue
        _log.warning("offset %d of %s lies outside the queue or was reset: on from %d", offset, queue, next_offset)
        if next_offset <= self._process.max_offset:  # what is held lies ahead of it and would count as consumed
            self._jump(self._process, next_offset)


def _forget(answer: asyncio.Future[Reply]) -> None:
    """Nobody waits for an answer any more, be it a result, an error or still to come."""
    if not answer.cancel() and not answer.cancelled():
        answer.exception()
