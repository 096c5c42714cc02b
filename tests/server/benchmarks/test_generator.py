"""The compiled load generator: its requests are a Java client's, and a figure may only come from right answers."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.control import Control
from benchmarks.drive import SOURCE, Generator, missing
from benchmarks.errors import BenchError
from benchmarks.loads import Load
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the benchmarks run on Linux"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.timeout(900),  # the first test compiles it
]

GOLDEN = Path(__file__).parents[2] / "golden" / "frames"
STORED = {"msgId": "7F0000010000546B0000000000000000", "queueId": "0", "queueOffset": "0"}
QUEUES, EACH, BACKLOG = 4, 8, 256

Answer = Callable[[Command], bytes]


@pytest.fixture(scope="module")
def generator() -> Generator:
    return Generator.build("dev")


@pytest.fixture(scope="module")
def cluster(generator: Generator) -> Iterator[Cluster]:
    """With a backlog that lies evenly in the queues of the topic."""
    with Cluster() as running:
        running.create_topic("bench", QUEUES)
        running.create_topic("transactions", QUEUES)
        generator.drive(running.addresses[0], Load("send", 64, queues=QUEUES, size=64), BACKLOG)
        yield running


class Recorder:
    """A server that answers as it is told and keeps the frames it was sent."""

    def __init__(self, answer: Answer) -> None:
        self.frames: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def commands(self) -> list[Command]:
        return [decode_command(frame) for frame in FrameDecoder().feed(b"".join(self.frames))]

    def serve(self) -> None:
        # A generator that has read a wrong answer goes, and leaves others unread.
        with self._listener.accept()[0] as link, contextlib.suppress(ConnectionError):
            kept = b""
            while data := link.recv(1 << 16):
                kept += data
                while len(kept) >= 4 and len(kept) >= (size := 4 + struct.unpack_from(">I", kept)[0]):
                    self.frames.append(kept[:size])
                    (frame,) = FrameDecoder().feed(kept[:size])
                    kept = kept[size:]
                    answer = self._answer(decode_command(frame))
                    if not answer:
                        return
                    link.sendall(answer)

    def close(self) -> None:
        self._listener.close()


@contextmanager
def recorder(answer: Answer) -> Iterator[Recorder]:
    """Serves one connection until the other side closes it or an answer is empty."""
    server = Recorder(answer)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        thread.join()
        server.close()


def success(request: Command, **more: str) -> bytes:
    ext = {**STORED, "queueId": request.ext.get("e", "0"), **more}
    return encode_command(Command(0, opaque=request.opaque, flag=RESPONSE_FLAG, ext=ext))


def ends(address: str, topic: str) -> list[int]:
    with Control(address) as control:
        return control.max_offsets(topic, QUEUES)


def key(properties: str | bytes) -> str:
    raw = properties if isinstance(properties, bytes) else properties.encode()
    return decode_properties(raw)[Property.UNIQUE_KEY]


# -- what is sent


def header(frame: bytes) -> str:
    """A JSON header with the values that differ from one request to the next replaced."""
    text = frame[8 : 8 + (struct.unpack_from(">I", frame, 4)[0] & 0xFFFFFF)].decode()
    text = re.sub(r'"g":"\d{13}"', '"g":"BORN"', text)
    text = re.sub(r'"i":"(.*?)"', '"i":"PROPERTIES"', text)
    return re.sub(r'"h":"7"', '"h":"0"', re.sub(r'"opaque":\d+', '"opaque":0', text))


@pytest.mark.parametrize(
    ("load", "golden"), [(Load("send"), "send_v2"), (Load("batch", each=3), "send_batch")], ids=["send", "batch"]
)
def test_json_requests_are_byte_for_byte_those_of_a_java_client(generator: Generator, load: Load, golden: str) -> None:
    ids = ",".join([STORED["msgId"]] * load.messages_each)
    with recorder(lambda request: success(request, msgId=ids)) as server:
        generator.drive(server.address, replace(load, topic="golden", queues=1), 1, group="peer-producer")
    assert header(server.frames[0]) == header((GOLDEN / f"{golden}.request.bin").read_bytes())


def test_binary_requests_are_byte_for_byte_those_of_a_java_client(generator: Generator) -> None:
    golden = (GOLDEN / "send_rocketmq.request.bin").read_bytes()
    with recorder(success) as server:
        load = Load("send", topic="golden", queues=1, headers="rocketmq")
        generator.drive(server.address, load, 1, group="peer-producer")
    (frame,) = server.frames
    assert frame[4:5] == golden[4:5] == b"\x01"

    def fixed(raw: bytes) -> tuple[bytes, bytes, bytes, bytes]:
        """Code to version, flag and remark, the fields before the time of birth, those behind the properties."""
        born, after = raw.index(b"\0\x01g\0\0\0\x0d"), raw.index(b"\0\x01j\0\0\0\x01")
        return raw[8:13], raw[17:25], raw[29:born], raw[after : raw.index(b"broker-a") + 8]

    assert fixed(frame) == fixed(golden)
    (command,) = server.commands
    assert list(command.ext) == list("abcdefghijkmn")


def test_the_messages_of_a_batch_are_laid_out_as_in_java(generator: Generator) -> None:
    with recorder(lambda request: success(request, msgId=",".join("abc"))) as server:
        generator.drive(server.address, Load("batch", size=64, each=3, queues=1), 2)
    golden = (GOLDEN / "send_batch.request.bin").read_bytes()
    start = 8 + struct.unpack_from(">I", golden, 4)[0]
    # Magic, CRC and flag are zero, the length of the body is its own.
    assert {command.body[4:20] for command in server.commands} == {golden[start + 4 : start + 20]}
    keys = [key(properties) for command in server.commands for _, _, properties in decode_batch(command.body)]
    assert len(set(keys)) == 6


def test_requests_go_queue_after_queue_with_keys_of_their_own(generator: Generator) -> None:
    with recorder(success) as server:
        load = Load("send", 16, queues=4, size=100, run=2, properties={"A": "b"})
        driven = generator.drive(server.address, load, 300)
    found = server.commands
    assert {command.code for command in found} == {RequestCode.SEND_MESSAGE_V2}
    assert [command.ext["e"] for command in found[:9]] == list("001122330")
    assert driven.sent == [[76, 76, 74, 74]]
    assert {len(command.body) for command in found} == {100}
    properties = [decode_properties(command.ext["i"].encode()) for command in found]
    assert {tuple(each) for each in properties} == {(Property.UNIQUE_KEY, "WAIT", "TAGS", "A")}
    keys = {each[Property.UNIQUE_KEY] for each in properties}
    assert len(keys) == 300
    assert all(len(k) == 32 and int(k, 16) >= 0 for k in keys)
    assert len({command.opaque for command in found}) == 300


def test_many_topics_are_taken_in_turn(generator: Generator) -> None:
    with recorder(success) as server:
        generator.drive(server.address, Load("send", topics=3, topic="T"), 5)
    assert [(c.ext["b"], c.ext["e"]) for c in server.commands] == [(f"T-{n}", "0") for n in (0, 1, 2, 0, 1)]


# -- what is answered


def drive(generator: Generator, answer: Answer, count: int = 40, inflight: int = 8) -> None:
    with recorder(answer) as server:
        generator.drive(server.address, Load("send", inflight, queues=2), count)


def test_a_refused_request_is_named(generator: Generator) -> None:
    def busy(request: Command) -> bytes:
        return encode_command(Command(2, opaque=request.opaque, flag=RESPONSE_FLAG, remark="busy"))

    with pytest.raises(BenchError, match=r"code 2 \(busy\)"):
        drive(generator, busy)


def test_other_success_codes_count(generator: Generator) -> None:
    def answer(request: Command) -> bytes:
        fields = {"extFields": {**STORED, "queueId": request.ext["e"]}, "opaque": request.opaque, "flag": 1, "code": 0}
        raw = json.dumps(fields).encode()
        return struct.pack(">II", len(raw) + 4, len(raw)) + raw

    drive(generator, answer)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda request: success(request) * 2, "not asked, or twice"),
        (lambda request: success(Command(0, opaque=request.opaque + 1)), "not asked, or twice"),
        (lambda request: success(request, queueId="9"), "answered"),
        (lambda request: success(request, msgId="a,b"), "answered"),
        (lambda request: encode_command(Command(39, opaque=request.opaque)), "where an answer was awaited"),
        (lambda request: encode_command(Command(0, opaque=request.opaque, flag=1, body=b"x")), "a send answered"),
        (lambda _: b"\0\0\0\1", "an answer has 5 bytes"),
        (lambda _: b"", "closed a connection|reset by peer"),
    ],
)
def test_an_answer_that_is_wrong_is_no_figure(generator: Generator, wrong: Answer, said: str) -> None:
    with pytest.raises(BenchError, match=said):
        drive(generator, wrong)


def test_silence_ends_a_run(generator: Generator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = ["send", "--address", f"127.0.0.1:{listener.getsockname()[1]}", "--count", "3", "--timeout", "0.2"]
        said = subprocess.run([generator.program, *words], capture_output=True, text=True, check=False, timeout=60)
    assert (said.returncode, said.stdout) == (1, "")
    assert "1 requests have had no answer for 0.2 s" in said.stderr


# -- at a broker


@pytest.mark.parametrize(("inflight", "connections"), [(1, 1), (64, 16), (4096, 64)])
@pytest.mark.parametrize("headers", ["json", "rocketmq"])
def test_sends_are_stored(
    generator: Generator, cluster: Cluster, inflight: int, connections: int, headers: str
) -> None:
    topic = cluster.create_topic(f"sends-{inflight}-{headers}", QUEUES)
    load = Load("send", inflight, connections, topic=topic, queues=QUEUES, size=32, headers=headers)  # type: ignore[arg-type]
    driven = generator.drive(cluster.addresses[0], load, 5000, verify=True)
    assert driven.sent == [[1250] * QUEUES]
    assert driven.p50_us <= driven.p99_us <= driven.p999_us <= driven.max_us
    assert driven.rate == pytest.approx(5000 / driven.seconds, rel=0.01)
    assert ends(cluster.addresses[0], topic) == [1250] * QUEUES


def test_several_brokers_share_the_work(generator: Generator) -> None:
    with Cluster(brokers=2) as running:
        running.create_topic("shared", QUEUES)
        first, second = running.addresses
        driven = generator.drive([first, f"broker-b@{second}"], Load("send", 16, topic="shared", queues=QUEUES), 4000)
        assert driven.sent == [ends(address, "shared") for address in running.addresses]
    totals = list(map(sum, driven.sent))
    assert min(totals) > 0
    assert sum(totals) == 4000


def test_a_run_ends_when_its_time_is_over(generator: Generator, cluster: Cluster) -> None:
    topic = cluster.create_topic("timed", QUEUES)
    load = Load("send", 4, topic=topic, queues=QUEUES)
    driven = generator.drive(cluster.addresses[0], load, 1 << 40, seconds=0.3)
    assert 0.3 <= driven.seconds < 30
    assert driven.messages == sum(driven.sent[0]) > 0


PULLS = Load("pull", 4, queues=QUEUES, each=EACH)


def test_a_backlog_is_pulled_again_and_again(generator: Generator, cluster: Cluster) -> None:
    driven = generator.drive(cluster.addresses[0], PULLS, 100, until=BACKLOG // QUEUES, verify=True)
    assert (driven.requests, driven.messages, driven.sent) == (100, 100 * EACH, [])


def test_a_pull_that_brings_too_little_is_no_figure(generator: Generator, cluster: Cluster) -> None:
    with pytest.raises(BenchError, match="a pull of queue 0 from 64 on answered code 19"):
        generator.drive(cluster.addresses[0], PULLS, 1 + BACKLOG // EACH)
    with pytest.raises(BenchError, match="has 32 messages, wanted were 48"):
        generator.drive(cluster.addresses[0], Load("pull", queues=QUEUES, each=48), 1)


def test_a_backlog_is_popped_and_acked(generator: Generator, cluster: Cluster) -> None:
    load = Load("pop", QUEUES, queues=QUEUES, each=EACH)
    for group in ("one", "two"):
        driven = generator.drive(cluster.addresses[0], load, BACKLOG // EACH, group=group, verify=True)
        assert driven.messages == BACKLOG
    (broker,) = cluster.brokers
    ends = [broker.services.offsets.query("two", "bench", queue) for queue in range(QUEUES)]
    assert ends == [BACKLOG // QUEUES] * QUEUES
    assert len(broker.services.pop.revive_log.inflight) == 0


def test_a_group_that_has_popped_before_is_refused(generator: Generator, cluster: Cluster) -> None:
    load = Load("pop", QUEUES, queues=QUEUES, each=EACH)
    generator.drive(cluster.addresses[0], load, BACKLOG // EACH // 2, group="again")
    with pytest.raises(BenchError, match="was to bring messages from 0 on"):
        generator.drive(cluster.addresses[0], load, 1, group="again")


def test_transactions_are_counted_when_they_are_delivered(generator: Generator, cluster: Cluster) -> None:
    load = Load("transaction", 16, topic="transactions", queues=QUEUES)
    for number in (1, 2):
        driven = generator.drive(cluster.addresses[0], load, 400, verify=True)
        assert driven.sent == [[100] * QUEUES]
        assert ends(cluster.addresses[0], "transactions") == [100 * number] * QUEUES


# -- how it is built


def test_its_own_tests_pass(generator: Generator) -> None:
    target = generator.program.parent.parent
    command = ["cargo", "test", "--locked", "--quiet", "--target-dir", str(target)]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_help_names_every_option(generator: Generator) -> None:
    text = subprocess.run([generator.program, "--help"], capture_output=True, text=True, check=True).stdout
    options = set(
        re.findall(r'^            "([a-z]+)" =>', (SOURCE / "src" / "arguments.rs").read_text(), re.MULTILINE)
    )
    assert len(options) > 10
    assert {option for option in options if f"--{option} " not in text} == set()
