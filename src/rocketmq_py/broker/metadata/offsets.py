"""Consumer offsets of each group in each queue, and the file ``consumerOffset.json``.

These are committed offsets, offsets after the last pull, and pending resets by administrators (ConsumerOffsetManager).
A committed offset is not checked against its queue: a client may commit any number.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from typing import Any

from rocketmq_py.broker.metadata.java_files import bean, int_keys, version_of
from rocketmq_py.broker.metadata.offset_file import OffsetChanges, OffsetFile, topics_by_group
from rocketmq_py.core.broker.topic_group_index import TopicGroupIndex
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.wire.fastjson import BareKey

_log = logging.getLogger(__name__)

NOT_FOUND = -1
_NONE: Mapping[int, int] = {}

Table = dict[str, dict[int, int]]
"""Offsets by ``topic@group`` and queue id."""


class ConsumerOffsets:
    """Offsets by topic, group and queue.

    :param file: ``consumerOffset.json``.
    :param save: writes the file. It is called every few seconds and should not wait for the disk.
    :param version_step: commits per increment of the table's version (consumerOffsetUpdateVersionStep).
    :param clock: returns the time in milliseconds, for the version.
    :param on_reset: called after a reset with the group, the topic and the queue id.
    """

    def __init__(
        self,
        file: OffsetFile,
        version_step: int,
        clock: Callable[[], int],
        save: Callable[[OffsetFile, OffsetChanges], None] = OffsetFile.save,
        on_reset: Callable[[str, str, int], None] = lambda *_: None,
    ) -> None:
        self._file = file
        self._save = save
        self._on_reset = on_reset
        self._version_step = version_step
        self._clock = clock
        self._commits = 0
        self._changed: dict[str, None] = {}
        """Keys in :attr:`table` whose offsets the file does not have yet."""
        self.version = DataVersion(timestamp=clock())
        self.table: Table = {}
        self._pulled: Table = {}
        self._resets: Table = {}
        self._keys: TopicGroupIndex[str] = TopicGroupIndex()
        """Index of the keys of all three tables by topic and by group."""

    def load(self) -> None:
        """Load the file."""
        found = self._file.load(lambda tree: (version_of(tree, self.version), _offsets(tree)))
        if found is not None:
            self.version, self.table = found
        for key in self.table:
            self._index(key)

    def persist(self) -> None:
        """Write the file if anything changed since the last write; the work here is that of what has changed."""
        if self._changed:
            changed, self._changed = self._changed, {}
            queues = {key: dict(self.table[key]) if key in self.table else None for key in changed}
            self._save(self._file, OffsetChanges(bean(self.version), queues))

    def take_over(self, tree: Any, *, keeps_larger: bool) -> Generator[None, None, None]:
        """Replace the offsets of the topics and groups that the master has; others stay. One of them in each step.

        :param tree: the master's answer, which has the shape of the file.
        :param keeps_larger: keep an offset that is larger than the master's.
        """
        for key, given in (tree.get("offsetTable") or {}).items():
            queues, known = int_keys(given), self.table.get(key)
            if keeps_larger and known:
                queues = known | {queue: max(offset, known.get(queue, 0)) for queue, offset in queues.items()}
            if queues != known:
                self.table[key] = queues
                self._index(key)
                self._changed[key] = None
            yield
        self.version = version_of(tree, self.version)

    def entries(self) -> Iterator[tuple[str, dict[BareKey, int]]]:
        """Iterate over the table in the form of an answer to a slave; changes meanwhile are allowed."""
        for key in list(self.table):
            queues = self.table.get(key)
            if queues is not None:
                yield key, {BareKey(queue): queues[queue] for queue in sorted(queues)}

    def topics_by_group(self) -> dict[str, list[str]]:
        """Return the topics for which each group has committed offsets."""
        return topics_by_group(self.table)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str) -> None:
        """Set the committed offset of a group in a queue, even to a smaller one.

        :param client: the client that commits, for the log.
        """
        key = f"{topic}@{group}"
        queues = self.table.get(key)
        if queues is None:
            queues = self.table[key] = {}
            self._keys.add(key, topic, group)
        before = queues.get(queue_id, NOT_FOUND)
        if before != offset:
            if offset < before:
                _log.warning(
                    "%s commits a smaller offset for %s queue %d: %d before, %d now",
                    client,
                    key,
                    queue_id,
                    before,
                    offset,
                )
            queues[queue_id] = offset
            self._changed[key] = None
        self._commits += 1
        if not self._commits % self._version_step:
            self.version = self.version.bump(self._clock())

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of a pending reset; without one the committed offset, -1 if there is none."""
        key = f"{topic}@{group}"
        if self._resets:
            reset = self._resets.get(key, {}).get(queue_id)
            if reset is not None:
                return reset
        queues = self.table.get(key)
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store the offset after a group's last pull, for statistics; it is not written to disk."""
        key = f"{topic}@{group}"
        queues = self._pulled.get(key)
        if queues is None:
            queues = self._pulled[key] = {}
            self._keys.add(key, topic, group)
        queues[queue_id] = offset

    def query_pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset after a group's last pull; the result of :meth:`query` if it has not pulled."""
        found = self._pulled.get(f"{topic}@{group}", {}).get(queue_id)
        return self.query(group, topic, queue_id) if found is None else found

    def progress(self) -> Iterator[tuple[str, Mapping[int, int], Mapping[int, int]]]:
        """Iterate over all groups with committed offsets: ``topic@group``, committed offsets, and offsets after pulls.

        Changes meanwhile are allowed.
        """
        table, pulled_by = self.table, self._pulled.get
        for key in list(table):
            queues = table.get(key)
            if queues is not None:
                yield key, queues, pulled_by(key, _NONE)

    def progress_of(self, key: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Return what :meth:`progress` says of one group: committed offsets, and offsets after pulls."""
        return self.table.get(key, _NONE), self._pulled.get(key, _NONE)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Reset the offset of a group: the next pull is answered with it, and commits are ignored until then."""
        self._resets.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        self.commit(group, topic, queue_id, offset, "a reset")
        self._on_reset(group, topic, queue_id)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and queue_id in self._resets.get(f"{topic}@{group}", {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove a pending reset and return its offset; None if there is none."""
        if not self._resets:
            return None
        key = f"{topic}@{group}"
        queues = self._resets.get(key, {})
        offset = queues.pop(queue_id, None)
        if offset is not None and not queues:
            del self._resets[key]
        return offset

    def topics_of(self, group: str) -> list[str]:
        """Return the topics for which a group has committed offsets."""
        return [topic for key, topic in self._keys.of_group(group).items() if key in self.table]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed offsets for a topic."""
        return [group for key, group in self._keys.of_topic(topic).items() if key in self.table]

    def committed(self, topic: str, without: Collection[str] = ()) -> dict[int, list[int]]:
        """Return the committed offsets of all groups except ``without`` in a topic, by queue id."""
        found: dict[int, list[int]] = {}
        for key, group in self._keys.of_topic(topic).items():
            if group not in without:
                for queue_id, offset in self.table.get(key, {}).items():
                    found.setdefault(queue_id, []).append(offset)
        return found

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the offsets of one group for a topic to another group."""
        queues = self.table.get(f"{topic}@{source}")
        if queues is not None:
            self.table[f"{topic}@{target}"] = dict(queues)
            self._keys.add(f"{topic}@{target}", topic, target)
            self._changed[f"{topic}@{target}"] = None

    def remove_group(self, group: str) -> None:
        self._forget(self._keys.take_group(group))

    def remove_topic(self, topic: str) -> None:
        self._forget(self._keys.take_topic(topic))

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            for table in (self.table, self._pulled, self._resets):
                if table.pop(key, None) is not None:
                    self._changed[key] = None

    def _index(self, key: str) -> None:
        topic, _, group = key.partition("@")
        self._keys.add(key, topic, group)


def _offsets(tree: Any) -> Table:
    """Offsets in the content of the file."""
    return {key: int_keys(queues) for key, queues in (tree.get("offsetTable") or {}).items()}
