"""The state of orderly pops on disk: ``consumerOrderInfo.json``, in Java's form (ConsumerOrderInfoManager).

The rules are in ``core.pop.order``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.pop.order import FORGET_AFTER_MS, OrderInfo, OrderKey, OrderTable
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.fastjson import BareKey


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
        save: Callable[[ConfigFile, Any], None] = ConfigFile.save,
    ) -> None:
        self._file = file
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._save = save
        self._saved: dict[str, Any] = {}
        self.table = OrderTable()

    def load(self) -> None:
        """Read the file."""
        found = self._file.load(lambda tree: (tree, _orders(tree)))
        if found is None:
            return
        self._saved, orders = found
        for key, info in orders:
            self.table.load(key, info)

    def persist(self) -> None:
        """Remove outdated entries, and write the file if anything changed."""
        self._clean()
        tree = self.tree()
        if tree != self._saved and (self.table.entries or self._saved):
            self._saved = tree
            self._save(self._file, tree)

    def tree(self) -> dict[str, Any]:
        """Return the content of the file: entries by ``topic@group`` and queue id."""
        table: dict[str, dict[BareKey, Any]] = {}
        for key, info in sorted(self.table.entries.items()):
            table.setdefault(f"{key.topic}@{key.group}", {})[BareKey(key.queue_id)] = _entry(info)
        return {"table": table}

    def _clean(self) -> None:
        before = self._clock() - FORGET_AFTER_MS
        for key, info in list(self.table.entries.items()):
            topic = self._topics.get(key.topic)
            gone = topic is None or key.queue_id >= topic.read_queue_nums or self._groups.get(key.group) is None
            if gone or info.last_pop_time < before:
                self.table.forget(key)


def _orders(tree: Any) -> list[tuple[OrderKey, OrderInfo]]:
    """Keys and entries in the content of the file."""
    return [
        (OrderKey(name.partition("@")[0], name.partition("@")[2], int(queue_id)), OrderInfo.convert(entry))
        for name, queues in (tree.get("table") or {}).items()
        for queue_id, entry in queues.items()
    ]


def _entry(info: OrderInfo) -> dict[str, Any]:
    """Encode an entry as Java does, with unquoted numeric keys."""
    tree = bean(info)
    for name in ("oc", "ot"):
        if name in tree:
            tree[name] = {BareKey(key): tree[name][key] for key in sorted(tree[name], key=int)}
    return tree
