"""The blocking producer: the same names as the asyncio one, usable from any number of threads.

A façade over the asyncio producer in the portal's loop. Only the short way of a send is its own: once the route is
known, the calling thread itself talks to the broker (``direct``). Whatever goes wrong is left to the asyncio producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rocketmq_py.client.hooks.hooks import SendHook
from rocketmq_py.client.hooks.tracing import Trace
from rocketmq_py.client.producer import producer as aio
from rocketmq_py.client.producer.producer import QueueSelector, chooser
from rocketmq_py.client.producer.sender import Target, outcome_of
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
from rocketmq_py.core.producer.send_attempts import SendAttempts
from rocketmq_py.errors import NetworkError, RocketMQError
from rocketmq_py.model import Message, MessageExt, MessageQueue, SendResult
from rocketmq_py.protocol import names
from rocketmq_py.remoting.blocking import DirectConnections
from rocketmq_py.remoting.portal import portal
from rocketmq_py.tls import Tls
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.signing import Credentials


class Producer:
    """Sends messages, from any number of threads: ``with Producer("shop", "127.0.0.1:9876") as producer``.

    :param group: producer group; names the application to the brokers.
    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param send_timeout: seconds a send may take, all attempts together.
    :param retries: attempts at other brokers after the first failed.
    :param compress_over: bodies of this many bytes and more are compressed; None never compresses.
    :param compression: how; LZ4 and ZSTD need the ``compression`` extra.
    :param compression_level: 1 (fast) to 9 (small).
    :param max_message_size: limit of a body in bytes, as the brokers have it (4 MiB).
    :param default_queue_nums: queues of a topic that the first message creates; at most what TBW102 has.
    :param create_topic: the topic brokers copy when a first message creates one.
    :param instance_name: part of the client id after ``ip@``; by default unique.
    :param address_map: other addresses for those brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param hooks: called before and after every send.
    :param trace: leave traces of messages in the brokers' trace topic, or in the one named here; see
        :mod:`rocketmq_py.client.hooks.tracing`. Off by default.
    :param send_latency_fault_enable: keep away from brokers that are slow or fail, for a time that grows with their
        latency: True for Java's tables, :class:`~rocketmq_py.LatencyFaultTolerance` for others. Off by default.
    :param send_msg_max_timeout_per_request: seconds of ``send_timeout`` an attempt may take that is not the last one;
        None lets a broker that does not answer take all of it.
    :param retry_another_broker_when_not_store_ok: send a message again, to another broker, that a broker has stored but
        does not know to be flushed or replicated; what comes of the last attempt is the result. Consumers may see it
        more than once. Off by default.
    :raises ConfigError: an option that can never work.

    In a forked child every call raises ForkedError; make a producer of its own there.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        send_timeout: float = 3.0,
        retries: int = 2,
        compress_over: int | None = 4096,
        compression: CompressionType = CompressionType.ZLIB,
        compression_level: int = 5,
        max_message_size: int = names.MAX_MESSAGE_SIZE,
        default_queue_nums: int = 4,
        create_topic: str = names.AUTO_CREATE_TOPIC,
        instance_name: str | None = None,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        hooks: Sequence[SendHook] = (),
        trace: Trace = False,
        send_latency_fault_enable: LatencyFaultTolerance | bool = False,
        send_msg_max_timeout_per_request: float | None = None,
        retry_another_broker_when_not_store_ok: bool = False,
    ) -> None:
        producer = aio.Producer(
            group,
            namesrv,
            send_timeout=send_timeout,
            retries=retries,
            compress_over=compress_over,
            compression=compression,
            compression_level=compression_level,
            max_message_size=max_message_size,
            default_queue_nums=default_queue_nums,
            create_topic=create_topic,
            instance_name=instance_name,
            address_map=address_map,
            tls=tls,
            credentials=credentials,
            hooks=hooks,
            trace=trace,
            send_latency_fault_enable=send_latency_fault_enable,
            send_msg_max_timeout_per_request=send_msg_max_timeout_per_request,
            retry_another_broker_when_not_store_ok=retry_another_broker_when_not_store_ok,
        )
        self._wrap(producer)

    def _wrap(self, producer: aio.Producer) -> None:
        self._aio = producer
        self._portal = portal()
        self._direct: DirectConnections | None = None

    @property
    def group(self) -> str:
        """The producer group."""
        return self._aio.group

    # -- life

    def start(self) -> None:
        """Make ready to send. May be called more than once, not after :meth:`close`."""
        self._portal.run(self._aio.start())
        if self._direct is None:
            self._direct = DirectConnections(self._aio.sender.connections)

    def close(self) -> None:
        """Wait for what is being sent, sign off at the brokers, end the connections. May be called more than once."""
        self._portal.run(self._aio.close())
        if self._direct is not None:
            self._direct.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- sending

    def send(self, message: Message, queue: MessageQueue | None = None, timeout: float | None = None) -> SendResult:
        """Send a message and wait until a broker has it. The wait can be interrupted.

        :param queue: the queue to send to; without it the queues of the topic take turns, and a failure is tried again
            at another broker.
        :param timeout: seconds for all attempts, instead of ``send_timeout``.
        :raises MessageIllegal: no broker would take it.
        :raises NoRouteError: the topic cannot be sent to.
        :raises BrokerError: the broker refused it.
        :raises NetworkError: no broker was reached or answered in time; it may have been stored nonetheless.
        """
        if self._aio.hooks is not None:
            return self._aio.hooks.around(
                [message], lambda: self._send(self._aio.sender.delivery(message, queue, timeout))
            )
        return self._send(self._aio.sender.delivery(message, queue, timeout))

    def send_async(
        self, message: Message, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> Future[SendResult]:
        """Begin to send a message; the future tells how it ended. Arguments and errors as :meth:`send`.

        An illegal message raises at once. Nothing limits how many sends are under way: wait for some before beginning
        more.
        """
        if self._aio.hooks is not None:
            return self._aio.hooks.follow([message], lambda: self._send_async(message, queue, timeout))
        return self._send_async(message, queue, timeout)

    def _send_async(self, message: Message, queue: MessageQueue | None, timeout: float | None) -> Future[SendResult]:
        sender = self._aio.sender
        delivery = sender.delivery(message, queue, timeout)
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()
        sender.enter(delivery)
        self._portal.post(lambda: sender.send(delivery, future))
        return future

    def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send a message without waiting for a broker's answer: fast, and nobody hears when it is lost.

        :raises MessageIllegal: no broker would take it.
        :raises NoRouteError: the topic cannot be sent to.
        :raises NetworkError: no connection to the broker could be made.
        """
        if self._aio.hooks is not None:
            with self._aio.hooks.during([message]):
                self._send_oneway(message, queue)
        else:
            self._send_oneway(message, queue)

    def _send_oneway(self, message: Message, queue: MessageQueue | None) -> None:
        sender = self._aio.sender
        delivery = sender.delivery(message, queue)
        target = sender.target(delivery)
        if target is None or self._direct is None:
            self._portal.run(sender.deliver_oneway(delivery))
            return
        head, frame = target.head, delivery.outgoing.frame
        self._direct.oneway(target.address, lambda opaque: frame(head, opaque, oneway=True), delivery.deadline)

    def send_batch(
        self, messages: Iterable[Message], queue: MessageQueue | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send messages of one topic in one request; all are stored in one queue, one after the other, or none is.

        :raises MessageIllegal: they have different topics, a delay level, a retry topic, or are too large together.
        Other errors as :meth:`send`.
        """
        batch = list(messages)
        if self._aio.hooks is not None:
            return self._aio.hooks.around(batch, lambda: self._send(self._aio.sender.delivery(batch, queue, timeout)))
        return self._send(self._aio.sender.delivery(batch, queue, timeout))

    def send_ordered(
        self,
        message: Message,
        key: Any = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message to the queue its key belongs to; there is no second attempt, at another queue.

        :param key: sharding key, the message's own by default: one key, one queue. A Java producer picks the same queue
            for the same string or int.
        :param selector: picks the queue instead; takes the writable queues, the message and ``key``.
        :raises ConfigError: there is neither a key nor a selector.
        Other errors as :meth:`send`.
        """
        choose = chooser(message, key, selector)
        if self._aio.hooks is not None:
            return self._aio.hooks.around(
                [message], lambda: self._send(self._aio.sender.delivery(message, None, timeout, choose))
            )
        return self._send(self._aio.sender.delivery(message, None, timeout, choose))

    def request(self, message: Message, timeout: float = 3.0, queue: MessageQueue | None = None) -> MessageExt:
        """Send a request and wait for the reply of whoever consumes it, made with :func:`~rocketmq_py.reply`.

        The message stays as it is; what is sent is a copy that says where the reply is to go. Hooks see it being sent,
        in the client's thread. The wait can be interrupted.

        :param timeout: seconds for everything: the request's way, the consumer's work and the way back.
        :param queue: as of :meth:`send`.
        :raises RequestTimeout: no reply came in time; the request may have been consumed nonetheless. A reply that
            comes later is logged.
        :raises ClosedError: the producer was closed meanwhile.
        Other errors as :meth:`send`: the request was not stored.
        """
        return self._portal.run(self._aio.request(message, timeout, queue))

    def recall(self, topic: str, recall_handle: str, timeout: float | None = None) -> str:
        """Take back a message that waits for its time; its unique key.

        A broker takes note of it and cannot tell whether the message is still there: one that is due within the second
        may come nonetheless.

        :param recall_handle: of the :class:`SendResult` of its send.
        :param timeout: seconds, instead of ``send_timeout``.
        :raises ConfigError: the handle is none.
        :raises NoRouteError: the broker it names is not known.
        :raises BrokerError: the broker refused it: it is too late, or recalls are off (``recallMessageEnable``).
        :raises NetworkError: the broker was not reached or did not answer in time.
        """
        return self._portal.run(self._aio.recall(topic, recall_handle, timeout))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written, those it will get if it does not exist yet.

        :raises NoRouteError: there are none.
        """
        return self._portal.run(self._aio.queues(topic))

    def _send(self, delivery: SendAttempts) -> SendResult:
        self._portal.check()
        sender = self._aio.sender
        sender.enter(delivery)
        try:
            target = sender.target(delivery)
            outcome = None
            if target is not None and self._direct is not None:
                began = monotonic()
                outcome = _attempt(self._direct, delivery, target)
                sender.ended(target, began, outcome)
            if isinstance(outcome, SendResult):
                return outcome
            return self._portal.run(sender.deliver(delivery, outcome))
        finally:
            sender.leave(delivery)

    def __repr__(self) -> str:
        return repr(self._aio)


def _attempt(connections: DirectConnections, delivery: SendAttempts, target: Target) -> SendResult | RocketMQError:
    head, frame = target.head, delivery.outgoing.frame
    answer: Reply | NetworkError
    try:
        answer = connections.exchange(target.address, lambda opaque: frame(head, opaque), delivery.until)
    except NetworkError as e:
        answer = e
    return outcome_of(delivery, target, answer)
