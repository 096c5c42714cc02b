"""The configuration of consumer groups, and the file ``subscriptionGroup.json``.

The rules are Java's (SubscriptionGroupManager). Connected members are in ``cluster.clients``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.java_files import bean, version_of
from rocketmq_py.broker.metadata.name_validator import without_unsafe
from rocketmq_py.broker.metadata.table_file import SavedTable, TableFile
from rocketmq_py.core.queue_limits import clamp_queue_number, retry_queues_fault
from rocketmq_py.errors import ConfigError, shortened
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from rocketmq_py.store.config.config_journal import JournaledFile, Snapshot, Step

_log = logging.getLogger(__name__)

READ_FORBIDDEN = 0x4
"""The bit in a value of the forbidden table that forbids a group to read (PermName.INDEX_PERM_READ is its position)."""

_TABLE = "subscriptionGroupTable"
_FORBIDDEN = "forbiddenTable"

BUILT_IN = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
)  # fmt: skip


class SubscriptionGroups(SavedTable):
    """The table of consumer groups.

    :param file: ``subscriptionGroup.json``.
    :param clock: returns the time in milliseconds, for the version of the table.
    """

    def __init__(self, file: JournaledFile, config: BrokerConfig, clock: Callable[[], int]) -> None:
        self._file = TableFile(file, self._whole)
        self._config = config
        self._clock = clock
        self.version = DataVersion(timestamp=clock())
        self.table = {name: SubscriptionGroupConfig(group_name=name) for name in BUILT_IN}
        self.forbidden: dict[str, dict[str, int]] = {}

    def load(self) -> None:
        """Load the file, and write it if there is none."""
        found = self._file.load(lambda tree: (version_of(tree, self.version), SubscriptionGroupTable.convert(tree)))
        if found is None:
            self.persist()
            return
        self.version, stored = found
        table = without_unsafe(f"groups of {self._file.path}", stored.subscription_group_table)
        self.table |= _within_limits(table, "its file")
        self.forbidden = stored.forbidden_table
        self.catch_up()

    def _whole(self) -> Snapshot:
        version, table = bean(self.version), dict(self.table)
        forbidden = {group: dict(topics) for group, topics in self.forbidden.items()}

        def content() -> dict[str, object]:
            groups = {name: bean(group) for name, group in table.items()}
            return {"dataVersion": version, _FORBIDDEN: forbidden, _TABLE: groups}

        return Snapshot(version, content)

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        return self.table.get(group)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the configuration of a group, which is created if it does not exist; None if it may not be created."""
        found = self.table.get(group)
        return found if found is not None else self.find_all([group]).get(group)

    def find_all(self, groups: Iterable[str]) -> dict[str, SubscriptionGroupConfig]:
        """Return the configurations of several groups by name; new groups are created and written together.

        Groups that do not exist and may not be created are left out.
        """
        wanted = dict.fromkeys(groups)
        new = [group for group in wanted if group not in self.table and self._may_be_created(group)]
        if new:
            _log.info("consumer groups created: %s", shortened(", ".join(new)))
            self.put(SubscriptionGroupConfig(group_name=group) for group in new)
        return {group: self.table[group] for group in wanted if group in self.table}

    def _may_be_created(self, group: str) -> bool:
        if not self._config.auto_create_subscription_group and not group.startswith(names.SYSTEM_GROUP_PREFIX):
            return False
        try:
            names.check_group(group)
        except ConfigError:
            return False
        return True

    def put(self, groups: Iterable[SubscriptionGroupConfig]) -> list[SubscriptionGroupConfig]:
        """Create or replace groups, write them to disk, and return them."""
        changed = list(groups)
        self.table |= {group.group_name: group for group in changed}
        self._changed({_TABLE: {group.group_name: bean(group) for group in changed}})
        return changed

    def take_over(self, master: SubscriptionGroupTable) -> None:
        """Replace all groups with the master's if its version differs, and write the file."""
        if master.data_version != self.version:
            table = without_unsafe("groups of the master", master.subscription_group_table)
            self.version, self.table = master.data_version, _within_limits(table, "the master")
            self.forbidden = master.forbidden_table
            self._file.rewrite()

    def delete(self, group: str) -> bool:
        """Delete a group and write the file; return False if the group does not exist."""
        if self.table.pop(group, None) is None:
            return False
        self.forbidden.pop(group, None)
        self._changed({_TABLE: {group: None}, _FORBIDDEN: {group: None}})
        return True

    def is_read_forbidden(self, group: str, topic: str) -> bool:
        """True if a group is forbidden to read a topic."""
        return bool(self.forbidden and self.forbidden.get(group, {}).get(topic, 0) & READ_FORBIDDEN)

    def set_read_forbidden(self, group: str, topic: str, forbidden: bool) -> None:
        """Forbid a group to read a topic, or allow it again."""
        topics = self.forbidden.setdefault(group, {})
        topics[topic] = topics.get(topic, 0) & ~READ_FORBIDDEN | (READ_FORBIDDEN if forbidden else 0)
        self._changed({_FORBIDDEN: {group: topics}})

    def _changed(self, step: Step) -> None:
        self.version = self.version.bump(self._clock())
        self._file.change(bean(self.version), step)


def _within_limits(table: dict[str, SubscriptionGroupConfig], teller: str) -> dict[str, SubscriptionGroupConfig]:
    """Reduce numbers of retry queues to the limit, in place; return ``table``.

    :param teller: the source of the table, for the log.
    """
    for name, group in table.items():
        fault = retry_queues_fault(name, group.retry_queue_nums)
        if fault is not None:
            group.retry_queue_nums = clamp_queue_number(group.retry_queue_nums)
            _log.warning("%s says that %s; the broker uses %d", teller, fault, group.retry_queue_nums)
    return table
