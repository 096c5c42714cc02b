"""mqadmin works on our broker as on a Java broker: every test runs on both."""

from __future__ import annotations

import re

import pytest

from tests.interop.javapeer import JavaPeer, PeerError
from tests.interop.side import Side, eventually, group


def line_of(java: JavaPeer, start: str, *command: str) -> list[str]:
    """The first words of the line that starts so, or nothing."""
    lines = [line.split() for line in java.admin(*command).splitlines() if line.startswith(start)]
    return lines[0][:5] if lines else []


def test_topics_are_created_changed_listed_and_deleted(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, queues=3)
    assert topic in java.admin("topicList", "-n", side.namesrv).split()
    route = java.admin("topicRoute", "-n", side.namesrv, "-t", topic)
    assert re.search(r'"readQueueNums":\s*3', route)
    assert side.broker in route

    java.admin("updateTopic", "-n", side.namesrv, "-c", "DefaultCluster", "-t", topic, "-r", "5", "-w", "5", "-p", "6")
    eventually(
        lambda: java.admin("topicRoute", "-n", side.namesrv, "-t", topic),
        lambda text: re.search(r'"writeQueueNums":\s*5', text),
    )

    java.admin("deleteTopic", "-n", side.namesrv, "-c", "DefaultCluster", "-t", topic)
    assert topic not in java.admin("topicList", "-n", side.namesrv).split()
    with pytest.raises(PeerError, match="CODE: 17"):
        java.admin("topicRoute", "-n", side.namesrv, "-t", topic)


def test_clusters_are_listed_by_mqadmin(java: JavaPeer, side: Side) -> None:
    assert java.brokers(side.namesrv) == {side.broker}
    words = line_of(java, "DefaultCluster", "clusterList", "-n", side.namesrv)
    assert words[:4] == ["DefaultCluster", "broker-a", "0", side.broker]


def test_topic_status_counts_messages(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, queues=1)
    java.produce(side.namesrv, topic, 5)
    eventually(
        lambda: line_of(java, "broker-a", "topicStatus", "-n", side.namesrv, "-t", topic),
        lambda words: words[:4] == ["broker-a", "0", "0", "5"],
    )


def test_consumer_progress_shows_the_lag(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java, queues=1), group()
    java.produce(side.namesrv, topic, 5)
    java.consume(side.namesrv, topic, name, 5)
    java.produce(side.namesrv, topic, 3)
    eventually(
        lambda: line_of(java, topic, "consumerProgress", "-n", side.namesrv, "-g", name),
        lambda words: words == [topic, "broker-a", "0", "8", "5"],
    )
    assert re.search(r"Diff Total: 3\b", java.admin("consumerProgress", "-n", side.namesrv, "-g", name))


def test_consumer_progress_of_all_groups_is_shown(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java, queues=1), group()
    java.produce(side.namesrv, topic, 1)
    java.consume(side.namesrv, topic, name, 1)
    eventually(lambda: java.admin("consumerProgress", "-n", side.namesrv), lambda text: name in text)


def test_groups_are_created_shown_and_deleted(java: JavaPeer, side: Side) -> None:
    name = group()
    java.admin("updateSubGroup", "-n", side.namesrv, "-c", "DefaultCluster", "-g", name, "-r", "3")
    config = java.admin("getConsumerConfig", "-n", side.namesrv, "-g", name)
    assert re.search(r"retryMaxTimes\s*=\s*3", config)
    java.admin("deleteSubGroup", "-n", side.namesrv, "-c", "DefaultCluster", "-g", name)
    back = java.admin("getConsumerConfig", "-n", side.namesrv, "-g", name)
    assert not re.search(r"retryMaxTimes\s*=\s*3\b", back)


def test_online_consumers_are_listed(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java, queues=1), group()
    with java.consumer(side.namesrv, topic, name, timeout=120):
        text = eventually(
            lambda: java.say_admin("consumerConnection", "-n", side.namesrv, "-g", name), lambda text: "JAVA" in text
        )
        assert topic in text
        assert "CLUSTERING" in text


def test_the_state_of_a_broker_is_shown(java: JavaPeer, side: Side) -> None:
    assert "brokerVersionDesc" in java.admin("brokerStatus", "-n", side.namesrv, "-b", side.broker)


def test_an_illegal_topic_name_is_refused(java: JavaPeer, side: Side) -> None:
    with pytest.raises(PeerError, match=r"illegal characters|CODE: (1|29)"):
        java.admin("updateTopic", "-n", side.namesrv, "-b", side.broker, "-t", "no/topic", "-r", "1", "-w", "1")
