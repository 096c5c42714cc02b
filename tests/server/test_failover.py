"""Three name servers and three brokers, each killed and started again under load: clients notice latency only."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from rocketmq_py import Admin, ConsumeFromWhere, Message, MessageExt, MessageQueue, Producer, PushConsumer
from rocketmq_py.client.instance import ClientInstance
from tests.failover import NAMES, Machines
from tests.interop.ours import OurServers

pytestmark = pytest.mark.long

SECONDS = 120.0
"""Longer than any step takes, also on a busy machine; only a test that fails waits for it."""


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[OurServers]:
    """That may be killed."""
    servers = OurServers(tmp_path)
    yield servers
    servers.close()


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


@pytest.mark.usefixtures("_frequent_looks")
def test_each_may_be_killed_and_nothing_is_lost(
    own_servers: OurServers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machines = Machines.start(own_servers, tmp_path)
    caplog.set_level(logging.WARNING, "rocketmq_py")
    with Admin(namesrv=machines.namesrv) as admin:
        admin.create_topic("t", 4)
    with Load(machines.namesrv, "t") as load:
        for number, name in enumerate(NAMES):
            load.wait(lambda load, name=name: load.sent_to(name) > 20)
            machines.kill_name_server(number)
            go_on(load)
            machines.restart_name_server(number)
            machines.kill_broker(number)
            go_on(load)
            before = load.sent_to(name)
            machines.restart_broker(number)
            load.wait(lambda load, name=name, before=before: load.sent_to(name) > before)
        load.stop_sending()
        load.wait(lambda load: load.received.keys() >= load.sent.keys())
    assert not [record.getMessage() for record in caplog.records if record.levelno > logging.WARNING]


@pytest.mark.usefixtures("_frequent_looks")
def test_restarted_in_good_order_one_after_the_other_nobody_notices(
    own_servers: OurServers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two pairs: no send fails, nothing had to be tried again that a broker had taken already, and what a master had
    taken is read from its slave while it is away."""
    machines = Machines.start(own_servers, tmp_path, "--drain", "30", brokers=2, slaves=2)
    with Admin(namesrv=machines.namesrv) as admin:
        admin.create_topic("t", 4)
    with Load(machines.namesrv, "t") as load:
        for number, server in enumerate(machines.name_servers):
            server.stop()
            go_on(load)
            machines.restart_name_server(number)
        for number, name in enumerate(NAMES[:2]):
            load.wait(lambda load, name=name: load.sent_to(name) > 20)
            machines.restart_slave(number, "t")
            machines.brokers[number].stop()
            go_on(load)
            load.wait(lambda load, name=name: load.received.keys() >= load.taken_by(name))
            before = load.sent_to(name)
            machines.restart_broker(number)
            load.wait(lambda load, name=name, before=before: load.sent_to(name) > before)
        load.stop_sending()
        load.wait(lambda load: load.received.keys() >= load.sent.keys())
    assert not load.stored_twice()
    assert not [record.getMessage() for record in caplog.records if record.levelno > logging.WARNING]
