"""Which of the two generations of a configuration file is used at a start.

A save writes the same content twice, as ``NAME`` and as ``NAME.bak``, and its checksum to ``NAME.sum``. Java brokers do
not know the checksum: they read ``NAME``, and ``NAME.bak`` (in which they keep the previous content) if it is empty or
missing. A file that another program has written since is recognized by its time of modification and used unchecked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple
from zlib import crc32

_BLOCK = 64
"""Bytes that are taken together from one of two damaged generations."""
_MOST_PARTS = 6
"""Maximum number of damaged parts: each combination of their sources is tried."""


class Checksum(NamedTuple):
    """Checksum of the content saved last.

    :ivar modified_ms: time of modification of ``NAME`` after the save, in milliseconds since the epoch.
    :ivar journals: ends of the names of the journals with changes made after the save: ``journal``, ``journal2``.
    """

    crc: int
    size: int
    modified_ms: int
    journals: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: bytes, modified_ms: int) -> Checksum:
        """The checksum of a content."""
        return cls(crc32(data), len(data), modified_ms)

    @classmethod
    def parse(cls, text: bytes | None) -> Checksum | None:
        """Read a checksum file; None if it is missing or damaged."""
        parts = (text or b"").split()
        try:
            crc, size, modified_ms = int(parts[0], 16), int(parts[1]), int(parts[2])
        except (IndexError, ValueError):
            return None
        return cls(crc, size, modified_ms, tuple(part.decode("ascii", "replace") for part in parts[3:]))

    def encode(self) -> bytes:
        """The content of the checksum file."""
        return (
            f"{self.crc:08x} {self.size} {self.modified_ms}{''.join(f' {name}' for name in self.journals)}\n".encode()
        )

    def fits(self, data: bytes | bytearray | None) -> bool:
        """True if ``data`` is the content that was saved."""
        return data is not None and len(data) == self.size and crc32(data) == self.crc


@dataclass(frozen=True)
class Generations:
    """What is on disk of one configuration file.

    :ivar main: the file's content, None if it is missing; ``backup`` that of its backup.
    :ivar modified_ms: time of modification of the file.
    """

    main: bytes | None
    backup: bytes | None
    checksum: Checksum | None
    modified_ms: int

    @property
    def is_new(self) -> bool:
        """True if there is nothing at all."""
        return self.main is None and self.backup is None and self.checksum is None

    @property
    def is_rewritten(self) -> bool:
        """True if another program may have written the file since it was saved: its checksum does not apply."""
        return self.checksum is None or self.modified_ms != self.checksum.modified_ms

    @property
    def main_fault(self) -> str | None:
        """What is wrong with the file as far as can be told without parsing it; None if nothing."""
        if self.main is None:
            return "is missing"
        if is_blank(self.main):
            return "is empty"
        if self.is_rewritten or self.is_saved(self.main):
            return None
        return "has a wrong checksum"

    @property
    def is_backup_first(self) -> bool:
        """True if the file is damaged and the backup is what was saved last."""
        return self.main_fault is not None and self.is_saved(self.backup)

    def is_saved(self, data: bytes | None) -> bool:
        """True if ``data`` is what was saved last."""
        return self.checksum is not None and self.checksum.fits(data)

    def merged(self) -> bytes | None:
        """What was saved last, put together from both generations, if each is damaged in another place; else None."""
        if not self.main or not self.backup or self.checksum is None or self.is_saved(self.main):
            return None
        parts = _differing(self.main, self.backup, self.checksum.size)
        if not 0 < len(parts) <= _MOST_PARTS:
            return None
        content = bytearray(self.main[: self.checksum.size].ljust(self.checksum.size, b"\0"))
        for sources in product((self.main, self.backup), repeat=len(parts)):
            for (begin, end), source in zip(parts, sources, strict=True):
                content[begin:end] = source[begin:end].ljust(end - begin, b"\0")
            if self.checksum.fits(content):
                return bytes(content)
        return None


def _differing(one: bytes, other: bytes, size: int) -> list[tuple[int, int]]:
    """Begins and ends of the parts in which two contents differ, in blocks."""
    parts: list[tuple[int, int]] = []
    for at in range(0, size, _BLOCK):
        if one[at : at + _BLOCK] != other[at : at + _BLOCK]:
            begin = parts.pop()[0] if parts and parts[-1][1] == at else at
            parts.append((begin, min(at + _BLOCK, size)))
    return parts


def is_blank(data: bytes | None) -> bool:
    """True if a content is missing, or has only white space or zeros."""
    return not data or not data.strip(b" \t\r\n\0")
