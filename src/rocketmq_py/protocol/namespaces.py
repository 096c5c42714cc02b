"""Namespaces of version 1: a prefix of the names of topics and groups that only clients know (NamespaceUtil).

``orders`` in namespace ``shop`` is ``shop%orders``; its retry and dead-letter topics are ``%RETRY%shop%group`` and
``%DLQ%shop%group``. The brokers' own topics and groups have no namespace.
"""

from __future__ import annotations

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol import names

SEPARATOR = "%"


def check_namespace(namespace: str | None) -> str | None:
    """Return ``namespace``.

    :raises ConfigError: it cannot be part of the name of a topic.
    """
    if namespace is not None and (not names.is_legal(namespace) or SEPARATOR in namespace):
        raise ConfigError(f"the namespace {namespace!r} contains illegal characters, allowed are ^[|a-zA-Z0-9_-]+$")
    return namespace


def with_namespace(namespace: str | None, name: str) -> str:
    """Return the name of a topic or group as servers know it.

    :param name: without the namespace; a name that has it already is returned unchanged.
    """
    if not namespace or not name or _is_system(name):
        return name
    prefix, rest = _split(name)
    return name if rest.startswith(namespace + SEPARATOR) else f"{prefix}{namespace}{SEPARATOR}{rest}"


def retry_topic_with_namespace(namespace: str | None, group: str) -> str:
    """Return the retry topic of a group as servers know it."""
    return names.retry_topic(with_namespace(namespace, group))


def without_namespace(namespace: str | None, name: str) -> str:
    """Return the name of a topic or group as applications know it; a name in another namespace unchanged."""
    prefix, rest = _split(name)
    if not namespace or _is_system(name) or not rest.startswith(namespace + SEPARATOR):
        return name
    return prefix + rest.removeprefix(namespace + SEPARATOR)


def namespace_of(name: str) -> str:
    """Return the namespace of a topic or group; empty if it has none."""
    found, separator, _ = _split(name)[1].partition(SEPARATOR)
    return found if separator and not _is_system(name) else ""


def queue_without_namespace(namespace: str | None, queue: MessageQueue) -> MessageQueue:
    """Return a queue as applications know it."""
    return queue if not namespace else queue._replace(topic=without_namespace(namespace, queue.topic))


def _split(name: str) -> tuple[str, str]:
    """Split off the prefix of a retry or dead-letter topic; a name may have both, in this order."""
    prefix = ""
    for known in (names.RETRY_PREFIX, names.DLQ_PREFIX):
        if name.startswith(prefix + known):
            prefix += known
    return prefix, name.removeprefix(prefix)


def _is_system(name: str) -> bool:
    """True if Java leaves the name as it is (TopicValidator.isSystemTopic, MixAll.isSysConsumerGroup)."""
    return names.is_system_topic(name) or name.startswith(names.SYSTEM_GROUP_PREFIX)
