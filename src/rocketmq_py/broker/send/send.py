"""The send path: from a decoded request to a stored message and its answer.

The rules of what is refused, what is added and where a message is stored are Java's (SendMessageProcessor, HookUtils).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rocketmq_py.accelerator import SendRun
from rocketmq_py.broker import remarks
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.message_types import message_type, priority
from rocketmq_py.broker.metadata.topic_attributes import PRIORITY
from rocketmq_py.broker.records.message_properties import PropertyWriter, decode, written
from rocketmq_py.broker.send.ack_waiter import AckWaiter
from rocketmq_py.broker.send.half_batches import half_batch
from rocketmq_py.broker.send.half_messages import (
    CachedHalfMessage,
    HalfMessageCache,
    make_half_message,
    to_half_message,
)
from rocketmq_py.broker.send.retry_topics import RetryTopics
from rocketmq_py.broker.send.send_runs import UNCOMMON_FLAGS, SendRuns, send_fields
from rocketmq_py.broker.send.send_validation import SendHeader, SendTarget, SendTargets
from rocketmq_py.core.metrics.counters import NORMAL, MessageCounts
from rocketmq_py.errors import BrokerError, CorruptRecord, MessageIllegal
from rocketmq_py.properties import Property
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.half_messages import encode_offsets
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, is_retry_topic
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.protocol.requests import Request
from rocketmq_py.protocol.sys_flag import HOSTS_V6, INNER_BATCH, TRANSACTION_MASK, TRANSACTION_PREPARED
from rocketmq_py.server import Hold, Peer, Reply, RunReply
from rocketmq_py.store import MessageStore, NewBatch, NewRecord, UniformBatch, uniform_messages
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.ids import offset_msg_ids

MAX_PROPERTIES = 32767


Redirect = Callable[[NewRecord, dict[str, str]], None]


_REDIRECTING = frozenset((HALF_TOPIC, TIMER_TOPIC, SCHEDULE_TOPIC))


class SendService:
    """Stores the messages that clients send.

    :param redirect: changes the topic of a record with a delay level or a delivery time, so that it is delivered later.
    :param halves: caches half messages until their transactions end.
    :param store_host: this broker's packed address, the prefix of every message id.
    :param ack_waiter: decides which sends wait until their message is safe; None if none waits.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        targets: SendTargets,
        redirect: Redirect,
        property_writer: PropertyWriter,
        retries: RetryTopics,
        halves: HalfMessageCache,
        store_host: bytes,
        ack_waiter: AckWaiter | None,
    ) -> None:
        self._config = config
        self._store = store
        self._retries = retries
        self._redirect = redirect
        self._property_writer = property_writer
        self._write_common = property_writer.write_common
        self._halves = halves
        self._host = store_host
        self._host_hex = store_host.hex().upper()
        self.extra = {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}
        """Header fields that every answer to a send has: region and trace switch."""
        self._ack_waiter = ack_waiter
        self._runs = SendRuns(store, targets, property_writer, self._host_hex, self.extra, halves, ack_waiter)
        self.targets = targets
        self.counts: MessageCounts | None = None
        """Counts stored messages for the metrics; None: nobody wants to know."""
        self.apply_settings()
        self._known = self.targets.known.get

    def apply_settings(self) -> None:
        """Read the maximum message size again, and clear the cached checks of topics and queues.

        Called when settings may have changed.
        """
        self._max_body = self._store.config.max_message_size
        self.targets.forget()

    # -- runs

    def send_run(self, peer: Peer, run: SendRun, begin: int) -> RunReply | None:
        """Store sends of a run from index ``begin`` on, up to the first that needs :meth:`send`.

        :returns: None if the send at ``begin`` needs it. The answers are held if the sends wait for disk or slaves.
        """
        return self._runs.send(peer, run, begin, self.counts)

    # -- one message

    def send(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store one message and answer its send.

        A fast path stores messages without special properties (delay, priority and so on), and half messages, if an
        earlier send to the same topic and queue was accepted. All others pass all checks.
        """
        header: SendHeader = request.header
        target = self._known((header.topic, header.queue_id))
        if target is None or header.sys_flag & UNCOMMON_FLAGS or not 0 < len(body) <= self._max_body:
            half = self._half(peer, header, target, body) if target is not None else None
            if target is not None and half is not None:
                return self._append(half.record, target.queue_text, header.properties, half=half)
            return self._send_checked(peer, request, body)
        marked = self._write_common(header.properties or "")
        if marked is None or target.is_retry:
            return self._send_checked(peer, request, body)
        properties = marked.text.encode()
        if len(properties) > MAX_PROPERTIES:
            return self._send_checked(peer, request, body)
        record = NewRecord(
            target.topic, target.queue_id, body, properties, marked.tags_code, header.sys_flag | target.sys_flag,
            header.flag, header.born_timestamp, peer.host, header.reconsume_times or 0, 0, marked.uniq_key, marked.keys,
        )  # fmt: skip
        return self._append(record, target.queue_text, header.properties)

    def _half(self, peer: Peer, header: SendHeader, target: SendTarget, body: bytes) -> CachedHalfMessage | None:
        """Build the half message of a transactional message on the fast path; None if it needs :meth:`_send_checked`.

        None also for a message that is not transactional, and for one with another special property, such as a delay.
        """
        is_prepared = header.sys_flag & UNCOMMON_FLAGS == TRANSACTION_PREPARED
        if not is_prepared or target.is_retry or not 0 < len(body) <= self._max_body:
            return None
        marked = self._write_common(header.properties or "", is_half=True)
        if marked is None or self._config.reject_transaction_message:
            return None
        half = make_half_message(marked, target, header, body, peer.host)
        return half if half is not None and len(half.record.properties) <= MAX_PROPERTIES else None

    def _append(
        self, record: NewRecord, queue_text: str, sent_properties: str | None, handle: str | None = None,
        inner: int = 0, half: CachedHalfMessage | None = None,
    ) -> Reply | Hold:  # fmt: skip
        """Store a record and return the answer of its send, or a hold until the record is on disk and on slaves.

        :param queue_text: the queue id for the answer.
        :param sent_properties: the properties as the producer sent them; WAIT=false in them means an immediate answer.
        :param handle: the recall handle for the answer; None for none.
        :param inner: the number of messages if the record is a batch stored as one record, otherwise 0.
        :param half: the half message to cache, if the record is one.
        """
        if self._ack_waiter is not None:
            self._ack_waiter.check(sent_properties)
        appended = self._store.append_inner_batch(record, inner) if inner else self._store.append(record)
        if half is not None and self._ack_waiter is None:  # its transaction must not end before it is safe
            self._halves.add(half, appended)
        if self.counts is not None:
            self._count(record, sent_properties, appended.size, inner)
        msg_id = f"{self._host_hex}{appended.physical_offset:016X}"
        ext = send_fields(msg_id, queue_text, str(appended.queue_offset), record.uniq_key or "", self.extra)
        if inner:
            ext["batchUniqId"] = record.uniq_key or ""
        if handle is not None:
            ext["recallHandle"] = handle
        reply = Reply(ext=ext)
        if self._ack_waiter is None:
            return reply
        return self._ack_waiter.answer(reply, appended.physical_offset + appended.size, sent_properties)

    def _count(self, record: NewRecord, sent_properties: str | None, size: int, inner: int) -> None:
        assert self.counts is not None
        if inner:
            self.counts.sent_many(record.topic, NORMAL, inner, size, 1)
            return
        sent_to = record.topic
        if sent_to in _REDIRECTING:
            sent_to = decode(record.properties.decode()).get(Property.REAL_TOPIC, sent_to)
        self.counts.sent(sent_to, record.topic, sent_properties, size)

    def _send_checked(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store one message after all checks, in Java's order.

        A refusal has the header fields that answers to accepted sends have (``extra``), as in Java.
        """
        try:
            target = self.target(request.header, peer)
            if not 0 < len(body) <= self._max_body:
                raise self._illegal()
            target = _by_priority(target, request.header)
            record = self._record(peer, request, target, body)
            handle = self._handle(record) if record.topic == TIMER_TOPIC else None
            return self._append(record, target.queue_text, request.header.properties, handle)
        except MessageIllegal:
            return Reply(Code.MESSAGE_ILLEGAL, remarks.message_illegal(self._max_body), ext=self.extra)
        except BrokerError as e:
            return Reply(e.code, e.remark, ext=self.extra)

    def _handle(self, record: NewRecord) -> str | None:
        """Return the recall handle of a timed message; None for a message of a retry topic."""
        properties = decode(record.properties.decode())
        topic, out_ms = properties.get("REAL_TOPIC", ""), properties.get("TIMER_OUT_MS", "")
        if not topic or not out_ms.isdecimal() or is_retry_topic(topic):
            return None
        return RecallHandle(topic, self._config.broker_name, int(out_ms) + 1, record.uniq_key or "").encode()

    def _record(self, peer: Peer, request: Request, target: SendTarget, body: bytes) -> NewRecord:
        """Build the record of a message; dead letters, half messages and timed messages go to other topics.

        :raises BrokerError: this broker cannot store the message.
        """
        header: SendHeader = request.header
        properties = self._property_writer.parse(header.properties or "")
        topic, queue_id = target.topic, target.queue_id
        if target.is_retry and self._retries.is_dead(header, request.version):
            topic, queue_id = self._retries.dead_letters(header.topic), 0
            properties["DELAY"] = "-1"
        if priority(properties) is not None and message_type(properties) != PRIORITY:
            del properties[Property.PRIORITY]
        sys_flag = header.sys_flag & ~HOSTS_V6 | target.sys_flag
        self._refuse_unsupported(header, properties, sys_flag)
        final = written(properties)
        raw = final.text.encode()
        if len(raw) > MAX_PROPERTIES:
            raise self._illegal()
        record = NewRecord(
            topic, queue_id, body, raw, final.tags_code, sys_flag, header.flag, header.born_timestamp, peer.host,
            header.reconsume_times or 0, 0, final.uniq_key, final.keys,
        )  # fmt: skip
        if _is_prepared(header, properties):
            to_half_message(record, properties)
        else:
            self._redirect(record, properties)
        return record

    def _refuse_unsupported(self, header: SendHeader, properties: dict[str, str], sys_flag: int) -> None:
        """Check that this broker can store a message.

        :raises BrokerError: it cannot.
        """
        prepared = _is_prepared(header, properties)
        if prepared and self._config.reject_transaction_message:
            raise BrokerError.of(Code.NO_PERMISSION, remarks.transactions_forbidden(self._config.broker_ip1))
        if sys_flag & TRANSACTION_PREPARED and not prepared:  # it could never be consumed or ended
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, remarks.PREPARED_BY_HALF)
        if sys_flag & INNER_BATCH or "INNER_NUM" in properties:
            raise self._illegal()

    # -- batches

    def send_batch(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store the messages of a batch one after the other in one queue."""
        header: SendHeader = request.header
        try:
            target = self.target(header, peer)
            sys_flag = header.sys_flag & ~HOSTS_V6 | target.sys_flag
            self._check_batch(header, target, sys_flag, body)
            if target.is_batched and "UNIQ_KEY" in decode(header.properties or ""):
                return self._store_inner(peer, header, target, body)
            batch = NewBatch(
                target.topic, target.queue_id, body, b"", sys_flag, header.born_timestamp, peer.host,
                header.reconsume_times or 0,
            )  # fmt: skip
            return self._store_batch(batch, header, target)
        except BrokerError as e:
            return Reply(e.code, e.remark, ext=self.extra)

    def _check_batch(self, header: SendHeader, target: SendTarget, sys_flag: int, body: bytes) -> None:
        if len(target.topic) > remarks.TOPIC_MAX_LENGTH:
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, f"message topic length too long {len(target.topic)}")
        if target.is_retry:
            raise BrokerError.of(Code.MESSAGE_ILLEGAL, f"batch request does not support retry group {target.topic}")
        delayed = "DELAY\x01" in (header.properties or "") and _level(decode(header.properties or "")) > 0
        if not body or len(body) > self._max_body or sys_flag & (TRANSACTION_MASK | INNER_BATCH) or delayed:
            raise self._illegal()

    def _store_inner(self, peer: Peer, header: SendHeader, target: SendTarget, body: bytes) -> Reply | Hold:
        """Store a batch as one record in a topic with batch consume queues."""
        final = written(self._property_writer.parse(header.properties or ""))
        flags = header.sys_flag & ~HOSTS_V6 | target.sys_flag
        record = NewRecord(
            target.topic, target.queue_id, body, final.text.encode(), final.tags_code, flags, header.flag,
            header.born_timestamp, peer.host, header.reconsume_times or 0, 0, final.uniq_key, final.keys,
        )  # fmt: skip
        try:
            count = sum(1 for _ in decode_batch(body))
            return self._append(record, target.queue_text, header.properties, inner=count)
        except (MessageIllegal, CorruptRecord) as e:
            raise self._illegal() from e

    def _store_batch(self, batch: NewBatch, header: SendHeader, target: SendTarget) -> Reply | Hold:
        if self._ack_waiter is not None:
            self._ack_waiter.check(header.properties)
        try:
            appended = self._store.append_batch(batch)
        except (MessageIllegal, CorruptRecord) as e:
            raise self._illegal() from e
        ext = {
            "msgId": offset_msg_ids(self._host, appended.physical_offsets),
            "queueId": target.queue_text,
            "queueOffset": str(appended.queue_offset),
            **self.extra,
        }
        if self.counts is not None:
            self.counts.sent_many(target.topic, NORMAL, len(appended.physical_offsets), appended.size, 1)
        uniq_key = decode(header.properties or "").get("UNIQ_KEY")
        if uniq_key is not None:
            ext["transactionId"] = uniq_key
        reply = Reply(ext=ext)
        if self._ack_waiter is None:
            return reply
        end = appended.physical_offsets[0] + appended.size
        return self._ack_waiter.answer(reply, end, header.properties)

    # -- half messages

    def send_halves(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store the messages of a batch body as half messages, all or none.

        The answer has their first offset in the half topic, and their offsets in the log.
        """
        header: SendHeader = request.header
        try:
            target = self.target(header, peer)
            if self._ack_waiter is not None:
                self._ack_waiter.check(header.properties)
            places, first, end = self._store_halves(peer, request, target, body)
            if self.counts is not None:
                self.counts.sent_halves(target.topic, len(places), end - places[0])
        except (MessageIllegal, CorruptRecord):
            return Reply(Code.MESSAGE_ILLEGAL, remarks.message_illegal(self._max_body), ext=self.extra)
        except BrokerError as e:
            return Reply(e.code, e.remark, ext=self.extra)
        ext = {"queueId": target.queue_text, "queueOffset": str(first), **self.extra}
        reply = Reply(ext=ext, body=encode_offsets(places))
        if self._ack_waiter is None:
            return reply
        return self._ack_waiter.answer(reply, end, header.properties)

    def _store_halves(
        self, peer: Peer, request: Request, target: SendTarget, body: bytes
    ) -> tuple[Sequence[int], int, int]:
        """Store the half messages of a batch.

        :returns: their commit log offsets, the first one's offset in the half topic, and the commit log offset behind
            the last one.
        """
        batch = self._half_batch(peer, request.header, target, body)
        if batch is not None:
            together = self._store.append_uniform(batch)
            places = together.physical_offsets
            return places, together.queue_offset, places[0] + together.size
        found = [self._one_half(peer, request, target, *message) for message in decode_batch(body)]
        if not found:
            raise self._illegal()
        stored = self._store.append_many([record for _, record in found])
        if self._ack_waiter is None:
            for (half, _), appended in zip(found, stored, strict=True):
                if half is not None:
                    self._halves.add(half, appended)
        last = stored[-1]
        return [one.physical_offset for one in stored], stored[0].queue_offset, last.physical_offset + last.size

    def _half_batch(self, peer: Peer, header: SendHeader, target: SendTarget, body: bytes) -> UniformBatch | None:
        """Build the half messages of a batch to store at once; None if they must be stored one by one."""
        is_prepared = header.sys_flag & UNCOMMON_FLAGS == TRANSACTION_PREPARED
        if not is_prepared or target.is_retry or self._config.reject_transaction_message:
            return None
        shape = uniform_messages(body)
        if shape is None or not 0 < len(shape.bodies[0]) <= self._max_body:
            return None
        batch = half_batch(shape, self._property_writer, target, header, peer.host)
        return batch if batch is not None and batch.shape.properties_size <= MAX_PROPERTIES else None

    def _one_half(
        self, peer: Peer, request: Request, target: SendTarget, flag: int, body: bytes, own: bytes
    ) -> tuple[CachedHalfMessage | None, NewRecord]:
        """Build one message of a batch of half messages.

        :param flag: the message's flag; ``body`` and ``own``, its encoded properties, are also from the batch.
        :returns: its cache entry, None if it has other special properties, such as a delay; and its record.
        :raises BrokerError: the message is too large, or is no half message.
        """
        header = msgspec.structs.replace(request.header, properties=own.decode("utf-8", "replace"), flag=flag)
        half = self._half(peer, header, target, body)
        if half is not None:
            return half, half.record
        if not 0 < len(body) <= self._max_body:
            raise self._illegal()
        record = self._record(peer, msgspec.structs.replace(request, header=header), target, body)
        if record.topic != HALF_TOPIC:  # it is no half message
            raise self._illegal()
        return None, record

    # -- both

    def target(self, header: SendHeader, peer: Peer) -> SendTarget:
        """Return the topic and queue of a send, from the cache or after checks; the topic may be created.

        :raises BrokerError: the send is refused.
        """
        known = self._known((header.topic, header.queue_id))
        return known if known is not None else self.targets.find(header, peer.address)

    def _illegal(self) -> BrokerError:
        return BrokerError.of(Code.MESSAGE_ILLEGAL, remarks.message_illegal(self._max_body))


def _by_priority(target: SendTarget, header: SendHeader) -> SendTarget:
    """Return the queue to which a message's priority leads, in the topic of ``target``.

    Returns ``target`` itself if the message has no valid priority, or its type is another one, such as DELAY.
    """
    if Property.PRIORITY not in (header.properties or ""):
        return target
    properties = decode(header.properties or "")
    found = priority(properties)
    return target if found is None or message_type(properties) != PRIORITY else target.of_priority(found)


def _is_prepared(header: SendHeader, properties: dict[str, str]) -> bool:
    """True for a half message (property TRAN_MSG), except one that an old consumer sends back with a delay level."""
    if properties.get("TRAN_MSG", "").lower() != "true":
        return False
    return not (header.reconsume_times and _level(properties) > 0)


def _level(properties: dict[str, str]) -> int:
    """Return the delay level in a message's properties; 0 if missing or malformed."""
    text = properties.get("DELAY", "0")
    return int(text) if text.lstrip("-").isdecimal() else 0
