"""The asyncio pull consumer (Java's DefaultMQPullConsumer): the application calls each pull. Deprecated: use lite pull.

It stores offsets and reports which queues a rebalance assigns to it. ``pull.blocking`` has the class for programs
without an event loop.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from time import time
from typing import Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import broker_requests, running_info
from rocketmq_py.client.consumer.calls.decoding import decode_pull
from rocketmq_py.client.consumer.calls.pull_calls import pull_header
from rocketmq_py.client.consumer.consumer_group import ConsumerState
from rocketmq_py.client.consumer.filters import check_version, make_subscription
from rocketmq_py.client.consumer.group_member import split
from rocketmq_py.client.consumer.pull.options import PullOptions
from rocketmq_py.client.consumer.pull.settings import PullSettings
from rocketmq_py.client.consumer.pull_member import PullMember
from rocketmq_py.client.consumer.rebalance.queue_lock import NoQueueLock
from rocketmq_py.client.consumer.rebalance.rebalancer import QueuesChanged, Rebalancer
from rocketmq_py.client.consumer.send_message_back import SendMessageBack
from rocketmq_py.client.hooks.filter_hooks import filter_messages
from rocketmq_py.client.queue_requests import ask_about_queue, broker_of
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.subscription import is_tag_type
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import ConfigError, NetworkError, OffsetIllegal, RocketMQError
from rocketmq_py.model import MessageExt, MessageQueue, PullResult, PullStatus
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketmq_py.wire.command import Command

_STATUS: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


def warn_deprecated(stacklevel: int) -> None:
    """Emit the DeprecationWarning of PullConsumer.

    :param stacklevel: as of :func:`warnings.warn`, counted from the caller.
    """
    warnings.warn(
        "PullConsumer is deprecated, as DefaultMQPullConsumer is; LitePullConsumer does all of it and pulls ahead",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


class PullConsumer(PullMember):
    """Pulls messages on request. Deprecated: use :class:`~rocketmq_py.aio.LitePullConsumer`.

    The application gets queues from :meth:`assignment`, pulls at offsets of its choice, and sets the offset to commit
    with :meth:`update_offset`. Offsets are stored every 5 seconds and on close.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param topics: topics whose queues the members of the group share; :meth:`assignment` returns the queues that this
        consumer owns.
    :param queues_changed: called with a topic, all its queues and the queues that this consumer owns, after the latter
        have changed.
    :param instance: a client to share with other producers and consumers; by default a new one, made from the settings
        below.
    :param instance_name: the part of the client id after ``ip@``; unique by default, ``DEFAULT`` when broadcasting.
    :param unit_name: appended to the client id.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests with these, for servers with access control.
    :param timeout: seconds to wait for answers of name servers, and of brokers to heartbeats.
    :param settings: further options: see :class:`PullOptions`.
    :raises ConfigError: an illegal argument.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        topics: Collection[str] = (),
        queues_changed: QueuesChanged | None = None,
        instance: ClientInstance | None = None,
        **settings: Unpack[PullSettings],
    ) -> None:
        warn_deprecated(2)
        client_settings, options = split(settings)
        self._options = PullOptions(**options)
        super().__init__(group, self._options.shared(), instance, namesrv, client_settings)
        for topic in topics:
            self._group.subscribe(self._group.named_topic(check_topic(topic)), "*")
        self._queues_changed = queues_changed
        self._filters: dict[tuple[str, str, str | None], SubscriptionData] = {}
        self._broker_ids: dict[MessageQueue, int] = {}
        self._send_message_back: SendMessageBack | None = None

    # -- life

    async def start(self) -> None:
        """Join the group; with ``topics``, returns after the first rebalance.

        :raises ConfigError: the client has a consumer of that group already.
        :raises NetworkError: no name server answers.
        :raises ClosedError: the consumer was closed before.
        """
        await self._begin(self.close)

    async def _join(self) -> None:
        group, instance = self._group, self._instance
        instance.register(self)
        broker_requests.serve(instance)
        await self._learn_routes(list(group.subscriptions))
        self._send_message_back = SendMessageBack(group)
        await instance.start()
        await group.announce()
        group.started_at = time()
        group.state = ConsumerState.RUNNING
        if group.subscriptions:
            self._rebalancer = Rebalancer(
                group, _ignore, self._stop_queue, NoQueueLock(group), self._queues_changed, rebuild=False
            )
            await self._rebalancer.start()

    async def close(self) -> None:
        """Store the offsets and leave the group. May be called more than once."""
        await self._end(self._take_apart)

    async def _take_apart(self) -> None:
        if self._rebalancer is not None:
            await self._rebalancer.close()
        await self._group.offsets.persist_confirmed([queue for queue, _ in self._group.offsets])
        await self._instance.unregister(self)

    def _stop_queue(self, process: ProcessQueue) -> None:
        process.dropped = True
        self._broker_ids.pop(process.queue, None)

    # -- queues

    def assignment(self, topic: str | None = None) -> list[MessageQueue]:
        """The queues of ``topics`` that this consumer owns, sorted.

        :param topic: return only the queues of this topic.
        """
        owned = [self._group.shown(queue) for queue in self._group.queues]
        return sorted(queue for queue in owned if topic in (None, queue.topic))

    # -- pulling

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        tags: str = "*",
        *,
        sql: str | None = None,
        max_messages: int = 32,
        wait: bool = False,
        timeout: float | None = None,
    ) -> PullResult:
        """Send one pull request and return its result: status, messages, and the offset of the next pull.

        :param offset: the offset to pull from.
        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :param max_messages: maximum number of messages to return.
        :param wait: let the broker hold the pull for up to ``broker_suspend_time`` seconds until a message arrives.
        :param timeout: seconds to wait for the answer; by default ``pull_timeout``, or ``timeout_when_suspend`` with
            ``wait``.
        :raises ConfigError: an illegal expression, or ``max_messages`` is not positive.
        :raises OffsetIllegal: a negative offset. Any other offset outside of the queue does not raise: the result has
            the status ``OFFSET_ILLEGAL``.
        :raises NoRouteError: the topic does not exist, or no route names the queue's broker.
        :raises NetworkError: the broker cannot be reached or does not answer in time.
        :raises BrokerError: the broker refuses the pull.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        if offset < 0:
            raise OffsetIllegal(f"offset {offset} of {queue} cannot be pulled: it is negative")
        if max_messages < 1:
            raise ConfigError(f"max_messages={max_messages!r} must be positive")
        queue = self._group.named(queue)
        subscription = self._filter(queue.topic, tags, sql)
        header = self._request(queue, offset, subscription, max_messages, wait=wait)
        if timeout is None:
            timeout = self._options.timeout_when_suspend if wait else self._options.pull_timeout
        reply = await self._ask(queue, subscription, header, timeout)
        found = PullResponse.from_ext(reply.ext)
        self._broker_ids[queue] = found.suggest_which_broker_id
        messages, next_offset = list[MessageExt](), found.next_begin_offset
        if reply.code == ResponseCode.SUCCESS or found.damaged is not None:
            pulled = await decode_pull(
                reply.body, found, queue, offset, subscription.tags_set, self._group.options.body_rules
            )
            self._group.skipped.undecoded(self._group.shown(queue), pulled.undecoded)
            if pulled.damage is not None and not pulled.messages:
                pulled = await self._group.single_pulls.pull(
                    queue, pulled.next_offset, subscription, broker_id=self._broker_id(queue)
                )
            messages, next_offset = pulled.messages, pulled.next_offset
            self._group.show(messages)
            messages = filter_messages(self._options.filter_hooks, self.group, self._group.shown(queue), messages)
        self._group.stats(queue.topic).pulled.add(len(messages), 0.0)
        return PullResult(_STATUS[reply.code], next_offset, found.min_offset, found.max_offset, messages)

    async def _ask(
        self, queue: MessageQueue, subscription: SubscriptionData, header: PullMessage, timeout: float
    ) -> Command:
        instance = self._instance
        broker_id = self._broker_id(queue)
        check_version(instance, await broker_of(instance, queue, broker_id=broker_id), subscription)
        process = self._group.queues.get(queue)
        if process is not None:
            process.pulled_at = self._group.now()
        try:
            return await ask_about_queue(
                instance, queue, RequestCode.PULL_MESSAGE, header, timeout=timeout, broker_id=broker_id,
                accepted=_STATUS,
            )  # fmt: skip
        except RocketMQError as e:
            if e.refresh_route:  # the next pull then goes to the broker's new address
                await instance.routes.refresh_all({queue.topic})
            raise

    def _broker_id(self, queue: MessageQueue) -> int:
        """The broker id to pull from: the option ``pull_from_broker_id``, or what the last answer suggested."""
        chosen = self._options.pull_from_broker_id
        return self._broker_ids.get(queue, MASTER_ID) if chosen is None else chosen

    def _filter(self, topic: str, tags: str, sql: str | None) -> SubscriptionData:
        key = topic, tags, sql
        found = self._filters.get(key)
        if found is None:
            found = self._filters[key] = make_subscription(check_topic(topic), tags, sql, int(time() * 1000))
        return found

    def _request(
        self, queue: MessageQueue, offset: int, subscription: SubscriptionData, count: int, *, wait: bool
    ) -> PullMessage:
        version = 0 if is_tag_type(subscription.expression_type) else subscription.sub_version
        flags = PULL_SUBSCRIPTION | (PULL_SUSPEND if wait else 0)
        return pull_header(
            self.group, queue, offset, count, flags, subscription, version=version,
            suspend=self._options.broker_suspend_time,
        )  # fmt: skip

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Send a message back to the broker, which stores it in the group's retry topic after a delay.

        Push consumers of the group get it; other consumers must pull the retry topic.

        :param delay_level: 0: the broker chooses the delay, longer each time; 1 to 18: one of the broker's delay
            levels; -1: to the dead-letter topic at once.
        :raises NetworkError: no broker accepted the message.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        assert self._send_message_back is not None
        if not await self._send_message_back.send_back(message, delay_level):
            raise NetworkError(f"{message!r} could not be sent back: no broker took it; the log says why")

    # -- offsets

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset of a queue to commit, smaller or greater than before; offsets are stored every 5 seconds.

        :param offset: the offset of the last processed message plus one.

        :raises OffsetIllegal: the offset is negative.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        if offset < 0:
            raise OffsetIllegal(f"offset {offset} of {queue} cannot be stored: it is negative")
        self._group.offsets.update(self._group.named(queue), offset, increase_only=False)

    async def committed(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The committed offset of a queue: the last one of :meth:`update_offset`, or else the one stored at the broker.

        None if there is neither.

        :param from_store: return only the offset stored at the broker, in the local file when broadcasting.
        :raises NetworkError: the broker cannot be reached.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        if from_store:
            return await self._group.offsets.fetch(self._group.named(queue))
        return await self._committed(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets now.

        :param offsets: for each queue the offset of the last processed message plus one; None: all offsets of
            :meth:`update_offset`.
        :raises OffsetIllegal: an offset is negative.
        :raises NetworkError: a broker cannot be reached; the offsets of other brokers' queues are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        for queue, offset in (offsets or {}).items():
            self.update_offset(queue, offset)
        if offsets is None:
            await self._group.offsets.store(dict(self._group.offsets))
        else:
            await self._group.offsets.store({self._group.named(queue): offset for queue, offset in offsets.items()})

    async def min_offset(self, queue: MessageQueue) -> int:
        """Ask the broker for the offset of the oldest message of a queue. Errors as of :meth:`committed`."""
        self._check_running()
        return await self._group.offsets.min_offset(self._group.named(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Ask the broker for the offset that the queue's next message will get. Errors as of :meth:`committed`."""
        self._check_running()
        return await self._group.offsets.max_offset(self._group.named(queue))

    async def lag(self) -> dict[MessageQueue, int]:
        """Ask the brokers how many messages follow the committed offset of each queue.

        Covers the queues that this consumer owns and those with an offset of :meth:`update_offset`.

        :raises NetworkError: a broker cannot be reached.
        """
        queues = {*self._group.queues, *(queue for queue, _ in self._group.offsets)}
        return await running_info.lag_of(self._group, sorted(queues))

    # -- a member of the client instance

    def topics(self) -> set[str]:
        """The topics of the option ``topics``, and those that were pulled."""
        return {*self._group.subscriptions, *(topic for topic, _, _ in self._filters)}

    async def persist_offsets(self) -> None:
        """Send the offsets of :meth:`update_offset` to the brokers, or write them to a file when broadcasting."""
        await self._group.offsets.persist([queue for queue, _ in self._group.offsets])

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Replace offsets of :meth:`update_offset` by these; queues without one are ignored."""
        for queue, offset in offsets.items():
            if self._group.offsets.get(queue) is not None:
                self._group.offsets.update(queue, offset, increase_only=False)

    def __repr__(self) -> str:
        return f"PullConsumer(group={self.group!r}, {self._group.state.value}, {len(self.assignment())} queues)"


def _ignore(process: ProcessQueue, delay: float) -> None:
    """Do nothing: the application pulls the queues itself."""
