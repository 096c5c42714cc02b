"""Let the C library of a server's process keep freed memory for the next buffers.

By default glibc returns the end of its heap to the kernel as soon as some hundred KiB of it are free. A server
allocates and frees a buffer for every read and every answer, so that the kernel had to clear and map the same pages
again and again: half of the CPU time of pulls of 1024 messages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

_MIB = 1024 * 1024
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of the settings, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h."""

KEPT = 16 * _MIB
"""Free bytes at the end of the heap that are not returned to the kernel."""

LARGEST = 4 * _MIB
"""Smallest size of an allocation that gets a mapping of its own, which is returned to the kernel when it is freed."""

_OWN_SETTINGS = (
    "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES",
)  # fmt: skip
"""Environment variables with which users set glibc's allocator themselves."""

Mallopt = Callable[[int, int], int]


def keep_freed_memory(environment: Mapping[str, str], mallopt: Mallopt | None = None) -> bool:
    """Keep up to :data:`KEPT` bytes of freed memory; return True if that was set.

    Nothing is set if the environment sets the allocator, or if the C library is not glibc.

    :param mallopt: the function of glibc; None looks it up.
    """
    if any(name in environment for name in _OWN_SETTINGS):
        return False
    mallopt = mallopt or _glibc_mallopt()
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))


def _glibc_mallopt() -> Mallopt | None:
    """Return glibc's ``mallopt``; None with another C library."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        found: Mallopt = ctypes.CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):  # musl has no mallopt
        return None
    return found
