"""The mappings of a broker's static topics, and their file ``topicQueueMapping.json`` (TopicQueueMappingManager)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from operator import itemgetter
from typing import Any

import msgspec

from rocketmq_py.broker.metadata.entry_writer import EntryWriter
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.core.broker.static_topic import as_info, mapping_fault, merge
from rocketmq_py.errors import BadHeader, BrokerError
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingInfo, MappingTable
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.entry_file import EntryFile
from rocketmq_py.wire.fastjson import BareKey, pretty, pretty_object

_log = logging.getLogger(__name__)

_VERSION = ""
"""Key of the table's version in the file's entries; those of mappings are topics."""


class TopicQueueMappings:
    """The queue mappings of this broker's static topics, by topic.

    :param broker_name: the broker's own name.
    :param clock: returns the time in milliseconds, for the version of the table.
    :param thread: an executor with one thread, which writes the file.
    """

    def __init__(self, file: ConfigFile, broker_name: str, clock: Callable[[], int], thread: Executor) -> None:
        entries: EntryFile[str, MappingDetail | DataVersion] = EntryFile(file, _text, _content)
        self._file = EntryWriter(entries, thread)
        self._has_saved = False
        self.saved = self._file.saved
        """Waits until all changes are on disk; ``OSError`` if the disk is full or fails."""
        self._broker_name = broker_name
        self._clock = clock
        self.table: dict[str, MappingDetail] = {}
        self.version = DataVersion(timestamp=clock())

    def load(self) -> None:
        """Load the file; inconsistent mappings are skipped and logged as errors."""
        found = self._file.load(MappingTable.convert) or MappingTable()
        self.version = found.data_version
        self.table = self._valid(found.topic_queue_mapping_info_map)

    def _valid(self, table: dict[str, MappingDetail]) -> dict[str, MappingDetail]:
        valid = {}
        for topic, detail in table.items():
            fault = mapping_fault(detail, topic, self._broker_name)
            if fault is None:
                valid[topic] = detail
            else:
                _log.error("ignoring the queue mapping of topic %s: %s", topic, fault)
        return valid

    def has(self, topic: str) -> bool:
        """True if the topic is static."""
        return topic in self.table

    def put(self, detail: MappingDetail, topic: str, *, force: bool) -> None:
        """Create or replace the mapping of a topic; :attr:`saved` waits until the file has it.

        :param force: accept a mapping that is inconsistent with the current one.
        :raises BrokerError: the mapping is refused.
        """
        old = self.table.get(topic)
        fault = mapping_fault(detail, topic, self._broker_name) or (old and merge(old, detail, force=force))
        if fault:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, fault)
        self.table[topic] = detail
        self._changed(topic)

    def delete(self, topic: str) -> None:
        """Delete the mapping of a topic, if it has one."""
        if self.table.pop(topic, None) is not None:
            self._changed(topic)

    def replace(self, old: MappingDetail, new: MappingDetail) -> bool:
        """Replace the mapping ``old`` with ``new``; return False if ``old`` is no longer the current one."""
        if self.table.get(old.topic) is not old:
            return False
        self.table[old.topic] = new
        self._changed(old.topic)
        return True

    def drop(self, old: MappingDetail, numbers: set[int]) -> bool:
        """Remove logical queues from the mapping ``old``; return False if ``old`` is no longer the current one."""
        kept = {number: items for number, items in old.hosted_queues.items() if number not in numbers}
        return self.replace(old, msgspec.structs.replace(old, hosted_queues=kept))

    def _changed(self, topic: str) -> None:
        self.version = self.version.bump(self._clock())
        self._save({topic: self.table.get(topic)})

    def _save(self, changes: Mapping[str, MappingDetail | None]) -> None:
        """Save entries and the version, and the first time all other entries with them."""
        others = {} if self._has_saved else self.table
        self._has_saved = True
        self._file.save({_VERSION: self.version, **others, **changes})

    def trees(self) -> Iterator[tuple[str, object]]:
        """Iterate over the mappings of now, in the JSON form for slaves and tools, by topic."""
        return ((topic, _sorted(bean(detail), str)) for topic, detail in sorted(self.table.items(), key=itemgetter(0)))

    def take_over(self, version: DataVersion | None, table: dict[str, object] | None) -> None:
        """Replace all mappings by the master's if its version differs.

        :param table: None from a master that has no static topics.
        :raises BadHeader: a mapping is malformed.
        """
        if version is None or table is None or version == self.version:
            return
        found = {topic: MappingDetail.convert(tree) for topic, tree in table.items()}
        before = self.table
        self.version, self.table = version, self._valid(found)
        self._save({**dict.fromkeys(before), **self.table})

    def infos(self, topics: set[str]) -> dict[str, MappingInfo]:
        """Return the queue mapping, in its form for name servers, of each of these topics that is static."""
        return {topic: as_info(self.table[topic]) for topic in topics & self.table.keys()}


def decode_mapping(body: bytes) -> MappingDetail:
    """Decode the queue mapping in the body of a request.

    :raises BadHeader: the body is empty or malformed.
    """
    if not body:
        raise BadHeader("the request has no queue mapping")
    return MappingDetail.decode(body)


def _text(entry: MappingDetail | DataVersion) -> str:
    if isinstance(entry, DataVersion):
        return pretty(bean(entry), 1)
    return pretty(_sorted(bean(entry), BareKey), 2)


def _content(texts: Mapping[str, str]) -> str:
    """Return the content of the file."""
    mappings = {topic: texts[topic] for topic in sorted(texts) if topic != _VERSION}
    members = {"dataVersion": texts[_VERSION], "topicQueueMappingInfoMap": pretty_object(mappings, 1)}
    return pretty_object(members, 0)


def _sorted(tree: dict[str, Any], key: type[BareKey | str]) -> dict[str, Any]:
    """Sort the queues of an encoded mapping by id, in place; return ``tree``.

    :param key: the form of the ids: unquoted in the file as in Java's, strings in answers because of Java's tools.
    """
    for name in ("currIdMap", "hostedQueues"):
        tree[name] = {key(number): tree[name][number] for number in sorted(tree[name], key=int)}
    return tree
