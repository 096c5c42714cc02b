"""Which brokers a request goes to, and what happens if one of them does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from rocketmq_py.aio import Admin, ClientInstance
from rocketmq_py.errors import ClosedError, ConfigError, NetworkError
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.wire.command import Command
from tests.unit.client.admin.scripted_cluster import REACHED, ScriptedCluster, body, with_admin

LIST = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER


@with_admin()
async def test_a_cluster_has_its_brokers_with_their_addresses(admin: Admin, cluster: ScriptedCluster) -> None:
    info = await admin.cluster()
    assert {name: data.broker_addrs for name, data in info.broker_addr_table.items()} == {
        "a": {0: "a:1", 1: "a:2"}, "b": {0: "b:1"}, "s": {1: "s:2"}, "z": {0: "z:1"},
    }  # fmt: skip
    assert info.cluster_addr_table == {"c1": ["a", "b", "s", "gone"], "c2": ["z"]}


@pytest.mark.parametrize(
    ("of", "expected"), [(None, REACHED), ("c1", {"a": "a:1", "b": "b:1", "s": "s:2"}), ("c2", {"z": "z:1"}), ("?", {})]
)
@with_admin()
async def test_brokers_are_reached_at_their_masters_else_at_a_slave(
    admin: Admin, cluster: ScriptedCluster, of: str | None, expected: dict[str, str]
) -> None:
    cluster.brokers["nobody"] = ("c1", {})
    assert await admin._brokers(of) == expected


@with_admin({"t": {"s": 1, "a": 1}})
async def test_brokers_of_a_topic_are_those_of_its_route(admin: Admin, cluster: ScriptedCluster) -> None:
    assert list((await admin._brokers_of("t")).items()) == [("a", "a:1"), ("s", "s:2")]
    cluster.brokers["a"] = ("c1", {})
    assert await admin._brokers_of("t") == {"s": "s:2"}


@pytest.mark.parametrize(
    ("of", "brokers", "expected"),
    [
        (None, None, ["a:1", "b:1", "z:1"]),
        ("c1", None, ["a:1", "b:1"]),
        ("c2", None, ["z:1"]),
        (None, ["z", "a"], ["z:1", "a:1"]),
        ("c1", ["b"], ["b:1"]),
        (None, ["s", "a"], ["a:1"]),
    ],
)
@with_admin()
async def test_masters(
    admin: Admin, cluster: ScriptedCluster, of: str | None, brokers: Collection[str] | None, expected: list[str]
) -> None:
    assert await admin._masters(of, brokers) == expected


@pytest.mark.parametrize(
    ("of", "brokers", "fault"),
    [
        (None, ["x", "a", "w"], "no broker w, x is registered at name servers ns:1; known there: a, b, s, z"),
        ("c2", ["a"], "no broker a is registered at name servers ns:1; known there: z"),
        ("?", ["a"], "known there: none"),
        ("?", None, r"no master of cluster '\?' is registered at name servers ns:1; clusters known there: c1, c2"),
        (None, ["s"], "no master is registered at name servers ns:1"),
        (None, [], "no master is registered"),
    ],
)
@with_admin()
async def test_a_choice_without_masters_names_those_that_are_known(
    admin: Admin, cluster: ScriptedCluster, of: str | None, brokers: Collection[str] | None, fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        await admin._masters(of, brokers)


@pytest.mark.parametrize(
    ("of", "expected"),
    [(None, ["a:1", "b:1", "z:1", "a:2", "s:2"]), ("c1", ["a:1", "b:1", "a:2", "s:2"]), ("c2", ["z:1"])],
)
@with_admin()
async def test_masters_go_before_slaves(
    admin: Admin, cluster: ScriptedCluster, of: str | None, expected: list[str]
) -> None:
    assert await admin._masters_and_slaves(of) == expected


def system_topics(cluster: ScriptedCluster) -> None:
    cluster.answers[LIST] = lambda address, _: body(TopicList(topic_list=[f"of {address}"]))


@with_admin()
async def test_a_silent_broker_is_an_error(admin: Admin, cluster: ScriptedCluster) -> None:
    system_topics(cluster)
    cluster.network.unreachable.add("b:1")
    with pytest.raises(NetworkError, match="b:1"):
        await admin.system_topics()
    assert admin.silent == {}


@with_admin(skip_silent=True)
async def test_a_silent_broker_is_left_out_and_not_asked_again(admin: Admin, cluster: ScriptedCluster) -> None:
    system_topics(cluster)
    cluster.network.unreachable.add("b:1")
    for _ in range(2):
        assert await admin.system_topics() == ["of a:1", "of s:2", "of z:1"]
    assert list(admin.silent) == ["b"]
    assert "b:1" in str(admin.silent["b"])
    cluster.network.unreachable.clear()
    await admin.system_topics()
    assert "b:1" not in cluster.asked(LIST)
    admin.silent.clear()
    assert list(admin.silent) == ["b"], "a copy is given away"


@with_admin(skip_silent=True)
async def test_a_cluster_in_which_nobody_answers_is_an_error(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.network.unreachable |= set(REACHED.values())
    for _ in range(2):
        with pytest.raises(NetworkError, match="a:1"):
            await admin.system_topics()
    assert sorted(admin.silent) == ["a", "b", "s", "z"]


@with_admin()
async def test_a_cluster_without_brokers_has_nothing(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.brokers = {"nobody": ("c1", {})}
    assert await admin.system_topics() == []


@pytest.mark.parametrize(("options", "expected"), [({}, 5.0), ({"timeout": 2.0}, 2.0)])
def test_an_answer_is_awaited_for_the_given_time(options: dict[str, float], expected: float) -> None:
    waits: list[float] = []

    async def main() -> None:
        instance = ClientInstance("ns:1")

        async def invoke(*given: Any) -> Command:
            waits.append(given[-1])
            return Command(0, body=b"{}")

        instance.connections.invoke = invoke  # type: ignore[method-assign]
        await Admin(instance=instance, **options).broker_state("a:1")
        await instance.stop()

    asyncio.run(main())
    assert waits == [expected]


def test_only_its_own_connections_are_closed() -> None:
    async def main() -> None:
        cluster = ScriptedCluster()
        instance = ClientInstance("ns:1")
        cluster.network.carry(instance.connections)
        for _ in range(2):
            async with Admin(instance=instance) as admin:
                await admin.cluster()
        await instance.stop()
        with pytest.raises(ClosedError):
            await admin.start()
        own = Admin("ns:1;ns:2")
        assert repr(own) == "Admin(ns:1;ns:2)"
        cluster.network.carry(own._instance.connections)
        await own.start()
        await own.start()
        await own.cluster()
        await own.close()
        await own.close()
        with pytest.raises(ClosedError):
            await own.start()

    asyncio.run(main())
