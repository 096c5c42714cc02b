"""Checks that the members of a group have different client ids and the same subscriptions.

A violation is logged once and appears in the consumer's health. (In Java, ``mqadmin consumerStatus`` compares the
subscriptions.)
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

SUBSCRIPTIONS = "subscriptions"


class GroupCheck:
    """Checks client ids and subscriptions of a group, for one of its members."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._warned: set[str] = set()
        self._checked: frozenset[str] = frozenset()

    def unique_members(self, members: Sequence[str]) -> list[str]:
        """Return the client ids of the group, sorted and without duplicates; duplicates are reported.

        Two clients with the same id own the same queues and get the same messages. If the id were counted twice, some
        queues would have no owner.
        """
        twice = sorted({member for member in members if members.count(member) > 1})
        self._report(
            "client ids",
            [
                f"client id {client_id} is used by more than one consumer of group {self._group.name}, unless a former "
                "connection of it has not been noticed to be lost: they get the same queues and messages; give each "
                "an instance_name of its own, or none"
                for client_id in twice
            ],
        )
        return sorted(set(members))

    async def check_subscriptions(self, address: str, members: Sequence[str]) -> None:
        """Compare this member's subscriptions with those a broker has for the group; differences are reported.

        Asks the broker only if the members have changed since the last check, or that check found differences.

        :param address: ``host:port`` of the broker.
        :param members: the client ids of the group.
        """
        now = frozenset(members)
        if len(now) < 2:
            self._checked = now
            self._report(SUBSCRIPTIONS, [])
            return
        if now == self._checked and SUBSCRIPTIONS not in self._group.problems:
            return
        try:
            header = GroupHeader(consumer_group=self._group.name)
            answer = await self._group.instance.connections.invoke(
                address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header
            )
            known = ConsumerConnection.decode(answer.body).subscription_table
        except RocketMQError as e:
            _log.debug("broker %s did not return the subscriptions of group %s: %s", address, self._group.name, e)
            return
        self._checked = now
        mine, retry = self._group.subscriptions, self._group.retry_topic
        found = differences(
            [one for topic, one in mine.items() if topic != retry],
            [one for topic, one in known.items() if topic != retry],
        )
        different = (
            f"members of consumer group {self._group.name} have different subscriptions ({'; '.join(found)}, at "
            f"broker {address}): messages go to members that do not want them. All members of a group must "
            "subscribe to the same"
        )
        self._report(SUBSCRIPTIONS, [different] if found else [])

    def _report(self, subject: str, findings: list[str]) -> None:
        """Log new findings, and set the consumer's problem with the key ``subject``; without findings remove it.

        :param subject: what differs between members, for example their subscriptions.
        :param findings: descriptions of the violations.
        """
        for finding in findings:
            if finding not in self._warned:
                self._warned.add(finding)
                _log.warning("%s", finding)
        if findings:
            self._group.problems[subject] = "; ".join(findings)
        elif self._group.problems.pop(subject, None) is not None:
            _log.warning("the %s of the members of group %s are consistent again", subject, self._group.name)
