"""Consumer groups that filter by expression: what each asks for in each topic, and ``consumerFilter.json``.

Knows Java's rules (ConsumerFilterManager): a group's expression is replaced by newer ones only, stays for a day after
the group has gone, and is forgotten when a newer one does not compile. Refuses to know tags, and to filter by bloom
filters: expressions are asked about the messages themselves. A group's bits are in the file for Java brokers, which
throw a file without them away. Unlike there, an expression is compiled when the first pull needs it, and not by the
heartbeat or the start that brings it: neither takes longer for what many groups ask for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.core.consumer.subscription import SQL92, is_tag_type
from rocketmq_py.core.sql92 import SqlFilter, check_length, compile_sql
from rocketmq_py.errors import BadHeader, ConfigError, shortened
from rocketmq_py.protocol.bodies.common import Body, SubscriptionData
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.murmur import murmur3_64

_log = logging.getLogger(__name__)

_INT = 0xFFFFFFFF
_COST_OF_A_CHARACTER = 2
_ABSENT_MS = 30_000
"""How long before a start its groups are taken to have gone."""
_BLOOM_BITS, _BLOOM_HASHES = 112, 3
"""What 32 groups (expectConsumerNumUseFilter) and 20 % of errors (maxErrorRateOfBloomFilter) come to."""


class FilterData(Body, kw_only=True):
    """What one group asks for in one topic; an entry of ``consumerFilter.json``.

    ``dead_time`` is when the group left, 0 while it is there; ``client_version`` that of the subscription.
    """

    topic: str
    consumer_group: str
    expression: str
    expression_type: str
    client_version: int = 0
    born_time: int = 0
    dead_time: int = 0
    bloom_filter_data: dict[str, Any] | None = None

    @property
    def is_dead(self) -> bool:
        return self.dead_time >= self.born_time


def compile_filter(expression_type: str, expression: str) -> SqlFilter:
    """The filter of an expression of any type but tags.

    :raises ConfigError: the type is not known, or the expression is illegal.
    """
    _check(expression_type, expression)
    return compile_sql(expression)


def _check(expression_type: str, expression: str) -> None:
    """Refuses what can be refused without reading the expression."""
    if expression_type != SQL92:
        raise ConfigError(f"expression type {shortened(expression_type)!r} is not known; TAG and SQL92 are")
    check_length(expression)


def bloom_data(group: str, topic: str) -> dict[str, Any]:
    """The bits of a group in Java's bloom filter of a topic (BloomFilter.generate)."""
    found = murmur3_64(f"{group}#{topic}".encode())
    low, high = found & _INT, found >> 32
    places = [(low + i * high) & _INT for i in range(1, _BLOOM_HASHES + 1)]
    positive = [place ^ _INT if place > _INT >> 1 else place for place in places]
    return {"bitNum": _BLOOM_BITS, "bitPos": [place % _BLOOM_BITS for place in positive]}


