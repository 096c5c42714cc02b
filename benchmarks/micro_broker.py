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
from collections.abc import Callable
from pathlib import Path

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.services import Services
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.server import Peer
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.frame import MAX_FRAME

TOPIC = "bench"
QUEUES = 8
ROUNDS = 7
LOG_SIZE = 512 << 20
UNIQUE_KEY = "FD00000000000000000000000000000225594E0E2F2A67D409FF0000"
PROPERTIES = f"UNIQ_KEY\x01{UNIQUE_KEY}\x02WAIT\x01true\x02TAGS\x01A\x02"


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
        config = BrokerConfig(store_path_root_dir=str(root), long_polling_enable=False)
        store = StoreConfig(mapped_file_size_commit_log=LOG_SIZE)
        touch(root / "commitlog" / f"{0:020d}", LOG_SIZE)
        self.services = Services(config, store, 10911, wall_clock, lambda _: None)
        self.services.open()
        self.peer = Peer(("127.0.0.1", 50_000), ("127.0.0.1", 10911))
        self.dispatcher = Dispatcher(
            self.services.router(), after_read=self.services.store.commit_pending, on_hold=self.services.keep_hold
        )

        self._decoder = self.dispatcher.frame_decoder(MAX_FRAME)

    def feed(self, data: bytes) -> int:
        """Handle the bytes of one socket read; return the number of bytes of the answers."""
        served = self.dispatcher.serve(self.peer, self._decoder.feed(data))
        return sum(map(len, served.output))


def send(queue: int, size: int = 1024) -> Command:
    """Return a send of one message, as a Java producer encodes it."""
    header = SendMessageV2(
        producer_group="bench-producer", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=QUEUES,
        queue_id=queue % QUEUES, sys_flag=0, born_timestamp=1_700_000_000_000, flag=0, properties=PROPERTIES,
        reconsume_times=0, unit_mode=False, batch=False, bname="broker-a",
    )  # fmt: skip
    return Command(RequestCode.SEND_MESSAGE_V2, 1000 + queue, ext=header.to_ext(), body=b"x" * size)


def batch(queue: int, count: int = 32, size: int = 128) -> Command:
    """Return a send of a batch of messages of equal size."""
    command = send(queue)
    body = encode_batch((0, b"x" * size, PROPERTIES[:-1].encode()) for _ in range(count))
    return Command(RequestCode.SEND_BATCH_MESSAGE, 1, ext={**command.ext, "m": "true"}, body=body)


def pull(queue: int, offset: int) -> Command:
    """Return a pull of up to 32 messages."""
    header = PullMessage(
        consumer_group="bench-group", topic=TOPIC, queue_id=queue, queue_offset=offset, max_msg_nums=32, sys_flag=4,
        commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
    )  # fmt: skip
    return Command(RequestCode.PULL_MESSAGE, 1, ext=header.to_ext())


def measure(what: str, messages: int, feeds: list[Callable[[], object]]) -> None:
    """Print the CPU time of the best of several rounds.

    :param messages: number of messages that each feed handles.
    :param feeds: calls that make up a round.
    """
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time()
        for feed in feeds:
            feed()
        best = min(best, time.thread_time() - start)
    total = best / len(feeds)
    print(f"{what:<34} {total * 1e6:9.2f} us per read  {total * 1e6 / messages:7.3f} us per message")


def works(bench: Bench, repeat: int) -> list[tuple[str, int, list[Callable[[], object]]]]:
    """Return what is measured: name, number of messages per read, and the calls that each handle one read."""
    one = encode_command(send(0))
    many = b"".join(encode_command(send(i)) for i in range(64))
    batched = encode_command(batch(0))
    bench.feed(one)

    def pulls() -> list[Callable[[], object]]:
        ends = [bench.services.store.queue_range(TOPIC, queue)[1] for queue in range(QUEUES)]
        depth = min(repeat * 4, *(end // 32 for end in ends[1:]))
        frames = [encode_command(pull(q, i * 32)) for i in range(depth) for q in range(1, QUEUES)]
        return [lambda frame=frame: bench.feed(frame) for frame in frames]

    return [
        ("send 1 KiB, one per read", 1, [lambda: bench.feed(one)] * repeat * 16),
        ("send 1 KiB, 64 per read", 64, [lambda: bench.feed(many)] * repeat),
        ("batch of 32 x 128 B", 32, [lambda: bench.feed(batched)] * repeat),
        ("pull of 32 x 1 KiB, 8 queues", 32, pulls()),
    ]


def main() -> None:
    """Measure everything, or profile one work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=100, help="reads of 64 sends per round")
    parser.add_argument("--profile", metavar="WORD", help="profile the work whose name contains this instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        for _ in range(options.repeat):
            bench.feed(b"".join(encode_command(send(i)) for i in range(64)))
        for what, messages, feeds in works(bench, options.repeat):
            if not options.profile:
                measure(what, messages, feeds)
            elif options.profile in what:
                profile = cProfile.Profile()
                profile.runcall(lambda feeds=feeds: [feed() for feed in feeds])
                pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        bench.services.close()


if __name__ == "__main__":
    main()
