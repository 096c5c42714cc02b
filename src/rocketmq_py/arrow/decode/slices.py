"""Copy many small slices of one buffer into an Arrow array, without a Python object per slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_py.arrow.decode.arrays import fixed
from rocketmq_py.arrow.decode.layout import Bytes, Ints


def gather(data: Bytes, starts: Ints, lengths: Ints, kind: Any) -> Any:
    """Return the slices ``data[start : start + length]`` as an Arrow array of type ``kind`` (string or binary).

    The slices must ascend and not overlap. The buffer is viewed as an Arrow array of slices and the gaps between them;
    ``take`` then copies every other element in C, three times as fast as a NumPy index of bytes.
    """
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    np.add(starts, lengths, out=offsets[1::2], casting="unsafe")
    offsets[-1] = offsets[-2] if count else 0
    spans = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return spans.take(fixed(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32()))


def as_kind(array: Any, kind: Any) -> Any:
    """Return ``array`` viewed as Arrow type ``kind``: bodies become strings without a UTF-8 check, as Spark casts."""
    return array if array.type == kind else array.view(kind)


def having(batch: Any, tags: Any, wanted: Any) -> Any | None:
    """Return the rows of ``batch`` whose tag is one of ``wanted``; None if there are none.

    Needed after the broker's filter, since brokers compare hashes of tags, which may collide.

    :param tags: the tag of each row.
    """
    keep = pc.is_in(tags, value_set=wanted)
    if pc.all(keep).as_py():
        return batch
    kept = batch.filter(keep)
    return kept if kept.num_rows else None
