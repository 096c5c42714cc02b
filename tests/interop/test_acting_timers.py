"""Messages with a time of their own while a slave acts: ours for a Java master, and a Java slave for ours.

Masters do not deliver before they die, so whatever comes meanwhile comes through the slave; then they go on with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rocketmq_py import Message, MessageQueue, Producer
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.store.timer.timer_wheel import progress
from tests.interop.javapeer import JavaPeer, free_port_block
from tests.interop.ours import OurServers
from tests.interop.side import eventually
from tests.interop.test_acting_master import ACTING, knows, make_topic, masters, stored
from tests.server.rawpeer import RawPeer

pytestmark = pytest.mark.long

N = 10
FLUSH_MS = 5000
"""How often a Java broker notes how far its timers are."""
MASTER = {"enableSlaveActingMaster": "true", "totalReplicas": 2, "timerFlushIntervalMs": FLUSH_MS}
SLAVE = {**ACTING, "enableRemoteEscape": "true", "timerFlushIntervalMs": FLUSH_MS}


@pytest.fixture
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurServers]:
    """That may be killed."""
    servers = OurServers(tmp_path_factory.mktemp("acting"))
    yield servers
    servers.close()


def send(namesrv: str, topic: str, count: int, seconds: float) -> int:
    """Timed messages for the only queue of broker-a; when the last is due."""
    due = round((time.time() + seconds) * 1000)
    with Producer("p", namesrv, send_timeout=60) as producer:
        for number in range(count):
            message = Message(topic, b"%d" % number, deliver_at=due + number * 100)
            producer.send(message, MessageQueue(topic, "broker-a", 0))
    return due + (count - 1) * 100


def says_delivered(slave: str, due: int) -> None:
    """Wait until a slave tells that it has delivered what was due; a Java broker tells that some seconds later."""

    def told() -> int:
        with RawPeer(slave) as peer:
            return progress(peer.ask(RequestCode.GET_TIMER_CHECK_POINT).body)[0]

    eventually(told, lambda read_ms: read_ms > due)


def acts(namesrv: str, topic: str, slave: str) -> None:
    eventually(lambda: masters(namesrv, topic).get("broker-a"), lambda address: address == slave)


def test_our_slave_delivers_for_a_java_master_and_hands_over(java: JavaPeer, own_servers: OurServers) -> None:
    namesrv = java.namesrv(conf={"supportActingMaster": "true"}).namesrv
    port = free_port_block()
    master = java.broker(namesrv, port=port, conf={**MASTER, "timerStopDequeue": "true"})
    other = own_servers.serve(None, "--namesrv", namesrv, brokerName="broker-b")
    slave = own_servers.serve(
        None, "--namesrv", namesrv, brokerRole="SLAVE", brokerId=1, slaveSyncInterval=1000, **SLAVE
    )
    topic = make_topic(namesrv)
    due = send(namesrv, topic, N, 2)
    eventually(lambda: stored(slave.broker, TIMER_TOPIC), lambda end: end == N)
    master.process.kill()
    acts(namesrv, topic, slave.broker)
    eventually(lambda: stored(other.broker, topic), lambda end: end == N)
    says_delivered(slave.broker, due)

    again = java.broker(namesrv, port=port, store=master.store, conf=MASTER)
    acts(namesrv, topic, again.address)
    send(namesrv, topic, 1, 2)
    eventually(lambda: stored(again.address, topic), lambda end: end > 0)
    assert (stored(again.address, topic), stored(other.broker, topic)) == (1, N), "the last one alone"


def test_a_java_slave_delivers_for_our_master_and_hands_over(java: JavaPeer, own_servers: OurServers) -> None:
    server = own_servers.namesrv(supportActingMaster="true", notifyMinBrokerIdChanged="true")
    namesrv, flags = server.namesrv, ("--namesrv", server.namesrv, "--port", str(free_port_block()))
    store = own_servers.work / "master"
    master = own_servers.serve(store, *flags, enableSlaveActingMaster="true", timerStopDequeue="true")
    other = own_servers.serve(None, "--namesrv", namesrv, brokerName="broker-b")
    topic = make_topic(namesrv)
    slave = java.broker(namesrv, role="SLAVE", id=1, conf=SLAVE)
    eventually(lambda: knows(slave.address, topic), bool)
    due = send(namesrv, topic, N, 2)
    eventually(lambda: stored(slave.address, TIMER_TOPIC), lambda end: end == N)
    master.kill()
    acts(namesrv, topic, slave.address)
    eventually(lambda: stored(other.broker, topic), lambda end: end == N)
    says_delivered(slave.address, due)

    own_servers.serve(store, *flags, enableSlaveActingMaster="true")
    acts(namesrv, topic, master.broker)
    send(namesrv, topic, 1, 2)
    eventually(lambda: stored(master.broker, topic), lambda end: end > 0)
    assert (stored(master.broker, topic), stored(other.broker, topic)) == (1, N), "the last one alone"
