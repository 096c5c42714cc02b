"""``rocketmq`` on a cluster in which one registered broker does not answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result

from rocketmq_py import Admin, Message, MessageQueue, NetworkError, Producer, TransactionProducer, TransactionState
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.testing import Cluster
from tests.server.cli import Cli, eventually

HERE, GONE = "broker-a", "broker-b"
DLQ = "%DLQ%billing"
SENT = {HERE: 3, GONE: 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers with some of everything; nobody asks about open transactions."""
    with Cluster(brokers=2, transaction_check_interval=10**9) as running:
        with Admin(running.namesrv) as admin, Producer("p", running.namesrv) as producer:
            admin.create_group("billing")
            for topic in ("orders", DLQ):
                admin.create_topic(topic, 1)
                for queue in admin.queues(topic):
                    for _ in range(SENT[queue.broker_name]):
                        producer.send(Message(topic, b"x", keys="all"), queue=queue)
            for broker in SENT:
                queue = MessageQueue("orders", broker, 0)
                admin.set_group_offset("billing", queue, 0)
                producer.send(Message("orders", b"x", keys=broker), queue=queue)
        with TransactionProducer("shop", running.namesrv, check=lambda _: TransactionState.UNKNOWN) as shop:
            for _ in SENT:
                with shop.transaction(Message("orders", b"x")) as tx:
                    tx.leave_open()
        cli = Cli(running.namesrv)
        for broker in SENT:  # the last of each broker; the index comes a moment later
            eventually(lambda key=broker: cli("message", "query", "orders", key).exit_code == Status.OK)
        yield running


def without(cluster: Cluster, brokers: int = 1) -> Callable[..., Result]:
    """Runs verbs where nobody is at the addresses of the last ``brokers`` brokers."""
    cli = Cli(cluster.namesrv)
    return lambda *words: cli(*words, *(word for at in cluster.addresses[-brokers:]
                                        for word in ("--map", f"{at}=127.0.0.1:1")))  # fmt: skip


@pytest.mark.parametrize(
    ("words", "all_of_it", "the_rest"),
    [
        ("topic ls orders", lambda rows: rows[0]["brokers"], [HERE]),
        ("topic describe orders", lambda row: [queue["broker"] for queue in row["queues"]], [HERE]),
        ("group ls billing", lambda rows: rows[0]["lag"], 4),
        ("group describe billing", lambda row: [one["broker"] for one in row["brokers"]], [HERE]),
        ("group lag billing", lambda rows: [row["broker"] for row in rows], [HERE]),
        ("message query orders all", lambda rows: [row["broker"] for row in rows], [HERE] * 3),
        ("dlq ls", lambda rows: rows[0]["messages"], 3),
        ("transaction ls", lambda rows: [row["broker"] for row in rows], [HERE]),
        ("cluster", lambda rows: [row["broker"] for row in rows if row["version"]], [HERE]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_brokers_are_shown_and_the_silent_one_named(
    cluster: Cluster, words: str, all_of_it: Callable[[Any], Any], the_rest: object
) -> None:
    whole = Cli(cluster.namesrv).json(*words.split())
    assert all_of_it(whole) != the_rest
    result = without(cluster)(*words.split(), "-o", "json")
    assert result.exit_code == Status.UNHEALTHY
    assert all_of_it(json.loads(result.stdout)) == the_rest
    (told,) = result.stderr.splitlines()
    gone = cluster.addresses[1]
    assert told.startswith(f"broker {GONE}")
    assert f": cannot connect to {gone} (mapped to 127.0.0.1:1)" in told


def test_a_message_not_found_may_be_at_the_silent_broker(cluster: Cluster) -> None:
    result = without(cluster)("message", "query", "orders", GONE)
    assert result.exit_code == Status.UNHEALTHY
    assert f"topic orders has no message with key {GONE!r}" in result.stderr
    assert "brokers that do not answer may have it" in result.stderr
    assert result.stderr.count("cannot connect") == 1


def test_a_lag_limit_is_checked_despite_a_silent_broker(cluster: Cluster) -> None:
    result = without(cluster)("group", "lag", "billing", "--max", 3)
    assert result.exit_code == Status.UNHEALTHY
    assert "4 messages wait for group billing, more than 3" in result.stderr
    assert f"broker {GONE}: " in result.stderr


def test_a_cluster_without_answering_brokers_is_an_error(cluster: Cluster) -> None:
    result = without(cluster, 2)("topic", "ls")
    assert result.exit_code == Status.FAILED
    assert result.stdout == ""


@pytest.mark.parametrize(
    "words", ["group delete billing", "group reset billing orders --latest", "topic delete orders"]
)
def test_changes_need_all_brokers(cluster: Cluster, words: str) -> None:
    before = Cli(cluster.namesrv).json("group", "describe", "billing")
    assert without(cluster)(*words.split(), "--yes").exit_code == Status.FAILED
    assert Cli(cluster.namesrv).json("group", "describe", "billing") == before


def test_applications_decide_whether_silent_brokers_are_errors(cluster: Cluster) -> None:
    gone = {cluster.addresses[1]: "127.0.0.1:1"}
    with Admin(cluster.namesrv, address_map=gone) as strict, pytest.raises(NetworkError):
        strict.groups()
    with Admin(cluster.namesrv, address_map=gone, skip_silent=True) as admin:
        assert admin.silent == {}
        assert admin.groups()["billing"].keys() == {HERE}
        assert admin.silent.keys() == {GONE}


def test_doctor_gives_advice(cluster: Cluster) -> None:
    result = without(cluster)("doctor")
    assert result.exit_code == Status.UNHEALTHY
    assert f"fail  broker {GONE}:0" in result.output
    assert f"--map {cluster.addresses[1]}=HOST:PORT" in result.output
