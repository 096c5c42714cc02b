"""Whatever arrives, a broker with the accelerator stores and answers the same bytes as one without it."""

from __future__ import annotations

import asyncio
import json
import math
import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given, settings, strategies as st

from rocketmq_py.broker import services
from rocketmq_py.core.access.permissions import User
from rocketmq_py.errors import CorruptFrame
from rocketmq_py.properties import TOLD_BY_PRESENCE, TOLD_BY_VALUE
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.server import Peer
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.requests import dispatcher
from rocketmq_py.server.requests.dispatcher import Dispatcher, Item
from rocketmq_py.store import MessageStore
from rocketmq_py.store.index.waiting_keys import PackedKeys
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import JSON, MAX_FRAME, ROCKETMQ, Frame, FrameDecoder, RunDecoder, encode_frame
from rocketmq_py.wire.signing import Credentials
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples
from tests.unit.broker.harness import InProcess
from tests.unit.store.memoryfs import MemoryFileSystem

pytestmark = needs_accelerator

PEER = ("127.0.0.1", 50_000)
MAX_BODY = 300
LOG_FILE = 8192
TOPICS = ["t", "new", "%RETRY%g", "SELF_TEST_TOPIC", "no such", ""]
FIELDS = {"a": "g", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1600000000000", "h": "0"}

names = st.sampled_from(
    [
        "TAGS",
        "KEYS",
        "UNIQ_KEY",
        "XKEYS",
        "DELAY",
        "TRAN_MSG",
        "WAIT",
        "a",
        "",
        "CLUSTER",
        "ä",
        "PGROUP",
        "MY_DELAY",
        "__SHARDINGKEY",
        "TIMER_MINE",
        "CORRELATION_ID",
        "POP_CK",
    ]
)
values = st.sampled_from(
    ["A", "k1 k2", " k ", "0AFE", "", "1", "true", 'quo"te', "back\\slash", "ü€😀", "\x7f", "null"]
)
entries = st.lists(st.tuples(names, values), max_size=5)
common = st.builds(
    lambda before, key, after: "".join(f"{n}\x01{v}\x02" for n, v in [*before, ("UNIQ_KEY", key), *after]),
    st.lists(st.sampled_from([("TAGS", "A"), ("KEYS", "k1 k2"), ("a", "ä")]), max_size=2, unique=True),
    st.text("0123456789ABCDEF", min_size=1, max_size=32),
    st.lists(
        st.sampled_from(
            [("WAIT", "true"), ("TAGS", "B"), ("KEYS", "k3"), ("__SHARDINGKEY", "s"), ("b", "1"), ("b", "2")]
        ),
        max_size=2,
        unique=True,
    ),
)
odd = st.one_of(
    entries.map(lambda found: "".join(f"{n}\x01{v}\x02" for n, v in found)),
    entries.map(lambda found: "\x02".join(f"{n}\x01{v}" for n, v in found)),
    st.text("\x01\x02aK", max_size=12),
    st.just("UNIQ_KEY\x01u\x02" + "x" * 32_700),
)
properties = st.one_of(common, common, common, odd)
numbers = st.sampled_from(
    ["0", "1", "-1", "7", "+1", "01", "1.5", "", "null", "true", "2147483648", "9" * 30, " 1", "-0"]
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "b": st.sampled_from(TOPICS),
        "e": st.one_of(st.sampled_from(["0", "1", "2", "3"]), numbers),
        "f": st.one_of(st.sampled_from(["0", "4", "8", "128", "16"]), numbers),
        "g": numbers,
        "h": numbers,
        "j": numbers,
        "k": st.sampled_from(["true", "false", "1", "no"]),
        "l": numbers,
        "d": numbers,
        "m": st.sampled_from(["false", "true", "False", "0", ""]),
        "n": st.sampled_from(["broker-a", "null", "ä"]),
        "extra": st.sampled_from(["x", "", "\\", "ü"]),
        "a": st.sampled_from(["p", "", "ä\x00"]),
    },
)
plain_fields = st.fixed_dictionaries({"b": st.just("t"), "e": st.sampled_from(["0", "1", "2"])})


