"""A slave that acts for its master, all of Java's and all of ours side by side: the same client asks both the same.

Each side has a name server, a master with its slave, and a master of another name that takes what comes due.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rocketmq_py import Admin
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.client import LockBatchRequest, LockBatchResponse, MessageQueueBody
from rocketmq_py.protocol.bodies.route import KvTable, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.offset import GetMaxOffset, QueryConsumerOffset, SearchOffset, UpdateConsumerOffset
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.protocol.headers.topic import GetRouteInfo, TopicName
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records
from tests.interop.javapeer import JavaPeer, free_port_block, options
from tests.interop.ours import OurServers
from tests.interop.side import eventually
from tests.server.rawpeer import RawPeer
from tests.unit.broker.pop.pop_client import Popped, popped
from tests.unit.broker.requests import pop, pull, send

pytestmark = pytest.mark.long

TOPIC, DUE, GROUP, LEFT_AT = "orders", "due", "readers", 3
N = 5
NAMESRV = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}
ACTING = {"enableSlaveActingMaster": "true", "slaveReadEnable": "true", "enableRemoteEscape": "true"}
HALF = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "H"}
SECONDS_30 = "4"
"""A delay level: longer than it takes to kill a master."""

KNOWN = {
    "pull of beyond the end": ((19, "0", "12", "0", "5", 0), (20, "0", "12", "0", "5", 0)),
    "offset at the master that is back": ("4", "3"),
}
"""What is answered differently, ours first. At Java's slave a reader asks again and again for what is not there, at
ours it waits. Our master asks the slave how far it has come, Java's only with ``totalReplicas`` above 1."""

Said = dict[str, Any]
"""What was answered, by what was asked."""


def ask(address: str, code: Code, header: Header | None = None, body: bytes = b"") -> Command:
    with RawPeer(address) as peer:
        return peer.ask(code, header.to_ext() if header is not None else {}, body)


def equals(wanted: object) -> Callable[[object], bool]:
    return lambda seen: seen == wanted


def end_of(address: str, topic: str, queue_id: int = 0) -> int:
    """Where a queue ends at a broker."""
    return int(ask(address, Code.GET_MAX_OFFSET, GetMaxOffset(topic=topic, queue_id=queue_id)).ext["offset"])


class Brokers(NamedTuple):
    """Addresses of one side; ``kill`` ends the master, ``revive`` starts it again."""

    namesrv: str
    master: str
    slave: str
    other: str
    kill: Callable[[], None]
    revive: Callable[[], None]

    def serving(self) -> str | None:
        """Whom clients take for the master."""
        header = GetRouteInfo(topic=TOPIC, accept_standard_json_only=True)
        answer = ask(self.namesrv, Code.GET_ROUTEINFO_BY_TOPIC, header)
        found = [data.broker_addrs for data in TopicRouteData.decode(answer.body).broker_datas if answer.code == 0]
        return next((ids[0] for ids in found if 0 in ids and ids[0] != self.other), None)


def fill(namesrv: str, master: str) -> None:
    with Admin(namesrv, timeout=60) as admin:
        for topic in (TOPIC, DUE):
            admin.create_topic(topic, 1)
        admin.create_group(GROUP)
    for number in range(N):
        assert ask(master, Code.SEND_MESSAGE_V2, send(TOPIC), b"%d" % number).code == 0
    header = UpdateConsumerOffset(consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=LEFT_AT)
    assert ask(master, Code.UPDATE_CONSUMER_OFFSET, header).code == 0


def javas(work: Path) -> Iterator[Brokers]:
    java = JavaPeer(work)
    try:
        namesrv = java.namesrv(conf=NAMESRV).namesrv
        port, quick = free_port_block(), {**ACTING, "transactionCheckInterval": 1000, "transactionTimeOut": 1000}
        master = java.broker(namesrv, port=port, conf=quick)
        other = java.broker(namesrv, name="broker-b", conf=quick)
        fill(namesrv, master.address)
        slave = java.broker(namesrv, role="SLAVE", id=1, conf=quick)
        yield Brokers(
            namesrv, master.address, slave.address, other.address, master.process.kill,
            lambda: java.broker(namesrv, port=port, store=master.store, conf=quick) and None,
        )  # fmt: skip
    finally:
        java.close()


