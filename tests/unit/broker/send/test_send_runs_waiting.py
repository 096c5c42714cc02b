"""Sends of a run whose answers wait until the messages are safe: which are stored together, and what they are told."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.send.ack_waiter import AckWaiter
from rocketmq_py.broker.send.half_messages import HalfMessageCache
from rocketmq_py.broker.send.send_runs import SendRuns, answer_pieces
from rocketmq_py.core.metrics.counters import MessageCounts
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.server import Hold, Reply, RunReply
from rocketmq_py.store import AppendedRun, KindTarget, NewRecord
from rocketmq_py.wire.command import decode_command
from rocketmq_py.wire.frame import FrameDecoder, encode_frame

PEER: Any = SimpleNamespace(host=b"\x7f\0\0\x01\0\0\0\x05")
EXTRA = {"MSG_REGION": "DefaultRegion"}
WAITS, HASTY, SHARDED = "A\x011\x02", "WAIT\x01false\x02", "__SHARDINGKEY\x011\x02"
HALF = "TRAN_MSG\x01true\x02"
HASTY_HALF = HALF + HASTY
RECORD = 100


class Answers:
    """Answers to sends numbered like their opaques; those below 0 are one-way."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = [number for number in numbers if number >= 0]

    def opaques(self) -> list[int]:
        return self._numbers

    def messages(self, status: bytes) -> list[bytes]:
        return [status + b"%d" % number for number in self._numbers]

    def encode(self, pieces: Sequence[bytes], host: bytes) -> bytes:
        """As the accelerator inserts the fields between the pieces."""
        frames = []
        for number in self._numbers:
            fields = (b"%d" % number, host + b"%016X" % number, b"1", b"7", b"KEY")
            header = b"".join(piece + field for piece, field in zip(pieces, (*fields, b""), strict=True))
            frames.append(encode_frame(header))
        return b"".join(frames)


def kind(sent: tuple[int, str, str]) -> tuple[str, int, int, str, str]:
    _, topic, others = sent
    return topic, 1, 4 if others in (HALF, HASTY_HALF) else 0, others, ""


class Site:
    """A broker's runs: ``sends`` is a list of opaque, topic and properties; ``stored`` are the numbers of each call."""

    def __init__(
        self, sends: list[tuple[int, str, str]], *, wanted: int | None = 0, flush: str | None = "SYNC_FLUSH"
    ) -> None:
        self.sends, self.stored, self.end = sends, list[list[int]](), 1_000
        store: Any = SimpleNamespace(
            append_run=self._append,
            appended_end=lambda: self.end,
            config=SimpleNamespace(flush_disk_type=flush),
            lent=None,
        )
        config: Any = SimpleNamespace(sync_flush_timeout=5_000, slave_timeout=3_000, in_sync_replicas=1)
        waiter = AckWaiter(store, config, lambda: wanted, lambda: 50) if flush is not None else None
        writer: Any = SimpleNamespace(common_tags_code=lambda _: 0, half_fields=lambda _: (65, "p"), suffix="")
        target = SimpleNamespace(topic="t", queue_id=1, queue_text="1", is_retry=False, sys_flag=0)
        targets: Any = SimpleNamespace(known={("t", 1): target, ("u", 1): target}, plain={})
        targets.refuses_halves = False
        self.halves = HalfMessageCache()
        self.runs = SendRuns(store, targets, writer, "AB", EXTRA, self.halves, waiter)
        self.kinds = list(dict.fromkeys(map(kind, sends)))

    def _append(
        self, run: Any, begin: int, targets: list[KindTarget | None], host: bytes, suffix: bytes
    ) -> AppendedRun | None:
        stop, halves = begin, []
        while stop < len(self.sends):
            number = self.kinds.index(kind(self.sends[stop]))
            target = targets[number]
            if target is None:
                break
            if target.half is not None:
                own = b"own %d" % stop
                halves.append(((number, 50 + stop, 7 + stop), (b"body", own, f"U{stop}", "k1 k2"), (1, 2, 3)))
            stop += 1
        if stop == begin:
            return None
        self.stored.append([opaque for opaque, _, _ in self.sends[begin:stop]])
        self.end += RECORD * (stop - begin)
        return AppendedRun(stop, Answers(self.stored[-1]), halves)

    def send(self, begin: int = 0, counts: MessageCounts | None = None) -> RunReply | None:
        run: Any = SimpleNamespace(kinds=lambda: self.kinds)
        return self.runs.send(PEER, run, begin, counts)


def test_the_answers_wait_until_the_last_message_is_safe() -> None:
    site = Site([(1, "t", WAITS), (2, "u", WAITS), (-3, "t", WAITS)])
    found = site.send()
    assert found is not None
    assert (site.stored, found.stop, found.opaques()) == ([[1, 2, -3]], 3, [1, 2]), "topics are not looked at"
    assert found.held is not None
    hold = found.held.hold
    assert (hold.deadline_ms, hold.payload.end, hold.payload.sends) == (5_050, 1_300, 2)
    assert (hold.payload.reply, hold.payload.slaves) == (Reply(), 0)


