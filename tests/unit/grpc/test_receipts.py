from __future__ import annotations

import pytest

from rocketmq_py.grpc.receipts import Receipt, RenewedReceipts
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.grpc.definition import Resource
from rocketmq_py.protocol.grpc.enums import ClientType, Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.grpc.service import NotifyClientTerminationRequest
from rocketmq_py.server import Reply
from tests.unit.broker.harness import InProcess
from tests.unit.grpc.calls import Calls, handle_of, new_message

TEXT = "1 2 3 4 1 broker 5 6 7"


def test_a_handle_is_read_and_written() -> None:
    receipt = Receipt.parse(TEXT)
    assert (receipt.text, receipt.physical_offset, receipt.visible_at_ms) == (TEXT, 7, 5)
    assert Receipt.parse("1 2 3 4 0 broker 5 6").physical_offset == -1
    assert receipt.ack("t", "g").header.topic == "%RETRY%g_t"
    assert receipt.change("t", "g", 9).header.invisible_time == 9


@pytest.mark.parametrize(
    "text", ["", "1 2 3 4 1 broker 5", "1 2 3 4 9 broker 5 6 7", "1 2 3 4 1 broker 5 6 x", TEXT.replace("7", "-2")]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(CallRefused) as caught:
        Receipt.parse(text)
    assert caught.value.code == Code.INVALID_RECEIPT_HANDLE


def received(calls: Calls) -> str:
    calls.consume("t", "g", kind=ClientType.PUSH_CONSUMER)
    calls.send(new_message("t", b"slow"))
    [got] = calls.receive("t", "g", auto_renew=True)[1]
    return handle_of(got)


def later(running: InProcess, calls: Calls, seconds: int) -> None:
    for _ in range(seconds // 5):
        running.turn(5_000)
        calls.service.tick()


def test_a_message_stays_invisible_while_its_consumer_works_and_its_first_handle_acknowledges_it(
    running: InProcess, calls: Calls
) -> None:
    handle = received(calls)
    later(running, calls, 600)
    assert len(receipts(calls)) == 1
    calls.client_id = "other"
    assert calls.ack("t", "g", handle)[1] == [Code.INVALID_RECEIPT_HANDLE]
    calls.client_id = "client"
    assert calls.ack("t", "g2", handle)[1] == [Code.INVALID_RECEIPT_HANDLE]
    assert calls.ack("t", "g", handle)[1] == [Code.OK]
    assert len(receipts(calls)) == 0
    later(running, calls, 1_200)
    assert running.services.store.queue_range("%RETRY%g_t", 0)[1] == 0


def receipts(calls: Calls) -> RenewedReceipts:
    return calls.service._receipts


def test_after_three_hours_a_message_comes_again(running: InProcess, calls: Calls) -> None:
    received(calls)
    for _ in range(5 * 60):
        running.turn(60_000)
        calls.service.tick()
    assert len(receipts(calls)) == 0
    assert running.services.store.queue_range("%RETRY%g_t", 0)[1] == 1


def test_the_messages_of_a_client_that_ends_come_again_soon(running: InProcess, calls: Calls) -> None:
    received(calls)
    assert calls.code("NotifyClientTermination", NotifyClientTerminationRequest(group=Resource(name="g"))) == Code.OK
    assert len(receipts(calls)) == 0
    for _ in range(5):
        running.turn(1_000)
    assert running.services.store.queue_range("%RETRY%g_t", 0)[1] == 1


def test_a_receipt_that_cannot_be_renewed_is_dropped(
    running: InProcess, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code, ticks in ((ResponseCode.SYSTEM_BUSY, 3), (ResponseCode.NO_MESSAGE, 1)):
        received(calls)
        running.now += 51_000
        with monkeypatch.context() as patch:
            patch.setattr(running.dispatcher, "call", lambda *_, code=code: Reply(code, "why"))
            for tick in range(ticks):
                assert len(receipts(calls)) == 1, tick
                calls.service.tick()
        assert len(receipts(calls)) == 0


def test_receipts_are_not_renewed_too_early_nor_after_their_time(running: InProcess, calls: Calls) -> None:
    handle = received(calls)
    running.now += 49_000
    calls.service.tick()
    [held] = receipts(calls)._held.values()
    assert held.newest.text == handle
    running.now += 1_000
    calls.service.tick()
    assert held.newest.visible_at_ms == running.now + 60_000
    running.now += 60_001
    calls.service.tick()
    assert len(receipts(calls)) == 0
