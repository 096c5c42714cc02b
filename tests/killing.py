"""``kill -9`` of a broker under load, again and again on one store: ``python -m tests.killing --rounds 200``.

Each round starts the ``rocketmq`` command with SYNC_FLUSH on the store the last one left, holds it against what was
acknowledged so far, loads it from several connections and kills it at a random moment, sometimes while it still
starts. Files are small, so that each round rolls over many. ``SentMessages`` has what was acknowledged; it is compared
with what pulls return, queue by queue.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectError, ConnectionLost
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.offset import QueryConsumerOffset, QueueHeader, UpdateConsumerOffset
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records

SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": 1 << 18,
    "mappedFileSizeConsumeQueue": 200 * 20,
    "maxHashSlotNum": 5_000,
    "maxIndexNum": 20_000,
    "flushConsumeQueueThoroughInterval": 50,
    "flushConsumerOffsetInterval": 20,
    "syncFlushTimeout": 60_000,
    "osPageCacheBusyTimeOutMills": 60_000,
}
"""Of both sides when a Java broker opens the store; a disk that is slow is to refuse nothing."""
TOPICS = ("kill-a", "kill-b")
QUEUES = 4
GROUP = "kill-readers"
CONNECTIONS = 3
PRODUCERS = 8
BATCH = 5
SECONDS = 240.0
"""Longer than anything here takes; only what fails waits for it."""

Queue = tuple[str, int]


@dataclass
class SentMessages:
    """What has been acknowledged: the number of each message by queue and offset, and what readers have seen."""

    acknowledged: dict[Queue, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    committed: dict[Queue, int] = field(default_factory=dict)
    seen: dict[Queue, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    next_number: int = 0

    def number(self) -> int:
        self.next_number += 1
        return self.next_number

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))


def queues() -> list[Queue]:
    return [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)]


def body(number: int) -> bytes:
    return b"%d|" % number + b"." * (number * 7919 % 3000)


def number_of(content: bytes) -> int:
    number = int(content.partition(b"|")[0])
    assert content == body(number), f"the body of message {number} is damaged"
    return number


# -- one server


class Served:
    """The command as a process of its own."""

    def __init__(self, store: Path) -> None:
        settings = [arg for key, value in SETTINGS.items() for arg in ("--set", f"{key}={value}")]
        command = [
            sys.executable, "-m", "rocketmq_py.cli", "serve", "--store", str(store), "--port", "0", "--namesrv-port",
            "0", *settings,
        ]  # fmt: skip
        self.log = store.with_name("serve.log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def address(self) -> str:
        """Where its broker is, once it is ready."""
        line = self.process.stdout.readline()
        assert line.startswith("READY"), f"{line!r} instead of READY\n{self.log.read_text()[-3000:]}"
        return dict(pair.split("=", 1) for pair in line.split()[1:])["broker"]

    def end(self, number: int) -> int:
        """Ends it by a signal; its exit status."""
        self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        self.process.stdout.close()
        return status


# -- requests


def send_command(topic: str, queue_id: int, content: bytes, *, keys: str, is_batch: bool = False) -> Command:
    header = SendMessageV2(
        producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=QUEUES, queue_id=queue_id,
        sys_flag=0, born_timestamp=1, flag=0, properties=f"KEYS\x01{keys}\x02TAGS\x01t\x02", batch=is_batch,
    )  # fmt: skip
    code = Code.SEND_BATCH_MESSAGE if is_batch else Code.SEND_MESSAGE_V2
    return Command(code, ext=header.to_ext(), body=content)


def pull_command(queue: Queue, offset: int) -> Command:
    header = PullMessage(
        consumer_group=GROUP, topic=queue[0], queue_id=queue[1], queue_offset=offset, max_msg_nums=32, sys_flag=4,
        commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*",
    )  # fmt: skip
    return Command(Code.PULL_MESSAGE, ext=header.to_ext())


async def ask(caller: RpcClient, address: str, command: Command) -> Reply:
    return await caller.invoke(address, command, SECONDS)


async def read(caller: RpcClient, address: str, queue: Queue, offset: int, *, gaps: bool = False) -> dict[int, int]:
    """The numbers of all messages of a queue from an offset on; offsets must follow each other, but for ``gaps``."""
    found: dict[int, int] = {}
    while True:
        answer = await ask(caller, address, pull_command(queue, offset))
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return found
        if gaps and answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            assert int(answer.ext["nextBeginOffset"]) > offset
            offset = int(answer.ext["nextBeginOffset"])
            continue
        assert answer.code == 0, f"{queue} at {offset}: {answer}"
        for message in decode_records(answer.body):
            assert message.queue_offset == offset, f"{queue}: {message.queue_offset} where {offset} was expected"
            found[offset] = number_of(message.body)
            offset += 1


async def read_everything(
    address: str, of: Iterable[Queue] | None = None, *, gaps: bool = False
) -> dict[Queue, dict[int, int]]:
    """Every message a broker, ours or Java's, serves."""
    caller, found = RpcClient(), {}
    try:
        for queue in of or queues():
            header = QueueHeader(topic=queue[0], queue_id=queue[1])
            least = await ask(caller, address, Command(Code.GET_MIN_OFFSET, ext=header.to_ext()))
            found[queue] = await read(caller, address, queue, int(least.ext["offset"]), gaps=gaps)
    finally:
        caller.close()
    return found


