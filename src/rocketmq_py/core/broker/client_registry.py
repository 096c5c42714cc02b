"""The clients connected to a broker: consumer groups with their members and subscriptions, and producer groups.

A channel is a hashable token that identifies a connection. Times are arguments, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field

from rocketmq_py.protocol.bodies.client import ConsumerData, SubscriptionData

BROADCASTING = "BROADCASTING"


@dataclass(slots=True)
class RegisteredClient:
    """A client as a member of a group, on one connection (``channel``); ``last_seen_ms`` is its latest heartbeat."""

    channel: Hashable
    client_id: str
    language: str = "OTHER"
    version: int = 0
    last_seen_ms: int = 0


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group with connected members, by channel, and its subscriptions, by topic.

    Consume type, message model and ``consume_from_where`` are those of the latest heartbeat of any member.
    """

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    members: dict[Hashable, RegisteredClient] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        return [member.client_id for member in self.members.values()]

    def join(self, member: RegisteredClient) -> bool:
        """Add a member, or update the time of its latest heartbeat; return True if its channel was not a member yet."""
        known = self.members.get(member.channel)
        if known is not None and known.client_id == member.client_id:
            known.last_seen_ms = member.last_seen_ms
            return False
        self.members[member.channel] = member
        return known is None

    def subscribe(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Apply the subscriptions of a heartbeat: newer versions replace older ones, other topics are removed.

        Return True if the set of topics changed.
        """
        news = {subscription.topic: subscription for subscription in wanted}
        changed = news.keys() != self.subscriptions.keys()
        for topic in self.subscriptions.keys() - news.keys():
            del self.subscriptions[topic]
        for topic, subscription in news.items():
            known = self.subscriptions.get(topic)
            if known is None or subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
        return changed


class ConsumerRegistry:
    """The consumer groups that have connected members, by name."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._joined: dict[Hashable, dict[str, None]] = {}
        """Names of the groups of each channel, as keys of a dictionary."""

    def register(self, data: ConsumerData, member: RegisteredClient, *, keep_subscriptions: bool = False) -> bool:
        """Apply one consumer group of a heartbeat; return True if the group's members or topics changed.

        :param keep_subscriptions: True if the heartbeat leaves out subscriptions because they have not changed
            (heartbeat V2).
        """
        group = self.groups.get(data.group_name)
        if group is None:
            group = self.groups[data.group_name] = ConsumerGroup(data.group_name)
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        joined = group.join(member)
        self._joined.setdefault(member.channel, {})[group.name] = None
        changed = False if keep_subscriptions else group.subscribe(data.subscription_data_set)
        return joined or changed

    def leave(self, group_name: str, channel: Hashable) -> ConsumerGroup | None:
        """Remove a member from a group; return the group, which may have no members now.

        None if the channel is not a member.
        """
        group = self.groups.get(group_name)
        if group is None or group.members.pop(channel, None) is None:
            return None
        if not group.members:
            del self.groups[group_name]
        _discard(self._joined, channel, group_name)
        return group

    def leave_all(self, channel: Hashable) -> list[ConsumerGroup]:
        """Remove a closed channel from all groups; return these groups."""
        left = [self.leave(name, channel) for name in list(self._joined.get(channel, ()))]
        return [group for group in left if group is not None]

    def joined(self, channel: Hashable) -> Collection[str]:
        """Return the names of the groups that a channel is a member of."""
        return self._joined.get(channel, {}).keys()

    def expire(self, before_ms: int) -> list[tuple[str, RegisteredClient]]:
        """Remove the members whose latest heartbeat is older than ``before_ms``; return them with their group names."""
        late = [
            (name, member)
            for name, group in self.groups.items()
            for member in group.members.values()
            if member.last_seen_ms < before_ms
        ]
        for name, member in late:
            self.leave(name, member.channel)
        return late

    def subscription(self, group_name: str, topic: str) -> SubscriptionData | None:
        group = self.groups.get(group_name)
        return None if group is None else group.subscriptions.get(topic)

    def may_consume(self, group_name: str, topic: str) -> bool:
        """Return True if a group subscribes to a topic, or if the broker knows no subscriptions of the group."""
        group = self.groups.get(group_name)
        return group is None or not group.subscriptions or topic in group.subscriptions

    def groups_of(self, topic: str) -> list[str]:
        """Return the names of the groups that subscribe to a topic."""
        return [name for name, group in self.groups.items() if topic in group.subscriptions]

    def find(self, group_name: str, client_id: str) -> RegisteredClient | None:
        """Return the member of a group with this client id; None if there is none."""
        group = self.groups.get(group_name)
        members = group.members.values() if group else ()
        return next((member for member in members if member.client_id == client_id), None)


class ProducerRegistry:
    """The producer groups that have connected members, by name."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Hashable, RegisteredClient]] = {}
        self._channels: dict[str, Hashable] = {}
        self._joined: dict[Hashable, dict[str, None]] = {}
        """Names of the groups of each channel, as keys of a dictionary."""
        self._clients: dict[Hashable, dict[str, None]] = {}
        """Client ids of each channel, as keys of a dictionary."""

    def register(self, group_name: str, member: RegisteredClient) -> None:
        """Add a member to a producer group, or replace the entry of its channel after a new heartbeat."""
        self.groups.setdefault(group_name, {})[member.channel] = member
        self._joined.setdefault(member.channel, {})[group_name] = None
        before = self._channels.get(member.client_id)
        if before != member.channel:
            if before is not None:
                _discard(self._clients, before, member.client_id)
            self._channels[member.client_id] = member.channel
            self._clients.setdefault(member.channel, {})[member.client_id] = None

    def joined(self, channel: Hashable) -> Collection[str]:
        """Return the names of the groups that a channel is a member of."""
        return self._joined.get(channel, {}).keys()

    def clients(self, channel: Hashable) -> Collection[str]:
        """Return the client ids whose latest heartbeats came on a channel."""
        return self._clients.get(channel, {}).keys()

    def find(self, client_id: str) -> Hashable | None:
        """Return the channel of a client's latest heartbeat; None if the client is not registered."""
        return self._channels.get(client_id)

    def leave(self, group_name: str, channel: Hashable) -> None:
        members = self.groups.get(group_name)
        member = members.pop(channel, None) if members is not None else None
        if member is None:
            return
        if not members:
            del self.groups[group_name]
        _discard(self._joined, channel, group_name)
        if channel not in self._joined:
            for client_id in self._clients.pop(channel, ()):
                del self._channels[client_id]

    def leave_all(self, channel: Hashable) -> None:
        """Remove a closed channel from all groups."""
        for name in list(self._joined.get(channel, ())):
            self.leave(name, channel)

    def expire(self, before_ms: int) -> None:
        """Remove the members whose latest heartbeat is older than ``before_ms``."""
        for name, members in list(self.groups.items()):
            for member in [m for m in members.values() if m.last_seen_ms < before_ms]:
                self.leave(name, member.channel)


def _discard(table: dict[Hashable, dict[str, None]], channel: Hashable, name: str) -> None:
    names = table.get(channel)
    if names is not None:
        names.pop(name, None)
        if not names:
            del table[channel]
