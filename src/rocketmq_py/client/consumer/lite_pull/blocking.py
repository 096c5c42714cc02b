"""The lite pull consumer for programs without an event loop of their own: the same names, calls that wait.

A façade over the asyncio consumer, which runs in the portal's loop.
"""

from __future__ import annotations

import asyncio
import datetime
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from time import monotonic, time_ns
from types import TracebackType
from typing import Unpack

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.lite_pull import consumer as aio
from rocketmq_py.client.consumer.lite_pull.options import LitePullSettings
from rocketmq_py.client.consumer.lite_pull.topic_watch import TopicQueuesChanged
from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.client.hooks.hooks import ReceiveHook, report_received
from rocketmq_py.client.hooks.tracing import Trace
from rocketmq_py.model import MessageExt, MessageQueue


def _time_left(timeout: float | None) -> Callable[[], float | None]:
    """The seconds left of a time that begins now; None for as long as it takes."""
    if timeout is None:
        return lambda: None
    end = monotonic() + timeout
    return lambda: max(0.0, end - monotonic())


class LitePullConsumer(BlockingMember[aio.LitePullConsumer]):
    """A member of a consumer group that gets messages when it asks for them.

    Either topics are subscribed, and the group shares their queues, or queues are assigned and consumed whoever else
    does. Messages are delivered at least once to whoever processes what one :meth:`poll` returned before the next one:
    with ``auto_commit`` a poll commits what earlier polls returned. Iterating (``for message in consumer``) polls
    message by message and ends when the consumer is closed. There are no retries and no dead letters: a message that
    failed is the application's affair, which may :meth:`seek` back to it.

    As a context manager it starts at once. Left without an exception it commits, with ``auto_commit``, all that was
    polled; left by an exception it does not, so that what was under way is delivered again.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
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
        hooks: Sequence[ReceiveHook] = (),
        trace: Trace = False,
        **settings: Unpack[LitePullSettings],
    ) -> None:
        super().__init__()
        self._aio = self._portal.call(
            lambda: aio.LitePullConsumer(group, namesrv, hooks=hooks, trace=trace, **settings)
        )

    # -- which queues

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Adds a topic whose queues the group shares, or changes the filter of one; works at any time.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: an illegal topic name or expression, or queues are assigned.
        :raises ClosedError: it is closed.
        """
        self._portal.call(lambda: self._aio.subscribe(topic, tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Takes a topic away; its queues are let go and what is held of them is not delivered."""
        self._portal.call(self._aio.unsubscribe, topic)

    def assign(self, queues: Iterable[MessageQueue], tags: str = "*", *, sql: str | None = None) -> None:
        """Consumes exactly these queues from now on, whatever other members do; works at any time.

        Queues that are assigned already go on where they are.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: no queues, an illegal expression, or topics are subscribed.
        :raises ClosedError: it is closed.
        """
        wanted = list(queues)
        self._portal.call(lambda: self._aio.assign(wanted, tags, sql=sql))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this consumer has now."""
        return self._portal.call(lambda: self._aio.assignment)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, as the name server knows them now.

        :raises NoRouteError: it does not know the topic.
        :raises NetworkError: no name server answers.
        """
        return self._portal.run(self._aio.queues(topic))

    def on_queues_changed(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Has ``listener(topic, queues)`` told when a topic has other queues than before.

        It runs in a thread of its own and may call :meth:`assign`. A look is taken every ``metadata_check_interval``
        seconds; a topic has one listener.
        """

        async def told(topic: str, queues: list[MessageQueue]) -> None:
            answer = await asyncio.to_thread(listener, topic, queues)
            if inspect.isawaitable(answer):
                await answer

        self._portal.call(self._aio.on_queues_changed, topic, told)

    # -- life

    def start(self) -> None:
        """Joins the group and begins to pull; returns, if topics are subscribed, when it has taken its queues.

        :raises ConfigError: the client has a consumer of that group already, or a broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: it was closed before.
        """
        self._portal.run(self._aio.start())

    def close(self, *, commit: bool = True) -> None:
        """Leaves the group: offsets are stored, the brokers told. May be called more than once, from any thread.

        :param commit: with ``auto_commit``, whether everything polled so far is committed, too.
        """
        self._portal.run(self._aio.close(commit=commit))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(commit=error is None)

    # -- messages

    def poll(self, timeout: float | None = 5.0) -> list[MessageExt]:
        """The next messages, all of one queue and in its order; at most ``pull_batch_size``.

        :param timeout: seconds to wait for a message; None: as long as it takes, 0: not at all.
        :returns: empty when none came in time.
        :raises ConfigError: a negative timeout, or nothing is subscribed or assigned.
        :raises ClosedError: it is not started, or closed.
        """
        handoff, began_ns = self._aio.handoff, time_ns()
        batch = handoff.take()
        if batch is None:
            left = _time_left(timeout)
            self._portal.run(self._aio.fill_handoff(timeout))
            while (batch := handoff.take()) is None:  # another thread may have been quicker
                if left() == 0:
                    return []
                self._portal.run(self._aio.fill_handoff(left()))
        messages = list(batch.messages[batch.at :])
        batch.at = len(batch.messages)
        handoff.taken(batch)
        report_received(self._aio.hooks, self._aio.group, messages, began_ns)
        return messages

    def __iter__(self) -> Iterator[MessageExt]:
        handoff, hooks = self._aio.handoff, self._aio.hooks
        while (batch := handoff.take()) is not None or self._portal.run(self._aio.fill_handoff_or_end()):
            if batch is None:
                continue
            try:
                while batch.at < len(batch.messages) and not batch.process.dropped:
                    batch.at += 1
                    message = batch.messages[batch.at - 1]
                    if hooks:
                        report_received(hooks, self._aio.group, [message], time_ns())
                    yield message
            finally:  # an iterator may be ended by the garbage collector, in whatever thread
                handoff.taken(batch)

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Pulls nothing more of these queues until :meth:`resume`; what is held of them is still polled.

        Queues that are not this consumer's are left alone; a queue that is lost and comes back is not paused.
        """
        self._portal.call(self._aio.pause, queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Pulls these queues again."""
        self._portal.call(self._aio.resume, queues)

    @property
    def paused(self) -> list[MessageQueue]:
        """The queues that are paused."""
        return self._portal.call(lambda: self._aio.paused)

    # -- offsets

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Goes on at another offset of a queue; what is held of it is dropped.

        :raises NotAssigned: the queue is not this consumer's.
        :raises OffsetIllegal: the broker's queue does not reach there.
        :raises NetworkError: the broker cannot be asked.
        :raises ClosedError: it is not started, or closed.
        """
        self._portal.run(self._aio.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Goes on at the oldest message the broker still has. Errors as :meth:`seek`."""
        self._portal.run(self._aio.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Goes on with the next message to be stored. Errors as :meth:`seek`."""
        self._portal.run(self._aio.seek_to_end(queue))

    def committed(self, queue: MessageQueue) -> int | None:
        """The offset the group goes on at, as committed here or else as the broker has it; None if there is none.

        :raises NetworkError: the broker cannot be asked.
        :raises ClosedError: it is not started, or closed.
        """
        return self._portal.run(self._aio.committed(queue))

    def offset_for_timestamp(self, queue: MessageQueue, when: datetime.datetime | int) -> int:
        """The offset of the first message stored at a time or later, to be sought.

        :param when: an aware or local ``datetime``, or milliseconds since the epoch.
        :raises NetworkError: the broker cannot be asked.
        :raises ClosedError: it is not started, or closed.
        """
        return self._portal.run(self._aio.offset_for_timestamp(queue, when))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Stores offsets at the brokers: everything polled so far, or the given ones.

        :param offsets: for each queue the offset to go on at, one greater than that of the last message done.
        :raises NotAssigned: a queue is not this consumer's.
        :raises OffsetIllegal: an offset is negative.
        :raises NetworkError: a broker cannot be reached; offsets of others are stored.
        :raises StoreError: the file of a broadcasting consumer cannot be written.
        :raises ClosedError: it is not started, or closed.
        """
        self._portal.run(self._aio.commit(offsets))

    # -- looking at it

    def health(self) -> Health:
        """ConsumerState, queues and rates as they are now."""
        return self._portal.call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """Messages not yet committed of each of its queues, as the brokers count now.

        :raises NetworkError: a broker cannot be asked.
        """
        return self._portal.run(self._aio.lag())
