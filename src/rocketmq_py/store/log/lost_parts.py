"""Parts of the commit log that are not on disk: missing, cut and emptied files, found by names and sizes.

A broker does not start with such a log, because a file that is put back later could not be used any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class LostPart(NamedTuple):
    """Offsets ``begin`` to ``end`` of the commit log are not on disk; ``what`` says why.

    :ivar is_empty_file: whether it is an empty file that nothing follows, which may never have had a message.
    """

    begin: int
    end: int
    what: str
    is_empty_file: bool = False


def written_size(sizes: Mapping[int, int], file_size: int) -> int | None:
    """The size with which the files were written if it is not ``file_size``; None if it is, or is not certain.

    :param sizes: size of each file by its start offset.
    :param file_size: the configured size.
    """
    usual, count = Counter(size for size in sizes.values() if size).most_common(1)[0] if any(sizes.values()) else (0, 0)
    if not usual or usual == file_size or file_size in sizes.values():
        return None
    fits = all(start % usual == 0 for start in sizes)
    is_only = len(sizes) == 1 and (usual > file_size or usual % 4096 == 0)
    return usual if fits and (count > 1 or is_only) else None


def lost_parts(sizes: Mapping[int, int], file_size: int, *, was_closed: bool) -> list[LostPart]:
    """Find the missing, cut and emptied files of a log whose files have ``file_size`` bytes.

    :param sizes: size of each file by its start offset.
    :param was_closed: whether the store was closed cleanly; otherwise the last file can be empty, because the broker
        had just created it.
    """
    parts: list[LostPart] = []
    following = min(sizes, default=0)
    for start in sorted(sizes):
        size, end = sizes[start], start + file_size
        if start > following:
            parts.append(LostPart(following, start, f"missing from {following} to {start}"))
        if size == 0 and (was_closed or start != max(sizes)):
            is_last = not any(sizes[other] for other in sizes if other > start)
            parts.append(LostPart(start, end, f"the file at {start} is empty", is_empty_file=is_last))
        elif 0 < size < file_size:
            parts.append(LostPart(start + size, end, f"the file at {start} is cut short at {start + size}"))
        elif size > file_size:
            parts.append(LostPart(end, end, f"the file at {start} has {size - file_size} bytes too many"))
        following = end
    return parts
