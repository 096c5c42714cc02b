"""CPU time of the broker per message, without sockets: frames are fed to the dispatcher, answers are discarded.

Pages of the log are written beforehand, because the time for a new page depends more on the machine than on the broker.
Run ``python -m benchmarks.micro_broker`` on an idle machine; figures are microseconds of thread CPU time per message,
the best of several rounds.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.services import Services
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.pop import PopMessage
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.server import Peer
from rocketmq_py.server.reply import Buffer
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import MAX_FRAME, FrameDecoder

TOPIC = "bench"
QUEUES = 8
ROUNDS = 7
LOG_SIZE = 512 << 20
UNIQUE_KEY = "FD00000000000000000000000000000225594E0E2F2A67D409FF0000"
PROPERTIES = f"UNIQ_KEY\x01{UNIQUE_KEY}\x02WAIT\x01true\x02TAGS\x01A\x02"


Feed = Callable[[], object]
"""Feeds the bytes of a read, or of two, to the broker."""


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def touch(path: Path, size: int) -> None:
    """Create a file of zeros by writing all of it, so that its pages exist."""
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))


class Bench:
    """A broker in a temporary directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        touch(root / "commitlog" / f"{0:020d}", LOG_SIZE)
        self.start()

    def start(self) -> None:
        """Open the store; again after ``services.close()``: what the earlier services wrote is then not recent."""
        config = BrokerConfig(store_path_root_dir=str(self._root), long_polling_enable=False)
        store = StoreConfig(mapped_file_size_commit_log=LOG_SIZE)
        self.services = Services(config, store, 10911, wall_clock, lambda _: None)
        self.services.open()
        self.peer = Peer(("127.0.0.1", 50_000), ("127.0.0.1", 10911))
        self.dispatcher = Dispatcher(
            self.services.router(), after_read=self.services.store.commit_pending, on_hold=self.services.keep_hold
        )
        self._decoder = self.dispatcher.frame_decoder(MAX_FRAME)

    def feed(self, data: bytes) -> int:
        """Handle the bytes of one socket read; return the number of bytes of the answers."""
        return sum(map(len, self.answers(data)))

    def answers(self, data: bytes) -> list[Buffer]:
        """As :meth:`feed`, but return the answers."""
        output: list[Buffer] = []
        items = self._decoder.feed(data)
        while items:
            served = self.dispatcher.serve(self.peer, items)
            output += served.output
            items = served.rest
        return output


def send(queue: int, size: int = 1024) -> Command:
    """Return a send of one message, as a Java producer encodes it."""
    header = SendMessageV2(
        producer_group="bench-producer", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=QUEUES,
        queue_id=queue % QUEUES, sys_flag=0, born_timestamp=1_700_000_000_000, flag=0, properties=PROPERTIES,
        reconsume_times=0, unit_mode=False, batch=False, bname="broker-a",
    )  # fmt: skip
    return Command(RequestCode.SEND_MESSAGE_V2, 1000 + queue, ext=header.to_ext(), body=b"x" * size)


def send_of_order(number: int) -> Command:
    """Return a send with a property of the application that differs in each message."""
    command = send(number)
    return Command(
        command.code, 1000 + number, ext=command.ext | {"i": f"{PROPERTIES}order\x01{number}\x02"}, body=command.body
    )


def batch(queue: int, count: int = 32, size: int = 128) -> Command:
    """Return a send of a batch of messages of equal size."""
    command = send(queue)
    body = encode_batch((0, b"x" * size, PROPERTIES[:-1].encode()) for _ in range(count))
    return Command(RequestCode.SEND_BATCH_MESSAGE, 1, ext={**command.ext, "m": "true"}, body=body)


def pull(queue: int, offset: int, count: int = 32) -> Command:
    """Return a pull."""
    header = PullMessage(
        consumer_group="bench-group", topic=TOPIC, queue_id=queue, queue_offset=offset, max_msg_nums=count, sys_flag=4,
        commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
    )  # fmt: skip
    return Command(RequestCode.PULL_MESSAGE, 1, ext=header.to_ext())


def pop(queue: int, group: str) -> Command:
    """Return a pop of up to 32 messages."""
    header = PopMessage(
        consumer_group=group, topic=TOPIC, queue_id=queue, max_msg_nums=32, invisible_time=60_000, poll_time=0,
        born_time=0, init_mode=0, exp_type="TAG", exp="*", order=False,
    )  # fmt: skip
    return Command(RequestCode.POP_MESSAGE, 1, ext=header.to_ext())


