"""Batches of half messages whose properties differ only in their values: stored together, and committed together.

Half messages that need individual treatment are processed one by one instead, with the same result.
"""

from __future__ import annotations

from rocketmq_py.broker.records.message_properties import PropertyWriter
from rocketmq_py.broker.send.half_messages import QUEUE, real_place
from rocketmq_py.broker.send.send_validation import SendHeader, SendTarget
from rocketmq_py.core.paths import component_fault
from rocketmq_py.core.queue_limits import parse_queue_id
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol import names
from rocketmq_py.protocol.sys_flag import HOSTS_V6, TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketmq_py.store import UniformBatch, UniformMessages, adjacent_records

_OF_TRANSACTION = frozenset({Property.TRANSACTION_PREPARED.encode(), Property.PRODUCER_GROUP.encode()})
"""Properties that must be equal in all messages of a batch."""
_LOOKED_AT = frozenset(
    {Property.CHECK_IMMUNITY_TIME, Property.TRANSACTION_CHECK_TIMES, Property.TRANSACTION_PREPARED_OFFSET,
     Property.DELAY_LEVEL}
)  # fmt: skip
"""Half messages with one of these properties, or one that begins with ``_TIMER``, are committed one by one."""
_TIMER = "TIMER_"


def half_batch(
    shape: UniformMessages, property_writer: PropertyWriter, target: SendTarget, header: SendHeader, born_host: bytes
) -> UniformBatch | None:
    """Build the half messages of a batch, to be stored together; None if they must be stored one by one.

    They must be stored one by one if they have a property, such as a delay level, that the broker acts on for each
    message, if unique keys are missing, or if the messages differ in producer group.

    :param shape: the messages.
    """
    marked = property_writer.write_common(shape.properties.decode("utf-8", "replace"), is_half=True)
    if marked is None or marked.group is None or shape.uniq_keys is None:
        return None
    if not shape.varied.isdisjoint(_OF_TRANSACTION):
        return None
    own = shape.extended(f"{property_writer.suffix}{Property.TRANSACTION_ID}\x01".encode(), shape.uniq_keys, b"\x02")
    flags = header.sys_flag & ~(TRANSACTION_MASK | HOSTS_V6) | target.sys_flag
    return UniformBatch(
        names.HALF_TOPIC, QUEUE, own.extended(real_place(target.topic, target.queue_text)), flags,
        header.born_timestamp, born_host, header.reconsume_times or 0,
    )  # fmt: skip


def real_batch(raw: bytes, places: range, group: str) -> UniformBatch | None:
    """Build the messages to store when a batch of half messages of a producer group is committed.

    :param raw: the adjacent records of the half messages.
    :param places: their offsets in the commit log.
    :return: None if the records are not a uniform batch of this group, or one of them needs individual treatment.
    """
    found = adjacent_records(raw, len(places))
    if found is None or found.topic != names.HALF_TOPIC or found.head.physical_offset != places.start:
        return None
    properties = decode_properties(found.shape.properties)
    if properties.get(Property.PRODUCER_GROUP) != group or not found.shape.varied.isdisjoint(_OF_TRANSACTION):
        return None
    if not _LOOKED_AT.isdisjoint(properties) or any(name.startswith(_TIMER) for name in properties):
        return None
    topic, queue_id = properties.get(Property.REAL_TOPIC, ""), properties.get(Property.REAL_QUEUE_ID, "")
    number = parse_queue_id(queue_id)
    if number is None or component_fault(topic) is not None:
        return None
    shape = found.shape.shortened(real_place(topic, queue_id))
    if shape is None:
        return None
    head = found.head
    flags = head.sys_flag & ~(TRANSACTION_MASK | HOSTS_V6) | TRANSACTION_COMMIT
    return UniformBatch(topic, number, shape, flags, head.born_timestamp, head.born_host, head.reconsume_times, places)
