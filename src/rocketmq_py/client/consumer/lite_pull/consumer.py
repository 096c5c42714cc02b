"""The asyncio lite pull consumer: pulls messages in the background into a cache; the application polls them.

It has a message cache, a pull loop for each queue, and a rebalancer unless the application assigns the queues.
``lite_pull.blocking`` has the class for programs without an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from time import time, time_ns
from types import TracebackType
from typing import Self, Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import broker_requests
from rocketmq_py.client.consumer.consumer_group import ConsumerState
from rocketmq_py.client.consumer.filters import check_brokers, make_subscription
from rocketmq_py.client.consumer.group_member import split
from rocketmq_py.client.consumer.lite_pull.assigned_queues import AssignedQueues
from rocketmq_py.client.consumer.lite_pull.handoff import Handoff
from rocketmq_py.client.consumer.lite_pull.options import LitePullOptions
from rocketmq_py.client.consumer.lite_pull.settings import LitePullSettings
from rocketmq_py.client.consumer.lite_pull.topic_watch import TopicQueuesChanged, TopicWatch
from rocketmq_py.client.consumer.pull_member import PullMember
from rocketmq_py.client.consumer.rebalance.queue_lock import NoQueueLock
from rocketmq_py.client.consumer.rebalance.rebalancer import Rebalancer
from rocketmq_py.client.hooks.hooks import ReceiveHook, report_received
from rocketmq_py.client.hooks.tracing import PollTrace, Trace, Tracer
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import ClosedError, ConfigError, NotAssigned, OffsetIllegal, RocketMQError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.tasks import Background


class _Mode(enum.Enum):
    """How a consumer gets its queues: by rebalancing (``SUBSCRIBE``) or from the application (``ASSIGN``)."""

    NONE = "neither subscribed nor assigned"
    SUBSCRIBE = "subscribed"
    ASSIGN = "assigned"


class LitePullConsumer(PullMember):
    """A member of a consumer group whose application polls messages.

    With :meth:`subscribe` the members of the group share the queues of the topics; with :meth:`assign` it consumes the
    given queues, regardless of other members. Delivery is at least once if the application processes the messages of a
    :meth:`poll` before the next poll: with ``auto_commit`` a poll commits the messages of earlier polls. Iterating
    (``async for message in consumer``) polls message by message and ends when the consumer is closed. There are no
    retries and no dead letters: after a failure the application may :meth:`seek` back.

    As a context manager it starts when the block is entered. With ``auto_commit`` the end of the block commits all
    polled messages; if the block raised, messages of the last polls are not committed and are delivered again.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param instance: a client to share with other producers and consumers; by default a new one, made from the settings
        below.
    :param hooks: called with the messages that polls return, for example to make spans.
    :param trace: True sends message traces to the brokers' default trace topic, a string to that topic; see
        :mod:`rocketmq_py.client.hooks.tracing`. Off by default.
    :param instance_name: the part of the client id after ``ip@``; unique by default, ``DEFAULT`` when broadcasting.
    :param unit_name: appended to the client id.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests with these, for servers with access control.
    :param timeout: seconds to wait for answers of name servers, and of brokers to heartbeats.
    :param settings: further options: see :class:`LitePullOptions`.
    :raises ConfigError: an illegal argument.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        instance: ClientInstance | None = None,
        hooks: Sequence[ReceiveHook] = (),
        trace: Trace = False,
        **settings: Unpack[LitePullSettings],
    ) -> None:
        client_settings, options = split(settings)
        self._tracer = Tracer.of(trace, group, "CONSUME")
        self.hooks = (*hooks, PollTrace(self._tracer)) if self._tracer is not None else tuple(hooks)
        self._options = LitePullOptions(**options)
        super().__init__(group, self._options.shared(), instance, namesrv, client_settings)
        self._queues = AssignedQueues(self._group, self._options, self._subscription)
        self.handoff = Handoff()
        """Batches of messages for blocking polls; threads take them without a call into the event loop."""
        self._watch = TopicWatch(self._instance, self._options.metadata_check_interval)
        self._mode = _Mode.NONE
        self._assigned: dict[str, SubscriptionData] = {}
        self._joining = Background()
        self._commit_at = 0.0

    # -- subscribe and assign

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic, or change its filter; the members of the group share its queues.

        May be called before and after :meth:`start`.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: an illegal topic name or expression, or queues are assigned.
        :raises ClosedError: the consumer is closed.
        """
        self._set_mode(_Mode.SUBSCRIBE)
        self._group.subscribe(self._group.named_topic(check_topic(topic)), tags, sql)
        if self._rebalancer is not None:
            self._rebalancer.trigger()
        elif self._group.state is ConsumerState.RUNNING:
            self._joining.start(self._rebalance())

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic: release its queues and discard their cached messages."""
        name = self._group.named_topic(topic)
        self._group.subscriptions.pop(name, None)
        for queue in self._group.owned(name):
            self._queues.release(self._group.queues.pop(queue))
        if self._rebalancer is not None:
            self._rebalancer.trigger()

    def assign(self, queues: Iterable[MessageQueue], tags: str = "*", *, sql: str | None = None) -> None:
        """Consume exactly these queues from now on, regardless of other members of the group.

        Queues that were assigned before keep their positions. May be called before and after :meth:`start`.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: no queues, an illegal expression, or topics are subscribed.
        :raises ClosedError: the consumer is closed.
        """
        wanted = list(dict.fromkeys(self._group.named(MessageQueue(*queue)) for queue in queues))
        if not wanted:
            raise ConfigError(f"no queue to assign to consumer group {self.group}; queues(topic) tells which there are")
        topics, now = {queue.topic for queue in wanted}, int(time() * 1000)
        filters = {topic: make_subscription(check_topic(topic), tags, sql, now) for topic in topics}
        self._set_mode(_Mode.ASSIGN)
        self._assigned = filters
        for queue in set(self._group.queues).difference(wanted):
            self._queues.release(self._group.queues.pop(queue))
        for queue in wanted:
            if queue not in self._group.queues:
                process = self._group.queues[queue] = self._group.make_queue(queue)
                if self._group.state is ConsumerState.RUNNING:
                    self._queues.take(process)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer owns now."""
        return sorted(self._group.shown(queue) for queue in self._group.queues)

    def on_queues_changed(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Call ``listener(topic, queues)``, a plain or ``async def`` function, when the queues of a topic have changed.

        The listener may call :meth:`assign`. The topic's route is checked every ``metadata_check_interval`` seconds. A
        second listener of the same topic replaces the first.
        """

        def shown(name: str, queues: list[MessageQueue]) -> Awaitable[None] | None:
            return listener(self._group.shown_topic(name), [self._group.shown(queue) for queue in queues])

        self._watch.add(self._group.named_topic(check_topic(topic)), shown)

    def _set_mode(self, mode: _Mode) -> None:
        if self._is_ending:
            raise self._closed_error()
        if self._mode not in (_Mode.NONE, mode):
            raise ConfigError(
                f"the consumer of group {self.group} is {self._mode.value}: subscribe() and assign() exclude each other"
            )
        self._mode = mode

    def _subscription(self, topic: str) -> SubscriptionData:
        return self._subscriptions[topic]

    @property
    def _subscriptions(self) -> dict[str, SubscriptionData]:
        return self._assigned if self._mode is _Mode.ASSIGN else self._group.subscriptions

    # -- life

    async def start(self) -> None:
        """Join the group and start to pull; with subscribed topics, returns after the first rebalance.

        :raises ConfigError: the client has a consumer of that group already, or a broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: the consumer was closed before.
        """
        await self._begin(lambda: self.close(commit=False))

    async def _join(self) -> None:
        self._instance.register(self)
        broker_requests.serve(self._instance)
        if self._tracer is not None:
            self._tracer.start(self._instance)
        await self._learn_routes(self.topics())
        await check_brokers(self._instance, self.group, list(self._subscriptions.values()))
        await self._instance.start()
        await self._group.announce()
        self._group.started_at = time()
        self._commit_at = self._group.now() + self._options.auto_commit_interval
        self._group.state = ConsumerState.RUNNING
        self._watch.start()
        for process in list(self._group.queues.values()):
            self._queues.take(process)
        if self._mode is _Mode.SUBSCRIBE:
            await self._rebalance()

    async def _rebalance(self) -> None:
        self._rebalancer = Rebalancer(
            self._group, self._queues.take, self._queues.release, NoQueueLock(self._group)
        )  # fmt: skip
        await self._rebalancer.start()

    async def close(self, *, commit: bool = True) -> None:
        """Store the committed offsets and leave the group. May be called more than once.

        :param commit: with ``auto_commit``, commit all polled messages first.
        """
        await self._end(lambda: self._take_apart(commit=commit))

    async def _take_apart(self, *, commit: bool) -> None:
        self._reclaim()
        await self._end_parts()
        if commit and self._options.auto_commit:
            self._queues.commit_positions()
        await self._group.offsets.persist_confirmed([queue for queue, _ in self._group.offsets])
        if self._tracer is not None:
            await self._tracer.close()
        await self._instance.unregister(self)

    async def _end_parts(self) -> None:
        await self._watch.close()
        await self._joining.stop()
        if self._rebalancer is not None:
            await self._rebalancer.close()
        await self._queues.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(commit=error is None)

    # -- messages

    async def poll(self, timeout: float | None = 5.0) -> list[MessageExt]:
        """Return the next messages, at most ``pull_batch_size``, all of the same queue and in offset order.

        :param timeout: seconds to wait for a message; None: without limit, 0: not at all.
        :returns: an empty list if no message came in time.
        :raises ConfigError: a negative timeout, or nothing is subscribed or assigned.
        :raises NoRouteError: no message came in time, and none of the topics exists.
        :raises NetworkError: no message came in time, and no broker can be reached.
        :raises BrokerError: no message came in time, and all brokers answer with errors.
        :raises ClosedError: the consumer is not started, or closed.
        """
        began_ns = time_ns()
        await self._wait(timeout)
        messages = self._queues.cache.take()
        if messages:
            self._queues.consumed(self._group.named(messages[0].queue))
            report_received(self.hooks, self.group, messages, began_ns)
        return messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        began_ns = time_ns()
        while await self._more():
            message = self._queues.cache.take_one()
            if message is not None:
                self._queues.consumed(self._group.named(message.queue))
                report_received(self.hooks, self.group, [message], began_ns)
                return message
        raise StopAsyncIteration

    async def fill_handoff(self, timeout: float | None) -> None:
        """Wait for messages and put them into ``handoff``, from which threads take them.

        First mark the messages that threads have taken as consumed.

        Parameters and errors as of :meth:`poll`.
        """
        self._reclaim()
        await self._wait(timeout)
        self.handoff.fill(self._queues.cache)

    async def fill_handoff_or_end(self) -> bool:
        """Call :meth:`fill_handoff` without a time limit; returns False if the consumer was closed during the wait."""
        self._reclaim()
        is_more = await self._more()
        self.handoff.fill(self._queues.cache)
        return is_more

    def _reclaim(self) -> None:
        self.handoff.reclaim(self._queues.cache, self._queues.consumed)

    async def _more(self) -> bool:
        """Wait until a message is cached; returns False if the consumer was closed during the wait."""
        try:
            await self._wait(None)
        except ClosedError:
            if self._is_ending:
                return False
            raise
        return True

    async def _wait(self, timeout: float | None) -> None:
        """Commit if an automatic commit is due, then wait at most ``timeout`` seconds for a cached message."""
        if timeout is not None and timeout < 0:
            raise ConfigError(f"timeout={timeout!r} must not be negative")
        self._check_running()
        if self._mode is _Mode.NONE:
            raise ConfigError(f"the consumer of group {self.group} has nothing to poll: call subscribe() or assign()")
        if self._options.auto_commit and self._group.now() >= self._commit_at:
            self._queues.commit_positions()
            self._commit_at = self._group.now() + self._options.auto_commit_interval
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._queues.cache.empty:
                    self._queues.arrived.clear()
                    await self._queues.arrived.wait()
                    self._check_running()
        if self._queues.cache.empty:
            self._check_failures()

    def _check_failures(self) -> None:
        """Raise the first queue's error if all queues fail, or the first topic's if there is no queue."""
        problems = self._group.problems
        keys: list[tuple[str, object]] = [("queue", queue) for queue in self._group.queues]
        keys = keys or [("topic", topic) for topic in self.topics()]
        errors = [error for key in keys if isinstance(error := problems.get(key), RocketMQError)]
        if errors and len(errors) == len(keys):
            raise errors[0].with_traceback(None)  # the same error may be raised many times

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Stop pulling these queues until :meth:`resume`; polls still return messages that are already cached.

        Queues that this consumer does not own are ignored. A queue that a rebalance takes away and returns later is no
        longer paused.
        """
        self._queues.pause([self._group.named(queue) for queue in queues])

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pull paused queues again."""
        self._queues.resume([self._group.named(queue) for queue in queues])

    @property
    def paused(self) -> list[MessageQueue]:
        """The paused queues."""
        return sorted(self._group.shown(queue) for queue in self._queues.cache.paused)

    # -- offsets

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at ``offset`` of a queue: discard its cached messages and pull from there.

        :raises NotAssigned: the consumer does not own the queue.
        :raises OffsetIllegal: the offset is outside of the queue.
        :raises NetworkError: the broker cannot be reached.
        :raises ClosedError: the consumer is not started, or closed.
        """
        first, end = await self._bounds(queue)
        if not first <= offset <= end:
            raise OffsetIllegal(
                f"offset {offset} of {queue} cannot be sought: the queue begins at {first} and ends at {end}"
            )
        self._move(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest stored message of a queue. Errors as of :meth:`seek`."""
        self._process(queue)
        self._move(queue, await self._group.offsets.min_offset(self._group.named(queue)))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the end of a queue, with the next message that is stored. Errors as of :meth:`seek`."""
        self._process(queue)
        self._move(queue, await self._group.offsets.max_offset(self._group.named(queue)))

    async def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        self._process(queue)
        offsets, queue = self._group.offsets, self._group.named(queue)
        return await offsets.min_offset(queue), await offsets.max_offset(queue)

    def _move(self, queue: MessageQueue, offset: int) -> None:
        self._queues.move(self._process(queue), offset)  # raises if the queue was lost meanwhile

    def _process(self, queue: MessageQueue) -> ProcessQueue:
        self._check_running()
        process = self._group.queues.get(self._group.named(queue))
        if process is None or process.dropped:
            why = "; is the group rebalancing?" if self._mode is _Mode.SUBSCRIBE else ""
            raise NotAssigned(f"queue {queue} is not assigned to this consumer of group {self.group}{why}")
        return process

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue: from this consumer's memory, or else from the broker; None if there is none.

        :raises NetworkError: the broker cannot be reached.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        return await self._committed(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets at the brokers, in a local file when broadcasting.

        :param offsets: for each queue the offset of the last processed message plus one; None: those of all polled
            messages.
        :raises NotAssigned: the consumer does not own a queue.
        :raises OffsetIllegal: an offset is negative.
        :raises NetworkError: a broker cannot be reached; the offsets of other brokers' queues are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        self._reclaim()
        named = {self._group.named(queue): offset for queue, offset in (offsets or {}).items()}
        wanted = dict(self._queues.cache.positions) if offsets is None else named
        for queue, offset in wanted.items():
            self._process(queue)
            if offset < 0:
                raise OffsetIllegal(f"offset {offset} of {queue} cannot be committed: it is negative")
        self._queues.commit(wanted)
        await self._group.offsets.store(wanted)

    # -- a member of the client instance

    def topics(self) -> set[str]:
        """The topics that are subscribed, or whose queues are assigned."""
        return set(self._subscriptions)

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, smaller or greater than the current ones; queues it does not own are ignored."""
        for queue, offset in offsets.items():
            process = self._group.queues.get(queue)
            if process is not None:
                self._queues.move(process, offset)
                self._queues.commit({queue: offset})

    async def persist_offsets(self) -> None:
        """Send committed offsets to the brokers, or write them to a file when broadcasting.

        Offsets of queues that it no longer owns are sent once more and then removed from memory.
        """
        offsets = self._group.offsets
        await offsets.persist([queue for queue, _ in offsets])
        offsets.retain(self._group.queues)

    def __repr__(self) -> str:
        state = self._group.state.value
        return f"LitePullConsumer(group={self.group!r}, {state}, {self._mode.value}, {len(self.assignment)} queues)"
