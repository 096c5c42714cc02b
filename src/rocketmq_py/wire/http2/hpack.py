"""HPACK (RFC 7541): decoding of header blocks, and encoding without a dynamic table.

The size of everything that a client can make this decoder remember or build is limited: of the dynamic table by
``TABLE_SIZE``, of a decoded header list by ``max_list``.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Protocol

from rocketmq_py.accelerator import HeaderTables, installed
from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.http2.huffman import LENGTHS, decode_huffman

TABLE_SIZE = 4096
"""Maximum size of the dynamic table, HTTP/2's default, of which SETTINGS say nothing else."""

Headers = list[tuple[bytes, bytes]]

_OVERHEAD = 32
"""What RFC 7541 adds to the lengths of name and value for the size of a header."""

_STATIC_TEXT = """:authority
:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204|:status 206
:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate|accept-language
accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|content-disposition
content-encoding|content-language|content-length|content-location|content-range|content-type|cookie|date|etag|expect
expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link|location
max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|set-cookie
strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"""

_STATIC: Headers = [
    (name.encode(), value.encode())
    for name, _, value in (entry.partition(" ") for entry in _STATIC_TEXT.replace("\n", "|").split("|"))
]
_STATIC_COUNT = len(_STATIC)
_MAX_SHIFT = 28
"""Integers of more than four continuation bytes are refused: nothing in a header block is that large."""


class HeaderListTooLarge(Exception):
    """A decoded header list is larger than the limit; the decoder's state is right, only this list is refused."""


class BlockDecoder(Protocol):
    """Decodes the header blocks of one connection, in order."""

    def decode(self, block: bytes) -> Headers:
        """As :meth:`HpackDecoder.decode`."""
        ...


def block_decoder(max_list: int) -> BlockDecoder:
    """Return a decoder for a new connection: a compiled one if the accelerator is installed."""
    tables = _compiled_tables()
    return HpackDecoder(max_list) if tables is None else CompiledHpackDecoder(max_list, tables)


class HpackDecoder:
    """Decodes the header blocks of one connection, in order.

    :param max_list: limit of a decoded header list: lengths of names and values, and 32 for each header.
    """

    __slots__ = ("_dynamic", "_limit", "_max_list", "_size")

    def __init__(self, max_list: int) -> None:
        self._dynamic: deque[tuple[bytes, bytes]] = deque()
        self._size = 0
        self._limit = TABLE_SIZE
        self._max_list = max_list

    def decode(self, block: bytes) -> Headers:
        """Return the headers of a block.

        :raises CorruptFrame: the block is malformed; the connection cannot be used any more.
        :raises HeaderListTooLarge: the list exceeds its limit.
        """
        try:
            return self._decode(block)
        except IndexError:
            raise CorruptFrame("a header block ends within a header") from None

    def _decode(self, block: bytes) -> Headers:
        headers: Headers = []
        size, pos, end = 0, 0, len(block)
        while pos < end:
            first = block[pos]
            if first & 0x80:
                index = first & 0x7F
                pos += 1
                if index == 0x7F:
                    index, pos = _continued(block, pos, 0x7F)
                header = _STATIC[index - 1] if 0 < index <= _STATIC_COUNT else self._entry(index)
            elif first & 0x40:
                header, pos = self._literal(block, pos, 0x3F)
                self._add(header)
            elif first & 0x20:
                if headers:
                    raise CorruptFrame("the size of the header table changes within a header block")
                self._limit, pos = _integer(block, pos, 0x1F)
                if self._limit > TABLE_SIZE:
                    raise CorruptFrame(f"the header table is to have {self._limit} bytes, {TABLE_SIZE} are allowed")
                self._evict(0)
                continue
            else:
                header, pos = self._literal(block, pos, 0x0F)
            size += len(header[0]) + len(header[1]) + _OVERHEAD
            if size <= self._max_list:
                headers.append(header)
        if size > self._max_list:  # decoded to its end, so that the table stays the same as the client's
            raise _too_large(size, self._max_list)
        return headers

    def _entry(self, index: int) -> tuple[bytes, bytes]:
        place = index - _STATIC_COUNT - 1
        if not 0 <= place < len(self._dynamic):
            raise CorruptFrame(f"a header block refers to header {index}, which the table does not have")
        return self._dynamic[place]

    def _literal(self, block: bytes, pos: int, mask: int) -> tuple[tuple[bytes, bytes], int]:
        index = block[pos] & mask
        pos += 1
        if index == mask:
            index, pos = _continued(block, pos, mask)
        if index == 0:
            name, pos = _string(block, pos)
        else:
            name = _STATIC[index - 1][0] if index <= _STATIC_COUNT else self._entry(index)[0]
        value, pos = _string(block, pos)
        return (name, value), pos

    def _add(self, header: tuple[bytes, bytes]) -> None:
        size = len(header[0]) + len(header[1]) + _OVERHEAD
        self._evict(size)
        if size <= self._limit:
            self._dynamic.appendleft(header)
            self._size += size

    def _evict(self, wanted: int) -> None:
        """Remove the oldest headers until there is room for ``wanted`` bytes."""
        while self._dynamic and self._size + wanted > self._limit:
            name, value = self._dynamic.pop()
            self._size -= len(name) + len(value) + _OVERHEAD


