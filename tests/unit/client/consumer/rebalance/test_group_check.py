"""Comparison of the subscriptions in a group."""

import asyncio

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.consumer.rebalance.group_check import GroupCheck
from rocketmq_py.protocol.bodies.client import ConsumerConnection, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.wire.command import Command
from tests.unit.client.scripted import ScriptedNetwork


def checked(rounds, theirs, *, answers=True):
    """A check that has looked at each list of members; returns how often it asked."""

    def answer(address, request):
        if not answers:
            return Command(1, remark="no")
        table = {topic: SubscriptionData.parse(topic, tags, 1) for topic, tags in theirs.items()}
        return Command(0, body=ConsumerConnection(subscription_table=table).encode())

    async def run():
        network = ScriptedNetwork(answer)
        instance = ClientInstance("ns:1")
        network.carry(instance.connections)
        group = ConsumerGroup("g", instance, PushOptions())
        group.subscribe("T", "a || b")
        group.subscribe(group.retry_topic, "*")
        check = GroupCheck(group)
        for members in rounds:
            await check.check_subscriptions("b:1", check.unique_members(members))
        await instance.stop()
        return network.codes().count(RequestCode.GET_CONSUMER_CONNECTION_LIST)

    return asyncio.run(run())


def test_members_are_compared_when_they_change(caplog):
    assert checked([["me"], ["me"], ["me", "you"], ["you", "me"], ["me"], ["me", "you"]], {"T": "b || a"}) == 2
    assert not caplog.records


def test_a_difference_is_logged_once(caplog):
    checked([["me", "you"], ["me", "you", "x"], ["me", "you"]], {"T": "c", "U": "*"})
    [record] = caplog.records
    assert "topic T: 'a || b' here, 'c' there; topic U: not subscribed here, '*' there" in record.getMessage()


def test_a_failed_comparison_is_repeated():
    assert checked([["me", "you"], ["me", "you"]], {}, answers=False) == 2


def test_members_count_once_and_a_duplicate_client_id_is_logged(caplog):
    assert checked([["me", "you", "me"], ["me", "me", "you"]], {"T": "a||b"}) == 1
    [record] = caplog.records
    assert "client id me is used by more than one" in record.getMessage()
