"""The state of orderly pops on disk: ``consumerOrderInfo.json``, in Java's form (ConsumerOrderInfoManager).

The rules are in ``core.pop.order``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.pop.order import FORGET_AFTER_MS, OrderInfo, OrderKey, OrderTable
from rocketmq_py.server.sliced_work import at_once
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.entry_file import EntryFile, grouped
from rocketmq_py.wire.fastjson import BareKey, pretty, pretty_object

OrderFile = EntryFile[OrderKey, OrderInfo]


class OrderInfos:
    """The table of orderly pops and its file.

    :param clock: returns the time in milliseconds since the epoch.
    :param save: writes the file; it is called every few seconds and should not block on the disk.
    """

    def __init__(
        self,
        file: ConfigFile,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        clock: Callable[[], int],
        save: Callable[[OrderFile, Mapping[OrderKey, OrderInfo | None]], None] = EntryFile.save,
    ) -> None:
        self._file: OrderFile = EntryFile(file, _text, _content)
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._save = save
        self.table = OrderTable()

    def load(self) -> None:
        """Read the file."""
        for key, info in self._file.load(_orders) or ():
            self.table.load(key, info)

    def persist(self) -> None:
        """Remove outdated entries, and write the file if anything changed."""
        at_once(self.persist_in_steps())

    def persist_in_steps(self) -> Iterator[None]:
        """As :meth:`persist`, with one entry in each step; the table may change between two steps."""
        yield from self._clean()
        changed = self.table.take_changed()
        if changed:
            self._save(self._file, {key: self.table.entries.get(key) for key in changed})

    def _clean(self) -> Iterator[None]:
        before = self._clock() - FORGET_AFTER_MS
        for key in list(self.table.entries):
            info = self.table.entries.get(key)
            if info is not None and (self._is_gone(key) or info.last_pop_time < before):
                self.table.forget(key)
            yield

    def _is_gone(self, key: OrderKey) -> bool:
        """Return True if a queue or its group no longer exists."""
        topic = self._topics.get(key.topic)
        return topic is None or key.queue_id >= topic.read_queue_nums or self._groups.get(key.group) is None


def _orders(tree: Any) -> list[tuple[OrderKey, OrderInfo]]:
    """Keys and entries in the content of the file."""
    return [
        (OrderKey(name.partition("@")[0], name.partition("@")[2], int(queue_id)), OrderInfo.convert(entry))
        for name, queues in (tree.get("table") or {}).items()
        for queue_id, entry in queues.items()
    ]


def _text(info: OrderInfo) -> str:
    """Encode an entry as Java does, with unquoted numeric keys; in a thread, so that all comes from one copy."""
    tree = bean(info)
    for name in ("oc", "ot"):
        if name in tree:
            tree[name] = {BareKey(key): tree[name][key] for key in sorted(tree[name], key=int)}
    return pretty(tree, 3)


def _content(texts: Mapping[OrderKey, str]) -> str:
    """Return the content of the file: entries by ``topic@group`` and queue id."""
    tables = grouped({(f"{topic}@{group}", queue_id): text for (topic, group, queue_id), text in texts.items()})
    sorted_tables = {
        name: pretty_object({BareKey(queue_id): tables[name][queue_id] for queue_id in sorted(tables[name])}, 2)
        for name in sorted(tables)
    }
    return pretty_object({"table": pretty_object(sorted_tables, 1)}, 0)
