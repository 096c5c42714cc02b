"""One client must not slow the others: no request keeps the event loop busy for more than 100 ms.

The CPU time of the loop's thread is measured, so that other work on the machine does not decide. It still takes the
core's caches: a turn that seems long is compared with work that is always the same. Garbage collection is off, since
what it costs depends on everything else in the process of the tests.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

import pytest

from rocketmq_py.protocol.bodies.client import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequest,
    MessageQueueBody,
    ProducerData,
    SubscriptionData,
)
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.admin import BrokerConsumeStats, QueryConsumeQueue, QueryConsumeTimeSpan
from rocketmq_py.protocol.headers.cluster import AllGroups, AllTopics
from rocketmq_py.protocol.headers.group import GetConsumeStats
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.remoting import portal
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.command import Command, encode_command
from tests.server.rawpeer import SECONDS, RawPeer

pytestmark = pytest.mark.timeout(900)  # a busy machine takes minutes for a hundred thousand requests

LIMIT = 0.1
QUIET_SECONDS = 0.0063
"""CPU time of ``piece_of_work`` where nothing else runs; ``LIMIT`` is one of such a machine."""


def piece_of_work() -> float:
    """The CPU time of work that is always the same."""
    begin = time.thread_time()
    sum(i * i for i in range(100_000))
    return time.thread_time() - begin


class MeasuredLoop(asyncio.SelectorEventLoop):
    """Measures the CPU time of its turns, as it would be on a quiet machine."""

    longest = 0.0

    def _run_once(self) -> None:
        begin = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        worked = time.thread_time() - begin
        if worked > LIMIT / 2:
            worked /= max(1.0, min(piece_of_work() for _ in range(3)) / QUIET_SECONDS)
        self.longest = max(self.longest, worked)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portal, "new_event_loop", MeasuredLoop)
        with Cluster(pull_thread_pool_queue_capacity=200_000) as running:
            running.create_topic("t", 1)
            running.create_topic("bystander", 1)
            yield running


class Bystander:
    """A client that sends and pulls all the time."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stop = threading.Event()
        self.codes: set[int] = set()
        self.served = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self) -> None:
        """Wait until two more rounds have ended."""
        for _ in range(2):
            self.served.clear()
            assert self.served.wait(SECONDS)

    def _run(self) -> None:
        with RawPeer(self._address) as peer:
            while not self._stop.wait(0.002):
                sent = ask(peer, send("bystander"))
                offset = int(sent.ext.get("queueOffset", "0"))
                pulled = ask(peer, pull("bystander", offset, group="bystander", hold=False))
                self.codes |= {sent.code, pulled.code}
                self.served.set()


@contextmanager
def measured(cluster: Cluster) -> Iterator[Bystander]:
    """Measure the turns of the loop; fails when one was too long or when the bystander was not served."""
    assert cluster._portal is not None
    loop = cluster._portal.loop
    assert isinstance(loop, MeasuredLoop)
    gc.collect()
    gc.disable()
    try:
        with Bystander(cluster.addresses[0]) as bystander:
            bystander.wait()
            loop.longest = 0.0
            yield bystander
            bystander.wait()  # the turn that answered last has ended now
            longest = loop.longest
    finally:
        gc.enable()
    assert longest < LIMIT, f"a turn of the loop took {longest * 1000:.0f} ms of CPU time"
    assert bystander.codes == {0}


def ask(peer: RawPeer, command: Command) -> Command:
    peer.send(encode_command(command))
    return peer.receive()


def send(topic: str, body: bytes = b"hello") -> Command:
    header = SendMessageV2(
        producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties="",
    )  # fmt: skip
    return Command(Code.SEND_MESSAGE_V2, ext=header.to_ext(), body=body)


def pull(topic: str, offset: int, group: str = "g", *, hold: bool = True) -> Command:
    header = PullMessage(
        consumer_group=group, topic=topic, queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=6 if hold else 4,
        commit_offset=0, suspend_timeout_millis=600_000, sub_version=0, subscription="*",
    )  # fmt: skip
    return Command(Code.PULL_MESSAGE, ext=header.to_ext())


def heartbeat(client_id: str, groups: list[str], producers: list[str] | None = None, topics: int = 1) -> Command:
    subscriptions = [SubscriptionData.parse(f"t{number}", "*", 1) for number in range(topics)]
    data = HeartbeatData(
        client_id=client_id,
        consumer_data_set=[ConsumerData(group_name=name, subscription_data_set=subscriptions) for name in groups],
        producer_data_set=[ProducerData(group_name=name) for name in producers or []],
    )
    return Command(Code.HEART_BEAT, body=data.encode())


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def test_a_heartbeat_with_16000_new_groups_blocks_no_client(cluster: Cluster) -> None:
    with RawPeer(cluster.addresses[0]) as peer, measured(cluster):
        refused = ask(peer, heartbeat("c", names("many", 16_000)))
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert "at most 1048576 are possible" in (refused.remark or "")
        refused = ask(peer, heartbeat("c", names("many", 3_000)))
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert "3000 consumer groups are too many for one connection: at most 1000" in (refused.remark or "")


def test_a_heartbeat_with_the_largest_number_of_groups_blocks_no_client(cluster: Cluster) -> None:
    with RawPeer(cluster.addresses[0]) as peer, measured(cluster):
        assert ask(peer, heartbeat("c", names("some", 1_000))).code == 0
        peer.send(encode_command(heartbeat("c", ["one-more"])))
        while (answer := peer.receive()).code == Code.NOTIFY_CONSUMER_IDS_CHANGED:
            pass
        assert answer.code == ResponseCode.INVALID_PARAMETER
    (broker,) = cluster.brokers
    assert broker.services.topics.get("%RETRY%some-999") is not None
    assert broker.services.groups.get("one-more") is None


