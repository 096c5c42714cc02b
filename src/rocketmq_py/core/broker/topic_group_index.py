"""Keys of tables that are about a topic and a group, found by either of the two.

A table of thousands of topics is asked, and rid, of what belongs to one of them; looking at every key for that makes
deleting many topics quadratic. Refuses to know what the tables hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TopicGroupIndex(Generic[K]):
    """Which keys there are about a topic, and which about a group.

    What a method gives costs as much as it holds, however many other keys there are.
    """

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[K, str]] = {}
        self._by_group: dict[str, dict[K, str]] = {}

    def add(self, key: K, topic: str, group: str = "") -> None:
        """A key is in use; harmless when it is known.

        :param group: empty for a key about a topic alone.
        """
        self._by_topic.setdefault(topic, {})[key] = group
        if group:
            self._by_group.setdefault(group, {})[key] = topic

    def of_topic(self, topic: str) -> Mapping[K, str]:
        """The keys about a topic, each with its group."""
        return self._by_topic.get(topic, {})

    def of_group(self, group: str) -> Mapping[K, str]:
        """The keys about a group, each with its topic."""
        return self._by_group.get(group, {})

    def take_topic(self, topic: str) -> dict[K, str]:
        """Forget the keys about a topic; which they were, each with its group."""
        return _take(topic, self._by_topic, self._by_group)

    def take_group(self, group: str) -> dict[K, str]:
        """Forget the keys about a group; which they were, each with its topic."""
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
