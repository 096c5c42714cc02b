"""Message ids: the broker's ids (store address and commit log offset) and the clients' unique keys.

Clock, address and process id are arguments.
"""

from __future__ import annotations

import datetime
import itertools
import socket
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from rocketmq_py.errors import ConfigError


def offset_msg_id(store_host: bytes, physical_offset: int) -> str:
    """Build the broker's id of a message: packed store host (8 or 20 bytes) and commit log offset as upper-case hex."""
    return f"{store_host.hex()}{physical_offset & 0xFFFFFFFFFFFFFFFF:016x}".upper()


def offset_msg_ids(store_host: bytes, physical_offsets: Sequence[int]) -> str:
    """Build the broker's ids of several messages, separated by commas."""
    width, count = len(store_host) + 8, len(physical_offsets)
    parts: list[bytes | int] = [store_host] * (2 * count)
    parts[1::2] = physical_offsets
    return _id_parts(len(store_host), count).pack(*parts).hex(",", width).upper()


@lru_cache(maxsize=64)
def _id_parts(host: int, count: int) -> Struct:
    return Struct(">" + f"{host}sq" * count)


def parse_offset_msg_id(msg_id: str) -> tuple[str, int, int]:
    """Return IP address, port and commit log offset of a broker's message id.

    :raises ConfigError: the id has neither 32 (IPv4) nor 56 (IPv6) hexadecimal digits.
    """
    width = {32: 4, 56: 16}.get(len(msg_id))
    try:
        raw = bytes.fromhex(msg_id) if width else b""
    except ValueError:
        raw = b""
    if not width or not raw:
        raise ConfigError(f"{msg_id!r} is not an offset message id: 32 or 56 hexadecimal digits are expected")
    ip = socket.inet_ntop(socket.AF_INET if width == 4 else socket.AF_INET6, raw[:width])
    return ip, int.from_bytes(raw[width : width + 4], "big"), int.from_bytes(raw[width + 4 :], "big")


def month_start_ms(now_ms: int) -> int:
    """Return the start of the month of ``now_ms`` in local time, in milliseconds since the epoch.

    Unique keys contain the time since then.
    """
    local = datetime.datetime.fromtimestamp(now_ms / 1000).astimezone()
    return int(datetime.datetime(local.year, local.month, 1).astimezone().timestamp() * 1000)


def next_month_start_ms(now_ms: int) -> int:
    """Return the start of the month after that of ``now_ms`` in local time, in milliseconds since the epoch."""
    local = datetime.datetime.fromtimestamp(now_ms / 1000).astimezone()
    year, month = (local.year + 1, 1) if local.month == 12 else (local.year, local.month + 1)
    return int(datetime.datetime(year, month, 1).astimezone().timestamp() * 1000)


_BYTES = tuple(f"{byte:02X}" for byte in range(256))
"""Each byte as hex: formatting a number takes a multiple of the time, and each message needs a key."""


class UniqueKeys:
    """Generator of unique keys like Java's MessageClientIDSetter: 32 hex digits (56 on a host with IPv6 only).

    :param ip: packed address of this host, 4 or 16 bytes.
    :param pid: process id; the low 16 bits are used.
    :param salt: 32 bits that distinguish two generators of one process (Java: the class loader's hash).
    :param start: first value of the 16-bit counter.
    """

    __slots__ = ("_counter", "_epoch", "_epoch_end", "_prefix", "_stem")

    def __init__(self, ip: bytes, pid: int, salt: int, start: int = 0) -> None:
        raw = ip + (pid & 0xFFFF).to_bytes(2, "big") + (salt & 0xFFFFFFFF).to_bytes(4, "big")
        self._prefix = raw.hex().upper()
        self._counter = itertools.count(start)
        self._epoch = self._epoch_end = 0
        self._stem = (-1, "")

    def next(self, now_ms: int) -> str:
        """Return the next key. Thread-safe."""
        at, stem = self._stem
        if at != now_ms:
            stem = self._new_stem(now_ms)
            self._stem = now_ms, stem  # one assignment, so that other threads never see a time with another's stem
        number = next(self._counter)
        return f"{stem}{_BYTES[number >> 8 & 0xFF]}{_BYTES[number & 0xFF]}"

    def reserve(self, now_ms: int, count: int) -> tuple[str, int]:
        """Reserve the next ``count`` keys, at most 65,536; return their common prefix and the number of the first key.

        A key is the prefix and its number as four hex digits; the numbers count up, and 0 follows 0xFFFF. Not
        thread-safe.
        """
        first = next(self._counter)
        self._counter = itertools.count(first + count)
        return self._new_stem(now_ms), first & 0xFFFF

    def _new_stem(self, now_ms: int) -> str:
        if not self._epoch <= now_ms < self._epoch_end:
            self._epoch, self._epoch_end = month_start_ms(now_ms), next_month_start_ms(now_ms)
        return f"{self._prefix}{(now_ms - self._epoch) & 0xFFFFFFFF:08X}"
