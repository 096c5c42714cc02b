"""Compressed message bodies: zlib from the standard library, LZ4 (frame format) and zstd from optional packages.

Bits 8-10 of the sysFlag are the compression type: 0 and 3 zlib, 1 LZ4, 2 zstd.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from rocketmq_py.errors import ConfigError, CorruptBody, DecompressionLimit

TYPE_SHIFT = 8
TYPE_MASK = 0x7 << TYPE_SHIFT
_PIECE = 512
"""Number of compressed bytes passed to zstd at a time; they decompress to at most 16 MiB."""

MIB = 1024 * 1024


class CompressionType(enum.IntEnum):
    """Compression type of a message body, numbered as in the sysFlag."""

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


class DecompressionLimits(NamedTuple):
    """Limits for the size of decompressed bodies, because a small compressed body may expand to gigabytes.

    :param max_body: maximum bytes of one decompressed body.
    :param max_total: maximum bytes of all decompressed bodies of one response together.
    """

    max_body: int = 128 * MIB
    max_total: int = 256 * MIB

    def check(self) -> DecompressionLimits:
        """Return ``self``, after checking the values.

        :raises ConfigError: a limit is below 1.
        """
        for name, limit in self._asdict().items():
            if limit < 1:
                raise ConfigError(f"{name}={limit} allows no compressed body: at least 1 byte is expected")
        return self

    def budget(self) -> DecompressionBudget:
        """Return a new budget with these limits, for decompressing the bodies of one response."""
        return DecompressionBudget(self)


class DecompressionBudget:
    """Number of bytes to which the remaining compressed bodies of one response may decompress.

    :param limits: limits of one body and of all bodies together.
    """

    __slots__ = ("left", "limits")

    def __init__(self, limits: DecompressionLimits) -> None:
        self.limits = limits
        self.left = limits.max_total

    @property
    def for_next(self) -> int:
        """Maximum bytes of the next body after decompression."""
        return min(self.limits.max_body, self.left)

    @property
    def limits_next_alone(self) -> bool:
        """True if the bodies decompressed so far do not reduce the limit of the next body.

        If the next body then exceeds its limit, it would do so in any other response, too.
        """
        return self.left >= self.limits.max_body or self.left == self.limits.max_total

    def spend(self, size: int) -> None:
        """Subtract the size of a decompressed body from the budget."""
        self.left -= size

    def spend_attempt(self) -> None:
        """Subtract ``max_body`` for a body that exceeds it, since decompressing it took that much work."""
        self.left = max(0, self.left - self.limits.max_body)

    def exceeded(self, size: int) -> DecompressionLimit:
        """Return the error for a body that decompresses to more than :attr:`for_next` bytes.

        :param size: bytes of the compressed body.
        """
        max_body, max_total = self.limits
        if self.left >= max_body:
            return DecompressionLimit(
                f"a body of {size} bytes decompresses to more than {max_body} bytes, the limit of one body "
                "(max_decompressed_body; Spark: maxDecompressedBody)"
            )
        return DecompressionLimit(
            f"the bodies of one response decompress to more than {max_total} bytes, their limit together "
            "(max_decompressed_pull); ask for fewer messages at a time"
        )


DEFAULT_LIMITS = DecompressionLimits()


def decompress(body: bytes, sys_flag: int, budget: DecompressionBudget | None = None) -> bytes:
    """Decompress the body of a stored message.

    :param sys_flag: the message's sysFlag, which contains the compression type.
    :param budget: budget of the response, from which the size is subtracted; None applies the default limit of one
        body.
    :raises DecompressionLimit: the body decompresses to more bytes than the budget allows.
    :raises CorruptBody: the body does not decompress, or its compression type is unknown.
    :raises ConfigError: the package for its type is not installed.
    """
    kind = (sys_flag & TYPE_MASK) >> TYPE_SHIFT
    inflate = _INFLATE.get(kind)
    if inflate is None:
        raise CorruptBody(f"unknown compression type {kind}; known are 0 and 3 (zlib), 1 (LZ4), 2 (zstd)")
    budget = budget or DEFAULT_LIMITS.budget()
    try:
        plain = inflate(body, budget.for_next)
    except ConfigError:
        raise
    except _TooLarge:
        raise budget.exceeded(len(body)) from None
    except Exception as e:  # each compression library raises another error class
        raise CorruptBody(f"a body of {len(body)} bytes does not decompress: {e}") from e
    budget.spend(len(plain))
    return plain


class _TooLarge(Exception):
    """A body decompresses to more bytes than its limit."""


def _inflate_zlib(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    return _whole(inflater.decompress(body, limit + 1), limit, inflater.eof)


def _inflate_lz4(body: bytes, limit: int) -> bytes:
    inflater = _package("lz4.frame").LZ4FrameDecompressor()
    return _whole(bytes(inflater.decompress(body, limit + 1)), limit, inflater.eof)


def _inflate_zstd(body: bytes, limit: int) -> bytes:
    # The one-shot call needs the content size, which Java's stream writer leaves out; so a decompressobj is used. It
    # has no size limit, so the body is passed in small parts and the size is checked after each.
    inflater = _package("zstandard").ZstdDecompressor().decompressobj()
    plain = bytearray()
    for at in range(0, len(body), _PIECE):
        plain += inflater.decompress(body[at : at + _PIECE])
        if inflater.eof or len(plain) > limit:
            break
    return _whole(plain, limit, inflater.eof)


def _whole(plain: bytes | bytearray, limit: int, ended: bool) -> bytes:
    """Return a decompressed body.

    :raises _TooLarge: it is longer than ``limit``. :raises ValueError: the compressed stream is incomplete.
    """
    if len(plain) > limit:
        raise _TooLarge
    if not ended:
        raise ValueError("the stream does not end")
    return bytes(plain)


_INFLATE: dict[int, Callable[[bytes, int], bytes]] = {
    0: _inflate_zlib,
    1: _inflate_lz4,
    2: _inflate_zstd,
    3: _inflate_zlib,
}


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as e:
        raise ConfigError(
            f"a body compressed by {name.partition('.')[0]} needs that package: pip install 'rocketmq-py[compression]'"
        ) from e
