"""The pull strategy: one loop per queue that asks its broker for messages and hands them to the dispatcher.

Carries out what ``core.flow`` decides. Refuses to know how queues were allocated and what listeners do.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from rocketmq_py.client.dispatch import Dispatcher
from rocketmq_py.client.offsets import broker_of
from rocketmq_py.client.push_group import Group, State
from rocketmq_py.core.flow import STATE_DELAY, Step, admit, failure_delay, pull_flags
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.processqueue import ProcessQueue
from rocketmq_py.core.rebalance import Ask, starting_point
from rocketmq_py.core.received import (
    annotate,
    matching,
    may_be_transactional,
    restore_topic,
    restore_transaction_ids,
    shift,
)
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import BrokerError, RocketMQError, SubscriptionError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers import PullMessage, PullResponse
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.wire.record import decode_records

_log = logging.getLogger(__name__)

SUSPEND_SECONDS = 15.0
"""How long a broker may hold a pull that finds nothing."""
PULL_TIMEOUT = 30.0

_FOUND, _ILLEGAL = ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED
_PULLED = frozenset({_FOUND, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, _ILLEGAL})


class Pulled(NamedTuple):
    """The answer to a pull."""

    code: int
    header: PullResponse
    body: bytes


class PullStrategy:
    """Pulls the queues it is given until they are dropped.

    :param dispatcher: takes the messages.
    """

    def __init__(self, group: Group, dispatcher: Dispatcher) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._loops: dict[ProcessQueue, asyncio.Task[None]] = {}
        self._waiting: dict[ProcessQueue, asyncio.Event] = {}
        self._brokers: dict[MessageQueue, int] = {}
        self._failing: dict[MessageQueue, type[RocketMQError]] = {}
        self.on_illegal_offset = _nobody

    def take(self, queue: ProcessQueue, delay: float) -> None:
        """Begins to pull a queue after ``delay`` seconds, from where the group is by then."""
        self._loops[queue] = asyncio.ensure_future(self._pull_on(queue, delay))

    def drop(self, queue: ProcessQueue) -> None:
        """Ends the pulling of a queue; a pull that is under way no longer matters."""
        loop = self._loops.pop(queue, None)
        if loop is not None and loop is not asyncio.current_task():
            loop.cancel()
        self._brokers.pop(queue.queue, None)
        self._failing.pop(queue.queue, None)

    async def close(self) -> None:
        """Ends all pulling."""
        loops = list(self._loops.values())
        for queue in list(self._loops):
            self.drop(queue)
        await asyncio.gather(*loops, return_exceptions=True)

    def nudge(self, queue: ProcessQueue) -> None:
        """The queue holds less than before: a pull that waits for that may look again."""
        waiting = self._waiting.get(queue)
        if waiting is not None:
            waiting.set()

    def nudge_all(self) -> None:
        for waiting in self._waiting.values():
            waiting.set()

    # -- the loop of one queue

    async def _pull_on(self, queue: ProcessQueue, delay: float) -> None:
        await asyncio.sleep(delay)
        offset: int | None = None
        while not queue.dropped:
            queue.pulled_at = self._group.now()
            held_back = self._hold_back(queue)
            if held_back:
                await self._rest(queue, held_back)
                continue
            pause = self._group.options.pull_interval
            try:
                if offset is None:
                    offset = await self._start_of(queue.queue)
                offset = await self._pull_once(queue, offset)
            except RocketMQError as e:
                pause = await self._failed(queue, offset, e)
            except Exception:  # noqa: BLE001 - a fault here must not end the consumption of a queue in silence
                _log.exception("pulling %s at %s failed", queue.queue, offset)
                pause = STATE_DELAY
            if pause:
                await asyncio.sleep(pause)

    async def _start_of(self, queue: MessageQueue) -> int:
        """Where a queue starts that was just taken."""
        offsets, options = self._group.offsets, self._group.options
        stored = await offsets.fetch(queue)
        if stored is not None:
            offsets.update(queue, stored, increase_only=False)
        start = starting_point(options.consume_from, stored, is_retry=is_retry_topic(queue.topic))
        if start is Ask.MAX_OFFSET:
            return await offsets.max_offset(queue)
        if start is Ask.BY_TIMESTAMP:
            return await offsets.offset_at(queue, options.start_timestamp_ms())
        return start

    def _hold_back(self, queue: ProcessQueue) -> float:
        """Seconds to wait before the next pull; 0 to pull now."""
        group, topic = self._group, queue.queue.topic
        admission = admit(
            queue,
            group.limits.get(topic) or group.options.limits,
            running=group.state is State.RUNNING,
            suspended=group.suspended,
            subscribed=topic in group.announced,
        )
        if admission.step is Step.WAIT:
            _log.debug("%s waits: %s", queue, admission.reason)
        return admission.delay

    async def _rest(self, queue: ProcessQueue, seconds: float) -> None:
        """Waits, but no longer than until something changes that a pull could wait for."""
        event = self._waiting[queue] = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            del self._waiting[queue]

    async def _failed(self, queue: ProcessQueue, offset: int | None, error: RocketMQError) -> float:
        delay = failure_delay(error)
        again = type(error) is self._failing.get(queue.queue)
        self._failing[queue.queue] = type(error)
        _log.log(
            logging.DEBUG if again else logging.WARNING, "pulling %s at %s failed, again in %g s: %s",
            queue.queue, "its start" if offset is None else offset, delay, error,
        )  # fmt: skip
        if isinstance(error, SubscriptionError) and self._group.now() - self._group.announced_at >= delay:
            await self._group.announce()  # the broker has forgotten us, or has not heard of us yet
        if error.refresh_route:
            await self._group.instance.routes.refresh_all({queue.queue.topic})
        return delay

    # -- one pull

    async def _pull_once(self, queue: ProcessQueue, offset: int) -> int:
        """Pulls, hands over what was found, and returns the offset to go on from."""
        subscription = self._group.announced[queue.queue.topic]
        began = self._group.now()
        pulled = await self._ask(queue.queue, offset, subscription)
        if queue.dropped:
            return offset
        next_offset = pulled.header.next_begin_offset
        if pulled.code == _FOUND:
            messages = self._received(queue, pulled, subscription)
            self._group.stats(queue.queue.topic).pulled.add(len(messages), self._group.now() - began)
            if messages:
                queue.put(messages, pulled.header.max_offset)
                self._dispatcher.submit(queue, messages)
        elif pulled.code == _ILLEGAL:
            await self.on_illegal_offset(queue, offset, next_offset)
        elif not queue.count:
            self._group.offsets.update(queue.queue, next_offset)
        return next_offset

    def _received(self, queue: ProcessQueue, pulled: Pulled, subscription: SubscriptionData) -> list[MessageExt]:
        header, source = pulled.header, queue.queue
        messages = decode_records(pulled.body, source.broker_name)
        messages = matching(messages, subscription.tags_set)
        annotate(messages, header.min_offset, header.max_offset)
        if header.offset_delta:
            shift(messages, header.offset_delta)
        if may_be_transactional(pulled.body):
            restore_transaction_ids(messages)
        if source.topic == self._group.retry_topic:
            restore_topic(messages, source.topic)
        return messages

    async def _ask(self, queue: MessageQueue, offset: int, subscription: SubscriptionData) -> Pulled:
        instance = self._group.instance
        address = await broker_of(instance, queue, broker_id=self._brokers.get(queue, MASTER_ID))
        connection = await instance.connections.get(address)
        is_master = address == instance.routes.broker_address(queue.broker_name, MASTER_ID, only_this=True)
        header = self._request(queue, offset, subscription, is_master=is_master)
        reply: Reply = await connection.call(RequestCode.PULL_MESSAGE, header, b"", PULL_TIMEOUT)
        if reply.code not in _PULLED:
            if reply.code == ResponseCode.GO_AWAY:
                instance.connections.retire(connection)
            raise BrokerError.of(reply.code, reply.remark, address)
        answer = reply.header(PullResponse)
        self._brokers[queue] = answer.suggest_which_broker_id
        if queue in self._failing:
            del self._failing[queue]
            _log.warning("pulling %s works again", queue)
        return Pulled(reply.code, answer, reply.body)

    def _request(
        self, queue: MessageQueue, offset: int, subscription: SubscriptionData, *, is_master: bool
    ) -> PullMessage:
        options = self._group.options
        commit = self._group.offsets.get(queue) or 0
        posted = options.post_subscription_when_pull
        flags = pull_flags(commit, from_master=is_master, with_subscription=posted)
        return PullMessage(
            consumer_group=self._group.name, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset,
            max_msg_nums=options.pull_batch_size, sys_flag=flags, commit_offset=commit,
            suspend_timeout_millis=int(SUSPEND_SECONDS * 1000), sub_version=subscription.sub_version,
            subscription=subscription.sub_string if posted else None, expression_type=subscription.expression_type,
            max_msg_bytes=options.pull_batch_bytes, request_source=-1, bname=queue.broker_name,
        )  # fmt: skip


async def _nobody(queue: ProcessQueue, offset: int, next_offset: int) -> None:
    """Stands in until the consumer says who handles an illegal offset."""
