"""Answers about many topics, groups or queues, computed and encoded in slices of the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.wire.fastjson import dumps_java


def members(pairs: Iterable[tuple[object, object]]) -> Iterator[bytes]:
    """Encode the members of a JSON object one by one in Java's dialect, with commas and without the braces."""
    separator = b""
    for key, value in pairs:
        yield separator + dumps_java({key: value})[1:-1]
        separator = b","


def items(values: Iterable[object]) -> Iterator[bytes]:
    """Encode the items of a JSON array one by one in Java's dialect, with commas and without the brackets."""
    separator = b""
    for value in values:
        yield separator + dumps_java(value)
        separator = b","


async def assemble(slices: SlicedWork, *parts: bytes | Iterator[bytes]) -> bytes:
    """Join parts to a body; iterators are consumed in slices, so that the event loop serves others in between."""
    return b"".join(await slices.run(_pieces(parts)))


def _pieces(parts: Iterable[bytes | Iterator[bytes]]) -> Iterator[bytes]:
    for part in parts:
        if isinstance(part, bytes):
            yield part
        else:
            yield from part
