"""The stored-message record, which the commit log stores and pull responses contain.

Layout: MessageExtEncoder and MessageDecoder of Apache RocketMQ, versions V1 and V2, IPv4 and IPv6 hosts.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from struct import Struct, error as StructError
from typing import NamedTuple
from zlib import crc32

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.errors import CorruptBody, CorruptRecord, DecompressionLimit
from rocketmq_py.model import MessageExt, RecordHead
from rocketmq_py.wire.batch import unwrap_inner_batch
from rocketmq_py.wire.compression import DEFAULT_LIMITS, DecompressionBudget, DecompressionLimits, decompress

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
MAGIC_BLANK = -875286124
"""Magic of the record ``size 4 | magic 4`` that fills the unused rest of a commit log file."""

COMPRESSED = 0x1
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80

FIXED_SIZE = 88
"""Number of bytes before the body in a record with two IPv4 hosts."""
QUEUE_ID_AT = 12
QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36

HEAD_V4 = Struct(">iiIiiqqiq8sq8siqi")
_HEADS = {
    0: HEAD_V4,
    BORN_HOST_V6: Struct(">iiIiiqqiq20sq8siqi"),
    STORE_HOST_V6: Struct(">iiIiiqqiq8sq20siqi"),
    BORN_HOST_V6 | STORE_HOST_V6: Struct(">iiIiiqqiq20sq20siqi"),
}
_V6_HOSTS = BORN_HOST_V6 | STORE_HOST_V6
_ODD = COMPRESSED | NEED_UNWRAP | _V6_HOSTS
_U16 = Struct(">H")
_I32 = Struct(">i")
_I64 = Struct(">q")
MIN_SIZE = FIXED_SIZE + 1 + 2


def head_struct(sys_flag: int) -> Struct:
    """Return the layout of a record's fixed-length fields; its size depends on the IPv6 bits of ``sys_flag``."""
    return _HEADS[sys_flag & _V6_HOSTS]


def relocate_records(body: bytes, queue_id: int, delta: int) -> bytes:
    """Return the records of a pull body with their queue id replaced and ``delta`` added to their queue offsets.

    :raises CorruptRecord: the size of a record is too small, or exceeds the body.
    """
    moved, position = bytearray(body), 0
    while position < len(moved):
        size = _I32.unpack_from(moved, position)[0] if position + FIXED_SIZE <= len(moved) else 0
        if size < MIN_SIZE or position + size > len(moved):
            raise CorruptRecord(f"record at byte {position} of {len(moved)} has size {size}")
        (offset,) = _I64.unpack_from(moved, position + QUEUE_OFFSET_AT)
        _I32.pack_into(moved, position + QUEUE_ID_AT, queue_id)
        _I64.pack_into(moved, position + QUEUE_OFFSET_AT, offset + delta)
        position += size
    return bytes(moved)


def body_crc(body: bytes | memoryview) -> int:
    """Return the checksum that a record stores for its body: CRC-32 without the highest bit."""
    return crc32(body) & 0x7FFFFFFF


def topic_part(topic: str) -> tuple[int, bytes]:
    """Return magic and length-prefixed topic of a record: layout V1 for topics up to 127 bytes, V2 for longer ones."""
    raw = topic.encode()
    if len(raw) <= 127:
        return MAGIC_V1, bytes((len(raw),)) + raw
    return MAGIC_V2, _U16.pack(len(raw)) + raw


def encode_record(head: RecordHead, topic: str, body: bytes, properties: bytes) -> bytes:
    """Encode a record. Size, magic, checksum and body length are computed; their values in ``head`` are ignored."""
    magic, topic_bytes = topic_part(topic)
    layout = head_struct(head.sys_flag)
    size = layout.size + len(body) + len(topic_bytes) + 2 + len(properties)
    fixed = layout.pack(size, magic, body_crc(body), *head[3:14], len(body))
    return b"".join((fixed, body, topic_bytes, _U16.pack(len(properties)), properties))


