"""Namespaces of version 1: clients add the namespace as a prefix to the names of topics and groups (NamespaceUtil).

For servers, topic ``orders`` in namespace ``shop`` is ``shop%orders``; the retry and dead-letter topics of ``group``
are ``%RETRY%shop%group`` and ``%DLQ%shop%group``. Internal topics and groups of brokers have no namespace.
"""

from __future__ import annotations

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol import names

SEPARATOR = "%"


def check_namespace(namespace: str | None) -> str | None:
    """Check a namespace (None for none) and return it unchanged.

    :raises ConfigError: the namespace contains characters that names of topics cannot have, or ``%``.
    """
    if namespace is not None and (not names.is_legal(namespace) or SEPARATOR in namespace):
        raise ConfigError(f"the namespace {namespace!r} contains illegal characters, allowed are ^[|a-zA-Z0-9_-]+$")
    return namespace


def with_namespace(namespace: str | None, name: str) -> str:
    """Return the name of a topic or group with the namespace, as used in requests.

    A name that already has the namespace, or is internal to brokers, is returned unchanged.
    """
    if not namespace or not name or _is_system(name):
        return name
    prefix, rest = _split(name)
    return name if rest.startswith(namespace + SEPARATOR) else f"{prefix}{namespace}{SEPARATOR}{rest}"


def retry_topic_with_namespace(namespace: str | None, group: str) -> str:
    """Return the retry topic of a consumer group with the namespace, as used in requests."""
    return names.retry_topic(with_namespace(namespace, group))


def without_namespace(namespace: str | None, name: str) -> str:
    """Return the name of a topic or group without the namespace; a name in another namespace is returned unchanged."""
    prefix, rest = _split(name)
    if not namespace or _is_system(name) or not rest.startswith(namespace + SEPARATOR):
        return name
    return prefix + rest.removeprefix(namespace + SEPARATOR)


def namespace_of(name: str) -> str:
    """Return the namespace in the name of a topic or group; empty if it has none."""
    found, separator, _ = _split(name)[1].partition(SEPARATOR)
    return found if separator and not _is_system(name) else ""


def queue_without_namespace(namespace: str | None, queue: MessageQueue) -> MessageQueue:
    """Return a queue with the topic's name without the namespace."""
    return queue if not namespace else queue._replace(topic=without_namespace(namespace, queue.topic))


def _split(name: str) -> tuple[str, str]:
    """Split a name into the prefix of a retry topic or dead-letter topic and the rest.

    The prefix is ``%RETRY%``, ``%DLQ%``, ``%RETRY%%DLQ%``, or empty if the name has none of them.
    """
    prefix = ""
    for known in (names.RETRY_PREFIX, names.DLQ_PREFIX):
        if name.startswith(prefix + known):
            prefix += known
    return prefix, name.removeprefix(prefix)


def _is_system(name: str) -> bool:
    """Return True if a name gets no namespace (TopicValidator.isSystemTopic, MixAll.isSysConsumerGroup)."""
    return names.is_system_topic(name) or name.startswith(names.SYSTEM_GROUP_PREFIX)
