"""The simple consumer for programs without an event loop of their own: the same names, calls that wait.

A façade over the asyncio consumer, which runs in the portal's loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.simple import consumer as aio
from rocketmq_py.client.consumer.simple.consumer import SimpleHealth
from rocketmq_py.client.consumer.simple.options import SimpleSettings
from rocketmq_py.client.hooks.hooks import ReceiveHook
from rocketmq_py.model import MessageExt, MessageQueue


class SimpleConsumer(BlockingMember[aio.SimpleConsumer]):
    """A member of a consumer group that receives messages and acks each of them when it is done.

    A received message is invisible to the other members for a while. Acked within that time it is done; else it is
    delivered again, to any member, with ``reconsume_times`` one greater. :meth:`extend` buys time, or gives it up. No
    member has queues of its own: a slow one holds up nobody, and there may be more members than queues. Messages are
    delivered at least once, in no order unless ``orderly`` says so, and as often as it takes: what is to become of a
    message that fails again and again is the application's affair.

    Iterating (``for message in consumer``) receives message by message and ends when the consumer is closed; each must
    still be acked. As a context manager it starts at once. Threads may share it.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param hooks: told of messages that are handed out, for spans of them.
    :param instance_name: the part of the client id after ``ip@``.
    :param unit_name: appended to the client id.
    :param address_map: other addresses for the ones brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param timeout: seconds to wait for name servers, and for brokers' answers to heartbeats.
    :param settings: what else there is to say of it: see :class:`SimpleOptions`.
    :raises ConfigError: an argument that can never work.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        hooks: Sequence[ReceiveHook] = (),
        **settings: Unpack[SimpleSettings],
    ) -> None:
        super().__init__()
        self._aio = self._portal.call(lambda: aio.SimpleConsumer(group, namesrv, hooks=hooks, **settings))

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Adds a topic, or changes the filter of one; works at any time.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: an illegal topic name or expression.
        :raises ClosedError: it is closed.
        """
        self._portal.call(lambda: self._aio.subscribe(topic, tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Takes a topic away; what was received of it can still be acked."""
        self._portal.call(self._aio.unsubscribe, topic)

    # -- life

    def start(self) -> None:
        """Joins the group.

        :raises ConfigError: the client has a consumer of that group already, or a broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: it was closed before.
        """
        self._portal.run(self._aio.start())

    def close(self) -> None:
        """Leaves the group. What was received and not acked is delivered again when its time is over. May be called
        more than once, from any thread.
        """
        self._portal.run(self._aio.close())

    # -- messages

    def receive(
        self, max_messages: int = 32, invisible_duration: float | None = None, timeout: float | None = 5.0
    ) -> list[MessageExt]:
        """The next messages. Brokers and topics take turns.

        :param max_messages: the most messages, 1 to 1024.
        :param invisible_duration: seconds to ack or :meth:`extend` them, at least 1; None: as the consumer is
            configured.
        :param timeout: seconds to wait for a message; None: as long as it takes, 0: not at all.
        :returns: empty when none came in time.
        :raises ConfigError: an argument out of range, or nothing is subscribed.
        :raises NoRouteError: none of the topics exists.
        :raises RocketMQError: no broker could be asked.
        :raises ClosedError: it is not started, or closed.
        """
        return self._portal.run(self._aio.receive(max_messages, invisible_duration, timeout))

    def __iter__(self) -> Iterator[MessageExt]:
        while (message := self._portal.run(self._aio.next())) is not None:
            yield message

    def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """The messages are done and not delivered again. Several are acked with one request per broker.

        :raises InvalidReceipt: the time of a message is over (it is, or will be, delivered again); the error names the
            messages, the others are acked.
        :raises NetworkError: a broker cannot be reached; messages of others are acked.
        :raises BrokerError: a broker refuses.
        :raises ConfigError: a message was not received by a simple consumer.
        :raises ClosedError: it is not started, or closed.
        """
        self._portal.run(self._aio.ack(messages))

    def extend(self, message: MessageExt, duration: float) -> str:
        """Keeps a received message invisible for ``duration`` seconds from now; 0 has it delivered again at once.

        :returns: its new receipt, which the message (its property ``POP_CK``) has from now on, too.
        :raises InvalidReceipt: its time is over: it is, or will be, delivered again.
        :raises NetworkError: the broker cannot be reached.
        :raises BrokerError: the broker refuses.
        :raises ConfigError: the duration is out of range, or the message was not received by a simple consumer.
        :raises ClosedError: it is not started, or closed.
        """
        return self._portal.run(self._aio.extend(message, duration))

    # -- looking at it

    def health(self) -> SimpleHealth:
        """ConsumerState and sources as they are now."""
        return self._portal.call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """Messages of each queue that nobody of the group has received yet, as the brokers count now; received ones
        that are not acked are not counted.

        :raises NetworkError: a broker cannot be asked.
        """
        return self._portal.run(self._aio.lag())
