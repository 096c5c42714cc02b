"""A cluster in memory with the interface of :class:`~rocketmq_py.client.admin.admin.Admin`.

Tests fill its tables, run a command, and look at ``changes``: the calls that change something, in their order.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.admin.messages import FOREVER, Pulled
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import ConfigError, NetworkError, NoRouteError, NotFound
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo
from rocketmq_py.protocol.bodies.admin import HaStatus, OffsetWrapper, TopicOffset
from rocketmq_py.protocol.bodies.client import ConsumerConnection
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rocketmq_py.protocol.bodies.topic import TopicConfig

MASTER = "10.0.0.1:10911"
"""The address of broker-a."""


class MemoryAdmin(Admin):
    """Starts with one broker, broker-a, and nothing on it."""

    def __init__(self) -> None:  # nothing connects, so there is no client instance
        self.changes: list[tuple[Any, ...]] = []
        self.opened = self.closed = 0
        self.skips_silent: bool | None = None
        self.unreachable: dict[str, NetworkError] = {}
        self.info = ClusterInfo(
            broker_addr_table={"broker-a": BrokerData(cluster="c", broker_name="broker-a", broker_addrs={0: MASTER})},
            cluster_addr_table={"c": ["broker-a"]},
        )
        self.states: dict[str, dict[str, str] | Exception] = {}
        self.configs: dict[str, dict[str, str] | Exception] = {}
        self.replicas: dict[str, HaStatus | Exception] = {}
        self.remark = ""
        self.topic_table: dict[str, dict[str, TopicConfig]] = {}
        self.system: list[str] = []
        self.consuming: dict[str, list[str]] = {}
        self.group_table: dict[str, dict[str, SubscriptionGroupConfig]] = {}
        self.connected: dict[str, ConsumerConnection] = {}
        self.committed: dict[str, dict[MessageQueue, OffsetWrapper]] = defaultdict(dict)
        self.stored: dict[MessageQueue, list[MessageExt]] = defaultdict(list)
        self.deleted_before: dict[MessageQueue, int] = {}
        self.halves: list[MessageExt] = []
        self.given_up: list[MessageExt] = []
        self.user_table: dict[str, UserInfo] = {}
        self.acl_table: dict[str, AclInfo] = {}
        self.locked_elsewhere: set[MessageQueue] = set()
        self.failures: dict[str, Exception] = {}
        """What methods raise, by their names."""
        self.arrived = asyncio.Event()

    def __repr__(self) -> str:
        return "MemoryAdmin()"

    # -- filling

    def add_topic(self, topic: str, queues: int = 1, broker: str = "broker-a", **config: Any) -> TopicConfig:
        made = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, **config)
        self.topic_table.setdefault(topic, {})[broker] = made
        return made

    def add_group(self, group: str, broker: str = "broker-a", **config: Any) -> None:
        self.group_table.setdefault(group, {})[broker] = SubscriptionGroupConfig(group_name=group, **config)

    def add_messages(self, *messages: MessageExt) -> None:
        for message in messages:
            self.stored[message.queue].append(message)

    def commit(self, group: str, queue: MessageQueue, offset: int, end: int = 0, consumed_at: int = 0) -> None:
        self.committed[group][queue] = OffsetWrapper(
            consumer_offset=offset, broker_offset=end, last_timestamp=consumed_at
        )

    def _changed(self, name: str, *args: Any) -> None:
        self.changes.append((name, *args))
        self._check(name)

    def _check(self, name: str) -> None:
        if name in self.failures:
            raise self.failures[name]

    # -- lifetime and brokers

    async def start(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1

    @property
    def silent(self) -> dict[str, NetworkError]:
        return dict(self.unreachable)

    async def cluster(self) -> ClusterInfo:
        self._check("cluster")
        return self.info

    async def broker_state(self, address: str) -> dict[str, str]:
        return _or_raised(self.states.get(address, {}))

    async def broker_config(self, address: str) -> dict[str, str]:
        return dict(_or_raised(self.configs.get(address, {})))

    async def update_broker_config(self, address: str, changes: Mapping[str, str]) -> str:
        self._changed("update_broker_config", address, dict(changes))
        config = _or_raised(self.configs[address])
        config.update((key, value) for key, value in changes.items() if key in config)
        return self.remark

    async def replication(self, address: str) -> HaStatus:
        return _or_raised(self.replicas[address])

    # -- topics

    async def topics(self) -> list[str]:
        self._check("topics")
        return list(self.topic_table)

    async def system_topics(self) -> list[str]:
        return self.system

    async def topic_configs(self, cluster: str | None = None) -> dict[str, dict[str, TopicConfig]]:
        return self.topic_table

    async def topic_config(self, topic: str) -> dict[str, TopicConfig]:
        await self.route(topic)
        return self.topic_table[topic]

    async def topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        return {queue: await self._stats(queue) for queue in await self.queues(topic)}

    async def _stats(self, queue: MessageQueue) -> TopicOffset:
        newest = self.stored[queue][-1].store_timestamp if self.stored[queue] else 0
        return TopicOffset(min_offset=await self.min_offset(queue), max_offset=await self.max_offset(queue),
                           last_update_timestamp=newest)  # fmt: skip

    async def topic_groups(self, topic: str) -> list[str]:
        return self.consuming.get(topic, [])

    async def route(self, topic: str) -> TopicRoute:
        self._check("route")
        if topic not in self.topic_table:
            raise NoRouteError(f"no route of topic {topic}")
        configs = self.topic_table[topic]
        queues = [
            QueueData(broker_name=broker, read_queue_nums=config.read_queue_nums,
                      write_queue_nums=config.write_queue_nums, perm=config.perm)
            for broker, config in configs.items()
        ]  # fmt: skip
        brokers = [data for name, data in self.info.broker_addr_table.items() if name in configs]
        return TopicRoute(topic, TopicRouteData(queue_datas=queues, broker_datas=brokers))

    async def create_topic(
        self, topic: str, queues: int = 8, perm: int = 6, *, read_queues: int | None = None,
        write_queues: int | None = None, order: bool = False, attributes: Mapping[str, str | None] | None = None,
        cluster: str | None = None, brokers: Collection[str] | None = None,
    ) -> None:  # fmt: skip
        read = queues if read_queues is None else read_queues
        write = queues if write_queues is None else write_queues
        where = None if brokers is None else tuple(brokers)
        self._changed("create_topic", topic, read, write, perm, order, dict(attributes or {}), cluster, where)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        self._changed("delete_topic", topic)
        del self.topic_table[topic]

    async def min_offset(self, queue: MessageQueue) -> int:
        return self.deleted_before.get(queue, 0)

    async def max_offset(self, queue: MessageQueue) -> int:
        found = self.stored[queue]
        return found[-1].queue_offset + 1 if found else await self.min_offset(queue)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        later = (message.queue_offset for message in self.stored[queue] if message.store_timestamp >= timestamp_ms)
        return next(later, await self.max_offset(queue))

    # -- groups

    async def groups(self, cluster: str | None = None) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        return self.group_table

    async def delete_group(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        self._changed("delete_group", group, clean_offsets)
        del self.group_table[group]

    async def members(self, group: str) -> ConsumerConnection | None:
        return self.connected.get(group)

    async def progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, OffsetWrapper]:
        self._check("progress")
        found = {queue: state for queue, state in self.committed[group].items() if topic in (None, queue.topic)}
        if topic is None or found:
            return found
        return {queue: OffsetWrapper(broker_offset=await self.max_offset(queue)) for queue in await self.queues(topic)}

    async def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        state = self.committed[group].get(queue)
        return None if state is None else state.consumer_offset

    async def set_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        self._changed("set_group_offset", group, queue, offset)
        self.commit(group, queue, offset)

    async def reset_group_offset(self, group: str, queue: MessageQueue, offset: int) -> int:
        self._changed("reset_group_offset", group, queue, offset)
        self.commit(group, queue, offset)
        return offset

    async def lock_queue(self, group: str, queue: MessageQueue) -> bool:
        self._changed("lock_queue", group, queue)
        return queue not in self.locked_elsewhere

    async def unlock_queue(self, group: str, queue: MessageQueue) -> None:
        self._changed("unlock_queue", group, queue)

    # -- messages

    async def message(self, offset_msg_id: str) -> MessageExt:
        self._check("message")
        if len(offset_msg_id) != 32:
            raise ConfigError(f"{offset_msg_id} is no offset message id")
        found = next((one for one in self._all() if one.offset_msg_id == offset_msg_id), None)
        if found is None:
            raise NotFound(22, "no message there")
        return found

    def _all(self) -> list[MessageExt]:
        return [message for messages in self.stored.values() for message in messages]

    async def messages_by_key(
        self, topic: str, key: str, *, max_messages: int = 64, begin_ms: int = 0, end_ms: int = FOREVER,
        unique: bool = False,
    ) -> list[MessageExt]:  # fmt: skip
        self._check("messages_by_key")
        if topic not in self.topic_table:
            raise NoRouteError(f"no route of topic {topic}")
        found = [
            one for one in self._all()
            if one.topic == topic and (one.msg_id == key or (not unique and key in (one.keys or "").split()))
            and begin_ms <= one.store_timestamp <= end_ms
        ]  # fmt: skip
        return found[-max_messages:]

    async def pull(
        self, queue: MessageQueue, offset: int, *, max_messages: int = 32, tags: str = "*", sql: str | None = None,
        wait: float = 0.0,
    ) -> Pulled:  # fmt: skip
        self.changes.append(("pull", queue, offset, tags, sql, wait))
        while True:
            self._check("pull")
            found = [one for one in self.stored[queue] if one.queue_offset >= offset][:max_messages]
            if found or not wait:
                break
            self.arrived.clear()
            await self.arrived.wait()
        after = found[-1].queue_offset + 1 if found else offset
        return Pulled(found, after, await self.min_offset(queue), await self.max_offset(queue))

    async def read(
        self, queue: MessageQueue, start: int | None = None, stop: int | None = None, *, tags: str = "*",
        sql: str | None = None,
    ) -> AsyncIterator[MessageExt]:  # fmt: skip
        self._check("read")
        end = await self.max_offset(queue) if stop is None else stop
        for message in list(self.stored[queue]):
            if (start or 0) <= message.queue_offset < end:
                yield message

    async def newest(
        self, topic: str, count: int, *, tags: str = "*", sql: str | None = None
    ) -> tuple[list[MessageExt], dict[MessageQueue, int]]:
        self._check("newest")
        queues = await self.queues(topic)
        found = [message for queue in queues for message in self.stored[queue]]
        found.sort(key=lambda message: message.store_timestamp)
        return found[len(found) - count :] if count else [], {queue: await self.max_offset(queue) for queue in queues}

    # -- transactions

    async def open_transactions(self) -> list[MessageExt]:
        return self.halves

    async def given_up_transactions(self) -> AsyncIterator[MessageExt]:
        for half in self.given_up:
            yield half

    async def resume_transaction(self, offset_msg_id: str) -> None:
        self._changed("resume_transaction", offset_msg_id)

    # -- access control

    async def users(self, name: str = "", *, cluster: str | None = None) -> list[UserInfo]:
        return [user for key, user in self.user_table.items() if name in key]

    async def user(self, name: str, *, cluster: str | None = None) -> UserInfo | None:
        return self.user_table.get(name)

    async def create_user(
        self, name: str, password: str, *, is_super: bool = False, cluster: str | None = None
    ) -> None:
        self._changed("create_user", name, password, is_super)

    async def update_user(
        self, name: str, *, password: str | None = None, is_super: bool | None = None, enabled: bool | None = None,
        cluster: str | None = None,
    ) -> None:  # fmt: skip
        self._changed("update_user", name, password, is_super, enabled)

    async def delete_user(self, name: str, *, cluster: str | None = None) -> None:
        self._changed("delete_user", name)

    async def acls(self, user: str = "", resource: str = "", *, cluster: str | None = None) -> list[AclInfo]:
        self.changes.append(("acls", user, resource))
        return [acl for key, acl in self.acl_table.items() if user in key]

    async def acl(self, user: str, *, cluster: str | None = None) -> AclInfo | None:
        return self.acl_table.get(user)

    async def set_acl(
        self, user: str, resources: Sequence[str], actions: Sequence[str], *, allow: bool = True,
        source_ips: Sequence[str] = (), cluster: str | None = None,
    ) -> None:  # fmt: skip
        self._changed("set_acl", user, tuple(resources), list(actions), allow, tuple(source_ips))

    async def delete_acl(self, user: str, resource: str | None = None, *, cluster: str | None = None) -> None:
        self._changed("delete_acl", user, resource)


def _or_raised(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer
