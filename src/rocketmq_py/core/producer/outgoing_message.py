"""Outgoing messages: checked, compressed, and encoded but for the fields of the queue.

Also encodes send requests and decodes their responses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.batched_message import PLAIN, UNUSUAL, BatchedMessage
from rocketmq_py.errors import BrokerError, ConfigError, MessageIllegal
from rocketmq_py.model import Message, MessageQueue, SendResult, SendStatus
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.send import SendResponse
from rocketmq_py.protocol.sys_flag import COMPRESSED
from rocketmq_py.wire.batch import MAX_PROPERTIES, encode_batch
from rocketmq_py.wire.command import ONEWAY_FLAG, VERSION
from rocketmq_py.wire.compression import TYPE_SHIFT, CompressionType, compress
from rocketmq_py.wire.frame import MAX_FRAME, pack_lengths
from rocketmq_py.wire.ids import UniqueKeys
from rocketmq_py.wire.signing import Credentials, SigningKey

_json = msgspec.json.Encoder().encode
_UTF8_WORST = 3  # bytes per UTF-16 unit; Python counts code points, of 4 bytes at most, as one
_TAIL = b'"language":"PYTHON","serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION
_MAX_FRAME_BODY = MAX_FRAME - 128 * 1024
"""Maximum bytes of a body that fit in a frame together with a header of maximum size."""
_TIMES = frozenset({Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS})
_STATUS = {int(status.value): status for status in SendStatus}


_SINGLE, _BATCH, _REPLY = range(3)
"""Kinds of send requests, indices of ``_CODES``: a message, a batch, a reply."""
_CODES = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)


class SendHead:
    """The part of the header that all send requests of a producer group to one queue share, encoded once.

    :param group: producer group.
    :param create_topic: the topic that brokers copy when they create the message's topic (TBW102).
    :param queue_nums: number of queues of a topic created so.
    :param credentials: credentials with which to sign the requests; None to send them unsigned.
    :param accelerator: encodes frames and computes the signatures; None for the Python code.
    """

    __slots__ = ("after", "encode", "sign", "starts")

    def __init__(
        self,
        group: str,
        queue: MessageQueue,
        create_topic: str,
        queue_nums: int,
        credentials: Credentials | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:
        self.encode = None if accelerator is None else accelerator.send_frame
        """The accelerator's encoder of frames; None for the Python code."""
        self.sign: Callable[[bytes, bytes], bytes] | None = None
        """Function that returns the signature of a request, given the values of its fields from ``f`` on and its body.

        None if requests are not signed. The values of the fields before ``f``, equal in all requests, are built in.
        """
        self.after = queue.broker_name.encode()
        """The value of the last field, ``n``: the broker name."""
        who = ""
        if credentials is not None:
            user = credentials.fields()
            who = "".join(f"{_text(name)}:{_text(value)}," for name, value in user.items())
            before = (*user.values(), group, queue.topic, create_topic, str(queue_nums), str(queue.queue_id))
            key = SigningKey if accelerator is None else accelerator.SigningKey
            self.sign = key(credentials.secret_key.encode(), "".join(before).encode()).sign
        fields = (
            f'"extFields":{{{who}"a":{_text(group)},"b":{_text(queue.topic)},"c":{_text(create_topic)},'
            f'"d":"{queue_nums}","e":"{queue.queue_id}","n":{_text(queue.broker_name)},"f":"'
        )
        self.starts = tuple(f'{{"code":{code:d},{fields}'.encode() for code in _CODES)
        """The beginning of the JSON header, up to the value of field ``f``, by kind of request."""


def _text(value: str) -> str:
    return _json(value).decode()


