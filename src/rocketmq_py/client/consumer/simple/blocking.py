"""The simple consumer for programs without an event loop: the same methods as asyncio's.

Generated from ``rocketmq_py.client.consumer.simple.consumer``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from rocketmq_py.client.blocking_instance import ClientInstance, aio_instance
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer as AioSource, SimpleHealth
from rocketmq_py.client.consumer.simple.settings import SimpleSettings
from rocketmq_py.client.consumer.simple.threads import SimpleMember
from rocketmq_py.client.hooks.hooks import ReceiveHook
from rocketmq_py.model import MessageExt, MessageQueue


class SimpleConsumer(SimpleMember):
    """A member of a consumer group that receives messages and acks each of them.

    A received message is invisible to all members for its invisible time. If it is not acked within that time, it is
    delivered again, to any member, with ``reconsume_times`` increased by one. :meth:`extend` changes that time. No
    member owns queues: a slow member delays no other one, and there may be more members than queues. Delivery is at
    least once, in no order unless ``orderly`` is set. The number of redeliveries is not limited: the application must
    handle messages that fail repeatedly.

    Iterating (``async for message in consumer``) receives message by message and ends when the consumer is closed; each
    message must still be acked. As a context manager it starts when the block is entered.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param instance: a client to share with other producers and consumers; by default a new one, made from the settings
        below.
    :param hooks: called with the messages that are received, for example to make spans.
    :param instance_name: the part of the client id after ``ip@``; unique by default.
    :param unit_name: appended to the client id.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests with these, for servers with access control.
    :param timeout: seconds to wait for answers of name servers, and of brokers to heartbeats.
    :param settings: further options: see :class:`SimpleOptions`.
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
        **settings: Unpack[SimpleSettings],
    ) -> None:
        self._wrap(
            self._make(lambda: AioSource(group, namesrv, instance=aio_instance(instance), hooks=hooks, **settings))
        )

    def start(self) -> None:
        """Join the group.

        :raises ConfigError: the client has a consumer of that group already, or a broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: the consumer was closed before.
        """
        self._run(self._aio.start())

    def close(self) -> None:
        """Leave the group. Messages that are not acked are delivered again after their invisible time.

        May be called more than once.
        """
        self._run(self._aio.close())

    def health(self) -> SimpleHealth:
        """The current state of the consumer, and of its topics at each broker."""
        return self._call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """Ask the brokers how many messages of each queue the group has not received yet.

        Messages that are received but not acked are not counted.

        :raises NetworkError: a broker cannot be reached.
        """
        return self._run(self._aio.lag())

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic, or change its filter. May be called before and after :meth:`start`.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: an illegal topic name or expression.
        :raises ClosedError: the consumer is closed.
        """
        self._call(lambda: self._aio.subscribe(topic, tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic. Messages of it that were already received can still be acked."""
        self._call(lambda: self._aio.unsubscribe(topic))

    def receive(
        self, max_messages: int = 32, invisible_duration: float | None = None, timeout: float | None = 5.0
    ) -> list[MessageExt]:
        """Return the next messages, from topics and brokers in turn.

        :param max_messages: maximum number of messages, 1 to 1024.
        :param invisible_duration: seconds to ack or :meth:`extend` the messages, at least 1; None: the consumer's
            ``invisible_duration``.
        :param timeout: seconds to wait for a message; None: without limit, 0: not at all.
        :returns: the messages; an empty list if none came in time.
        :raises ConfigError: an argument is out of range, or nothing is subscribed.
        :raises NoRouteError: no message came in time, and none of the topics exists.
        :raises NetworkError: no message came in time, and no broker can be reached.
        :raises BrokerError: a broker refuses the request for good, or no message came in time and all brokers refuse.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._run(self._aio.receive(max_messages, invisible_duration, timeout))

    def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """Ack messages, so that they are not delivered again; sends one request per broker.

        :raises InvalidReceipt: the invisible time of some messages is over, and they are delivered again. ``messages``
            of the error lists them; the others are acked.
        :raises NetworkError: a broker cannot be reached; messages of other brokers are acked.
        :raises BrokerError: a broker refuses the acks.
        :raises ConfigError: a message was not received by a simple consumer.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._run(self._aio.ack(messages))

    def extend(self, message: MessageExt, duration: float) -> str:
        """Make a received message invisible for ``duration`` seconds from now; 0 makes it visible at once.

        :returns: the new receipt handle; it is also set as the message's property ``POP_CK``.
        :raises InvalidReceipt: the invisible time is over, and the message is delivered again.
        :raises NetworkError: the broker cannot be reached.
        :raises BrokerError: the broker refuses the request.
        :raises ConfigError: the duration is out of range, or the message was not received by a simple consumer.
        :raises ClosedError: the consumer is not started, or closed.
        """
        return self._run(self._aio.extend(message, duration))
