import pytest

from rocketmq_py.model import MessageExt

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


def make_message(offset, body=b"body", properties=b"", topic="T", times=0):
    head = (100, 0, 0, 0, 7, offset, 1000 + offset, 0, 1, HOST, 2, HOST, times, 0, len(body))
    return MessageExt(head, topic, body, properties, "broker-a")


@pytest.fixture
def message():
    return make_message


@pytest.fixture
def messages():
    return lambda *offsets, **kw: [make_message(offset, **kw) for offset in offsets]
