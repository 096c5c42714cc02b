"""One embedded cluster for all tests of this folder, and topics to fill."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketmq_py.arrow.options.offsets import Offsets
from rocketmq_py.arrow.remoting.cluster import Cluster as View
from rocketmq_py.arrow.remoting.connection import connect
from rocketmq_py.arrow.remoting.retry import new_retry
from rocketmq_py.arrow.sink.rows import RowMessage
from rocketmq_py.arrow.sink.sender import BatchSender, SendSettings
from rocketmq_py.errors import NoRouteError
from rocketmq_py.properties import encode_properties
from rocketmq_py.protocol.bodies.route import ClusterInfo
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import NoHeader
from rocketmq_py.protocol.headers.topic import CreateTopic


@pytest.fixture(scope="session")
def namesrv() -> Iterator[str]:
    """An embedded cluster, or the running one ROCKETMQ_TEST_NAMESRV names (any implementation)."""
    given = os.environ.get("ROCKETMQ_TEST_NAMESRV")
    if given:
        yield given
        return
    from rocketmq_py.testing import Cluster

    with Cluster(enable_property_filter=True) as cluster:
        yield cluster.namesrv


class Topic:
    """A topic of its own for one test."""

    def __init__(self, namesrv: str, queues: int = 4, name: str | None = None) -> None:
        self.namesrv = namesrv
        self.name = name or f"t-{uuid.uuid4().hex[:12]}"
        self.sent = 0
        self.resize(queues)

    def resize(self, queues: int) -> None:
        """Create the topic, or give it more queues; returns when the name server knows."""
        brokers = connect(self.namesrv, 10)
        info = ClusterInfo.decode(brokers.call(RequestCode.GET_BROKER_CLUSTER_INFO, NoHeader()).body)
        brokers.close()
        for broker in info.broker_addr_table.values():
            connection = connect(broker.broker_addrs[0], 10)
            header = CreateTopic(
                topic=self.name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
                topic_filter_type="SINGLE_TAG", order=False,
            )  # fmt: skip
            connection.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            connection.close()
        new_retry(20, "waiting for the route").call(lambda: self._check_route(queues))

    def _check_route(self, queues: int) -> None:
        view = View((self.namesrv,), 10, 0)
        try:
            known = len(view.readable([self.name]).addresses)
        except NoRouteError:
            known = 0
        finally:
            view.close()
        if known < queues:
            raise NoRouteError(f"the name server knows {known} of {queues} queues of {self.name}")

    def send(self, number: int, **properties: str) -> None:
        """Send ``number`` messages more, spread over all queues; body and key are their number."""
        self.send_all(
            RowMessage(
                self.name,
                b"%d" % i,
                encode_properties({"KEYS": f"k{i}", "TAGS": "AB"[i % 2], **properties}),
                None,
                None,
            )
            for i in range(self.sent, self.sent + number)
        )
        self.sent += number

    def committed(self, group: str) -> Offsets:
        """Where a group stands."""
        with self.view() as view:
            return view.committed(group, view.readable([self.name]))

    def ends(self) -> Offsets:
        """Where the queues end."""
        with self.view() as view:
            return view.latest(view.readable([self.name]))

    def view(self) -> closing[View]:
        """Of the cluster."""
        return closing(View((self.namesrv,), 10, 7))

    def send_all(self, messages: Iterable[RowMessage]) -> None:
        sender = BatchSender(
            SendSettings(
                namesrv=(self.namesrv,), producer_group="tests", timeout=10, retries=7, in_flight=4, max_batch_bytes=500
            )
        )
        try:
            for message in messages:
                sender.send(message)
            sender.flush()
        finally:
            sender.close()

    @property
    def bodies(self) -> list[int]:
        """What has been sent, as :func:`numbers` gives it."""
        return list(range(self.sent))


@pytest.fixture
def topic(namesrv: str) -> Topic:
    return Topic(namesrv)


@pytest.fixture
def another_topic(namesrv: str) -> Topic:
    return Topic(namesrv)


Load = Callable[..., DataFrame]


@pytest.fixture
def load(spark: SparkSession, namesrv: str) -> Load:
    """``load(topic, option=value, ...)``: a batch read."""

    def load(topic: Topic | str, schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("rocketmq").options(
            namesrv=namesrv, subscribe=topic if isinstance(topic, str) else topic.name, **options
        )
        return (reader.schema(schema) if schema else reader).load()

    return load


@pytest.fixture
def load_stream(spark: SparkSession, namesrv: str) -> Load:
    """``load_stream(topic, option=value, ...)``: a streaming read from the earliest offsets on."""

    def load(topic: Topic, **options: Any) -> DataFrame:
        given = {"namesrv": namesrv, "subscribe": topic.name, "startingOffsets": "earliest"} | options
        return spark.readStream.format("rocketmq").options(**given).load()

    return load


def numbers(frame: DataFrame) -> list[int]:
    """The bodies of a read, sorted, repetitions kept."""
    return sorted(int(row[0]) for row in frame.selectExpr("cast(body as string)").collect())
