"""Messages to and from brokers of other names: where they go, what is sent, and which answers are failures."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, ConnectionLost, NoRouteError, OffsetIllegal
from rocketmq_py.properties import decode_properties
from rocketmq_py.store import NewRecord
from rocketmq_py.wire.command import Command
from tests.unit.broker.rpc import Asked, Others, reply, route

SEND_V2, PULL, GET_ROUTE = 310, 11, 105
OWN = {"own": {0: "own:1", 1: "own:2"}}
TWO = {"a": {0: "a:1"}, "b": {0: "b:1", 1: "b:2"}}
WITHOUT_MASTER = {"x": {1: "x:2"}}


def record(properties: str = "KEYS\x01k\x02", **more: object) -> NewRecord:
    fields = {"topic": "t", "queue_id": 3, "body": b"body", "properties": properties.encode()} | more
    return NewRecord(born_timestamp=77, **fields)


class Bench:
    """``answers`` are those of brokers by their address; the name server answers with ``brokers``."""

    def __init__(self, brokers: dict[str, dict[int, str]], queues: int = 1, **answers: Reply | Exception) -> None:
        self.now = 1_000
        self.brokers, self.queues, self.answers = brokers, queues, answers
        self.others = Others(self._answer)
        config = BrokerConfig(broker_name="own", namesrv_addr="ns:1", broker_role="SLAVE", broker_id=1)
        self.bridge = EscapeBridge(config, self.others, lambda: self.now)

    def _answer(self, address: str, command: Command) -> Reply | Exception:
        if address == "ns:1":
            assert command.code == GET_ROUTE
            return route(self.brokers, self.queues)
        return self.answers.get(address.partition(":")[0], reply())

    @property
    def sent(self) -> list[Asked]:
        return [asked for asked in self.others.asked if asked.address != "ns:1"]

    @property
    def routes(self) -> int:
        return len(self.others.codes("ns:1"))


# -- put


async def test_a_message_is_sent_to_a_master_of_another_name_with_all_it_has() -> None:
    bench = Bench(OWN | {"b": {0: "b:1", 1: "b:2"}} | WITHOUT_MASTER)
    delayed = "KEYS\x01k\x02DELAY\x013\x02REAL_TOPIC\x01r\x02REAL_QID\x012\x02WAIT\x01true\x02"
    await bench.bridge.put(record(delayed, sys_flag=1, flag=9, reconsume_times=2))
    [(address, command, timeout)] = bench.sent
    assert (address, command.code, command.body, timeout) == ("b:1", SEND_V2, b"body", 3.0)
    ext = dict(command.ext)
    assert decode_properties(ext.pop("i").encode()) == {"KEYS": "k", "WAIT": "true"}
    assert ext == {
        "a": "InnerProducerGroup_own_1", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "1", "g": "77", "h": "9",
        "j": "2", "k": "false", "m": "false", "n": "b",
    }  # fmt: skip


async def test_the_producer_group_of_the_message_is_kept() -> None:
    bench = Bench(TWO)
    await bench.bridge.put(record("PGROUP\x01mine\x02"))
    assert bench.sent[0].command.ext["a"] == "mine"


async def test_all_queues_of_all_masters_are_used_in_turn() -> None:
    bench = Bench(TWO | OWN, 2)
    for _ in range(8):
        await bench.bridge.put(record())
    places = [(asked.address, asked.command.ext["e"]) for asked in bench.sent]
    assert sorted(places) == sorted([(address, queue) for address in ("a:1", "b:1") for queue in "01"] * 2)
    assert bench.routes == 1


async def test_messages_of_a_key_go_to_one_master() -> None:
    """Which one is the hash of the key: "a" is 97, "b" is 98 and their two brokers are sorted by name."""
    bench = Bench(TWO | OWN, 2)
    for key in "aabb":
        await bench.bridge.put(record(), key)
    assert [asked.address for asked in bench.sent] == ["b:1", "b:1", "a:1", "a:1"]
    assert {asked.command.ext["e"] for asked in bench.sent} == {"0", "1"}


@pytest.mark.parametrize("brokers", [OWN, WITHOUT_MASTER, {}])
async def test_without_another_master_nothing_is_sent(brokers: dict[str, dict[int, str]]) -> None:
    bench = Bench(brokers)
    for _ in range(2):
        with pytest.raises(NoRouteError, match="no master other than own has topic t: create it on other masters"):
            await bench.bridge.put(record())
    assert bench.sent == []
    assert bench.routes == 2, "the route is queried again"


@pytest.mark.parametrize("code", [0, 10, 11, 12])
async def test_a_message_that_is_stored_but_not_yet_safe_is_sent(code: int) -> None:
    bench = Bench(TWO, a=reply(code), b=reply(code))
    await bench.bridge.put(record())
    await bench.bridge.put(record())
    assert bench.routes == 1


@pytest.mark.parametrize("code", [1, 2, 14, 17])
async def test_a_refusal_is_raised_and_the_route_queried_again(code: int) -> None:
    bench = Bench({"a": {0: "a:1"}}, a=reply(code, remark="no room"))
    with pytest.raises(BrokerError, match="no room") as caught:
        await bench.bridge.put(record())
    assert caught.value.code == code
    bench.answers.clear()
    await bench.bridge.put(record())
    assert bench.routes == 2


# -- get


def stored(offset: int) -> bytes:
    """The head of a record: the queue offset stands at byte 20."""
    return bytes(20) + offset.to_bytes(8, "big") + bytes(60)


def pulled(code: int = 0, offset: int = 5, end: int = 9) -> Reply:
    fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "6", "minOffset": "0", "maxOffset": str(end)}
    return reply(code, stored(offset) if code == 0 else b"", "said", **fields)


async def test_a_message_is_read_from_the_master() -> None:
    bench = Bench(TWO, b=pulled())
    assert await bench.bridge.get("b", "t", 7, 5) == stored(5)
    [(address, command, timeout)] = bench.sent
    assert (address, command.code, timeout) == ("b:1", PULL, 10.0)
    assert command.ext == {
        "consumerGroup": "TOOLS_CONSUMER", "topic": "t", "queueId": "7", "queueOffset": "5", "maxMsgNums": "1",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
        "expressionType": "TAG", "bname": "b",
    }  # fmt: skip


async def test_a_message_is_read_from_a_slave_if_there_is_no_master() -> None:
    bench = Bench(WITHOUT_MASTER, x=pulled())
    assert await bench.bridge.get("x", "t", 0, 5) == stored(5)
    assert bench.sent[0].address == "x:2"


@pytest.mark.parametrize("answer", [pulled(offset=6), pulled(19), pulled(20), pulled(21)])
async def test_a_message_that_was_deleted_is_none(answer: Reply) -> None:
    bench = Bench(TWO, b=answer)
    assert await bench.bridge.get("b", "t", 7, 5) is None


@pytest.mark.parametrize(("end", "ends_before"), [(4, True), (5, True), (6, False)])
async def test_a_queue_that_ends_before_is_an_error(end: int, ends_before: bool) -> None:
    bench = Bench(TWO, b=pulled(end=end))
    if ends_before:
        with pytest.raises(OffsetIllegal, match="queue 7 of topic t ends before 5 at b:1"):
            await bench.bridge.get("b", "t", 7, 5)
    else:
        assert await bench.bridge.get("b", "t", 7, 5) is not None


@pytest.mark.parametrize("code", [1, 2, 16, 17, 24])
async def test_a_refused_read_is_raised(code: int) -> None:
    bench = Bench(TWO, b=pulled(code))
    with pytest.raises(BrokerError, match="said") as caught:
        await bench.bridge.get("b", "t", 7, 5)
    assert caught.value.code == code
    with pytest.raises(BrokerError):
        await bench.bridge.get("b", "t", 7, 5)
    assert bench.routes == 1


async def test_a_broker_without_an_answer_is_looked_for_again() -> None:
    bench = Bench(TWO, b=ConnectionLost("b:1 has gone"))
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="has gone"):
            await bench.bridge.get("b", "t", 7, 5)
    assert bench.routes == 2


async def test_a_broker_that_nobody_knows_is_looked_for_again() -> None:
    bench = Bench(TWO)
    for _ in range(2):
        with pytest.raises(NoRouteError, match="no name server knows a broker c with topic t"):
            await bench.bridge.get("c", "t", 7, 5)
    assert (bench.routes, bench.sent) == (2, [])


async def test_a_route_is_used_for_five_seconds() -> None:
    bench = Bench(TWO, b=pulled())
    for passed in (0, 4_999, 1):
        bench.now += passed
        await bench.bridge.get("b", "t", 7, 5)
    assert bench.routes == 2


def test_closing_closes_the_connections() -> None:
    bench = Bench(TWO)
    assert not bench.others.is_closed
    bench.bridge.close()
    assert bench.others.is_closed