batched = st.tuples(st.integers(-1, 1), st.binary(max_size=20), st.one_of(common, common, odd).map(str.encode))
batches = st.one_of(
    st.lists(batched, max_size=6).map(encode_batch),
    st.builds(lambda one, times: encode_batch([one]) * times, batched, st.integers(1, 8)),
    st.builds(
        lambda found, end: encode_batch(found)[:-end], st.lists(batched, min_size=1, max_size=3), st.integers(1, 9)
    ),
    st.lists(st.tuples(st.just(0), st.binary(max_size=9), st.binary(max_size=9)), max_size=4).map(encode_batch),
)


@st.composite
def sends(draw: st.DrawFn) -> bytes:
    """The frame of a send: mostly plain, sometimes odd in one way or another."""
    ext = FIELDS | draw(st.one_of(plain_fields, plain_fields, fields)) | {"i": draw(properties)}
    for name in draw(st.sampled_from([(), (), (), ("i",), ("a",), ("e",)])):
        del ext[name]
    code = draw(st.sampled_from([*[RequestCode.SEND_MESSAGE_V2] * 6, RequestCode.SEND_BATCH_MESSAGE, 12_345]))
    flag, opaque = draw(st.sampled_from([0, 0, 0, 2, 1])), draw(st.integers(-(2**31), 2**31 - 1))
    if code == RequestCode.SEND_BATCH_MESSAGE:
        ext["m"] = "true"
    body = draw(batches if ext.get("m") == "true" else st.binary(max_size=MAX_BODY + 20))
    command = Command(code, opaque, flag, ext=ext, body=body)
    if draw(st.booleans()):
        return encode_command(command, draw(st.sampled_from([JSON, ROCKETMQ])))
    return encode_frame(draw(texts(command)), command.body)


def texts(command: Command) -> st.SearchStrategy[bytes]:
    """Other JSON texts of a command: escapes, spaces, members of another order, twice, or of another kind."""
    tree: dict[str, Any] = {
        "code": int(command.code),
        "extFields": command.ext,
        "flag": command.flag,
        "opaque": command.opaque,
    }
    whole = json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()
    number = b'"opaque":%d' % command.opaque
    return st.sampled_from(
        [
            whole,
            json.dumps(tree, separators=(",", ":")).encode(),
            json.dumps(tree).encode(),
            json.dumps(dict(reversed(tree.items())), separators=(",", ":")).encode(),
            whole[:-1] + b"," + number + b"}",
            whole.replace(number, b'"opaque":"1"'),
            whole.replace(number, b'"opaque":null'),
            whole.replace(b'"e":"', b'"e":"1","e":"'),
            whole.replace(b'"h":"0"', b'"h":0'),
            whole + b" ",
            whole + b"x",
            whole[:-1] + b',"remark":"r"}',
            whole[:-1] + b',"version":1e3}',
            whole[:-1] + b',"language":7}',
            whole[:-1] + b',"more":{"a":[1]}}',
            whole.replace(b'"b":"t"', b'"\\u0062":"\\u0074"'),
            whole.replace(b"WAIT", b"\\ud800"),
            whole.replace(b"WAIT", b"\xff"),
            whole.replace(b"WAIT", b"\x01"),
            whole.replace(b"WAIT", b"\\/\\b"),
        ]
    )


