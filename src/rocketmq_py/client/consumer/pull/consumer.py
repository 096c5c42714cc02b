"""The older pull consumer: every pull is the application's own. Deprecated, as in Java; the lite one does more.

Knows one pull at a time, offsets in memory and at home, and which queues the group allots. asyncio is the source;
``pull_blocking`` is the same for programs without an event loop.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Collection, Mapping, Sequence
from time import time
from typing import Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import broker_requests, running_info
from rocketmq_py.client.consumer.consumer_group import ConsumerState
from rocketmq_py.client.consumer.filters import check_version, make_subscription
from rocketmq_py.client.consumer.group_member import GroupMember, split
from rocketmq_py.client.consumer.offsets import broker_of
from rocketmq_py.client.consumer.pull.options import PullOptions, PullSettings
from rocketmq_py.client.consumer.pull_member import PullMember
from rocketmq_py.client.consumer.push.runtime import QueuesChanged
from rocketmq_py.client.consumer.rebalance.queue_lock import NoQueueLock
from rocketmq_py.client.consumer.rebalance.rebalancer import Rebalancer
from rocketmq_py.client.consumer.send_message_back import SendMessageBack
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.pull_result import pulled_messages
from rocketmq_py.core.consumer.subscription import is_tag_type
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, OffsetIllegal, RocketMQError
from rocketmq_py.model import ConsumeFromWhere, MessageExt, MessageQueue, PullResult, PullStatus
from rocketmq_py.protocol.bodies.client import ConsumerData, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketmq_py.wire.command import Command

UNLIMITED = 2**31 - 1

_STATUS: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


def warn_deprecated(stacklevel: int) -> None:
    """Says what to use instead."""
    warnings.warn(
        "PullConsumer is deprecated, as DefaultMQPullConsumer is; LitePullConsumer does all of it and pulls ahead",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


class PullConsumer(PullMember, GroupMember):
    """Pulls where and when it is told to. Deprecated: use :class:`~rocketmq_py.aio.LitePullConsumer`.

    Nothing is consumed by itself: the application asks which queues there are, pulls at offsets of its own choice and
    says with :meth:`update_offset` how far it has come, which is stored every 5 seconds and at the end.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param topics: topics whose queues the members of the group share; :meth:`assignment` tells which are this one's.
    :param queues_changed: told when they change.
    :param instance: a client to share with other producers and consumers; by default one of its own, made from the
        settings below.
    :param instance_name: the part of the client id after ``ip@``; unique by default, ``DEFAULT`` when broadcasting.
    :param unit_name: appended to the client id.
    :param address_map: other addresses for the ones brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param timeout: seconds to wait for name servers, and for brokers' answers to heartbeats.
    :param settings: what else there is to say of it: see :class:`PullOptions`.
    :raises ConfigError: an argument that can never work.
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
            self._group.subscribe(check_topic(topic), "*")
        self._queues_changed = queues_changed or _nobody
        self._filters: dict[tuple[str, str, str | None], SubscriptionData] = {}
        self._broker_ids: dict[MessageQueue, int] = {}
        self._rebalancer: Rebalancer | None = None
        self._send_message_back: SendMessageBack | None = None

    # -- life

    async def start(self) -> None:
        """Makes ready to pull; with ``topics``, returns when it has seen the group and been allotted its queues.

        :raises ConfigError: the client has a consumer of that group already.
        :raises NetworkError: no name server answers.
        :raises ClosedError: it was closed before.
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
                group, _take_nothing, self._release_queues, NoQueueLock(group), self._queues_changed, rebuild=False
            )
            await self._rebalancer.start()

    async def close(self) -> None:
        """Leaves the group: offsets are stored, the brokers told. May be called more than once."""
        await self._end(self._take_apart)

    async def _take_apart(self) -> None:
        if self._rebalancer is not None:
            await self._rebalancer.close()
        await self._group.offsets.persist_confirmed([queue for queue, _ in self._group.offsets])
        await self._instance.unregister(self)

    def _release_queues(self, process: ProcessQueue) -> None:
        process.dropped = True
        self._broker_ids.pop(process.queue, None)

    # -- queues

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, as the name server knows them now.

        :raises NoRouteError: it does not know the topic.
        :raises NetworkError: no name server answers.
        """
        return (await self._instance.routes.refresh(topic)).read_queues

    def assignment(self, topic: str | None = None) -> list[MessageQueue]:
        """The queues of the registered topics, or of one, that are this member's share."""
        return sorted(queue for queue in self._group.queues if topic in (None, queue.topic))

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
        """Pulls once.

        :param offset: of the first message wanted.
        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :param max_messages: the most messages that are wanted.
        :param wait: has the broker hold the pull, ``broker_suspend_time`` at most, until there is something.
        :param timeout: seconds to wait for the answer instead of ``pull_timeout`` or ``timeout_when_suspend``.
        :raises ConfigError: an illegal expression, or ``max_messages`` is not positive.
        :raises OffsetIllegal: a negative offset. One outside of the queue is a result: ``OFFSET_ILLEGAL``.
        :raises NetworkError: the broker cannot be reached or does not answer in time.
        :raises BrokerError: it refuses.
        :raises ClosedError: it is not started, or closed.
        """
        self._check_running()
        if offset < 0:
            raise OffsetIllegal(f"offset {offset} of {queue} cannot be pulled: it is negative")
        if max_messages < 1:
            raise ConfigError(f"max_messages={max_messages!r} must be positive")
        subscription = self._filter(queue.topic, tags, sql)
        header = self._request(queue, offset, subscription, max_messages, wait=wait)
        if timeout is None:
            timeout = self._options.timeout_when_suspend if wait else self._options.pull_timeout
        reply = await self._ask(queue, subscription, header, timeout)
        found = PullResponse.from_ext(reply.ext)
        self._broker_ids[queue] = found.suggest_which_broker_id
        messages: list[MessageExt] = []
        if reply.code == ResponseCode.SUCCESS:
            messages = pulled_messages(reply.body, found, queue.broker_name, subscription.tags_set)
        self._group.stats(queue.topic).pulled.add(len(messages), 0.0)
        return PullResult(_STATUS[reply.code], found.next_begin_offset, found.min_offset, found.max_offset, messages)

    async def _ask(
        self, queue: MessageQueue, subscription: SubscriptionData, header: PullMessage, timeout: float
    ) -> Command:
        instance = self._instance
        address = await broker_of(instance, queue, broker_id=self._broker_ids.get(queue, MASTER_ID))
        check_version(instance, address, subscription)
        process = self._group.queues.get(queue)
        if process is not None:
            process.pulled_at = self._group.now()
        try:
            answer = await instance.connections.invoke(
                address, RequestCode.PULL_MESSAGE, header, timeout=timeout, check=False
            )
            if answer.code not in _STATUS:
                raise BrokerError.of(answer.code, answer.remark, address)
        except RocketMQError as e:
            if e.refresh_route:  # so that the next pull finds where the broker is by then
                await instance.routes.refresh_all({queue.topic})
            raise
        return answer

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
        return PullMessage(
            consumer_group=self.group, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset,
            max_msg_nums=count, sys_flag=PULL_SUBSCRIPTION | (PULL_SUSPEND if wait else 0), commit_offset=0,
            suspend_timeout_millis=int(self._options.broker_suspend_time * 1000), sub_version=version,
            subscription=subscription.sub_string, expression_type=subscription.expression_type,
            max_msg_bytes=UNLIMITED, request_source=-1, bname=queue.broker_name,
        )  # fmt: skip

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Has a message delivered again, through the group's retry topic: to whoever pulls that, or to a push consumer.

        :param delay_level: 0 lets the broker choose, longer each time; 1-18 is one of its fixed delays; -1 sends it
            straight to the dead letters.
        :raises NetworkError: neither its broker nor any other would take it.
        :raises ClosedError: it is not started, or closed.
        """
        self._check_running()
        assert self._send_message_back is not None
        if not await self._send_message_back.send_back(message, delay_level):
            raise NetworkError(f"{message!r} could not be sent back: no broker took it; the log says why")

    # -- offsets

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Remembers the offset to go on at, smaller ones than before, too; it is stored from time to time.

        :raises OffsetIllegal: it is negative.
        :raises ClosedError: it is not started, or closed.
        """
        self._check_running()
        if offset < 0:
            raise OffsetIllegal(f"offset {offset} of {queue} cannot be stored: it is negative")
        self._group.offsets.update(queue, offset, increase_only=False)

    async def committed(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The offset the group goes on at, as updated here or else as it is stored; None if there is none.

        :param from_store: only what is stored counts.
        :raises NetworkError: the broker cannot be asked.
        :raises ClosedError: it is not started, or closed.
        """
        self._check_running()
        known = None if from_store else self._group.offsets.get(queue)
        return known if known is not None else await self._group.offsets.fetch(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Stores offsets now: all that were updated, or the given ones.

        :raises OffsetIllegal: one is negative.
        :raises NetworkError: a broker cannot be reached; offsets of others are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: it is not started, or closed.
        """
        self._check_running()
        for queue, offset in (offsets or {}).items():
            self.update_offset(queue, offset)
        await self._group.offsets.store(dict(self._group.offsets) if offsets is None else offsets)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message the broker still has. Errors as :meth:`committed`."""
        self._check_running()
        return await self._group.offsets.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset the queue's next message will get. Errors as :meth:`committed`."""
        self._check_running()
        return await self._group.offsets.max_offset(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, when: datetime.datetime | int) -> int:
        """The offset of the first message stored at a time or later. Errors as :meth:`committed`.

        :param when: an aware or local ``datetime``, or milliseconds since the epoch.
        """
        self._check_running()
        millis = int(when.timestamp() * 1000) if isinstance(when, datetime.datetime) else when
        return await self._group.offsets.offset_at(queue, millis)

    async def lag(self) -> dict[MessageQueue, int]:
        """Messages behind the updated offsets, and of the queues that are its share, as the brokers count now.

        :raises NetworkError: a broker cannot be asked.
        """
        queues = {*self._group.queues, *(queue for queue, _ in self._group.offsets)}
        return await running_info.lag_of(self._group, sorted(queues))

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
        """The topics it was told of, and those it has pulled."""
        return {*self._group.subscriptions, *(topic for topic, _, _ in self._filters)}

    async def on_ids_changed(self) -> None:
        """The group has changed: look who gets what."""
        if self._rebalancer is not None:
            self._rebalancer.trigger()

    async def persist_offsets(self) -> None:
        """Sends what was updated to the brokers."""
        await self._group.offsets.persist([queue for queue, _ in self._group.offsets])

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Takes over other offsets, smaller or greater, of queues it keeps one of."""
        for queue, offset in offsets.items():
            if self._group.offsets.get(queue) is not None:
                self._group.offsets.update(queue, offset, increase_only=False)

    def __repr__(self) -> str:
        return f"PullConsumer(group={self.group!r}, {self._group.state.value}, {len(self.assignment())} queues)"


def _take_nothing(process: ProcessQueue, delay: float) -> None:
    """A queue that is allotted is not pulled by itself."""


def _nobody(topic: str, queues: list[MessageQueue], mine: list[MessageQueue]) -> None:
    """Stands in where nobody wants to know of changes."""
