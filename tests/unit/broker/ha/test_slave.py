"""A slave: refused requests, pulls, that it appends nothing of its own to its master's log, and how it fetches that."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.ha.slave import HaSlave, MasterLink
from rocketmq_py.errors import CorruptFrame, ReplicaRefused, StoreError
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from rocketmq_py.protocol.bodies.pop import MessageRequestMode, MessageRequestModes
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.cluster import AllGroups, AllTopics
from rocketmq_py.protocol.headers.offset import ResetOffset
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.server.tls import TlsMode, TlsSettings
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import pop, pull, send

REJECTED = (2, "[REJECTREQUEST]system busy, start flow control for a while")
WAITS = {"sys_flag": 2 | 4}


def slave(root: Path, **config: Any) -> Any:
    return broker(root, **{"broker_role": "SLAVE", "broker_id": 1, "slave_read_enable": True} | config)


def written_by_a_master(root: Path, count: int = 3) -> None:
    """The store as replication would have left it."""
    with broker(root) as master:
        client = master.connect()
        master.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        for _ in range(count):
            assert client.ask(Code.SEND_MESSAGE_V2, send(), b"body").code == 0
        assert client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"delayed").code == 0
        due = str(START_MS + 5_000)
        assert client.ask(Code.SEND_MESSAGE_V2, send(properties={"TIMER_DELIVER_MS": due}), b"timed").code == 0


def say(running: InProcess, master: str | None) -> None:
    running.services.role.update_master("name server", master, "127.0.0.1:10912" if master else None)


def answered(client: Client, offset: int, **more: Any) -> tuple[int, str, str]:
    found = client.ask(Code.PULL_MESSAGE, pull(offset=offset, **more))
    return found.code, found.ext["suggestWhichBrokerId"], found.ext["nextBeginOffset"]


# -- what it refuses


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
def test_a_slave_refuses_messages_so_that_producers_retry_elsewhere(tmp_path: Path, code: Code) -> None:
    with slave(tmp_path) as running:
        answer = running.connect().ask(code, send(), b"body")
        assert (answer.code, answer.remark) == REJECTED
        assert running.services.store.max_physical_offset == 0


def test_a_slave_refuses_sent_back_messages(tmp_path: Path) -> None:
    with slave(tmp_path) as running:
        header = ConsumerSendMsgBack(offset=0, group="g", delay_level=0, origin_msg_id="", origin_topic="t")
        answer = running.connect().ask(Code.CONSUMER_SEND_MSG_BACK, header)
        assert (answer.code, answer.remark) == REJECTED


def test_a_slave_that_may_act_explains_its_refusal(tmp_path: Path) -> None:
    """With Java's codes, whether it acts or not."""
    with slave(tmp_path, enable_slave_acting_master=True) as running:
        client = running.connect()
        answer = client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
        assert (answer.code, answer.remark) == (14, "broker broker-a (id 1) is a slave: messages are sent to masters")
        header = ConsumerSendMsgBack(offset=0, group="g", delay_level=0)
        answer = client.ask(Code.CONSUMER_SEND_MSG_BACK, header)
        assert answer.code == 1
        assert "no master is here" in (answer.remark or "")


def test_a_slave_resets_no_offsets(tmp_path: Path) -> None:
    with slave(tmp_path) as running:
        header = ResetOffset(topic="t", group="g", timestamp=0, is_force=True)
        answer = running.connect().ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert (answer.code, answer.remark) == (1, "Can not reset offset in slave broker")


def test_a_slave_store_refuses_appends(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        end = running.services.store.max_physical_offset
        answer = running.connect().ask(Code.POP_MESSAGE, pop())
        assert answer.code == 14
        assert "is a slave that does not act as master" in (answer.remark or "")
        assert running.services.store.max_physical_offset == end
        assert not running.services.store.is_writable


def test_a_slave_does_not_deliver_delayed_messages(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        end = running.services.store.max_physical_offset
        for _ in range(10):
            running.turn(1_000)
        assert running.services.store.max_physical_offset == end


# -- pulls


def test_reads_need_slave_read_enable(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path, slave_read_enable=False) as running:
        client = running.connect()
        answer = client.ask(Code.PULL_MESSAGE, pull())
        assert (answer.code, answer.remark) == REJECTED
        running.config.slave_read_enable = True
        assert client.ask(Code.PULL_MESSAGE, pull()).code == 0


def test_consumers_in_memory_range_go_back_to_the_master(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        client = running.connect()
        assert answered(client, 0) == (0, "0", "3")
        assert answered(client, 3) == (19, "0", "3")


def test_consumers_far_behind_stay_at_the_slave(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path, store={"access_message_in_memory_max_ratio": 0}) as running:
        assert answered(running.connect(), 0) == (0, "1", "3")


def test_consumers_wait_at_the_slave_until_the_master_returns(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        client = running.connect()
        assert client.call(Code.PULL_MESSAGE, pull(offset=3, **WAITS)) is None
        say(running, "127.0.0.1:10911")
        running.turn()
        (answer,) = client.heard
        assert (answer.code, answer.ext["suggestWhichBrokerId"]) == (19, "0")


def test_a_consumer_ahead_of_the_slave_is_not_set_back(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        client = running.connect()
        assert answered(client, 7) == (19, "0", "7")
        assert client.call(Code.PULL_MESSAGE, pull(offset=7, **WAITS)) is None
        say(running, "127.0.0.1:10911")
        running.turn()
        assert [answer.code for answer in client.heard] == [20]
        assert answered(client, 7) == (20, "0", "7")
        running.config.offset_check_in_slave = True
        assert answered(client, 7) == (21, "0", "3")


def test_a_master_redirects_consumers_far_behind_to_a_slave(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    far = {"access_message_in_memory_max_ratio": 0}
    with broker(tmp_path, slave_read_enable=True, store=far) as running:
        assert answered(running.connect(), 0) == (0, "1", "3")


# -- what it takes over


def test_topics_are_copied_from_the_master(tmp_path: Path) -> None:
    version = DataVersion(counter=7, timestamp=5)
    with slave(tmp_path) as running:
        topics = running.services.topics
        topics.put([TopicConfig(topic_name="gone")])
        topics.take_over(version, {"t": TopicConfig(topic_name="t", read_queue_nums=2)})
    with slave(tmp_path) as running:
        topics = running.services.topics
        assert topics.version == version
        assert topics.get("gone") is None
        assert topics.table["t"].read_queue_nums == 2


def test_groups_are_copied_from_the_master(tmp_path: Path) -> None:
    told = SubscriptionGroupTable(
        subscription_group_table={"h": SubscriptionGroupConfig(group_name="h", retry_max_times=3)},
        forbidden_table={"h": {"t": 4}}, data_version=DataVersion(counter=7),
    )  # fmt: skip
    with slave(tmp_path) as running:
        running.services.groups.put([SubscriptionGroupConfig(group_name="gone")])
        running.services.groups.take_over(told)
    with slave(tmp_path) as running:
        groups = running.services.groups
        assert groups.get("gone") is None
        assert groups.table["h"].retry_max_times == 3
        assert groups.is_read_forbidden("h", "t")


@pytest.mark.parametrize(("keeps", "queues"), [(False, {0: 5, 1: 9}), (True, {0: 8, 1: 9, 2: 2})])
def test_offsets_are_copied_unless_larger_ones_are_kept(tmp_path: Path, keeps: bool, queues: dict[int, int]) -> None:
    tree = fastjson.loads(b'{"dataVersion":{"counter":3},"offsetTable":{"t@g":{0:5,1:9}}}')
    with slave(tmp_path) as running:
        offsets = running.services.offsets
        for queue, offset in {0: 8, 1: 1, 2: 2}.items():
            offsets.commit("g", "t", queue, offset, "here")
        offsets.commit("mine", "t", 0, 1, "here")
        deque(offsets.take_over(tree, keeps_larger=keeps))
    with slave(tmp_path) as running:
        table = running.services.offsets.table
        assert table == {"t@g": queues, "t@mine": {0: 1}}
        assert running.services.offsets.version.counter == 3


def test_delay_offsets_and_modes_are_copied_from_the_master(tmp_path: Path) -> None:
    mode = MessageRequestMode(topic="t", consumer_group="g", mode="POP", pop_share_queue_num=0)
    with slave(tmp_path) as running:
        running.services.delay.take_over({"dataVersion": {"counter": 2}, "offsetTable": {"3": 4}})
        running.services.modes.take_over(MessageRequestModes(message_request_mode_map={"t": {"g": mode}}))
    with slave(tmp_path) as running:
        assert running.services.delay.offsets == {3: 4}
        assert running.services.modes.get("t", "g") == mode


def test_a_promoted_slave_delivers_the_remaining_delayed_messages(tmp_path: Path) -> None:
    """Entries are written as far as the master has; the master's word on what has been delivered counts."""
    written_by_a_master(tmp_path / "store")
    with broker(tmp_path / "store") as master:
        check = master.services.timers.checkpoint()
        assert check is not None
    with slave(tmp_path / "store") as running:
        running.services.timers.take_over(check)
        running.turn(10_000)
    with broker(tmp_path / "store", now=START_MS + 10_000) as promoted:
        promoted.turn(100)
        promoted.turn(2_000)
        bodies = client_bodies(promoted)
    assert sorted(bodies) == [b"body"] * 3 + [b"delayed", b"timed"]


def client_bodies(running: InProcess) -> list[bytes]:
    return [message.body for message in decode_records(running.connect().ask(Code.PULL_MESSAGE, pull()).body)]


# -- what a master tells, a part at a time


def test_topics_and_groups_are_copied_in_pages(running: InProcess, client: Client) -> None:
    running.config.split_metadata_size = 5
    names: list[str] = []
    version = ""
    while True:
        answer = client.ask(Code.GET_ALL_TOPIC_CONFIG, AllTopics(topic_seq=len(names), data_version=version))
        tree = fastjson.loads(answer.body)
        if not tree["topicConfigTable"]:
            break
        assert len(tree["topicConfigTable"]) <= 5
        names += tree["topicConfigTable"]
        version = fastjson.dumps(tree["dataVersion"]).decode()
    assert sorted(names) == sorted(running.services.topics.table)
    assert answer.ext["totalTopicNum"] == str(len(names))
    answer = client.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, AllGroups(group_seq=0, max_group_num=3))
    assert len(fastjson.loads(answer.body)["subscriptionGroupTable"]) == 3


def test_pages_of_an_older_version_start_over(running: InProcess, client: Client) -> None:
    running.config.split_metadata_size = 5
    first = fastjson.loads(client.ask(Code.GET_ALL_TOPIC_CONFIG, AllTopics(topic_seq=0)).body)
    running.services.topics.announce_all()
    asked = AllTopics(topic_seq=5, data_version=fastjson.dumps(first["dataVersion"]).decode())
    again = fastjson.loads(client.ask(Code.GET_ALL_TOPIC_CONFIG, asked).body)
    assert again["topicConfigTable"].keys() == first["topicConfigTable"].keys()


def test_requests_without_paging_get_everything(running: InProcess, client: Client) -> None:
    running.config.split_metadata_size = 5
    tree = fastjson.loads(client.ask(Code.GET_ALL_TOPIC_CONFIG).body)
    assert tree["topicConfigTable"].keys() == running.services.topics.table.keys()


# -- the connection to the master


PIECE = struct.Struct(">qi")


class Replica:
    """The replica of a store that takes pieces at its end."""

    def __init__(self, end: int = 100) -> None:
        self.end = end
        self.appended: list[tuple[int, bytes]] = []
        self.dispatched = 0
        self.failure: StoreError | None = None

    def append(self, offset: int, piece: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self.appended.append((offset, bytes(piece)))
        self.end = offset + len(piece)

    def dispatch(self) -> None:
        self.dispatched += 1


class MasterTransport(asyncio.Transport):
    """Notes the reports of a slave; ends its connection when it is closed."""

    def __init__(self, link: MasterLink) -> None:
        super().__init__()
        self.link = link
        self.reports: list[int] = []
        self.aborted = False
        self.options: list[tuple[int, ...]] = []
        link.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return SimpleNamespace(setsockopt=lambda *option: self.options.append(option)) if name == "socket" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.reports.append(*struct.unpack(">q", data))

    def abort(self) -> None:
        if not self.aborted:
            self.aborted = True
            self.link.connection_lost(None)


class Site:
    """A slave whose connections are in memory. ``refusals``: what the attempts to come raise."""

    def __init__(self, tls: TlsSettings | None = None, **config: Any) -> None:
        self.now = 1_000
        self.replica = Replica()
        self.config = BrokerConfig(broker_role="SLAVE", broker_id=1, **config)
        store: Any = SimpleNamespace(replica=self.replica)
        self.slave = HaSlave(self.config, store, lambda: self.now, tls)
        self.refusals: list[Exception | None] = []
        self.attempts: list[tuple[str, int, bool, float]] = []
        self.transports: list[MasterTransport] = []

    async def connect(self, make: Any, host: str, port: int, *, ssl: Any) -> tuple[Any, Any]:
        self.attempts.append((host, port, ssl is not None, asyncio.get_running_loop().time()))
        failure = self.refusals.pop(0) if self.refusals else None
        if failure is not None:
            raise failure
        self.transports.append(MasterTransport(make()))
        return self.transports[-1], self.transports[-1].link

    def play(self, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            asyncio.get_running_loop().create_connection = self.connect  # type: ignore[assignment]
            self.slave.start()
            await test()
            await self.slave.stop()
            assert not self.slave.is_connected
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(run())

    def pauses(self) -> list[float]:
        times = [at for *_, at in self.attempts]
        return [later - earlier for earlier, later in pairwise(times)]


def frame(offset: int, data: bytes) -> bytes:
    return PIECE.pack(offset, len(data)) + data


def test_a_slave_connects_when_it_knows_its_master() -> None:
    site = Site()

    async def test() -> None:
        await asyncio.sleep(10)
        assert (site.attempts, site.slave.is_connected) == ([], False)
        site.slave.follow("10.0.0.1:10912")
        await asyncio.sleep(0.1)
        assert [attempt[:3] for attempt in site.attempts] == [("10.0.0.1", 10912, False)]
        assert site.slave.is_connected
        assert site.transports[0].reports == [100]
        assert site.transports[0].options == [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]

    site.play(test)
    assert site.transports[0].aborted


def test_pieces_are_appended_and_reported() -> None:
    site = Site()

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(0.1)
        link, transport = site.transports[0].link, site.transports[0]
        site.now += 7
        link.data_received(frame(100, b"abc")[:14])
        assert site.replica.appended == [(100, b"ab")]
        assert transport.reports == [100, 102]
        link.data_received(frame(100, b"abc")[14:] + frame(103, b"de"))
        assert site.replica.appended[1:] == [(102, b"c"), (103, b"de")]
        assert (transport.reports, site.replica.dispatched) == ([100, 102, 105], 2)
        assert (site.slave.read_ms, site.slave.written_ms) == (1_007, 1_007)
        site.now += 1
        link.data_received(frame(105, b""))
        assert transport.reports == [100, 102, 105], "a heartbeat is no progress"
        assert (site.slave.read_ms, site.slave.written_ms) == (1_008, 1_007)
        assert site.slave.received.last_second(site.now + 1_000) >= 0

    site.play(test)


@pytest.mark.parametrize(
    ("failure", "level"),
    [(ReplicaRefused("the logs differ"), logging.ERROR), (StoreError("the disk is full"), logging.WARNING)],
)
def test_a_piece_that_is_refused_ends_the_connection(
    failure: StoreError, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site()

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(0.1)
        site.replica.failure = failure
        site.transports[0].link.data_received(frame(100, b"abc"))
        assert (site.transports[0].aborted, site.transports[0].reports) == (True, [100])
        await asyncio.sleep(0.2)
        assert len(site.attempts) == 2

    site.play(test)
    [record] = [record for record in caplog.records if "cannot be fetched" in record.getMessage()]
    assert record.getMessage() == (
        f"the log of the master cannot be fetched from h:1: {failure}; trying again every few seconds"
    )
    assert record.levelno == level


def test_a_corrupt_frame_ends_the_connection() -> None:
    site = Site()

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(0.1)
        site.transports[0].link.data_received(PIECE.pack(100, -1))
        assert site.transports[0].aborted
        assert isinstance(site.transports[0].link.fault, CorruptFrame)

    site.play(test)


def test_attempts_are_further_and_further_apart_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    site.refusals = [ConnectionRefusedError(111, "refused")] * 8

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(15)
        assert site.pauses() == pytest.approx([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0], abs=0.08)
        assert site.slave.is_connected is False
        await asyncio.sleep(5)
        site.transports[0].link.data_received(frame(100, b"a"))
        assert "fetching the log of the master from h:1 again" in caplog.text
        site.transports[0].link.data_received(frame(101, b"a"))
        lost_at = asyncio.get_running_loop().time()
        site.transports[0].link.connection_lost(None)
        await asyncio.sleep(0.3)
        assert site.attempts[-1][3] - lost_at == pytest.approx(0.1, abs=0.08), "it worked in between"

    site.play(test)
    assert caplog.text.count("cannot be fetched from h:1") == 2
    assert "the master has closed the connection" in caplog.text
    assert caplog.text.count("h:1 again") == 1


def test_another_master_is_followed_at_once() -> None:
    site = Site()

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(0.1)
        site.slave.follow("h:1")
        assert not site.transports[0].aborted
        site.slave.follow("h:2")
        assert site.transports[0].aborted
        await asyncio.sleep(0.05)
        assert [(host, port) for host, port, *_ in site.attempts] == [("h", 1), ("h", 2)]
        site.slave.follow(None)
        assert site.transports[1].aborted
        await asyncio.sleep(20)
        assert len(site.attempts) == 2
        assert not site.slave.is_connected

    site.play(test)


def test_a_change_ends_a_pause() -> None:
    site = Site()
    site.refusals = [OSError("x")] * 5

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(2)
        assert len(site.attempts) == 5
        site.slave.follow("h:2")
        await asyncio.sleep(0.05)
        assert site.attempts[-1][:2] == ("h", 2)

    site.play(test)


@pytest.mark.parametrize(("silent_ms", "ended"), [(20_000, False), (20_001, True)])
def test_a_silent_master_is_given_up(silent_ms: int, ended: bool) -> None:
    site = Site()

    async def test() -> None:
        site.slave.tick()
        site.slave.follow("h:1")
        await asyncio.sleep(0.1)
        site.now += silent_ms
        site.slave.tick()
        assert site.transports[0].aborted is ended
        fault = site.transports[0].link.fault
        assert (fault == f"nothing was received for {silent_ms} ms (haHousekeepingInterval)") is ended

    site.play(test)


@pytest.mark.parametrize(("waited_ms", "reports"), [(5_000, [100]), (5_001, [100, 100])])
def test_a_slave_reports_every_five_seconds(waited_ms: int, reports: list[int]) -> None:
    site = Site()

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(0.1)
        site.now += waited_ms
        site.slave.tick()
        site.slave.tick()
        assert site.transports[0].reports == reports

    site.play(test)


# -- with TLS


def tls(monkeypatch: pytest.MonkeyPatch, mode: str = "permissive") -> TlsSettings:
    monkeypatch.setattr(TlsSettings, "client_context", lambda _: "context")
    return TlsSettings(server_mode=TlsMode(mode), test_mode=True)


@pytest.mark.parametrize("failure", [TimeoutError(), ssl.SSLError("no"), ConnectionResetError()])
def test_a_master_without_tls_is_reached_without_it_from_then_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    site = Site(tls(monkeypatch))
    site.refusals = [failure]

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(0.05)
        assert [secured for *_, secured, _ in site.attempts] == [True, False]
        assert site.slave.is_connected
        site.transports[0].link.connection_lost(None)
        await asyncio.sleep(0.2)
        assert [secured for *_, secured, _ in site.attempts] == [True, False, False]
        site.slave.follow("h:2")
        await asyncio.sleep(0.05)
        assert site.attempts[-1][2] is True, "another master may have it"

    site.play(test)
    assert caplog.text.count("the HA port h:1 does not speak TLS, connecting without") == 1


@pytest.mark.parametrize(
    ("mode", "failure"), [("enforcing", ssl.SSLError("no")), ("permissive", ssl.SSLCertVerificationError("bad"))]
)
def test_tls_is_not_left_out_if_it_is_required_or_refused(
    monkeypatch: pytest.MonkeyPatch, mode: str, failure: Exception
) -> None:
    site = Site(tls(monkeypatch, mode))
    site.refusals = [failure] * 3

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(0.05)
        assert [secured for *_, secured, _ in site.attempts] == [True]

    site.play(test)


def test_a_master_that_refuses_is_not_tried_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tls(monkeypatch))
    site.refusals = [ConnectionRefusedError()]

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(0.05)
        assert [secured for *_, secured, _ in site.attempts] == [True]

    site.play(test)


def test_an_attempt_ends_after_three_seconds() -> None:
    site = Site()

    async def hang(make: Any, host: str, port: int, *, ssl: Any) -> tuple[Any, Any]:
        site.attempts.append((host, port, ssl is not None, asyncio.get_running_loop().time()))
        await asyncio.Event().wait()
        raise AssertionError

    site.connect = hang  # type: ignore[method-assign]

    async def test() -> None:
        site.slave.follow("h:1")
        await asyncio.sleep(7)
        assert site.pauses() == pytest.approx([3.1, 3.2], abs=0.2)

    site.play(test)


def test_a_new_attempt_is_not_ended_because_the_last_one_was_silent() -> None:
    site = Site()

    async def test() -> None:
        site.now += 60_000
        site.slave.follow("h:1")
        await asyncio.sleep(0.1)
        site.slave.tick()
        assert not site.transports[0].aborted

    site.play(test)