class Pair:
    """Two brokers that differ in the accelerator only."""

    def __init__(self) -> None:
        with mock.patch.object(services, "installed", return_value=None):
            self.plain = self._broker()
        self.fast = self._broker()
        telling = accelerator().TellingProperties(sorted(TOLD_BY_VALUE), sorted(TOLD_BY_PRESENCE))
        self._frames = FrameDecoder()
        self._runs = RunDecoder(MAX_FRAME, accelerator(), (RequestCode.END_TRANSACTION,), telling)
        self.peer = Peer(PEER, ("127.0.0.1", 10_911))
        self.runs = 0
        self.feed(b"".join(self.first()))

    def first(self) -> list[bytes]:
        """Sends that make the topic."""
        return [plain_send(queue, "FIRST") for queue in range(3)]

    def _broker(self) -> InProcess:
        store = {"max_message_size": MAX_BODY, "mapped_file_size_commit_log": LOG_FILE, "timer_wheel_enable": False}
        made = InProcess(Path("/store"), store, fs=MemoryFileSystem())
        made.services.sender._property_writer._new_key = lambda: "MADE"
        return made

    def feed(self, data: bytes) -> None:
        """One read of both; whatever differs is a failure."""
        outcomes = []
        for running, decoder in ((self.plain, self._frames), (self.fast, self._runs)):
            random.seed(0)
            try:
                items = decoder.feed(data)
            except CorruptFrame as e:
                outcomes.append(str(e))
                continue
            self.runs += sum(not isinstance(item, Frame) for item in items)
            outcomes.append(self._serve(running, items))
        assert outcomes[0] == outcomes[1]
        assert self._frames.buffered == self._runs.buffered
        assert self.state(self.plain) == self.state(self.fast)

    def _serve(self, running: InProcess, items: Sequence[Item]) -> tuple[bytes, str]:
        output = b""
        while True:
            with mock.patch.object(dispatcher, "SLICE_SECONDS", math.inf):  # no turn ends early on a busy machine
                served = running.dispatcher.serve(self.peer, items)
            output += b"".join(map(bytes, served.output))
            items = served.rest
            if not items:
                return output, str(served.fault)

    def state(self, running: InProcess) -> list[object]:
        store = running.services.store
        found: list[object] = [waiting(store), store._commit_log.end, halves(running)]
        for topic, number in sorted(store._queues.by_key):
            queue = store._queues.by_key[topic, number]
            found.append((topic, number, queue.min_offset, queue.max_offset, queue.next_offset, bytes(queue.tail)))
        nodes = running.services._fs.nodes
        return [*found, {path: bytes(node.content) for path, node in list(nodes.items()) if "commitlog" in str(path)}]


def waiting(store: MessageStore) -> list[tuple[object, ...]]:
    """The keys that wait for the index; those of one batch have no order."""
    keys = store._index.waiting
    packed = keys._part(0, len(keys)) if isinstance(keys, PackedKeys) else accelerator().pack_keys(keys.fields)
    return sorted(struct.iter_unpack("<Iqq", packed))


def halves(running: InProcess) -> list[tuple[object, ...]]:
    """The cached half messages: offsets in the log and in the half topic, group, and what is delivered later."""
    return [(place, half.queue_offset, half.group, half.real) for place, half in running.services._halves._kept.items()]


ROOT, GUEST = Credentials("root", "root-secret"), Credentials("guest", "guest-secret")
SIGNERS = [ROOT, ROOT, ROOT, GUEST, GUEST, Credentials("root", "wrong"), Credentials("nobody", "x"), None]


class GuardedPair(Pair):
    """The same with access control: root may do everything, guest may send to topic t."""

    def __init__(self, **settings: str) -> None:
        self.settings = settings
        super().__init__()

    def _broker(self) -> InProcess:
        made = super()._broker()
        settings = {
            "authenticationEnabled": "true", "authorizationEnabled": "true",
            "initAuthenticationUser": '{"username": "root", "password": "root-secret"}', **self.settings,
        }  # fmt: skip
        access = AuthDispatcher(AccessSettings.of(settings), lambda: None, lambda _: None, "c")
        access.table.create_user(User(name="guest", password="guest-secret"))
        entry = EntryInfo(resource="Topic:t", actions=["Pub"], decision="Allow")
        policy = PolicyInfo(policy_type="Custom", entries=[entry])
        list(access.table.put_acl("User:guest", AclInfo(subject="User:guest", policies=[policy])))
        made.dispatcher = Dispatcher(
            made.services.router(), after_read=made.services.store.commit_pending, on_hold=made.services.keep_hold,
            authorize=access.admit, authorize_run=access.admit_run,
        )  # fmt: skip
        return made

    def first(self) -> list[bytes]:
        return [plain_send(queue, "FIRST", signer=ROOT) for queue in range(3)]


