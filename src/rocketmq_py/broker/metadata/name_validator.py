"""Checks of topic and group names; remarks are Java's (TopicValidator) where Java refuses a name."""

from __future__ import annotations

import logging
from typing import TypeVar

from rocketmq_py.broker import remarks
from rocketmq_py.core.paths import component_fault, quoted_name
from rocketmq_py.protocol import names

_log = logging.getLogger(__name__)

_ALLOWED = "^[%|a-zA-Z0-9_-]+$"
T = TypeVar("T")


def topic_fault(topic: str) -> str | None:
    """Return an error message if a topic name is invalid, otherwise None."""
    if not topic or topic.isspace():
        return "The specified topic is blank."
    if not names.is_legal(topic):
        return f"The specified topic: {topic}, contains illegal characters, allowing only {_ALLOWED}"
    of_group = topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX))
    if of_group and len(topic) > remarks.RETRY_TOPIC_MAX_LENGTH:
        return (
            f"The specified topic is DLQ or Retry topic: {topic}, and it's longer than topic max length: "
            f"{remarks.RETRY_TOPIC_MAX_LENGTH}"
        )
    if not of_group and len(topic) > remarks.TOPIC_MAX_LENGTH:
        return f"The specified topic: {topic}, is longer than topic max length: {remarks.TOPIC_MAX_LENGTH}"
    return None


def folder_fault(topic: str) -> str | None:
    """Return why a name cannot be the folder of a topic; None if it can.

    A Java broker deletes topics of any name, and topics named after brokers and clusters may break its own rules for
    new topics, so requests to delete check no more than this.
    """
    if not topic or topic.isspace():
        return "The specified topic is blank."
    fault = component_fault(topic)
    return (
        None if fault is None else f"The specified topic: {quoted_name(topic)} cannot be the name of a folder: {fault}"
    )


def without_unsafe(names_of: str, table: dict[str, T]) -> dict[str, T]:
    """Return the entries of a table whose names can be folder names; log the number of the others, if any.

    :param names_of: a description of the names, for the warning.
    """
    unsafe = [name for name in table if component_fault(name) is not None]
    if not unsafe:
        return table
    _log.warning("%d %s with names that cannot be folder names are ignored, for example %s",
                 len(unsafe), names_of, quoted_name(unsafe[0]))  # fmt: skip
    return {name: entry for name, entry in table.items() if component_fault(name) is None}


def group_fault(group: str) -> str | None:
    """Return an error message if the name of a consumer group is invalid, otherwise None."""
    if not group or group.isspace():
        return "The specified group is blank."
    if not names.is_legal(group):
        return f"The specified group: {group}, contains illegal characters, allowing only {_ALLOWED}"
    if len(group) > names.MAX_GROUP_LENGTH:
        return f"The specified group: {group}, is longer than group max length: {names.MAX_GROUP_LENGTH}"
    return None
