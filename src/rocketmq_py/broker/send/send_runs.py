"""Store runs of plain sends: consecutive sends in one read that need no special treatment.

The accelerator finds runs, and encodes records and answers. This module decides, once for each kind of sends in a run
and by the rules of :mod:`rocketmq_py.broker.send.send`, which need no special treatment. Others are stored one by one.
"""

from __future__ import annotations

from functools import partial

from rocketmq_py.accelerator import RunAnswers, SendKind, SendRun
from rocketmq_py.broker.records.message_properties import PropertyWriter
from rocketmq_py.broker.send.send_validation import SendTargets
from rocketmq_py.core.metrics.counters import FIFO, NORMAL, MessageCounts
from rocketmq_py.protocol.sys_flag import HOSTS_V6, INNER_BATCH, TRANSACTION_MASK
from rocketmq_py.server import Peer, Reply, RunReply, encode_reply
from rocketmq_py.store import KindTarget, MessageStore
from rocketmq_py.wire.frame import HEAD_SIZE

_SHARDED = "__SHARDINGKEY\x01"
UNCOMMON_FLAGS = TRANSACTION_MASK | INNER_BATCH | HOSTS_V6
_CACHED, _SHORT = 32_768, 128
"""So many kinds of sends are cached at most, of those with so many characters of properties: 20 MiB."""


class SendRuns:
    """Stores the plain sends of runs.

    A send is plain if its topic and queue have been checked by an earlier send, and it is neither transactional nor a
    batch, goes to no retry topic and has common properties (see :class:`~.PropertyWriter`).

    :param host_hex: this broker's address in hexadecimal digits, the beginning of every message id.
    :param extra: fields of every answer to a send.
    """

    def __init__(
        self, store: MessageStore, targets: SendTargets, property_writer: PropertyWriter, host_hex: str,
        extra: dict[str, str],
    ) -> None:  # fmt: skip
        self._append = store.append_run
        self._log_end = store.appended_end
        self._known, self._plain = targets.known, targets.plain
        self._common_tags_code = property_writer.common_tags_code
        self._suffix = property_writer.suffix.encode()
        self._host = host_hex.encode()
        self._pieces = answer_pieces(extra)

    def send(self, peer: Peer, run: SendRun, begin: int, counts: MessageCounts | None = None) -> RunReply | None:
        """Store the sends of a run from index ``begin`` on, up to the first one that is not plain.

        Returns None, without storing anything, if that is already the send at ``begin``.

        :param counts: counts stored messages; sends to different topics, or of different types, end a run then.
        """
        kinds = run.kinds()
        plain = self._plain.get
        targets = [plain(kind) or self._target(kind) for kind in kinds]
        if counts is None:
            found = self._append(run, begin, targets, peer.host, self._suffix)
        else:
            found = self._append_counted(peer, run, begin, kinds, targets, counts)
        if found is None:
            return None
        stop, answers = found
        return RunReply(stop, answers.opaques, partial(answers.encode, self._pieces, self._host))

    def _append_counted(
        self, peer: Peer, run: SendRun, begin: int, kinds: list[SendKind], targets: list[KindTarget | None],
        counts: MessageCounts,
    ) -> tuple[int, RunAnswers] | None:  # fmt: skip
        """Store the sends up to the first that is not plain or differs in topic or type, and count them."""
        shown = [(topic, FIFO if _SHARDED in others else NORMAL) for topic, _, _, others, _ in kinds]
        for topic, kind in dict.fromkeys(shown):
            same = [target if one == (topic, kind) else None for target, one in zip(targets, shown, strict=True)]
            before = self._log_end()
            found = self._append(run, begin, same, peer.host, self._suffix)
            if found is not None:
                count = found[0] - begin
                counts.sent_many(topic, kind, count, self._log_end() - before, count)
                return found
        return None

    def _target(self, kind: SendKind) -> KindTarget | None:
        topic, queue_id, sys_flag, others, _ = kind
        target = self._known.get((topic, queue_id))
        if target is None or target.is_retry or sys_flag & UNCOMMON_FLAGS:
            return None
        tags_code = self._common_tags_code(others)
        if tags_code is None:
            return None
        found = KindTarget(target.topic, target.queue_id, sys_flag | target.sys_flag, tags_code)
        if len(others) <= _SHORT:
            if len(self._plain) >= _CACHED:
                self._plain.clear()
            self._plain[kind] = found
        return found


def send_fields(msg_id: str, queue: str, offset: str, uniq_key: str, extra: dict[str, str]) -> dict[str, str]:
    """Return the header fields of the answer to a send."""
    return {"msgId": msg_id, "queueId": queue, "queueOffset": offset, "transactionId": uniq_key, **extra}


def answer_pieces(extra: dict[str, str]) -> tuple[bytes, ...]:
    """Split the encoded header of an answer at its variable fields, which are left out.

    These are the request's number (opaque), message id, queue, offset and unique key, so there are six parts.
    """
    number, *marks = (b"1234567890", b"<id>", b"<queue>", b"<offset>", b"<key>")
    msg_id, queue, offset, uniq_key = (mark.decode() for mark in marks)
    left = encode_reply(Reply(ext=send_fields(msg_id, queue, offset, uniq_key, extra)), int(number))[HEAD_SIZE:]
    pieces = []
    for mark in (number, *marks):
        piece, _, left = left.partition(mark)
        pieces.append(piece)
    return (*pieces, left)
