"""Answers about many topics, groups or queues, computed and encoded in slices of the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.wire.fastjson import dumps_java


def members(pairs: Iterable[tuple[object, object]]) -> Iterator[bytes]:
    """The members of a JSON object, one by one, in Java's dialect."""
    separator = b""
    for key, value in pairs:
        yield separator + dumps_java({key: value})[1:-1]
        separator = b","


def items(values: Iterable[object]) -> Iterator[bytes]:
    """The items of a JSON array, one by one, in Java's dialect."""
    separator = b""
    for value in values:
        yield separator + dumps_java(value)
        separator = b","


async def assemble(slices: SlicedWork, *parts: bytes | Iterator[bytes]) -> bytes:
    """A body from parts; iterators are advanced in slices."""
    return b"".join(await slices.run(_pieces(parts)))


def _pieces(parts: Iterable[bytes | Iterator[bytes]]) -> Iterator[bytes]:
    for part in parts:
        if isinstance(part, bytes):
            yield part
        else:
            yield from part
