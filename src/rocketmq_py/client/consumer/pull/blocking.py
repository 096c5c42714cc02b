"""The older pull consumer for programs without an event loop of their own: the same names, calls that wait.

A façade over the asyncio consumer, which runs in the portal's loop.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Unpack

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.pull import consumer as aio
from rocketmq_py.client.consumer.pull.options import PullSettings
from rocketmq_py.client.consumer.rebalance.rebalancer import QueuesChanged
from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.model import MessageExt, MessageQueue, PullResult


class PullConsumer(BlockingMember[aio.PullConsumer]):
    """Pulls where and when it is told to. Deprecated: use :class:`~rocketmq_py.LitePullConsumer`.

    Nothing is consumed by itself: the application asks which queues there are, pulls at offsets of its own choice and
    says with :meth:`update_offset` how far it has come, which is stored every 5 seconds and at the end.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param topics: topics whose queues the members of the group share; :meth:`assignment` tells which are this one's.
    :param queues_changed: told when they change; must not block.
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
        **settings: Unpack[PullSettings],
    ) -> None:
        aio.warn_deprecated(2)
        super().__init__()

        def make() -> aio.PullConsumer:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # said already, to whoever made this one
                return aio.PullConsumer(group, namesrv, topics=topics, queues_changed=queues_changed, **settings)

        self._aio = self._portal.call(make)

    # -- life

    def start(self) -> None:
        """Makes ready to pull; with ``topics``, returns when it has seen the group and been allotted its queues.

        :raises ConfigError: the client has a consumer of that group already.
        :raises NetworkError: no name server answers.
        :raises ClosedError: it was closed before.
        """
        self._portal.run(self._aio.start())

    def close(self) -> None:
        """Leaves the group: offsets are stored, the brokers told. May be called more than once."""
        self._portal.run(self._aio.close())

    # -- queues

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, as the name server knows them now.

        :raises NoRouteError: it does not know the topic.
        :raises NetworkError: no name server answers.
        """
        return self._portal.run(self._aio.queues(topic))

    def assignment(self, topic: str | None = None) -> list[MessageQueue]:
        """The queues of the registered topics, or of one, that are this member's share."""
        return self._portal.call(self._aio.assignment, topic)

    # -- pulling

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
        return self._portal.run(
            self._aio.pull(queue, offset, tags, sql=sql, max_messages=max_messages, wait=wait, timeout=timeout)
        )

    def send_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Has a message delivered again, through the group's retry topic: to whoever pulls that, or to a push consumer.

        :param delay_level: 0 lets the broker choose, longer each time; 1-18 is one of its fixed delays; -1 sends it
            straight to the dead letters.
        :raises NetworkError: neither its broker nor any other would take it.
        :raises ClosedError: it is not started, or closed.
        """
        self._portal.run(self._aio.send_back(message, delay_level))

    # -- offsets

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Remembers the offset to go on at, smaller ones than before, too; it is stored from time to time.

        :raises OffsetIllegal: it is negative.
        :raises ClosedError: it is not started, or closed.
        """
        self._portal.call(self._aio.update_offset, queue, offset)

    def committed(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """The offset the group goes on at, as updated here or else as it is stored; None if there is none.

        :param from_store: only what is stored counts.
        :raises NetworkError: the broker cannot be asked.
        :raises ClosedError: it is not started, or closed.
        """
        return self._portal.run(self._aio.committed(queue, from_store=from_store))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Stores offsets now: all that were updated, or the given ones.

        :raises OffsetIllegal: one is negative.
        :raises NetworkError: a broker cannot be reached; offsets of others are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: it is not started, or closed.
        """
        self._portal.run(self._aio.commit(offsets))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message the broker still has. Errors as :meth:`committed`."""
        return self._portal.run(self._aio.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset the queue's next message will get. Errors as :meth:`committed`."""
        return self._portal.run(self._aio.max_offset(queue))

    def offset_for_timestamp(self, queue: MessageQueue, when: datetime.datetime | int) -> int:
        """The offset of the first message stored at a time or later. Errors as :meth:`committed`.

        :param when: an aware or local ``datetime``, or milliseconds since the epoch.
        """
        return self._portal.run(self._aio.offset_for_timestamp(queue, when))

    # -- looking at it

    def health(self) -> Health:
        """ConsumerState, queues and rates as they are now."""
        return self._portal.call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """Messages behind the updated offsets, and of the queues that are its share, as the brokers count now.

        :raises NetworkError: a broker cannot be asked.
        """
        return self._portal.run(self._aio.lag())
