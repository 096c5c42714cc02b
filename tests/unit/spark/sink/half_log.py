"""A broker that keeps half messages and how each of them ended."""

from __future__ import annotations

from collections.abc import Collection

from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.half_messages import decode_half_positions, encode_offsets
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.command import Command
from tests.unit.arrow.scripted import answer

COMMIT, ROLLBACK = "8", "12"


class HalfLog:
    """Stores half messages and ends them; ``refused`` bodies are not stored, ``stuck`` offsets do not end."""

    def __init__(self, refused: Collection[bytes] = (), stuck: Collection[int] = ()) -> None:
        self.refused, self.stuck = refused, stuck
        self.stored: list[tuple[bytes, dict[str, str]]] = []
        self.sent_by: set[str] = set()
        """The producer groups of the half messages."""
        self.ended: dict[int, str] = {}
        """Half-topic offsets of messages that ended, and how."""
        self.ended_by: set[str] = set()

    def __call__(self, request: Command) -> Command:
        if request.code == RequestCode.END_TRANSACTIONS:
            return self._end(request)
        assert request.code == RequestCode.SEND_HALF_MESSAGES
        self.sent_by.add(request.ext["a"])
        found = [(body, decode_properties(own)) for _, body, own in decode_batch(request.body)]
        if any(body in self.refused for body, _ in found):
            return answer(ResponseCode.NO_PERMISSION, remark="sending is forbidden")
        first = len(self.stored)
        self.stored += found
        places = [number * 100 for number in range(first, len(self.stored))]
        return answer(body=encode_offsets(places), queueId=request.ext["e"], queueOffset=first)

    def _end(self, request: Command) -> Command:
        self.ended_by.add(request.ext["producerGroup"])
        logged, offsets = decode_half_positions(request.body)
        assert list(logged) == [offset * 100 for offset in offsets]
        assert not self.ended.keys() & set(offsets), "a transaction ends once"
        self.ended |= {offset: request.ext["commitOrRollback"] for offset in offsets if offset not in self.stuck}
        return answer(body=bytes(offset not in self.stuck for offset in offsets))
