"""The topics of this broker: their configuration, their creation, and the file ``topics.json``.

The rules are Java's (TopicConfigManager).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.java_files import bean, version_of
from rocketmq_py.broker.metadata.name_validator import without_unsafe
from rocketmq_py.broker.metadata.table_file import SavedTable, TableFile
from rocketmq_py.broker.metadata.topic_attributes import has_batch_queues
from rocketmq_py.core.queue_limits import clamp_queue_number, topic_queues_fault
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.topic import TopicConfig, convert_topics
from rocketmq_py.protocol.sys_flag import PERM_INHERIT, PERM_READ, PERM_RW, PERM_WRITE
from rocketmq_py.store.config.config_journal import JournaledFile, Snapshot

_log = logging.getLogger(__name__)

SCHEDULE_QUEUES = 18
BENCHMARK_QUEUES = 1024
UNIT_FLAG = 0x1
UNIT_SUB_FLAG = 0x2
_TABLE = "topicConfigTable"


class GroupTopic(NamedTuple):
    """A retry or dead-letter topic to create; see :meth:`TopicConfigs.create_for_group`."""

    topic: str
    queues: int
    sys_flag: int = 0
    order: bool | None = None


class TopicConfigs(SavedTable):
    """The table of topics.

    :param file: ``topics.json``.
    :param clock: returns the time in milliseconds, for the version of the table.
    :param on_change: called with topics to register at the name servers: created and changed ones, or all of them
        after :meth:`announce_all`.
    """

    def __init__(
        self,
        file: JournaledFile,
        config: BrokerConfig,
        clock: Callable[[], int],
        on_change: Callable[[list[TopicConfig]], None] = lambda _: None,
    ) -> None:
        self._file = TableFile(file, self._whole)
        self._config = config
        self._clock = clock
        self.version = DataVersion(timestamp=clock())
        self.table: dict[str, TopicConfig] = {topic.topic_name: topic for topic in initial_topics(config)}
        self._on_change = on_change
        self._is_read = False
        self.reserved = frozenset(self.table)
        """Names of the topics that the broker creates itself."""

    def load(self) -> None:
        """Load the file unless :meth:`read_file` has, and write it if there is none.

        Its entries replace the initial topics of the same names.
        """
        if not self._is_read and not self.read_file():
            self.persist()
            return
        self.catch_up()

    def read_file(self) -> bool:
        """Load the file without writing anything; return False if there is no file."""
        found = self._file.load(self._converted)
        if found is None:
            return False
        self.version, stored = found
        table = without_unsafe(f"topics of {self._file.path}", stored)
        self.table |= _within_limits(table, "its file")
        self._is_read = True
        return True

    def _converted(self, tree: Any) -> tuple[DataVersion, dict[str, TopicConfig]]:
        """Version and topics in the content of the file."""
        return version_of(tree, self.version), convert_topics(tree.get(_TABLE) or {})

    def has_batch_queues(self, topic: str) -> bool:
        """True if a topic exists and its queues are batch consume queues."""
        found = self.table.get(topic)
        return found is not None and has_batch_queues(found.attributes)

    def _whole(self) -> Snapshot:
        version, table = bean(self.version), dict(self.table)

        def content() -> dict[str, object]:
            return {"dataVersion": version, _TABLE: {name: bean(topic) for name, topic in table.items()}}

        return Snapshot(version, content)

    def get(self, topic: str) -> TopicConfig | None:
        return self.table.get(topic)

    def is_order(self, topic: str) -> bool:
        found = self.table.get(topic)
        return found is not None and found.order

    def is_system(self, topic: str) -> bool:
        return topic in self.reserved or names.is_system_topic(topic)

    def create_by_send(self, topic: str, default_topic: str, queues: int, sys_flag: int) -> TopicConfig | None:
        """Create the topic of a send with permission and filter type of a default topic, and write it to disk.

        Returns None if the default topic does not exist or does not allow that.

        :param queues: the number of queues that the producer wants; at most that of the default topic is created.
        :param sys_flag: the new topic's system flag.
        """
        model = self.table.get(default_topic)
        if model is None or not model.perm & PERM_INHERIT:
            return None
        if default_topic == names.AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
            return None
        queues = max(0, min(queues, model.write_queue_nums))
        created = TopicConfig(
            topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=model.perm & ~PERM_INHERIT,
            topic_sys_flag=sys_flag, topic_filter_type=model.topic_filter_type,
        )  # fmt: skip
        _log.info("topic %s created with %d queues from %s", topic, queues, default_topic)
        return self.put([created])[0]

    def create_for_group(self, topic: str, queues: int, sys_flag: int = 0, *, order: bool | None = None) -> TopicConfig:
        """Return the retry or dead-letter topic of a group; create it if it does not exist.

        :param queues: the number of queues of a new topic; ``sys_flag`` is its system flag.
        :param order: True if the group consumes in order; None leaves an existing topic unchanged.
        """
        self.create_for_groups([GroupTopic(topic, queues, sys_flag, order)])
        return self.table[topic]

    def create_for_groups(self, topics: Iterable[GroupTopic]) -> None:
        """Create those of the retry and dead-letter topics that do not exist; write and register them together."""
        changed: dict[str, TopicConfig] = {}
        for name, queues, sys_flag, order in topics:
            found = changed.get(name) or self.table.get(name)
            if found is None:
                changed[name] = TopicConfig(
                    topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=PERM_RW,
                    topic_sys_flag=sys_flag, order=bool(order),
                )  # fmt: skip
            elif order is not None and order is not found.order:
                found.order = order
                changed[name] = found
        if changed:
            self.put(changed.values())

    def put(self, topics: Iterable[TopicConfig]) -> list[TopicConfig]:
        """Create or replace topics, write them to disk, notify the listener, and return them."""
        changed = list(topics)
        self.table |= {topic.topic_name: topic for topic in changed}
        self._changed(changed)
        return changed

    def take_over(self, version: DataVersion, table: dict[str, TopicConfig]) -> None:
        """Replace all topics with the master's if its version differs, and write the file."""
        if version == self.version:
            return
        table = _within_limits(without_unsafe("topics of the master", table), "the master")
        changed = [topic for name, topic in table.items() if self.table.get(name) != topic]
        self.version, self.table = version, dict(table)
        self._file.rewrite()
        self._on_change(changed)

    def delete(self, topic: str) -> bool:
        """Delete a topic and write the file; return False if the topic does not exist."""
        found = self.table.pop(topic, None)
        if found is None:
            return False
        self._changed([], deleted=topic)
        return True

    def set_order_topics(self, topics: Iterable[str]) -> None:
        """Mark topics as order topics, because the name server has an order configuration for them."""
        found = [self.table[name] for name in topics if name in self.table and not self.table[name].order]
        for topic in found:
            topic.order = True
        if found:
            self._changed(found)

    def announce_all(self) -> None:
        """Increment the version and notify the listener of all topics, so that all are registered again."""
        self._save({})
        self._on_change(list(self.table.values()))

    def _changed(self, topics: list[TopicConfig], deleted: str | None = None) -> None:
        step: dict[str, object] = {topic.topic_name: bean(topic) for topic in topics}
        if deleted is not None:
            step[deleted] = None
        self._save(step)
        self._on_change(topics)

    def _save(self, step: dict[str, object]) -> None:
        """Save changed entries, None for a removed one, with the next version of the table."""
        self.version = self.version.bump(self._clock())
        self._file.change(bean(self.version), {_TABLE: step})


