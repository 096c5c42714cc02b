"""Headers of requests about consumer groups, producer groups and their clients."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import TopicHeader
from rocketmq_py.wire.integers import Int32


class UnregisterClient(TopicHeader, kw_only=True, rename={
    "bname": "bname", "ns": "ns", "nsd": "nsd", "client_id": "clientID", "producer_group": "producerGroup",
    "consumer_group": "consumerGroup",
}):  # fmt: skip
    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class GroupHeader(TopicHeader, kw_only=True):
    """A request about a consumer group, without other fields (request codes 38, 40, 203)."""

    consumer_group: str


class ProducerGroupHeader(TopicHeader, kw_only=True):
    producer_group: str


class GetConsumerRunningInfo(TopicHeader, kw_only=True):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectly(TopicHeader, kw_only=True):
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class ConsumerStatus(TopicHeader, kw_only=True):
    topic: str
    group: str
    client_addr: str | None = None


class DeleteGroup(TopicHeader, kw_only=True):
    group_name: str
    clean_offset: bool = False


class GroupName(TopicHeader, kw_only=True):
    group: str


class GetConsumeStats(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GroupAndTopic(TopicHeader, kw_only=True):
    """Asks for the subscription of a consumer group to a topic (request code 345)."""

    group: str
    topic: str


class GroupForbidden(TopicHeader, kw_only=True):
    """Allows or forbids a group to read a topic, or only asks if it may, if ``readable`` is None (request code 353)."""

    group: str
    topic: str
    readable: bool | None = None
