"""The lite pull consumer: the application asks for messages, which are pulled ahead in the background.

Puts the parts together and takes them apart again: a cache, a pull loop for each queue, a rebalancer unless the
application assigns queues itself. asyncio is the source; ``lite_pull_blocking`` is the same for programs without an
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from time import time, time_ns
from types import TracebackType
from typing import Self, Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import broker_requests
from rocketmq_py.client.consumer.consumer_group import ConsumerState
from rocketmq_py.client.consumer.filters import check_brokers, make_subscription
from rocketmq_py.client.consumer.group_member import GroupMember, split
from rocketmq_py.client.consumer.lite_pull.assigned_queues import AssignedQueues
from rocketmq_py.client.consumer.lite_pull.handoff import Handoff
from rocketmq_py.client.consumer.lite_pull.options import LitePullOptions, LitePullSettings
from rocketmq_py.client.consumer.lite_pull.topic_watch import TopicQueuesChanged, TopicWatch
from rocketmq_py.client.consumer.pull_member import PullMember
from rocketmq_py.client.consumer.rebalance.queue_lock import NoQueueLock
from rocketmq_py.client.consumer.rebalance.rebalancer import Rebalancer
from rocketmq_py.client.hooks.hooks import ReceiveHook, tell_received
from rocketmq_py.client.hooks.tracing import PollTrace, Trace, Tracer
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import ClosedError, ConfigError, NotAssigned, OffsetIllegal
from rocketmq_py.model import ConsumeFromWhere, MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.client import ConsumerData, SubscriptionData
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.tasks import Background


class _Mode(enum.Enum):
    """How a consumer comes by its queues."""

    NONE = "neither subscribed nor assigned"
    SUBSCRIBE = "subscribed"
    ASSIGN = "assigned"


class LitePullConsumer(PullMember, GroupMember):
    """A member of a consumer group that gets messages when it asks for them.

    Either topics are subscribed, and the group shares their queues, or queues are assigned and consumed whoever else
    does. Messages are delivered at least once to whoever processes what one :meth:`poll` returned before the next one:
    with ``auto_commit`` a poll commits what earlier polls returned. Iterating (``async for message in consumer``) polls
    message by message and ends when the consumer is closed. There are no retries and no dead letters: a message that
    failed is the application's affair, which may :meth:`seek` back to it.

    As a context manager it starts at once. Left without an exception it commits, with ``auto_commit``, all that was
    polled; left by an exception it does not, so that what was under way is delivered again.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param instance: a client to share with other producers and consumers; by default one of its own, made from the
        settings below.
    :param hooks: told of messages that are handed out, for spans of them.
    :param trace: leave traces of messages in the brokers' trace topic, or in the one named here; see
        :mod:`rocketmq_py.client.hooks.tracing`. Off by default.
    :param instance_name: the part of the client id after ``ip@``; unique by default, ``DEFAULT`` when broadcasting.
    :param unit_name: appended to the client id.
    :param address_map: other addresses for the ones brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param timeout: seconds to wait for name servers, and for brokers' answers to heartbeats.
    :param settings: what else there is to say of it: see :class:`LitePullOptions`.
    :raises ConfigError: an argument that can never work.
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
        """What threads may poll without asking this consumer's event loop."""
        self._watch = TopicWatch(self._instance, self._options.metadata_check_interval)
        self._mode = _Mode.NONE
        self._assigned: dict[str, SubscriptionData] = {}
        self._rebalancer: Rebalancer | None = None
        self._joining = Background()
        self._commit_at = 0.0

    # -- which queues

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Adds a topic whose queues the group shares, or changes the filter of one; works at any time.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: an illegal topic name or expression, or queues are assigned.
        :raises ClosedError: it is closed.
        """
        self._set_mode(_Mode.SUBSCRIBE)
        self._group.subscribe(check_topic(topic), tags, sql)
        if self._rebalancer is not None:
            self._rebalancer.trigger()
        elif self._group.state is ConsumerState.RUNNING:
            self._joining.start(self._rebalance())

    def unsubscribe(self, topic: str) -> None:
        """Takes a topic away; its queues are let go and what is held of them is not delivered."""
        self._group.subscriptions.pop(topic, None)
        for queue in self._group.owned(topic):
            self._queues.release(self._group.queues.pop(queue))
        if self._rebalancer is not None:
            self._rebalancer.trigger()

    def assign(self, queues: Iterable[MessageQueue], tags: str = "*", *, sql: str | None = None) -> None:
        """Consumes exactly these queues from now on, whatever other members do; works at any time.

        Queues that are assigned already go on where they are.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: no queues, an illegal expression, or topics are subscribed.
        :raises ClosedError: it is closed.
        """
        wanted = list(dict.fromkeys(MessageQueue(*queue) for queue in queues))
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
        """The queues this consumer has now."""
        return sorted(self._group.queues)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, as the name server knows them now.

        :raises NoRouteError: it does not know the topic.
        :raises NetworkError: no name server answers.
        """
        return (await self._instance.routes.refresh(topic)).read_queues

    def on_queues_changed(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Has ``listener(topic, queues)``, a function or ``async def``, told when a topic has other queues than before.

        It may call :meth:`assign`. A look is taken every ``metadata_check_interval`` seconds; a topic has one listener.
        """
        self._watch.add(check_topic(topic), listener)

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
        """Joins the group and begins to pull; returns, if topics are subscribed, when it has taken its queues.

        :raises ConfigError: the client has a consumer of that group already.
        :raises NetworkError: no name server answers.
        :raises ClosedError: it was closed before.
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
            self._group, self._queues.take, self._queues.release, NoQueueLock(self._group), _nobody
        )  # fmt: skip
        await self._rebalancer.start()

    async def close(self, *, commit: bool = True) -> None:
        """Leaves the group: offsets are stored, the brokers told. May be called more than once.

        :param commit: with ``auto_commit``, whether everything polled so far is committed, too.
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
        """The next messages, all of one queue and in its order; at most ``pull_batch_size``.

        :param timeout: seconds to wait for a message; None: as long as it takes, 0: not at all.
        :returns: empty when none came in time.
        :raises ConfigError: a negative timeout, or nothing is subscribed or assigned.
        :raises ClosedError: it is not started, or closed.
        """
        began_ns = time_ns()
        await self._wait(timeout)
        messages = self._queues.cache.take()
        if messages:
            self._queues.consumed(messages[0].queue)
            tell_received(self.hooks, self.group, messages, began_ns)
        return messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        began_ns = time_ns()
        while await self._more():
            message = self._queues.cache.take_one()
            if message is not None:
                self._queues.consumed(message.queue)
                tell_received(self.hooks, self.group, [message], began_ns)
                return message
        raise StopAsyncIteration

    async def fill_handoff(self, timeout: float | None) -> None:
        """For polling in a thread: settles what was taken from the handoff, and puts out what is there or comes.

        Arguments and errors are those of :meth:`poll`.
        """
        self._reclaim()
        await self._wait(timeout)
        self.handoff.fill(self._queues.cache)

    async def fill_handoff_or_end(self) -> bool:
        """As :meth:`fill_handoff` without a time limit; False when the consumer is closed meanwhile."""
        self._reclaim()
        is_more = await self._more()
        self.handoff.fill(self._queues.cache)
        return is_more

    def _reclaim(self) -> None:
        self.handoff.reclaim(self._queues.cache, self._queues.consumed)

    async def _more(self) -> bool:
        """Waits for a message; False when the consumer is closed meanwhile."""
        try:
            await self._wait(None)
        except ClosedError:
            if self._is_ending:
                return False
            raise
        return True

    async def _wait(self, timeout: float | None) -> None:
        """Waits until there is a message, or the time is over; commits what is due before."""
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

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pulls nothing more of these queues until :meth:`resume`; what is held of them is still polled.

        Queues that are not this consumer's are left alone; a queue that is lost and comes back is not paused.
        """
        self._queues.pause(queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pulls these queues again."""
        self._queues.resume(queues)

    @property
    def paused(self) -> list[MessageQueue]:
        """The queues that are paused."""
        return sorted(self._queues.cache.paused)

    # -- offsets

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Goes on at another offset of a queue; what is held of it is dropped.

        :raises NotAssigned: the queue is not this consumer's.
        :raises OffsetIllegal: the broker's queue does not reach there.
        :raises NetworkError: the broker cannot be asked.
        :raises ClosedError: it is not started, or closed.
        """
        first, end = await self._bounds(queue)
        if not first <= offset <= end:
            raise OffsetIllegal(
                f"offset {offset} of {queue} cannot be sought: the queue begins at {first} and ends at {end}"
            )
        self._jump(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Goes on at the oldest message the broker still has. Errors as :meth:`seek`."""
        self._process(queue)
        self._jump(queue, await self._group.offsets.min_offset(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Goes on with the next message to be stored. Errors as :meth:`seek`."""
        self._process(queue)
        self._jump(queue, await self._group.offsets.max_offset(queue))

    async def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        self._process(queue)
        offsets = self._group.offsets
        return await offsets.min_offset(queue), await offsets.max_offset(queue)

    def _jump(self, queue: MessageQueue, offset: int) -> None:
        self._queues.jump(self._process(queue), offset)  # it may have been lost while the broker was asked

    def _process(self, queue: MessageQueue) -> ProcessQueue:
        self._check_running()
        process = self._group.queues.get(queue)
        if process is None or process.dropped:
            why = "; is the group rebalancing?" if self._mode is _Mode.SUBSCRIBE else ""
            raise NotAssigned(f"queue {queue} is not assigned to this consumer of group {self.group}{why}")
        return process

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset the group goes on at, as committed here or else as the broker has it; None if there is none.

        :raises NetworkError: the broker cannot be asked.
        :raises ClosedError: it is not started, or closed.
        """
        self._check_running()
        known = self._group.offsets.get(queue)
        return known if known is not None else await self._group.offsets.fetch(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, when: datetime.datetime | int) -> int:
        """The offset of the first message stored at a time or later, to be sought.

        :param when: an aware or local ``datetime``, or milliseconds since the epoch.
        :raises NetworkError: the broker cannot be asked.
        :raises ClosedError: it is not started, or closed.
        """
        self._check_running()
        millis = int(when.timestamp() * 1000) if isinstance(when, datetime.datetime) else when
        return await self._group.offsets.offset_at(queue, millis)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Stores offsets at the brokers: everything polled so far, or the given ones.

        :param offsets: for each queue the offset to go on at, one greater than that of the last message done.
        :raises NotAssigned: a queue is not this consumer's.
        :raises OffsetIllegal: an offset is negative.
        :raises NetworkError: a broker cannot be reached; offsets of others are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: it is not started, or closed.
        """
        self._check_running()
        self._reclaim()
        wanted = dict(self._queues.cache.positions if offsets is None else offsets)
        for queue, offset in wanted.items():
            self._process(queue)
            if offset < 0:
                raise OffsetIllegal(f"offset {offset} of {queue} cannot be committed: it is negative")
        self._queues.commit(wanted)
        await self._group.offsets.store(wanted)

    # -- a member of the client instance

    def heartbeat(self) -> ConsumerData:
        """What brokers are to know of this member."""
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_ACTIVELY",
            message_model=self._options.message_model.value,
            consume_from_where=ConsumeFromWhere.LAST_OFFSET.value,  # whatever it does: so do all pull consumers
            subscription_data_set=list(self._group.subscriptions.values()),
        )

    def topics(self) -> set[str]:
        """The topics it consumes."""
        return set(self._subscriptions)

    async def on_ids_changed(self) -> None:
        """The group has changed: look who gets what."""
        if self._rebalancer is not None:
            self._rebalancer.trigger()

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Goes on at other offsets, smaller or greater, in those of the queues that are ours."""
        for queue, offset in offsets.items():
            process = self._group.queues.get(queue)
            if process is not None:
                self._queues.jump(process, offset)
                self._queues.commit({queue: offset})

    async def persist_offsets(self) -> None:
        """Sends what is committed to the brokers, also of queues that are no longer assigned."""
        offsets = self._group.offsets
        await offsets.persist([queue for queue, _ in offsets])
        offsets.retain(self._group.queues)

    def __repr__(self) -> str:
        state = self._group.state.value
        return f"LitePullConsumer(group={self.group!r}, {state}, {self._mode.value}, {len(self.assignment)} queues)"


def _nobody(topic: str, queues: list[MessageQueue], mine: list[MessageQueue]) -> None:
    """Stands in where nobody wants to know of changes."""
