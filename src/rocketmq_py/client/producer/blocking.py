"""The producer for programs without an event loop: the same methods as asyncio's, calls that wait.

Generated from ``rocketmq_py.client.producer.producer``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

from rocketmq_py.client.blocking_instance import ClientInstance, aio_instance
from rocketmq_py.client.hooks.hooks import SendHook
from rocketmq_py.client.hooks.tracing import Trace
from rocketmq_py.client.producer.direct import DirectProducer
from rocketmq_py.client.producer.producer import Producer as AioSource, QueueSelector
from rocketmq_py.client.send.options import MAX_PENDING_BYTES, MAX_PENDING_SENDS
from rocketmq_py.core.producer.accumulator import BUFFER_BYTES, MAX_BYTES, MAX_MESSAGES, Linger
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
from rocketmq_py.model import Message, MessageExt, MessageQueue, SendResult
from rocketmq_py.protocol import names
from rocketmq_py.tls import Tls
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.signing import Credentials


class Producer(DirectProducer):
    """Sends messages: ``with Producer("shop", "127.0.0.1:9876") as producer``.

    :param group: producer group; names the application to brokers.
    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, a URL that the addresses are fetched from, or None for the
        environment's NAMESRV_ADDR.
    :param send_timeout: seconds a send may take, all attempts together.
    :param retries: how often a failed send is retried: at another broker, or with growing pauses if there is only one.
        Attempts that cannot connect to a broker do not count: unless ``retries`` is 0, they are repeated until
        ``send_timeout``, so that sends survive the restart of a broker.
    :param compress_over: compress bodies of at least this many bytes; None never compresses.
    :param compression: the algorithm; LZ4 and ZSTD need the ``compression`` extra.
    :param compression_level: 1 (fast) to 9 (small).
    :param max_message_size: the largest body to send, in bytes; the default limit of brokers is 4 MiB.
    :param default_queue_nums: how many queues a topic gets that a first message creates; at most those of TBW102.
    :param create_topic: the topic whose settings brokers copy to a topic that a first message creates.
    :param instance: share this client's connections; its owner starts and stops it. It replaces ``namesrv``,
        ``instance_name``, ``unit_name``, ``client_ip``, ``address_map``, ``tls`` and ``credentials``.
    :param instance_name: part of the client id after ``ip@``; unique by default.
    :param unit_name: appended to the client id, and to a URL that name servers are fetched from.
    :param client_ip: the address in the client id; by default an address of this machine.
    :param namespace: prefix of topics and of the group (``namespace%topic``), as Java's ``setNamespace`` adds it;
        invisible in messages, results and queues.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests, for servers with access control.
    :param topics: topics whose routes are fetched at the start, and whose brokers get a heartbeat.
    :param unit_mode: set the unit flag in send requests (``unitMode`` of Java).
    :param hooks: called before and after every send.
    :param trace: True sends message traces to the brokers' default trace topic, a string to that topic; see
        :mod:`rocketmq_py.client.hooks.tracing`. Off by default.
    :param send_latency_fault_enable: avoid slow and failing brokers for a time that grows with their latency: True for
        Java's tables, :class:`~rocketmq_py.LatencyFaultTolerance` for others. Off by default.
    :param send_msg_max_timeout_per_request: seconds of ``send_timeout`` that an attempt may take if another may follow;
        None lets a broker that does not answer use all of it.
    :param retry_another_broker_when_not_store_ok: send a message to another broker if the first one has stored it but
        not flushed or replicated it in time. The result is that of the last attempt; consumers may see the message more
        than once. Off by default.
    :param retry_response_codes: response codes of brokers after which a send is retried; None: the same as in Java.
    :param max_pending_sends: maximum number of sends in progress; None for no limit. Further sends wait, and their
        timeout starts when the wait ends.
    :param max_pending_bytes: maximum bytes of message bodies in progress; None for no limit.
    :param when_full: at one of these two limits, ``"wait"`` or ``"raise"`` :class:`~rocketmq_py.TooManySends`.
    :param batch_linger: make batches of messages that are sent one by one: the longest time in seconds that a message
        waits for others, 0 to 60; ``"natural"``: it waits only while a request to its topic or queue is under way, at
        most for an eighth of a round trip or a millisecond, so a single sender does not wait. 0 makes no batches.
        (Java: ``autoBatch``, ``batchMaxDelayMs``)
    :param batch_max_bytes: a batch is sent before it would have more bytes; larger messages are sent alone. (Java:
        ``batchMaxBytes``)
    :param batch_max_messages: maximum number of messages of a batch.
    :param batch_buffer_bytes: maximum bytes of messages in progress if batches are made, those that wait included; then
        ``when_full`` applies. (Java: ``totalBatchMaxBytes``)
    :raises ConfigError: an illegal option.

    Every call can be interrupted (Ctrl-C).
    In a forked child every call raises ForkedError; make an object of its own there.
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
        instance: ClientInstance | None = None,
        instance_name: str | None = None,
        unit_name: str | None = None,
        client_ip: str | None = None,
        namespace: str | None = None,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        topics: Iterable[str] = (),
        unit_mode: bool = False,
        hooks: Sequence[SendHook] = (),
        trace: Trace = False,
        send_latency_fault_enable: LatencyFaultTolerance | bool = False,
        send_msg_max_timeout_per_request: float | None = None,
        retry_another_broker_when_not_store_ok: bool = False,
        retry_response_codes: Collection[int] | None = None,
        max_pending_sends: int | None = MAX_PENDING_SENDS,
        max_pending_bytes: int | None = MAX_PENDING_BYTES,
        when_full: Literal["wait", "raise"] = "wait",
        batch_linger: Linger = 0.0,
        batch_max_bytes: int = MAX_BYTES,
        batch_max_messages: int = MAX_MESSAGES,
        batch_buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._wrap(
            AioSource(group, namesrv, send_timeout=send_timeout, retries=retries, compress_over=compress_over,
            compression=compression, compression_level=compression_level, max_message_size=max_message_size,
            default_queue_nums=default_queue_nums, create_topic=create_topic, instance=aio_instance(instance),
            instance_name=instance_name, unit_name=unit_name, client_ip=client_ip, namespace=namespace,
            address_map=address_map, tls=tls, credentials=credentials, topics=topics, unit_mode=unit_mode, hooks=hooks,
            trace=trace, send_latency_fault_enable=send_latency_fault_enable,
            send_msg_max_timeout_per_request=send_msg_max_timeout_per_request,
            retry_another_broker_when_not_store_ok=retry_another_broker_when_not_store_ok,
            retry_response_codes=retry_response_codes, max_pending_sends=max_pending_sends,
            max_pending_bytes=max_pending_bytes, when_full=when_full, batch_linger=batch_linger,
            batch_max_bytes=batch_max_bytes, batch_max_messages=batch_max_messages,
            batch_buffer_bytes=batch_buffer_bytes)
        )  # fmt: skip

    def start(self) -> None:
        """Fetch the routes of ``topics`` and register with brokers. May be repeated, but not after :meth:`close`."""
        self._blocking_start()

    def close(self) -> None:
        """Wait for sends in progress, unregister from brokers, and close connections unless they belong to a shared
        ``instance``. May be called more than once.
        """
        self._blocking_close()

    def send(self, message: Message, queue: MessageQueue | None = None, timeout: float | None = None) -> SendResult:
        """Send a message and wait until a broker has stored it.

        :param queue: the queue to send to, without retries. By default the queues of the topic take turns, and a failed
            attempt is retried at another broker.
        :param timeout: seconds for all attempts, instead of ``send_timeout``.
        :raises MessageIllegal: the message is too large, or has no topic or an illegal property.
        :raises NoRouteError: the topic does not exist, or no broker accepts messages for it.
        :raises BrokerError: the broker refused the message.
        :raises NetworkError: no broker could be reached, or none answered in time; the message may have been stored.
        """
        return self._blocking_send(message, queue, timeout)

    def send_async(
        self, message: Message, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> Future[SendResult]:
        """Start to send a message and return a future of its result. Parameters and errors as of :meth:`send`.

        An illegal message raises immediately. When ``max_pending_sends`` or ``max_pending_bytes`` is reached, the
        blocking producer waits before it returns the future. The asyncio producer returns the future immediately and
        keeps the message in memory, so await some futures before you start more.

        :raises TooManySends: one of these limits is reached, and the producer has ``when_full="raise"``.
        """
        return self._blocking_send_async(message, queue, timeout)

    def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send a message without an answer from the broker: fast, but a lost message raises no error.

        :raises MessageIllegal: the message is too large, or has no topic or an illegal property.
        :raises NoRouteError: the topic does not exist, or no broker accepts messages for it.
        :raises NetworkError: no connection to the broker can be made.
        """
        self._blocking_send_oneway(message, queue)

    def send_batch(
        self, messages: Iterable[Message], queue: MessageQueue | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send messages of one topic in one request. The broker stores all of them in one queue, in order, or none.

        :raises MessageIllegal: the messages have different topics, a delay or a retry topic, or are too large together.

        Other parameters and errors as of :meth:`send`.
        """
        return self._blocking_send_batch(messages, queue, timeout)

    def send_ordered(
        self, message: Message, key: Any = None, selector: QueueSelector | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send a message to the queue that its sharding key selects. A failed send is not retried at another queue.

        :param key: sharding key, the message's own by default. Equal keys select the same queue, the one that a Java
            producer selects for the same string or int.
        :param selector: picks the queue instead: takes the writable queues, the message and ``key``.
        :raises ConfigError: neither a key nor a selector is given, and the message has no sharding key.

        Other errors as of :meth:`send`.
        """
        return self._blocking_send_ordered(message, key, selector, timeout)

    def request(self, message: Message, timeout: float = 3.0, queue: MessageQueue | None = None) -> MessageExt:
        """Send a request and wait for the reply of its consumer, made with :func:`~rocketmq_py.reply`.

        A copy of the message is sent, with properties that name the client the reply goes to. Hooks are called with
        this copy, in the event loop's thread.

        :param timeout: seconds to wait for the reply, the send included.
        :param queue: as of :meth:`send`.
        :raises RequestTimeout: no reply in time; the request may have been consumed. A later reply is logged.
        :raises ClosedError: the producer was closed.

        Other errors as of :meth:`send`: the request was not stored.
        """
        return self._run(self._aio.request(message, timeout, queue))

    def recall(self, topic: str, recall_handle: str, timeout: float | None = None) -> str:
        """Recall a message that is not delivered yet because of its delivery time; returns its unique key.

        The broker accepts the recall but does not report whether it came in time: a message that is due within a
        second may still be delivered.

        :param recall_handle: ``recall_handle`` of the :class:`SendResult` of its send.
        :param timeout: seconds, instead of ``send_timeout``.
        :raises ConfigError: ``recall_handle`` is not a recall handle.
        :raises NoRouteError: the name servers do not know the broker that the handle names.
        :raises BrokerError: the broker refused: too late, or recalls are off (``recallMessageEnable``).
        :raises NetworkError: the broker cannot be reached or did not answer in time.
        """
        return self._run(self._aio.recall(topic, recall_handle, timeout))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The writable queues of a topic; if the topic does not exist, the queues that its first message will create.

        :raises NoRouteError: the topic has no writable queue.
        """
        return self._run(self._aio.queues(topic))

    def flush(self) -> None:
        """Send what waits for a batch now, and wait until all sends that have begun so far have ended.

        Their results and errors are in their futures. Blocking sends of other threads are waited for only if they are
        in a batch.
        """
        self._run(self._aio.flush())
