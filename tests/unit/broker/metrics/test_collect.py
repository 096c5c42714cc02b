"""What a broker without sockets tells of itself in the exposition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rocketmq_py.broker.metrics import collect
from rocketmq_py.broker.metrics.collect import Collector
from rocketmq_py.core.metrics.counters import MessageCounts, PopEntries, RpcLatency
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, version_name
from rocketmq_py.protocol.headers.topic import CreateTopic
from rocketmq_py.server import Server
from rocketmq_py.store.queue.unfinished_queue import UnfinishedQueue
from rocketmq_py.store.read.scrub import Counts
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.requests import heartbeat, pop, pull, send
from tests.unit.grpc.calls import Calls, new_message
from tests.unit.store.memoryfs import MemoryFileSystem

Samples = dict[str, dict[tuple[str, ...], float]]


class Broker:
    """A broker that counts for metrics."""

    def __init__(self, running: InProcess) -> None:
        self.running, self.services = running, running.services
        self.client = running.connect()
        self.counts, self.latency = MessageCounts(), RpcLatency()
        self.services.count(self.counts)
        running.dispatcher.latency = self.latency
        self.text = ""

    def send(self, topic: str, **more: Any) -> None:
        assert self.client.ask(Code.SEND_MESSAGE_V2, send(topic, **more), b"12345").code == 0

    def samples(self, *names: str) -> Samples:
        """Values by series name and the values of the labels that only it has."""
        return asyncio.run(self._samples(frozenset(names)))

    def collector(self) -> Collector:
        """One that works in the running event loop."""
        server = SimpleNamespace(dispatcher=self.running.dispatcher, connections={1, 2})
        return Collector(
            self.running.config, self.services, cast(Server, server), self.counts, self.latency, self.running.clock,
            asyncio.get_running_loop().call_soon, MemoryFileSystem(),
        )  # fmt: skip

    async def _samples(self, names: frozenset[str]) -> Samples:
        self.text = b"".join(await self.collector().collect(names)).decode()
        found: Samples = {}
        common = {"cluster", "node_type", "node_id", "otel_scope_name", "zone"}
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                labels = tuple(value for name, value in sample.labels.items() if name not in common)
                values = found.setdefault(sample.name, {})
                assert labels not in values, "a series is there once"
                values[labels] = sample.value
        return found


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Broker]:
    config = {"metrics_exporter_type": "PROM", "metrics_label": "zone:a", "metrics_queue_level": True}
    with broker(tmp_path, fs=MemoryFileSystem(), **config) as running:
        yield Broker(running)


def test_all_series_have_the_labels_of_the_broker(counting: Broker) -> None:
    counting.samples()
    base = 'cluster="DefaultCluster",node_type="broker",node_id="broker-a",otel_scope_name="broker-meter",zone="a"'
    series = [line for line in counting.text.splitlines() if not line.startswith("#")]
    assert series
    assert [line for line in series if f"{{{base}" not in line] == []


def test_all_series_say_that_exports_have_deltas(tmp_path: Path) -> None:
    with broker(tmp_path, fs=MemoryFileSystem(), metrics_in_delta=True) as running:
        counting = Broker(running)
        counting.samples()
    series = [line for line in counting.text.splitlines() if not line.startswith("#")]
    assert series
    assert [line for line in series if 'aggregation="delta"' not in line] == []


def test_messages_are_counted_by_topic_and_kind(counting: Broker) -> None:
    for _ in range(3):
        counting.send("t")
    counting.send("u", properties={"DELAY": "3"})
    found = counting.samples()
    assert found["rocketmq_messages_in_total"] == {("t", "normal", "false"): 3.0, ("u", "delay", "false"): 1.0}
    sizes = found["rocketmq_message_size_count"]
    assert sizes == {("t", "normal", "false"): 3.0, ("u", "delay", "false"): 1.0}
    assert found["rocketmq_throughput_in_total"]["t", "normal", "false"] > 15
    assert found["rocketmq_rpc_latency_milliseconds_count"] == {
        ("remoting", "send_message_v2", "success", "false", "success"): 4.0
    }


def test_clients_and_requests_of_grpc_have_their_protocol(counting: Broker) -> None:
    calls = Calls(counting.running)
    counting.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=1, write_queue_nums=1)])
    counting.services.groups.put([SubscriptionGroupConfig(group_name="g")])
    consumer, producer = calls.consume("t", "g"), Calls(counting.running, "producer").produce("t")
    assert consumer.call.is_open
    assert producer.call.is_open
    calls.send(new_message("t"))
    counting.send("t")
    found = counting.samples()
    latency = found["rocketmq_rpc_latency_milliseconds_count"]
    sends = {labels[0]: count for labels, count in latency.items() if labels[1] == "send_message_v2"}
    assert sends == {"grpc": 1.0, "remoting": 1.0}
    assert [labels[2] for labels in found["rocketmq_producer_connections"]] == ["grpc"]
    assert [labels[4] for labels in found["rocketmq_consumer_connections"]] == ["grpc"]


def test_the_lag_of_groups_is_there_while_they_are_offline(counting: Broker) -> None:
    for _ in range(5):
        counting.send("t")
    counting.services.offsets.commit("g", "t", 0, 2, "a test")
    counting.running.now += 7_000
    found = counting.samples()
    key = "g", "t", "false", "false"
    assert found["rocketmq_consumer_lag_messages"] == {key: 3.0}
    assert found["rocketmq_consumer_inflight_messages"] == {key: 0.0}
    assert found["rocketmq_consumer_ready_messages"] == {key: 3.0}
    assert found["rocketmq_consumer_lag_latency_milliseconds"] == {key: 7_000.0}
    assert found["rocketmq_consumer_queueing_latency_milliseconds"] == {key: 7_000.0}
    assert found["rocketmq_py_consumer_queue_lag_messages"] == {(*key, "0"): 3.0}
    assert found["rocketmq_py_consumer_queue_lag_latency_milliseconds"] == {(*key, "0"): 7_000.0}


def test_pulls_move_messages_from_ready_to_inflight(counting: Broker) -> None:
    for _ in range(5):
        counting.send("t")
    counting.services.offsets.commit("g", "t", 0, 0, "a test")
    assert counting.client.ask(Code.HEART_BEAT, body=heartbeat("c1", t="*")).code == 0
    assert counting.client.ask(Code.PULL_MESSAGE, pull("t", 0, max_msg_nums=4)).code == 0
    found = counting.samples()
    (out,) = found["rocketmq_messages_out_total"].items()
    assert out == (("t", "g", "false"), 4.0)
    (connections,) = found["rocketmq_consumer_connections"].items()
    assert (connections[0][0], connections[0][4], connections[1]) == ("g", "remoting", 1.0)


def test_state_of_the_broker(counting: Broker) -> None:
    counting.send("t")
    found = counting.samples()
    assert found["rocketmq_broker_permission"] == {(): 6.0}
    assert found["rocketmq_topic_number"] == {(): float(len(counting.services.topics.table))}
    assert found["rocketmq_consumer_group_number"] == {(): float(len(counting.services.groups.table))}
    assert found["rocketmq_processor_watermark"][("send",)] == 0.0
    assert found["rocketmq_py_connections"] == {(): 2.0}
    store = counting.services.store
    assert set(found["rocketmq_py_commit_log_bytes"].values()) == {float(store.max_physical_offset)}
    assert set(found["rocketmq_py_store_writable"].values()) == {1.0}
    assert set(found["rocketmq_py_store_rebuild_queues"].values()) == {0.0}
    assert set(found["rocketmq_storage_dispatch_behind_bytes"].values()) == {0.0}
    rebuild, log = store.rebuild, store._commit_log
    rebuild._unfinished = {("t", 0): UnfinishedQueue(store._queues._make("t", 0, batched=False), 0, 5)}
    rebuild.position = log.end - 7
    found = counting.samples()
    assert set(found["rocketmq_py_store_rebuild_queues"].values()) == {1.0}
    assert set(found["rocketmq_py_store_rebuild_bytes"].values()) == {7.0}
    assert found["rocketmq_storage_dispatch_behind_bytes"] == {DISK: 7.0}
    scrub = counting.services.store.new_scrub()
    scrub.counts = Counts(damages=3, records_healed=2, entries_rebuilt=7)
    counting.services.scrubber._scrub = scrub
    found = counting.samples()
    for name, count in (("damages", 3.0), ("healed_records", 2.0), ("rebuilt_entries", 7.0)):
        assert set(found[f"rocketmq_py_store_{name}_total"].values()) == {count}


def test_a_deleted_topic_leaves(counting: Broker) -> None:
    counting.send("t")
    counting.send("u")
    counting.counts.remove_topic("t")
    assert list(counting.samples("rocketmq_messages_in_total")["rocketmq_messages_in_total"]) == [
        ("u", "normal", "false")
    ]


@pytest.mark.parametrize(
    "name", ["rocketmq_topic_number", "rocketmq_messages_in_total", "rocketmq_consumer_lag_messages"]
)
def test_only_what_is_asked_for_is_collected(counting: Broker, name: str) -> None:
    counting.send("t")
    counting.services.offsets.commit("g", "t", 0, 0, "a test")
    assert list(counting.samples(name)) == [name]


def test_series_beyond_the_limit_are_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = {"metrics_exporter_type": "PROM", "metrics_otel_cardinality_limit": 3}
    with broker(tmp_path, fs=MemoryFileSystem(), **config) as running:
        counting = Broker(running)
        for topic in "abcde":
            counting.send(topic)
        found = counting.samples()
    assert list(found["rocketmq_messages_in_total"]) == [(one, "normal", "false") for one in "abc"]
    assert found["rocketmq_py_series_left_out"][("rocketmq_messages_in_total",)] == 2.0
    assert "2 series of rocketmq_messages_in_total are left out: metricsOtelCardinalityLimit is 3" in caplog.text


@pytest.mark.parametrize(("most", "groups"), [(2, 2), (3, 3), (4, 3)])
def test_lags_beyond_the_limit_are_left_out(tmp_path: Path, most: int, groups: int) -> None:
    config = {"metrics_exporter_type": "PROM", "metrics_otel_cardinality_limit": most}
    with broker(tmp_path, fs=MemoryFileSystem(), **config) as running:
        counting = Broker(running)
        counting.send("t")
        for number in range(3):
            counting.services.offsets.commit(f"g{number}", "t", 0, number % 2, "a test")
        found = counting.samples()
    lags = found["rocketmq_consumer_lag_messages"]
    assert {key[0]: value for key, value in lags.items()} == {
        f"g{number}": 1.0 - number % 2 for number in range(groups)
    }
    left_out = found.get("rocketmq_py_series_left_out", {}).get(("rocketmq_consumer_lag_messages",), 0.0)
    assert left_out == 3 - groups


def test_retry_topics_and_system_groups_are_marked(counting: Broker) -> None:
    counting.send("t")
    for group in ("g", "CID_RMQ_SYS_x"):
        counting.services.offsets.commit(group, "t", 0, 0, "a test")
    found = counting.samples("rocketmq_consumer_lag_messages")["rocketmq_consumer_lag_messages"]
    assert found == {("g", "t", "false", "false"): 1.0, ("CID_RMQ_SYS_x", "t", "false", "true"): 1.0}


DISK = ("local", "disk")


@pytest.mark.parametrize(("flushed", "behind"), [(-10, 10), (0, 0), (10, 0)])
def test_figures_of_the_store(counting: Broker, monkeypatch: pytest.MonkeyPatch, flushed: int, behind: int) -> None:
    store = counting.services.store
    assert counting.samples("rocketmq_storage_message_reserve_time_milliseconds") == {
        "rocketmq_storage_message_reserve_time_milliseconds": {DISK: 0.0}
    }
    counting.send("t")
    monkeypatch.setattr(type(store), "flushed_offset", property(lambda it: it.max_physical_offset + flushed))
    monkeypatch.setattr(type(store), "min_physical_offset", property(lambda it: 7))
    counting.running.now += 500
    found = counting.samples()
    assert found["rocketmq_storage_flush_behind_bytes"] == {DISK: float(behind)}
    assert found["rocketmq_storage_message_reserve_time_milliseconds"] == {DISK: 500.0}
    assert found["rocketmq_py_commit_log_bytes"] == {DISK: store.max_physical_offset - 7.0}
    assert set(found["rocketmq_storage_size_bytes"]) == {DISK}


@pytest.mark.parametrize("is_enabled", [True, False])
def test_figures_of_timers(counting: Broker, monkeypatch: pytest.MonkeyPatch, is_enabled: bool) -> None:
    counting.send("t")
    counting.running.now += 40
    timers: Any = SimpleNamespace(
        is_enabled=is_enabled, unread=3, first_unread=[("t", 0, 0), ("t", 0, 9)], behind_ms=44,
        metrics=SimpleNamespace(entered={"t": 5}, left={"t": 2}, waiting=lambda: [("t", 3), ("u", 1)], total=4),
        check_spans=lambda *_: None, in_spans=lambda now, spans: iter([[0] * 8, [now, *spans[1:]]]),
    )  # fmt: skip
    now = float(counting.running.now)
    monkeypatch.setattr(counting.services, "timers", timers)
    found = {name: values for name, values in counting.samples().items() if name.startswith("rocketmq_tim")}
    assert found == ({
        "rocketmq_timer_enqueue_lag": {DISK: 3.0}, "rocketmq_timer_enqueue_latency_milliseconds": {DISK: 40.0},
        "rocketmq_timer_dequeue_lag": {DISK: 4.0}, "rocketmq_timer_dequeue_latency_milliseconds": {DISK: 44.0},
        "rocketmq_timer_message_snapshot": {(*DISK, "5"): now} | {
            (*DISK, span): float(span) for span in ("60", "300", "900", "3600", "14400", "28800", "86400")
        },
        "rocketmq_timer_enqueue_total": {(*DISK, "t"): 5.0}, "rocketmq_timer_dequeue_total": {(*DISK, "t"): 2.0},
        "rocketmq_timing_messages": {(*DISK, "t"): 3.0, (*DISK, "u"): 1.0},
    } if is_enabled else {})  # fmt: skip


def test_figures_of_pops(counting: Broker) -> None:
    counting.send("t")
    assert counting.client.ask(Code.POP_MESSAGE, pop("t")).code == 0
    counting.running.turn(2_000)
    log = counting.services.pop.revive_log
    [used] = [queue for queue in range(8) if log.inflight.first_offset(queue) is not None]
    found = counting.samples()
    assert set(found["rocketmq_pop_checkpoint_buffer_size"].values()) == {1.0}
    queues = [(str(queue),) for queue in range(counting.running.config.revive_queue_num)]
    assert found["rocketmq_pop_revive_lag_milliseconds"] == dict.fromkeys(queues, 0.0) | {(str(used),): 1.0}
    assert found["rocketmq_pop_revive_latency_milliseconds"] == dict.fromkeys(queues, 0.0) | {(str(used),): 2000.0}


def test_entries_of_the_revive_log_are_counted_until_they_are_over(counting: Broker) -> None:
    for _ in range(4):
        counting.send("t")
    counting.services.groups.put([SubscriptionGroupConfig(group_name="g")])
    answer = counting.client.ask(Code.POP_MESSAGE, pop("t", invisible_time=10_000))
    log = counting.services.pop.revive_log
    [one] = log.inflight.pops()
    key, queue = one.check_point.key, str(one.revive_queue)
    log.ack(key, one.left[:2])
    found = counting.samples()
    entered = {("t", "g", "CK", "PUT_OK"): 1.0, ("t", "g", "ACK", "PUT_OK"): 1.0}
    assert answer.code == 0
    assert found["rocketmq_pop_revive_in_message_total"] == entered
    assert not {"rocketmq_pop_revive_out_message_total", "rocketmq_pop_revive_retry_messages_total"} & found.keys()
    assert found["rocketmq_pop_offset_buffer_size"] == {(): 0.0}
    counting.running.turn(13_000)
    found = counting.samples()
    assert found["rocketmq_pop_revive_in_message_total"] == entered, "the broker's own acks do not count"
    left = {("t", "g", "CK", queue): 1.0, ("t", "g", "ACK", queue): 1.0}
    assert found["rocketmq_pop_revive_out_message_total"] == left
    assert found["rocketmq_pop_revive_retry_messages_total"] == {("t", "g", "PUT_OK"): 2.0}
    assert found["rocketmq_pop_buffer_scan_time_consume_milliseconds_count"][()] >= 1


def test_a_deleted_group_leaves_its_pops(counting: Broker) -> None:
    pops = counting.counts.pops
    for topic, group in (("t", "g"), ("t", "h"), ("u", "g"), ("v", "i")):
        pops.enter(PopEntries(topic, group, 3, "CK"))
        pops.retry(topic, group)
    pops.leave({})
    counting.services.stats.remove_group("g")
    name = "rocketmq_pop_revive_out_message_total"
    found = counting.samples()
    assert set(found[name]) == {("t", "h", "CK", "3"), ("v", "i", "CK", "3")}
    counting.services.stats.remove_topic("t")
    found = counting.samples()
    assert set(found[name]) == {("v", "i", "CK", "3")}
    assert set(found["rocketmq_pop_revive_in_message_total"]) == {("v", "i", "CK", "PUT_OK")}
    assert set(found["rocketmq_pop_revive_retry_messages_total"]) == {("v", "i", "PUT_OK")}


def test_requests_that_create_topics_and_groups_are_counted(counting: Broker) -> None:
    for topic, is_created in (("new", True), ("in valid", False), ("TBW102", False)):
        header = CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
            topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
        )  # fmt: skip
        answer = counting.client.ask_task(Code.UPDATE_AND_CREATE_TOPIC, header)
        assert (answer.code == 0) == is_created
    many = counting.client.ask_task(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=b'{"topicConfigList": []}')
    assert many.code == 0
    groups = [b'{"groupName": "new"}', b'{"groupName": "in valid"}']
    codes = [counting.client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code for body in groups]
    assert [code == 0 for code in codes] == [True, False]
    found = counting.samples()
    assert found["rocketmq_topic_create_execution_time_milliseconds_count"] == {
        ("success", "false"): 2.0, ("failure", "false"): 1.0, ("failure", "true"): 1.0,
    }  # fmt: skip
    assert found["rocketmq_consumer_group_create_execution_time_milliseconds_count"] == {
        ("success",): 1.0, ("failure",): 1.0,
    }  # fmt: skip


def test_the_delays_of_timed_messages_are_counted(counting: Broker) -> None:
    born = counting.running.now // 1000 * 1000
    for seconds in (30, 90):
        due = born + seconds * 1000 + 500
        counting.send("t", properties={"TIMER_DELIVER_MS": str(due)}, born_timestamp=born)
    counting.running.turn(100)
    found = counting.samples()
    name = "rocketmq_delay_message_latency_seconds"
    assert found[f"{name}_bucket"][*DISK, "t", "60.0"] == 1.0
    assert found[f"{name}_sum"] == {(*DISK, "t"): 120.0}
    snapshot = found["rocketmq_timer_message_snapshot"]
    assert {key[2]: count for key, count in snapshot.items() if count} == {"60": 1.0, "300": 1.0}
    assert found["rocketmq_timer_dequeue_lag"] == {DISK: 2.0}


def test_messages_that_were_popped_and_pulled_are_told_apart(counting: Broker) -> None:
    stats = counting.services.stats
    stats.got_by = lambda: [("g", "t", 9, 90), ("h", "t", 4, 40)]  # type: ignore[method-assign,assignment,return-value]
    stats.popped = {("g", "t"): (3, 30), ("h", "t"): (4, 40)}
    found = counting.samples()
    popped = {("t", "g", "false", "false"): 3.0, ("t", "h", "false", "false"): 4.0}
    assert found["rocketmq_messages_out_total"] == popped | {("t", "g", "false"): 6.0}
    assert found["rocketmq_throughput_out_total"] == {key: value * 10 for key, value in popped.items()} | {
        ("t", "g", "false"): 60.0
    }


def test_what_a_broker_holds_and_how_long_its_turns_were(counting: Broker) -> None:
    services = counting.services
    services.slow_turns.turn_ended(0.25, 0.25)
    counting.client.call(Code.PULL_MESSAGE, pull("t", 0))
    found = counting.samples()
    assert found["rocketmq_py_slow_turns_total"] == {(): 1.0}
    assert found["rocketmq_py_slowest_turn_seconds"] == {(): 0.25}
    assert found["rocketmq_py_start_time_seconds"] == {(): services.stats.started_ms / 1000}
    assert found["rocketmq_py_held_pulls"] == {(): float(len(services.pull_request_hold))}
    assert found["rocketmq_py_held_pops"] == {(): 0.0}


def test_a_collection_leaves_the_event_loop_to_others_after_five_milliseconds() -> None:
    assert collect.SLICE_SECONDS == 0.005


@pytest.mark.parametrize(
    ("switch", "gone"),
    [
        ("enable_request_metrics", "rocketmq_messages_in_total"),
        ("enable_remoting_metrics", "rocketmq_rpc_latency_milliseconds_count"),
        ("enable_stats_metrics", "rocketmq_topic_number"),
        ("enable_connection_metrics", "rocketmq_consumer_connections"),
        ("enable_lag_and_dlq_metrics", "rocketmq_consumer_lag_messages"),
        ("enable_transaction_metrics", "rocketmq_py_open_transactions"),
        ("enable_message_store_metrics", "rocketmq_py_commit_log_bytes"),
        ("enable_pop_metrics", "rocketmq_pop_checkpoint_buffer_size"),
    ],
)
def test_each_part_has_its_switch(counting: Broker, monkeypatch: pytest.MonkeyPatch, switch: str, gone: str) -> None:
    counting.send("t")
    counting.services.offsets.commit("g", "t", 0, 0, "a test")
    assert counting.client.ask(Code.HEART_BEAT, body=heartbeat("c1", t="*")).code == 0
    before = counting.samples()
    config = msgspec.structs.replace(counting.running.config, **{switch: False})
    monkeypatch.setattr(counting.running, "config", config)
    after = counting.samples()
    assert (gone in before, gone in after, "rocketmq_py_connections" in after) == (True, False, True)


def test_messages_of_system_groups_are_marked_and_pulls_alone_are_not_pops(counting: Broker) -> None:
    stats = counting.services.stats
    stats.got_by = lambda: [("g", "t", 5, 50), ("CID_RMQ_SYS_x", "t", 1, 10)]  # type: ignore[method-assign,assignment,return-value]
    stats.dead_letters = lambda: [("t", "g", 3), ("t", "CID_RMQ_SYS_x", 1)]  # type: ignore[method-assign,assignment,return-value]
    found = counting.samples()
    assert found["rocketmq_messages_out_total"] == {("t", "g", "false"): 5.0, ("t", "CID_RMQ_SYS_x", "true"): 1.0}
    assert found["rocketmq_throughput_out_total"] == {("t", "g", "false"): 50.0, ("t", "CID_RMQ_SYS_x", "true"): 10.0}
    assert found["rocketmq_send_to_dlq_messages_total"] == {
        ("t", "g", "false"): 3.0, ("t", "CID_RMQ_SYS_x", "true"): 1.0,
    }  # fmt: skip


def test_requests_that_wait_are_counted_by_processor(counting: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = counting.running.dispatcher.lanes
    names = ["send", "pull", "ack", "query", "client", "heartbeat", "transaction", "consumer", "admin", "reply"]
    for number, name in enumerate(names):
        monkeypatch.setattr(lanes[name], "running", number + 1)
    monkeypatch.setattr(counting.services, "waiting_sends", [1, 2, 3])
    assert counting.samples("rocketmq_processor_watermark")["rocketmq_processor_watermark"] == {
        ("send",): 4.0, ("pull",): 2.0, ("ack",): 3.0, ("query_message",): 4.0, ("client_manager",): 5.0,
        ("heartbeat",): 6.0, ("transaction",): 7.0, ("consumer_manager",): 8.0, ("admin",): 9.0, ("reply",): 10.0,
        ("async_put",): 0.0, ("lite_pull",): 0.0,
    }  # fmt: skip


def test_clients_are_counted_by_language_and_version(counting: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def member(language: str, version: int, channel: int) -> Any:
        return SimpleNamespace(language=language, version=version, channel=channel)

    one, two, three = member("JAVA", 455, 1), member("JAVA", 455, 2), member("GO", 453, 3)
    clients = counting.services.clients
    monkeypatch.setattr(clients.producers, "groups", {"p": {1: one, 2: two}, "q": {1: one, 3: three}})
    groups = {
        name: SimpleNamespace(name=name, consume_type=kind, members=members)
        for name, kind, members in (
            ("g", "CONSUME_POP", {1: one, 2: two, 3: three}), ("h", "CONSUME_ACTIVELY", {1: one}),
            ("CID_RMQ_SYS_x", "?", {1: one}),
        )
    }  # fmt: skip
    monkeypatch.setattr(clients.consumers, "groups", groups)
    found = counting.samples("rocketmq_producer_connections", "rocketmq_consumer_connections")
    java, go = version_name(455).lower(), version_name(453).lower()
    assert found["rocketmq_producer_connections"] == {("java", java, "remoting"): 2.0, ("go", go, "remoting"): 1.0}
    assert found["rocketmq_consumer_connections"] == {
        ("g", "java", java, "pop", "remoting", "false"): 2.0, ("g", "go", go, "pop", "remoting", "false"): 1.0,
        ("h", "java", java, "pull", "remoting", "false"): 1.0,
        ("CID_RMQ_SYS_x", "java", java, "push", "remoting", "true"): 1.0,
    }  # fmt: skip


def test_figures_of_transactions(counting: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    counting.counts.sent_halves("t", 5, 50)
    counting.counts.ended("t", 4.0, commit=True, count=2)
    counting.counts.ended("t", 4.0, commit=False)
    store, table = counting.services.store, SimpleNamespace(open_count=lambda end: end + 1)
    monkeypatch.setattr(counting.services, "transactions", SimpleNamespace(table=table))
    ranges = {("RMQ_SYS_TRANS_HALF_TOPIC", 0): (1, 7, 99)}
    monkeypatch.setattr(type(store), "queue_range", lambda _, topic, queue: ranges.get((topic, queue), (0, 0, 0)))
    found = counting.samples()
    assert found["rocketmq_commit_messages_total"] == {("t",): 2.0}
    assert found["rocketmq_rollback_messages_total"] == {("t",): 1.0}
    assert found["rocketmq_half_messages"] == {("t",): 2.0}
    assert found["rocketmq_finish_message_latency_milliseconds_sum"] == {("t",): 8.0}
    assert found["rocketmq_py_open_transactions"] == {(): 8.0}


@pytest.mark.parametrize(("oldest", "age"), [(-1, 0), (0, 0), (1, 9_999), (9_999, 1), (10_000, 0), (10_005, 0)])
def test_the_age_of_the_oldest_message(
    counting: Broker, monkeypatch: pytest.MonkeyPatch, oldest: int, age: int
) -> None:
    monkeypatch.setattr(type(counting.services.store), "earliest_message_time", lambda _: oldest)
    counting.running.now = 10_000
    name = "rocketmq_storage_message_reserve_time_milliseconds"
    found = counting.samples(name, "rocketmq_storage_size_bytes")
    assert found[name] == {DISK: float(age)}
    assert found["rocketmq_storage_size_bytes"] == {
        DISK: float(MemoryFileSystem().disk_usage(counting.services.store.layout.root).used)
    }


@pytest.mark.parametrize(
    ("times", "age"),
    [([], 0), ([-1, 0], 0), ([1], 9_999), ([9_000, 9_500, 0], 1_000), ([10_000], 0), ([10_001], 0)],
)
def test_the_oldest_of_some_messages(
    counting: Broker, monkeypatch: pytest.MonkeyPatch, times: list[int], age: int
) -> None:
    monkeypatch.setattr(type(counting.services.store), "store_time", lambda _, topic, queue, offset: times[offset])
    counting.running.now = 10_000
    timers: Any = SimpleNamespace(
        is_enabled=True, unread=0, first_unread=[("t", 0, number) for number in range(len(times))], behind_ms=0,
        metrics=SimpleNamespace(entered={}, left={}, waiting=list, total=0),
    )  # fmt: skip
    monkeypatch.setattr(counting.services, "timers", timers)
    name = "rocketmq_timer_enqueue_latency_milliseconds"
    assert counting.samples(name) == {name: {DISK: float(age)}}


def test_what_groups_received_is_formatted_again_only_where_it_has_changed(counting: Broker) -> None:
    stats = counting.services.stats
    for number in range(41):
        stats.pulled(f"g{number}", "t", 2, 20)
    stats.pulled_by_pop("g0", "t", 3, 30)

    async def main() -> None:
        made = counting.collector()

        async def collected() -> list[bytes]:
            return (await made.collect(frozenset(["rocketmq_messages_out_total"])))[1:4]

        first = await collected()
        assert [piece.count(b"\n") for piece in first] == [20, 20, 2], "two lines of g0"
        assert [line.rpartition(b" ")[2] for line in first[0].splitlines()[:3]] == [b"3.0", b"2.0", b"2.0"]
        stats.pulled("g30", "t", 1, 10)
        second = await collected()
        assert [old is new for old, new in zip(first, second, strict=True)] == [True, False, True]
        assert second[1].splitlines()[11].endswith(b'consumer_group="g30",is_system="false"} 3.0')
        stats.remove_group("g0")
        assert [piece.count(b"\n") for piece in await collected()][:2] == [20, 20]
        assert b'"g0"' not in b"".join(await collected())

    asyncio.run(main())


def test_a_scrape_of_a_broker_at_rest_computes_nothing_again(counting: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topics, groups, offsets = range(30), range(10), counting.services.offsets
    for topic in topics:
        for queue in range(2):
            counting.send(f"t{topic}", queue_id=queue)
            for group in groups:
                offsets.commit(f"g{group}", f"t{topic}", queue, 0, "a test")
                counting.services.stats.pulled(f"g{group}", f"t{topic}", 1, 10)

    async def main() -> None:
        made = counting.collector()
        calculator, steps, stood = made._groups._calculator, list[int](), list[str]()
        stand, run = calculator._stand, made._slices.run

        def standing(key: str, *rest: Any) -> None:
            stood.append(key)
            stand(key, *rest)

        async def running(work: Any) -> list[Any]:
            found = await run(work)
            steps.append(len(found))
            return found

        monkeypatch.setattr(calculator, "_stand", standing)
        monkeypatch.setattr(made._slices, "run", running)
        await made.collect()
        assert len(stood) == 2 * 300, "without and with store times"
        assert steps[:5] == [15, 60, 15, 15 + 5 + 6, 2 + 15 + 5], "20 groups or rows in each step"
        stood.clear()
        steps.clear()
        before = len(await made.collect())
        assert (stood, steps[:3]) == ([], [15, 15 + 5 + 6, 2 + 15 + 5])
        offsets.commit("g4", "t7", 0, 1, "a test")
        assert (len(await made.collect()), stood) == (before, ["t7@g4"])

    asyncio.run(main())
