"""Splits a stored record into its parts without decompressing the body, so that it can be stored again unchanged."""

from __future__ import annotations

from struct import Struct, error as StructError
from typing import NamedTuple

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import RecordHead
from rocketmq_py.wire.record import MAGIC_V1, MAGIC_V2, SYS_FLAG_AT, head_struct

_sys_flag = Struct(">i").unpack_from
_record_head = tuple.__new__
"""As RecordHead._make without its length check, for speed: very many records may be read at once."""


class StoredRecord(NamedTuple):
    """The parts of a record; the sysFlag of the head tells whether the body is compressed."""

    head: RecordHead
    topic: str
    body: bytes
    properties: bytes


def read_stored(raw: bytes) -> StoredRecord:
    """Split one record into its parts.

    :raises CorruptRecord: the bytes are not a record.
    """
    try:
        layout = head_struct(_sys_flag(raw, SYS_FLAG_AT)[0])
        head = _record_head(RecordHead, layout.unpack_from(raw))
        size, magic = layout.size, head.magic
        at = size + head.body_length
        if magic == MAGIC_V1:
            topic_at = at + 1
            topic_end = topic_at + raw[at]
        elif magic == MAGIC_V2:
            topic_at = at + 2
            topic_end = topic_at + int.from_bytes(raw[at:topic_at], "big")
        else:
            raise CorruptRecord(f"magic {magic & 0xFFFFFFFF:#x} is none of a record")
        topic = raw[topic_at:topic_end].decode()
    except (StructError, IndexError, UnicodeDecodeError) as e:
        raise CorruptRecord(f"a record of {len(raw)} bytes cannot be read: {e}") from e
    return StoredRecord(head, topic, raw[size:at], raw[topic_end + 2 :])