@st.composite
def signed_sends(draw: st.DrawFn) -> bytes:
    """The frame of a signed send: mostly right, sometimes changed afterwards."""
    ext = FIELDS | draw(st.one_of(plain_fields, plain_fields, fields)) | {"i": draw(properties)}
    body = draw(st.binary(max_size=100))
    signer = draw(st.sampled_from(SIGNERS))
    if signer is not None:
        ext = signer.signed(ext, body)
        ext |= draw(st.sampled_from([{}, {}, {}, {"e": "2"}, {"zz": "x"}, {"Signature": "AA=="}, {"AccessKey": ""}]))
    flag, opaque = draw(st.sampled_from([0, 0, 0, 2])), draw(st.integers(0, 99))
    command = Command(RequestCode.SEND_MESSAGE_V2, opaque, flag, ext=ext, body=body)
    return encode_command(command, draw(st.sampled_from([JSON, JSON, ROCKETMQ])))


@given(
    st.lists(st.lists(signed_sends(), max_size=6), max_size=3),
    st.sampled_from(
        [
            {},
            {},
            {"authorizationEnabled": "false"},
            {"authorizationWhitelist": "310"},
            {"authenticationWhitelist": "310"},
        ]
    ),
)
@settings(max_examples=examples(300))
def test_only_what_is_signed_and_permitted_is_stored(reads: list[list[bytes]], lists: dict[str, str]) -> None:
    with pair(GuardedPair(**lists)) as both:
        for frames in reads:
            both.feed(b"".join(frames))


def test_signed_sends_are_stored_at_once() -> None:
    with pair(GuardedPair()) as both:
        calls = [0]
        store = both.fast.services.store
        append = store._writer.append
        store._writer.append = lambda record: (calls.append(1), append(record))[1]
        both.feed(b"".join(plain_send(i % 3, str(i), signer=GUEST) for i in range(9)))
        assert calls == [0]
        both.feed(b"".join(plain_send(i % 3, str(i), signer=None if i == 7 else GUEST) for i in range(9)))
        assert calls == [0]
        assert store.queue_range("t", 0)[1] == 7


@contextmanager
def pair(both: Pair | None = None) -> Iterator[Pair]:
    both = both or Pair()
    try:
        yield both
    finally:
        both.plain.services.close()
        both.fast.services.close()


@given(st.lists(st.lists(sends(), max_size=6), max_size=4))
@settings(max_examples=examples(300))
def test_both_store_and_answer_the_same(reads: list[list[bytes]]) -> None:
    with pair() as both:
        for frames in reads:
            both.feed(b"".join(frames))


@given(st.lists(sends(), min_size=1, max_size=6), st.lists(st.integers(1, 400), max_size=8))
def test_wherever_reads_end(frames: list[bytes], sizes: list[int]) -> None:
    data = b"".join(frames)
    with pair() as both:
        for size in sizes:
            both.feed(data[:size])
            data = data[size:]
        both.feed(data)


@given(st.lists(sends(), min_size=1, max_size=4), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4))
@settings(max_examples=examples(300))
def test_whatever_bytes_are_wrong(frames: list[bytes], wrong: list[tuple[int, int]]) -> None:
    data = bytearray(b"".join(frames))
    for at, value in wrong:
        data[at % len(data)] = value
    with pair() as both:
        both.feed(bytes(data))


def plain_send(queue: int, key: str, more: str = "", body: bytes = b"body", signer: Credentials | None = None) -> bytes:
    ext = FIELDS | {"e": str(queue), "i": f"UNIQ_KEY\x01{key}\x02TAGS\x01A\x02{more}"}
    if signer is not None:
        ext = signer.signed(ext, body)
    return encode_command(Command(RequestCode.SEND_MESSAGE_V2, queue, ext=ext, body=body))


def test_runs_go_through_ends_of_files_and_around_other_sends() -> None:
    with pair() as both:
        for turn in range(20):
            both.feed(
                b"".join(
                    plain_send(
                        i % 3,
                        f"{turn}-{i}",
                        "DELAY\x012\x02" if i % 7 == 6 else "KEYS\x01k1  k2\x02",
                        b"b" * (turn * 13 + 1),
                    )
                    for i in range(30)
                )
            )
        assert both.runs > 20
        assert both.plain.services.store._commit_log.end > 10 * LOG_FILE


def test_a_run_is_answered_with_the_error_of_its_write() -> None:
    with pair() as both:
        for running in (both.plain, both.fast):
            running.services._fs.failing.add("write")
        both.feed(plain_send(0, "A") + plain_send(1, "B"))
        for running in (both.plain, both.fast):
            running.services._fs.failing.clear()