def ack(queue: int, group: str, popped: dict[str, str]) -> Command:
    """Return the ack of all messages of a pop of 32.

    :param popped: header fields of the answer to the pop.
    """
    one = BatchAck(
        consumer_group=group, topic=TOPIC, retry="0", start_offset=int(popped["startOffsetInfo"].split(" ")[2]),
        queue_id=queue, bits="/////w==", revive_queue_id=int(popped["reviveQid"]), pop_time=int(popped["popTime"]),
        invisible_time=int(popped["invisibleTime"]),
    )  # fmt: skip
    body = msgspec.json.encode(BatchAckRequest(broker_name="broker-a", acks=[one]))
    return Command(RequestCode.BATCH_ACK_MESSAGE, 2, body=body)


def pop_and_ack(bench: Bench, group: str) -> None:
    """Pop 32 messages of each queue but the first in one read, and acknowledge them in another one."""
    queues = range(1, QUEUES)
    output = bench.answers(b"".join(encode_command(pop(queue, group)) for queue in queues))
    popped = [decode_command(frame).ext for frame in FrameDecoder(MAX_FRAME).feed(b"".join(output))]
    acks = (encode_command(ack(queue, group, ext)) for queue, ext in zip(queues, popped, strict=True))
    bench.feed(b"".join(acks))


class Work(NamedTuple):
    """What is measured.

    :ivar messages: number of messages that each call handles.
    :ivar rounds: the calls of each round.
    """

    what: str
    messages: int
    rounds: list[list[Feed]]


def show(work: Work, profiled: str | None) -> None:
    """Print the CPU time of the best round; if a word is to be profiled, a profile of the work that has it instead."""
    if profiled is None:
        best = min(map(_thread_seconds, work.rounds)) / len(work.rounds[0]) * 1e6
        print(f"{work.what:<50} {best:9.2f} us per call  {best / work.messages:7.3f} us per message", flush=True)
    elif profiled in work.what:
        profile = cProfile.Profile(time.thread_time)
        for feeds in work.rounds:
            profile.runcall(_thread_seconds, feeds)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def _thread_seconds(feeds: list[Feed]) -> float:
    start = time.thread_time()
    for feed in feeds:
        feed()
    return time.thread_time() - start


def sends(bench: Bench, repeat: int) -> list[Work]:
    """Return what is measured of sends."""
    one = encode_command(send(0))
    many = b"".join(encode_command(send(i)) for i in range(64))
    orders = [b"".join(encode_command(send_of_order(64 * read + i)) for i in range(64)) for read in range(repeat)]
    batched = encode_command(batch(0))
    return [
        Work("send 1 KiB, one per read", 1, [[lambda: bench.feed(one)] * repeat * 16] * ROUNDS),
        Work("send 1 KiB, 64 per read", 64, [[lambda: bench.feed(many)] * repeat] * ROUNDS),
        Work(
            "send 1 KiB, 64 per read, a property of its own",
            64,
            [[partial(bench.feed, read) for read in orders]] * ROUNDS,
        ),
        Work("batch of 32 x 128 B", 32, [[lambda: bench.feed(batched)] * repeat] * ROUNDS),
    ]


def reads(bench: Bench, depth: int, when: str) -> list[Work]:
    """Return what is measured of pulls and pops of ``depth`` times 32 messages of each queue but the first."""
    places = [(queue, i * 32) for i in range(depth) for queue in range(1, QUEUES)]
    pulls = [partial(bench.feed, encode_command(pull(queue, offset))) for queue, offset in places]
    groups = [f"pops-{uuid.uuid4().hex[:8]}" for _ in range(ROUNDS)]
    pops = [[partial(pop_and_ack, bench, group)] * depth for group in groups]
    return [
        Work(f"pull of 32 x 1 KiB, {when}", 32, [pulls] * ROUNDS),
        Work(f"7 pops of 32 x 1 KiB and 7 acks, {when}", 7 * 32, pops),
    ]


def main() -> None:
    """Measure everything, or profile one work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=100, help="reads of 64 sends per round")
    parser.add_argument("--profile", metavar="WORD", help="profile the work whose name contains this instead")
    options = parser.parse_args()
    depth = max(1, options.repeat // 4)
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        for _ in range(4 * depth):
            bench.feed(b"".join(encode_command(send(i)) for i in range(64)))
        for work in [*sends(bench, options.repeat), *reads(bench, depth, "written recently")]:
            show(work, options.profile)
        bench.services.close()
        bench.start()
        for work in reads(bench, depth, "after a restart"):
            show(work, options.profile)
        bench.services.close()


if __name__ == "__main__":
    main()
