"""Reads of messages that consume nothing: by id, by key, from an offset on, and the newest ones."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.aio import Admin
from rocketmq_py.client.admin.messages import FOREVER, Pulled
from rocketmq_py.errors import BrokerError, ConfigError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.record import pack_host
from tests.unit.client.admin.scripted_cluster import ScriptedCluster, body, record, refused, with_admin

QUEUE = MessageQueue("t", "a", 0)


class Log:
    """Queues of broker a by id: first offset, tags of the messages in order. Pulls return ``most`` messages."""

    def __init__(self, cluster: ScriptedCluster, queues: dict[int, tuple[int, list[str]]], most: int = 32) -> None:
        self.queues, self.most = queues, most
        self.pulls: list[tuple[int, int]] = []
        self.fields: dict[str, str] = {}
        cluster.answers[Code.GET_MIN_OFFSET] = self._min
        cluster.answers[Code.GET_MAX_OFFSET] = self._max
        cluster.answers[Code.PULL_MESSAGE] = self._pull

    def _min(self, _: str, request: Command) -> Command:
        return Command(0, ext={"offset": str(self.queues[int(request.ext["queueId"])][0])})

    def _max(self, _: str, request: Command) -> Command:
        return Command(0, ext={"offset": str(sum(self.extent(request)))})

    def extent(self, request: Command) -> tuple[int, int]:
        first, tags = self.queues[int(request.ext["queueId"])]
        return first, len(tags)

    def _pull(self, _: str, request: Command) -> Command:
        self.fields = dict(request.ext)
        queue_id, offset = int(request.ext["queueId"]), int(request.ext["queueOffset"])
        first, tags = self.queues[queue_id]
        self.pulls.append((queue_id, offset))
        wanted = range(offset, min(offset + self.most, first + len(tags)))
        ext = {
            "suggestWhichBrokerId": "0", "nextBeginOffset": str(max(offset, wanted.stop)), "minOffset": str(first),
            "maxOffset": str(first + len(tags)),
        }  # fmt: skip
        if not wanted:
            return Command(ResponseCode.PULL_NOT_FOUND, ext=ext, body=b"not a record")
        records = [
            record(
                at, queue_id=queue_id, stored_at=10 * at + queue_id, properties=b"TAGS\x01" + tags[at - first].encode()
            )
            for at in wanted
        ]
        return Command(0, ext=ext, body=b"".join(records))


@with_admin()
async def test_a_message_is_read_from_the_broker_that_its_id_names(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.brokers["six"] = ("c1", {1: "[::1]:10911"})
    cluster.brokers["four"] = ("c1", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
    cluster.answers[Code.VIEW_MESSAGE_BY_ID] = lambda address, request: body(
        record(3, at=int(request.ext["offset"]), content=address.encode())
    )
    for ip, address, name in (("10.0.0.2", "10.0.0.2:10911", "four"), ("::1", "[::1]:10911", "six")):
        found = await admin.message(offset_msg_id(pack_host(ip, 10911), 77))
        assert (found.body.decode(), found.broker_name, found.commit_log_offset) == (address, name, 77)
    with pytest.raises(ConfigError, match=r"no broker is registered at 10\.0\.0\.3:10911"):
        await admin.message(offset_msg_id(pack_host("10.0.0.3", 10911), 77))
    assert cluster.fields(Code.VIEW_MESSAGE_BY_ID) == [{"offset": "77"}] * 2


def with_keys(offset: int, key: str, **more: Any) -> bytes:
    return record(offset, properties=f"KEYS\x01{key}\x02UNIQ_KEY\x01ID{offset}\x02".encode(), **more)


@with_admin()
async def test_messages_are_found_by_key_on_all_brokers(admin: Admin, cluster: ScriptedCluster) -> None:
    bodies = {
        "a:1": [
            with_keys(1, "k other", stored_at=30, at=1),
            with_keys(2, "another", stored_at=1),
            with_keys(3, "k", topic="u"),
            with_keys(4, "k", stored_at=20, at=9),
        ],
        "s:2": [with_keys(5, "x k", stored_at=20, at=8), record(6)],
    }
    cluster.answers[Code.QUERY_MESSAGE] = lambda address, _: body(b"".join(bodies[address]))
    found = await admin.messages_by_key("t", "k")
    assert [(m.queue_offset, m.broker_name) for m in found] == [(5, "s"), (4, "a"), (1, "a")]
    found = await admin.messages_by_key("t", "ID2", max_messages=3, begin_ms=1, end_ms=2)
    assert [m.queue_offset for m in found] == [2], "the unique key counts, too"
    found = await admin.messages_by_key("t", "k", unique=True)
    assert found == []
    default = {"topic": "t", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(2**63 - 1)}
    assert str(2**63 - 1) == str(FOREVER)
    assert cluster.fields(Code.QUERY_MESSAGE)[::2] == [
        default,
        {"topic": "t", "key": "ID2", "maxNum": "3", "beginTimestamp": "1", "endTimestamp": "2"},
        default | {"_UNIQUE_KEY_QUERY": "true"},
    ]


@with_admin()
async def test_a_broker_without_the_key_is_left_out(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.QUERY_MESSAGE] = lambda address, _: (
        body(with_keys(1, "k")) if address == "a:1" else refused(ResponseCode.QUERY_NOT_FOUND)
    )
    [found] = await admin.messages_by_key("t", "k")
    assert found.broker_name == "a"
    cluster.answers[Code.QUERY_MESSAGE] = lambda *_: refused(ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerError):
        await admin.messages_by_key("t", "k")


@with_admin({"t": {"a": 1}})
async def test_a_pull_tells_where_to_go_on(admin: Admin, cluster: ScriptedCluster) -> None:
    log = Log(cluster, {0: (5, ["A", "B", "A"])}, most=2)
    pulled = await admin.pull(QUEUE, 5)
    assert [m.queue_offset for m in pulled.messages] == [5, 6]
    assert pulled[1:] == (7, 5, 8)
    assert log.fields == {
        "consumerGroup": "TOOLS_CONSUMER", "topic": "t", "queueId": "0", "queueOffset": "5", "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
        "expressionType": "TAG", "bname": "a",
    }  # fmt: skip
    pulled = await admin.pull(QUEUE, 5, tags="B", max_messages=7, wait=1.5)
    assert ([m.queue_offset for m in pulled.messages], pulled.next_offset) == ([6], 7)
    wanted = {"sysFlag": "6", "suspendTimeoutMillis": "1500", "maxMsgNums": "7", "subscription": "B"}
    assert log.fields == log.fields | wanted
    assert await admin.pull(QUEUE, 8, sql="a > 1") == Pulled([], 8, 5, 8)
    assert log.fields == log.fields | {"subscription": "a > 1", "expressionType": "SQL92"}


@pytest.mark.parametrize(
    "code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED]
)
@with_admin({"t": {"a": 1}})
async def test_a_pull_without_messages_is_no_error(admin: Admin, cluster: ScriptedCluster, code: int) -> None:
    ext = {"suggestWhichBrokerId": "0", "nextBeginOffset": "6", "minOffset": "5", "maxOffset": "8"}
    cluster.answers[Code.PULL_MESSAGE] = lambda *_: Command(code, ext=ext)
    assert await admin.pull(QUEUE, 1) == Pulled([], 6, 5, 8)
    cluster.answers[Code.PULL_MESSAGE] = lambda *_: refused(ResponseCode.SUBSCRIPTION_NOT_EXIST)
    with pytest.raises(BrokerError):
        await admin.pull(QUEUE, 1)


@pytest.mark.parametrize(
    ("start", "stop", "expected", "pulls"),
    [
        (None, None, [5, 6, 7, 8, 9], [5, 7, 9]),
        (0, None, [5, 6, 7, 8, 9], [5, 7, 9]),
        (6, None, [6, 7, 8, 9], [6, 8]),
        (6, 8, [6, 7], [6]),
        (6, 7, [6], [6]),
        (6, 6, [], []),
        (9, 99, [9], [9]),
        (10, None, [], []),
    ],
)
@with_admin({"t": {"a": 1}})
async def test_a_queue_is_read_from_start_to_stop(
    admin: Admin, cluster: ScriptedCluster, start: int | None, stop: int | None, expected: list[int], pulls: list[int]
) -> None:
    log = Log(cluster, {0: (5, ["A"] * 5)}, most=2)
    assert [m.queue_offset async for m in admin.read(QUEUE, start, stop)] == expected
    assert log.pulls == [(0, offset) for offset in pulls]


@with_admin({"t": {"a": 1}})
async def test_a_read_ends_where_the_broker_returns_nothing_more(admin: Admin, cluster: ScriptedCluster) -> None:
    log = Log(cluster, {0: (0, ["A"] * 5)})
    ext = {"suggestWhichBrokerId": "0", "nextBeginOffset": "2", "minOffset": "0", "maxOffset": "5"}
    cluster.answers[Code.PULL_MESSAGE] = lambda *_: Command(ResponseCode.PULL_NOT_FOUND, ext=ext)
    assert [m async for m in admin.read(QUEUE)] == []
    assert len(cluster.asked(Code.PULL_MESSAGE)) == 2
    assert log.pulls == []


@with_admin({"t": {"a": 1}})
async def test_a_read_has_the_filter_of_its_pulls(admin: Admin, cluster: ScriptedCluster) -> None:
    log = Log(cluster, {0: (0, ["A", "B", "A"])}, most=1)
    assert [m.queue_offset async for m in admin.read(QUEUE, tags="A")] == [0, 2]
    assert [m.queue_offset async for m in admin.read(QUEUE, sql="a = 1")] == [0, 1, 2]
    assert log.fields["expressionType"] == "SQL92"


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [(9, 1)]), (2, [(9, 0), (9, 1)]), (3, [(8, 1), (9, 0), (9, 1)]), (9, [(8, 1), (9, 0), (9, 1)])],
)
@with_admin({"t": {"a": 3}})
async def test_the_newest_messages_of_all_queues_come_oldest_first(
    admin: Admin, cluster: ScriptedCluster, count: int, expected: list[tuple[int, int]]
) -> None:
    log = Log(cluster, {0: (9, ["A"]), 1: (8, ["A", "A"]), 2: (4, [])})
    found, ends = await admin.newest("t", count)
    assert [(m.queue_offset, m.queue_id) for m in found] == expected
    assert ends == {MessageQueue("t", "a", n): end for n, end in enumerate((10, 10, 4))}
    assert bool(log.pulls) == bool(count)


@with_admin({"t": {"a": 1}})
async def test_ranges_grow_while_few_messages_match(admin: Admin, cluster: ScriptedCluster) -> None:
    tags = ["A"] * 3 + ["B"] * 297
    log = Log(cluster, {0: (100, tags)}, most=1000)
    found, _ = await admin.newest("t", 2, tags="A")
    assert [m.queue_offset for m in found] == [101, 102]
    assert log.pulls == [(0, 400 - 32), (0, 400 - 32 - 128), (0, 100)]
    log.pulls.clear()
    found, _ = await admin.newest("t", 40)
    assert [m.queue_offset for m in found] == list(range(360, 400))
    assert log.pulls == [(0, 360)]


@with_admin({})
async def test_a_retry_topic_that_does_not_exist_has_no_newest_messages(admin: Admin, cluster: ScriptedCluster) -> None:
    assert await admin.newest("%RETRY%g", 3) == ([], {})
    with pytest.raises(NoRouteError):
        await admin.newest("t", 3)