def _within_limits(table: dict[str, TopicConfig], teller: str) -> dict[str, TopicConfig]:
    """Reduce numbers of queues to the limit, in place; return ``table``.

    :param teller: the source of the table, for the log.
    """
    for name, topic in table.items():
        fault = topic_queues_fault(name, topic.read_queue_nums, topic.write_queue_nums)
        if fault is not None:
            topic.read_queue_nums = clamp_queue_number(topic.read_queue_nums)
            topic.write_queue_nums = clamp_queue_number(topic.write_queue_nums)
            _log.warning(
                "%s says that %s; the broker uses %d read queues and %d write queues", teller, fault,
                topic.read_queue_nums, topic.write_queue_nums,
            )  # fmt: skip
    return table


def _topic(name: str, queues: int, perm: int = PERM_RW) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def initial_topics(config: BrokerConfig) -> list[TopicConfig]:
    """Return the topics that a broker creates at its start."""
    inherited = PERM_INHERIT | PERM_RW
    cluster, broker = config.broker_cluster_name, config.broker_name
    topics = [
        _topic(names.SELF_TEST_TOPIC, 1),
        _topic(names.BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        _topic(cluster, 16, inherited if config.cluster_topic_enable else PERM_INHERIT),
        _topic(broker, 1, inherited if config.broker_topic_enable else PERM_INHERIT),
        _topic(names.OFFSET_MOVED_TOPIC, 1),
        _topic(names.SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        _topic(names.reply_topic(cluster), 1),
        _topic(f"rmq_sys_REVIVE_LOG_{cluster}", config.revive_queue_num),
        _topic(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, PERM_INHERIT),
        _topic(names.HALF_TOPIC, 1),
        _topic(names.OP_HALF_TOPIC, 1),
        _topic(names.TIMER_TOPIC, 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(_topic(names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, inherited))
    if config.trace_topic_enable:
        topics.append(_topic(config.msg_trace_topic_name, 1))
    return topics


def is_readable(perm: int) -> bool:
    """True if a permission allows reading."""
    return bool(perm & PERM_READ)


def is_writable(perm: int) -> bool:
    """True if a permission allows writing."""
    return bool(perm & PERM_WRITE)


def perm_text(perm: int) -> str:
    """Format a permission as Java prints it, for example ``RW-``."""
    marks = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))
    return "".join(mark if perm & bit else "-" for bit, mark in marks)


def topic_text(topic: TopicConfig) -> str:
    """Format a topic as Java prints it in remarks."""
    attributes = ", ".join(f"{name}={value}" for name, value in topic.attributes.items())
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm_text(topic.perm)}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={'true' if topic.order else 'false'}, attributes={{{attributes}}}]"
    )