def test_an_ordinary_send_is_plain() -> None:
    """That the properties above compare something."""
    [run] = RunDecoder(MAX_FRAME, accelerator()).feed(plain_send(0, "A") + plain_send(1, "B"))
    assert not isinstance(run, Frame)
    assert run.kinds() == [("t", 0, 0, "TAGS\x01A\x02", ""), ("t", 1, 0, "TAGS\x01A\x02", "")]
    assert run.frame(1)[2] == b"body"


class WaitingPair(Pair):
    """The same under SYNC_FLUSH: answers wait for the disk. ``heard`` are those to the last read."""

    def __init__(self) -> None:
        self.late: list[bytearray] = [bytearray(), bytearray()]
        self.heard = b""
        super().__init__()

    def _broker(self) -> InProcess:
        store = {
            "max_message_size": MAX_BODY, "mapped_file_size_commit_log": LOG_FILE, "timer_wheel_enable": False,
            "flush_disk_type": "SYNC_FLUSH",
        }  # fmt: skip
        made = InProcess(Path("/store"), store, fs=MemoryFileSystem())
        made.services.sender._property_writer._new_key = lambda: "MADE"
        return made

    def _serve(self, running: InProcess, items: Sequence[Item]) -> tuple[bytes, str]:
        late = self.late[running is self.fast]
        self.peer = Peer(PEER, ("127.0.0.1", 10_911), late.extend)
        return asyncio.run(self._serve_and_wait(running, items))

    async def _serve_and_wait(self, running: InProcess, items: Sequence[Item]) -> tuple[bytes, str]:
        found = super()._serve(running, items)
        for _ in range(5):  # turns in which the callbacks of the flush run
            await asyncio.sleep(0)
        assert len(running.services.waiting_sends) == 0
        running.services.waiting_sends._set_timer()  # none is left for the next loop
        return found

    def feed(self, data: bytes) -> None:
        super().feed(data)
        plain, self.heard = map(bytes, self.late)
        assert answers_by_number(plain) == answers_by_number(self.heard)
        for late in self.late:
            late.clear()


def answers_by_number(frames: bytes) -> list[tuple[int, bytes]]:
    """Answers in the order of their numbers; sends that end in the same place of the log are answered in any order."""
    return sorted((decode_command(frame).opaque, frame.header) for frame in FrameDecoder().feed(frames))


hasty = st.lists(
    st.tuples(st.sampled_from(["", "WAIT\x01false\x02", "WAIT\x01true\x02"]), st.integers(0, 2)), max_size=9
)


@given(st.lists(st.one_of(hasty, st.lists(sends(), max_size=6)), max_size=4))
@settings(max_examples=examples(100))
def test_answers_that_wait_for_the_disk_are_the_same(reads: list[list[Any]]) -> None:
    with pair(WaitingPair()) as both:
        for frames in reads:
            both.feed(
                b"".join(
                    one if isinstance(one, bytes) else plain_send(one[1], f"K{number}", one[0])
                    for number, one in enumerate(frames)
                )
            )


def test_a_run_is_stored_at_once_under_sync_flush_and_told_when_the_disk_fails() -> None:
    with pair(WaitingPair()) as both:
        appended: list[int] = []
        store = both.fast.services.store
        append = store._writer.append
        store._writer.append = lambda record: (appended.append(1), append(record))[1]
        both.feed(b"".join(plain_send(i % 3, str(i)) for i in range(9)))
        assert appended == []
        for running in (both.plain, both.fast):
            running.services._fs.failing.add("sync")
        both.feed(b"".join(plain_send(i % 3, f"B{i}") for i in range(9)))
        assert appended == []
        answers = [decode_command(frame) for frame in FrameDecoder().feed(both.heard)]
        assert {(one.code, "could not be synced" in (one.remark or ""), "msgId" in one.ext) for one in answers} == {
            (ResponseCode.FLUSH_DISK_TIMEOUT, True, True)
        }
        assert len(answers) == 9


# -- transactions


def half_send(queue: int, key: str, more: str = "") -> bytes:
    own = f"UNIQ_KEY\x01{key}\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02{more}"
    ext = FIELDS | {"e": str(queue), "f": "4", "i": own}
    return encode_command(Command(RequestCode.SEND_MESSAGE_V2, queue, ext=ext, body=f"body {key}".encode()))


