"""A peer without a connection: addresses, pushes, requests of this side."""

import asyncio

import pytest

from rocketmq_py.errors import ConnectionLost, RequestTimeout
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.server import Peer, Reply, Responder
from rocketmq_py.server.peer import answer_all, format_address
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
        ("::ffff:1:2", "[::ffff:1:2]:10911", "00" * 10 + "ffff00010002"),
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
    assert first.local_address == "127.0.0.1:0"


async def test_an_answer_completes_the_request_of_its_number_once():
    sent = []
    peer = Peer(write=sent.append)
    tasks = [asyncio.create_task(peer.invoke(NOTICE, 5)) for _ in range(2)]
    await asyncio.sleep(0)
    asked = [decode_command(frame) for frame in FrameDecoder().feed(b"".join(sent))]
    assert [(one.code, one.is_oneway, one.opaque, one.ext) for one in asked] == [
        (40, False, 0, {"consumerGroup": "g"}), (40, False, 1, {"consumerGroup": "g"}),
    ]  # fmt: skip
    for opaque, remark in ((1, "one"), (1, "again"), (7, "of no request"), (0, "zero")):
        peer.answered(Command(0, opaque=opaque, remark=remark))
    assert [(await task).remark for task in tasks] == ["zero", "one"]
    assert not peer.calls


async def test_an_answer_or_a_lost_connection_after_the_caller_has_left_changes_nothing():
    peer = Peer()
    for end in (lambda: peer.answered(Command(0, opaque=0)), peer.lost):
        left = asyncio.create_task(peer.invoke(NOTICE, 5))
        await asyncio.sleep(0)
        left.cancel()
        end()
        with pytest.raises(asyncio.CancelledError):
            await left
    assert not peer.calls


async def test_a_lost_connection_fails_every_request_at_once():
    peer = Peer(("10.0.0.9", 5))
    tasks = [asyncio.create_task(peer.invoke(NOTICE, 5)) for _ in range(2)]
    await asyncio.sleep(0)
    peer.lost()
    for task in tasks:
        with pytest.raises(ConnectionLost, match=r"10\.0\.0\.9:5 disconnected before it answered"):
            await task
    assert repr(peer) == "<Peer 10.0.0.9:5 closed>"


# -- answers that come later


def answers_in(frames):
    return [(one.opaque, one.code, one.is_response) for one in map(decode_command, FrameDecoder().feed(frames))]


def test_a_request_is_answered_at_most_once_and_only_while_its_connection_is_open():
    sent = []
    peer = Peer(write=sent.append)
    first, second = Responder(peer, 5), Responder(peer, 6)
    assert (first.peer, first.opaque, first.alive, second.alive) == (peer, 5, True, True)
    first.reply(Reply(19))
    first.reply(Reply(0))
    assert (first.alive, second.alive) == (False, True)
    peer.lost()
    assert not second.alive
    second.reply(Reply(0))
    assert [answers_in(frame) for frame in sent] == [[(5, 19, True)]]


def test_many_answers_are_one_write_for_each_connection():
    sent = {"first": [], "second": [], "lost": []}
    first, second, lost = (Peer(write=sent[name].append) for name in sent)
    lost.lost()
    done = Responder(second, 3)
    done.reply(Reply(1))
    asked = [Responder(first, 1), Responder(second, 2), done, Responder(lost, 4), Responder(first, 5)]
    answer_all([(responder, Reply(19)) for responder in asked])
    assert {name: [answers_in(frame) for frame in frames] for name, frames in sent.items()} == {
        "first": [[(1, 19, True), (5, 19, True)]], "second": [[(3, 1, True)], [(2, 19, True)]], "lost": [],
    }  # fmt: skip
    assert not any(responder.alive for responder in asked)