class BodyRules(NamedTuple):
    """How to decode the message bodies of a pull response.

    :param limits: limits for decompressed bodies.
    :param read: False: the decoded messages have empty bodies.
    :param decompress: False: bodies stay as they are stored, and ``sys_flag`` keeps its COMPRESSED bit. Inner batches
        are always decompressed, because they contain the messages.
    :param check_crc: True: compare each stored body with its checksum. Ignored if ``read`` is False.
    :param accelerator: decodes plain records; None for the Python code.
    """

    limits: DecompressionLimits = DEFAULT_LIMITS
    read: bool = True
    decompress: bool = True
    check_crc: bool = False
    accelerator: Accelerator | None = None


DEFAULT_RULES = BodyRules()


class Origin(NamedTuple):
    """The queue, and the range of queue offsets, that the records of a response must be from; ``stop`` is exclusive."""

    topic: str
    queue_id: int
    start: int
    stop: int


class UndecodedRecord(NamedTuple):
    """A record whose body cannot be decoded; the other records of the response can.

    :ivar message: the message, with its body as it is stored.
    :ivar error: why the body cannot be decoded.
    """

    message: MessageExt
    error: CorruptBody


class DecodedRecords(NamedTuple):
    """The decoded messages of a pull response, and the records that could not be decoded.

    :ivar messages: messages in the order of the response.
    :ivar undecoded: records with bodies that cannot be decoded; they are not in ``messages``.
    :ivar postponed: records at the end that were not decoded, because the bodies before them used up the limit for all
        bodies together. Pull them again.
    :ivar damage: the error of the first damaged record; it and all records after it are left out, because the lengths
        may be wrong. None without damage.
    """

    messages: list[MessageExt]
    undecoded: Sequence[UndecodedRecord] = ()
    postponed: Sequence[UndecodedRecord] = ()
    damage: CorruptRecord | None = None


def decode_record(
    buffer: bytes | memoryview, position: int = 0, broker_name: str = "", budget: DecompressionBudget | None = None
) -> MessageExt:
    """Decode the record at ``position`` to a message with a decompressed body.

    :param budget: limit for decompressed bodies of the response; None for the default limit of one body.
    :raises CorruptRecord: the record cannot be decoded.
    """
    return _plain(_stored(buffer, position, broker_name), budget)


def decode_records(
    body: bytes, broker_name: str = "", limits: DecompressionLimits = DEFAULT_LIMITS
) -> list[MessageExt]:
    """Decode all records of a pull body to messages; an inner batch becomes its messages.

    :param limits: limits for decompressed bodies.
    :raises DecompressionLimit: the bodies exceed a limit.
    :raises CorruptRecord: a record or its body cannot be decoded.
    """
    decoded = decode_response(body, broker_name, DEFAULT_RULES._replace(limits=limits))
    if decoded.damage is not None:
        raise decoded.damage
    for fault in (*decoded.undecoded, *decoded.postponed):
        raise fault.error
    return decoded.messages


def decode_response(
    body: bytes, broker_name: str = "", rules: BodyRules = DEFAULT_RULES, origin: Origin | None = None
) -> DecodedRecords:
    """Decode the records of a pull body up to the first damaged one; an inner batch becomes its messages.

    Problems are part of the result instead of exceptions.

    :param origin: the queue and offsets that were pulled: a record from elsewhere, or out of order, counts as damaged.
        None accepts records of any queue.
    """
    messages: list[MessageExt] = []
    unusual = _UnusualRecords(rules)
    try:
        _decode_all(body, broker_name, rules, _Places(origin), messages, unusual)
    except _Misplaced as e:
        # The preceding record is left out, too: its offset, if it is too high, may be the wrong one.
        messages = [message for message in messages if message.queue_offset < e.suspect]
        undecoded = [record for record in unusual.undecoded if record.message.queue_offset < e.suspect]
        return DecodedRecords(messages, undecoded, (), e)
    except CorruptRecord as e:
        return DecodedRecords(messages, unusual.undecoded, unusual.postponed, e)
    return DecodedRecords(messages, unusual.undecoded, unusual.postponed)


