"""Messages as brokers return them, for tests of rows."""

from rocketmq_py.model import MessageExt, RecordHead
from rocketmq_py.properties import encode_properties
from rocketmq_py.wire.record import pack_host

HOST = pack_host("10.0.0.1", 10911)
STORED = 1_700_000_000_001
"""When messages were stored, in milliseconds since the epoch."""


def message(
    body=b"hello", topic="t", queue=0, offset=5, *, stored=STORED, at=1024, broker="broker-a", **properties
):  # fmt: skip
    head = RecordHead(
        100, 0, 0, queue, 7, offset, at, 0, stored - 1, HOST, stored, HOST, 2, 0, len(body)
    )  # fmt: skip
    return MessageExt(tuple(head), topic, body, encode_properties(properties), broker)