class OutgoingMessage(msgspec.Struct, gc=False, eq=False):
    """One message or batch, checked and encoded; all attempts to send it share these bytes.

    ``fields`` has the header fields that depend on the message, as JSON. ``values`` has their values in the order of
    the field names, as a signature covers them; it is empty if requests are not signed.
    """

    topic: str
    msg_id: str
    body: bytes
    fields: bytes
    kind: int = _SINGLE
    values: bytes = b""

    def frame(self, head: SendHead, opaque: int, *, oneway: bool = False) -> bytes:
        """Return the frame of a send request.

        :param head: header part for the queue to send to. :param opaque: number of the request.
        :raises ValueError: ``head`` signs, but the message was packed without ``signing``.
        """
        start = head.starts[self.kind]
        flag = ONEWAY_FLAG if oneway else 0
        body = self.body
        if head.sign is None:
            if head.encode is not None:
                found = head.encode(start, self.fields, (flag, opaque), _TAIL, body)
                if found is not None:
                    return found
            header = b'%b%b},"flag":%d,"opaque":%d,%b' % (start, self.fields, flag, opaque, _TAIL)
        else:
            if not self.values:
                raise ValueError("a message that was packed without signing cannot be sent by a head that signs")
            signature = head.sign(self.values + head.after, body)
            header = b'%b%b,"Signature":"%b"},"flag":%d,"opaque":%d,%b' % (
                start, self.fields, signature, flag, opaque, _TAIL,
            )  # fmt: skip
        size = len(header)
        return b"%b%b%b" % (pack_lengths(4 + size + len(body), size), header, body)

    def result(self, queue: MessageQueue, reply: Reply, address: str) -> SendResult:
        """Decode a broker's response to a send.

        :param queue: the queue to which the message was sent. :param address: the broker's address, for errors.
        :raises BrokerError: the broker did not store the message.
        """
        status = _STATUS.get(reply.code)
        if status is None:
            raise BrokerError.of(reply.code, reply.remark, address)
        stored = reply.header(SendResponse)
        if stored.queue_id != queue.queue_id:
            queue = MessageQueue(queue.topic, queue.broker_name, stored.queue_id)
        return tuple.__new__(  # as SendResult(...), without a call in Python
            SendResult,
            (
                status, stored.batch_uniq_id or self.msg_id, queue, stored.queue_offset, stored.msg_id,
                stored.transaction_id, stored.msg_region, stored.trace_on != "false", stored.recall_handle,
            ),
        )  # fmt: skip


def _too_large_for_a_frame(size: int, sent: int) -> str:
    return (
        f"the message cannot be sent: its body of {size} bytes has {sent} as it is sent, and servers close a "
        f"connection on requests of more than {MAX_FRAME} bytes, whatever max_message_size allows; send it in parts"
    )


