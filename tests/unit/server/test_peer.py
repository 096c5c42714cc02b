"""A peer without a connection: addresses, pushes, requests of this side."""

import asyncio

import pytest

from rocketmq_py.errors import ConnectionLost, RequestTimeout
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.server import Peer
from rocketmq_py.server.peer import format_address
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder

NOTICE = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": "g"})


@pytest.mark.parametrize(
    ("ip", "text", "packed"),
    [
        ("127.0.0.1", "127.0.0.1:10911", "7f000001"),
        ("::ffff:127.0.0.1", "127.0.0.1:10911", "7f000001"),
        ("::1", "[::1]:10911", "00" * 15 + "01"),
        ("fe80::1%eth0", "[fe80::1]:10911", "fe80" + "00" * 13 + "01"),
    ],
)
def test_addresses_are_parsed(ip, text, packed):
    assert format_address(ip, 10911) == text
    assert Peer((ip, 10911)).host.hex() == packed + "00002a9f"


def test_a_push_is_oneway_and_numbered_by_this_side():
    sent = []
    peer = Peer(write=sent.append)
    peer.send(NOTICE)
    peer.send(NOTICE)
    commands = [decode_command(frame) for frame in FrameDecoder().feed(b"".join(sent))]
    assert [(one.code, one.is_oneway, one.opaque, one.ext) for one in commands] == [
        (40, True, 0, {"consumerGroup": "g"}), (40, True, 1, {"consumerGroup": "g"}),
    ]  # fmt: skip


def test_nothing_is_written_to_a_lost_connection():
    sent = []
    peer = Peer(write=sent.append)
    peer.lost()
    peer.send(NOTICE)
    peer.write(b"x")
    assert sent == []
    with pytest.raises(ConnectionLost, match="was not sent"):
        asyncio.run(peer.invoke(NOTICE, 1))


def test_a_request_that_is_not_answered_times_out():
    peer = Peer(("10.0.0.9", 5))
    with pytest.raises(RequestTimeout, match=r"10\.0\.0\.9:5 did not answer request 40 in 0.01 s"):
        asyncio.run(peer.invoke(NOTICE, 0.01))
    assert not peer.calls


def test_a_close_is_applied_when_the_connection_exists():
    closed = []
    peer = Peer(close=lambda: closed.append(1))
    peer.close()
    peer.lost()
    peer.close()
    assert closed == [1]


def test_peers_are_compared_by_identity():
    first, second = Peer(), Peer()
    assert len({first, second, first}) == 2
    assert repr(first) == "<Peer 127.0.0.1:0>"
