"""Delivering many timed messages at once, column by column.

Messages due at one time mostly come from the same producers: they have equal lengths and the same properties in the
same order. Their records are then built together; the result is the same as that of ``timed_message`` one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rocketmq_py.core.paths import component_fault
from rocketmq_py.core.queue_limits import parse_queue_id
from rocketmq_py.properties import Property
from rocketmq_py.protocol.names import NOT_ALLOWED_TO_SEND, TIMER_TOPIC
from rocketmq_py.protocol.sys_flag import HOSTS_V6
from rocketmq_py.store import MIN_UNIFORM, UniformBatch, uniform_records
from rocketmq_py.store.codec.dispatch_fields import value_span

_TOPIC, _QUEUE_ID = Property.REAL_TOPIC.encode(), Property.REAL_QUEUE_ID.encode()
_VARIED = (_QUEUE_ID, Property.TIMER_DELIVER_MS.encode())
_ENQUEUED, _DEQUEUED = Property.TIMER_ENQUEUE_MS.encode(), Property.TIMER_DEQUEUE_MS.encode()


class Together(NamedTuple):
    """Messages of one queue; ``members`` are their indexes among all messages given."""

    members: list[int]
    batch: UniformBatch


def deliver_together(raws: Sequence[bytes], written_ms: Sequence[int], now_ms: int) -> list[Together] | None:
    """Build the records of timed messages for their real topic, all together.

    :param raws: the stored records of the timer topic.
    :param written_ms: when the entry of each was written, in milliseconds.
    :return: one batch for each queue; None if the messages differ in form, or need to be delivered one by one.
    """
    found = uniform_records(raws, _VARIED) if len(raws) >= MIN_UNIFORM else None
    if found is None or found.topic != TIMER_TOPIC or found.head.sys_flag & HOSTS_V6:
        return None
    shape, text = found.shape, found.shape.properties
    topics, queue_ids = shape.values(_TOPIC), shape.values(_QUEUE_ID)
    topic, written = topics[0].decode("utf-8", "replace"), [b"%d" % ms for ms in written_ms]
    if (
        not text.endswith(b"\x02")
        or value_span(text, _ENQUEUED) is not None
        or value_span(text, _DEQUEUED) is not None
        or not topic
        or topic in NOT_ALLOWED_TO_SEND
        or component_fault(topic) is not None
        or topics.count(topics[0]) != len(topics)
        or any(parse_queue_id(queue_id.decode("latin-1")) is None for queue_id in set(queue_ids))
        or len(set(map(len, written))) != 1
    ):
        return None
    shape = shape.extended(_ENQUEUED + b"\x01", written, b"\x02%b\x01%d\x02" % (_DEQUEUED, now_ms))
    queues: dict[bytes, list[int]] = {}
    for number, queue_id in enumerate(queue_ids):
        queues.setdefault(queue_id, []).append(number)
    head, born = found.head, found.born
    return [
        Together(
            members,
            UniformBatch(
                topic, int(queue_id), shape.only(members), head.sys_flag, reconsume_times=head.reconsume_times,
                born=[born[i] for i in members],
            ),
        )
        for queue_id, members in queues.items()
    ]  # fmt: skip
