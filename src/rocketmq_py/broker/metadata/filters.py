"""Filter expressions of consumer groups by topic, and the file ``consumerFilter.json``.

The rules are Java's (ConsumerFilterManager): a newer expression replaces an older one; an expression stays for a day
after its group has left; it is dropped when a newer one is illegal. Tag filters are not stored. Bloom filters are
not used: expressions are evaluated on the messages. The bits of a group are written to the file nevertheless, because
Java brokers discard a file without them. Unlike Java, an expression is compiled by the first pull that needs it, not by
the heartbeat or the start that brings it, so that neither slows down with the number of groups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.core.consumer.subscription import SQL92, is_tag_type
from rocketmq_py.core.sql92 import SqlFilter, check_length, compile_sql
from rocketmq_py.errors import BadHeader, ConfigError, shortened
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.server.sliced_work import at_once
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.entry_file import EntryFile, grouped
from rocketmq_py.wire.fastjson import pretty, pretty_object
from rocketmq_py.wire.murmur import murmur3_64

_log = logging.getLogger(__name__)

_INT = 0xFFFFFFFF
_COST_OF_A_CHARACTER = 2
_ABSENT_MS = 30_000
"""Groups loaded from the file are treated as disconnected since this time before the start."""
_BLOOM_BITS, _BLOOM_HASHES = 112, 3
"""Java's values for 32 groups (expectConsumerNumUseFilter) and 20 % errors (maxErrorRateOfBloomFilter)."""


FilterKey = tuple[str, str]
"""Topic and group of an expression."""


class FilterData(Body, kw_only=True):
    """The expression of one group for one topic; an entry of ``consumerFilter.json``.

    ``dead_time`` is when the group left, 0 while it is online; ``client_version`` is the subscription's version.
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


FilterFile = EntryFile[FilterKey, FilterData]
FilterChanges = Mapping[FilterKey, FilterData | None]


def compile_filter(expression_type: str, expression: str) -> SqlFilter:
    """Compile an SQL92 expression.

    :raises ConfigError: the type is unknown or the expression is illegal.
    """
    _check(expression_type, expression)
    return compile_sql(expression)


def _check(expression_type: str, expression: str) -> None:
    """Check type and length, without parsing the expression.

    :raises ConfigError: the type is unknown or the expression is too long.
    """
    if expression_type != SQL92:
        raise ConfigError(f"expression type {shortened(expression_type)!r} is not known; TAG and SQL92 are")
    check_length(expression)


def bloom_data(group: str, topic: str) -> dict[str, Any]:
    """Return the bits of a group in Java's Bloom filter of a topic, in the form of the file (BloomFilter.generate)."""
    found = murmur3_64(f"{group}#{topic}".encode())
    low, high = found & _INT, found >> 32
    places = [(low + i * high) & _INT for i in range(1, _BLOOM_HASHES + 1)]
    positive = [place ^ _INT if place > _INT >> 1 else place for place in places]
    return {"bitNum": _BLOOM_BITS, "bitPos": [place % _BLOOM_BITS for place in positive]}


