"""Health and metrics of a running broker over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Self
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rocketmq_py import Message, aio
from rocketmq_py.broker import Broker, BrokerConfig
from rocketmq_py.errors import ConfigError
from rocketmq_py.namesrv import NameServer, NamesrvConfig
from tests.otlp_collector import Collector


class Cluster:
    """A name server, and a broker that serves metrics."""

    def __init__(self, store: Path, **settings: object) -> None:
        self._store, self._settings = store, settings
        self.namesrv = NameServer(NamesrvConfig(listen_port=0, bind_address="127.0.0.1"))

    async def __aenter__(self) -> Self:
        await self.namesrv.start()
        self.broker = Broker(
            BrokerConfig(
                listen_port=0, bind_address="127.0.0.1", namesrv_addr=self.namesrv.address,
                store_path_root_dir=str(self._store),
                **{"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0} | self._settings,
            )
        )  # fmt: skip
        await self.broker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.stop()
        await self.namesrv.stop()

    async def get(self, path: str, port: str = "metrics") -> tuple[int, str]:
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.broker.monitoring_ports[port]}{path}")

    async def samples(self, path: str = "/metrics") -> dict[str, list[tuple[dict[str, str], float]]]:
        """All series by name; the exposition must parse."""
        status, text = await self.get(path)
        assert status == 200
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            assert family.type != "unknown"
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        series = [line.partition("} ")[0] for line in text.splitlines() if not line.startswith("#")]
        assert len(series) == len(set(series))
        return found


def _get(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=240) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as e:
        with e:
            return e.code, e.read().decode()


def test_messages_and_the_lag_of_an_offline_group_are_in_the_exposition(tmp_path):
    async def main() -> None:
        async with Cluster(tmp_path / "s", metrics_queue_level=True, metrics_label="zone:a,rack:7") as cluster:
            async with aio.Producer("p", cluster.namesrv.address) as producer:
                await asyncio.gather(*[producer.send(Message("t", b"x" * 50)) for _ in range(40)])
                await producer.send(Message("t", b"later", delay_level=18))
            offsets = cluster.broker.services.offsets
            for queue in range(4):
                offsets.commit("g", "t", queue, 0, "a test")
            found = await cluster.samples()
            kinds = {labels["message_type"]: value for labels, value in found["rocketmq_messages_in_total"]}
            assert kinds == {"normal": 40.0, "delay": 1.0}
            for labels, _ in found["rocketmq_messages_in_total"]:
                assert labels["node_id"] == "broker-a"
                assert (labels["zone"], labels["rack"], labels["is_system"]) == ("a", "7", "false")
            ends = [cluster.broker.services.store.queue_range("t", queue)[1] for queue in range(4)]
            lags = {
                (one["consumer_group"], one["topic"]): value for one, value in found["rocketmq_consumer_lag_messages"]
            }
            assert lags["g", "t"] == sum(ends)
            queues = {one["queue_id"]: value for one, value in found["rocketmq_py_consumer_queue_lag_messages"]}
            assert queues == {str(queue): float(end) for queue, end in enumerate(ends)}
            only = await cluster.samples("/metrics?name[]=rocketmq_topic_number")
            assert list(only) == ["rocketmq_topic_number"]

    asyncio.run(main())


def test_what_a_group_consumes_is_in_the_exposition(tmp_path):
    async def main() -> None:
        async with Cluster(tmp_path / "s") as cluster:
            received = asyncio.Queue[bytes]()

            async def listener(message: object) -> None:
                received.put_nowait(message.body)

            async with aio.Producer("p", cluster.namesrv.address) as producer:
                await producer.send(Message("t", b"1"))
                consumer = aio.PushConsumer(
                    "g", cluster.namesrv.address, consume_from=aio.ConsumeFromWhere.FIRST_OFFSET
                )
                consumer.subscribe("t", listener=listener)
                async with consumer:
                    await received.get()
                    found = await cluster.samples()
            (out,) = [(one, value) for one, value in found["rocketmq_messages_out_total"] if one["topic"] == "t"]
            assert (out[0]["consumer_group"], out[1]) == ("g", 1.0)
            assert "is_retry" not in out[0]
            (one,) = [one for one, _ in found["rocketmq_consumer_connections"] if one["consumer_group"] == "g"]
            assert (one["language"], one["consume_mode"]) == ("python", "push")
            counted = {one["request_code"]: value for one, value in found["rocketmq_rpc_latency_milliseconds_count"]}
            assert counted["send_message_v2"] == 1.0

    asyncio.run(main())


def test_health_is_served_on_a_port_of_its_own_without_metrics(tmp_path):
    async def main() -> None:
        async with Cluster(tmp_path / "s", health_port=0) as cluster:
            for port in ("metrics", "health"):
                for path in ("/livez", "/readyz", "/startupz"):
                    assert await cluster.get(path, port) == (200, "ok\n")
            assert (await cluster.get("/metrics", "health"))[0] == 404

    asyncio.run(main())


def test_a_draining_broker_is_not_ready_and_lives(tmp_path):
    async def main() -> None:
        async with Cluster(tmp_path / "s") as cluster:
            cluster.broker._monitor.draining()
            assert (await cluster.get("/readyz"))[0] == 503
            assert (await cluster.get("/livez"))[0] == 200

    asyncio.run(main())


def test_series_have_a_limit(tmp_path, caplog):
    async def main() -> None:
        async with Cluster(tmp_path / "s", metrics_otel_cardinality_limit=3) as cluster:
            found = await cluster.samples()
            assert len(found["rocketmq_processor_watermark"]) == 3
            left_out = {one["metric"]: value for one, value in found["rocketmq_py_series_left_out"]}
            assert left_out["rocketmq_processor_watermark"] == 9.0
            assert "rocketmq_processor_watermark are left out" in caplog.text

    asyncio.run(main())


def test_metrics_on_all_interfaces_are_logged(tmp_path, caplog):
    async def main() -> None:
        async with Cluster(tmp_path / "s", metrics_prom_exporter_host="0.0.0.0", health_port=0):
            assert caplog.text.count("without access control: anyone who reaches it reads") == 2

    asyncio.run(main())


def test_a_deleted_topic_leaves_the_exposition(tmp_path):
    async def main() -> None:
        async with Cluster(tmp_path / "s") as cluster:
            async with aio.Producer("p", cluster.namesrv.address) as producer:
                for topic in ("t", "u"):
                    await producer.send(Message(topic, b"1"))
            async with aio.Admin(cluster.namesrv.address) as admin:
                await admin.delete_topic("t")
            found = await cluster.samples()
            assert {one["topic"] for one, _ in found["rocketmq_messages_in_total"]} == {"u"}

    asyncio.run(main())


def test_a_port_that_is_taken_ends_the_start(tmp_path):
    async def main() -> None:
        async with Cluster(tmp_path / "s") as cluster:
            taken = cluster.broker.monitoring_ports["metrics"]
            config = BrokerConfig(
                listen_port=0, bind_address="127.0.0.1", store_path_root_dir=str(tmp_path / "other"), health_port=taken
            )
            with pytest.raises(ConfigError, match=f"health and metrics on 127.0.0.1:{taken}"):
                await Broker(config).start()

    asyncio.run(main())


@pytest.mark.parametrize(
    "wrong",
    [{"metrics_exporter_type": "OTLP_GRPC"}, {"metrics_exporter_type": "OTLP"}, {"metrics_label": "le:1"},
     {"metrics_label": "no value"}, {"metric_logging_exporter_interval_in_mills": 999},
     {"metric_logging_exporter_interval_in_mills": 86_400_001}, {"metric_grpc_exporter_interval_in_mills": 999},
     {"metric_grpc_exporter_time_out_in_mills": 0}, {"metrics_export_batch_max_data_points": 0},
     {"metrics_exporter_type": "1", "metrics_grpc_exporter_target": "h:1", "metrics_grpc_exporter_header": "x"},
     {"health_port": 70_000}],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(ConfigError):
        BrokerConfig(**wrong)


def test_metrics_are_written_to_the_log_instead(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    settings = {"metrics_exporter_type": "3", "metric_logging_exporter_interval_in_mills": 86_400_000}

    async def main() -> None:
        async with Cluster(tmp_path / "s", **settings) as cluster:
            assert cluster.broker.monitoring_ports == {}
            async with aio.Producer("p", cluster.namesrv.address) as producer:
                for _ in range(3):
                    await producer.send(Message("t", b"x"))
            await cluster.broker._monitor._export.export()
            assert cluster.broker._monitor._export._interval_ms == 86_400_000

    asyncio.run(main())
    [line] = [one.getMessage() for one in caplog.records if one.name.endswith("metrics_log")]
    [scope] = json.loads(line)["scopeMetrics"]
    [points] = [one["sum"]["dataPoints"] for one in scope["metrics"] if one["name"] == "rocketmq_messages_in_total"]
    found = {pair["key"]: pair["value"] for pair in points[0]["attributes"]}
    assert (len(points), points[0]["asInt"]) == (1, "3")
    assert (found["topic"], found["node_type"]) == ({"stringValue": "t"}, {"stringValue": "broker"})


def test_metrics_are_sent_to_a_collector(tmp_path):
    with Collector() as collector:
        settings = {
            "metrics_exporter_type": "1", "metrics_grpc_exporter_target": f"http://127.0.0.1:{collector.port}",
            "metrics_grpc_exporter_header": "a:secret", "metric_grpc_exporter_interval_in_mills": 1000,
            "metrics_export_batch_max_data_points": 7,
        }  # fmt: skip

        async def main() -> dict[str, str]:
            async with Cluster(tmp_path / "s", **settings) as cluster, aio.Producer("p", cluster.namesrv.address) as p:
                await p.send(Message("t", b"x"))
                while True:
                    found = await asyncio.to_thread(collector.next)
                    assert found.headers["a"] == "secret"
                    assert sum(len(getattr(one, one.WhichOneof("data")).data_points) for one in found.metrics) <= 7
                    if any(one.name == "rocketmq_messages_in_total" for one in found.metrics):
                        break
                async with aio.Admin(cluster.namesrv.address) as admin:
                    return await admin.broker_config(cluster.broker.address)

        shown = asyncio.run(main())
    assert shown["metricsGrpcExporterHeader"] == "a:******"
    assert shown["metricsExportBatchMaxDataPoints"] == "7"


def test_a_name_server_shows_its_brokers(tmp_path):
    async def main() -> None:
        config = NamesrvConfig(
            listen_port=0, bind_address="127.0.0.1", metrics_exporter_type="PROM", metrics_prom_exporter_port=0
        )
        namesrv = NameServer(config)
        await namesrv.start()
        broker = Broker(
            BrokerConfig(
                listen_port=0, bind_address="127.0.0.1", namesrv_addr=namesrv.address,
                store_path_root_dir=str(tmp_path / "s"),
            )
        )  # fmt: skip
        await broker.start()
        url = f"http://127.0.0.1:{namesrv.monitoring_ports['metrics']}"
        assert await asyncio.to_thread(_get, f"{url}/readyz") == (200, "ok\n")
        status, text = await asyncio.to_thread(_get, f"{url}/metrics")
        assert status == 200
        found = {family.name: family.samples for family in text_string_to_metric_families(text)}
        (brokers,) = found["rocketmq_py_namesrv_brokers"]
        assert (brokers.labels["cluster"], brokers.value) == ("DefaultCluster", 1.0)
        counts = [one for one in found["rocketmq_rpc_latency_milliseconds"] if one.name.endswith("_count")]
        assert {one.labels["request_code"]: one.value for one in counts}["register_broker"] >= 1.0
        await broker.stop()
        await namesrv.stop()

    asyncio.run(main())
