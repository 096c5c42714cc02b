"""Signed send requests: the fast encoder signs all fields."""

import itertools

import pytest

from rocketmq_py.core.producer.outgoing_message import Packer, SendHead
from rocketmq_py.model import Message, MessageQueue
from rocketmq_py.wire.command import decode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.ids import UniqueKeys
from rocketmq_py.wire.signing import SIGNATURE, Credentials, signature, signed_content

TOKENS = [None, "a token"]


@pytest.fixture
def packer():
    return Packer(UniqueKeys(b"\x7f\x00\x00\x01", 1, 2), compress_over=100, signing=True)


def messages():
    plain = Message("shop", b"body")
    odd = Message("shop", "Größe".encode(), tags='"quoted"\\', keys=["ключ"])
    large = Message("shop", b"x" * 1000)
    retry = Message("%RETRY%readers", b"again")
    retry.properties |= {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16"}
    return [[plain], [odd], [large], [retry], [Message("shop", b"1"), Message("shop", b"2")]]


@pytest.mark.parametrize(("batch", "token"), list(itertools.product(messages(), TOKENS)))
def test_a_send_is_signed_with_all_of_its_fields(packer, batch, token):
    who = Credentials("user", "secret", token)
    queue = MessageQueue(batch[0].topic, "broker-ü", 3)
    outgoing = packer.pack(batch[0], 1) if len(batch) == 1 else packer.pack_batch(batch, 1)
    (frame,) = FrameDecoder().feed(outgoing.frame(SendHead("group", queue, "TBW102", 4, who), 7))
    command = decode_command(frame)
    assert command.ext[SIGNATURE] == signature(b"secret", signed_content(command.ext, command.body))
    assert who.fields().items() <= command.ext.items()
    (frame,) = FrameDecoder().feed(outgoing.frame(SendHead("group", queue, "TBW102", 4), 7))
    unsigned = decode_command(frame)
    assert unsigned.ext == {k: v for k, v in command.ext.items() if k not in {SIGNATURE, *who.fields()}}


def test_a_request_prepared_without_a_signature_is_not_signed():
    queue = MessageQueue("shop", "broker-a", 3)
    outgoing = Packer(UniqueKeys(bytes(4), 1, 2)).pack(Message("shop", b"body"), 1)
    with pytest.raises(ValueError, match="packed without signing"):
        outgoing.frame(SendHead("group", queue, "TBW102", 4, Credentials("user", "secret")), 7)
