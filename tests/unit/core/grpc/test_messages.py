from __future__ import annotations

import pytest

from rocketmq_py.core.grpc.messages import check_message, is_zlib, stored_properties, topic_types, type_of
from rocketmq_py.protocol.grpc.definition import Duration, Message, SystemProperties, Timestamp
from rocketmq_py.protocol.grpc.enums import Code, MessageType
from rocketmq_py.protocol.grpc.refusal import CallRefused

NOW = 1_700_000_000_000


def new_message(body: bytes = b"x", user: dict[str, str] | None = None, **system: object) -> Message:
    system = {"message_id": "id"} | system
    return Message(body=body, user_properties=user or {}, system_properties=SystemProperties(**system))  # type: ignore[arg-type]


@pytest.mark.parametrize("message", [
    new_message(), new_message(b"x" * 100), new_message(tag=""), new_message(tag="A"), new_message(keys=["a", "b c"]),
    new_message(message_group="g" * 63), new_message(delivery_timestamp=Timestamp.of_ms(NOW + 86_400_000)),
    new_message(orphaned_transaction_recovery_duration=Duration(seconds=3600)),
    new_message(user={f"k{i}": "v" for i in range(128)}), new_message(user={"k": "v" * 16_382}, tag="A"),
])  # fmt: skip
def test_messages_within_all_limits_are_accepted(message: Message) -> None:
    check_message(message, 100, NOW)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (Code.MESSAGE_BODY_EMPTY, new_message(b"")),
        (Code.MESSAGE_BODY_TOO_LARGE, new_message(b"x" * 101)),
        (Code.ILLEGAL_MESSAGE_TAG, new_message(tag=" ")),
        (Code.ILLEGAL_MESSAGE_TAG, new_message(tag="a|b")),
        (Code.ILLEGAL_MESSAGE_TAG, new_message(tag="a\1")),
        (Code.ILLEGAL_MESSAGE_KEY, new_message(keys=["a", ""])),
        (Code.ILLEGAL_MESSAGE_KEY, new_message(keys=["a\x02"])),
        (Code.ILLEGAL_MESSAGE_ID, new_message(message_id="")),
        (Code.ILLEGAL_MESSAGE_ID, new_message(message_id="a\1b")),
        (Code.ILLEGAL_MESSAGE_ID, Message(body=b"x")),
        (Code.ILLEGAL_MESSAGE_GROUP, new_message(message_group=" ")),
        (Code.ILLEGAL_MESSAGE_GROUP, new_message(message_group="")),
        (Code.ILLEGAL_MESSAGE_GROUP, new_message(message_group="g" * 64)),
        (Code.ILLEGAL_MESSAGE_GROUP, new_message(message_group="\u00e9" * 32)),
        (Code.ILLEGAL_MESSAGE_GROUP, new_message(message_group="a\x02b")),
        (Code.ILLEGAL_DELIVERY_TIME, new_message(delivery_timestamp=Timestamp.of_ms(NOW + 86_400_001))),
        (Code.BAD_REQUEST, new_message(orphaned_transaction_recovery_duration=Duration(seconds=3600, nanos=1_000_000))),
        (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, new_message(user={"KEYS": "x"})),
        (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, new_message(user={"POP_CK": "x"})),
        (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, new_message(user={"a\1": "x"})),
        (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, new_message(user={"a": "x\x02y"})),
        (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, new_message(trace_context="a\x02POP_CK\1x")),
        (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, new_message(born_host="a\x02b")),
        (Code.MESSAGE_PROPERTIES_TOO_LARGE, new_message(user={f"k{i}": "v" for i in range(129)})),
        (Code.MESSAGE_PROPERTIES_TOO_LARGE, new_message(user={"k": "v" * 16_382}, tag="AB")),
        (Code.MESSAGE_PROPERTIES_TOO_LARGE, new_message(user={"k": "v" * 16_381}, keys=["ab", "c"])),
    ],
)
def test_others_are_refused_with_the_code_of_their_fault(code: Code, message: Message) -> None:
    with pytest.raises(CallRefused) as caught:
        check_message(message, 100, NOW)
    assert caught.value.code == code
    assert caught.value.status().code == code


def test_a_message_is_stored_with_its_properties() -> None:
    message = new_message(
        user={"own": "1", "": "no name"},
        tag="A",
        keys=["a", "b"],
        born_timestamp=Timestamp.of_ms(5),
        delivery_attempt=2,
        message_group="g",
        priority=0,
        trace_context="t",
    )
    assert stored_properties(message, "T", "1.2.3.4:5") == {
        "own": "1", "TAGS": "A", "KEYS": "a b", "UNIQ_KEY": "id", "PGROUP": "T", "RECONSUME_TIME": "2",
        "__SHARDINGKEY": "g", "_SYS_MSG_PRIORITY_": "0", "__TRACE_CONTEXT": "t", "__BORNHOST": "1.2.3.4:5",
        "BORN_TIMESTAMP": "5",
    }  # fmt: skip
    assert stored_properties(new_message(born_host="h"), "T", "x") == {
        "UNIQ_KEY": "id",
        "PGROUP": "T",
        "__BORNHOST": "h",
    }


def test_a_transaction_says_for_how_long_it_is_not_checked() -> None:
    recovery = Duration(seconds=90)
    kinds = {
        MessageType.TRANSACTION: {"TRAN_MSG": "true", "CHECK_IMMUNITY_TIME_IN_SECONDS": "90"},
        MessageType.FIFO: {},
    }
    for kind, more in kinds.items():
        message = new_message(message_type=kind, orphaned_transaction_recovery_duration=recovery)
        assert stored_properties(message, "T", "x") == {"UNIQ_KEY": "id", "PGROUP": "T", "__BORNHOST": "x"} | more


@pytest.mark.parametrize(("properties", "kind"), [
    ({}, MessageType.NORMAL), ({"_SYS_MSG_PRIORITY_": "1"}, MessageType.PRIORITY),
    ({"_SYS_MSG_PRIORITY_": "1", "__SHARDINGKEY": "g"}, MessageType.FIFO),
    ({"__SHARDINGKEY": "g", "TIMER_DELIVER_MS": "1"}, MessageType.DELAY), ({"DELAY": "1"}, MessageType.DELAY),
    ({"TIMER_DELAY_SEC": "1"}, MessageType.DELAY), ({"TIMER_DELAY_MS": "1"}, MessageType.DELAY),
    ({"DELAY": "1", "TRAN_MSG": "true"}, MessageType.TRANSACTION), ({"TRAN_MSG": "false"}, MessageType.NORMAL),
])  # fmt: skip
def test_the_type_follows_from_the_properties(properties: dict[str, str], kind: MessageType) -> None:
    assert type_of(properties) is kind


def test_types_of_topics() -> None:
    assert topic_types(None) == (MessageType.NORMAL,)
    assert topic_types("FIFO") == (MessageType.FIFO,)
    assert topic_types("odd") == (MessageType.UNSPECIFIED,)
    assert topic_types("MIXED") == (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)


def test_encodings() -> None:
    assert [is_zlib(encoding) for encoding in (0, 1, 2)] == [False, False, True]
    with pytest.raises(CallRefused, match="encoding 3"):
        is_zlib(3)
