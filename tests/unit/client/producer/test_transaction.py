"""Half messages and the requests that end transactions."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.client.producer.transaction import (
    TransactionBase,
    answer_header,
    begun,
    check_of,
    end_frame,
    end_header,
    half_of,
    is_safe,
    not_safe,
    state_of,
)
from rocketmq_py.errors import ClosedError, ConfigError, MessageIllegal
from rocketmq_py.model import Message, MessageExt, MessageQueue, SendResult, SendStatus, TransactionState
from rocketmq_py.protocol.headers.transaction import CheckTransactionState, EndTransaction
from rocketmq_py.wire.command import decode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.ids import offset_msg_id
from rocketmq_py.wire.record import pack_host
from rocketmq_py.wire.signing import Credentials

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


def stored(status: SendStatus = SendStatus.SEND_OK) -> SendResult:
    offset_id = offset_msg_id(pack_host("10.0.0.1", 1), 777)
    return SendResult(status, "ID", MessageQueue("t", "b", 2), 5, offset_id, "TX")


class Listener:
    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionState:
        return COMMIT

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return ROLLBACK


def test_checks_are_answered_by_the_listener_or_the_function() -> None:
    listener = Listener()
    assert check_of(listener, None) == listener.check_local_transaction
    assert check_of(None, print) is print
    with pytest.raises(ConfigError, match="not both"):
        check_of(listener, print)
    with pytest.raises(ConfigError, match="needs a listener or a check"):
        check_of(None, None)


def test_a_half_message_is_a_copy_with_the_group() -> None:
    message = Message("t", b"x", tags="A", flag=3)
    half = half_of(message, "g")
    assert (half.topic, half.body, half.flag) == ("t", b"x", 3)
    assert half.properties == {**message.properties, "TRAN_MSG": "true", "PGROUP": "g"}
    assert "TRAN_MSG" not in message.properties


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"])
def test_a_half_message_has_no_delay(name: str) -> None:
    message = Message("t", b"x")
    message.properties[name] = "0"
    assert half_of(message, "g").properties[name] == "0"
    message.properties[name] = "1"
    with pytest.raises(MessageIllegal, match="it has a delay"):
        half_of(message, "g")


def test_the_message_has_the_ids_of_its_half_message() -> None:
    message = Message("t", b"x")
    begun(message, stored())
    assert (message.properties["UNIQ_KEY"], message.transaction_id) == ("ID", "ID")


@pytest.mark.parametrize(
    ("returned", "state", "logged"),
    [(COMMIT, COMMIT, False), (ROLLBACK, ROLLBACK, False), (None, UNKNOWN, False), (True, UNKNOWN, True)],
)
def test_only_a_state_is_a_state(
    returned: object, state: TransactionState, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert state_of(returned, "who") is state
    assert bool(caplog.records) is logged


@pytest.mark.parametrize("status", SendStatus)
def test_only_a_flushed_and_replicated_half_message_is_safe(status: SendStatus) -> None:
    assert is_safe(stored(status)) is (status is SendStatus.SEND_OK)


def test_the_error_for_an_unsafe_half_message_names_it() -> None:
    error = not_safe(stored(SendStatus.FLUSH_DISK_TIMEOUT), "b:1")
    assert error.code == 10
    assert "the half message ID was not flushed or replicated in time and was rolled back" in str(error)


CODES = [(COMMIT, 8), (ROLLBACK, 12), (UNKNOWN, 0)]


@pytest.mark.parametrize(("state", "code"), CODES)
def test_the_end_of_a_transaction_names_its_half_message(state: TransactionState, code: int) -> None:
    assert end_header("g", stored(), "NS%t", state).to_ext() == {
        "topic": "NS%t", "producerGroup": "g", "tranStateTableOffset": "5", "commitLogOffset": "777",
        "commitOrRollback": str(code), "msgId": "ID", "transactionId": "TX", "bname": "b",
        "fromTransactionCheck": "false",
    }  # fmt: skip


@pytest.mark.parametrize(("state", "code"), CODES)
def test_an_answer_repeats_what_the_check_named(state: TransactionState, code: int) -> None:
    check = CheckTransactionState(
        topic="t", tran_state_table_offset=5, commit_log_offset=777, transaction_id="TX", bname="b", msg_id="other"
    )
    message = MessageExt((0, 0, 0, 0, 0, 0, 0, 0, 0, b"", 0, b"", 0, 0, 1), "t", b"x", b"UNIQ_KEY\x01ID\x02", "b")
    assert answer_header("g", check, message, state).to_ext() == {
        "topic": "t", "producerGroup": "g", "tranStateTableOffset": "5", "commitLogOffset": "777",
        "commitOrRollback": str(code), "msgId": "ID", "transactionId": "TX", "bname": "b",
        "fromTransactionCheck": "true",
    }  # fmt: skip


@pytest.mark.parametrize(("why", "remark"), [(None, None), (ValueError("no"), "ValueError: no")])
@pytest.mark.parametrize("credentials", [None, Credentials("me", "secret")])
def test_the_request_is_oneway_and_signed(
    why: Exception | None, remark: str | None, credentials: Credentials | None
) -> None:
    header = EndTransaction(
        producer_group="g", tran_state_table_offset=5, commit_log_offset=777, commit_or_rollback=8, msg_id="ID"
    )
    [frame] = FrameDecoder().feed(end_frame(header, 9, credentials, why))
    command = decode_command(frame)
    assert (command.code, command.opaque, command.flag, command.remark) == (37, 9, 2, remark)
    assert header.to_ext().items() <= command.ext.items()
    assert ("Signature" in command.ext) is (credentials is not None)


def test_a_transaction_ends_once() -> None:
    message = Message("t", b"x")
    transaction = TransactionBase(message)
    for ask in (lambda: transaction.half, lambda: transaction.transaction_id, lambda: transaction._decide(COMMIT)):
        with pytest.raises(ClosedError, match="has not begun"):
            ask()
    transaction._check_new()
    assert (transaction.message, transaction.state, transaction.failure) == (message, None, None)
    transaction._half = stored()
    assert (transaction.half, transaction.transaction_id) == (stored(), "ID")
    with pytest.raises(ClosedError, match="ID has already begun"):
        transaction._check_new()
    assert transaction._decide(ROLLBACK) == stored()
    assert transaction.state is ROLLBACK
    with pytest.raises(ClosedError, match="ID has already ended: ROLLBACK"):
        transaction._decide(COMMIT)
    assert transaction.state is ROLLBACK
