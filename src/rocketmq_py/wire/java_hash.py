"""Java's ``String.hashCode``, the hash behind tag codes, index keys and heartbeat fingerprints."""

from __future__ import annotations

from functools import lru_cache


def string_hash(text: str) -> int:
    """Return the 32-bit signed hash of ``text`` over its UTF-16 code units."""
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
    """Return the tags code that consume queues store for a message: the hash of its tags, 0 without tags.

    Cached, because a topic has few tags and every message needs its code.
    """
    return string_hash(tags) if tags else 0


def index_hash(key: str) -> int:
    """Return the non-negative hash that an index file stores for a key ``topic#key`` (IndexFile.indexKeyHashMethod)."""
    value = abs(string_hash(key))
    return value if value <= 0x7FFFFFFF else 0
