"""Connected clients: heartbeats, departures, and notifications of groups whose members changed.

The rules are Java's (ClientManageProcessor, DefaultConsumerIdsChangeListener); the registry itself is in
``core.broker.client_registry``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from rocketmq_py.broker.cluster.member_notifier import MemberNotifier
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.filters import ConsumerFilters
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import UNIT_SUB_FLAG, GroupTopic, TopicConfigs
from rocketmq_py.core.broker.client_registry import ConsumerGroup, ConsumerRegistry, ProducerRegistry, RegisteredClient
from rocketmq_py.core.consumer.subscription import differences
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.client import ConsumerData, HeartbeatData
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.wire.command import language_name

_log = logging.getLogger(__name__)


MAX_CONSUMER_GROUPS, MAX_PRODUCER_GROUPS, MAX_CLIENT_IDS = 1_000, 10_000, 1_000
"""Limits of one connection. A client of Apache RocketMQ has one client id per connection, and a few groups."""
MAX_SUBSCRIPTIONS = 5_000
"""Limit of one heartbeat, over all its groups."""


class Clients:
    """The connected consumers and producers.

    :param clock: returns the time in milliseconds since the epoch.
    :param slices: runs the notifications of many members in short steps, so that they do not block the event loop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        filters: ConsumerFilters,
        clock: Callable[[], int],
        slices: SlicedWork,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._filters = filters
        self._clock = clock
        self._fingerprints: dict[str, int] = {}
        self._logged_differences: dict[str, set[str]] = {}
        self.consumers = ConsumerRegistry()
        self.producers = ProducerRegistry()
        self._notifier = MemberNotifier(self.consumers, slices, clock)

    def heartbeat(self, peer: Peer, request: Request, data: HeartbeatData) -> bool:
        """Register the groups of a heartbeat; return True if the client must send its subscriptions with the next one.

        :raises BrokerError: the connection would exceed its limit of groups or client ids.
        """
        self._check_limits(peer, data)
        language, now = language_name(request.language), self._clock()

        def member() -> RegisteredClient:
            return RegisteredClient(peer, data.client_id, language, request.version, now)

        configs = self._groups.find_all([consumer.group_name for consumer in data.consumer_data_set])
        consumers = [consumer for consumer in data.consumer_data_set if consumer.group_name in configs]
        self._topics.create_for_groups(self._retry_topic(consumer, configs) for consumer in consumers)
        changed = not data.heartbeat_fingerprint
        for consumer in data.consumer_data_set:
            known = self._fingerprints.get(consumer.group_name)
            if data.heartbeat_fingerprint and known is not None and known != data.heartbeat_fingerprint:
                changed = True
            self._fingerprints[consumer.group_name] = data.heartbeat_fingerprint
        for consumer in consumers:
            self._register(member(), data, consumer)
        for producer in data.producer_data_set:
            self.producers.register(producer.group_name, member())
        return changed

    def _check_limits(self, peer: Peer, data: HeartbeatData) -> None:
        joined, produces = self.consumers.joined(peer), self.producers.joined(peer)
        consumers = {consumer.group_name for consumer in data.consumer_data_set}
        producers = {producer.group_name for producer in data.producer_data_set}
        counts = {
            "consumer groups": (len(consumers) + sum(name not in consumers for name in joined), MAX_CONSUMER_GROUPS),
            "producer groups": (len(producers) + sum(name not in producers for name in produces), MAX_PRODUCER_GROUPS),
            "subscriptions in a heartbeat": (
                sum(len(consumer.subscription_data_set) for consumer in data.consumer_data_set), MAX_SUBSCRIPTIONS,
            ),
            "client ids": (len({*self.producers.clients(peer), data.client_id}), MAX_CLIENT_IDS),
        }  # fmt: skip
        for what, (count, most) in counts.items():
            if count > most:
                remark = f"{count} {what} are too many for one connection: at most {most} are possible"
                raise BrokerError.of(ResponseCode.INVALID_PARAMETER, remark)

    def _retry_topic(self, consumer: ConsumerData, configs: Mapping[str, SubscriptionGroupConfig]) -> GroupTopic:
        order = any(self._topics.is_order(subscription.topic) for subscription in consumer.subscription_data_set)
        return GroupTopic(
            names.retry_topic(consumer.group_name), configs[consumer.group_name].retry_queue_nums,
            UNIT_SUB_FLAG if consumer.unit_mode else 0, order,
        )  # fmt: skip

    def _register(self, member: RegisteredClient, data: HeartbeatData, consumer: ConsumerData) -> None:
        without = bool(data.heartbeat_fingerprint) and data.without_sub
        if not without:
            self._compare(consumer, member)
        if self.consumers.register(consumer, member, keep_subscriptions=without):
            _log.info("consumer group %s changed with %s", consumer.group_name, member.client_id)
            self._notify(self.consumers.groups[consumer.group_name])
        if not without:
            self._filters.register(consumer.group_name, consumer.subscription_data_set)

    def _compare(self, consumer: ConsumerData, member: RegisteredClient) -> None:
        """Log, once per member and difference, that a member's subscriptions differ from those of its group."""
        group = self.consumers.groups.get(consumer.group_name)
        if group is None or all(other.client_id == member.client_id for other in group.members.values()):
            return
        found = differences(consumer.subscription_data_set, group.subscriptions.values())
        case = f"{member.client_id}: {'; '.join(found)}"
        logged = self._logged_differences.setdefault(group.name, set())
        if found and case not in logged:
            logged.add(case)
            _log.warning(
                "consumer group %s has members with different subscriptions (%s): the newest replaces the others, and "
                "messages go to members that did not subscribe to them. All members of a group must have the same "
                "subscriptions",
                group.name, case,
            )  # fmt: skip

    def unregister(self, peer: Peer, consumer_group: str | None, producer_group: str | None) -> None:
        """Remove a client from a consumer group, a producer group, or both."""
        if producer_group is not None:
            self.producers.leave(producer_group, peer)
        if consumer_group is not None:
            group = self.consumers.leave(consumer_group, peer)
            if group is not None:
                self._left(group)

    def disconnected(self, peer: Peer) -> None:
        """Remove the clients of a closed connection."""
        self.producers.leave_all(peer)
        for group in self.consumers.leave_all(peer):
            self._left(group)

    def tick(self, now_ms: int) -> None:
        """Send postponed notifications, at most one per group in 100 ms; called several times a second."""
        self._notifier.tick(now_ms)

    def expire(self) -> None:
        """Remove clients without a heartbeat for ``channelExpiredTimeout``."""
        before = self._clock() - self._config.channel_expired_timeout
        for name, member in self.consumers.expire(before):
            _log.warning(
                "%s of consumer group %s sent no heartbeat for too long: its queues go to the other members; "
                "check whether it hangs", member.client_id, name,
            )  # fmt: skip
        self.producers.expire(before)

    def _left(self, group: ConsumerGroup) -> None:
        if not group.members:
            self._fingerprints.pop(group.name, None)
            self._logged_differences.pop(group.name, None)
            self._filters.unregister(group.name)
        self._notify(group)

    def _notify(self, group: ConsumerGroup) -> None:
        """Notify the members of a group that its members changed, unless ``notifyConsumerIdsChangedEnable`` is off."""
        config = self._groups.get(group.name)
        wanted = config is None or config.notify_consumer_ids_changed_enable
        if not group.is_broadcasting and wanted and self._config.notify_consumer_ids_changed_enable:
            self._notifier.changed(group.name)
