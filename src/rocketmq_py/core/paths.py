"""Checks of names from requests, such as topics and groups, before they are used as names of files and folders.

A name must be exactly one path component on every operating system, so that its path stays directly below its root. The
file system is not accessed.
"""

from __future__ import annotations

import re
from pathlib import Path

from rocketmq_py.errors import NameIllegal

MAX_BYTES = 255
"""Maximum number of UTF-8 bytes of a file name (NAME_MAX of Linux and macOS)."""

_USUAL = re.compile(rf"[%|a-zA-Z0-9_-]{{1,{MAX_BYTES}}}")
"""Matches names of the characters that Java allows for topics and groups: a fast path, since nearly all names match."""
_FAULTS = (
    # Windows drops dots and spaces at the end: "..." and ".. " are ".." there.
    (re.compile(r"\A[ .]*\Z"), "it is empty, or nothing but dots and spaces"),
    (re.compile(r"[/\\]"), "it contains a path separator"),
    (re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"), "it contains a control character"),
    (re.compile(r"\A[a-zA-Z]:"), "it begins with a drive letter"),
    (re.compile(r"[\ud800-\udfff]"), "it cannot be encoded as UTF-8"),
)


def component_fault(name: str) -> str | None:
    """Return why a name cannot be used for a file or folder; None if it can."""
    if _USUAL.fullmatch(name):
        return None
    fault = next((fault for pattern, fault in _FAULTS if pattern.search(name)), None)
    if fault is not None:
        return fault
    size = len(name.encode())
    return f"it has {size} bytes, {MAX_BYTES} are possible" if size > MAX_BYTES else None


def component(name: str) -> str:
    """Check that a name can be used for a file or folder, and return it unchanged.

    :raises NameIllegal: it cannot be used.
    """
    fault = component_fault(name)
    if fault is not None:
        raise NameIllegal(f"{quoted_name(name)} cannot be the name of a file or folder: {fault}")
    return name


def below(root: Path, name: str) -> Path:
    """Return the path of the file or folder ``name`` directly in ``root``.

    :raises NameIllegal: the name cannot be used for a file or folder; its path could leave ``root``.
    """
    return root / component(name)


def quoted_name(name: str) -> str:
    """Return a name in quotes for logs and remarks: with escapes, and cut to 255 characters."""
    return repr(name if len(name) <= MAX_BYTES else f"{name[:MAX_BYTES]}…")
