"""How far each consumer group has come in each queue, and ``consumerOffset.json``.

Knows committed offsets, those of the last pull, and resets ordered by an administrator (ConsumerOffsetManager). Refuses
to know messages: an offset is what a client says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from rocketmq_py.broker.metadata.java_files import bean, int_keys, version_of
from rocketmq_py.core.broker.topic_group_index import PairIndex
from rocketmq_py.protocol.bodies.common import DataVersion
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.fastjson import Bare

_log = logging.getLogger(__name__)

NOT_FOUND = -1

Table = dict[str, dict[int, int]]
"""``topic@group`` to queue to offset."""


class ConsumerOffsets:
    """Offsets by topic, group and queue.

    :param file: ``consumerOffset.json``.
    :param save: writes the file; called every few seconds, so it should not wait for the disk.
    :param version_step: the version of the table goes up every so many commits (consumerOffsetUpdateVersionStep).
    :param clock: the time in milliseconds, for the version.
    """

    def __init__(
        self,
        file: ConfigFile,
        version_step: int,
        clock: Callable[[], int],
        save: Callable[[ConfigFile, Any], None] = ConfigFile.save,
    ) -> None:
        self._file = file
        self._save = save
        self._version_step = version_step
        self._clock = clock
        self._commits = 0
        self._changed = False
        self.version = DataVersion(timestamp=clock())
        self.table: Table = {}
        self._pulled: Table = {}
        self._resets: Table = {}
        self._keys: PairIndex[str] = PairIndex()
        """Those of the three tables."""
        self.on_reset: Callable[[str, str, int], None] = lambda *_: None
        """Hears of a reset: the group, the topic and the queue."""

    def load(self) -> None:
        """Take over what the file holds."""
        tree = self._file.load() or {}
        self.version = version_of(tree, self.version)
        self.table = {key: int_keys(queues) for key, queues in (tree.get("offsetTable") or {}).items()}
        for key in self.table:
            self._know(key)

    def persist(self) -> None:
        """Write the file when anything changed since the last time."""
        if self._changed:
            self._changed = False
            self._save(self._file, self.tree())

    def take_over(self, tree: Any, *, keeps_larger: bool) -> None:
        """Have what a master has of each topic and group; what it has nothing of stays.

        :param tree: its answer, which looks as the file does.
        :param keeps_larger: an offset that is ahead of the master's stays, too.
        """
        for key, told in (tree.get("offsetTable") or {}).items():
            queues, known = int_keys(told), self.table.get(key)
            if keeps_larger and known:
                queues = known | {queue: max(offset, known.get(queue, 0)) for queue, offset in queues.items()}
            if queues != known:
                self.table[key] = queues
                self._know(key)
                self._changed = True
        self.version = version_of(tree, self.version)

    def tree(self) -> dict[str, object]:
        """The content of the file, which is also what a slave asks for."""
        return {
            "dataVersion": bean(self.version),
            "groupTopicMap": self._topics_by_group(),
            "offsetTable": {
                key: {Bare(queue): queues[queue] for queue in sorted(queues)} for key, queues in self.table.items()
            },
        }

    def _topics_by_group(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for key in self.table:
            topic, _, group = key.partition("@")
            groups.setdefault(group, []).append(topic)
        return groups

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str) -> None:
        """Store an offset, even one that goes back."""
        key = f"{topic}@{group}"
        queues = self.table.get(key)
        if queues is None:
            queues = self.table[key] = {}
            self._keys.add(key, topic, group)
        before = queues.get(queue_id, NOT_FOUND)
        if before != offset:
            if offset < before:
                _log.warning("%s sets %s queue %d back from %d to %d", client, key, queue_id, before, offset)
            queues[queue_id] = offset
            self._changed = True
        self._commits += 1
        if not self._commits % self._version_step:
            self.version = self.version.bump(self._clock())

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The offset a reset ordered, else the committed one, else -1."""
        key = f"{topic}@{group}"
        reset = self._resets.get(key, {}).get(queue_id)
        return self.table.get(key, {}).get(queue_id, NOT_FOUND) if reset is None else reset

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember how far a group has pulled, for statistics."""
        key = f"{topic}@{group}"
        queues = self._pulled.get(key)
        if queues is None:
            queues = self._pulled[key] = {}
            self._keys.add(key, topic, group)
        queues[queue_id] = offset

    def query_pulled(self, group: str, topic: str, queue_id: int) -> int:
        """How far a group has pulled; its offset when it has not."""
        found = self._pulled.get(f"{topic}@{group}", {}).get(queue_id)
        return self.query(group, topic, queue_id) if found is None else found

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Order a reset: the next pull is answered with it, and commits are ignored until then."""
        self._resets.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        self.commit(group, topic, queue_id, offset, "a reset")
        self.on_reset(group, topic, queue_id)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and queue_id in self._resets.get(f"{topic}@{group}", {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset a reset ordered, which is then done; None when there is none."""
        if not self._resets:
            return None
        key = f"{topic}@{group}"
        queues = self._resets.get(key, {})
        offset = queues.pop(queue_id, None)
        if offset is not None and not queues:
            del self._resets[key]
        return offset

    def topics_of(self, group: str) -> list[str]:
        """Topics a group has committed offsets of."""
        return [topic for key, topic in self._keys.of_group(group).items() if key in self.table]

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have committed offsets of a topic."""
        return [group for key, group in self._keys.of_topic(topic).items() if key in self.table]

    def committed(self, topic: str, without: Collection[str] = ()) -> dict[int, list[int]]:
        """The offsets of each queue of a topic that groups have committed, those of some groups left out."""
        found: dict[int, list[int]] = {}
        for key, group in self._keys.of_topic(topic).items():
            if group not in without:
                for queue_id, offset in self.table.get(key, {}).items():
                    found.setdefault(queue_id, []).append(offset)
        return found

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give one group the offsets another has in a topic."""
        queues = self.table.get(f"{topic}@{source}")
        if queues is not None:
            self.table[f"{topic}@{target}"] = dict(queues)
            self._keys.add(f"{topic}@{target}", topic, target)
            self._changed = True

    def remove_group(self, group: str) -> None:
        self._forget(self._keys.take_group(group))

    def remove_topic(self, topic: str) -> None:
        self._forget(self._keys.take_topic(topic))

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            for table in (self.table, self._pulled, self._resets):
                self._changed |= table.pop(key, None) is not None

    def _know(self, key: str) -> None:
        topic, _, group = key.partition("@")
        self._keys.add(key, topic, group)
