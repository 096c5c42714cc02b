"""What the parts of a broker that serve pops are built on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.send.ack_waiter import AckWaiter
from rocketmq_py.broker.stats import Stats
from rocketmq_py.store import MessageStore


class PopOffsets(Protocol):
    """What pops ask of offsets; see :class:`~rocketmq_py.broker.metadata.offsets.ConsumerOffsets`."""

    def query(self, group: str, topic: str, queue_id: int) -> int: ...
    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str) -> None: ...
    def has_reset(self, group: str, topic: str, queue_id: int) -> bool: ...
    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None: ...


class PopParts(NamedTuple):
    """``store_host`` is this broker's packed address, ``clock`` the time in milliseconds."""

    config: BrokerConfig
    store: MessageStore
    topics: TopicConfigs
    groups: SubscriptionGroups
    offsets: PopOffsets
    stats: Stats
    store_host: bytes
    clock: Callable[[], int]
    confirming: AckWaiter | None
