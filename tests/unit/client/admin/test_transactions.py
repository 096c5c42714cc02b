"""Which transactions are open, and which are no longer checked."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.aio import Admin
from rocketmq_py.errors import NetworkError
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.record import pack_host
from tests.unit.client.admin.scripted_cluster import ScriptedCluster, body, record, refused, with_admin

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"


class Store:
    """The internal topics of each broker: bodies by offset, and the offsets up to where checks have come."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.messages: dict[tuple[str, str], list[bytes]] = {}
        self.checked: dict[tuple[str, str], int] = {}
        cluster.answers |= {
            Code.GET_MIN_OFFSET: lambda *_: Command(0, ext={"offset": "0"}),
            Code.GET_MAX_OFFSET: lambda address, r: Command(0, ext={"offset": str(len(self._of(address, r)))}),
            Code.QUERY_CONSUMER_OFFSET: self._checked,
            Code.PULL_MESSAGE: self._pull,
        }

    def _of(self, address: str, request: Command) -> list[bytes]:
        if request.ext["queueId"] != "0":
            return []
        return self.messages.get((address[0], request.ext["topic"]), [])

    def _checked(self, address: str, request: Command) -> Command:
        assert request.ext["consumerGroup"] == "CID_RMQ_SYS_TRANS"
        found = self.checked.get((address[0], request.ext["topic"]))
        return refused(ResponseCode.QUERY_NOT_FOUND) if found is None else Command(0, ext={"offset": str(found)})

    def _pull(self, address: str, request: Command) -> Command:
        bodies, offset = self._of(address, request), int(request.ext["queueOffset"])
        ext = {
            "suggestWhichBrokerId": "0", "nextBeginOffset": str(len(bodies)), "minOffset": "0",
            "maxOffset": str(len(bodies)),
        }  # fmt: skip
        records = [
            record(at, topic=request.ext["topic"], stored_at=100 - 10 * ord(address[0]) + at, content=bodies[at])
            for at in range(offset, len(bodies))
        ]
        return Command(0, ext=ext, body=b"".join(records))


@pytest.mark.parametrize(
    ("checked", "ops", "expected"),
    [
        ({}, [], [0, 1, 2, 3]),
        ({}, [b"0,2,"], [1, 3]),
        ({}, [b"0,", b"3,99,"], [1, 2]),
        ({HALF: 2}, [b"1,2,"], [3]),
        ({HALF: 4}, [], []),
        ({HALF: 1, OP: 1}, [b"1,", b"3,"], [1, 2]),
    ],
)
@with_admin({HALF: {"a": 2}})
async def test_a_half_message_that_no_op_message_names_is_open(
    admin: Admin, cluster: ScriptedCluster, checked: dict[str, int], ops: list[bytes], expected: list[int]
) -> None:
    store = Store(cluster)
    store.messages = {("a", HALF): [b"x"] * 4, ("a", OP): ops}
    store.checked = {("a", topic): offset for topic, offset in checked.items()}
    assert [half.queue_offset for half in await admin.open_transactions()] == expected


@with_admin({HALF: {"a": 1, "b": 1}})
async def test_open_transactions_of_all_brokers_come_oldest_first(admin: Admin, cluster: ScriptedCluster) -> None:
    store = Store(cluster)
    store.messages = {("a", HALF): [b"x"] * 2, ("b", HALF): [b"x"]}
    found = [(half.broker_name, half.queue_offset) for half in await admin.open_transactions()]
    assert found == [("b", 0), ("a", 0), ("a", 1)]


@pytest.mark.parametrize("name", ["open", "given up"])
@with_admin({HALF: {"a": 1, "b": 1}, GIVEN_UP: {"a": 1, "b": 1}}, skip_silent=True)
async def test_a_silent_broker_is_left_out(admin: Admin, cluster: ScriptedCluster, name: str) -> None:
    store = Store(cluster)
    store.messages = {(broker, topic): [b"x"] for broker in "ab" for topic in (HALF, GIVEN_UP)}
    cluster.network.unreachable.add("a:1")
    found: list[Any] = (
        await admin.open_transactions() if name == "open" else [m async for m in admin.given_up_transactions()]
    )
    assert [half.broker_name for half in found] == ["b"]
    assert list(admin.silent) == ["a"]


@with_admin({GIVEN_UP: {"a": 1, "b": 1}})
async def test_transactions_that_are_no_longer_checked(admin: Admin, cluster: ScriptedCluster) -> None:
    store = Store(cluster)
    store.messages = {("a", GIVEN_UP): [b"1", b"2"], ("b", GIVEN_UP): [b"3"]}
    assert [half.body async for half in admin.given_up_transactions()] == [b"1", b"2", b"3"]
    cluster.network.transports["a:1"].close()
    cluster.network.unreachable.add("a:1")
    with pytest.raises(NetworkError):
        [half async for half in admin.given_up_transactions()]
    cluster.topics.clear()
    assert [half async for half in admin.given_up_transactions()] == []


@with_admin({GIVEN_UP: {"h": 1}})
async def test_a_check_is_resumed_at_the_broker_of_the_half_message(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.brokers["h"] = ("c1", {0: "10.0.0.1:1"})
    cluster.answers[Code.VIEW_MESSAGE_BY_ID] = lambda *_: body(record(0, topic=GIVEN_UP))
    given = offset_msg_id(pack_host("10.0.0.1", 1), 77)
    await admin.resume_transaction(given)
    assert cluster.asked(Code.RESUME_CHECK_HALF_MESSAGE) == ["10.0.0.1:1"]
    assert cluster.fields(Code.RESUME_CHECK_HALF_MESSAGE) == [{"topic": GIVEN_UP, "msgId": given}]
