"""Three name servers and three brokers, each killed and started again under load: clients notice latency only."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from rocketmq_py import Admin, ConsumeFromWhere, Message, MessageExt, MessageQueue, Producer, PushConsumer
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.protocol.codes import RequestCode
from tests.chaoskit.processes import ClusterProcesses
from tests.interop.side import eventually
from tests.server.rawpeer import RawPeer

pytestmark = pytest.mark.long

SECONDS = 120.0
"""Longer than any step takes, also on a busy machine; only a test that fails waits for it."""
DRAIN = {"enableShutdownGracefully": "true", "shutdownWaitTimeSeconds": "30"}


class Load:
    """A producer and a push consumer that run all the time, in threads of their own."""

    def __init__(self, namesrv: str, topic: str) -> None:
        self._topic = topic
        self._changed = threading.Condition()
        self.sent: dict[bytes, str] = {}
        self.received: Counter[bytes] = Counter()
        self._places: dict[bytes, set[tuple[MessageQueue, int]]] = defaultdict(set)
        self._failure: BaseException | None = None
        self._stopping = False
        self._producer = Producer(group="p", namesrv=namesrv)
        self._consumer = PushConsumer(group="g", namesrv=namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        self._consumer.subscribe(topic, listener=self._receive)
        self._thread = threading.Thread(target=self._send_on)

    def __enter__(self) -> Self:
        self._consumer.start()
        self._producer.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_sending()
        self._consumer.close()
        self._producer.close()

    def stop_sending(self) -> None:
        self._stopping = True
        self._thread.join()

    def wait(self, what: Callable[[Load], bool]) -> None:
        """Until it is so; a send that failed for its application fails the test here."""
        with self._changed:
            told = self._changed.wait_for(lambda: self._failure is not None or what(self), SECONDS)
        if self._failure is not None:
            raise AssertionError(f"a send failed after {len(self.sent)} messages") from self._failure
        assert told, f"{len(self.sent)} sent, {len(self.received)} received"

    def sent_to(self, broker: str) -> int:
        return sum(name == broker for name in self.sent.values())

    def taken_by(self, broker: str) -> set[bytes]:
        return {body for body, name in self.sent.items() if name == broker}

    def stored_twice(self) -> list[bytes]:
        """What a broker had taken already when it was sent again."""
        return [body for body, places in self._places.items() if len(places) > 1]

    def _send_on(self) -> None:
        number = 0
        try:
            while not self._stopping:
                number += 1
                body = b"%d" % number
                result = self._producer.send(Message(self._topic, body))
                with self._changed:
                    self.sent[body] = result.queue.broker_name
                    self._changed.notify_all()
        except Exception as e:  # noqa: BLE001 - told by wait()
            with self._changed:
                self._failure = e
                self._changed.notify_all()

    def _receive(self, message: MessageExt) -> None:
        with self._changed:
            self.received[message.body] += 1
            self._places[message.body].add((message.queue, message.queue_offset))
            self._changed.notify_all()


def go_on(load: Load) -> None:
    """A while of sending and receiving."""
    sent, received = len(load.sent), len(load.received)
    load.wait(lambda load: len(load.sent) >= sent + 200 and len(load.received) >= received + 100)


@pytest.fixture
def _frequent_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients look for brokers that are back every second instead of every 30 s."""
    defaults = ClientInstance.__init__.__kwdefaults__ | {"route_interval": 1.0}
    monkeypatch.setattr(ClientInstance.__init__, "__kwdefaults__", defaults)


def restart_slave(machines: ClusterProcesses, number: int, topic: str) -> None:
    """In good order; until it follows its master again and has a topic of it."""
    machines.slaves[number].stop()
    machines.slaves[number].start()

    def follows() -> bool:
        with (
            RawPeer(machines.brokers[number].address) as master,
            RawPeer(machines.slaves[number].address) as slave,
        ):
            status = json.loads(master.ask(RequestCode.GET_BROKER_HA_STATUS).body)
            has_topic = slave.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}).code == 0
        return status["inSyncSlaveNums"] == 1 and has_topic

    eventually(follows, bool)


@pytest.mark.usefixtures("_frequent_looks")
def test_no_message_is_lost_when_each_server_is_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "rocketmq_py")
    with ClusterProcesses(tmp_path, brokers=3, name_servers=3) as machines:
        with Admin(namesrv=machines.direct_namesrv) as admin:
            admin.create_topic("t", 4)
        with Load(machines.direct_namesrv, "t") as load:
            for name_server, broker in zip(machines.name_servers, machines.brokers, strict=True):
                load.wait(lambda load, name=broker.name: load.sent_to(name) > 20)
                name_server.kill()
                go_on(load)
                name_server.start()  # empty: the brokers tell it everything anew
                broker.kill()
                go_on(load)
                before = load.sent_to(broker.name)
                broker.start()
                load.wait(lambda load, name=broker.name, before=before: load.sent_to(name) > before)
            load.stop_sending()
            load.wait(lambda load: load.received.keys() >= load.sent.keys())
    assert not [record.getMessage() for record in caplog.records if record.levelno > logging.WARNING]


@pytest.mark.usefixtures("_frequent_looks")
def test_a_rolling_restart_fails_no_client(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two pairs: no send fails, nothing had to be tried again that a broker had taken already, and what a master had
    taken is read from its slave while it is away."""
    with ClusterProcesses(tmp_path, name_servers=3, slaves=2, sync=False, settings=DRAIN) as machines:
        with Admin(namesrv=machines.direct_namesrv) as admin:
            admin.create_topic("t", 4)
        with Load(machines.direct_namesrv, "t") as load:
            for name_server in machines.name_servers:
                name_server.stop()
                go_on(load)
                name_server.start()
            for number, broker in enumerate(machines.brokers):
                load.wait(lambda load, name=broker.name: load.sent_to(name) > 20)
                restart_slave(machines, number, "t")
                broker.stop()
                go_on(load)
                load.wait(lambda load, name=broker.name: load.received.keys() >= load.taken_by(name))
                before = load.sent_to(broker.name)
                broker.start()
                load.wait(lambda load, name=broker.name, before=before: load.sent_to(name) > before)
            load.stop_sending()
            load.wait(lambda load: load.received.keys() >= load.sent.keys())
    assert not load.stored_twice()
    assert not [record.getMessage() for record in caplog.records if record.levelno > logging.WARNING]
