"""Option ``storePath``: the store directories that are read without a broker, local or by their URIs. No IO."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from rocketmq_py.errors import ConfigError

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_NAMED = re.compile(r"([A-Za-z0-9_.|%-]+)=(.*)", re.DOTALL)


class StoreDirectory(NamedTuple):
    """A store directory of a read.

    :ivar name: the value of column ``brokerName``, which a store does not contain.
    :ivar root: the directory (``storePathRootDir``), or its URI.
    :ivar commit_log: directory of its commit log if that is elsewhere (``storePathCommitLog``), or its URI.
    """

    name: str
    root: str
    commit_log: str | None = None


def is_uri(place: str) -> bool:
    """Return True for the URI of a directory on another file system, as ``s3://bucket/store``."""
    return _URI.match(place) is not None


def shown(uri: str) -> str:
    """Return a path as it is, and a URI without its query, which can have secrets of some file systems."""
    return uri.partition("?")[0].rstrip("/") if is_uri(uri) else uri


def default_name(place: str) -> str:
    """Return the last part of the path of a store directory.

    :raises ConfigError: it is a URI that cannot be split.
    """
    return PurePath(unquote(_split(place).path) if is_uri(place) else place).name


def _split(uri: str) -> SplitResult:
    """Return the parts of a URI; the error has none of them, since they can have a password.

    :raises ConfigError: the host is illegal.
    """
    try:
        return urlsplit(uri)
    except ValueError:
        raise ConfigError("the URI of a store has an illegal host: write it as s3://bucket/store") from None


def store_directories(text: str) -> tuple[StoreDirectory, ...]:
    """Parse directories ``[NAME=]PATH``, separated by ``;``; without a name, the last part of the path is it.

    :raises ConfigError: there is none, or two have the same name.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        named = _NAMED.fullmatch(part)
        name, root = named.groups() if named else (default_name(part), part)
        found.append(StoreDirectory(name, root.strip()))
    return checked(found)


def checked(found: Iterable[StoreDirectory]) -> tuple[StoreDirectory, ...]:
    """Return store directories as a tuple.

    :raises ConfigError: there is none, one has no name or path or an illegal URI, or two have the same name.
    """
    places = tuple(found)
    if not places:
        raise ConfigError("the directory of a store is expected")
    for place in places:
        if not place.name or not place.root:
            raise ConfigError(f"{place.root or place.name!r} is no [NAME=]PATH of a store directory")
        for directory in (place.root, place.commit_log):
            if directory is not None and is_uri(directory):
                _check_uri(directory)
    if len({place.name for place in places}) < len(places):
        raise ConfigError("two stores have the same name: write NAME=PATH for each")
    return places


def _check_uri(uri: str) -> None:
    """Refuse a URI that names no directory, or that has a password, which Spark's plans and logs would show.

    :raises ConfigError: as said.
    """
    found = _split(uri)
    if found.password is not None:
        raise ConfigError(
            f"the URI of a store on {found.hostname} has a password: credentials are taken from the environment"
        )
    if found.scheme.lower() == "file":  # a broker may run there, which is noticed at paths only
        raise ConfigError(f"{shown(uri)} is on this machine: give its path")
    parts = unquote(found.path).split("/")
    if found.fragment or ".." in parts or not any(parts):
        raise ConfigError(f"{shown(uri)} is no URI of a store directory, such as s3://bucket/store")
