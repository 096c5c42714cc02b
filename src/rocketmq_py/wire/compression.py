"""Compressed message bodies: zlib from the standard library, LZ4 (frame format) and zstd from optional packages.

Bits 8-10 of the sysFlag name the type (CompressionType): 0 and 3 zlib, 1 LZ4, 2 zstd.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from rocketmq_py.errors import ConfigError, CorruptRecord

TYPE_SHIFT = 8
TYPE_MASK = 0x7 << TYPE_SHIFT
_MAX_BODY = 256 * 1024 * 1024
_PIECE = 4096


class CompressionType(enum.IntEnum):
    """Compression of a body, numbered as in the sysFlag."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def compress(body: bytes, kind: CompressionType = CompressionType.ZLIB, level: int = 5) -> bytes:
    """Compress a body.

    :param level: 1 (fast) to 9 (small); Java's default is 5.
    :raises ConfigError: the package for this type is not installed.
    """
    if kind is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if kind is CompressionType.LZ4:
        return bytes(_package("lz4.frame").compress(body, compression_level=level))
    return bytes(_package("zstandard").ZstdCompressor(level=level).compress(body))


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Decompress a stored body.

    :param sys_flag: of the record; it names the compression type.
    :raises CorruptRecord: the body does not decompress, or its type is unknown.
    :raises ConfigError: the package for its type is not installed.
    """
    kind = (sys_flag & TYPE_MASK) >> TYPE_SHIFT
    inflate = _INFLATE.get(kind)
    if inflate is None:
        raise CorruptRecord(f"unknown compression type {kind}; known are 0 and 3 (zlib), 1 (LZ4), 2 (zstd)")
    try:
        return inflate(body)
    except ConfigError:
        raise
    except Exception as e:  # each library has an error class of its own
        raise CorruptRecord(f"a body of {len(body)} bytes does not decompress: {e}") from e


def _inflate_zlib(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    return _whole(inflater.decompress(body, _MAX_BODY), inflater.eof)


def _inflate_lz4(body: bytes) -> bytes:
    inflater = _package("lz4.frame").LZ4FrameDecompressor()
    return _whole(bytes(inflater.decompress(body, _MAX_BODY)), inflater.eof)


def _inflate_zstd(body: bytes) -> bytes:
    # A decompressobj, because Java's stream writer leaves out the content size that the one-shot call needs. It takes
    # no limit, so it is fed in pieces: a small body must not fill the memory.
    inflater = _package("zstandard").ZstdDecompressor().decompressobj()
    plain = bytearray()
    for at in range(0, len(body), _PIECE):
        plain += inflater.decompress(body[at : at + _PIECE])
        if inflater.eof or len(plain) > _MAX_BODY:
            break
    return _whole(bytes(plain), inflater.eof)


def _whole(plain: bytes, ended: bool) -> bytes:
    """Return ``plain`` if the stream ended within the limit."""
    if len(plain) > _MAX_BODY or (len(plain) == _MAX_BODY and not ended):
        raise ValueError(f"more than {_MAX_BODY} bytes")
    if not ended:
        raise ValueError("the stream does not end")
    return plain


_INFLATE: dict[int, Callable[[bytes], bytes]] = {0: _inflate_zlib, 1: _inflate_lz4, 2: _inflate_zstd, 3: _inflate_zlib}


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as e:
        raise ConfigError(
            f"a body compressed by {name.partition('.')[0]} needs that package: pip install 'rocketmq-py[compression]'"
        ) from e
