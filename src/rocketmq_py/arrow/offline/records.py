"""Records of a queue, located by its consume queue entries in bytes of the log, for many at once with NumPy. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.arrow.decode.layout import windows
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.wire.record import MAGIC_V1, MAGIC_V2, MIN_SIZE, PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT

ENTRY = np.dtype([("physical", ">i8"), ("size", ">i4"), ("code", ">i8")])
_HEAD = np.dtype(
    {
        "names": ["size", "magic", "queueId", "queueOffset", "physical"],
        "formats": [">i4", ">i4", ">i4", ">i8", ">i8"],
        "offsets": [0, 4, QUEUE_ID_AT, QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT],
        "itemsize": PHYSICAL_OFFSET_AT + 8,
    }
)
_MOST_GAP = 32 * 1024
"""Bytes of other queues between two records that are read with them: one read costs as much as copying these."""
_MOST_SPAN = 2 * 1024 * 1024
"""Bytes of the log that are read at once, unless one record is larger."""
_LEAST_CODE, _MOST_CODE = -(1 << 31), (1 << 31) - 1
"""Tags codes beyond these are not hashes of tags: delivery times, or places in another file."""


class Entries(NamedTuple):
    """Consume queue entries as arrays, with the queue offset of each.

    :ivar physical: offsets in the log.
    """

    offsets: NDArray[np.int64]
    physical: NDArray[np.int64]
    sizes: NDArray[np.int64]
    codes: NDArray[np.int64]

    def only(self, keep: Any) -> Entries:
        """Return the entries that a mask or a slice selects."""
        return Entries(*(column[keep] for column in self))


def entries_of(raw: bytes, first: int) -> Entries:
    """Decode encoded entries, the first of which has queue offset ``first``."""
    found = np.frombuffer(raw, ENTRY, len(raw) // ENTRY.itemsize)
    columns = (found[name].astype(np.int64) for name in ("physical", "size", "code"))
    return Entries(np.arange(first, first + len(found)), *columns)


def is_record(entries: Entries) -> NDArray[np.bool_]:
    """Return which entries can be those of records: blank entries and preallocated ones cannot."""
    return (entries.sizes >= MIN_SIZE) & (entries.sizes < 0x7FFFFFFF) & (entries.physical >= 0)


def has_code(entries: Entries, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which entries have one of these tags codes, or one that is no hash of tags."""
    no_hash = (entries.codes < _LEAST_CODE) | (entries.codes > _MOST_CODE)
    return np.isin(entries.codes, codes) | no_hash


def runs(entries: Entries, file_size: int) -> Iterator[Entries]:
    """Divide entries into parts whose records are read at once: in one file, in order, and near to each other."""
    physical, ends = entries.physical, entries.physical + entries.sizes
    if not len(physical):
        return
    gaps = physical[1:] - ends[:-1]
    apart = (gaps < 0) | (gaps > _MOST_GAP) | (physical[1:] // file_size != physical[:-1] // file_size)
    firsts = np.concatenate(([0], np.flatnonzero(apart) + 1))
    number = np.cumsum(np.concatenate(([0], apart)))
    part = (physical - physical[firsts][number]) // _MOST_SPAN
    cuts = np.flatnonzero(apart | (part[1:] != part[:-1])) + 1
    begin = 0
    for end in (*cuts.tolist(), len(physical)):
        yield entries.only(slice(begin, end))
        begin = end


def joined(data: bytes | memoryview, entries: Entries, accelerator: Accelerator | None) -> bytes:
    """Return the records of a run, one after the other.

    :param data: the bytes of the log from the first record to the last; it may end too early.
    """
    if len(data) == int(entries.sizes.sum()):
        return bytes(data)
    base = int(entries.physical[0])
    if accelerator is not None:
        found = accelerator.gather(data, base, encoded(entries), len(data), None)
        if found is not None and found[0] == len(entries.sizes) and found[3] is not None:
            return found[3]
    places = zip((entries.physical - base).tolist(), entries.sizes.tolist(), strict=True)
    return b"".join([data[at : at + size] for at, size in places])


def encoded(entries: Entries) -> bytes:
    """Return entries as a consume queue has them."""
    raw = np.empty(len(entries.sizes), ENTRY)
    raw["physical"], raw["size"], raw["code"] = entries.physical, entries.sizes, entries.codes
    return raw.tobytes()


def checked_chunks(
    data: bytes | memoryview, entries: Entries, queue_id: int, accelerator: Accelerator | None
) -> list[FetchedChunk]:
    """Return the records of a run as :func:`chunks_of` does, with compiled code if it is installed.

    :param data: the bytes of the log from the first record to the last; it may end too early.
    """
    found = gathered(data, entries, queue_id, accelerator)
    return chunks_of(joined(data, entries, accelerator), entries, queue_id) if found is None else [found]


def gathered(
    data: bytes | memoryview, entries: Entries, queue_id: int, accelerator: Accelerator | None
) -> FetchedChunk | None:
    """Return records whose offsets follow each other, if all are those of their entries and ascend in the log.

    :param data: the bytes of the log from the first record to the last; it may end too early.
    :returns: None also if nothing is compiled.
    """
    first, count = int(entries.offsets[0]), len(entries.offsets)
    stop = int(entries.offsets[-1]) + 1
    if accelerator is None or stop - first != count or len(data) < MIN_SIZE:
        return None
    magic = int.from_bytes(data[4:8], "big", signed=True)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return None
    expected = (magic, queue_id, first)
    found = accelerator.gather(data, int(entries.physical[0]), encoded(entries), len(data), expected)
    if found is None or found[0] != count:
        return None
    return FetchedChunk(bytes(data[found[1] : found[2]]) if found[3] is None else found[3], first, stop)


def chunks_of(body: bytes, entries: Entries, queue_id: int) -> list[FetchedChunk]:
    """Return the records of a run in the order of offsets; a record that is not the one of its entry is damaged.

    :param body: what :func:`joined` returned.
    """
    positions = np.cumsum(entries.sizes) - entries.sizes
    if len(body) < int(entries.sizes.sum()):
        offsets = entries.offsets.tolist()
        return [FetchedChunk(b"", offset, offset + 1, is_damaged=True) for offset in offsets]
    heads = windows(np.frombuffer(body, np.uint8), _HEAD.itemsize)[positions].view(_HEAD).ravel()
    whole = (
        (heads["size"] == entries.sizes)
        & ((heads["magic"] == MAGIC_V1) | (heads["magic"] == MAGIC_V2))
        & (heads["queueId"] == queue_id)
        & (heads["queueOffset"] == entries.offsets)
        & (heads["physical"] == entries.physical)
    )
    if whole.all():
        return [FetchedChunk(body, int(entries.offsets[0]), int(entries.offsets[-1]) + 1)]
    ends = (positions + entries.sizes).tolist()
    return [
        FetchedChunk(body[position:end], offset, offset + 1, is_damaged=not fine)
        for position, end, offset, fine in zip(
            positions.tolist(), ends, entries.offsets.tolist(), whole.tolist(), strict=True
        )
    ]
