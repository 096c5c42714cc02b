"""A stored message of the timer topic: its real topic and delivery time, and its record at delivery.

Very many messages come due at once, so their properties are not decoded: values are searched in the stored text, and
properties added at delivery are appended to it.
"""

from __future__ import annotations

import re

import msgspec

from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.core.paths import component_fault
from rocketmq_py.core.queue_limits import parse_queue_id
from rocketmq_py.core.timer.timers import ASKING
from rocketmq_py.model import RecordHead
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol.names import NOT_ALLOWED_TO_SEND, TIMER_TOPIC
from rocketmq_py.protocol.sys_flag import HOSTS_V6
from rocketmq_py.store import NewRecord
from rocketmq_py.wire.java_hash import tags_code

QUEUE = 0
"""The only queue of the timer topic."""
_END = "\x02"
_TIME_DIGITS = 18


def _start(name: str) -> str:
    return f"{_END}{name}\x01"


_TOPIC, _QUEUE_ID, _OUT = map(_start, (Property.REAL_TOPIC, Property.REAL_QUEUE_ID, Property.TIMER_OUT_MS))
_KEY, _KEYS, _TAGS = map(_start, (Property.UNIQUE_KEY, Property.KEYS, Property.TAGS))
_PLACE = re.compile(f"{_OUT}([0-9]+){_TOPIC}([^{_END}]+){_QUEUE_ID}([0-9]+){_END}")
"""The three properties in the order in which this broker stores them."""
_ADDED = (Property.TIMER_ENQUEUE_MS, Property.TIMER_DEQUEUE_MS)
_HAD = _start(Property.TIMER_ENQUEUE_MS)
_WAITED = (Property.TIMER_OUT_MS, Property.REAL_TOPIC, Property.REAL_QUEUE_ID, *_ADDED)


class TimedMessage(msgspec.Struct, gc=False):
    """A message of the timer topic.

    :ivar text: its properties, with a separator before the first and after the last.
    :ivar out_ms: the slot at which it is delivered, in milliseconds.
    """

    head: RecordHead
    body: bytes
    text: str
    real_topic: str
    real_queue_id: int
    out_ms: int
    unique_key: str

    @property
    def properties(self) -> dict[str, str]:
        return decode_properties(self.text.encode())

    def get(self, name: str) -> str | None:
        """Return the value of a property; None if it is missing."""
        return _value(self.text, _start(name))

    def delivered(self, written_ms: int, now_ms: int) -> NewRecord:
        """Return the record for the real topic; the timer's properties stay in it, as in Java.

        :param written_ms: time at which its timer entry was written, in milliseconds.
        """
        if _HAD in self.text:
            return self._record(self.real_topic, self.real_queue_id, self._with_times(written_ms, now_ms))
        text = f"{self.text}{Property.TIMER_ENQUEUE_MS}\x01{written_ms}\x02{Property.TIMER_DEQUEUE_MS}\x01{now_ms}\x02"
        return self._record(self.real_topic, self.real_queue_id, text[1:])

    def next_round(self, written_ms: int, now_ms: int) -> NewRecord:
        """Return the record to store in the timer topic again, if the delivery time is too far ahead for the wheel.

        :param written_ms: time at which its timer entry was written, in milliseconds.
        """
        properties = self.properties
        rounds = properties.get(Property.TIMER_ROLL_TIMES, "0")
        is_number = rounds.isdecimal() and len(rounds) <= _TIME_DIGITS
        rolls = {Property.TIMER_ROLL_TIMES: str(int(rounds) + 1 if is_number else 1)}
        return self._record(TIMER_TOPIC, QUEUE, self._with_times(written_ms, now_ms, rolls))

    def waiting_elsewhere(self, due_ms: int) -> NewRecord:
        """Return the record for another broker, which delivers it at ``due_ms`` as if a producer had sent it there."""
        properties = self.properties
        for name in (*ASKING, *_WAITED):
            properties.pop(name, None)
        properties[Property.TIMER_DELIVER_MS] = str(due_ms)
        return self._record(self.real_topic, self.real_queue_id, encode(properties))

    def _with_times(self, written_ms: int, now_ms: int, more: dict[str, str] | None = None) -> str:
        times = zip(_ADDED, (str(written_ms), str(now_ms)), strict=True)
        return encode(self.properties | dict(times) | (more or {}))

    def _record(self, topic: str, queue_id: int, properties: str) -> NewRecord:
        head, text = self.head, self.text
        return NewRecord(
            topic, queue_id, self.body, properties.encode(), tags_code(_value(text, _TAGS)),
            head.sys_flag & ~HOSTS_V6, head.flag, head.born_timestamp, head.born_host, head.reconsume_times, 0,
            self.unique_key or None, _value(text, _KEYS),
        )  # fmt: skip


def read_timed(raw: bytes) -> TimedMessage | None:
    """Decode a record of the timer topic; None if it has no valid real topic, queue and delivery time.

    :raises CorruptRecord: the bytes are no record.
    """
    stored = read_stored(raw)
    text = _END + stored.properties.decode("utf-8", "replace")
    if not text.endswith(_END):  # old clients omit the last separator
        text += _END
    place = _PLACE.search(text)
    if place is not None:
        out_ms, topic, queue_id = place.groups()
    else:  # a Java broker stores them in any order
        out_ms, topic, queue_id = (_value(text, start) or "" for start in (_OUT, _TOPIC, _QUEUE_ID))
    number = parse_queue_id(queue_id)
    if not topic or topic in NOT_ALLOWED_TO_SEND or number is None or component_fault(topic) is not None:
        return None
    if not out_ms.isdecimal() or len(out_ms) > _TIME_DIGITS:
        return None
    key = _value(text, _KEY) or ""
    return TimedMessage(stored.head, stored.body, text, topic, number, int(out_ms), key)


def _value(text: str, start: str) -> str | None:
    """Return the value after the first ``start``, which is unique in stored properties; None if missing or empty."""
    at = text.find(start)
    if at < 0:
        return None
    at += len(start)
    return text[at : text.index(_END, at)] or None