class Packer:
    """Checks, compresses and encodes messages for sending. Thread-safe.

    :param keys: generator of unique keys.
    :param compress_over: bodies of at least this many bytes are compressed; None never compresses.
    :param max_message_size: maximum bytes of a body before compression, as configured at the brokers.
    :param signing: True if requests will be signed.
    :param unit_mode: value of the header field ``unitMode``.
    :param accelerator: encodes properties and batches; None for the Python code.
    """

    __slots__ = ("_accelerator", "_compress_over", "_compression", "_encode", "_encode_plain", "_keys", "_level",
                 "_max_size", "_of_batch", "_ordinary", "_plain_below", "_signing", "_unit_mode")  # fmt: skip

    def __init__(
        self,
        keys: UniqueKeys,
        *,
        compress_over: int | None = 4096,
        compression: CompressionType = CompressionType.ZLIB,
        compression_level: int = 5,
        max_message_size: int = names.MAX_MESSAGE_SIZE,
        signing: bool = False,
        unit_mode: bool = False,
        accelerator: Accelerator | None = None,
    ) -> None:
        self._keys = keys
        self._accelerator = accelerator
        self._encode = accelerator.encode_message if accelerator is not None else _encode
        self._encode_plain = accelerator.encode_plain if accelerator is not None else _encode_plain
        self._unit_mode = unit_mode
        self._ordinary = _counts("0", None, unit_mode=unit_mode, batch=False)
        self._of_batch = _counts("0", None, unit_mode=unit_mode, batch=True)
        self._signing = signing
        self._compress_over = compress_over if compress_over is not None else max_message_size + 1
        self._compression = compression
        self._level = compression_level
        self._max_size = max_message_size
        self._plain_below = min(self._compress_over, max_message_size + 1)

    def pack(self, message: Message, now_ms: int, sys_flag: int = 0) -> OutgoingMessage:
        """Encode a message for sending. A unique key is added to its properties unless it has one.

        :param now_ms: born timestamp in milliseconds since the epoch.
        :param sys_flag: bits of the sysFlag other than those of compression.
        :raises MessageIllegal: the topic, body or properties break the rules of all brokers.
        :raises ConfigError: the package for the compression type is not installed.
        """
        topic, body, properties = message.topic, message.body, message.properties
        if not 0 < len(body) <= self._max_size or _topic_fault(topic) is not None:
            raise self._illegal(message)
        msg_id = properties.get("UNIQ_KEY")
        if msg_id is None:
            msg_id = properties["UNIQ_KEY"] = self._keys.next(now_ms)
        if len(body) >= self._compress_over:
            body = compress(body, self._compression, self._level)
            sys_flag |= COMPRESSED | self._compression << TYPE_SHIFT
        if len(body) > _MAX_FRAME_BODY:
            raise MessageIllegal(_too_large_for_a_frame(len(message.body), len(body)))
        more = self._ordinary
        if topic.startswith(names.RETRY_PREFIX):
            properties, more = _redelivery(properties, unit_mode=self._unit_mode)
        fields, values = self._fields((sys_flag, now_ms, message.flag), properties, more)
        kind = _REPLY if "MSG_TYPE" in properties and _is_reply(properties) else _SINGLE
        return OutgoingMessage(topic, msg_id, body, fields, kind, values)

    def pack_batch(self, messages: Iterable[Message], now_ms: int) -> OutgoingMessage:
        """Encode several messages as one batch. A unique key is added to each message that has none, and to the batch.

        :param now_ms: born timestamp in milliseconds since the epoch.
        :raises MessageIllegal: a message or the batch breaks the rules of all brokers.
        """
        batch = list(messages)
        fault = _batch_fault(batch)
        if fault:
            raise MessageIllegal(f"no batch can be made of {len(batch)} messages: {fault}")
        for message in batch:
            if not 0 < len(message.body) <= self._max_size or _topic_fault(message.topic) is not None:
                raise self._illegal(message)
            if "UNIQ_KEY" not in message.properties:
                message.properties["UNIQ_KEY"] = self._keys.next(now_ms)
        body = self._batch_body(batch)
        if len(body) > min(self._max_size, _MAX_FRAME_BODY):
            raise MessageIllegal(
                f"the batch of {len(batch)} has {len(body)} bytes, {min(self._max_size, _MAX_FRAME_BODY)} are allowed; "
                "send it in parts"
            )
        wait = "true" if batch[0].wait_store_ok else "false"
        properties = {Property.UNIQUE_KEY: self._keys.next(now_ms), Property.WAIT_STORE: wait}
        fields, values = self._fields((0, now_ms, 0), properties, self._of_batch)
        msg_ids = ",".join(message.properties["UNIQ_KEY"] for message in batch)
        return OutgoingMessage(batch[0].topic, msg_ids, body, fields, _BATCH, values)

    def record(self, message: Message, now_ms: int, kind: Hashable = None) -> BatchedMessage:
        """Encode a message as a record of a batch. A unique key is added to its properties unless it has one.

        :param kind: added to what messages of one batch must have in common.

        Other parameters and errors as of :meth:`pack`.
        """
        topic, body, properties, flag, sys_flag = message.topic, message.body, message.properties, message.flag, 0
        size = len(body)
        if not 0 < size <= self._max_size or _topic_fault(topic) is not None:
            raise self._illegal(message)
        msg_id = properties.get("UNIQ_KEY")
        if msg_id is None:
            msg_id = properties["UNIQ_KEY"] = self._keys.next(now_ms)
        if size >= self._compress_over:
            body = compress(body, self._compression, self._level)
            sys_flag, size = COMPRESSED | self._compression << TYPE_SHIFT, len(body)
        record = self._encode(flag, body, properties, MAX_PROPERTIES) or _encode(flag, body, properties)
        waits = properties.get("WAIT") != "false"
        return BatchedMessage(topic, msg_id, record, size, flag, sys_flag, now_ms, waits, (kind, waits, sys_flag))

    def plain_record(self, message: Message, now_ms: int) -> BatchedMessage | None:
        """Do as :meth:`record`, in less time, for a plain message to a topic that is known to be legal.

        Return None for any other message, which is left as it was.

        :raises MessageIllegal: as :meth:`record`.
        """
        if message.properties.get("WAIT") == "false":
            return None
        msg_id = self._keys.next(now_ms)
        record = self._encode_plain(message, msg_id, UNUSUAL, self._plain_below, MAX_PROPERTIES)
        if record is None:
            return None
        return BatchedMessage(message.topic, msg_id, record, len(message.body), message.flag, 0, now_ms, True, PLAIN)

    def join(self, messages: Sequence[BatchedMessage]) -> OutgoingMessage:
        """Return one request for messages of one kind: a batch, or for a single message the same as :meth:`pack`."""
        first = messages[0]
        numbers = (first.sys_flag, first.born_ms, first.flag)
        if len(messages) == 1:
            text = first.properties
            values = _values(*numbers, text, self._ordinary) if self._signing else b""
            fields = _fields(*numbers, text, self._ordinary)
            return OutgoingMessage(first.topic, first.msg_id, first.body, fields, _SINGLE, values)
        wait = "true" if first.waits else "false"
        properties = {Property.UNIQUE_KEY: self._keys.next(first.born_ms), Property.WAIT_STORE: wait}
        fields, values = self._fields((first.sys_flag, first.born_ms, 0), properties, self._of_batch)
        body = b"".join([message.record for message in messages])
        return OutgoingMessage(first.topic, first.msg_id, body, fields, _BATCH, values)

    def _fields(self, numbers: tuple[int, int, int], properties: dict[str, str], more: _More) -> tuple[bytes, bytes]:
        """Encode the header fields from the value of ``f`` on, and their values if requests are signed.

        :param numbers: system flags, born timestamp and flag.
        """
        if self._accelerator is not None:
            found = self._accelerator.send_fields(numbers, properties, more, MAX_PROPERTIES)
            if found is not None:
                return found if self._signing else (found[0], b"")
        text = _properties_text(properties)
        return _fields(*numbers, text, more), _values(*numbers, text, more) if self._signing else b""

    def _batch_body(self, batch: Sequence[Message]) -> bytes:
        if self._accelerator is not None:
            found = self._accelerator.encode_messages([(m.flag, m.body, m.properties) for m in batch], MAX_PROPERTIES)
            if found is not None:
                return found
        return encode_batch((m.flag, m.body, _properties_text(m.properties).encode()) for m in batch)

    def _illegal(self, message: Message) -> MessageIllegal:
        size, fault = len(message.body), _topic_fault(message.topic)
        if fault is None:
            fault = f"the body has {size} bytes, {self._max_size} are allowed" if size else "the body is empty"
        return MessageIllegal(f"the message cannot be sent: {fault}")


