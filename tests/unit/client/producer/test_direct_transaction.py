"""Blocking transactions: the calling thread sends half message and end, and runs the local transaction."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rocketmq_py import Message, TransactionProducer
from rocketmq_py.client.hooks.hooks import SendHook, Sending
from rocketmq_py.errors import BrokerError, ClosedError, ConfigError, ConnectionLost, ForkedError, NoRouteError
from rocketmq_py.model import MessageExt, SendStatus, TransactionState
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.record import pack_host
from tests.unit.client.producer.directly import Threads, directly
from tests.unit.client.scripted import cluster

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
OUTCOMES = {COMMIT: "8", ROLLBACK: "12", UNKNOWN: "0"}
OFFSET_ID = offset_msg_id(pack_host("10.0.0.1", 1), 777)
HEALTHY = cluster(t={"b": 1})


class Broker:
    def __init__(self, code: int = ResponseCode.SUCCESS) -> None:
        self.code = code

    def __call__(self, address: str, request: Command) -> Command | None:
        if request.code == Code.SEND_MESSAGE_V2:
            return Command(self.code, ext={"msgId": OFFSET_ID, "queueId": "0", "queueOffset": "5"})
        return HEALTHY(address, request)


class Listener:
    def __init__(self, outcome: object, *, later: bool = False) -> None:
        self.outcome, self.later = outcome, later
        self.calls: list[tuple[str | None, object, threading.Thread]] = []

    def execute_local_transaction(self, message: Message, arg: Any) -> Any:
        self.calls.append((message.transaction_id, arg, threading.current_thread()))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self._wait() if self.later else self.outcome

    async def _wait(self) -> object:
        return self.outcome

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return ROLLBACK


def ends(threads: Threads) -> list[Command]:
    return [request for _, request, _ in threads.requests if request.code == Code.END_TRANSACTION]


def outcomes(threads: Threads) -> list[str]:
    return [request.ext["commitOrRollback"] for request in ends(threads)]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(("outcome", "state"), [(COMMIT, COMMIT), (ROLLBACK, ROLLBACK), (None, UNKNOWN)])
def test_a_transaction_ends_as_its_listener_says(outcome: object, state: TransactionState, later: bool) -> None:
    listener = Listener(outcome, later=later)
    with directly(TransactionProducer, Broker(), listener=listener) as (producer, threads, network):
        message = Message("t", b"x")
        result = producer.send_in_transaction(message, "given")
        assert (result.state, result.failure, result.half.msg_id) == (state, None, message.transaction_id)
        assert listener.calls == [(message.transaction_id, "given", threading.current_thread())]
        [end] = ends(threads)
        assert (end.ext["commitOrRollback"], end.ext["commitLogOffset"], end.remark) == (OUTCOMES[state], "777", None)
        [(address, _, left)] = threads.requests
        assert address == "b:1"
        assert 2.0 < left <= 3.0
        [(_, half)] = network.sent()
        assert half.ext["f"] == "4"


def test_a_local_transaction_that_raises_is_checked_later() -> None:
    failure = ValueError("on purpose")
    with directly(TransactionProducer, Broker(), listener=Listener(failure)) as (producer, threads, _):
        result = producer.send_in_transaction(Message("t", b"x"))
        assert (result.state, result.failure) == (UNKNOWN, failure)
        assert [(end.ext["commitOrRollback"], end.remark) for end in ends(threads)] == [("0", "ValueError: on purpose")]


def test_an_unsafe_half_message_is_rolled_back() -> None:
    listener, broker = Listener(COMMIT), Broker(ResponseCode.FLUSH_DISK_TIMEOUT)
    with directly(TransactionProducer, broker, listener=listener) as (producer, threads, _):
        result = producer.send_in_transaction(Message("t", b"x"))
        assert (result.state, result.half.status) == (ROLLBACK, SendStatus.FLUSH_DISK_TIMEOUT)
        with pytest.raises(BrokerError, match="was rolled back"), producer.transaction(Message("t", b"x")):
            pytest.fail("the block must not run")
        assert outcomes(threads) == ["12", "12"]
        assert listener.calls == []


@pytest.mark.parametrize(("early", "state"), [("commit", COMMIT), ("rollback", ROLLBACK), ("leave_open", UNKNOWN)])
def test_a_block_may_decide_early(early: str, state: TransactionState) -> None:
    with directly(TransactionProducer, Broker(), check=lambda _: COMMIT) as (producer, threads, _):
        with producer.transaction(Message("t", b"x")) as tx:
            getattr(tx, early)()
            assert outcomes(threads) == [OUTCOMES[state]]
            with pytest.raises(ClosedError, match="has already ended"):
                tx.commit()
        assert (tx.state, tx.failure) == (state, None)
        assert outcomes(threads) == [OUTCOMES[state]]
        with pytest.raises(ClosedError, match="has already begun"):
            tx.__enter__()
        with pytest.raises(ConfigError, match="needs a listener"):
            producer.send_in_transaction(Message("t", b"x"))


def test_a_block_commits_unless_it_raises() -> None:
    with directly(TransactionProducer, Broker(), check=lambda _: COMMIT) as (producer, threads, _):
        with producer.transaction(Message("t", b"x")):
            assert ends(threads) == []
        for failure in (ValueError("on purpose"), KeyboardInterrupt()):
            with pytest.raises(type(failure)), producer.transaction(Message("t", b"x")):
                raise failure
        assert outcomes(threads) == ["8", "12", "12"]
        assert [end.remark for end in ends(threads)] == [None, "ValueError: on purpose", None]


def test_a_process_that_was_forked_in_a_transaction_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def forked() -> None:
        raise ForkedError("made in another process")

    with directly(TransactionProducer, Broker(), listener=Listener(COMMIT)) as (producer, threads, _):
        with pytest.raises(ForkedError), producer.transaction(Message("t", b"x")):
            monkeypatch.setattr(producer._portal, "check", forked)
        monkeypatch.undo()
        assert ends(threads) == []


def test_an_end_that_cannot_be_sent_is_a_failure_of_the_result() -> None:
    with directly(TransactionProducer, Broker(), listener=Listener(COMMIT)) as (producer, threads, _):
        half = producer.send_half(Message("t", b"x"))
        threads.failing = ConnectionLost("on purpose")
        assert producer.send_end(half, COMMIT, Message("t", b"x")) is threads.failing
        elsewhere = half._replace(queue=half.queue._replace(broker_name="gone"))
        assert isinstance(producer.send_end(elsewhere, COMMIT, Message("t", b"x")), NoRouteError)
        assert (producer.address_of("b"), producer.address_of("gone")) == ("b:1", None)


class Hook(SendHook):
    def __init__(self) -> None:
        self.seen: list[Sending] = []

    def after(self, sending: Sending) -> None:
        self.seen.append(sending)


def test_hooks_see_the_half_message_and_brokers_know_the_client() -> None:
    hook = Hook()
    with directly(TransactionProducer, Broker(), listener=Listener(COMMIT), hooks=[hook]) as (producer, _, network):
        producer.send_half(Message("t", b"x"))
        assert producer._producer.is_known_to("b")
        beats = network.codes().count(Code.HEART_BEAT)
        assert beats > 0
        producer.send_half(Message("t", b"x"))
        assert network.codes().count(Code.HEART_BEAT) == beats
    assert [one.messages[0].properties["TRAN_MSG"] for one in hook.seen] == ["true", "true"]
    assert all(one.result is not None for one in hook.seen)
