"""Names of topics and consumer groups: prefixes, system names, validity."""

from __future__ import annotations

import re

from rocketmq_py.errors import ConfigError

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
TIMER_TOPIC = "rmq_sys_wheel_timer"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
REPLY_MESSAGE_TYPE = "reply"
"""Value of the property MSG_TYPE of reply messages."""

SYSTEM_TOPICS = frozenset(
    {AUTO_CREATE_TOPIC, SCHEDULE_TOPIC, BENCHMARK_TOPIC, HALF_TOPIC, TRACE_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC,
     SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC, CHECKPOINT_TOPIC}
)  # fmt: skip
NOT_ALLOWED_TO_SEND = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
)
TOOLS_GROUP = "TOOLS_CONSUMER"
"""The consumer group that every broker has for administration tools."""
SYSTEM_GROUPS = frozenset(
    {TOOLS_GROUP, "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
     "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"}
)  # fmt: skip
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

MESSAGE_TYPE = "message.type"
"""The attribute of a topic that says which messages it takes."""
MESSAGE_TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "UNSPECIFIED")
"""Types that the command and the console set."""
PERMISSIONS = {"rw": 6, "r": 4, "w": 2, "none": 0}
"""Permissions of a topic by the words of the command and the console."""

MAX_TOPIC_LENGTH = 127
MAX_RETRY_TOPIC_LENGTH = 255
MAX_GROUP_LENGTH = 255
MAX_MESSAGE_SIZE = 4 * 1024 * 1024

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def retry_topic(group: str) -> str:
    """Return the retry topic of a consumer group."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the dead-letter topic of a consumer group, for messages whose retries are used up."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic of the reply messages (request-reply) in a cluster."""
    return f"{cluster}_REPLY_TOPIC"


def is_retry_topic(topic: str) -> bool:
    """Return True if a topic is the retry topic of a consumer group."""
    return topic.startswith(RETRY_PREFIX)


def is_system_topic(topic: str) -> bool:
    """Return True if a topic is an internal topic of brokers."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Return True if a consumer group is an internal group of brokers."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_legal(name: str) -> bool:
    """Return True if the name of a topic or group contains only allowed characters and is not empty."""
    return _LEGAL.fullmatch(name) is not None


def topic_fault(topic: str) -> str | None:
    """Return why a topic name is illegal; None if it is legal."""
    if not topic or topic.isspace():
        return "the topic name is empty"
    if not _LEGAL.fullmatch(topic):
        return f"the topic name {topic!r} contains illegal characters, allowed are ^[%|a-zA-Z0-9_-]+$"
    if len(topic) > MAX_TOPIC_LENGTH:
        return f"the topic name is {len(topic)} characters long, {MAX_TOPIC_LENGTH} are allowed"
    return None


def check_topic(topic: str) -> str:
    """Check the name of a topic and return it unchanged.

    :raises ConfigError: the name is empty, too long or contains illegal characters.
    """
    fault = topic_fault(topic)
    if fault:
        raise ConfigError(fault)
    return topic


def check_group(group: str) -> str:
    """Check the name of a producer or consumer group and return it unchanged.

    :raises ConfigError: the name is empty, too long or contains illegal characters.
    """
    if not group or group.isspace():
        raise ConfigError("the group name is empty")
    if not _LEGAL.fullmatch(group):
        raise ConfigError(f"the group name {group!r} contains illegal characters, allowed are ^[%|a-zA-Z0-9_-]+$")
    if len(group) > MAX_GROUP_LENGTH:
        raise ConfigError(f"the group name is {len(group)} characters long, {MAX_GROUP_LENGTH} are allowed")
    return group
