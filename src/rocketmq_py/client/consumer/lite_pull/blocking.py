"""The lite pull consumer for programs without an event loop: the same methods as asyncio's.

Generated from ``rocketmq_py.client.consumer.lite_pull.consumer``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Unpack

from rocketmq_py.client.blocking_instance import ClientInstance, aio_instance
from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer as AioSource
from rocketmq_py.client.consumer.lite_pull.settings import LitePullSettings
from rocketmq_py.client.consumer.lite_pull.threads import LitePullMember
from rocketmq_py.client.consumer.lite_pull.topic_watch import TopicQueuesChanged
from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.client.hooks.hooks import ReceiveHook
from rocketmq_py.client.hooks.tracing import Trace
from rocketmq_py.model import MessageExt, MessageQueue


class LitePullConsumer(LitePullMember):
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

    Every call can be interrupted (Ctrl-C).
    In a forked child every call raises ForkedError; make an object of its own there.
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
        self._wrap(
            self._make(
                lambda: AioSource(group, namesrv, instance=aio_instance(instance), hooks=hooks, trace=trace, **settings)
            )
        )

    def start(self) -> None:
        """Join the group and start to pull; with subscribed topics, returns after the first rebalance.

        :raises ConfigError: the client has a consumer of that group already, or a broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: the consumer was closed before.
        """
        self._run(self._aio.start())

    def close(self, *, commit: bool = True) -> None:
        """Store the committed offsets and leave the group. May be called more than once.

        :param commit: with ``auto_commit``, commit all polled messages first.
        """
        self._run(self._aio.close(commit=commit))

    def health(self) -> Health:
        """A snapshot of the consumer's state, queues, rates, stuck listeners and problems."""
        return self._call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """Ask the brokers how many messages of each queue that this consumer owns are not consumed yet.

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

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic, or change its filter; the members of the group share its queues.

        May be called before and after :meth:`start`.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: an illegal topic name or expression, or queues are assigned.
        :raises ClosedError: the consumer is closed.
        """
        self._call(lambda: self._aio.subscribe(topic, tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic: release its queues and discard their cached messages."""
        self._call(lambda: self._aio.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], tags: str = "*", *, sql: str | None = None) -> None:
        """Consume exactly these queues from now on, regardless of other members of the group.

        Queues that were assigned before keep their positions. May be called before and after :meth:`start`.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: no queues, an illegal expression, or topics are subscribed.
        :raises ClosedError: the consumer is closed.
        """
        self._blocking_assign(queues, tags, sql=sql)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer owns now."""
        return self._call(lambda: self._aio.assignment)

    def on_queues_changed(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Call ``listener(topic, queues)``, a plain or ``async def`` function, when the queues of a topic have changed.

        The listener may call :meth:`assign`. The topic's route is checked every ``metadata_check_interval`` seconds. A
        second listener of the same topic replaces the first.
        """
        self._blocking_on_queues_changed(topic, listener)

    def poll(self, timeout: float | None = 5.0) -> list[MessageExt]:
        """Return the next messages, at most ``pull_batch_size``, all of the same queue and in offset order.

        :param timeout: seconds to wait for a message; None: without limit, 0: not at all.
        :returns: an empty list if no message came in time.
        :raises ConfigError: a negative timeout, or nothing is subscribed or assigned.
        :raises NoRouteError: no message came in time, and none of the topics exists.
        :raises NetworkError: no message came in time, and no broker can be reached.
        :raises BrokerError: no message came in time, and all brokers answer with errors.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._blocking_poll(timeout)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Stop pulling these queues until :meth:`resume`; polls still return messages that are already cached.

        Queues that this consumer does not own are ignored. A queue that a rebalance takes away and returns later is no
        longer paused.
        """
        self._call(lambda: self._aio.pause(queues))

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pull paused queues again."""
        self._call(lambda: self._aio.resume(queues))

    @property
    def paused(self) -> list[MessageQueue]:
        """The paused queues."""
        return self._call(lambda: self._aio.paused)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at ``offset`` of a queue: discard its cached messages and pull from there.

        :raises NotAssigned: the consumer does not own the queue.
        :raises OffsetIllegal: the offset is outside of the queue.
        :raises NetworkError: the broker cannot be reached.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._run(self._aio.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest stored message of a queue. Errors as of :meth:`seek`."""
        self._run(self._aio.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the end of a queue, with the next message that is stored. Errors as of :meth:`seek`."""
        self._run(self._aio.seek_to_end(queue))

    def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue: from this consumer's memory, or else from the broker; None if there is none.

        :raises NetworkError: the broker cannot be reached.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._run(self._aio.committed(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets at the brokers, in a local file when broadcasting.

        :param offsets: for each queue the offset of the last processed message plus one; None: those of all polled
            messages.
        :raises NotAssigned: the consumer does not own a queue.
        :raises OffsetIllegal: an offset is negative.
        :raises NetworkError: a broker cannot be reached; the offsets of other brokers' queues are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._run(self._aio.commit(offsets))