def ours(work: Path) -> Iterator[Brokers]:
    servers = OurServers(work)
    quick = {**ACTING, "transactionCheckInterval": 1000, "transactionTimeOut": 1000, "slaveSyncInterval": 1000}
    try:
        namesrv = servers.namesrv(**NAMESRV).namesrv
        flags = ("--namesrv", namesrv, "--port", str(free_port_block()))
        master = servers.serve(work / "master", *flags, **quick)
        other = servers.serve(None, "--namesrv", namesrv, *options(name="broker-b"), **quick)
        fill(namesrv, master.broker)
        slave = servers.serve(None, "--namesrv", namesrv, *options(role="SLAVE", id=1), **quick)
        yield Brokers(
            namesrv, master.broker, slave.broker, other.broker, master.kill,
            lambda: servers.serve(work / "master", *flags, **quick) and None,
        )  # fmt: skip
    finally:
        servers.close()


def story(brokers: Brokers) -> Said:
    """The master goes and comes back; what its slave says meanwhile."""
    _, master, slave, other, kill, revive = brokers
    offset = QueryConsumerOffset(consumer_group=GROUP, topic=TOPIC, queue_id=0)
    eventually(lambda: ask(slave, Code.QUERY_CONSUMER_OFFSET, offset).ext.get("offset"), equals(str(LEFT_AT)))
    eventually(lambda: [ask(slave, Code.GET_TOPIC_CONFIG, TopicName(topic=one)).code for one in (TOPIC, DUE)],
               equals([0, 0]))  # fmt: skip
    for properties, sys_flag in (({"DELAY": SECONDS_30}, 0), (HALF, 4)):
        assert ask(master, Code.SEND_MESSAGE_V2, send(DUE, properties=properties, sys_flag=sys_flag), b"due").code == 0
    waiting = ((names.SCHEDULE_TOPIC, int(SECONDS_30) - 1), (names.HALF_TOPIC, 0))
    eventually(lambda: [end_of(slave, *one) for one in waiting], equals([1, 1]))
    kill()
    eventually(brokers.serving, equals(slave))
    said = {
        "active": eventually(lambda: active(slave), equals("true")),
        **reading(slave),
        **settling(slave),
        **writing(slave),
    }
    said["delayed message and half message at the other master"] = eventually(
        lambda: [end_of(other, DUE), min(1, end_of(other, names.HALF_TOPIC))], equals([1, 1])
    )
    revive()
    eventually(brokers.serving, equals(master))
    said["active, the master is back"] = eventually(lambda: active(slave), equals("false"))
    said["offset at the master that is back"] = ask(master, Code.QUERY_CONSUMER_OFFSET, offset).ext.get("offset")
    return said


def active(address: str) -> str | None:
    return KvTable.decode(ask(address, Code.GET_BROKER_RUNTIME_INFO).body).table.get("brokerActive")


