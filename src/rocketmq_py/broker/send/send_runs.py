"""Store runs of plain sends: consecutive sends in one read that need no special treatment.

The accelerator finds runs, and encodes records and answers. This module decides, once for each kind of sends in a run
and by the rules of :mod:`rocketmq_py.broker.send.send`, which need no special treatment. Others are stored one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from rocketmq_py.accelerator import RunAnswers, SendKind, SendRun
from rocketmq_py.broker.records.message_properties import PropertyWriter
from rocketmq_py.broker.send.ack_waiter import AckWaiter, skips_wait
from rocketmq_py.broker.send.half_messages import QUEUE, HalfMessageCache, half_place
from rocketmq_py.broker.send.send_validation import SendTarget, SendTargets
from rocketmq_py.core.metrics.counters import FIFO, NORMAL, TRANSACTION, MessageCounts
from rocketmq_py.protocol.names import HALF_TOPIC
from rocketmq_py.protocol.sys_flag import HOSTS_V6, INNER_BATCH, TRANSACTION_MASK, TRANSACTION_PREPARED
from rocketmq_py.server import Peer, Reply, RunHold, RunReply, encode_reply
from rocketmq_py.store import AppendedRun, KindTarget, MessageStore
from rocketmq_py.wire.frame import HEAD_SIZE

_SHARDED = "__SHARDINGKEY\x01"
UNCOMMON_FLAGS = TRANSACTION_MASK | INNER_BATCH | HOSTS_V6
_CACHED, _SHORT = 32_768, 128
"""So many kinds of sends are cached at most, of those with so many characters of properties: 20 MiB."""


class _Sort(NamedTuple):
    """Those fields of sends in which all that are stored by one call must be equal; None where it does not matter.

    ``topic`` and ``message_type`` are counted together, and ``waits`` says whether the answers wait until the messages
    are safe.
    """

    topic: str | None
    message_type: str | None
    waits: bool


class SendRuns:
    """Stores the plain sends of runs.

    A send is plain if its topic and queue have been checked by an earlier send, and it is no batch, goes to no retry
    topic and has common properties (see :class:`~.PropertyWriter`), or those of a half message that are common
    otherwise.

    :param host_hex: this broker's address in hexadecimal digits, the beginning of every message id.
    :param extra: fields of every answer to a send.
    :param halves: caches half messages, unless their answers wait: their transactions must not end before.
    :param ack_waiter: decides which answers wait until the messages are safe; None: they never wait.
    """

    def __init__(
        self, store: MessageStore, targets: SendTargets, property_writer: PropertyWriter, host_hex: str,
        extra: dict[str, str], halves: HalfMessageCache, ack_waiter: AckWaiter | None = None,
    ) -> None:  # fmt: skip
        self._append = store.append_run
        self._log_end = store.appended_end
        self._lent = store.lent
        if store.lent is not None:
            targets.on_forget = store.lent.forget
        self._targets = targets
        self._known, self._plain = targets.known, targets.plain
        self._common_tags_code = property_writer.common_tags_code
        self._half_fields = property_writer.half_fields
        self._halves = halves
        self._suffix = property_writer.suffix.encode()
        self._host = host_hex.encode()
        self._extra = extra
        self._pieces = answer_pieces(extra)
        self._ack_waiter = ack_waiter

    def send(self, peer: Peer, run: SendRun, begin: int, counts: MessageCounts | None = None) -> RunReply | None:
        """Store the sends of a run from index ``begin`` on, up to the first one that is not plain.

        Returns None, without storing anything, if that is already the send at ``begin``.

        :param counts: counts stored messages; sends to different topics, or of different types, end a run then.
        """
        uncounted = counts is None and self._ack_waiter is None
        if uncounted and self._lent is not None:
            found = self._lent.append(run, begin, self._target, peer.host, self._suffix)
            if found is not None:
                return self._reply(found, None)
        kinds = run.kinds()
        plain = self._plain.get
        targets = [plain(kind) or self._known_target(kind) for kind in kinds]
        if uncounted:
            found = self._append(run, begin, targets, peer.host, self._suffix)
            if found is None:
                return None
            if found.halves:
                self._halves.add_run(found.halves, targets, peer.host)
            return self._reply(found, None)
        return self._send_sorted(peer, run, begin, kinds, targets, counts)

    def _send_sorted(
        self, peer: Peer, run: SendRun, begin: int, kinds: Sequence[SendKind], targets: Sequence[KindTarget | None],
        counts: MessageCounts | None,
    ) -> RunReply | None:  # fmt: skip
        """Store the sends up to the first that is not plain or is of another :class:`_Sort`, and count them.

        Sends that wait are left to the caller, who refuses them, while too few replicas are in sync.
        """
        waiter = self._ack_waiter
        sorts = [_sort(kind, waits=waiter is not None, counted=counts is not None) for kind in kinds]
        refused = waiter is not None and waiter.lacks_replicas()
        for sort in dict.fromkeys(sorts):
            if sort.waits and refused:
                continue
            same = [target if one == sort else None for target, one in zip(targets, sorts, strict=True)]
            before = self._log_end()
            found = self._append(run, begin, same, peer.host, self._suffix)
            if found is not None:
                if counts is not None:
                    _count(counts, sort, found.stop - begin, self._log_end() - before)
                if found.halves and waiter is None:
                    self._halves.add_run(found.halves, targets, peer.host)
                return self._reply(found, waiter if sort.waits else None)
        return None

    def _reply(self, found: AppendedRun, waiter: AckWaiter | None) -> RunReply:
        """Return the answers to what was stored; they wait as long as ``waiter`` says."""
        stop, answers, _ = found
        held = None
        answered = len(answers.opaques()) if waiter is not None else 0
        hold = waiter.hold_run(self._log_end(), answered) if waiter is not None and answered else None
        if hold is not None:
            held = RunHold(hold, lambda code, remark: self._encode_failed(answers, code, remark))
        encode = partial(answers.encode, self._pieces, self._host)
        return RunReply(stop, answers.opaques, encode, held, answers.messages)

    def _encode_failed(self, answers: RunAnswers, code: int, remark: str | None) -> bytes:
        """Encode the answers to sends that are stored but not safe, such as after a timeout."""
        return answers.encode(answer_pieces(self._extra, code, remark), self._host)

    def _known_target(self, kind: SendKind) -> KindTarget | None:
        """As :meth:`_target`; what is found is cached."""
        found = self._target(kind)
        if found is not None and len(kind[3]) <= _SHORT:
            if len(self._plain) >= _CACHED:
                self._plain.clear()
            self._plain[kind] = found
        return found

    def _target(self, kind: SendKind) -> KindTarget | None:
        """Return where to store the messages of a kind; None if they are not plain."""
        topic, queue_id, sys_flag, others, _ = kind
        target = self._known.get((topic, queue_id))
        if target is None or target.is_retry:
            return None
        if sys_flag & UNCOMMON_FLAGS == TRANSACTION_PREPARED:
            return self._half_target(target, sys_flag, others)
        return self._plain_target(target, sys_flag, others)

    def _plain_target(self, target: SendTarget, sys_flag: int, others: str) -> KindTarget | None:
        if sys_flag & UNCOMMON_FLAGS:
            return None
        tags_code = self._common_tags_code(others)
        if tags_code is None:
            return None
        return KindTarget(target.topic, target.queue_id, sys_flag | target.sys_flag, tags_code)

    def _half_target(self, target: SendTarget, sys_flag: int, others: str) -> KindTarget | None:
        fields = self._half_fields(others)
        if fields is None or self._targets.refuses_halves:
            return None
        tags_code, group = fields
        flags = sys_flag & ~TRANSACTION_MASK | target.sys_flag
        return KindTarget(HALF_TOPIC, QUEUE, flags, tags_code, half_place(target, group))


def _count(counts: MessageCounts, sort: _Sort, count: int, size: int) -> None:
    assert sort.topic is not None
    assert sort.message_type is not None
    if sort.message_type == TRANSACTION:
        counts.sent_halves(sort.topic, count, size, count)
    else:
        counts.sent_many(sort.topic, sort.message_type, count, size, count)


def _sort(kind: SendKind, *, waits: bool, counted: bool) -> _Sort:
    """Return the sort of sends of a kind.

    :param waits: whether answers wait, unless a message says otherwise.
    :param counted: whether messages are counted by topic and type.
    """
    topic, _, sys_flag, others, _ = kind
    waits = waits and not skips_wait(others)
    if not counted:
        return _Sort(None, None, waits)
    if sys_flag & TRANSACTION_MASK:
        return _Sort(topic, TRANSACTION, waits)
    return _Sort(topic, FIFO if _SHARDED in others else NORMAL, waits)


def send_fields(msg_id: str, queue: str, offset: str, uniq_key: str, extra: dict[str, str]) -> dict[str, str]:
    """Return the header fields of the answer to a send."""
    return {"msgId": msg_id, "queueId": queue, "queueOffset": offset, "transactionId": uniq_key, **extra}


def answer_pieces(extra: dict[str, str], code: int = 0, remark: str | None = None) -> tuple[bytes, ...]:
    """Split the encoded header of an answer at its variable fields, which are left out.

    These are the request's number (opaque), message id, queue, offset and unique key, so there are six parts.

    :param code: the response code; ``remark`` is its remark.
    """
    number, *marks = (b"1234567890", b"<id>", b"<queue>", b"<offset>", b"<key>")
    msg_id, queue, offset, uniq_key = (mark.decode() for mark in marks)
    reply = Reply(code, remark, ext=send_fields(msg_id, queue, offset, uniq_key, extra))
    left = encode_reply(reply, int(number))[HEAD_SIZE:]
    pieces = []
    for mark in (number, *marks):
        piece, _, left = left.partition(mark)
        pieces.append(piece)
    return (*pieces, left)
