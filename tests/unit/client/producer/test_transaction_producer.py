"""Transactions over a scripted network: what is sent when a local transaction ends, fails or cannot begin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rocketmq_py.aio import ClientInstance
from rocketmq_py.client.hooks.hooks import SendHook, Sending
from rocketmq_py.client.producer.transaction_checks import CheckRequest
from rocketmq_py.client.producer.transaction_producer import TransactionProducer
from rocketmq_py.errors import BrokerError, ClosedError, ConfigError, MessageIllegal, NetworkError, NoRouteError
from rocketmq_py.model import Message, MessageExt, RecordHead, SendStatus, TransactionState
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.transaction import CheckTransactionState
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.record import decode_record, encode_record, pack_host
from tests.unit.client.scripted import ScriptedNetwork, route_answer

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
OUTCOMES = {COMMIT: "8", ROLLBACK: "12", UNKNOWN: "0"}
OFFSET_ID = offset_msg_id(pack_host("10.0.0.1", 1), 777)


class Broker:
    """Name server and broker b; ``code`` answers half messages."""

    def __init__(self) -> None:
        self.code = int(ResponseCode.SUCCESS)
        self.network = ScriptedNetwork(self.answer)

    def answer(self, address: str, request: Command) -> Command | None:
        if request.code == Code.GET_ROUTEINFO_BY_TOPIC:
            return route_answer({"b": 1})
        if request.code == Code.SEND_MESSAGE_V2:
            ext = {"msgId": OFFSET_ID, "queueId": request.ext["e"], "queueOffset": "5", "transactionId": "TX"}
            return Command(self.code, ext=ext)
        return Command(0)

    def ends(self) -> list[Command]:
        return [request for _, request in self.network.requests if request.code == Code.END_TRANSACTION]

    def outcomes(self) -> list[str]:
        return [request.ext["commitOrRollback"] for request in self.ends()]

    def count(self, code: Code) -> int:
        return self.network.codes().count(code)


class Listener:
    """Its local transaction returns or raises ``outcome``."""

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome
        self.calls: list[tuple[str | None, object]] = []

    def execute_local_transaction(self, message: Message, arg: Any) -> Any:
        self.calls.append((message.transaction_id, arg))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return ROLLBACK


class AsyncListener(Listener):
    async def execute_local_transaction(self, message: Message, arg: Any) -> Any:
        return super().execute_local_transaction(message, arg)


class LaterListener(Listener):
    """A plain method that returns something to await."""

    def execute_local_transaction(self, message: Message, arg: Any) -> Any:
        async def later() -> Any:
            return said

        said = super().execute_local_transaction(message, arg)
        return later()


def run(test: Callable[[TransactionProducer, Broker], Awaitable[None]], **options: Any) -> Broker:
    broker = Broker()

    async def main() -> None:
        instance = ClientInstance("ns:1", timeout=1.0)
        broker.network.carry(instance.connections)
        if "check" not in options:
            options.setdefault("listener", Listener(COMMIT))
        async with TransactionProducer("g", instance=instance, **options) as producer:
            await test(producer, broker)
        await instance.stop()

    asyncio.run(main())
    return broker


def test_brokers_may_ask_a_started_producer_about_transactions() -> None:
    handlers: dict[int, object] = {}

    async def main() -> None:
        instance = ClientInstance("ns:1", timeout=1.0)
        Broker().network.carry(instance.connections)
        instance.connections.on_request = handlers.__setitem__  # type: ignore[method-assign, assignment]
        async with TransactionProducer("g", listener=Listener(COMMIT), instance=instance):
            assert Code.CHECK_TRANSACTION_STATE in handlers
        await instance.stop()

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Listener, AsyncListener, LaterListener])
@pytest.mark.parametrize(("outcome", "state"), [(COMMIT, COMMIT), (ROLLBACK, ROLLBACK), (None, UNKNOWN), (1, UNKNOWN)])
def test_a_transaction_ends_as_its_listener_says(
    kind: type[Listener], outcome: object, state: TransactionState
) -> None:
    listener = kind(outcome)

    async def test(producer: TransactionProducer, broker: Broker) -> None:
        message = Message("t", b"x")
        result = await producer.send_in_transaction(message, arg="given")
        assert (result.state, result.failure) == (state, None)
        assert (result.half.queue_offset, result.half.msg_id) == (5, message.transaction_id)
        assert listener.calls == [(message.transaction_id, "given")]
        [sent] = [request for _, request in broker.network.sent()]
        assert sent.ext["f"] == "4", "prepared"
        assert "PGROUP\x01g\x02" in sent.ext["i"] + "\x02"

    broker = run(test, listener=listener)
    [end] = broker.ends()
    assert (end.ext["commitOrRollback"], end.ext["commitLogOffset"]) == (OUTCOMES[state], "777")
    assert (end.ext["fromTransactionCheck"], end.ext["topic"], end.remark) == ("false", "t", None)


@pytest.mark.parametrize("kind", [Listener, AsyncListener, LaterListener])
def test_a_local_transaction_that_raises_is_checked_later(kind: type[Listener]) -> None:
    failure = ValueError("on purpose")

    async def test(producer: TransactionProducer, broker: Broker) -> None:
        result = await producer.send_in_transaction(Message("t", b"x"))
        assert (result.state, result.failure) == (UNKNOWN, failure)

    [end] = run(test, listener=kind(failure)).ends()
    assert (end.ext["commitOrRollback"], end.remark) == ("0", "ValueError: on purpose")


def test_an_unsafe_half_message_is_rolled_back() -> None:
    listener = Listener(COMMIT)

    async def test(producer: TransactionProducer, broker: Broker) -> None:
        broker.code = ResponseCode.FLUSH_DISK_TIMEOUT
        result = await producer.send_in_transaction(Message("t", b"x"))
        assert (result.state, result.half.status) == (ROLLBACK, SendStatus.FLUSH_DISK_TIMEOUT)
        with pytest.raises(BrokerError, match="was rolled back"):
            async with producer.transaction(Message("t", b"x")):
                pytest.fail("the block must not run")

    assert run(test, listener=listener).outcomes() == ["12", "12"]
    assert listener.calls == []


def test_a_delay_or_a_missing_listener_is_refused() -> None:
    async def test(producer: TransactionProducer, broker: Broker) -> None:
        with pytest.raises(ConfigError, match="needs a listener"):
            await producer.send_in_transaction(Message("t", b"x"))
        with pytest.raises(MessageIllegal, match="delay"):
            await producer.send_half(Message("t", b"x", delay_level=3))

    assert run(test, check=lambda _: COMMIT).network.sent() == []


@pytest.mark.parametrize(("early", "state"), [("commit", COMMIT), ("rollback", ROLLBACK), ("leave_open", UNKNOWN)])
def test_a_block_may_decide_early(early: str, state: TransactionState) -> None:
    async def test(producer: TransactionProducer, broker: Broker) -> None:
        async with producer.transaction(Message("t", b"x")) as tx:
            await getattr(tx, early)()
            await asyncio.sleep(0)
            assert broker.outcomes() == [OUTCOMES[state]]
            with pytest.raises(ClosedError, match="has already ended"):
                await tx.commit()
        assert (tx.state, tx.failure) == (state, None)
        with pytest.raises(ClosedError, match="has already begun"):
            await tx.__aenter__()

    assert run(test).outcomes() == [OUTCOMES[state]]


def test_a_block_commits_unless_it_raises() -> None:
    async def test(producer: TransactionProducer, broker: Broker) -> None:
        async with producer.transaction(Message("t", b"x")):
            assert broker.ends() == []
        for failure in (ValueError("on purpose"), asyncio.CancelledError()):
            with pytest.raises(type(failure)):
                async with producer.transaction(Message("t", b"x")):
                    raise failure

    broker = run(test)
    assert broker.outcomes() == ["8", "12", "12"]
    assert [end.remark for end in broker.ends()] == [None, "ValueError: on purpose", None]


def test_an_end_that_cannot_be_sent_is_a_failure_of_the_result() -> None:
    async def test(producer: TransactionProducer, broker: Broker) -> None:
        half = await producer.send_half(Message("t", b"x"))
        broker.network.transports["b:1"].close()
        broker.network.unreachable.add("b:1")
        await asyncio.sleep(0)
        assert isinstance(await producer.send_end(half, COMMIT, Message("t", b"x")), NetworkError)
        elsewhere = half._replace(queue=half.queue._replace(broker_name="gone"))
        assert isinstance(await producer.send_end(elsewhere, COMMIT, Message("t", b"x")), NoRouteError)
        assert (producer.address_of("b"), producer.address_of("gone")) == ("b:1", None)
        assert producer.require_address("b") == "b:1"
        with pytest.raises(NoRouteError, match="broker gone has no master"):
            producer.require_address("gone")

    assert run(test).outcomes() == []


def test_heartbeats_are_sent_until_the_broker_knows_the_client() -> None:
    async def test(producer: TransactionProducer, broker: Broker) -> None:
        assert not producer.is_known_to("b")
        assert not producer.is_known_to("gone")
        await producer.send_half(Message("t", b"x"))
        assert producer.is_known_to("b")
        beats = broker.count(Code.HEART_BEAT)
        assert beats > 0
        await producer.send_half(Message("t", b"x"))
        assert broker.count(Code.HEART_BEAT) == beats

    run(test)


class Hook(SendHook):
    def __init__(self) -> None:
        self.seen: list[Sending] = []

    def after(self, sending: Sending) -> None:
        self.seen.append(sending)


def test_hooks_see_the_half_message() -> None:
    hook = Hook()

    async def test(producer: TransactionProducer, broker: Broker) -> None:
        await producer.send_in_transaction(Message("t", b"x"))

    run(test, hooks=[hook])
    [seen] = hook.seen
    assert [message.properties["TRAN_MSG"] for message in seen.messages] == ["true"]
    assert seen.result is not None


def test_a_check_is_answered_in_the_namespace_of_the_application() -> None:
    asked: list[str] = []

    def check(message: MessageExt) -> TransactionState:
        asked.append(message.topic)
        return COMMIT

    async def test(producer: TransactionProducer, broker: Broker) -> None:
        head = RecordHead(0, 0, 0, 0, 0, 0, 0, 0, 1, bytes(8), 2, bytes(8), 0, 0, 1)
        message = decode_record(encode_record(head, "NS%t", b"x", b"UNIQ_KEY\x01ID\x02"), 0, "b")
        header = CheckTransactionState(topic="NS%t", tran_state_table_offset=5, commit_log_offset=6, bname="b")
        producer.check_requested(CheckRequest("b:1", header, message))
        broker.network.asked.clear()
        await broker.network.asked.wait()

    broker = run(test, check=check, namespace="NS")
    assert asked == ["t"]
    [end] = broker.ends()
    wanted = {"topic": "NS%t", "producerGroup": "NS%g", "fromTransactionCheck": "true", "commitOrRollback": "8"}
    assert end.ext == end.ext | wanted | {"msgId": "ID", "tranStateTableOffset": "5", "commitLogOffset": "6"}


def test_topics_are_known_to_their_brokers_from_the_start() -> None:
    async def test(producer: TransactionProducer, broker: Broker) -> None:
        assert producer.is_known_to("b")
        assert repr(producer).startswith("TransactionProducer(")

    run(test, topics=["t"])