async def send(address: str, numbers: Iterable[int], to: list[Queue] | None = None) -> dict[Queue, dict[int, int]]:
    """Sends messages to a broker, ours or Java's, queue after queue; where each went."""
    caller, targets = RpcClient(), to or queues()
    sent: dict[Queue, dict[int, int]] = defaultdict(dict)
    for number in numbers:
        queue = targets[number % len(targets)]
        answer = await ask(caller, address, send_command(*queue, body(number), keys=f"k{number}"))
        assert answer.code == 0, answer
        sent[queue][int(answer.ext["queueOffset"])] = number
    caller.close()
    return sent


async def rebuild_progress(address: str) -> tuple[int, int]:
    """The bytes of the log that a rebuild has read, and those that it has not."""
    caller = RpcClient()
    try:
        answer = await ask(caller, address, Command(Code.GET_BROKER_RUNTIME_INFO))
    finally:
        caller.close()
    table = fastjson.loads(answer.body)["table"]
    left = int(table["rebuildBytesLeft"])
    return int(table["commitLogMaxOffset"]) - left, left


# -- a round


class Load:
    """Producers and a reader on one broker, until it is gone.

    :param least: how many messages are acknowledged before it has begun; the reader, too, has one then.
    """

    def __init__(self, address: str, sent_messages: SentMessages, chance: random.Random, least: int) -> None:
        self._address = address
        self._left = least
        self._ledger = sent_messages
        self._chance = chance
        self._callers = [RpcClient() for _ in range(CONNECTIONS)]
        self._acknowledged = asyncio.Event()
        self.began = asyncio.Event()

    async def run(self) -> None:
        """Returns when the broker has broken every connection."""
        callers = self._callers
        tasks = [self._produce(callers[i % CONNECTIONS], queues()[i % len(queues())]) for i in range(PRODUCERS)]
        try:
            await asyncio.gather(*tasks, self._consume(callers[0]))
        finally:
            for caller in callers:
                caller.close()

    async def _produce(self, caller: RpcClient, queue: Queue) -> None:
        with contextlib.suppress(ConnectionLost, ConnectError):  # how each round ends
            while True:
                how = self._chance.random()
                if how < 0.2:
                    await self._send_batch(caller, queue)
                elif how < 0.5:  # one write, so that the broker stores them together
                    sends = (self._send_one(caller, queue) for _ in range(BATCH))
                    for lost in await asyncio.gather(*sends, return_exceptions=True):
                        if lost is not None:
                            raise lost
                else:
                    await self._send_one(caller, queue)

    async def _send_one(self, caller: RpcClient, queue: Queue) -> None:
        number = self._ledger.number()
        answer = await ask(caller, self._address, send_command(*queue, body(number), keys=f"k{number}"))
        self._acknowledge(queue, answer, [number])

    async def _send_batch(self, caller: RpcClient, queue: Queue) -> None:
        numbers = [self._ledger.number() for _ in range(BATCH)]
        content = encode_batch([(0, body(n), b"KEYS\x01k%d" % n) for n in numbers])
        command = send_command(*queue, content, keys=f"k{numbers[0]}", is_batch=True)
        self._acknowledge(queue, await ask(caller, self._address, command), numbers)

    def _acknowledge(self, queue: Queue, answer: Command, numbers: list[int]) -> None:
        assert answer.code == 0, answer
        known = self._ledger.acknowledged[queue]
        for offset, number in enumerate(numbers, int(answer.ext["queueOffset"])):
            assert offset not in known, f"{queue}: offset {offset} was given twice"
            known[offset] = number
        self._left -= len(numbers)
        if self._left <= 0:
            self._acknowledged.set()

    async def _consume(self, caller: RpcClient) -> None:
        """Reads on where it stands, and commits what it has."""
        sent_messages, place = self._ledger, {queue: contiguous_end(self._ledger.seen[queue]) for queue in queues()}
        await self._acknowledged.wait()
        with contextlib.suppress(ConnectionLost, ConnectError):
            while True:
                for queue in queues():
                    found = await read(caller, self._address, queue, place[queue])
                    sent_messages.seen[queue].update(found)
                    if found:
                        self.began.set()
                    place[queue] += len(found)
                    header = UpdateConsumerOffset(
                        consumer_group=GROUP, topic=queue[0], queue_id=queue[1], commit_offset=place[queue]
                    )
                    sent_messages.committed[queue] = place[queue]
                    await ask(caller, self._address, Command(Code.UPDATE_CONSUMER_OFFSET, ext=header.to_ext()))
                await asyncio.sleep(0.001)