def _decode_all(
    body: bytes, broker_name: str, rules: BodyRules, places: _Places, messages: list[MessageExt],
    unusual: _UnusualRecords,
) -> None:  # fmt: skip
    """Append the messages of all records to ``messages``; records that cannot be decoded to ``unusual``.

    :raises CorruptRecord: a record is damaged; the messages before it have been appended.
    """
    end, unpack = len(body), HEAD_V4.unpack_from
    position, lowest = _decode_plain(body, broker_name, rules, places, messages)
    reads, checks = rules.read, rules.read and rules.check_crc
    queue_id, stop = places.queue_id, places.stop
    topic, prefixed = "", b""  # decoded only when it changes: a response rarely has several topics
    try:
        while position < end:
            head = unpack(body, position)
            if head[7] & _ODD or head[1] != MAGIC_V1 or head[14] < 0:
                messages += unusual.decode(places.checked(_stored(body, position, broker_name), lowest))
            else:
                at = position + FIXED_SIZE + head[14]
                topic_end = at + 1 + body[at]
                properties_end = position + head[0]
                length = body[topic_end] << 8 | body[topic_end + 1]
                if length != properties_end - topic_end - 2 or properties_end > end:
                    raise _disagreeing(topic_end)
                if body[at:topic_end] != prefixed:
                    prefixed = body[at:topic_end]
                    topic = prefixed[1:].decode()
                    places.check_topic(topic)
                if stop is not None and (head[3] != queue_id or not lowest <= head[5] < stop):
                    raise places.misplaced(head[3], head[5], lowest)
                stored_body = body[position + FIXED_SIZE : at]
                if checks and crc32(stored_body) & 0x7FFFFFFF != head[2]:
                    raise _wrong_crc(head[5], body_crc(stored_body), head[2])
                if unusual.postponed:
                    unusual.postpone(_stored(body, position, broker_name))
                else:
                    kept = stored_body if reads else b""
                    messages.append(MessageExt(head, topic, kept, body[topic_end + 2 : properties_end], broker_name))
            lowest = head[5] + 1
            position += head[0]
    except (StructError, IndexError, UnicodeDecodeError) as e:
        raise CorruptRecord(f"record at byte {position} of {end}: {e}") from e


def _decode_plain(
    body: bytes, broker_name: str, rules: BodyRules, places: _Places, messages: list[MessageExt]
) -> tuple[int, int]:
    """Append the messages at the beginning of ``body`` that the accelerator decodes, if there is one, to ``messages``.

    :returns: the position after their records, and the lowest offset the next record may have.
    """
    if rules.accelerator is None:
        return 0, places.start
    checks = rules.read and rules.check_crc
    plain, position = rules.accelerator.plain_messages(body, places.origin, rules.read, checks, broker_name)
    messages += [MessageExt(*message) for message in plain]
    return position, messages[-1].queue_offset + 1 if messages else places.start


class _Misplaced(CorruptRecord):
    """A record of another queue, or with a queue offset out of order or out of range.

    :ivar suspect: queue offset of the preceding record, which may be the wrong one.
    """

    def __init__(self, reason: str, suspect: int) -> None:
        super().__init__(reason)
        self.suspect = suspect


class _Places:
    """Checks that records are from the queue and the offsets that were pulled.

    :param origin: the expected queue and offsets; None switches the checks off.
    """

    def __init__(self, origin: Origin | None) -> None:
        self.origin = origin
        self.queue_id = origin.queue_id if origin else 0
        self.start = origin.start if origin else 0
        self.stop = origin.stop if origin else None

    def check_topic(self, topic: str) -> None:
        """Check the topic of a record.

        :raises CorruptRecord: the topic is not the expected one.
        """
        if self.origin is not None and topic != self.origin.topic:
            raise CorruptRecord(f"a record of topic {topic!r} is where one of {self.origin.topic!r} belongs")

    def checked(self, record: MessageExt, lowest: int) -> MessageExt:
        """Return the record, after checking its topic, queue and offset.

        The first record may have a lower offset if it is an inner batch, which can begin before the pulled offset.

        :param lowest: the lowest offset the record may have.
        :raises CorruptRecord: the record is of another topic or queue, or its offset is out of order or range.
        """
        if self.stop is None:
            return record
        self.check_topic(record.topic)
        head = record.head
        first = 0 if head.sys_flag & NEED_UNWRAP and lowest == self.start else lowest
        if head.queue_id != self.queue_id or not first <= head.queue_offset < self.stop:
            raise self.misplaced(head.queue_id, head.queue_offset, lowest)
        return record

    def misplaced(self, queue_id: int, offset: int, lowest: int) -> _Misplaced:
        """Return the error for a record of another queue, or with an offset out of order or range."""
        return _Misplaced(
            f"a record of queue {queue_id} offset {offset} is where one of queue {self.queue_id} offset {lowest} or"
            f" more, below {self.stop}, belongs", lowest - 1
        )  # fmt: skip


