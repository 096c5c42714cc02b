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
        """A snapshot of the consumer's state, queues, rates, stuck listeners and problems."""
        return self._call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """Ask the brokers how many messages follow the committed offset of each queue.

        Covers the queues that this consumer owns and those with an offset of :meth:`update_offset`.

        :raises NetworkError: a broker cannot be reached.
        """
        return self._run(self._aio.lag())

    def queues(self, topic: str) -> list[MessageQueue]:
        """Ask a name server for the readable queues of a topic.

        :raises NoRouteError: the topic does not exist.
        :raises NetworkError: no name server answers.
        """
        return self._run(self._aio.queues(topic))

    def offset_for_timestamp(self, queue: MessageQueue, when: datetime.datetime | int) -> int:
        """Ask the broker for the offset of the first message of a queue stored at or after ``when``.

        :param when: an aware or local ``datetime``, or milliseconds since the epoch.
        :raises NoRouteError: the name servers do not know the queue's broker.
        :raises NetworkError: the broker cannot be reached.
        :raises BrokerError: the broker refuses the query.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._run(self._aio.offset_for_timestamp(queue, when))

    def assignment(self, topic: str | None = None) -> list[MessageQueue]:
        """The queues of ``topics`` that this consumer owns, sorted.

        :param topic: return only the queues of this topic.
        """
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
        return self._run(
            self._aio.pull(queue, offset, tags, sql=sql, max_messages=max_messages, wait=wait, timeout=timeout)
        )

    def send_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Send a message back to the broker, which stores it in the group's retry topic after a delay.

        Push consumers of the group get it; other consumers must pull the retry topic.

        :param delay_level: 0: the broker chooses the delay, longer each time; 1 to 18: one of the broker's delay
            levels; -1: to the dead-letter topic at once.
        :raises NetworkError: no broker accepted the message.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._run(self._aio.send_back(message, delay_level))

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset of a queue to commit, smaller or greater than before; offsets are stored every 5 seconds.

        :param offset: the offset of the last processed message plus one.

        :raises OffsetIllegal: the offset is negative.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._call(lambda: self._aio.update_offset(queue, offset))

    def committed(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The committed offset of a queue: the last one of :meth:`update_offset`, or else the one stored at the broker.

        None if there is neither.

        :param from_store: return only the offset stored at the broker, in the local file when broadcasting.
        :raises NetworkError: the broker cannot be reached.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._run(self._aio.committed(queue, from_store=from_store))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets now.

        :param offsets: for each queue the offset of the last processed message plus one; None: all offsets of
            :meth:`update_offset`.
        :raises OffsetIllegal: an offset is negative.
        :raises NetworkError: a broker cannot be reached; the offsets of other brokers' queues are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._run(self._aio.commit(offsets))

    def min_offset(self, queue: MessageQueue) -> int:
        """Ask the broker for the offset of the oldest message of a queue. Errors as of :meth:`committed`."""
        return self._run(self._aio.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Ask the broker for the offset that the queue's next message will get. Errors as of :meth:`committed`."""
        return self._run(self._aio.max_offset(queue))
