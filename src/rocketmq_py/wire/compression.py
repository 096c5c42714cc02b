"""Compressed message bodies: zlib from the standard library, LZ4 (frame format) and zstd from optional packages.

Bits 8-10 of the sysFlag name the type (CompressionType): 0 and 3 zlib, 1 LZ4, 2 zstd.
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
"""Compressed bytes fed to zstd at a time; they decompress to 16 MiB at most."""

MIB = 1024 * 1024


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


class DecompressionLimits(NamedTuple):
    """Limits for decompressed bodies: a small body may stand for gigabytes.

    :param max_body: bytes of one body.
    :param max_total: bytes of all compressed bodies of one response together.
    """

    max_body: int = 128 * MIB
    max_total: int = 256 * MIB

    def check(self) -> DecompressionLimits:
        """Return these limits.

        :raises ConfigError: one of them is below 1.
        """
        for name, limit in self._asdict().items():
            if limit < 1:
                raise ConfigError(f"{name}={limit} allows no compressed body: at least 1 byte is expected")
        return self

    def budget(self) -> DecompressionBudget:
        """Return the budget of one response."""
        return DecompressionBudget(self)


class DecompressionBudget:
    """What the compressed bodies of one response may still take.

    :param limits: of one body, and of all of them.
    """

    __slots__ = ("left", "limits")

    def __init__(self, limits: DecompressionLimits) -> None:
        self.limits = limits
        self.left = limits.max_total

    @property
    def for_next(self) -> int:
        """Bytes that the next body may have."""
        return min(self.limits.max_body, self.left)

    @property
    def limits_next_alone(self) -> bool:
        """True if the next body may have all that a body may have on its own.

        If it is too large then, it is too large in any response.
        """
        return self.left >= self.limits.max_body or self.left == self.limits.max_total

    def spend(self, size: int) -> None:
        """Record the size of a decompressed body."""
        self.left -= size

    def spend_attempt(self) -> None:
        """Record a body that was too large on its own: to find that out took as much work as a body of that size."""
        self.left = max(0, self.left - self.limits.max_body)

    def exceeded(self, size: int) -> DecompressionLimit:
        """Return the error for a body that has more bytes than :attr:`for_next`.

        :param size: of the compressed body.
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
    """Decompress a stored body.

    :param sys_flag: of the record; it names the compression type.
    :param budget: of the response the body came with; None applies the default limit of one body.
    :raises DecompressionLimit: the body has more bytes than it may have.
    :raises CorruptBody: the body does not decompress, or its type is unknown.
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
    except Exception as e:  # each library has an error class of its own
        raise CorruptBody(f"a body of {len(body)} bytes does not decompress: {e}") from e
    budget.spend(len(plain))
    return plain


class _TooLarge(Exception):
    """A body has more bytes than it may have."""


def _inflate_zlib(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    return _whole(inflater.decompress(body, limit + 1), limit, inflater.eof)


def _inflate_lz4(body: bytes, limit: int) -> bytes:
    inflater = _package("lz4.frame").LZ4FrameDecompressor()
    return _whole(bytes(inflater.decompress(body, limit + 1)), limit, inflater.eof)


def _inflate_zstd(body: bytes, limit: int) -> bytes:
    # A decompressobj, because Java's stream writer leaves out the content size that the one-shot call needs. It takes
    # no limit, so it is fed in pieces: a small body must not fill the memory.
    inflater = _package("zstandard").ZstdDecompressor().decompressobj()
    plain = bytearray()
    for at in range(0, len(body), _PIECE):
        plain += inflater.decompress(body[at : at + _PIECE])
        if inflater.eof or len(plain) > limit:
            break
    return _whole(plain, limit, inflater.eof)


def _whole(plain: bytes | bytearray, limit: int, ended: bool) -> bytes:
    """Return ``plain`` if the stream ended within the limit."""
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
