"""Damage of the timer log and its checkpoint is found, and all timed messages are delivered even so."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from rocketmq_py.broker.timer.timer_faults import _entry_fault, check_fault
from rocketmq_py.core.timer.timers import DEFAULT, DELETE, ROLL
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.send import RecallMessage
from rocketmq_py.store.timer.timer_wheel import UNIT_SIZE, TimerCheckpoint, TimerUnit
from rocketmq_py.wire.record import decode_record
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.store.memoryfs import MemoryFileSystem

COUNT = 6
SIZE = 1 << 16


def fill(running: InProcess) -> None:
    client = running.connect()
    for i in range(COUNT):
        header = send("t", properties={"TIMER_DELAY_SEC": str(30 + i)})
        assert client.ask(Code.SEND_MESSAGE_V2, header, b"%d" % i).code == 0
    running.turn()
    running.turn()


def delivered(running: InProcess) -> list[bytes]:
    for _ in range(60):
        running.turn(1000)
    store = running.services.store
    records = (store.record_at_queue("t", 0, offset) for offset in range(store.queue_range("t", 0)[1]))
    return sorted(decode_record(record).body for record in records if record is not None)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


LOG, CHECK, WHEEL = "timerlog/00000000000000000000", "config/timercheck", "timerwheel"
DAMAGES = {
    "zeros": lambda root: (root / LOG).write_bytes(bytes(SIZE)),
    "emptied": lambda root: (root / LOG).write_bytes(b""),
    "cut": lambda root: (root / LOG).write_bytes((root / LOG).read_bytes()[: 2 * UNIT_SIZE + 9]),
    "size of a unit": lambda root: flip(root / LOG, UNIT_SIZE + 3),
    "time of a unit": lambda root: flip(root / LOG, 3 * UNIT_SIZE + 21),
    "place of a message": lambda root: flip(root / LOG, 2 * UNIT_SIZE + 35),
    "cut wheel of garbage": lambda root: (root / WHEEL).write_bytes(b"\xa5" * 28),
    "time in the checkpoint": lambda root: flip(root / CHECK, 2),
    "a time in the checkpoint that is not over": lambda root: flip(root / CHECK, 6),
    "negative positions": lambda root: (root / CHECK).write_bytes(pack(">7q", 1, -5, -9, *bytes(4)).ljust(4096, b"\0")),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_all_timed_messages_are_delivered_after_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: object
) -> None:
    settings = {"mapped_file_size_timer_log": SIZE}
    with broker(tmp_path, store=settings) as running:
        fill(running)
        now = running.now
    damage(tmp_path)  # type: ignore[operator]
    with broker(tmp_path, store=settings, now=now) as running:
        assert delivered(running) == [b"%d" % i for i in range(COUNT)]


@pytest.mark.parametrize("precision", [100, 200, 500, 1_000])
def test_no_bit_of_the_time_in_a_checkpoint_changes_unnoticed(precision: int) -> None:
    now = 1_767_225_600_000
    check = TimerCheckpoint(MemoryFileSystem(), Path("/timercheck"))
    for right in (0, now, now + 60_000, now - 7 * precision):
        check.read_ms = right
        assert check_fault(check, now, 0, precision) is None
        for bit in range(64):
            value = right ^ 1 << bit
            check.read_ms = value - (1 << 64 if value >> 63 else 0)
            assert check_fault(check, now, 0, precision) is not None, (right, bit)


@pytest.mark.parametrize(
    ("read_ms", "log_end", "queue_offset", "is_fault"),
    [
        (0, 0, 0, False), (0, 52, 5, False), (0, 52, 6, True), (0, 52, -1, True), (0, -1, 5, True),
        (-1_000, 52, 5, True),
    ],
)  # fmt: skip
def test_positions_that_cannot_be_are_a_fault(read_ms: int, log_end: int, queue_offset: int, is_fault: bool) -> None:
    check = TimerCheckpoint(MemoryFileSystem(), Path("/timercheck"))
    check.read_ms, check.log_end, check.queue_offset = read_ms, log_end, queue_offset
    fault = check_fault(check, 1_767_225_600_000, 5, 1_000)
    assert fault == (f"its checkpoint has impossible positions {log_end} and {queue_offset}" if is_fault else None)


def test_an_undamaged_log_is_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"mapped_file_size_timer_log": SIZE}
    with broker(tmp_path, store=settings) as running:
        fill(running)
        now = running.now
    with broker(tmp_path, store=settings, now=now) as running:
        assert delivered(running) == [b"%d" % i for i in range(COUNT)]
        now = running.now
    with broker(tmp_path, store=settings, now=now) as running:
        assert len(delivered(running)) == COUNT
    assert "is written again" not in caplog.text


def flip_magic(root: Path, number: int, bit: int, before: int) -> None:
    """Flip a bit of the flags of an entry in the timer log."""
    content = bytearray((root / LOG).read_bytes())
    at = number * UNIT_SIZE + 15
    assert content[at] == before
    content[at] ^= bit
    (root / LOG).write_bytes(content)


@pytest.mark.parametrize("bit", [ROLL, DELETE, 8])
def test_a_message_whose_entry_has_wrong_flags_is_delivered(tmp_path: Path, bit: int) -> None:
    with broker(tmp_path) as running:
        fill(running)
        now = running.now
    flip_magic(tmp_path, 2, bit, DEFAULT)
    with broker(tmp_path, now=now) as running:
        assert delivered(running) == [b"%d" % i for i in range(COUNT)]


def test_a_distant_message_whose_entry_has_lost_its_flag_goes_round_the_wheel(tmp_path: Path) -> None:
    settings = {"timer_roll_window_slot": 40}
    with broker(tmp_path, store=settings) as running:
        header = send("t", properties={"TIMER_DELAY_SEC": "55"})
        assert running.connect().ask(Code.SEND_MESSAGE_V2, header, b"x").code == 0
        running.turn()
        now = running.now
    flip_magic(tmp_path, 0, ROLL, DEFAULT | ROLL)
    with broker(tmp_path, store=settings, now=now) as running:
        running.turn(50_000)
        assert running.services.store.queue_range("t", 0)[1] == 0
        assert delivered(running) == [b"x"]


def test_a_recall_whose_entry_has_lost_its_flag_cancels_the_message(tmp_path: Path) -> None:
    settings = {"recall_message_enable": True}
    with broker(tmp_path, **settings) as running:
        client = running.connect()
        header = send("t", properties={"TIMER_DELAY_SEC": "30", "UNIQ_KEY": "U"})
        handle = client.ask(Code.SEND_MESSAGE_V2, header, b"x").ext["recallHandle"]
        assert client.ask(Code.RECALL_MESSAGE, RecallMessage(topic="t", recall_handle=handle)).code == 0
        fill(running)
        now = running.now
    flip_magic(tmp_path, 1, DELETE, DEFAULT | DELETE)
    with broker(tmp_path, now=now, **settings) as running:
        assert delivered(running) == [b"%d" % i for i in range(COUNT)]


def entry(previous: int, slot: int) -> TimerUnit:
    return TimerUnit(previous, 0, slot, 0, physical=7, size=100, topic_hash=0)


@pytest.mark.parametrize(
    ("previous", "is_fault"),
    [(-1, False), (0, True), (52, False), (104, True), (156, True), (208, True), (39, False)],
    ids=["first", "of another slot", "of its slot", "no entry", "itself", "later", "before those looked at"],
)
def test_an_entry_follows_an_earlier_one_of_its_slot(previous: int, is_fault: bool) -> None:
    start = 0 if previous >= 0 and previous != 39 else 52
    units = {0: entry(-1, 2_000), 52: entry(-1, 1_000), 156: entry(previous, 1_000), 208: entry(156, 1_000)}
    seen = {position: unit for position, unit in units.items() if position >= start}
    fault = _entry_fault(seen, TimerCheckpoint(MemoryFileSystem(), Path("/timercheck")), lambda _: True)
    assert (fault == "the entry at 156 of its log follows none of its slot") is is_fault
    assert (fault is None) is not is_fault
