"""Option ``storePath``: the store directories that are read without a broker. No IO."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import NamedTuple

from rocketmq_py.errors import ConfigError

_NAMED = re.compile(r"([A-Za-z0-9_.|%-]+)=(.*)", re.DOTALL)


class StoreDirectory(NamedTuple):
    """A store directory of a read.

    :ivar name: the value of column ``brokerName``, which a store does not contain.
    :ivar root: the directory (``storePathRootDir``).
    :ivar commit_log: directory of its commit log if that is elsewhere (``storePathCommitLog``).
    """

    name: str
    root: str
    commit_log: str | None = None


def store_directories(text: str) -> tuple[StoreDirectory, ...]:
    """Parse directories ``[NAME=]PATH``, separated by ``;``; without a name, the last part of the path is it.

    :raises ConfigError: there is none, or two have the same name.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        named = _NAMED.fullmatch(part)
        name, root = named.groups() if named else (PurePath(part).name, part)
        found.append(StoreDirectory(name, root.strip()))
    return checked(found)


def checked(found: Iterable[StoreDirectory]) -> tuple[StoreDirectory, ...]:
    """Return store directories as a tuple.

    :raises ConfigError: there is none, one has no name or path, is not local, or two have the same name.
    """
    places = tuple(found)
    if not places:
        raise ConfigError("the directory of a store is expected")
    for place in places:
        if not place.name or not place.root:
            raise ConfigError(f"{place.root or place.name!r} is no [NAME=]PATH of a store directory")
        if re.match(r"[a-z][a-z0-9+.-]+://", place.root):
            raise ConfigError(f"{place.root} is not a local path: mount it, or copy the store")
    if len({place.name for place in places}) < len(places):
        raise ConfigError("two stores have the same name: write NAME=PATH for each")
    return places
