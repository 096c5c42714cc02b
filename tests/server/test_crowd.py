"""Many connections, most of them idle, many pulls that wait, and more requests than can be served."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.command import Command, encode_command
from tests.server.rawpeer import SECONDS, RawPeer

IDLE, HELD = 250, 100
IN_FLIGHT = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4 * (IDLE + HELD):
        pytest.skip(f"only {soft} files may be open here, which both ends need for their connections")
    with Cluster() as cluster:
        cluster.create_topic("t", 1)
        yield cluster


def send(body: bytes = b"hello") -> Command:
    header = SendMessageV2(
        producer_group="p", topic="t", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties="",
    )  # fmt: skip
    return Command(Code.SEND_MESSAGE_V2, ext=header.to_ext(), body=body)


def pull(number: int, offset: int) -> bytes:
    header = PullMessage(
        consumer_group=f"g-{number}", topic="t", queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=6,
        commit_offset=0, suspend_timeout_millis=600_000, sub_version=0, subscription="*",
    )  # fmt: skip
    return encode_command(Command(Code.PULL_MESSAGE, ext=header.to_ext()))


def ask(peer: RawPeer, command: Command) -> Command:
    peer.send(encode_command(command))
    return peer.receive()


def test_thousands_of_held_pulls_are_all_answered(cluster: Cluster) -> None:
    (address,) = cluster.addresses
    with ExitStack() as stack:
        idle = [stack.enter_context(RawPeer(address)) for _ in range(IDLE)]
        producer = idle[0]
        end = int(ask(producer, send()).ext["queueOffset"]) + 1
        waiting = [stack.enter_context(RawPeer(address)) for _ in range(HELD)]
        for number, peer in enumerate(waiting):
            peer.send(pull(number, end))
        (broker,) = cluster.brokers
        while len(broker.services.pull_request_hold) < HELD:
            assert ask(producer, Command(Code.GET_MAX_OFFSET, ext={"topic": "t", "queueId": "0"})).code == 0
        assert ask(producer, send(b"for all")).code == 0
        for peer in waiting:
            answer = peer.receive()
            assert (answer.code, b"for all" in answer.body) == (0, True)
        assert {ask(peer, send()).code for peer in idle} == {0}


def test_a_slow_reader_of_large_answers_takes_little_memory(cluster: Cluster) -> None:
    (address,) = cluster.addresses
    (broker,) = cluster.brokers
    server = broker._server
    assert server is not None
    with RawPeer(address) as producer, RawPeer(address) as reader:
        first = int(ask(producer, send(bytes(200_000))).ext["queueOffset"])
        ask(reader, Command(Code.GET_MAX_OFFSET, ext={"topic": "t", "queueId": "0"}))  # the server knows it by now
        (greedy,) = [one for one in list(server._connections) if one.peer.address == _address(reader)]
        reader.send(b"".join(pull(number, first) for number in range(500)))
        while not greedy._paused:
            ask(producer, Command(Code.GET_MAX_OFFSET, ext={"topic": "t", "queueId": "0"}))
        assert greedy.buffered < 32 * 1024 * 1024
        for _ in range(500):
            assert len(reader.receive().body) > 200_000


def _address(peer: RawPeer) -> str:
    return "{}:{}".format(*peer._socket.getsockname())


def test_an_overloaded_server_refuses_requests_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every send works longer than the limit, so that turn after turn is too long."""
    with Cluster(wait_time_mills_in_send_queue=1) as cluster, ExitStack() as stack:
        (broker,) = cluster.brokers
        assert broker._server is not None
        assert broker._server.dispatcher.lanes.waits["send"] == 1
        sender, stored = broker.services.sender, broker.services.sender._append

        def work(*args: object) -> object:
            until = time.thread_time() + 0.06
            while time.thread_time() < until:
                pass
            return stored(*args)  # type: ignore[arg-type]

        peers = [stack.enter_context(RawPeer(cluster.addresses[0])) for _ in range(4)]
        monkeypatch.setattr(sender, "_append", work)
        pool, over = stack.enter_context(ThreadPoolExecutor(len(peers))), threading.Event()
        stack.callback(over.set)
        answers: SimpleQueue[Command] = SimpleQueue()
        for peer in peers:
            pool.submit(_keep_sending, peer, over, answers)
        refused = next(answer for answer in iter(lambda: answers.get(timeout=SECONDS), None) if answer.code)
        over.set()
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert refused.remark is not None
        assert refused.remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while")
        monkeypatch.undo()
        with RawPeer(cluster.addresses[0]) as another:
            while ask(another, send()).code:
                pass


def _keep_sending(peer: RawPeer, over: threading.Event, answers: SimpleQueue[Command]) -> None:
    """Keeps requests waiting for every turn, and no more of them however long a turn takes.

    With a fixed rate each turn would find as many more requests as it takes longer than the one before.
    """
    frame = encode_command(send())
    for _ in range(IN_FLIGHT):
        peer.send(frame)
    while not over.is_set():
        answers.put(peer.receive())
        peer.send(frame)
