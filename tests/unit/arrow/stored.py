"""A scripted broker with messages: its offsets and pulls, and the sends that it gets."""

from __future__ import annotations

from rocketmq_py.model import RecordHead
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import encode_record, pack_host
from tests.unit.arrow.scripted import answer

HOST = pack_host("127.0.0.1", 10911)
STORED_AT = 1_700_000_000_000
"""Milliseconds, of the message with offset 0; each next one is a second later."""


def record(queue_id: int, offset: int) -> bytes:
    head = RecordHead(0, 0, 0, queue_id, 7, offset, 9, 0, 5, HOST, STORED_AT + 1000 * offset, HOST, 0, 0, 0)
    return encode_record(head, "t", b"%d" % offset, b"TAGS\x01%c\x02" % b"AB"[offset % 2])


class StoredMessages:
    """Every queue has ``count`` messages with tags A and B in turn."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, request: Command) -> Command:
        match request.code:
            case RequestCode.GET_MIN_OFFSET:
                return answer(offset=0)
            case RequestCode.GET_MAX_OFFSET:
                return answer(offset=self.count)
            case RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                seconds = -((STORED_AT - int(request.ext["timestamp"])) // 1000)
                return answer(offset=min(max(seconds, 0), self.count))
            case RequestCode.PULL_MESSAGE:
                return self.pulled(int(request.ext["queueId"]), int(request.ext["queueOffset"]), request)
        return answer(msgId="A" * 32, queueId=0, queueOffset=0)

    def pulled(self, queue_id: int, start: int, request: Command) -> Command:
        stop = min(start + min(int(request.ext["maxMsgNums"]), 32), self.count)
        body = b"".join(record(queue_id, offset) for offset in range(start, stop))
        code = ResponseCode.SUCCESS if body else ResponseCode.PULL_NOT_FOUND
        at = {"suggestWhichBrokerId": 0, "nextBeginOffset": stop, "minOffset": 0, "maxOffset": self.count}
        return answer(code, body, "FOUND" if body else "NO_NEW_MSG", **at)