def test_answers_that_waited_are_those_of_other_sends() -> None:
    found = Site([(1, "t", WAITS), (2, "t", WAITS)]).send()
    assert found is not None
    assert found.held is not None
    good, bad = bytes(found.encode()), bytes(found.held.fail(Code.FLUSH_DISK_TIMEOUT, "gone"))
    for frames, code, remark in ((good, 0, None), (bad, 10, "gone")):
        answers = [decode_command(frame) for frame in FrameDecoder().feed(frames)]
        assert [(one.opaque, one.code, one.remark) for one in answers] == [(1, code, remark), (2, code, remark)]
        fields = {"msgId": f"AB{2:016X}", "queueId": "1", "queueOffset": "7", "transactionId": "KEY", **EXTRA}
        assert answers[1].ext == fields
    assert answer_pieces(EXTRA) == answer_pieces(EXTRA, 0, None)


def test_messages_that_need_not_wait_are_answered_at_once() -> None:
    site = Site([(1, "t", HASTY), (2, "t", HASTY), (3, "t", WAITS), (4, "t", HASTY)])
    held = []
    begin = 0
    while begin < 4:
        found = site.send(begin)
        assert found is not None
        held.append(found.held is not None)
        begin = found.stop
    assert (site.stored, held) == ([[1, 2], [3], [4]], [False, True, False])


def test_one_way_sends_have_no_answers_that_wait() -> None:
    site = Site([(-1, "t", WAITS), (-2, "t", WAITS)])
    found = site.send()
    assert found is not None
    assert (found.held, site.stored) == (None, [[-1, -2]])


def test_without_enough_replicas_only_messages_that_need_not_wait_are_stored() -> None:
    site = Site([(1, "t", WAITS), (2, "t", HASTY), (3, "t", WAITS)], wanted=None)
    assert site.send() is None
    found = site.send(1)
    assert found is not None
    assert (found.held, site.stored) == (None, [[2]])
    assert site.send(2) is None


@pytest.mark.parametrize(("wanted", "slaves"), [(0, None), (2, 2)])
def test_where_no_flush_is_awaited_only_slaves_are(wanted: int, slaves: int | None) -> None:
    found = Site([(1, "t", WAITS)], wanted=wanted, flush="ASYNC_FLUSH").send()
    assert found is not None
    hold: Hold | None = found.held.hold if found.held is not None else None
    assert (None if hold is None else hold.payload.slaves) == slaves


def test_messages_that_wait_are_counted() -> None:
    sends = [(1, "t", WAITS), (2, "t", HASTY), (3, "u", WAITS), (4, "u", WAITS), (5, "u", SHARDED)]
    site, counts = Site(sends), MessageCounts()
    begin, held = 0, []
    while begin < len(sends):
        found = site.send(begin, counts)
        assert found is not None
        begin = found.stop
        held.append(found.held is not None)
    assert (site.stored, held) == ([[1], [2], [3, 4], [5]], [True, False, True, True])
    seen = {key: (flow.messages, flow.size) for key, flow in counts.received.items()}
    assert seen == {("t", "normal"): (2, 200), ("u", "normal"): (2, 200), ("u", "fifo"): (1, 100)}


# -- half messages


def test_half_messages_are_cached_with_what_is_delivered_later() -> None:
    site = Site([(1, "t", WAITS), (2, "t", HALF), (3, "t", HALF)], flush=None)
    found = site.send()
    assert found is not None
    assert (found.stop, found.held, len(site.halves)) == (3, None, 2)
    header: Any = SimpleNamespace(
        commit_log_offset=52, tran_state_table_offset=9, producer_group="p", transaction_id="U2"
    )
    half = site.halves.find(header)
    assert half is not None
    assert half.real == NewRecord(
        "t", 1, b"body", b"own 2", 65, 8, 1, 2, PEER.host, 3, 52, "U2", "k1 k2",
    )  # fmt: skip
    assert (half.group, half.queue_offset, half.size) == ("p", 9, 4 + 5 + 1024)
    header.tran_state_table_offset = 8
    assert site.halves.find(header) is None
    site.halves.remove(51)
    site.halves.remove(52)
    assert site.halves._bytes == 0


@pytest.mark.parametrize("others", [HALF, HASTY_HALF])
def test_half_messages_that_may_not_be_safe_are_not_cached(others: str) -> None:
    """Their transactions must not end before; whoever does not wait may not end them from the cache either."""
    site = Site([(1, "t", others)])
    found = site.send()
    assert found is not None
    assert (found.held is None, len(site.halves)) == (others == HASTY_HALF, 0)


def test_half_messages_are_counted_by_the_topic_that_is_named() -> None:
    site, counts = Site([(1, "t", HALF), (2, "t", HALF), (3, "t", WAITS)], flush=None), MessageCounts()
    first = site.send(0, counts)
    assert first is not None
    assert (first.stop, len(site.halves)) == (2, 2)
    assert site.send(2, counts) is not None
    assert counts.open_halves == {"t": 2}
    seen = {key: (flow.messages, flow.size, flow.sizes.count) for key, flow in counts.received.items()}
    assert seen == {("RMQ_SYS_TRANS_HALF_TOPIC", "transaction"): (2, 200, 2), ("t", "normal"): (1, 100, 1)}