def _check_crc(stored: MessageExt) -> None:
    found, head = body_crc(stored.body), stored.head
    if found != head.body_crc:
        raise _wrong_crc(head.queue_offset, found, head.body_crc)


def _wrong_crc(offset: int, found: int, stored: int) -> CorruptRecord:
    return CorruptRecord(
        f"record of offset {offset}: the checksum of its body is {found:#010x}, stored is {stored & 0xFFFFFFFF:#010x}"
    )


class _UnusualRecords:
    """Decodes those records of one response that are compressed, inner batches, or in another layout than V1 with IPv4.

    It collects records whose bodies cannot be decoded.
    """

    def __init__(self, rules: BodyRules) -> None:
        self._rules = rules
        self._budget = rules.limits.budget()
        self.undecoded: list[UndecodedRecord] = []
        self.postponed: list[UndecodedRecord] = []

    def decode(self, stored: MessageExt) -> list[MessageExt]:
        """Return the messages of a record; none if it was added to ``undecoded`` or ``postponed`` instead.

        :raises CorruptRecord: the checksum of its body is wrong.
        """
        if self._rules.read and self._rules.check_crc:
            _check_crc(stored)
        if self.postponed:
            self.postpone(stored)
            return []
        is_batch = stored.sys_flag & NEED_UNWRAP
        if not is_batch and not (self._rules.read and self._rules.decompress):
            return [stored if self._rules.read else _without_body(stored)]
        alone = self._budget.limits_next_alone
        try:
            messages = unwrap(_plain(stored, self._budget))
        except DecompressionLimit as e:
            if alone:
                self._budget.spend_attempt()
            (self.undecoded if alone else self.postponed).append(UndecodedRecord(stored, e))
            return []
        except CorruptBody as e:
            self.undecoded.append(UndecodedRecord(stored, e))
            return []
        return messages if self._rules.read else [_without_body(message) for message in messages]

    def postpone(self, stored: MessageExt) -> None:
        """Add a record to ``postponed``. All records after a postponed one are postponed, to keep their order."""
        self.postponed.append(UndecodedRecord(stored, self.postponed[0].error))


def _check(length: int, body: bytes | memoryview, at: int) -> None:
    """Check that the length field of the properties agrees with the record's size.

    :raises CorruptRecord: it does not.
    """
    if at + 2 > len(body) or _U16.unpack_from(body, at)[0] != length or at + 2 + length > len(body):
        raise _disagreeing(at)


def _disagreeing(at: int) -> CorruptRecord:
    return CorruptRecord(f"lengths of a record disagree near byte {at}")


def _stored(buffer: bytes | memoryview, position: int, broker_name: str) -> MessageExt:
    """Decode the record at ``position`` to a message with the body as it is stored.

    :raises CorruptRecord: the record cannot be decoded.
    """
    try:
        return _decode(memoryview(buffer), position, broker_name)
    except (StructError, IndexError, UnicodeDecodeError) as e:
        raise CorruptRecord(f"record at byte {position} of {len(buffer)}: {e}") from e


def _decode(view: memoryview, position: int, broker_name: str) -> MessageExt:
    (sys_flag,) = _I32.unpack_from(view, position + SYS_FLAG_AT)
    layout = head_struct(sys_flag)
    head = layout.unpack_from(view, position)
    magic, body_length = head[1], head[14]
    if magic not in (MAGIC_V1, MAGIC_V2) or body_length < 0 or head[0] < MIN_SIZE:
        raise CorruptRecord(f"no record at byte {position}: magic {magic & 0xFFFFFFFF:#x}, size {head[0]}")
    at = position + layout.size + body_length
    topic_at = at + (1 if magic == MAGIC_V1 else 2)
    topic_end = topic_at + (view[at] if magic == MAGIC_V1 else _U16.unpack_from(view, at)[0])
    end = position + head[0]
    _check(end - topic_end - 2, view, topic_end)
    body = bytes(view[position + layout.size : at])
    topic = bytes(view[topic_at:topic_end]).decode()
    return MessageExt(head, topic, body, bytes(view[topic_end + 2 : end]), broker_name)


