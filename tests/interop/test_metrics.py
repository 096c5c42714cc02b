"""Metrics of our broker have the names, types, labels and values that a Java broker shows after the same work."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    ConsumeResult,
    Message,
    MessageExt,
    NoRouteError,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from tests.deployment import labels_in, metrics_in, queries
from tests.interop.javapeer import JavaPeer, free_port_block
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, Side, await_readable, eventually

FIRST = ConsumeFromWhere.FIRST_OFFSET
TOPIC, GROUP = "metrics-topic", "metrics-group"

POPPED, TIMED, TRANSACTED, FAILED = "metrics-popped", "metrics-timed", "metrics-transacted", "metrics-failed"

RICHER = {"target_info": "says nothing in Java's exposition: it has no labels, as its resource has no attributes"}
"""Families that have other labels than those of a Java broker, and why."""

EQUAL = (
    "rocketmq_messages_in", "rocketmq_messages_out", "rocketmq_consumer_lag_messages",
    "rocketmq_consumer_inflight_messages", "rocketmq_consumer_ready_messages", "rocketmq_consumer_connections",
    "rocketmq_broker_permission", "rocketmq_throughput_in", "rocketmq_throughput_out", "rocketmq_message_size",
)  # fmt: skip
"""Families whose series of the topic or group have the same values on both brokers."""

EQUAL_OF_MORE = (
    "rocketmq_commit_messages", "rocketmq_rollback_messages", "rocketmq_half_messages",
    "rocketmq_send_to_dlq_messages", "rocketmq_pop_revive_in_message", "rocketmq_pop_revive_retry_messages",
    "rocketmq_timing_messages", "rocketmq_timer_enqueue", "rocketmq_delay_message_latency_seconds",
)  # fmt: skip
"""The same of the other topics. Java's broker counts its own check-points in the wheel, too."""

Families = dict[str, Metric]
Labels = frozenset[tuple[str, str]]


class Pair(NamedTuple):
    ours: Families
    java: Families


def scrape(port: int) -> Families:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=240) as answer:
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}


STATES = {
    "rocketmq_messages_out": 8.0,
    "rocketmq_consumer_lag_messages": 3.0,
    "rocketmq_consumer_inflight_messages": 3.0,
    "rocketmq_consumer_ready_messages": 0.0,
}
"""What the topic's series show in the end; a Java broker reads them one after the other while its members pull."""


def shown(families: Families) -> dict[str, float]:
    return {
        name: sum(one.value for one in families[name].samples if one.labels["topic"] == TOPIC)
        for name in STATES.keys() & families.keys()
    }


def more_work(java: JavaPeer, side: Side) -> None:
    """Topics and a group are created; messages are popped and revived, timed, committed, and become dead letters."""
    for topic in (POPPED, TIMED, TRANSACTED, FAILED):
        java.admin("updateTopic", "-n", side.namesrv, "-b", side.broker, "-t", topic, "-r", "1", "-w", "1")
        side.await_route(topic)
    java.admin("updateSubGroup", "-n", side.namesrv, "-b", side.broker, "-g", GROUP)
    with TransactionProducer("metrics-producers", side.namesrv, check=lambda _: TransactionState.UNKNOWN) as producer:
        producer.send_batch([Message(POPPED, str(number)) for number in range(8)])
        producer.send(Message(TIMED, b"later", delay=600))
        producer.send(Message(TIMED, b"soon", delay=1))
        producer.send(Message(TIMED, b"soon", delay_level=1))
        for number in range(4):
            with producer.transaction(Message(TRANSACTED, str(number))) as transaction:
                (transaction.commit, transaction.commit, transaction.rollback, transaction.leave_open)[number]()
        producer.send(Message(FAILED, b"x"))
    await_readable(side.namesrv, TIMED, 2)
    await_readable(side.namesrv, POPPED, 8)
    with SimpleConsumer(GROUP, side.namesrv, consume_from=FIRST) as member:
        member.subscribe(POPPED)
        found = member.receive(8, invisible_duration=2, timeout=WAIT_SECONDS)
        assert len(found) == 8
        member.ack(found[3:])
        again = list[MessageExt]()
        while len(again) < 3:
            again += member.receive(3, invisible_duration=60, timeout=WAIT_SECONDS)
        member.ack(again)
    consumer = PushConsumer("metrics-failing", side.namesrv, consume_from=FIRST, max_reconsume_times=0)
    consumer.subscribe(FAILED, listener=lambda _: ConsumeResult.RECONSUME_LATER)
    with consumer, Admin(side.namesrv) as admin:
        eventually(lambda: dead_letters(admin, "metrics-failing"), lambda count: count == 1)


def dead_letters(admin: Admin, group: str) -> int:
    with suppress(NoRouteError):
        return sum(map(admin.max_offset, admin.queues(f"%DLQ%{group}")))
    return 0


