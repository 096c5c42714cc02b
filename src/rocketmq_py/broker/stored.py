"""A stored record taken apart without touching its body: what is stored again elsewhere must stay as it was sent."""

from __future__ import annotations

from struct import error as StructError
from typing import NamedTuple

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import RecordHead
from rocketmq_py.wire.record import MAGIC_V1, MAGIC_V2, SYS_FLAG_AT, head_struct


class Stored(NamedTuple):
    """The parts of a record; the body may be compressed, as the head's sysFlag says."""

    head: RecordHead
    topic: str
    body: bytes
    properties: bytes


def read_stored(raw: bytes) -> Stored:
    """The parts of one record.

    :raises CorruptRecord: the bytes are none.
    """
    try:
        layout = head_struct(int.from_bytes(raw[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big"))
        head = RecordHead._make(layout.unpack_from(raw))
        if head.magic not in (MAGIC_V1, MAGIC_V2):
            raise CorruptRecord(f"magic {head.magic & 0xFFFFFFFF:#x} is none of a record")
        at = layout.size + head.body_length
        width = 1 if head.magic == MAGIC_V1 else 2
        topic_end = at + width + int.from_bytes(raw[at : at + width], "big")
        topic = raw[at + width : topic_end].decode()
    except (StructError, UnicodeDecodeError) as e:
        raise CorruptRecord(f"a record of {len(raw)} bytes cannot be read: {e}") from e
    return Stored(head, topic, raw[layout.size : at], raw[topic_end + 2 :])
