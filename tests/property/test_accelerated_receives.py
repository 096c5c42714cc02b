"""Whatever is stored and acknowledged, a broker with the accelerator answers clients of gRPC as one without."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings, strategies as st

from rocketmq_py.broker.grpc import service
from rocketmq_py.errors import BadHeader, CorruptRecord
from rocketmq_py.grpc.popped import PoppedAnswers, Wanted, encoded
from rocketmq_py.grpc.receipts import Receipt
from rocketmq_py.grpc.requests import Inner
from rocketmq_py.model import RecordHead
from rocketmq_py.properties import encode_properties
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Resource
from rocketmq_py.protocol.grpc.enums import ClientType, Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.grpc.service import AckMessageEntry, AckMessageRequest, AckMessageResponse
from rocketmq_py.protocol.headers.pop import PopMessage, PopResponse
from rocketmq_py.protocol.pop_handle import InitMode
from rocketmq_py.server.reply import Reply
from rocketmq_py.wire.record import BORN_HOST_V6, COMPRESSED, NEED_UNWRAP, STORE_HOST_V6, encode_record
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples
from tests.unit.broker.harness import START_MS, InProcess
from tests.unit.grpc.calls import Calls, Running, handle_of, new_message
from tests.unit.store.memoryfs import MemoryFileSystem

pytestmark = needs_accelerator

# -- received messages

NAMES = [
    "TAGS", "KEYS", "PGROUP", "__BORNHOST", "BORN_TIMESTAMP", "__SHARDINGKEY", "__TRACE_CONTEXT", "__LITE_TOPIC",
    "DELAY", "TRAN_MSG", "_SYS_MSG_PRIORITY_", "POP_CK", "XPOP_CK", "1ST_POP_TIME", "X1ST_POP_TIME",
    "TIMER_DEL_UNIQKEY", "TIMER_DELIVER_MS", "CHECK_IMMUNITY_TIME_IN_SECONDS", "DLQ_ORIGIN_TOPIC",
    "DLQ_ORIGIN_MESSAGE_ID", "INNER_BASE", "TAG", "ü", "", "a",
]  # fmt: skip
VALUES = [
    "A", "B", "k  l", " k ", "ä\u3000x\u200a", "x\x85y\x1cz\xa0", "", "1", "true", "9" * 20, "1700000000000",
    "5 1 2 0 0 b 0 9", "5 1 2 0 7 b 0 9", "o" * 130,
]  # fmt: skip
usual_properties = st.fixed_dictionaries(
    {"UNIQ_KEY": st.sampled_from(["0AFE", "I" * 32])},
    optional={
        "TAGS": st.sampled_from(["A", "B"]), "KEYS": st.sampled_from(["k", "k  l", "ä\u3000x\x1cy"]),
        "__BORNHOST": st.just("1.2.3.4:5"), "__SHARDINGKEY": st.just("g"), "PGROUP": st.just("p"),
        "a": st.just("b"), "ü": st.just("ö" * 100),
    },
).map(encode_properties)  # fmt: skip
pairs = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)).map(lambda pair: f"{pair[0]}\x01{pair[1]}\x02")
junk = st.sampled_from(
    [b"UNIQ_KEY\x01x", b"\xff\x01a\x02", b"a\x01\xff", b"UNIQ_KEY\x01i\x02a\x01b\x01c\x02a\x02", b""]
)
odd_properties = st.one_of(
    st.builds(lambda usual, more: usual + "".join(more).encode(), usual_properties, st.lists(pairs, max_size=3)),
    st.builds(lambda usual, more: usual + more, usual_properties, junk),
    junk,
)
small = st.integers(0, 300)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    is_odd = draw(st.integers(0, 3)) == 0
    flags = draw(st.sampled_from([0, BORN_HOST_V6, STORE_HOST_V6, COMPRESSED, NEED_UNWRAP])) if is_odd else 0
    times = st.one_of(small, st.just(START_MS + 7), *([st.integers(-2000, -1)] if is_odd else []))
    head = RecordHead(
        0, 0, 0, draw(st.sampled_from([0, 1, 200, -1] if is_odd else [0, 1, 200])), draw(small), draw(small),
        draw(st.sampled_from([0, 9, 1 << 40])), flags, draw(times),
        draw(st.binary(min_size=20, max_size=20)) if flags & BORN_HOST_V6 else draw(st.binary(min_size=8, max_size=8)),
        draw(times), bytes(20 if flags & STORE_HOST_V6 else 8),
        draw(st.sampled_from([0, 1, 3, -1, 2**31 - 1] if is_odd else [0, 1, 3])), 0, 0,
    )  # fmt: skip
    topic = draw(st.sampled_from(["t", "u", "%RETRY%g_t", "t" * 200])) if is_odd else "t"
    properties = draw(odd_properties if is_odd else usual_properties)
    return encode_record(head, topic, draw(st.binary(max_size=20)), properties)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    raw = b"".join(draw(st.lists(records(), max_size=5)))
    if raw and draw(st.integers(0, 4)) == 0:
        changed = bytearray(raw)
        for _ in range(draw(st.integers(1, 3))):
            changed[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
        raw = bytes(changed)[: draw(st.sampled_from([len(raw), len(raw), len(raw) - 1]))]
    return raw


def received(answers: PoppedAnswers, body: bytes, info: str, wanted: Wanted, topic: str) -> Any:
    """What a client gets, what is decided about the other messages, and the receipts."""
    header = PopMessage(
        consumer_group="g", topic=topic, queue_id=-1, max_msg_nums=32, invisible_time=60_000, poll_time=0,
        init_mode=InitMode.MAX,
    )  # fmt: skip
    answer = PopResponse(pop_time=START_MS, invisible_time=60_000, revive_qid=3, rest_num=0, start_offset_info=info)
    pop = Inner(RequestCode.POP_MESSAGE, header, broker="broker-a")
    try:
        popped = answers.read(pop, Reply(header=answer, body=body), wanted, receipts=True)
    except (BadHeader, CorruptRecord) as e:
        return str(e)
    found: list[Any] = []
    receipts = popped.receipts
    for one in popped.items:
        if isinstance(one, bytes):
            found.append(one)
        elif wanted.has_tag(one.message) and wanted.has_attempts(one.message):
            message, handle = encoded(one, header)
            found.append(message)
            try:
                receipts[handle] = Receipt.parse(handle)
            except CallRefused as e:
                found.append(e.status())
        else:
            found.append((wanted.has_tag(one.message), Receipt.of(one.receipt, one.message)))
    return found, receipts


@given(
    bodies(),
    st.sampled_from(["0 0 0;0 1 3;0 200 250", "0 0 0", "1 0 7;0 1 0", ""]),
    st.builds(
        Wanted, st.sampled_from([None, None, frozenset({"A"}), frozenset({"A", "B", "ä"})]),
        st.sampled_from([0, -1, 3, 17, 1 << 40]),
    ),
    st.sampled_from(["t", "t", "t", "%RETRY%g_t"]),
)  # fmt: skip
@settings(max_examples=examples(1000))
def test_received_messages(body: bytes, info: str, wanted: Wanted, topic: str) -> None:
    plain, fast = PoppedAnswers(None), PoppedAnswers(accelerator())
    assert received(fast, body, info, wanted, topic) == received(plain, body, info, wanted, topic)


def test_usual_messages_are_encoded_by_the_accelerator() -> None:
    host = bytes(8)
    head = RecordHead(0, 0, 0, 1, 0, 5, 99, 0, START_MS, host, START_MS, host, 0, 0, 0)
    record = encode_record(head, "t", b"x" * 1000, encode_properties({"UNIQ_KEY": "I", "TAGS": "A", "a": "b"}))
    wanted = Wanted(frozenset({"A"}), 17)
    with mock.patch("rocketmq_py.grpc.popped.messages_at", side_effect=AssertionError("one was decoded")):
        found, receipts = received(PoppedAnswers(accelerator()), record * 3, "0 1 4", wanted, "t")
    assert len(found) == 3
    assert list(receipts) == [f"4 {START_MS} 60000 3 0 broker-a 1 5 99"]


# -- acknowledgements

SETTINGS = {"timer_wheel_enable": False, "mapped_file_size_commit_log": 65_536}
QUEUES, MESSAGES = 2, 6


class Broker:
    """A broker with messages that one client has received; handles are known by number."""

    def __init__(self, *, is_fast: bool, kind: int) -> None:
        self.running = running = InProcess(Path("/store"), SETTINGS, fs=MemoryFileSystem())
        running.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=QUEUES, write_queue_nums=QUEUES)])
        running.services.pop.pop_service.random_below = lambda _: 0
        with mock.patch.object(service, "installed", accelerator if is_fast else lambda: None):
            self.calls = Calls(running)
        self.calls.consume("t", "g", kind=kind)
        for number in range(MESSAGES):
            self.calls.send(new_message("t", b"%d" % number, message_id=f"{number}"))
        is_push = kind == ClientType.PUSH_CONSUMER
        messages = self.calls.receive("t", "g", auto_renew=is_push)[1]
        self.handles = sorted(map(handle_of, messages))

    def read(self, requests: list[bytes]) -> list[Any]:
        """The answers to calls that came in one read."""
        running: list[Running] = []
        for request in requests:
            self.calls._ports = 50_000
            running.append(self.calls.begin("AckMessage"))
            running[-1].tell(request)
        assert self.calls.service.finish_read() is None
        return [(one.carrier.end, one.received(AckMessageResponse)) for one in running]

    def left(self) -> Any:
        """What is not acknowledged, and what is renewed."""
        inflight = self.running.services.pop.revive_log.inflight.pops()
        return sorted((one.check_point.queue_id, tuple(one.left)) for one in inflight), sorted(
            self.calls.service._receipts._held
        )


@st.composite
def entries(draw: st.DrawFn) -> tuple[int, list[tuple[int, str]], str]:
    """The number of a handle, words of it to replace, and a message id."""
    changes = draw(st.lists(
        st.tuples(
            st.integers(0, 8), st.sampled_from(["0", "1", "2", "7", "999", "-1", "+3", "1" * 19, "x", "", "007"]),
        ),
        max_size=1 if draw(st.integers(0, 3)) == 0 else 0,
    ))  # fmt: skip
    return draw(st.integers(0, MESSAGES - 1)), changes, draw(st.sampled_from(["ID", "", "ü"]))


@st.composite
def acks(draw: st.DrawFn) -> tuple[list[tuple[int, list[tuple[int, str]], str]], str, str, list[tuple[int, int]]]:
    """Entries, group and topic, and bytes of the request to change."""
    chosen = draw(st.lists(entries(), max_size=4))
    group = draw(st.sampled_from(["g", "g", "g", "g", "g", "other", "a b", ""]))
    topic = draw(st.sampled_from(["t", "t", "t", "t", "t", "no such", "absent", ""]))
    changed = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=2)
    return chosen, group, topic, draw(changed) if draw(st.integers(0, 7)) == 0 else []


def request_of(ack: Any, handles: list[str]) -> bytes:
    chosen, group, topic, changed = ack
    request = AckMessageRequest(group=Resource(name=group), topic=Resource(name=topic))
    for number, changes, message_id in chosen:
        words = handles[number].split(" ")
        for place, word in changes:
            words[place] = word
        request.entries = [*request.entries, AckMessageEntry(message_id=message_id, receipt_handle=" ".join(words))]
    raw = bytearray(request.encode())
    for place, byte in changed:
        if raw:
            raw[place % len(raw)] = byte
    return bytes(raw)


@given(
    st.sampled_from([ClientType.SIMPLE_CONSUMER, ClientType.PUSH_CONSUMER]),
    st.lists(st.tuples(st.sampled_from([0, 0, 55_000, 61_000]), st.lists(acks(), max_size=5)), max_size=3),
)
@settings(max_examples=examples(100), deadline=None)
@example(ClientType.SIMPLE_CONSUMER, [(0, [([(0, [], "ID"), (1, [], "ID")], "g", "t", [])])])
@example(ClientType.SIMPLE_CONSUMER, [(0, [([(0, [], "ID"), (0, [(7, "7")], "ID")], "g", "t", [])])])
@example(ClientType.PUSH_CONSUMER, [(55_000, [([(0, [], "ID")], "g", "t", [])])])
def test_acknowledgements(kind: int, reads: list[tuple[int, list[Any]]]) -> None:
    plain, fast = Broker(is_fast=False, kind=kind), Broker(is_fast=True, kind=kind)
    assert plain.handles == fast.handles
    for wait_ms, read in reads:
        for broker in (plain, fast):
            broker.running.now += wait_ms
            broker.calls.service._receipts.tick()
        requests = [request_of(ack, plain.handles) for ack in read]
        assert fast.read(requests) == plain.read(requests)
        assert fast.left() == plain.left()


@pytest.mark.parametrize("kind", [ClientType.SIMPLE_CONSUMER, ClientType.PUSH_CONSUMER])
def test_messages_of_a_pop_are_acknowledged_by_one_request(kind: int) -> None:
    broker = Broker(is_fast=True, kind=kind)
    requests = [request_of(([(number, [], "ID")], "g", "t", []), broker.handles) for number in range(MESSAGES)]
    with mock.patch.object(broker.running.dispatcher, "call", wraps=broker.running.dispatcher.call) as call:
        answers = broker.read(requests)
    assert [request.args[0].code for request in call.call_args_list] == [RequestCode.BATCH_ACK_MESSAGE] * QUEUES
    assert [request.args[3][RequestCode.ACK_MESSAGE] for request in call.call_args_list] == [3, 3]
    assert {answer.status.code for _, [answer] in answers} == {Code.OK}
    assert [entry.receipt_handle for _, [answer] in answers for entry in answer.entries] == broker.handles
    assert broker.left() == ([], [])
