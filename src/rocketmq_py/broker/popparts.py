"""What the parts of a broker that serve pops are built on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.broker.config import BrokerConfig
from rocketmq_py.broker.confirming import Confirming
from rocketmq_py.broker.groups import Groups
from rocketmq_py.broker.offsets import Offsets
from rocketmq_py.broker.stats import Stats
from rocketmq_py.broker.topics import Topics
from rocketmq_py.store import MessageStore


class PopParts(NamedTuple):
    """``store_host`` is this broker's packed address, ``clock`` the time in milliseconds."""

    config: BrokerConfig
    store: MessageStore
    topics: Topics
    groups: Groups
    offsets: Offsets
    stats: Stats
    store_host: bytes
    clock: Callable[[], int]
    confirming: Confirming | None