def work(java: JavaPeer, side: Side, port: int) -> Families:
    """Five messages are consumed; three more are delivered to a member that is still busy with them."""
    more_work(java, side)
    java.admin("updateTopic", "-n", side.namesrv, "-b", side.broker, "-t", TOPIC, "-r", "1", "-w", "1")
    side.await_route(TOPIC)
    java.produce(side.namesrv, TOPIC, 5)
    java.consume(side.namesrv, TOPIC, GROUP, 5)
    java.produce(side.namesrv, TOPIC, 3)
    java.consumer(side.namesrv, TOPIC, GROUP, work_ms=100_000)
    return eventually(lambda: scrape(port), lambda found: shown(found) == STATES)


@pytest.fixture(scope="module")
def pair(java: JavaPeer, servers: OurServers) -> Pair:
    settings: dict[str, Any] = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1"}
    port = free_port_block()
    ours = servers.serve(metricsPromExporterPort=port, **settings)
    found = work(java, Side("ours", ours.namesrv, ours.broker), port)
    port = free_port_block()
    broker = java.broker(java.namesrv().address, conf={"metricsPromExporterPort": port, **settings})
    found_java = work(java, Side("java", broker.namesrv, broker.address), port)
    broker.process.kill()  # after its first committed transaction it keeps a core busy for good
    return Pair(found, found_java)


def test_every_family_of_a_java_broker_is_there(pair: Pair) -> None:
    assert pair.java.keys() - pair.ours.keys() == set()
    own = {name for name in pair.ours.keys() - pair.java.keys() if not name.startswith("rocketmq_py_")}
    assert own == set()


def test_common_families_have_the_same_types_and_labels(pair: Pair) -> None:
    common = pair.ours.keys() & pair.java.keys()
    assert {name: pair.ours[name].type for name in common} == {name: pair.java[name].type for name in common}
    assert common >= RICHER.keys()
    assert {name: label_sets(pair.ours[name]) for name in common - RICHER.keys()} == {
        name: label_sets(pair.java[name]) for name in common - RICHER.keys()
    }


def label_sets(family: Metric) -> set[tuple[str, frozenset[str]]]:
    return {(sample.name, frozenset(sample.labels)) for sample in family.samples}


@pytest.mark.parametrize("name", EQUAL)
def test_values_after_the_same_work_are_equal(pair: Pair, name: str) -> None:
    ours, java = (values(families[name]) for families in pair)
    assert ours
    assert ours == java


@pytest.mark.parametrize("name", EQUAL_OF_MORE)
def test_values_of_pops_transactions_timed_messages_and_dead_letters_are_equal(pair: Pair, name: str) -> None:
    ours, java = (of_more_work(families[name]) for families in pair)
    assert ours
    assert ours == java


def of_more_work(family: Metric) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for sample in family.samples
        if sample.labels["topic"] in (POPPED, TIMED, TRANSACTED, FAILED)
    }


def test_timed_messages_are_counted_by_how_far_they_are_ahead(pair: Pair) -> None:
    ours, java = (values(families["rocketmq_timer_message_snapshot"]) for families in pair)
    assert ours.keys() == java.keys()
    spans = {dict(labels)["timer_bound_s"]: count for (_, labels), count in ours.items()}
    assert spans == dict.fromkeys(("5", "60", "300", "3600", "14400", "28800", "86400"), 0.0) | {"900": 1.0}


def values(family: Metric) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for sample in family.samples
        if sample.labels.get("topic", TOPIC) == TOPIC and sample.labels.get("consumer_group", GROUP) == GROUP
    }


def test_buckets_of_latency_and_names_of_processors_are_the_same(pair: Pair) -> None:
    bounds = [{one.labels["le"] for one in families["rocketmq_rpc_latency_milliseconds"].samples if "le" in one.labels}
              for families in pair]  # fmt: skip
    assert bounds[0] == bounds[1]
    ours, java = ({one.labels["processor"] for one in families["rocketmq_processor_watermark"].samples}
                  for families in pair)  # fmt: skip
    assert ours == java


OTHER_WORK = {
    "rocketmq_commit_messages_total",
    "rocketmq_half_messages",
    "rocketmq_pop_revive_latency_milliseconds",
    "rocketmq_rollback_messages_total",
    "rocketmq_send_to_dlq_messages_total",
    "rocketmq_timer_dequeue_latency_milliseconds",
    "rocketmq_timing_messages",
}
"""Series that a broker shows after work that these tests don't do; their names are recorded from a Java broker."""


def test_dashboard_and_alerts_select_series_and_labels_that_a_java_broker_has(pair: Pair) -> None:
    shown: dict[str, set[str]] = {}
    for family in pair.java.values():
        for sample in family.samples:
            shown.setdefault(sample.name, set()).update(sample.labels)
    asked = {name for query in queries() for name in metrics_in(query)} - {"up"}
    shared = {name for name in asked if not name.startswith("rocketmq_py_")}
    assert shared - shown.keys() <= OTHER_WORK
    wrong = [
        (name, labels - shown[name])
        for query in queries()
        for name, labels in labels_in(query).items()
        if name in shown and labels - shown[name]
    ]
    assert wrong == []
