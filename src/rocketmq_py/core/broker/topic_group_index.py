"""An index of keys that belong to a topic and a consumer group, by topic and by group.

Without it, deleting a topic would scan the keys of all topics, and deleting many topics would take quadratic time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TopicGroupIndex(Generic[K]):
    """Finds the keys of a table, such as counters or offsets, that belong to a topic or to a consumer group.

    The owner of the table calls :meth:`add` for each of its keys, with the topic and group of the key. The cost of a
    method depends on the number of keys it returns, not on the size of the index.
    """

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[K, str]] = {}
        self._by_group: dict[str, dict[K, str]] = {}

    def add(self, key: K, topic: str, group: str = "") -> None:
        """Add a key of the table under its topic and its consumer group; no effect if it was added before.

        :param key: the table's key; any hashable value.
        :param group: empty for a key that belongs to a topic only.
        """
        self._by_topic.setdefault(topic, {})[key] = group
        if group:
            self._by_group.setdefault(group, {})[key] = topic

    def of_topic(self, topic: str) -> Mapping[K, str]:
        """Return the keys that were added with this topic, each with its consumer group (may be empty)."""
        return self._by_topic.get(topic, {})

    def of_group(self, group: str) -> Mapping[K, str]:
        """Return the keys that were added with this consumer group, each with its topic."""
        return self._by_group.get(group, {})

    def take_topic(self, topic: str) -> dict[K, str]:
        """Remove the keys that were added with this topic; return them, each with its consumer group (may be empty)."""
        return _take(topic, self._by_topic, self._by_group)

    def take_group(self, group: str) -> dict[K, str]:
        """Remove the keys that were added with this consumer group; return them, each with its topic."""
        return _take(group, self._by_group, self._by_topic)


def _take(name: str, own: dict[str, dict[K, str]], others: dict[str, dict[K, str]]) -> dict[K, str]:
    taken = own.pop(name, {})
    for key, other in taken.items():
        if other:
            keys = others[other]
            del keys[key]
            if not keys:
                del others[other]
    return taken
