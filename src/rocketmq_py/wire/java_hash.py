"""Java's ``String.hashCode``: tag codes, index keys and heartbeat fingerprints depend on it."""

from __future__ import annotations

from functools import lru_cache


def string_hash(text: str) -> int:
    """The 32-bit signed hash of ``text`` over its UTF-16 code units."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(raw), 2):
            value = (31 * value + (raw[i] << 8 | raw[i + 1])) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


@lru_cache(maxsize=4096)
def tags_code(tags: str | None) -> int:
    """The code a consume queue holds for a message's tags: their hash, 0 for none.

    Cached, since a topic has few tags and every message needs one.
    """
    return string_hash(tags) if tags else 0


def index_hash(key: str) -> int:
    """The non-negative hash an index file files ``topic#key`` under (IndexFile.indexKeyHashMethod)."""
    value = abs(string_hash(key))
    return value if value <= 0x7FFFFFFF else 0
