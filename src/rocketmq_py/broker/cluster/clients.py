"""Connected clients: heartbeats, departures, and notifications of groups whose members changed.

The rules are Java's (ClientManageProcessor, DefaultConsumerIdsChangeListener); the registry itself is in
``core.broker.client_registry``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.filters import ConsumerFilters
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import UNIT_SUB_FLAG, TopicConfigs
from rocketmq_py.core.broker.client_registry import ConsumerGroup, ConsumerRegistry, ProducerRegistry, RegisteredClient
from rocketmq_py.core.consumer.subscription import differences
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.client import ConsumerData, HeartbeatData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer
from rocketmq_py.wire.command import Command, language_name

_log = logging.getLogger(__name__)


class Clients:
    """The connected consumers and producers.

    :param clock: the time in milliseconds.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        filters: ConsumerFilters,
        clock: Callable[[], int],
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

    def heartbeat(self, peer: Peer, request: Request, data: HeartbeatData) -> bool:
        """Register the groups of a heartbeat; True if the client must send its subscriptions with the next one."""
        changed = not data.heartbeat_fingerprint
        for consumer in data.consumer_data_set:
            known = self._fingerprints.get(consumer.group_name)
            if data.heartbeat_fingerprint and known is not None and known != data.heartbeat_fingerprint:
                changed = True
            self._fingerprints[consumer.group_name] = data.heartbeat_fingerprint
            self._consumer(_member(peer, request, data.client_id, self._clock()), data, consumer)
        for producer in data.producer_data_set:
            self.producers.register(producer.group_name, _member(peer, request, data.client_id, self._clock()))
        return changed

    def _consumer(self, member: RegisteredClient, data: HeartbeatData, consumer: ConsumerData) -> None:
        group = self._groups.find(consumer.group_name)
        if group is None:
            return
        order = any(self._topics.is_order(subscription.topic) for subscription in consumer.subscription_data_set)
        self._topics.create_for_group(
            names.retry_topic(consumer.group_name), group.retry_queue_nums,
            UNIT_SUB_FLAG if consumer.unit_mode else 0, order=order,
        )  # fmt: skip
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
        """Notify every member that the members changed, so that it rebalances at once instead of within 20 s."""
        config = self._groups.get(group.name)
        wanted = config is None or config.notify_consumer_ids_changed_enable
        if group.is_broadcasting or not wanted or not self._config.notify_consumer_ids_changed_enable:
            return
        command = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": group.name})
        for channel in group.members:
            if isinstance(channel, Peer):
                channel.send(command)


def _member(peer: Peer, request: Request, client_id: str, now_ms: int) -> RegisteredClient:
    return RegisteredClient(peer, client_id, language_name(request.language), request.version, now_ms)
