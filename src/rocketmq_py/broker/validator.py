"""Names of topics and groups a broker refuses, in Java's words (TopicValidator)."""

from __future__ import annotations

from rocketmq_py.broker import remarks
from rocketmq_py.protocol import names

_ALLOWED = "^[%|a-zA-Z0-9_-]+$"


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


def group_fault(group: str) -> str | None:
    """What is wrong with a group's name, or None."""
    if not group or group.isspace():
        return "The specified group is blank."
    if not names.is_legal(group):
        return f"The specified group: {group}, contains illegal characters, allowing only {_ALLOWED}"
    if len(group) > names.MAX_GROUP_LENGTH:
        return f"The specified group: {group}, is longer than group max length: {names.MAX_GROUP_LENGTH}"
    return None
