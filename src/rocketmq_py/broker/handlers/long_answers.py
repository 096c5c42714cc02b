"""Answers about many topics, groups or queues, computed and encoded in slices of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.fastjson import dumps_java

_AT_ONCE = 200
"""Number of messages whose store times are checked in a turn of the event loop."""


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


async def load_store_times(store: MessageStore, places: Iterable[tuple[str, int, int]]) -> None:
    """Bring the store times of messages into memory, so that reading them does not wait for the disk.

    :param places: topic, queue id and offset of each message; there may be none at an offset.
    :raises OSError: the disk fails.
    """
    rest = iter(places)
    while some := list(islice(rest, _AT_ONCE)):
        await store.loader.run(partial(store.checks.store_times, some))
        await asyncio.sleep(0)


async def assemble(slices: SlicedWork, *parts: bytes | Iterator[bytes]) -> bytes:
    """Join parts to a body; iterators are consumed in slices, so that the event loop serves others in between."""
    return b"".join(await slices.run(_pieces(parts)))


def _pieces(parts: Iterable[bytes | Iterator[bytes]]) -> Iterator[bytes]:
    for part in parts:
        if isinstance(part, bytes):
            yield part
        else:
            yield from part
