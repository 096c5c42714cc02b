"""The older pull consumer for programs without an event loop: the same methods as asyncio's.

Generated from ``rocketmq_py.client.consumer.pull.consumer``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Unpack

from rocketmq_py.client.blocking_instance import ClientInstance, aio_instance
from rocketmq_py.client.consumer.pull.consumer import PullConsumer as AioSource
from rocketmq_py.client.consumer.pull.settings import PullSettings
from rocketmq_py.client.consumer.pull.threads import BlockingPullMember
from rocketmq_py.client.consumer.rebalance.rebalancer import QueuesChanged
from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.model import MessageExt, MessageQueue, PullResult


class PullConsumer(BlockingPullMember):
    """Pulls messages on request. Deprecated: use :class:`~rocketmq_py.LitePullConsumer`.

    The application asks for queues, pulls at offsets of its choice, and reports its progress with
    :meth:`update_offset`. Offsets are stored every 5 seconds and on close.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param topics: topics whose queues the members of the group share; :meth:`assignment` returns this member's share.
    :param queues_changed: called when the share changes.
    :param instance: a client to share with other producers and consumers; by default a new one, made from the settings
        below.
    :param instance_name: the part of the client id after ``ip@``; unique by default, ``DEFAULT`` when broadcasting.
    :param unit_name: appended to the client id.
    :param address_map: other addresses for the ones brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param timeout: seconds to wait for name servers, and for brokers' answers to heartbeats.
    :param settings: further options: see :class:`PullOptions`.
    :raises ConfigError: an illegal argument.

    Every call can be interrupted (Ctrl-C).
    In a forked child every call raises ForkedError; make an object of its own there.
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
        self._wrap(
            self._make(
                lambda: AioSource(
                    group,
                    namesrv,
                    topics=topics,
                    queues_changed=queues_changed,
                    instance=aio_instance(instance),
                    **settings,
                )
            )
        )

    def start(self) -> None:
        """Join the group; with ``topics``, returns after the first rebalance.

        :raises ConfigError: the client has a consumer of that group already.
        :raises NetworkError: no name server answers.
        :raises ClosedError: the consumer was closed before.
        """
        self._run(self._aio.start())

    def close(self) -> None:
        """Store the offsets and leave the group. May be called more than once."""
        self._run(self._aio.close())

    def health(self) -> Health:
        """The current state, queues, rates and stuck listeners."""
        return self._call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """The number of messages behind the updated offsets and of this member's share, as the brokers count now.

        :raises NetworkError: a broker cannot be reached.
        """
        return self._run(self._aio.lag())

    def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, as a name server knows them now.

        :raises NoRouteError: the topic does not exist.
        :raises NetworkError: no name server answers.
        """
        return self._run(self._aio.queues(topic))

    def offset_for_timestamp(self, queue: MessageQueue, when: datetime.datetime | int) -> int:
        """The offset of the first message stored at a time or later.

        :param when: an aware or local ``datetime``, or milliseconds since the epoch.
        :raises NoRouteError: no route names the queue's broker.
        :raises NetworkError: the broker cannot be reached.
        :raises BrokerError: the broker refuses.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._run(self._aio.offset_for_timestamp(queue, when))

    def assignment(self, topic: str | None = None) -> list[MessageQueue]:
        """This member's share of the queues of the registered topics, or of one of them."""
        return self._call(lambda: self._aio.assignment(topic))

    def pull(
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
        """Pull once.

        :param offset: the offset of the first message.
        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :param max_messages: the most messages to return.
        :param wait: let the broker hold the pull for up to ``broker_suspend_time`` until there is a message.
        :param timeout: seconds to wait for the answer; by default ``pull_timeout``, or ``timeout_when_suspend`` with
            ``wait``.
        :raises ConfigError: an illegal expression, or ``max_messages`` is not positive.
        :raises OffsetIllegal: a negative offset. An offset outside of the queue is a result: ``OFFSET_ILLEGAL``.
        :raises NoRouteError: the topic does not exist, or no route names the queue's broker.
        :raises NetworkError: the broker cannot be reached or does not answer in time.
        :raises BrokerError: the broker refuses.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._run(
            self._aio.pull(queue, offset, tags, sql=sql, max_messages=max_messages, wait=wait, timeout=timeout)
        )

    def send_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Send a message to the group's retry topic, for a push consumer or whoever pulls that topic.

        :param delay_level: 0: the broker chooses the delay, longer each time; 1-18: one of the broker's delay levels;
            -1: to the dead-letter topic at once.
        :raises NetworkError: no broker accepted the message.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._run(self._aio.send_back(message, delay_level))

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset to continue at, which may be smaller than before; it is stored every 5 seconds.

        :raises OffsetIllegal: the offset is negative.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._call(lambda: self._aio.update_offset(queue, offset))

    def committed(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The offset the group continues at; None if there is none.

        It is the one given to :meth:`update_offset` if it is not stored yet, otherwise the one stored at the broker.

        :param from_store: return the stored offset only.
        :raises NetworkError: the broker cannot be reached.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._run(self._aio.committed(queue, from_store=from_store))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets now: all that were updated, or the given ones.

        :raises OffsetIllegal: an offset is negative.
        :raises NetworkError: a broker cannot be reached; the offsets of other brokers' queues are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._run(self._aio.commit(offsets))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message the broker still has; raises the errors of :meth:`committed`."""
        return self._run(self._aio.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get; raises the errors of :meth:`committed`."""
        return self._run(self._aio.max_offset(queue))