def reading(slave: str) -> Said:
    said: Said = {}
    for what, at in (("the first", 0), ("none, at the end", N), ("beyond the end", N + 7)):
        answer = ask(slave, Code.PULL_MESSAGE, pull(TOPIC, at, consumer_group=GROUP, suspend_timeout_millis=0))
        told = [answer.ext.get(key) for key in ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")]
        said[f"pull of {what}"] = (answer.code, *told, len(decode_records(answer.body)) if answer.body else 0)
    queue = {"topic": TOPIC, "queue_id": 0}
    said["offsets of the queue"] = [
        ask(slave, Code.GET_MAX_OFFSET, GetMaxOffset(**queue)).ext.get("offset"),
        ask(slave, Code.GET_MIN_OFFSET, GetMaxOffset(**queue)).ext.get("offset"),
        ask(slave, Code.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset(**queue, timestamp=0)).ext.get("offset"),
    ]
    return said


def settling(slave: str) -> Said:
    said: Said = {}
    offset = {"consumer_group": GROUP, "topic": TOPIC, "queue_id": 0}
    update = UpdateConsumerOffset(**offset, commit_offset=LEFT_AT + 1)
    said["offset"] = [
        ask(slave, Code.QUERY_CONSUMER_OFFSET, QueryConsumerOffset(**offset)).ext.get("offset"),
        ask(slave, Code.UPDATE_CONSUMER_OFFSET, update).code,
        ask(slave, Code.QUERY_CONSUMER_OFFSET, QueryConsumerOffset(**offset)).ext.get("offset"),
    ]
    for client, code in (("a", Code.LOCK_BATCH_MQ), ("b", Code.LOCK_BATCH_MQ), ("a", Code.UNLOCK_BATCH_MQ),
                         ("b", Code.LOCK_BATCH_MQ)):  # fmt: skip
        queues = [MessageQueueBody(topic=TOPIC, broker_name="broker-a", queue_id=0)]
        answer = ask(
            slave, code, None, LockBatchRequest(consumer_group=GROUP, client_id=client, mq_set=queues).encode()
        )
        locked = len(LockBatchResponse.decode(answer.body).lock_ok_mq_set) if answer.body else 0
        said[f"{code.name} of {client}, {len(said)}"] = (answer.code, locked)
    return said | popping(slave)


def popping(slave: str) -> Said:
    """Another group, from the first message on: a pop waits until the messages are there to be popped."""
    asked = pop(TOPIC, consumer_group=GROUP, max_msg_nums=1, born_time=time.time_ns() // 1_000_000)
    answer = ask(slave, Code.POP_MESSAGE, asked)
    taken: list[Popped] = popped(answer) if answer.code == 0 else []
    said: Said = {"pop": (answer.code, answer.remark, [one.message.queue_offset for one in taken])}
    for one in taken:
        fields = {
            "consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "extraInfo": one.handle.encode(),
            "offset": str(one.message.queue_offset),
        }  # fmt: skip
        with RawPeer(slave) as peer:
            said["change of the invisible time"] = peer.ask(
                Code.CHANGE_MESSAGE_INVISIBLETIME, {**fields, "invisibleTime": "60000"}
            ).code
            said["ack"] = peer.ask(Code.ACK_MESSAGE, fields).code
    return said


def writing(slave: str) -> Said:
    """What an acting slave takes from nobody."""
    back = ConsumerSendMsgBack(offset=0, group=GROUP, delay_level=1, origin_topic=TOPIC)
    end = EndTransaction(producer_group="p", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8,
                         msg_id="H")  # fmt: skip
    return {
        "send": ask(slave, Code.SEND_MESSAGE_V2, send(TOPIC), b"new").code,
        "send back": ask(slave, Code.CONSUMER_SEND_MSG_BACK, back).code,
        "end of a transaction": ask(slave, Code.END_TRANSACTION, end).code,
        "send, delayed": ask(slave, Code.SEND_MESSAGE_V2, send(TOPIC, properties={"DELAY": "1"}), b"new").code,
    }


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """By side; both stories are told at the same time."""
    JavaPeer.build()

    def tell(side: Callable[[Path], Iterator[Brokers]]) -> Said:
        stage = side(tmp_path_factory.mktemp(side.__name__))
        try:
            return story(next(stage))
        finally:
            stage.close()  # type: ignore[attr-defined]

    with ThreadPoolExecutor(2) as pool:
        stories = {side.__name__: pool.submit(tell, side) for side in (javas, ours)}
        return {name: told.result() for name, told in stories.items()}


def test_both_sides_answer_alike(said: dict[str, Said]) -> None:
    assert {what: said["ours"][what] for what in said["ours"].keys() - KNOWN} == {
        what: said["javas"][what] for what in said["javas"].keys() - KNOWN
    }


def test_known_differences_are_listed(said: dict[str, Said]) -> None:
    assert {what: (said["ours"][what], said["javas"][what]) for what in KNOWN} == KNOWN
