"""The asyncio producer: its public methods, start and close. ``client.send.sender`` does the sending."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from rocketmq_py.client.client_instance import ClientInstance, ClientSettings
from rocketmq_py.client.hooks.hooks import SendHook, SendHooks
from rocketmq_py.client.hooks.tracing import SendTrace, Trace, Tracer
from rocketmq_py.client.lifetime import AsyncLifetime
from rocketmq_py.client.name_servers import name_servers
from rocketmq_py.client.producer import request_reply
from rocketmq_py.client.producer.recall import recall
from rocketmq_py.client.producer.request_reply import PendingRequests
from rocketmq_py.client.send.options import MAX_PENDING_BYTES, MAX_PENDING_SENDS, Options
from rocketmq_py.client.send.sender import Sender
from rocketmq_py.core.producer.accumulator import BUFFER_BYTES, MAX_BYTES, MAX_MESSAGES, BatchLimits, Linger
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
from rocketmq_py.core.producer.send_attempts import RETRY_CODES, QueueChooser, select_by_hash
from rocketmq_py.errors import ClosedError, ConfigError, RequestTimeout
from rocketmq_py.model import Message, MessageExt, MessageQueue, SendResult
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.client import ProducerData
from rocketmq_py.protocol.namespaces import check_namespace, queue_without_namespace, with_namespace
from rocketmq_py.tls import Tls
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.signing import Credentials

QueueSelector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
"""Returns the queue to send to, one of the topic's writable queues; called with these, the message and the ``key`` of
:meth:`Producer.send_ordered`.
"""


class Producer(AsyncLifetime):
    """Sends messages: ``async with Producer("shop", "127.0.0.1:9876") as producer``.

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
        self.group = with_namespace(namespace, names.check_group(group))
        self._namespace = check_namespace(namespace)
        self._options = Options(
            send_timeout, retries, compress_over, compression, compression_level, max_message_size, create_topic,
            default_queue_nums, _tolerance(send_latency_fault_enable), _or_never(send_msg_max_timeout_per_request),
            retry_another_broker_when_not_store_ok, _codes(retry_response_codes), max_pending_sends, max_pending_bytes,
            _raises(when_full), namespace, unit_mode,
            BatchLimits(batch_linger, min(batch_max_bytes, max(max_message_size, 1)), batch_max_messages),
            batch_buffer_bytes,
        ).check()  # fmt: skip
        self._namesrv = [] if instance is not None else name_servers(namesrv)
        self._client_settings: ClientSettings = {
            "instance_name": instance_name, "unit_name": unit_name, "client_ip": client_ip,
            "address_map": address_map, "tls": tls, "credentials": credentials,
        }  # fmt: skip
        self._instance, self._own_instance = instance, instance is None
        self._sender: Sender | None = None
        self.pending = PendingRequests(f"producer {group}")
        """Requests of :meth:`request` whose replies have not arrived."""
        self._reply_topics: set[str] = set()
        self._topics = {with_namespace(namespace, names.check_topic(topic)) for topic in topics}
        self.tracer = Tracer.of(trace, self.group, "PRODUCE")
        self.hooks = self._send_hooks(hooks)

    def _send_hooks(self, hooks: Sequence[SendHook]) -> SendHooks | None:
        """The hooks to call for every send, with the trace hook as the last one; None if there are none."""
        if self.tracer is not None:
            hooks = (*hooks, SendTrace(self.tracer))
        return SendHooks(self.group, hooks) if hooks else None

    # -- life

    async def start(self) -> None:
        """Fetch the routes of ``topics`` and register with brokers. May be repeated, but not after :meth:`close`."""
        if self._sender is not None:
            return
        if self._instance is None:
            self._instance = ClientInstance(self._namesrv, **self._client_settings)
        self._instance.register(self)
        self._sender = Sender(self.group, self._instance, self._options)
        if self.tracer is not None:
            self.tracer.start(self._instance)
        self._serve(self._instance)
        await self._instance.start()
        if self._topics:
            await self._instance.refresh_routes()
        await self._instance.heartbeat_all()

    def _serve(self, instance: ClientInstance) -> None:
        """Register handlers of brokers' requests, before the first heartbeat; a plain producer has none."""

    async def close(self) -> None:
        """Wait for sends in progress, unregister from brokers, and close connections unless they belong to a shared
        ``instance``. May be called more than once.
        """
        if self._sender is None or self._instance is None:
            return
        self.pending.close()
        await self._sender.close()
        if self.tracer is not None:
            await self.tracer.close()
        await self._instance.unregister(self)
        if self._own_instance:
            await self._instance.stop()

    @property
    def sender(self) -> Sender:
        """The object that does the sending; not for applications.

        :raises ClosedError: the producer is not started.
        """
        if self._sender is None:
            raise ClosedError("this producer is not started: use it in a with statement, or call start() first")
        return self._sender

    # -- sending

    async def send(
        self, message: Message, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send a message and wait until a broker has stored it.

        :param queue: the queue to send to, without retries. By default the queues of the topic take turns, and a failed
            attempt is retried at another broker.
        :param timeout: seconds for all attempts, instead of ``send_timeout``.
        :raises MessageIllegal: the message is too large, or has no topic or an illegal property.
        :raises NoRouteError: the topic does not exist, or no broker accepts messages for it.
        :raises BrokerError: the broker refused the message.
        :raises NetworkError: no broker could be reached, or none answered in time; the message may have been stored.
        """
        return await self.send_async(message, queue, timeout)

    def send_async(
        self, message: Message, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> asyncio.Future[SendResult]:
        """Start to send a message and return a future of its result. Parameters and errors as of :meth:`send`.

        An illegal message raises immediately. When ``max_pending_sends`` or ``max_pending_bytes`` is reached, the
        blocking producer waits before it returns the future. The asyncio producer returns the future immediately and
        keeps the message in memory, so await some futures before you start more.

        :raises TooManySends: one of these limits is reached, and the producer has ``when_full="raise"``.
        """
        sender = self._sender or self.sender  # the property raises
        if self.hooks is not None:
            return self.hooks.follow([message], lambda: sender.start_send(sender.prepare(message, queue, timeout)))
        if sender.joining is not None and queue is None and timeout is None:
            joined = sender.joining.add(message)
            if joined is not None:
                return joined
        return sender.start_send(sender.prepare(message, queue, timeout))

    async def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send a message without an answer from the broker: fast, but a lost message raises no error.

        :raises MessageIllegal: the message is too large, or has no topic or an illegal property.
        :raises NoRouteError: the topic does not exist, or no broker accepts messages for it.
        :raises NetworkError: no connection to the broker can be made.
        """
        sender = self.sender
        sender.let_batches_leave(message.topic)
        if self.hooks is None:
            await sender.deliver_oneway(sender.delivery(message, queue))
            return
        with self.hooks.during([message]):
            await sender.deliver_oneway(sender.delivery(message, queue))

    async def send_batch(
        self, messages: Iterable[Message], queue: MessageQueue | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send messages of one topic in one request. The broker stores all of them in one queue, in order, or none.

        :raises MessageIllegal: the messages have different topics, a delay or a retry topic, or are too large together.

        Other parameters and errors as of :meth:`send`.
        """
        batch = list(messages)
        if self.hooks is not None:
            return await self.hooks.follow(
                batch, lambda: self.sender.start_send(self.sender.prepare_batch(batch, queue, timeout))
            )
        return await self.sender.start_send(self.sender.prepare_batch(batch, queue, timeout))

    async def send_ordered(
        self,
        message: Message,
        key: Any = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message to the queue that its sharding key selects. A failed send is not retried at another queue.

        :param key: sharding key, the message's own by default. Equal keys select the same queue, the one that a Java
            producer selects for the same string or int.
        :param selector: picks the queue instead: takes the writable queues, the message and ``key``.
        :raises ConfigError: neither a key nor a selector is given, and the message has no sharding key.

        Other errors as of :meth:`send`.
        """
        choose = chooser(message, key, selector)
        if self.hooks is not None:
            return await self.hooks.follow(
                [message], lambda: self.sender.start_send(self.sender.prepare(message, None, timeout, choose))
            )
        return await self.sender.start_send(self.sender.prepare(message, None, timeout, choose))

    async def request(self, message: Message, timeout: float = 3.0, queue: MessageQueue | None = None) -> MessageExt:
        """Send a request and wait for the reply of its consumer, made with :func:`~rocketmq_py.reply`.

        A copy of the message is sent, with properties that name the client the reply goes to. Hooks are called with
        this copy, in the event loop's thread.

        :param timeout: seconds to wait for the reply, the send included.
        :param queue: as of :meth:`send`.
        :raises RequestTimeout: no reply in time; the request may have been consumed. A later reply is logged.
        :raises ClosedError: the producer was closed.

        Other errors as of :meth:`send`: the request was not stored.
        """
        sender, instance = self.sender, self._instance
        assert instance is not None
        request = request_reply.request_of(message, instance.client_id, timeout)
        reply, sent = self.pending.expect(request), None
        try:
            async with asyncio.timeout(timeout):
                topic = with_namespace(self._namespace, request.topic)
                await sender.write_queues(topic, timeout)
                self._reply_topics |= await request_reply.register_for_replies(instance, topic)
                sent = await self.send_async(request, queue, timeout)
                return await reply
        except RequestTimeout:
            raise
        except TimeoutError as e:
            raise request_reply.unanswered(request, sent, timeout) from e
        finally:
            self.pending.end(request)

    async def recall(self, topic: str, recall_handle: str, timeout: float | None = None) -> str:
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
        seconds = self._options.send_timeout if timeout is None else timeout
        return await recall(self.sender, self.group, with_namespace(self._namespace, topic), recall_handle, seconds)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The writable queues of a topic; if the topic does not exist, the queues that its first message will create.

        :raises NoRouteError: the topic has no writable queue.
        """
        topic = with_namespace(self._namespace, topic)
        queues = await self.sender.write_queues(topic, self._options.send_timeout)
        return [queue_without_namespace(self._namespace, queue) for queue in queues]

    async def flush(self) -> None:
        """Send what waits for a batch now, and wait until all sends that have begun so far have ended.

        Their results and errors are in their futures. Blocking sends of other threads are waited for only if they are
        in a batch.
        """
        await self.sender.flush()

    # -- member of a client instance

    def heartbeat(self) -> ProducerData:
        """The entry of this producer in heartbeats to brokers."""
        return ProducerData(group_name=self.group)

    def topics(self) -> set[str]:
        """The topics whose routes are kept up to date: those sent to, reply topics of requests, and ``topics``."""
        sent = self._sender.topics if self._sender is not None else set()
        return sent | self._reply_topics | self._topics

    async def on_ids_changed(self) -> None:
        """Do nothing: only consumers rebalance when the members of a group change."""

    def __repr__(self) -> str:
        return f"Producer(group={self.group!r}, namesrv={';'.join(self._namesrv)!r})"


def _raises(when_full: str) -> bool:
    if when_full not in ("wait", "raise"):
        raise ConfigError(f"when_full={when_full!r} must be 'wait' or 'raise'")
    return when_full == "raise"


def _or_never(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def _codes(codes: Collection[int] | None) -> frozenset[int]:
    return RETRY_CODES if codes is None else frozenset(codes)


def _tolerance(option: LatencyFaultTolerance | bool) -> LatencyFaultTolerance | None:
    if isinstance(option, bool):
        return LatencyFaultTolerance() if option else None
    return option.check()


def chooser(message: Message, key: Any, selector: QueueSelector | None) -> QueueChooser:
    """Return a function that picks the queue of an ordered message: ``selector``, or else the hash of the key.

    :param key: the sharding key; None takes the message's own.
    :raises ConfigError: there is no selector, and the sharding key is not a string or an int.
    """
    if selector is not None:
        return lambda queues: selector(queues, message, key)
    if key is None:
        key = message.sharding_key
    if not isinstance(key, str | int):
        raise ConfigError(f"an ordered message needs a sharding key (a str or an int, not {key!r}) or a selector")
    return lambda queues: select_by_hash(queues, key)
