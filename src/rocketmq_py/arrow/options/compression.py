"""Compression of the bodies that a sink sends."""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.sys_flag import COMPRESSED
from rocketmq_py.wire.compression import TYPE_SHIFT, CompressionType, compress, decompress

COMPRESS_OVER = 4096
"""Bodies of fewer bytes are not compressed by default, as by Java's producer."""


class BodyCompression(NamedTuple):
    """How a sink compresses bodies.

    :ivar over: bodies of fewer bytes are sent as they are.
    """

    kind: CompressionType
    over: int = COMPRESS_OVER

    @property
    def sys_flag(self) -> int:
        """The bits of the sysFlag that tell consumers how a body is compressed."""
        return COMPRESSED | self.kind << TYPE_SHIFT

    def compressed(self, body: bytes) -> bytes:
        """Return a compressed body."""
        return compress(body, self.kind)


def plain(body: bytes, sys_flag: int) -> bytes:
    """Return a body as it was before :meth:`BodyCompression.compressed`, if ``sys_flag`` says that it is compressed."""
    return decompress(body, sys_flag) if sys_flag & COMPRESSED else body


def compression_type(text: str) -> CompressionType | None:
    """Parse ``zlib``, ``lz4``, ``zstd`` or ``none``; check that the package for it is installed.

    :raises ConfigError: it is another word, or the package is missing.
    """
    name = text.strip().upper()
    if name == "NONE":
        return None
    if name not in CompressionType.__members__:
        raise ConfigError("zlib, lz4, zstd or none is expected")
    compress(b"", CompressionType[name])
    return CompressionType[name]
