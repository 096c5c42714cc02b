"""The file ``consumerOffset.json``, written without encoding the offsets that have not changed since the last time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rocketmq_py.broker.metadata.java_files import int_keys
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.fastjson import BareKey, pretty, pretty_object

T = TypeVar("T")


class OffsetChanges(NamedTuple):
    """What has changed since the last save.

    :param version: the table's ``dataVersion``.
    :param queues: offsets by queue id of each changed ``topic@group``; None if it was removed.
    """

    version: Mapping[str, Any]
    queues: Mapping[str, Mapping[int, int] | None]


class OffsetFile:
    """Keeps the text of each ``topic@group``; 50,000 groups of eight queues take a second to encode.

    After :meth:`load`, only one thread may use it.
    """

    def __init__(self, file: ConfigFile) -> None:
        self._file = file
        self.path: Path = file.path
        self._loaded: dict[str, Any] = {}
        """Loaded offsets without a text yet: a start has better things to do, and they may never be written again."""
        self._texts: dict[str, str] = {}
        self._topics: str | None = None
        """Text of ``groupTopicMap``; None if a ``topic@group`` was added or removed since."""

    def load(self, convert: Callable[[Any], T]) -> T | None:
        """Return the converted content of the file; None if there is none.

        :param convert: as of :meth:`ConfigFile.load`.
        """
        found = self._file.load(lambda tree: (tree, convert(tree)))
        if found is None:
            return None
        self._loaded = dict(found[0].get("offsetTable") or {})
        return found[1]

    def save(self, changes: OffsetChanges) -> None:
        """Write the file with all changes so far.

        :raises OSError: the disk is full or fails; the next save has these changes, too.
        """
        loaded, self._loaded = self._loaded, {}
        for key, queues in loaded.items():
            self._put(key, int_keys(queues))
        for key, changed in changes.queues.items():
            self._put(key, changed)
        self._file.save_text(self._text(changes.version))

    def _put(self, key: str, queues: Mapping[int, int] | None) -> None:
        if queues is None:
            if self._texts.pop(key, None) is not None:
                self._topics = None
            return
        if key not in self._texts:
            self._topics = None
        self._texts[key] = pretty({BareKey(queue): queues[queue] for queue in sorted(queues)}, 2)

    def _text(self, version: Mapping[str, Any]) -> bytes:
        if self._topics is None:
            self._topics = pretty(topics_by_group(self._texts), 1)
        members = {
            "dataVersion": pretty(version, 1),
            "groupTopicMap": self._topics,
            "offsetTable": pretty_object(self._texts, 1),
        }
        return pretty_object(members, 0).encode()


def topics_by_group(keys: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the topics of each group, from the keys ``topic@group`` of a table."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        topic, _, group = key.partition("@")
        groups.setdefault(group, []).append(topic)
    return groups
