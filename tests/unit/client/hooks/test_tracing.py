"""Traces: what entries say, and when they are sent. They never delay messages or make them fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rocketmq_py.aio import ClientInstance
from rocketmq_py.client.hooks import tracing
from rocketmq_py.client.hooks.hooks import Consumption, Reception, Sending
from rocketmq_py.client.hooks.tracing import ConsumeTrace, PollTrace, SendTrace, Tracer, trace_end
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import Message, MessageExt, MessageQueue, SendResult, SendStatus, TransactionState
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.trace import TraceEntry, TraceKind, decode_trace
from tests.unit.client.scripted import ScriptedNetwork, cluster

TOPIC = "RMQ_SYS_TRACE_TOPIC"
NOW = 1_700_000_000_000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_now_ms", lambda: NOW)


def run(test: Callable[[Tracer, ScriptedNetwork], Awaitable[None]], trace: bool | str = True) -> ScriptedNetwork:
    network = ScriptedNetwork(cluster({TOPIC: {"b": 1}, "mine": {"b": 1}, "t": {"b": 1}}))

    async def main() -> None:
        instance = ClientInstance("ns:1", timeout=1.0)
        network.carry(instance.connections)
        tracer = Tracer(trace, "g", "PRODUCE")
        tracer.start(instance)
        await test(tracer, network)
        await tracer.close()
        await instance.stop()

    asyncio.run(main())
    return network


def entry(number: int) -> TraceEntry:
    return TraceEntry(kind=TraceKind.RECALL, msg_id=str(number))


def sent(network: ScriptedNetwork) -> list[list[str]]:
    """The ids in each trace message that came, in order."""
    return [[one.msg_id for one in decode_trace(request.body)] for _, request in network.sent()]


def ids(first: int, stop: int) -> list[str]:
    return [str(number) for number in range(first, stop)]


async def turns() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("trace", "topic"), [(True, TOPIC), ("mine", "mine")])
def test_traces_go_to_the_topic_that_is_given(trace: bool | str, topic: str) -> None:
    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        assert (tracer.topic, tracer.group) == (topic, "g")
        tracer.add([("t", entry(1))])

    network = run(test, trace)
    assert [(request.ext["b"], request.ext["a"]) for _, request in network.sent()] == [
        (topic, "_INNER_TRACE_PRODUCER-g-PRODUCE-1")
    ]
    with pytest.raises(ConfigError):
        Tracer("no topic!", "g", "PRODUCE")


def test_there_is_no_tracer_where_nothing_is_traced() -> None:
    assert Tracer.of(False, "g", "PRODUCE") is None
    made = Tracer.of("mine", "g", "PRODUCE")
    assert made is not None
    assert made.topic == "mine"


@pytest.mark.parametrize("group", ["g" * 226, "g" * 227, "g" * 255])
def test_the_name_of_the_group_is_cut_where_groups_end(group: str) -> None:
    async def main() -> str:
        network = ScriptedNetwork(cluster({TOPIC: {"b": 1}}))
        instance = ClientInstance("ns:1", timeout=1.0)
        network.carry(instance.connections)
        tracer = Tracer(True, group, "CONSUME")
        tracer.start(instance)
        tracer.add([("t", entry(1))])
        await tracer.close()
        await instance.stop()
        [(_, request)] = network.sent()
        return request.ext["a"]

    assert asyncio.run(main()) == f"_INNER_TRACE_PRODUCER-{group}-CONSUME-1"[:255]


def test_a_full_batch_is_sent_at_once_and_the_rest_after_a_while() -> None:
    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        tracer.add(("t", entry(number)) for number in range(9))
        await turns()
        assert sent(network) == []
        tracer.add([("t", entry(9)), ("t", entry(10))])
        await turns()
        assert sent(network) == [ids(0, 10)]
        loop = asyncio.get_running_loop()
        began = loop.time()
        network.asked.clear()
        await network.asked.wait()
        assert loop.time() - began <= 5.5
        await turns()
        assert sent(network) == [ids(0, 10), ["10"]]
        network.asked.clear()
        tracer.add([("t", entry(11))])
        await network.asked.wait()
        await turns()
        assert sent(network)[2:] == [["11"]]

    assert len(sent(run(test))) == 3


def test_each_topic_has_a_message_of_its_own() -> None:
    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        tracer.add([("t", entry(1)), ("u", entry(2)), ("t", entry(3))])

    assert sent(run(test)) == [["1", "3"], ["2"]]


def test_keys_of_a_trace_message_are_those_of_its_messages() -> None:
    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        tracer.add([("t", TraceEntry(kind=TraceKind.RECALL, msg_id="A", keys="k l")), ("t", entry(2))])

    [(_, request)] = run(test).sent()
    assert "KEYS\x01A k l 2\x02" in request.ext["i"] + "\x02"


def test_close_sends_what_waits() -> None:
    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        tracer.add(("t", entry(number)) for number in range(25))
        await tracer.close()
        assert sorted(sent(network), key=len) == [ids(20, 25), ids(0, 10), ids(10, 20)]

    run(test)


def test_what_comes_too_fast_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "MOST_WAITING", 3)

    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        tracer.add(("t", entry(number)) for number in range(6))

    assert sent(run(test)) == [ids(0, 3)]
    assert "some are dropped" in caplog.messages[0]
    assert caplog.messages[1:] == ["3 traces of group g were not sent to topic RMQ_SYS_TRACE_TOPIC"]


def test_a_tracer_knows_the_addresses_of_masters() -> None:
    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        assert tracer.address_of("b") is None
        tracer.add([("t", entry(1))])
        await turns()
        tracer._flush()
        await turns()
        assert (tracer.address_of("b"), tracer.address_of("c")) == ("b:1", None)

    run(test)


def test_a_tracer_that_was_not_started_does_nothing() -> None:
    tracer = Tracer(True, "g", "PRODUCE")
    tracer.add([("t", entry(1))])
    assert tracer.address_of("b") is None
    asyncio.run(tracer.close())


def test_lost_traces_are_logged_once_and_so_is_their_return(caplog: pytest.LogCaptureFixture) -> None:
    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        healthy = network.answer
        network.answer = lambda address, request: (
            Command(ResponseCode.MESSAGE_ILLEGAL, remark="no") if request.code == 310 else healthy(address, request)
        )
        for number in range(20):
            tracer.add([("t", entry(number))])
        await turns()
        assert tracer._under_way == 0
        network.answer = healthy
        for number in range(10):
            tracer.add([("t", entry(number))])
        await turns()
        assert tracer._under_way == 0

    run(test)
    lost, again = caplog.messages
    assert "traces of group g are lost" in lost
    assert "are written to topic RMQ_SYS_TRACE_TOPIC again" in again


def test_at_most_so_many_messages_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_UNDER_WAY", 2)

    async def test(tracer: Tracer, network: ScriptedNetwork) -> None:
        healthy, held = network.answer, []
        network.answer = lambda address, request: (
            held.append((address, request)) if request.code == 310 else healthy(address, request)  # type: ignore[func-returns-value]
        )
        tracer.add(("t", entry(number)) for number in range(45))
        await turns()
        assert (len(held), tracer._under_way, len(tracer._waiting)) == (2, 2, 25)
        network.answer = healthy
        address, request = held[0]
        answer = healthy(address, request)
        assert answer is not None
        answer.opaque, answer.flag = request.opaque, 1
        from rocketmq_py.wire.command import encode_command

        network.transports[address].deliver(encode_command(answer))
        await turns()
        assert tracer._under_way == 1
        assert len(tracer._waiting) == 5

    run(test)


# -- entries


class Entries(Tracer):
    """A tracer that keeps its entries."""

    def __init__(self) -> None:
        super().__init__(True, "g", "PRODUCE")
        self.kept: list[tuple[str, TraceEntry]] = []

    def add(self, entries: Any) -> None:
        self.kept += entries

    def address_of(self, broker_name: str) -> str | None:
        return f"{broker_name}:1"


def stored(number: int = 1, status: SendStatus = SendStatus.SEND_OK, **changes: Any) -> SendResult:
    offset_ids = ",".join(f"OFF{n}" for n in range(number))
    result = SendResult(status, "ID", MessageQueue("t", "b", 2), 5, offset_ids, region_id="R")
    return result._replace(**changes)


def traced(messages: list[Message], result: SendResult | None, seconds: float = 0.25) -> list[TraceEntry]:
    tracer = Entries()
    hook, sending = SendTrace(tracer), Sending("g", messages, oneway=False)
    hook.before(sending)
    sending.result, sending.seconds = result, seconds
    hook.after(sending)
    assert all(topic == "t" for topic, _ in tracer.kept)
    return [one for _, one in tracer.kept]


def test_a_send_is_traced_with_its_result() -> None:
    message = Message("t", b"four", tags="A", keys=["k", "l"])
    assert traced([message], stored()) == [
        TraceEntry(
            kind=TraceKind.PUB, timestamp=NOW, region="R", group="g", topic="t", msg_id="ID", tags="A", keys="k l",
            store_host="b:1", body_length=4, cost_ms=250, message_type="Normal_Msg", offset_msg_id="OFF0", success=True,
        )
    ]  # fmt: skip
    [one] = traced([message], stored(status=SendStatus.FLUSH_DISK_TIMEOUT))
    assert one.success is False


@pytest.mark.parametrize("count", [1, 3])
def test_each_message_of_a_batch_has_an_entry(count: int) -> None:
    messages = [Message("t", b"x") for _ in range(3)]
    for number, message in enumerate(messages):
        message.properties["UNIQ_KEY"] = f"U{number}"
    found = traced(messages, stored(count), seconds=0.03)
    assert [(one.msg_id, one.cost_ms) for one in found] == [("U0", 10), ("U1", 10), ("U2", 10)]
    assert [one.offset_msg_id for one in found] == [f"OFF{min(number, count - 1)}" for number in range(3)]


@pytest.mark.parametrize("result", [None, stored(trace_on=False), stored(region_id=None)])
def test_a_send_without_a_result_or_a_region_is_not_traced(result: SendResult | None) -> None:
    assert traced([Message("t", b"x")], result) == []


def test_traces_are_not_traced() -> None:
    assert traced([Message(TOPIC, b"x")], stored()) == []
    assert traced([], stored()) == []


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"TRAN_MSG": "true"}, "Trans_Msg_Half"),
        ({"TRAN_MSG": "false"}, "Normal_Msg"),
        ({"DELAY": "3"}, "Delay_Msg"),
        ({"TIMER_DELIVER_MS": "3"}, "Delay_Msg"),
        ({"TIMER_DELAY_SEC": "3"}, "Delay_Msg"),
        ({"TIMER_DELAY_MS": "3"}, "Delay_Msg"),
    ],
)
def test_kinds_of_messages(properties: dict[str, str], kind: str) -> None:
    message = Message("t", b"x")
    message.properties.update(properties)
    [one] = traced([message], stored())
    assert one.message_type == kind


def got(key: str, properties: str = "") -> MessageExt:
    head = (0, 0, 0, 0, 0, 0, 0, 0, 0, b"", 0, b"", 2, 0, 1)
    return MessageExt(
        head, "t", b"x", f"UNIQ_KEY\x01{key}\x02KEYS\x01k{key}\x02MSG_REGION\x01R\x02{properties}".encode(), "b"
    )


@pytest.mark.parametrize(
    ("error", "seconds", "succeeded", "code"),
    [
        (None, 0.5, True, 0),
        (None, 59.99, True, 0),
        (None, 60.0, True, 1),
        (ValueError(), 60.0, False, 2),
        (None, 0.5, False, 4),
        (None, 60.0, False, 1),
    ],
)
def test_a_consumption_is_traced_before_and_after(
    error: Exception | None, seconds: float, succeeded: bool, code: int
) -> None:
    tracer = Entries()
    messages = [got("A"), got("B", "TRACE_ON\x01false\x02"), got("C", "TRACE_ON\x01true\x02")]
    hook, consumption = ConsumeTrace(tracer, 60.0), Consumption("g", MessageQueue("t", "b", 0), messages)
    hook.before(consumption)
    consumption.error, consumption.seconds, consumption.succeeded = error, seconds, succeeded
    hook.after(consumption)
    request_id = tracer.kept[0][1].request_id
    assert request_id is not None
    assert (len(request_id), request_id) == (32, request_id.upper())
    both = {"timestamp": NOW, "group": "g", "request_id": request_id}
    assert tracer.kept == [
        *(("t", TraceEntry(kind=TraceKind.SUB_BEFORE, region="R", msg_id=key, retry_times=2, keys=f"k{key}", **both))
          for key in "AC"),
        *(("t", TraceEntry(kind=TraceKind.SUB_AFTER, msg_id=key, cost_ms=round(seconds * 1000 / 3), success=succeeded,
                           keys=f"k{key}", context_code=code, **both)) for key in "AC"),
    ]  # fmt: skip


def test_a_polled_message_is_traced_as_consumed() -> None:
    tracer = Entries()
    PollTrace(tracer).received(Reception("g", [got("A")], 0))
    before, after = (one for _, one in tracer.kept)
    assert (before.kind, after.kind) == (TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER)
    assert before.request_id == after.request_id
    assert (after.cost_ms, after.context_code, after.success) == (0, 0, True)


@pytest.mark.parametrize(("options", "from_check"), [({}, False), ({"from_check": True}, True)])
@pytest.mark.parametrize(("properties", "region"), [({}, "DefaultRegion"), ({"MSG_REGION": "R"}, "R")])
def test_the_end_of_a_transaction_is_traced(
    options: dict[str, bool], from_check: bool, properties: dict[str, str], region: str
) -> None:
    tracer = Entries()
    message = Message("t", b"x", tags="A", keys=["k"])
    message.properties.update(properties)
    message.transaction_id = "TX"
    trace_end(tracer, message, "ID", "b", TransactionState.COMMIT, **options)
    assert tracer.kept == [
        ("t", TraceEntry(
            kind=TraceKind.END_TRANSACTION, timestamp=NOW, region=region, group="g", topic="t", msg_id="ID", tags="A",
            keys="k", store_host="b:1", message_type="Trans_msg_Commit", transaction_id="TX",
            transaction_state=TransactionState.COMMIT.value, from_check=from_check,
        ))
    ]  # fmt: skip
