"""Find out whether a process has locked a file, without taking a lock, so that nobody who wants one is disturbed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from struct import Struct

if sys.platform == "linux":
    import fcntl

_FLOCK = Struct("hhqqi4x")
"""``struct flock`` of Linux with 64 bits: type, whence, start, length, process."""
_LOCKS = Path("/proc/locks")


def is_locked(path: Path) -> bool | None:
    """Return True if a process, maybe this one, has locked the file at ``path``; None if that cannot be found out.

    Locks of other containers are found, too, unless they are on the whole open file only (``flock``).
    """
    try:
        inode = path.stat().st_ino
    except FileNotFoundError:
        return False
    if sys.platform != "linux":
        return None
    try:
        listed = _LOCKS.read_text()
    except OSError:
        return None
    # Device numbers differ between stat() and this list on some file systems.
    if any(line.split(" -> ")[-1].split()[-3].rpartition(":")[2] == str(inode) for line in listed.splitlines()):
        return True
    # Closing a file releases all record locks of its process. This process has none here: the list would have it.
    return _is_record_locked(path)


def _is_record_locked(path: Path) -> bool | None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:  # such as a file system without locks
        return None
    finally:
        os.close(fd)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)