def _plain(stored: MessageExt, budget: DecompressionBudget | None) -> MessageExt:
    """Return the message with its body decompressed and the COMPRESSED bit cleared.

    :raises CorruptBody: the body cannot be decompressed, or exceeds the budget.
    """
    head = stored.head
    if not head.sys_flag & COMPRESSED:
        return stored
    body = decompress(stored.body, head.sys_flag, budget)
    return _changed(stored, head._replace(sys_flag=head.sys_flag & ~COMPRESSED), body)


def _without_body(message: MessageExt) -> MessageExt:
    return _changed(message, message.head, b"")


def _changed(message: MessageExt, head: RecordHead, body: bytes) -> MessageExt:
    return MessageExt(tuple(head), message.topic, body, message.raw_properties, message.broker_name)


def unwrap(message: MessageExt) -> list[MessageExt]:
    """Return the messages of an inner batch (a record that contains several messages), or else the message itself.

    :raises CorruptBody: the batch is malformed.
    """
    if not message.sys_flag & NEED_UNWRAP:
        return [message]
    head = message.head
    inner = []
    try:
        base = int(message.properties.get("INNER_BASE", head.queue_offset))
        for i, (flag, body, properties) in enumerate(unwrap_inner_batch(message.body)):
            one = head._replace(
                flag=flag,
                queue_offset=base + i,
                sys_flag=head.sys_flag & ~(NEED_UNWRAP | INNER_BATCH),
                body_length=len(body),
            )
            inner.append(MessageExt(tuple(one), message.topic, body, properties, message.broker_name))
    except (CorruptRecord, ValueError) as e:
        raise CorruptBody(f"an inner batch of {len(message.body)} bytes cannot be unwrapped: {e}") from e
    return inner


def stored_messages(body: bytes, broker_name: str = "") -> list[MessageExt]:
    """Decode all records of a pull body to messages with their bodies as they are stored, which may be compressed.

    The messages of an inner batch are returned one by one.

    :raises CorruptRecord: a record cannot be decoded.
    """
    return [one for at, _ in record_sizes(body) for one in messages_at(body, at, broker_name)]


def messages_at(body: bytes, position: int, broker_name: str = "") -> list[MessageExt]:
    """Decode one record of a pull body, as :func:`stored_messages` does.

    :raises CorruptRecord: it cannot be decoded.
    """
    return unwrap(_stored(body, position, broker_name))


def record_properties(record: bytes) -> bytes:
    """Return the encoded properties of a record, without decoding the rest of it.

    :raises CorruptRecord: the lengths in the record are inconsistent.
    """
    try:
        layout = head_struct(_I32.unpack_from(record, SYS_FLAG_AT)[0])
        body_length: int = _I32.unpack_from(record, layout.size - 4)[0]
        if body_length < 0:
            raise _disagreeing(layout.size - 4)
        at = layout.size + body_length
        is_v1 = _I32.unpack_from(record, 4)[0] == MAGIC_V1
        end = at + (1 + record[at] if is_v1 else 2 + _U16.unpack_from(record, at)[0])
    except (StructError, IndexError) as e:
        raise CorruptRecord(f"record of {len(record)} bytes: {e}") from e
    _check(len(record) - end - 2, record, end)
    return record[end + 2 :]


def record_sizes(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield position and size in bytes of each record of a pull body, without decoding the records.

    :raises CorruptRecord: the size of a record is too small, or exceeds the body.
    """
    position, end = 0, len(body)
    while position < end:
        size = record_size(body, position)
        yield position, size
        position += size


def record_size(body: bytes, position: int) -> int:
    """Return the size in bytes of the record at a position of a pull body.

    :raises CorruptRecord: it is too small, or exceeds the body.
    """
    left = len(body) - position
    if left < MIN_SIZE:
        raise CorruptRecord(f"{left} bytes at the end of a pull body are not a record")
    size: int = _I32.unpack_from(body, position)[0]
    if size < MIN_SIZE or size > left:
        raise CorruptRecord(f"record at byte {position} claims {size} of {left} bytes")
    return size


def pack_host(ip: str, port: int) -> bytes:
    """Pack an IP address and a port as records store them: 8 bytes for IPv4, 20 for IPv6."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    return socket.inet_pton(family, ip.strip("[]").partition("%")[0]) + _I32.pack(port)
