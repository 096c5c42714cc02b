"""The other brokers of this name, asked for records that this broker's commit log has lost."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.errors import BrokerError, RocketMQError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import ViewMessage
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store.log.pieces import Piece, is_same, mends_head
from rocketmq_py.store.read.scrub import Gap, Scrub
from rocketmq_py.store.read.strays import Place
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

_SECONDS = 10.0
_MOST_BYTES = 1024 * 1024

Members = Callable[[], Awaitable[dict[int, str]]]


class Replicas:
    """Reads records from the master of this broker, if it is a slave, and from all slaves of its name.

    Each record is at the same offset in the logs of all of them.

    :param members: returns the addresses of this name's brokers by id, as the name servers know them.
    :param client: sends the requests.
    :param address: this broker's registered address.
    """

    def __init__(self, members: Members, role: Role, client: RpcClient, address: str) -> None:
        self._members = members
        self._role = role
        self._client = client
        self._address = address
        self._failing: set[str] = set()

    async def pieces(self, scrub: Scrub, gap: Gap, at: int) -> tuple[str, list[Piece]]:
        """Read what fills a gap from ``at`` on, up to 1 MiB; return it and the address of the broker that has it.

        Without pieces if no other broker has a whole record there, and the same records near the gap.
        """
        for address in await self._addresses():
            try:
                found = await self._from(address, scrub, gap, at)
            except RocketMQError as e:
                if address not in self._failing:  # log once, not for each record
                    self._failing.add(address)
                    _log.warning("replica %s cannot be asked for damaged records: %s", address, e)
                continue
            self._failing.discard(address)
            if found:
                return address, found
        return "", []

    async def _addresses(self) -> list[str]:
        members = await self._members()
        known = [self._role.master.address, *(members[broker_id] for broker_id in sorted(members))]
        return [address for address in dict.fromkeys(known) if address and address != self._address]

    async def _from(self, address: str, scrub: Scrub, gap: Gap, at: int) -> list[Piece]:
        if gap.head is not None:
            return await self._with_head(address, scrub, gap, gap.head)
        before, after = [await self._near(address, scrub, place) for place in (gap.before, gap.after)]
        near = [(piece, own) for piece, own in (before, after) if piece is not None]
        other = next((piece for piece, own in near if not is_same(piece, own)), None)
        if other is not None:
            _log.warning("replica %s has another record at %d of the commit log: not used", address, other.begin)
        if not near or other is not None:
            return []
        pieces: list[Piece] = []
        if before[0] is not None and before[0].end == at == gap.begin and before[0].data != before[1]:
            pieces.append(before[0])  # no checksum covers properties: the damage begins in those
        begin = at
        while at < gap.end and at - begin < _MOST_BYTES:
            piece = scrub.piece(at, gap.end, await self._read(address, at))
            if piece is None:
                return pieces if at > begin else []
            pieces.append(piece)
            at = piece.end
        return pieces

    async def _with_head(self, address: str, scrub: Scrub, gap: Gap, head: Place) -> list[Piece]:
        """Return the record of a gap as a replica has it, if it differs from the own one in the head only."""
        own = scrub.own((gap.begin, gap.end - gap.begin))
        piece = scrub.piece(gap.begin, gap.end, await self._read(address, gap.begin))
        return [piece] if own is not None and piece is not None and mends_head(piece, own, *head) else []

    async def _near(self, address: str, scrub: Scrub, place: tuple[int, int]) -> tuple[Piece | None, bytes]:
        """Return a whole record of this log near a gap, and what a replica has there; None if nothing."""
        own = scrub.own(place)
        if own is None:
            return None, b""
        return scrub.piece(place[0], sum(place), await self._read(address, place[0])), own

    async def _read(self, address: str, offset: int) -> bytes:
        """Return the record at an offset of a replica's log; nothing if it has none there."""
        command = Command(RequestCode.VIEW_MESSAGE_BY_ID, ext=ViewMessage(offset=offset).to_ext())
        try:
            reply = await self._client.ask(address, command, _SECONDS)
        except BrokerError as e:
            if e.code == ResponseCode.SYSTEM_ERROR:
                return b""
            raise
        return bytes(reply.body)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
