"""Numbers of gRPC as ``definition.proto`` of Apache RocketMQ 5 has them."""

from __future__ import annotations

import enum

import pytest

from rocketmq_py.protocol.grpc import enums

NUMBERS: dict[type[enum.IntEnum], dict[str, int]] = {
    enums.Code: {
        "OK": 20000, "MULTIPLE_RESULTS": 30000, "BAD_REQUEST": 40000, "ILLEGAL_ACCESS_POINT": 40001,
        "ILLEGAL_TOPIC": 40002, "ILLEGAL_CONSUMER_GROUP": 40003, "ILLEGAL_MESSAGE_TAG": 40004,
        "ILLEGAL_MESSAGE_KEY": 40005, "ILLEGAL_MESSAGE_GROUP": 40006, "ILLEGAL_MESSAGE_PROPERTY_KEY": 40007,
        "INVALID_TRANSACTION_ID": 40008, "ILLEGAL_MESSAGE_ID": 40009, "ILLEGAL_FILTER_EXPRESSION": 40010,
        "ILLEGAL_INVISIBLE_TIME": 40011, "ILLEGAL_DELIVERY_TIME": 40012, "INVALID_RECEIPT_HANDLE": 40013,
        "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE": 40014, "UNRECOGNIZED_CLIENT_TYPE": 40015, "MESSAGE_CORRUPTED": 40016,
        "CLIENT_ID_REQUIRED": 40017, "ILLEGAL_POLLING_TIME": 40018, "UNAUTHORIZED": 40100, "FORBIDDEN": 40300,
        "MESSAGE_NOT_FOUND": 40401, "TOPIC_NOT_FOUND": 40402, "CONSUMER_GROUP_NOT_FOUND": 40403,
        "MESSAGE_BODY_TOO_LARGE": 41301, "MESSAGE_BODY_EMPTY": 41302, "TOO_MANY_REQUESTS": 42900,
        "MESSAGE_PROPERTIES_TOO_LARGE": 43101, "INTERNAL_SERVER_ERROR": 50001, "HA_NOT_AVAILABLE": 50002,
        "NOT_IMPLEMENTED": 50100, "PROXY_TIMEOUT": 50400, "MASTER_PERSISTENCE_TIMEOUT": 50401,
        "SLAVE_PERSISTENCE_TIMEOUT": 50402, "FAILED_TO_CONSUME_MESSAGE": 60000,
    },
    enums.Permission: {"NONE": 1, "READ": 2, "WRITE": 3, "READ_WRITE": 4},
    enums.FilterType: {"TAG": 1, "SQL": 2},
    enums.AddressScheme: {"IPV4": 1, "IPV6": 2, "DOMAIN_NAME": 3},
    enums.MessageType: {
        "UNSPECIFIED": 0, "NORMAL": 1, "FIFO": 2, "DELAY": 3, "TRANSACTION": 4, "LITE": 5, "PRIORITY": 6,
    },
    enums.DigestType: {"CRC32": 1, "MD5": 2, "SHA1": 3},
    enums.ClientType: {
        "UNSPECIFIED": 0, "PRODUCER": 1, "PUSH_CONSUMER": 2, "SIMPLE_CONSUMER": 3, "PULL_CONSUMER": 4,
        "LITE_PUSH_CONSUMER": 5, "LITE_SIMPLE_CONSUMER": 6,
    },
    enums.Encoding: {"IDENTITY": 1, "GZIP": 2},
    enums.TransactionResolution: {"UNSPECIFIED": 0, "COMMIT": 1, "ROLLBACK": 2},
    enums.TransactionSource: {"CLIENT": 1, "SERVER_CHECK": 2},
}  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.__name__)
def test_numbers_are_those_of_the_protocol(kind: type[enum.IntEnum]) -> None:
    assert {one.name: one.value for one in kind} == NUMBERS[kind]


def test_every_enumeration_is_compared() -> None:
    kinds = {kind for kind in vars(enums).values() if isinstance(kind, type) and issubclass(kind, enum.IntEnum)}
    assert kinds - {enum.IntEnum} == NUMBERS.keys()
