"""Messages as brokers return them, for tests of rows."""

from rocketmq_py.model import MessageExt, RecordHead
from rocketmq_py.properties import encode_properties
from rocketmq_py.wire.record import pack_host

HOST = pack_host("10.0.0.1", 10911)


def message(body=b"hello", topic="t", queue=0, offset=5, **properties):
    head = RecordHead(100, 0, 0, queue, 7, offset, 1024, 0, 1_700_000_000_000, HOST, 1_700_000_000_001, HOST, 2, 0, 5)
    return MessageExt(tuple(head), topic, body, encode_properties(properties), "broker-a")