class ConsumerFilters:
    """Filter expressions of consumer groups, by topic and group.

    :param file: ``consumerFilter.json``.
    :param keep_ms: how long expressions stay after their group has left (filterDataCleanTimeSpan).
    :param clock: returns the time in milliseconds.
    :param save: writes the file. It is called every few seconds and should not wait for the disk.
    """

    def __init__(
        self,
        file: ConfigFile,
        keep_ms: int,
        clock: Callable[[], int],
        save: Callable[[FilterFile, FilterChanges], None] = EntryFile.save,
    ) -> None:
        self._file: FilterFile = EntryFile(file, _text, _content)
        self._keep_ms = keep_ms
        self._clock = clock
        self._save = save
        self._changed: dict[FilterKey, None] = {}
        """Keys of the expressions of which the file does not have the present state."""
        self._topics: dict[str, set[str]] = {}
        """By group: the topics for which it has an expression."""
        self.table: dict[str, dict[str, FilterData]] = {}

    # -- the file

    def load(self) -> None:
        """Load the file; all its groups are treated as disconnected until their next heartbeat."""
        for topic, group, entry in self._file.load(_entries) or ():
            self._take_over(topic, group, entry)

    def _take_over(self, topic: str, group: str, entry: Any) -> None:
        try:
            data = FilterData.convert(entry)
            _check(data.expression_type, data.expression)
        except (BadHeader, ConfigError) as e:
            _log.warning("the filter of group %s for topic %s is not loaded: %s", group, topic, e)
            return
        if not data.dead_time:
            data.dead_time = max(self._clock() - _ABSENT_MS, data.born_time)
        self._store(topic, group, data)

    def persist(self) -> None:
        """Drop expired entries, and write the file if anything changed."""
        at_once(self.persist_in_steps())

    def persist_in_steps(self) -> Iterator[None]:
        """As :meth:`persist`, with one entry in each step; the table may change between two steps."""
        yield from self._clean()
        if self._changed:
            changed, self._changed = self._changed, {}
            self._save(self._file, {key: self.get(*key) for key in changed})

    def _clean(self) -> Iterator[None]:
        before = self._clock() - self._keep_ms
        for topic, groups in list(self.table.items()):
            for group in list(groups):
                data = groups.get(group)
                if data is not None and data.is_dead and data.dead_time <= before:
                    self._remove(topic, group)
                yield

    # -- queries and changes

    def get(self, topic: str, group: str) -> FilterData | None:
        """Return a group's expression for a topic; None if the group filters by tag, or its expression was illegal."""
        return self.table.get(topic, {}).get(group)

    def compiled(self, topic: str, group: str) -> SqlFilter | None:
        """Return a group's compiled filter for a topic; None if the group filters by tag, or its expression is illegal.

        An illegal expression is dropped here; a Java broker drops it when a heartbeat registers it.
        """
        data = self.get(topic, group)
        if data is None:
            return None
        try:
            return compile_filter(data.expression_type, data.expression)
        except ConfigError as e:
            _log.warning("group %s cannot filter topic %s: %s", group, topic, e)
            self._remove(topic, group)
            return None

    def highest_cost(self, group: str) -> int:
        """Return the highest estimated cost of evaluating one of a group's expressions, 2 per character of its text.

        Returns 1 if the group has no expression.
        """
        found = (self.table[topic][group] for topic in self._topics.get(group, ()))
        return max((_COST_OF_A_CHARACTER * len(data.expression) for data in found), default=1)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Register the expressions in a group's subscriptions.

        Expressions of the group for topics that are not among these are marked as dead: dropped after ``keep_ms``.

        :param subscriptions: all subscriptions of the group, from a heartbeat.
        """
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_tag_type(subscription.expression_type) and subscription.sub_string:
                self._register(group, subscription)
        self._mark_dead(group, but=topics)

    def unregister(self, group: str) -> None:
        """Mark all expressions of a group as dead (dropped after ``keep_ms``), because its last member has left."""
        self._mark_dead(group, but=set())

    def _register(self, group: str, wanted: SubscriptionData) -> None:
        known = self.get(wanted.topic, group)
        if known is None:
            self._put(group, wanted)
        elif wanted.sub_version < known.client_version:
            return
        elif wanted.sub_version == known.client_version:
            if known.dead_time:
                known.dead_time = 0
                self._note(wanted.topic, group)
        elif (wanted.sub_string, wanted.expression_type) == (known.expression, known.expression_type):
            known.client_version, known.dead_time = wanted.sub_version, 0
            self._note(wanted.topic, group)
        else:
            self._put(group, wanted)

    def _put(self, group: str, wanted: SubscriptionData) -> None:
        topic = wanted.topic
        try:
            _check(wanted.expression_type, wanted.sub_string)
        except ConfigError as e:
            _log.warning("group %s cannot filter topic %s: %s", group, topic, e)
            self._remove(topic, group)
            return
        _log.info("group %s filters topic %s by %s", group, topic, shortened(wanted.sub_string))
        data = FilterData(
            topic=topic, consumer_group=group, expression=wanted.sub_string, expression_type=wanted.expression_type,
            client_version=wanted.sub_version, born_time=self._clock(), bloom_filter_data=bloom_data(group, topic),
        )  # fmt: skip
        self._store(topic, group, data)

    def _store(self, topic: str, group: str, data: FilterData) -> None:
        self.table.setdefault(topic, {})[group] = data
        self._topics.setdefault(group, set()).add(topic)
        self._note(topic, group)

    def _note(self, topic: str, group: str) -> None:
        """Note that an expression has changed."""
        self._changed[topic, group] = None

    def _remove(self, topic: str, group: str) -> None:
        groups = self.table.get(topic, {})
        if groups.pop(group, None) is None:
            return
        if not groups:
            del self.table[topic]
        topics = self._topics[group]
        topics.discard(topic)
        if not topics:
            del self._topics[group]
        self._note(topic, group)

    def _mark_dead(self, group: str, but: set[str]) -> None:
        for topic in self._topics.get(group, ()):
            data = self.table[topic][group]
            if topic not in but and not data.is_dead:
                data.dead_time = self._clock()
                self._note(topic, group)


def _text(data: FilterData) -> str:
    """Encode an entry for the file; in a thread, so that all of it comes from one copy of the entry."""
    entry = bean(data)
    return pretty(dict(sorted({**entry, "dead": entry["deadTime"] >= entry["bornTime"]}.items())), 4)


def _content(texts: Mapping[FilterKey, str]) -> str:
    """Return the content of the file."""
    topics = {
        topic: pretty_object({"groupFilterData": pretty_object(groups, 3), "topic": pretty(topic, 3)}, 2)
        for topic, groups in grouped(texts).items()
    }
    return pretty_object({"filterDataByTopic": pretty_object(topics, 1)}, 0)


def _entries(tree: Any) -> list[tuple[str, str, Any]]:
    """Topic, group and filter of each entry in the content of the file."""
    return [
        (topic, group, entry)
        for topic, groups in (tree.get("filterDataByTopic") or {}).items()
        for group, entry in ((groups or {}).get("groupFilterData") or {}).items()
    ]