def test_40000_client_ids_on_one_connection_block_no_client(cluster: Cluster) -> None:
    frames = b"".join(encode_command(heartbeat(f"client-{number}", [], ["p"])) for number in range(40_000))
    with RawPeer(cluster.addresses[0]) as peer, measured(cluster):
        sending = threading.Thread(target=peer.send, args=(frames,))
        sending.start()
        codes = [peer.receive().code for _ in range(40_000)]
        sending.join()
    assert codes.count(0) == 1_000
    assert set(codes) == {0, ResponseCode.INVALID_PARAMETER}


def test_500_changes_of_settings_in_one_read_block_no_client(cluster: Cluster) -> None:
    change = Command(Code.UPDATE_BROKER_CONFIG, body=b"traceTopicEnable=true\n")
    with RawPeer(cluster.addresses[0]) as peer, measured(cluster):
        peer.send(encode_command(change) * 500)
        assert {peer.receive().code for _ in range(500)} == {0}


def test_a_heartbeat_with_very_many_subscriptions_blocks_no_client(cluster: Cluster) -> None:
    with RawPeer(cluster.addresses[0]) as peer, measured(cluster):
        assert ask(peer, heartbeat("c", ["g"], topics=100_000)).code != 0
        assert ask(peer, heartbeat("c", ["g"], topics=4_000)).code == 0


def test_a_lock_of_very_many_queues_blocks_no_client(cluster: Cluster) -> None:
    queues = [MessageQueueBody(topic="t", broker_name="b", queue_id=number) for number in range(200_000)]
    body = LockBatchRequest(consumer_group="g", client_id="c", mq_set=queues).encode()
    with RawPeer(cluster.addresses[0]) as peer, measured(cluster):
        assert ask(peer, Command(Code.LOCK_BATCH_MQ, body=body)).code == ResponseCode.INVALID_PARAMETER
        body = LockBatchRequest(consumer_group="g", client_id="c", mq_set=queues[:20_000]).encode()
        assert ask(peer, Command(Code.LOCK_BATCH_MQ, body=body)).code == 0


def test_reading_all_entries_of_a_consume_queue_blocks_no_client(cluster: Cluster) -> None:
    with RawPeer(cluster.addresses[0]) as peer:
        peer.send(b"".join(encode_command(send("t")) for _ in range(20_000)))
        for _ in range(20_000):
            peer.receive()
        header = QueryConsumeQueue(topic="t", queue_id=0, index=0, count=2**31 - 1)
        with measured(cluster):
            for _ in range(20):
                assert ask(peer, Command(Code.QUERY_CONSUME_QUEUE, ext=header.to_ext())).code == 0


def held(cluster: Cluster) -> int:
    (broker,) = cluster.brokers
    return len(broker.services.pull_request_hold)


def wait_for_held(cluster: Cluster, count: int) -> None:
    deadline = time.monotonic() + 10 * SECONDS
    while held(cluster) != count:
        assert time.monotonic() < deadline, f"{held(cluster)} pulls are on hold, not {count}"
        time.sleep(0.01)


@pytest.mark.parametrize("end", ["arrival", "close"])
def test_110000_held_pulls_of_one_connection_block_no_client(cluster: Cluster, end: str) -> None:
    with RawPeer(cluster.addresses[0]) as producer:
        offset = int(ask(producer, send("t")).ext["queueOffset"]) + 1
        with RawPeer(cluster.addresses[0]) as peer, measured(cluster):
            peer.send(encode_command(pull("t", offset)) * 110_000)
            wait_for_held(cluster, 110_000)
            if end == "arrival":
                ask(producer, send("t"))
                assert {peer.receive().code for _ in range(110_000)} == {0}
            else:
                peer.leave()
            wait_for_held(cluster, 0)


def test_200_members_that_join_and_leave_block_no_client(cluster: Cluster) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(RawPeer(cluster.addresses[0])) for _ in range(200)]
        with measured(cluster):
            for number, peer in enumerate(peers):
                peer.send(encode_command(heartbeat(f"member-{number}", ["crowd"])))
            for peer in peers:
                codes = {peer.receive().code, peer.receive().code}
                assert codes == {0, Code.NOTIFY_CONSUMER_IDS_CHANGED}
            stack.close()


def test_answers_about_very_many_queues_block_no_client(cluster: Cluster) -> None:
    for number in range(3):
        cluster.create_topic(f"wide-{number}", 8_192)
    wide = ";".join(f"wide-{number}" for number in range(3))
    requests = [
        (Code.GET_TOPIC_STATS_INFO, TopicName(topic="wide-0")),
        (Code.GET_CONSUME_STATS, GetConsumeStats(consumer_group="g", topic_list=wide)),
        (Code.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpan(group="g", topic="wide-0")),
        (Code.GET_BROKER_CONSUME_STATS, BrokerConsumeStats(is_order=False)),
        (Code.GET_ALL_TOPIC_CONFIG, AllTopics()),
        (Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, AllGroups()),
    ]
    with RawPeer(cluster.addresses[0]) as peer, measured(cluster):
        for code, header in requests:
            peer.send(encode_command(Command(code, ext=header.to_ext())) * 3)
        for _ in range(3 * len(requests)):
            answer = peer.receive()
            assert answer.code == 0, answer.remark