def _encode(flag: int, body: bytes, properties: dict[str, str], _: int = MAX_PROPERTIES) -> bytes:
    """Encode a message as a record of a batch; as the accelerator does, but illegal properties raise their error."""
    return encode_batch([(flag, body, _properties_text(properties).encode())])


def _encode_plain(message: Message, key: str, unusual: frozenset[str], below: int, _: int) -> bytes | None:
    """Encode a plain message as a record of a batch; as the accelerator, but illegal properties raise their error."""
    body, properties = message.body, message.properties
    if not 0 < len(body) < below or not unusual.isdisjoint(properties):
        return None
    record = _encode(message.flag, body, properties | {"UNIQ_KEY": key})
    properties["UNIQ_KEY"] = key
    return record


class _More(NamedTuple):
    """The header fields ``j`` to ``m``, which are the same for most messages: as JSON, and their values to sign."""

    json: bytes
    values: bytes


def _counts(times: str, limit: str | None, *, unit_mode: bool, batch: bool) -> _More:
    """Encode the fields reconsumeTimes (``j``), unitMode (``k``), maxReconsumeTimes (``l``) and batch (``m``).

    :param times: value of ``j``. :param limit: value of ``l``; None leaves it out.
    """
    unit, many = "true" if unit_mode else "false", "true" if batch else "false"
    json = f'"j":{_text(times)},"k":"{unit}","m":"{many}"' + (f',"l":{_text(limit)}' if limit else "")
    return _More(json.encode(), f"{times}{unit}{limit or ''}{many}".encode())


