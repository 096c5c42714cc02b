from __future__ import annotations

import pytest

from rocketmq_py.core.broker.client_registry import ConsumerRegistry, ProducerRegistry, RegisteredClient
from rocketmq_py.protocol.bodies.client import ConsumerData, SubscriptionData


@pytest.fixture
def registry() -> ConsumerRegistry:
    return ConsumerRegistry()


def data(*topics: str, group: str = "g", version: int = 1, **more: str) -> ConsumerData:
    subscriptions = [SubscriptionData.parse(topic, "A", version) for topic in topics]
    return ConsumerData(group_name=group, subscription_data_set=subscriptions, **more)


def member(channel: str, client_id: str | None = None, seen: int = 0) -> RegisteredClient:
    return RegisteredClient(channel, client_id or f"client-{channel}", last_seen_ms=seen)


def test_only_a_new_member_changes_the_group(registry: ConsumerRegistry) -> None:
    assert registry.register(data("t"), member("c1"))
    assert not registry.register(data("t"), member("c1", seen=7))
    assert registry.groups["g"].members["c1"].last_seen_ms == 7
    assert registry.register(data("t"), member("c2"))
    assert registry.groups["g"].client_ids() == ["client-c1", "client-c2"]


def test_another_client_on_the_same_channel_replaces_the_first_without_a_change(registry: ConsumerRegistry) -> None:
    registry.register(data("t"), member("c1"))
    assert not registry.register(data("t"), member("c1", "renamed"))
    assert registry.groups["g"].client_ids() == ["renamed"]


def test_added_and_removed_topics_change_the_group(registry: ConsumerRegistry) -> None:
    registry.register(data("t"), member("c1"))
    assert registry.register(data("t", "u"), member("c1"))
    assert registry.register(data("u"), member("c1"))
    assert registry.subscription("g", "t") is None
    assert registry.groups_of("u") == ["g"]


def test_only_a_newer_expression_replaces_another_and_the_group_does_not_change(registry: ConsumerRegistry) -> None:
    registry.register(data("t", version=5), member("c1"))
    old = ConsumerData(group_name="g", subscription_data_set=[SubscriptionData.parse("t", "B", 4)])
    new = ConsumerData(group_name="g", subscription_data_set=[SubscriptionData.parse("t", "C", 6)])
    for sent, stored in ((old, "A"), (new, "C")):
        assert not registry.register(sent, member("c1"))
        found = registry.subscription("g", "t")
        assert found is not None
        assert found.sub_string == stored


def test_a_heartbeat_without_subscriptions_keeps_them(registry: ConsumerRegistry) -> None:
    registry.register(data("t"), member("c1"))
    assert not registry.register(data(), member("c1"), keep_subscriptions=True)
    assert registry.subscription("g", "t") is not None


def test_the_latest_heartbeat_decides_the_type_of_the_group(registry: ConsumerRegistry) -> None:
    registry.register(data("t"), member("c1"))
    registry.register(data("t", message_model="BROADCASTING"), member("c2"))
    assert registry.groups["g"].is_broadcasting


def test_a_group_ends_with_its_last_member(registry: ConsumerRegistry) -> None:
    registry.register(data("t"), member("c1"))
    registry.register(data("t"), member("c2"))
    left = registry.leave("g", "c1")
    assert left is not None
    assert list(left.members) == ["c2"]
    assert registry.leave("g", "c1") is None
    assert registry.leave("g", "c2") is not None
    assert registry.groups == {}
    assert registry.leave("g", "c2") is None


def test_a_closed_channel_is_removed_from_every_group(registry: ConsumerRegistry) -> None:
    for name in ("g", "h", "i"):
        registry.register(data("t", group=name), member("c1" if name != "i" else "c2"))
    assert [group.name for group in registry.leave_all("c1")] == ["g", "h"]
    assert list(registry.groups) == ["i"]


def test_silent_members_expire(registry: ConsumerRegistry) -> None:
    registry.register(data("t"), member("c1", seen=10))
    registry.register(data("t"), member("c2", seen=20))
    assert [(name, late.channel) for name, late in registry.expire(20)] == [("g", "c1")]
    assert registry.groups["g"].client_ids() == ["client-c2"]


def test_members_are_found_by_client_id(registry: ConsumerRegistry) -> None:
    registry.register(data("t"), member("c1"))
    found = registry.find("g", "client-c1")
    assert found is not None
    assert found.channel == "c1"
    assert registry.find("g", "nobody") is None
    assert registry.find("nobody", "client-c1") is None


def test_producers_are_registered_and_expire() -> None:
    producers = ProducerRegistry()
    producers.register("p", member("c1", seen=1))
    producers.register("p", member("c2", seen=5))
    producers.register("q", member("c1", seen=1))
    producers.expire(1)
    assert list(producers.groups) == ["p", "q"], "no heartbeat is older than that"
    producers.expire(2)
    assert list(producers.groups) == ["p"]
    producers.register("q", member("c2"))
    producers.leave_all("c2")
    assert producers.groups == {}
    producers.leave("p", "c2")


def test_a_closed_channel_does_not_remove_other_producers(registry: ConsumerRegistry) -> None:
    for group in ("g1", "g2"):
        registry.register(data("t", group=group), member("c1"))
    registry.register(data("t", group="g2"), member("c2"))
    assert set(registry.joined("c1")) == {"g1", "g2"}
    assert [group.name for group in registry.leave_all("c1")] == ["g1", "g2"]
    assert not registry.joined("c1")
    assert registry.leave_all("c1") == []
    assert list(registry.groups) == ["g2"]


def test_a_closed_producer_channel_removes_all_its_client_ids() -> None:
    producers = ProducerRegistry()
    for client_id in ("one", "two"):
        producers.register("p", member("c1", client_id))
    producers.register("q", member("c1", "one"))
    producers.register("p", member("c2", "two"))
    assert set(producers.clients("c1")) == {"one"}
    assert producers.find("two") == "c2"
    assert set(producers.joined("c1")) == {"p", "q"}
    producers.leave("p", "c1")
    assert producers.find("one") == "c1"
    producers.leave_all("c1")
    assert producers.find("one") is None
    assert producers.find("two") == "c2"
    producers.leave_all("c2")
    assert not producers.groups
    assert not producers._channels
    assert not producers._clients
