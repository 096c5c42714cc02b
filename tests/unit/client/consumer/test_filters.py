"""Subscriptions by SQL expression: checks at the client, checks at brokers, old brokers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.filters import check_brokers, check_version, make_subscription
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.errors import BrokerError, ConfigError, SqlIllegal, SystemBusy
from rocketmq_py.protocol.bodies.client import CheckClientConfig, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode as Code, Version
from rocketmq_py.wire.command import Command
from tests.unit.client.scripted import ScriptedNetwork, cluster

SQL = make_subscription("T", None, "a > 5", 7)


def test_a_subscription_is_made_of_tags_or_of_sql() -> None:
    assert SubscriptionData(topic="T", sub_string="a > 5", sub_version=7, expression_type="SQL92") == SQL
    assert make_subscription("T", "*", "a > 5", 7) == SQL
    assert make_subscription("T", "A || B", None, 7).tags_set == ["A", "B"]


def test_invalid_subscriptions_are_refused_at_once() -> None:
    consumer = PushConsumer("g", "ns:1")
    with pytest.raises(SqlIllegal, match="character 3: only numbers and properties"):
        consumer.subscribe("T", sql="a > 'x'")
    with pytest.raises(ConfigError, match=r"by tags \('A'\) and by SQL .*: choose one"):
        consumer.subscribe("T", "A", sql="a > 5")
    with pytest.raises(ConfigError, match="names no tag"):
        consumer.subscribe("T", "||")
    assert consumer.topics() == set()


def test_an_expression_that_brokers_read_only_in_part_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        make_subscription("T", None, "a LIKE 'x%'", 7)
        make_subscription("T", None, "a > 5 ", 7)
    [record] = caplog.records
    assert "brokers ignore the end of it, \"LIKE 'x%'\"" in record.getMessage()


def test_the_decorator_takes_sql_too() -> None:
    consumer = PushConsumer("g", "ns:1")

    @consumer.on("T", sql="a > 5")
    def listener(message: Any) -> None: ...

    [subscription] = consumer.heartbeat().subscription_data_set
    assert (subscription.sub_string, subscription.expression_type) == ("a > 5", "SQL92")


# -- asking brokers


def checked(answer: Command | None, **topics: dict[str, int]) -> list[Command]:
    """The requests 46 that a check of T sends when brokers answer so."""

    async def run() -> list[Command]:
        known = cluster(topics or {"T": {"b": 2, "c": 2}})
        network = ScriptedNetwork(
            lambda address, request: answer if request.code == Code.CHECK_CLIENT_CONFIG else known(address, request)
        )
        instance = ClientInstance("ns:1", timeout=0.05)
        network.carry(instance.connections)
        if answer is not None and answer.code == -1:
            network.unreachable.add("b:1")
        try:
            await check_brokers(instance, "g", [make_subscription("U", "A", None, 1), SQL])
        finally:
            await instance.stop()
        return [request for _, request in network.requests if request.code == Code.CHECK_CLIENT_CONFIG]

    return asyncio.run(run())


def test_one_broker_of_each_topic_is_asked() -> None:
    [request] = checked(Command(0))
    asked = CheckClientConfig.decode(request.body)
    assert (asked.group, asked.subscription_data) == ("g", SQL)
    assert "@" in asked.client_id


@pytest.mark.parametrize(("code", "said"), [
    (1, "broker b:1 does not filter topic T by SQL (no): set enablePropertyFilter=true in its broker.conf"),
    (3, "broker b:1 does not filter topic T by SQL (no): set enablePropertyFilter=true in its broker.conf"),
    (23, "broker b:1 refuses 'a > 5': no"),
])  # fmt: skip
def test_a_broker_that_cannot_filter_is_named_with_what_to_do(code: int, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        checked(Command(code, remark="no"))
    assert str(raised.value).startswith(said)
    assert isinstance(raised.value.__cause__, BrokerError)


def test_other_error_codes_are_raised() -> None:
    with pytest.raises(SystemBusy):
        checked(Command(2, remark="busy"))


@pytest.mark.parametrize(("answer", "topics"), [
    (None, {}), (Command(-1), {}), (Command(0), {"U": {"b": 1}}),
], ids=["silent", "unreachable", "no route"])  # fmt: skip
def test_a_broker_that_cannot_be_asked_is_logged(
    answer: Command | None, topics: dict[str, dict[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    checked(answer, **topics)
    assert "whether topic T can be filtered by SQL is not known yet" in caplog.text


# -- old brokers


async def test_an_old_broker_is_not_pulled_from_by_sql() -> None:
    instance = ClientInstance("ns:1")
    instance._versions["b:1"] = Version.V3_4_9
    with pytest.raises(ConfigError, match=r"broker b:1 is of version V3_4_9, .* takes 4\.1\.0: upgrade it"):
        check_version(instance, "b:1", SQL)
    check_version(instance, "b:1", make_subscription("T", "A", None, 1))
    check_version(instance, "unknown:1", SQL)
    instance._versions["b:1"] = Version.V4_1_0_SNAPSHOT
    check_version(instance, "b:1", SQL)


async def test_broker_versions_come_from_heartbeat_answers() -> None:
    known = cluster({"T": {"b": 1}})

    def answer(address: str, request: Command) -> Command | None:
        if request.code == Code.HEART_BEAT:
            return Command(0, version=Version.V3_4_9)
        return known(address, request)

    network = ScriptedNetwork(answer)
    instance = ClientInstance("ns:1")
    network.carry(instance.connections)
    consumer = PushConsumer("g", instance=instance)
    instance.register(consumer)
    await instance.routes.get("T")
    assert instance.broker_version("b:1") is None
    await instance.heartbeat_all()
    assert instance.broker_version("b:1") == Version.V3_4_9
    await instance.stop()
