"""Which pages of a mapped file are in main memory: one question to Linux about any number of pages.

It is answered without reading the pages, so that it takes as long for what is between the records of a read as for the
records. Where the platform has no such question, files are asked by reading.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable

_AT_ONCE = 4096
"""Number of pages that one call asks about."""


def _mincore() -> Callable[[int, int, object], int] | None:
    """Return the C library's ``mincore``; None on platforms other than Linux.

    Others have it too, with other meanings of its answer.
    """
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        # Not CDLL, which would release the GIL and may wait for it afterwards: the call takes some microseconds.
        function = ctypes.PyDLL(None).mincore
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return function


def _buffer() -> tuple[bytearray, object]:
    """Return the bytes of an answer, one for each page, and the same bytes as an argument of a C function."""
    import ctypes

    pages = bytearray(_AT_ONCE)
    return pages, (ctypes.c_char * _AT_ONCE).from_buffer(pages)


_ask = _mincore()
CAN_TELL = _ask is not None
_pages, _argument = _buffer() if CAN_TELL else (bytearray(), None)


def address_of(mapped: mmap.mmap) -> int:
    """Return the address at which a file is mapped; it is valid until the mapping is closed."""
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))


def are_resident(address: int, length: int) -> bool | None:
    """Return whether mapped bytes are in main memory; None if the system does not answer.

    Called from one thread.

    :param address: that of the first byte; :param length: at least 1.
    """
    assert _ask is not None
    end, size = address + length, mmap.PAGESIZE
    address -= address % size
    while address < end:
        count = min(-(-(end - address) // size), _AT_ONCE)
        if _ask(address, count * size, _argument):
            return None
        if _pages.find(0, 0, count) >= 0:  # of each byte Linux sets only the lowest bit
            return False
        address += count * size
    return True