def contiguous_end(found: dict[int, int]) -> int:
    return max(found) + 1 if found else 0


class Rounds:
    """Rounds on one store.

    :param work: a directory of its own; the store and the log of the command go there.
    :param least: how many messages are acknowledged in each round, however slow the machine is.
    """

    def __init__(self, work: Path, seed: int, least: int = 1) -> None:
        self._least = least
        self.store = work / "store"
        self.sent_messages = SentMessages()
        self._chance = random.Random(seed)
        self._checked: dict[Queue, int] = dict.fromkeys(queues(), 0)

    async def run(self, count: int, *, verify_every: int = 1) -> None:
        """So many kills, then a good end, after which everything is read once more and the files are checked."""
        await self._make_topics()
        for number in range(count):
            await self._round(number)
            if number % verify_every == 0:
                self.verify()
        server = Served(self.store)
        address = server.address()
        self._checked = dict.fromkeys(queues(), 0)
        await self.check(address)
        assert server.end(signal.SIGTERM) == 0, server.log.read_text()[-3000:]
        self.verify()

    async def _make_topics(self) -> None:
        server = Served(self.store)
        sent = await send(server.address(), [self.sent_messages.number() for _ in queues()])
        self.sent_messages.acknowledged.update(sent)
        server.end(signal.SIGKILL)

    async def _round(self, number: int) -> None:
        server = Served(self.store)
        if self._chance.random() < 0.2:
            await asyncio.sleep(self._chance.uniform(0, 0.5))
            server.end(signal.SIGKILL)
            server = Served(self.store)
        address = await asyncio.to_thread(server.address)
        await self.check(address)
        load = Load(address, self.sent_messages, self._chance, self._least)
        running = asyncio.create_task(load.run())
        began = asyncio.create_task(load.began.wait())
        await asyncio.wait((running, began), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(self._chance.uniform(0, 0.5))
        began.cancel()
        assert not running.done(), (number, running)
        server.end(signal.SIGKILL)
        await running

    async def check(self, address: str) -> None:
        """What was acknowledged or seen since the last check is there, at its offset; committed offsets make sense."""
        caller = RpcClient()
        for queue in queues():
            begin = self._checked[queue]
            found = await read(caller, address, queue, begin)
            for known in (self.sent_messages.acknowledged[queue], self.sent_messages.seen[queue]):
                wanted = {offset: number for offset, number in known.items() if offset >= begin}
                missing = {offset: number for offset, number in wanted.items() if found.get(offset) != number}
                assert not missing, f"{queue}: not there, or something else is: {missing}"
            self._checked[queue] = begin + len(found)
            await self._check_offset(caller, address, queue, begin + len(found))
        caller.close()

    async def _check_offset(self, caller: RpcClient, address: str, queue: Queue, end: int) -> None:
        header = QueryConsumerOffset(consumer_group=GROUP, topic=queue[0], queue_id=queue[1])
        answer = await ask(caller, address, Command(Code.QUERY_CONSUMER_OFFSET, ext=header.to_ext()))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return
        offset = int(answer.ext["offset"])
        assert 0 <= offset <= self.sent_messages.committed.get(queue, 0) <= end, (queue, offset, end)

    def verify(self) -> None:
        with OfflineStore(self.store) as store:
            report = verify(store)
        assert report.is_valid, report.findings.listed()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--store", type=Path, help="directory to work in, kept [default: a temporary one, removed]")
    arguments = parser.parse_args()
    work = arguments.store or Path(tempfile.mkdtemp(prefix="killing-"))
    work.mkdir(parents=True, exist_ok=True)
    rounds, begin = Rounds(work, arguments.seed), time.monotonic()
    print(f"{arguments.rounds} rounds in {work}, seed {arguments.seed}, pid {os.getpid()}", flush=True)
    asyncio.run(rounds.run(arguments.rounds, verify_every=max(1, arguments.rounds // 20)))
    took = time.monotonic() - begin
    print(f"{arguments.rounds} kills, {rounds.sent_messages.count} acknowledged messages, none lost, in {took:.0f} s")
    if arguments.store is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
