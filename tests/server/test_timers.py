"""Messages delivered at a time of their own, by a broker in a process of its own that may be killed."""

from __future__ import annotations

import asyncio
import datetime
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocketmq_py import ConsumeFromWhere, LitePullConsumer, Message, MessageExt, Producer
from rocketmq_py.aio import Producer as AioProducer
from rocketmq_py.errors import BrokerError, ConfigError, MessageRefused
from rocketmq_py.testing import Cluster
from tests.interop.ours import READY, first_line
from tests.server.consuming import PATIENCE

TOPIC = "alarms"


class Server:
    """Name server and broker in a process of their own."""

    def __init__(self, store: Path) -> None:
        command = [str(Path(sys.executable).with_name("rocketmq")), "serve", "--store", str(store)]
        settings = ["--namesrv-port", "0", "--port", "0", "--set", "mappedFileSizeCommitLog=16777216"]
        self._process = subprocess.Popen(
            command + settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        match = READY.search(first_line(self._process))
        assert match is not None
        self.namesrv = match[1]

    def end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def everything(namesrv: str, wanted: int) -> list[str]:
    """The bodies in the topic, once there are so many."""
    with LitePullConsumer("g", namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        queues = consumer.queues(TOPIC)
        consumer.assign(queues)
        for queue in queues:
            consumer.seek_to_begin(queue)
        deadline, found = time.monotonic() + PATIENCE, list[str]()
        while len(found) < wanted and time.monotonic() < deadline:
            found += [message.body.decode() for message in consumer.poll(1.0)]
        return found


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes")
def test_repeated_kills_lose_and_repeat_no_timed_message(tmp_path: Path) -> None:
    names = [f"{i}" for i in range(400)]
    server = Server(tmp_path)
    with Producer("p", server.namesrv) as producer:
        start = time.time()
        for i, name in enumerate(names):
            producer.send(Message(TOPIC, name, deliver_at=round(1000 * start) + 1_000 + 10 * i))
    while time.time() < start + 7:
        time.sleep(0.6)  # into the middle of deliveries
        server.end(signal.SIGKILL)
        server = Server(tmp_path)
    found = everything(server.namesrv, len(names))
    server.end(signal.SIGTERM)
    assert set(found) == set(names), "nothing is lost"
    assert len(found) <= len(names) + 40, "and next to nothing comes twice"


def test_thousands_due_in_one_second_are_delivered_once_and_not_early() -> None:
    count, slot_ms = 5_000, 1_000
    with Cluster() as cluster:
        cluster.create_topic(TOPIC, 4)
        due = (round(time.time() * 1000) // slot_ms + 4) * slot_ms
        with Producer("p", cluster.namesrv, send_timeout=PATIENCE) as producer:
            sends = [
                producer.send_async(Message(TOPIC, str(due + i % slot_ms), keys=f"k{i}", deliver_at=due + i % slot_ms))
                for i in range(count)
            ]
            for sent in sends:
                sent.result(PATIENCE)
        with LitePullConsumer("g", cluster.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
            consumer.subscribe(TOPIC)
            found: list[MessageExt] = []
            while len(found) < count and (polled := consumer.poll(PATIENCE)):
                found += polled
        services = cluster.brokers[0].services
        stored = sum(services.store.queue_range(TOPIC, queue)[1] for queue in range(4))
        assert services.timers.metrics.total == 0
    assert {message.keys for message in found} == {f"k{i}" for i in range(count)}
    assert len(found) == stored == count, "none twice"
    assert min(message.store_timestamp - int(message.body) for message in found) >= 0, "early"


def test_both_clients_send_and_recall_timed_messages() -> None:
    with Cluster(recall_message_enable=True) as cluster, Producer("p", cluster.namesrv) as producer:
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        sent = producer.send(Message(TOPIC, "later", deliver_at=soon))
        assert sent.recall_handle is not None
        assert producer.recall(TOPIC, sent.recall_handle) == sent.msg_id
        with pytest.raises(ConfigError, match="recall handle is invalid"):
            producer.recall(TOPIC, "nonsense")
        with pytest.raises(BrokerError, match="topic not match"):
            producer.recall("TBW102", sent.recall_handle)
        for far in (10 * 365 * 24 * 3600, 4 * 24 * 3600):
            with pytest.raises(MessageRefused, match="should not be bigger than the max delay"):
                producer.send(Message(TOPIC, "x", delay=far))
        with pytest.raises(MessageRefused, match="timer message illegal"):
            producer.send(Message(TOPIC, "x", properties={"TIMER_DELIVER_MS": "tomorrow"}))
        producer.send(Message(TOPIC, "past", deliver_at=1))
        producer.send(Message(TOPIC, "soon", delay=0.3))
        assert sorted(everything(cluster.namesrv, 2)) == ["past", "soon"]


def test_the_asyncio_producer_recalls_messages() -> None:
    async def recall(namesrv: str) -> None:
        async with AioProducer("p", namesrv) as producer:
            sent = await producer.send(Message(TOPIC, "later", delay=3600))
            assert sent.recall_handle is not None
            with pytest.raises(BrokerError, match="operation is forbidden"):
                await producer.recall(TOPIC, sent.recall_handle)

    with Cluster() as cluster:  # recalls are off by default
        asyncio.run(recall(cluster.namesrv))