def _fields(sys_flag: int, born_ms: int, flag: int, properties: str, more: _More) -> bytes:
    """Encode the header fields that depend on the message as JSON, beginning with the value of field ``f``."""
    return b'%d","g":"%d","h":"%d","i":%b,%b' % (sys_flag, born_ms, flag, _json(properties), more.json)


def _values(sys_flag: int, born_ms: int, flag: int, properties: str, more: _More) -> bytes:
    """Return the values of the fields that :func:`_fields` encodes, concatenated as a signature covers them."""
    return b"%d%d%d%b%b" % (sys_flag, born_ms, flag, properties.encode(), more.values)


def _properties_text(properties: dict[str, str]) -> str:
    """Encode properties in their stored form.

    :raises MessageIllegal: a property contains a separator, or all together are too long.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    if text.count("\x01") != len(properties) or text.count("\x02") != len(properties):
        raise MessageIllegal("the properties contain the characters U+0001 or U+0002, which separate them on the wire")
    if len(text) * _UTF8_WORST > MAX_PROPERTIES and len(text.encode()) > MAX_PROPERTIES:
        raise MessageIllegal(f"the properties have {len(text.encode())} bytes, {MAX_PROPERTIES} are allowed")
    return text


def _is_reply(properties: dict[str, str]) -> bool:
    """Return True if a message is a reply, which brokers push to the client that waits for it instead of storing it."""
    return properties[Property.MESSAGE_TYPE] == names.REPLY_MESSAGE_TYPE


def _redelivery(properties: dict[str, str], *, unit_mode: bool) -> tuple[dict[str, str], _More]:
    """Split the properties of a message to a retry topic: the counts of reconsumption become header fields.

    Return the remaining properties, and the header fields ``j`` to ``m``.
    """
    times = properties.get(Property.RECONSUME_TIME, "0")
    limit = properties.get(Property.MAX_RECONSUME_TIMES)
    counts = (Property.RECONSUME_TIME, Property.MAX_RECONSUME_TIMES)
    rest = {name: value for name, value in properties.items() if name not in counts}
    return rest, _counts(times, limit, unit_mode=unit_mode, batch=False)


@lru_cache(maxsize=1024)
def _topic_fault(topic: str) -> str | None:
    if topic in names.NOT_ALLOWED_TO_SEND:
        return f"topic {topic} belongs to the brokers"
    return names.topic_fault(topic)


def _batch_fault(batch: Sequence[Message]) -> str | None:
    """Return why messages cannot be sent as one batch (MessageBatch.generateFromList); None if they can."""
    if not batch:
        return "there are none"
    first = batch[0]
    topic, waits = first.topic, first.wait_store_ok
    for message in batch:
        properties = message.properties
        if "DELAY" in properties and message.delay_level > 0:
            return f"{message!r} has a delay level"
        if not _TIMES.isdisjoint(properties):
            return f"{message!r} has a delivery time"
        if message.topic != topic:
            return f"their topics differ: {topic}, {message.topic}"
        if (properties.get("WAIT") != "false") is not waits:
            return "some wait for the store and some do not"
    return f"{first.topic} is a retry topic" if names.is_retry_topic(first.topic) else None


def check_limits(compress_over: int | None, max_message_size: int) -> None:
    """Check the options ``compress_over`` and ``max_message_size`` of a producer.

    :raises ConfigError: a limit is below 1.
    """
    if max_message_size < 1:
        raise ConfigError(f"max_message_size={max_message_size} allows no message")
    if compress_over is not None and compress_over < 1:
        raise ConfigError(f"compress_over={compress_over} must be at least 1, or None for never")