class ConsumerFilters:
    """Filter data by topic and group.

    :param file: ``consumerFilter.json``.
    :param keep_ms: how long a group's data is kept after it has gone (filterDataCleanTimeSpan).
    :param clock: the time in milliseconds.
    :param save: writes the file; called every few seconds, so it should not wait for the disk.
    """

    def __init__(
        self,
        file: ConfigFile,
        keep_ms: int,
        clock: Callable[[], int],
        save: Callable[[ConfigFile, Any], None] = ConfigFile.save,
    ) -> None:
        self._file = file
        self._keep_ms = keep_ms
        self._clock = clock
        self._save = save
        self._saved: dict[str, Any] = {}
        self.table: dict[str, dict[str, FilterData]] = {}

    # -- the file

    def load(self) -> None:
        """Take over what the file holds; all groups in it have gone."""
        self._saved = self._file.load() or {}
        for topic, groups in (self._saved.get("filterDataByTopic") or {}).items():
            for group, entry in ((groups or {}).get("groupFilterData") or {}).items():
                self._take_over(topic, group, entry)

    def _take_over(self, topic: str, group: str, entry: Any) -> None:
        try:
            data = FilterData.convert(entry)
            _check(data.expression_type, data.expression)
        except (BadHeader, ConfigError) as e:
            _log.warning("what group %s filters in topic %s is not taken over: %s", group, topic, e)
            return
        if not data.dead_time:
            data.dead_time = max(self._clock() - _ABSENT_MS, data.born_time)
        self.table.setdefault(topic, {})[group] = data

    def persist(self) -> None:
        """Forget who left long ago, and write the file when anything changed."""
        self._clean()
        tree = self.tree()
        if tree != self._saved and (self.table or self._saved):
            self._saved = tree
            self._save(self._file, tree)

    def tree(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "filterDataByTopic": {
                topic: {"groupFilterData": {group: _entry(data) for group, data in groups.items()}, "topic": topic}
                for topic, groups in self.table.items()
            }
        }

    def _clean(self) -> None:
        before = self._clock() - self._keep_ms
        for topic, groups in list(self.table.items()):
            for group, data in list(groups.items()):
                if data.is_dead and data.dead_time <= before:
                    del groups[group]
            if not groups:
                del self.table[topic]

    # -- who asks for what

    def get(self, topic: str, group: str) -> FilterData | None:
        """What a group asks for in a topic; None when it filters by tag or its expression is known to be illegal."""
        return self.table.get(topic, {}).get(group)

    def compiled(self, topic: str, group: str) -> SqlFilter | None:
        """The filter of what a group asks for in a topic; None when it filters by tag.

        An illegal expression is forgotten, as Java's brokers forget it when they hear of it.
        """
        data = self.get(topic, group)
        if data is None:
            return None
        try:
            return compile_filter(data.expression_type, data.expression)
        except ConfigError as e:
            _log.warning("group %s cannot filter topic %s: %s", group, topic, e)
            del self.table[topic][group]
            return None

    def highest_cost(self, group: str) -> int:
        """The most an expression of a group may cost, whichever of its topics it is of, from the longest text."""
        found = (groups[group] for groups in self.table.values() if group in groups)
        return max((_COST_OF_A_CHARACTER * len(data.expression) for data in found), default=1)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Take in the subscriptions of a heartbeat, which are all the group has."""
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_tag_type(subscription.expression_type) and subscription.sub_string:
                self._register(group, subscription)
        self._mark_dead(group, but=topics)

    def unregister(self, group: str) -> None:
        """The last member of a group has gone."""
        self._mark_dead(group, but=set())

    def _register(self, group: str, wanted: SubscriptionData) -> None:
        known = self.get(wanted.topic, group)
        if known is None:
            self._put(group, wanted)
        elif wanted.sub_version < known.client_version:
            return
        elif wanted.sub_version == known.client_version:
            known.dead_time = 0
        elif (wanted.sub_string, wanted.expression_type) == (known.expression, known.expression_type):
            known.client_version, known.dead_time = wanted.sub_version, 0
        else:
            self._put(group, wanted)

    def _put(self, group: str, wanted: SubscriptionData) -> None:
        topic = wanted.topic
        try:
            _check(wanted.expression_type, wanted.sub_string)
        except ConfigError as e:
            _log.warning("group %s cannot filter topic %s: %s", group, topic, e)
            self.table.get(topic, {}).pop(group, None)
            return
        _log.info("group %s filters topic %s by %s", group, topic, shortened(wanted.sub_string))
        self.table.setdefault(topic, {})[group] = FilterData(
            topic=topic, consumer_group=group, expression=wanted.sub_string, expression_type=wanted.expression_type,
            client_version=wanted.sub_version, born_time=self._clock(), bloom_filter_data=bloom_data(group, topic),
        )  # fmt: skip

    def _mark_dead(self, group: str, but: set[str]) -> None:
        for topic, groups in self.table.items():
            data = groups.get(group)
            if data is not None and topic not in but and not data.is_dead:
                data.dead_time = self._clock()


def _entry(data: FilterData) -> dict[str, Any]:
    return dict(sorted({**bean(data), "dead": data.is_dead}.items()))
