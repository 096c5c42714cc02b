"""Checks the stored checksums of bodies. Optional, since it costs a Python step per message."""

from __future__ import annotations

from struct import Struct, error as StructError

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.spark.decode.layout import Ints
from rocketmq_py.wire.record import SYS_FLAG_AT, body_crc, head_struct

_I32 = Struct(">i")
_CRC, _BODY_LENGTH = 2, -1


def check_crcs(raw: bytes, starts: Ints) -> None:
    """Compare the body of each record, as it is stored, with its checksum.

    :raises CorruptRecord: they differ, or there is no such body.
    """
    view = memoryview(raw)
    try:
        for start in starts.tolist():
            layout = head_struct(_I32.unpack_from(raw, start + SYS_FLAG_AT)[0])
            head = layout.unpack_from(raw, start)
            begin = start + layout.size
            found = body_crc(view[begin : begin + head[_BODY_LENGTH]])
            if found != head[_CRC]:
                raise CorruptRecord(
                    f"record at byte {start} of {len(raw)}: the checksum of its body is {found:#010x}, stored is"
                    f" {head[_CRC]:#010x}"
                )
    except StructError as e:
        raise CorruptRecord(f"record at byte {start} of {len(raw)}: {e}") from e