def end(place: int, offset: int, outcome: int, flag: int, form: int = JSON) -> bytes:
    header = EndTransaction(
        producer_group="p", tran_state_table_offset=offset, commit_log_offset=place, commit_or_rollback=outcome,
        msg_id="m",
    )  # fmt: skip
    return encode_command(Command(RequestCode.END_TRANSACTION, 5, flag, ext=header.to_ext()), form)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("half"),
            st.integers(0, 2),
            st.sampled_from(
                [
                    "",
                    "TAGS\x01A\x02",
                    "KEYS\x01k1 k2\x02",
                    "DELAY\x012\x02",
                    "REAL_TOPIC\x01x\x02",
                    "PGROUP\x01q\x02",
                    "ä\x01ü\x02",
                ]
            ),
        ),
        st.tuples(st.just("end"), st.integers(0, 3), st.sampled_from([8, 8, 12, 0, 7]), st.sampled_from([2, 2, 2, 0])),
        st.tuples(st.just("plain"), st.integers(0, 2)),
    ),
    max_size=9,
)


@given(st.lists(steps, max_size=4), st.sampled_from([JSON, ROCKETMQ]))
@settings(max_examples=examples(200))
def test_transactions_are_the_same(reads: list[list[tuple[Any, ...]]], form: int) -> None:
    """Also where one-way ends are overtaken by the half messages of their read."""
    with pair() as both:
        both.feed(half_send(0, "FIRST"))
        for number, read in enumerate(reads):
            open_halves = halves(both.plain)
            frames = []
            for step, (what, *told) in enumerate(read):
                if what == "half":
                    frames.append(half_send(told[0], f"{number}-{step}", told[1]))
                elif what == "plain":
                    frames.append(plain_send(told[0], f"{number}-{step}"))
                elif open_halves:
                    place, offset, *_ = open_halves[told[0] % len(open_halves)]
                    assert isinstance(place, int)
                    assert isinstance(offset, int)
                    frames.append(end(place, offset, told[1], told[2], form))
            both.feed(b"".join(frames))
            for running in (both.plain, both.fast):
                running.run_callbacks()
            both.feed(b"")


def test_half_messages_between_ends_are_stored_at_once() -> None:
    with pair() as both:
        both.feed(half_send(0, "A"))
        both.feed(half_send(1, "B") + half_send(2, "C"))
        before, singly = both.runs, [0]
        store = both.fast.services.store
        append = store._writer.append
        store._writer.append = lambda record: (singly.append(1), append(record))[1]
        places = [(place, offset) for place, offset, *_ in halves(both.fast)]
        frames = [half_send(number, f"D{number}") + end(*place, 8, 2) for number, place in enumerate(places)]
        both.feed(b"".join(frames))
        assert (both.runs, singly) == (before + 1, [0]), "one run, and the ends wait for the next turn"
        for running in (both.plain, both.fast):
            running.run_callbacks()
        both.feed(b"")
        assert (len(singly), len(halves(both.fast))) == (4, 3)
        [run, first, second] = RunDecoder(MAX_FRAME, accelerator(), (37,)).feed(
            half_send(0, "E") + end(1, 1, 8, 2) + half_send(1, "F") + end(1, 1, 8, 2, ROCKETMQ)
        )
        assert not isinstance(run, Frame)
        assert isinstance(first, Frame)
        assert isinstance(second, Frame)
        assert (len(run), first.serialize_type, second.serialize_type) == (2, JSON, ROCKETMQ)
        for flag, codes in ((0, (37,)), (1, (37,)), (3, (37,)), (2, (36,)), (2, ())):
            for kind in (JSON, ROCKETMQ):
                items = RunDecoder(MAX_FRAME, accelerator(), codes).feed(
                    half_send(0, "E") + end(1, 1, 8, flag, kind) + half_send(1, "F")
                )
                assert [isinstance(item, Frame) for item in items] == [False, True, False]
        items = RunDecoder(MAX_FRAME, accelerator(), (37,)).feed(end(1, 1, 8, 2) + half_send(0, "E"))
        assert [isinstance(item, Frame) for item in items] == [True, False], "nothing overtakes what is first"
