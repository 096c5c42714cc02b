"""Masters and slaves of both kinds under one name: copied tables, answers, and readers.

Each trio has a master of one kind and a slave of each, so that all pairs there are stand side by side. A Java slave
asks for topics and offsets a minute after its start, and not before: both trios are started together.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py import Admin
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.offset import ResetOffset, UpdateConsumerOffset
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.wire import fastjson
from tests.interop.javapeer import JavaPeer, free_port_block, options
from tests.interop.ours import OurServers
from tests.interop.side import eventually
from tests.replicas import QUEUES, N, Nodes, caught_up, reading_outlives_the_master, topic_on_all
from tests.server.rawpeer import RawPeer
from tests.unit.broker.requests import pull, send

pytestmark = pytest.mark.long

READABLE = {"slaveReadEnable": "true"}
GROUP, LEFT_AT = "readers", 3


def ask(address: str, code: Code, header: Header | None = None, body: bytes = b"") -> Any:
    with RawPeer(address) as peer:
        return peer.ask(code, header.to_ext() if header is not None else {}, body)


class Trio:
    """A name server of ours, a master of one kind, and two slaves by their kind."""

    def __init__(self, work: Path, kind: str) -> None:
        self._java, self._ours, self._work = JavaPeer(work), OurServers(work), work
        self._start = self._start_java if kind == "java" else self._start_ours
        self._port = free_port_block()
        self._kills: dict[str, Callable[[], None]] = {}
        self.namesrv = self._ours.namesrv().namesrv
        self.master = self._start("master", self._port)
        self._fill()
        self.slaves = {
            "java": self._start_java("java", free_port_block(), role="SLAVE", id=1),
            "ours": self._start_ours("ours", free_port_block(), role="SLAVE", id=2),
        }

    def _fill(self) -> None:
        """Topics, messages, a group that has consumed some of them and is to pop."""
        with Admin(self.namesrv) as admin:
            admin.create_topic("orders", 2)
            admin.create_topic("events", QUEUES)
            admin.create_topic("again", 1)
            admin.create_group(GROUP)
            admin.set_request_mode(GROUP, "orders", "POP")
        for _ in range(5):
            assert ask(self.master, Code.SEND_MESSAGE_V2, send("orders"), b"body").code == 0
        delayed = send("orders", properties={"DELAY": "1"})
        assert ask(self.master, Code.SEND_MESSAGE_V2, delayed, b"later").code == 0
        header = UpdateConsumerOffset(consumer_group=GROUP, topic="orders", queue_id=0, commit_offset=LEFT_AT)
        assert ask(self.master, Code.UPDATE_CONSUMER_OFFSET, header).code == 0

    def _start_java(self, name: str, port: int, **named: Any) -> str:
        server = self._java.broker(self.namesrv, store=self._work / name, port=port, conf=READABLE, **named)
        self._kills[name] = server.process.kill
        return server.address

    def _start_ours(self, name: str, port: int, **named: Any) -> str:
        flags = ("--namesrv", self.namesrv, "--port", str(port), *options(**named))
        server = self._ours.serve(self._work / name, *flags, slaveSyncInterval=500, **READABLE)
        self._kills[name] = server.kill
        return server.broker

    def kill(self, name: str) -> None:
        """The ``master``, or the slave of a kind."""
        self._kills[name]()

    def restart_master(self) -> None:
        """On its store and port."""
        self._start("master", self._port)

    def close(self) -> None:
        self._java.close()
        self._ours.close()


@pytest.fixture(scope="module")
def trios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Trio]]:
    """By the kind of their master."""
    JavaPeer.build()
    work = {kind: tmp_path_factory.mktemp(f"{kind}-master") for kind in ("java", "ours")}
    with ThreadPoolExecutor(2) as pool:
        started = {kind: pool.submit(Trio, path, kind) for kind, path in work.items()}
    try:
        yield {kind: trio.result() for kind, trio in started.items()}
    finally:
        for trio in started.values():
            trio.result().close()


@pytest.fixture(params=["java", "ours"])
def trio(request: pytest.FixtureRequest, trios: dict[str, Trio]) -> Trio:
    """Of a master of either kind."""
    found: Trio = trios[request.param]
    return found


def told(address: str, code: Code, member: str) -> Any:
    """A part of what a broker tells slaves, the order of members aside."""
    return fastjson.loads(ask(address, code).body)[member]


TABLES = (
    (Code.GET_ALL_TOPIC_CONFIG, "topicConfigTable"), (Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroupTable"),
    (Code.GET_ALL_CONSUMER_OFFSET, "offsetTable"), (Code.GET_ALL_DELAY_OFFSET, "offsetTable"),
    (Code.GET_ALL_MESSAGE_REQUEST_MODE, "messageRequestModeMap"),
)  # fmt: skip


@pytest.fixture
def filled(trio: Trio) -> Trio:
    """A trio whose slaves have heard of everything their master was filled with."""
    asyncio.run(topic_on_all(trio.namesrv, "orders"))
    asyncio.run(caught_up(trio.namesrv))
    return trio


def test_slaves_copy_the_tables_of_their_master(filled: Trio) -> None:
    for code, member in TABLES:
        assert told(filled.master, code, member), code
        for slave in filled.slaves.values():
            eventually(partial(differences, filled.master, slave, code, member), lambda different: not different)


def differences(master: str, slave: str, code: Code, member: str) -> Any:
    """What a slave has not as its master has it. It may have more: offsets of groups that read from it, for one."""
    wanted, seen = told(master, code, member), told(slave, code, member)
    return {key: (value, seen.get(key)) for key, value in wanted.items() if seen.get(key) != value}


REFUSED: tuple[tuple[Code, Header | None, bytes], ...] = (
    (Code.SEND_MESSAGE_V2, send("orders"), b"body"),
    (Code.SEND_BATCH_MESSAGE, send("orders", batch=True), b"body"),
    (
        Code.CONSUMER_SEND_MSG_BACK,
        ConsumerSendMsgBack(offset=0, group=GROUP, delay_level=0, origin_msg_id="", origin_topic="orders"),
        b"",
    ),
    (Code.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffset(topic="orders", group=GROUP, timestamp=0, is_force=True), b""),
)
END = EndTransaction(
    producer_group="p", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8,
    from_transaction_check=False, msg_id="1", transaction_id="1",
)  # fmt: skip
PULLS = (
    pull("orders"), pull("orders", offset=2), pull("orders", offset=6, sys_flag=4), pull("orders", offset=9),
    pull("orders", offset=0, queue_id=1), pull("orders", offset=7, queue_id=1), pull("orders", offset=-1),
    pull("nothing"), pull("orders", queue_id=5),
)  # fmt: skip


def test_slaves_of_both_kinds_answer_alike(filled: Trio) -> None:
    java, ours = filled.slaves["java"], filled.slaves["ours"]
    for code, header, body in REFUSED:
        theirs, answer = ask(java, code, header, body), ask(ours, code, header, body)
        assert (answer.code, answer.remark) == (theirs.code, theirs.remark), code
        assert theirs.code, code
    assert ask(ours, Code.END_TRANSACTION, END).code == ask(java, Code.END_TRANSACTION, END).code == 11
    for header in PULLS:
        theirs, answer = ask(java, Code.PULL_MESSAGE, header), ask(ours, Code.PULL_MESSAGE, header)
        said = {key: value for key, value in theirs.ext.items() if value}
        assert (answer.code, answer.ext, answer.body) == (theirs.code, said, theirs.body), header


def send_again(master: str, *bodies: bytes) -> None:
    """Sends to a topic with one queue; the first of them gets queue offset 0."""
    for number, body in enumerate(bodies):
        answer = ask(master, Code.SEND_MESSAGE_V2, send("again"), body)
        assert (answer.code, answer.ext.get("queueOffset")) == (0, str(number)), answer


def served(address: str) -> list[bytes]:
    """Bodies of the messages that a broker serves from the begin of the queue of ``again``."""
    return re.findall(rb"(?:old|new)-\d", ask(address, Code.PULL_MESSAGE, pull("again")).body)


def test_slaves_follow_a_topic_that_is_deleted_and_created_again(filled: Trio) -> None:
    """A Java slave does not: it keeps the deleted messages, puts the first new one behind them, leaves out the others.

    It puts an entry for queue offset 0 wherever its queue ends, and takes those for other offsets below for repeats.
    """
    old, new = [[b"%s-%d" % (name, number) for number in range(count)] for name, count in ((b"old", 5), (b"new", 3))]
    asyncio.run(topic_on_all(filled.namesrv, "again"))
    send_again(filled.master, *old)
    for address in (filled.master, *filled.slaves.values()):
        assert eventually(partial(served, address), lambda found: len(found) >= len(old)) == old, address
    assert ask(filled.master, Code.DELETE_TOPIC_IN_BROKER, TopicName(topic="again")).code == 0
    with Admin(filled.namesrv) as admin:
        admin.create_topic("again", 1)
    send_again(filled.master, *new)
    for address in (filled.master, filled.slaves["ours"]):
        assert eventually(partial(served, address), lambda found: len(found) == len(new)) == new, address
    at_java = [*old, new[0]]
    assert eventually(partial(served, filled.slaves["java"]), lambda found: len(found) > len(old)) == at_java
    asyncio.run(caught_up(filled.namesrv))
    assert served(filled.slaves["java"]) == at_java


def test_mqadmin_lists_master_and_slave(filled: Trio, java: JavaPeer) -> None:
    def listed() -> dict[str, list[str]]:
        lines = java.say_admin("clusterList", "-n", filled.namesrv).splitlines()
        return {fields[3]: fields for line in lines if len(fields := line.split()) > 5}

    rows = eventually(listed, lambda seen: seen.keys() >= {filled.master, *filled.slaves.values()})
    assert [rows[at][2] for at in (filled.master, filled.slaves["java"], filled.slaves["ours"])] == ["0", "1", "2"]
    assert rows[filled.slaves["ours"]][-1] == rows[filled.slaves["java"]][-1] == "false"
    theirs, ours = (java.admin("brokerStatus", "-b", slave, "-n", filled.namesrv) for slave in filled.slaves.values())
    assert keys(theirs) - keys(ours) == set()


def keys(text: str) -> set[str]:
    return {line.partition(":")[0].strip() for line in text.splitlines() if ":" in line and "Ratio_" not in line}


def test_clients_of_both_kinds_survive_the_loss_of_the_master(
    trio: Trio, java: JavaPeer, request: pytest.FixtureRequest
) -> None:
    """The slave of the master's kind goes first, unnoticed; then the master."""

    def read_from_the_slave() -> None:
        rows = java.consume(trio.namesrv, "events", "java-group", N, from_="first", timeout=240)
        assert len({row["msgId"] for row in rows}) == N

    async def scenario() -> None:
        await topic_on_all(trio.namesrv, "events")
        trio.kill(request.node.callspec.params["trio"])
        nodes = Nodes(trio.namesrv, partial(trio.kill, "master"), trio.restart_master)
        await reading_outlives_the_master(nodes, "events", read_from_the_slave)

    asyncio.run(scenario())
