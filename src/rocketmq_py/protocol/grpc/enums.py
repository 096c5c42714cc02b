"""Numbers in gRPC messages. Fields are plain integers, since newer clients may send numbers that are not here."""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """The outcome of a call, in ``status.code`` of its response."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_ACCESS_POINT = 40001
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402
    FAILED_TO_CONSUME_MESSAGE = 60000


class Permission(enum.IntEnum):
    """What clients may do with a queue."""

    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4


class FilterType(enum.IntEnum):
    """The language of a filter expression."""

    TAG = 1
    SQL = 2


class AddressScheme(enum.IntEnum):
    """The kind of the hosts in endpoints."""

    IPV4 = 1
    IPV6 = 2
    DOMAIN_NAME = 3


class MessageType(enum.IntEnum):
    """The type of a message or topic."""

    UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6


class DigestType(enum.IntEnum):
    """The algorithm of a body digest."""

    CRC32 = 1
    MD5 = 2
    SHA1 = 3


class ClientType(enum.IntEnum):
    """The kind of a client."""

    UNSPECIFIED = 0
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


class Encoding(enum.IntEnum):
    """How a message body is compressed; GZIP is zlib's format, as in remoting."""

    IDENTITY = 1
    GZIP = 2


class TransactionResolution(enum.IntEnum):
    """How a transaction ends."""

    UNSPECIFIED = 0
    COMMIT = 1
    ROLLBACK = 2


class TransactionSource(enum.IntEnum):
    """Who ends a transaction: its producer by itself, or as the answer to a check."""

    CLIENT = 1
    SERVER_CHECK = 2
