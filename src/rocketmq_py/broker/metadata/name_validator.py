"""Names of topics and groups a broker refuses, in Java's words (TopicValidator) where Java refuses them."""

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
    """What is wrong with a topic's name, or None."""
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
    """Why a topic cannot be one of this broker whatever it is called in Java's words, or None.

    A Java broker deletes a topic of any name. Names that are no topics by its rules may be there nevertheless: those of
    brokers and clusters.
    """
    if not topic or topic.isspace():
        return "The specified topic is blank."
    fault = component_fault(topic)
    return (
        None if fault is None else f"The specified topic: {quoted_name(topic)} cannot be the name of a folder: {fault}"
    )


def without_unsafe(names_of: str, table: dict[str, T]) -> dict[str, T]:
    """The entries of a table whose names can be those of folders; one warning tells of the others.

    :param names_of: what the names are, for the warning.
    """
    unsafe = [name for name in table if component_fault(name) is not None]
    if not unsafe:
        return table
    _log.warning("%d %s with names that cannot be those of folders are ignored, %s among them",
                 len(unsafe), names_of, quoted_name(unsafe[0]))  # fmt: skip
    return {name: entry for name, entry in table.items() if component_fault(name) is None}


def group_fault(group: str) -> str | None:
    """What is wrong with a group's name, or None."""
    if not group or group.isspace():
        return "The specified group is blank."
    if not names.is_legal(group):
        return f"The specified group: {group}, contains illegal characters, allowing only {_ALLOWED}"
    if len(group) > names.MAX_GROUP_LENGTH:
        return f"The specified group: {group}, is longer than group max length: {names.MAX_GROUP_LENGTH}"
    return None
