"""Namespaces of version 1: a prefix that clients add to topics and groups, and servers know nothing of (NamespaceUtil).

``orders`` in namespace ``shop`` is ``shop%orders``; its retry and dead-letter topics are ``%RETRY%shop%group`` and
``%DLQ%shop%group``. System topics and groups have no namespace.
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
    """The name of a topic or group as servers know it.

    :param name: without the namespace; a name that has it already stays as it is.
    """
    if not namespace or names.is_system_topic(name) or names.is_system_group(name):
        return name
    prefix, rest = _split(name)
    return name if rest.startswith(namespace + SEPARATOR) else f"{prefix}{namespace}{SEPARATOR}{rest}"


def without_namespace(namespace: str | None, name: str) -> str:
    """The name of a topic or group as applications know it."""
    if not namespace:
        return name
    prefix, rest = _split(name)
    return prefix + rest.removeprefix(namespace + SEPARATOR)


def queue_without_namespace(namespace: str | None, queue: MessageQueue) -> MessageQueue:
    """A queue as applications know it."""
    return queue if not namespace else queue._replace(topic=without_namespace(namespace, queue.topic))


def _split(name: str) -> tuple[str, str]:
    """The prefix of a retry or dead-letter topic, and what comes after it."""
    for prefix in (names.RETRY_PREFIX, names.DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
