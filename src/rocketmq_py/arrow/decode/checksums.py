"""Check the bodies of many records against their stored checksums."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from rocketmq_py.arrow.decode.layout import Ints
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.wire.record import BORN_HOST_V6, FIXED_SIZE, MIN_SIZE, STORE_HOST_V6, SYS_FLAG_AT

_CRC_AT, _LENGTH_BEFORE_BODY = 8, 4
_V6_MORE = 12
"""Additional bytes of an IPv6 host, compared with an IPv4 host."""
_WORD = np.arange(4)


def check_crcs(raw: bytes, starts: Ints) -> None:
    """Compare the CRC-32 of each record's stored (maybe compressed) body with the record's checksum.

    :param starts: position of each record in ``raw``.
    :raises CorruptRecord: a checksum differs, or a body extends beyond its record.
    """
    data = np.frombuffer(raw, np.uint8)
    ends = np.append(starts[1:], len(raw))
    if len(starts) and int((ends - starts).min()) < MIN_SIZE:
        raise CorruptRecord(f"a record of {len(raw)} bytes is too short")
    flags = _words(data, starts + SYS_FLAG_AT, ">i4")
    begins = starts + FIXED_SIZE + _V6_MORE * ((flags & BORN_HOST_V6 != 0) + 1 * (flags & STORE_HOST_V6 != 0))
    if (begins > ends).any():
        raise CorruptRecord(f"a record of {len(raw)} bytes is too short for its hosts")
    lengths = _words(data, begins - _LENGTH_BEFORE_BODY, ">i4")
    stops = begins + lengths
    if (bad := np.flatnonzero((lengths < 0) | (stops > ends))).size:
        at = int(bad[0])
        raise CorruptRecord(f"record at byte {starts[at]} of {len(raw)}: its body has {lengths[at]} bytes")
    found = np.array([crc32(raw[a:b]) for a, b in zip(begins.tolist(), stops.tolist(), strict=True)], np.int64)
    found &= 0x7FFFFFFF
    stored = _words(data, starts + _CRC_AT, ">u4")
    if (bad := np.flatnonzero(found != stored)).size:
        at = int(bad[0])
        raise CorruptRecord(
            f"record at byte {starts[at]} of {len(raw)}: the checksum of its body is {found[at]:#010x}, stored is"
            f" {stored[at]:#010x}"
        )


def _words(data: Any, places: Ints, kind: str) -> Ints:
    """Return the 4-byte integers, of NumPy type ``kind``, at the byte positions ``places`` of ``data``."""
    found: Ints = data[places[:, None] + _WORD].view(kind).ravel().astype(np.int64)
    return found