class CompiledHpackDecoder:
    """Decodes the header blocks of one connection with the accelerator, as :class:`HpackDecoder` does."""

    __slots__ = ("_decoder", "_max_list")

    def __init__(self, max_list: int, tables: HeaderTables) -> None:
        self._max_list = max_list
        self._decoder = tables.decoder(max_list)

    def decode(self, block: bytes) -> Headers:
        """As :meth:`HpackDecoder.decode`."""
        found = self._decoder.decode(block)
        if type(found) is list:
            return found
        if found is None:
            raise CorruptFrame("a header block is malformed")
        assert isinstance(found, int)
        raise _too_large(found, self._max_list)


@cache
def _compiled_tables() -> HeaderTables | None:
    accelerator = installed()
    return None if accelerator is None else accelerator.HeaderTables(_STATIC, LENGTHS, TABLE_SIZE)


def _too_large(size: int, most: int) -> HeaderListTooLarge:
    return HeaderListTooLarge(f"the request has {size} bytes of headers, {most} are allowed")


def _integer(block: bytes, pos: int, mask: int) -> tuple[int, int]:
    """Decode an integer whose prefix are the bits of ``mask`` of the byte at ``pos``; return it and what follows."""
    value = block[pos] & mask
    return (value, pos + 1) if value < mask else _continued(block, pos + 1, mask)


def _continued(block: bytes, pos: int, value: int) -> tuple[int, int]:
    shift = 0
    while True:
        byte = block[pos]
        pos += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > _MAX_SHIFT:
            raise CorruptFrame("a header block has a number that is too large")


def _string(block: bytes, pos: int) -> tuple[bytes, int]:
    first = block[pos]
    length = first & 0x7F
    pos += 1
    if length == 0x7F:
        length, pos = _continued(block, pos, 0x7F)
    end = pos + length
    if end > len(block):
        raise CorruptFrame("a header block ends within a string")
    return (decode_huffman(block[pos:end]) if first & 0x80 else block[pos:end]), end


def encode_headers(headers: Headers) -> bytes:
    """Return a header block that any decoder reads without a dynamic table, and adds nothing to one."""
    parts = bytearray()
    for header in headers:
        if header in _STATIC:
            parts.append(0x80 | _STATIC.index(header) + 1)
            continue
        name, value = header
        parts += b"\0" + _encode_string(name) + _encode_string(value)
    return bytes(parts)


def _encode_string(text: bytes) -> bytes:
    length = len(text)
    if length < 0x7F:
        return bytes((length,)) + text
    head = bytearray((0x7F,))
    length -= 0x7F
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + text
