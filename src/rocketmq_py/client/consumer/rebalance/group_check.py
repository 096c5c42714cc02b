"""Looks whether the members of a group fit together, and says so when they do not.

Finds client ids that are used twice, and subscriptions of the group, as a broker knows them, that are not ours: what
Java's ``mqadmin consumerStatus`` finds when somebody asks it. Each finding is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.core.consumer.subscription import differences
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.bodies.client import ConsumerConnection
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.group import GroupHeader

_log = logging.getLogger(__name__)


class GroupCheck:
    """The health of a group as one member can see it."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._told: set[str] = set()
        self._seen: frozenset[str] = frozenset()

    def unique_members(self, members: Sequence[str]) -> list[str]:
        """The members of the group, each once.

        Two clients with one id are both given the same queues, so that messages come twice; counted as two, they would
        leave queues without anyone.
        """
        twice = sorted({member for member in members if members.count(member) > 1})
        for client_id in twice:
            self._say(
                f"client id {client_id} is used by more than one consumer of group {self._group.name}, unless a former "
                "connection of it has not been noticed to be lost: they get the same queues and messages; give each "
                "an instance_name of its own, or none"
            )
        return sorted(set(members))

    async def look(self, address: str, members: Sequence[str]) -> None:
        """Compares subscriptions with those of the group, when its members have changed.

        :param address: a broker to ask.
        """
        now = frozenset(members)
        if now == self._seen or len(now) < 2:
            self._seen = now
            return
        try:
            header = GroupHeader(consumer_group=self._group.name)
            answer = await self._group.instance.connections.invoke(
                address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header
            )
            known = ConsumerConnection.decode(answer.body).subscription_table
        except RocketMQError as e:
            _log.debug("broker %s cannot tell the subscriptions of group %s: %s", address, self._group.name, e)
            return
        self._seen = now
        mine, retry = self._group.subscriptions, self._group.retry_topic
        found = differences(
            [one for topic, one in mine.items() if topic != retry],
            [one for topic, one in known.items() if topic != retry],
        )
        if found:
            self._say(
                f"members of consumer group {self._group.name} have different subscriptions ({'; '.join(found)}, at "
                f"broker {address}): messages go to members that do not want them. All members of a group must "
                "subscribe to the same"
            )

    def _say(self, finding: str) -> None:
        if finding not in self._told:
            self._told.add(finding)
            _log.warning("%s", finding)
