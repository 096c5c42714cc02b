"""Whom a broker asks for records it has lost, and what it takes from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.ha.replicas import Replicas
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectError
from rocketmq_py.store.read.scrub import NOTHING, Gap
from rocketmq_py.store.read.strays import Place
from rocketmq_py.wire.command import Command
from tests.unit.broker.rpc import Others, reply
from tests.unit.store.helpers import Stores, fill
from tests.unit.store.memoryfs import MemoryFileSystem

OWN, ONE, TWO = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"


class Cluster:
    """A store of 14 records, and replicas with copies of its log."""

    def __init__(self, stores: Stores) -> None:
        store = stores.open()
        fill(store, 14)
        assert stores.fs is not None
        [node] = [node for path, node in stores.fs.nodes.items() if path.parent.name == "commitlog"]
        self.log = node.content
        self.places = [entry[:2] for entry in store.queue_entries("T", 0, 0, 14)]
        self.scrub = store.new_scrub()
        self.copies: dict[str, bytearray | int] = {ONE: bytearray(self.log), TWO: bytearray(self.log)}
        self.client = Others(self._answer)
        self.members = {0: OWN, 2: TWO, 1: ONE}
        config = BrokerConfig(broker_role="SLAVE", broker_id=7)
        self.role = Role(config, 1)
        self.subject = Replicas(self._members, self.role, self.client, OWN)

    async def _members(self) -> dict[int, str]:
        return self.members

    def _answer(self, address: str, command: Command) -> Reply | Exception:
        copy = self.copies.get(address)
        if copy is None:
            return ConnectError("nobody")
        if isinstance(copy, int):
            return reply(copy)
        at = int(command.ext["offset"])
        size = int.from_bytes(copy[at : at + 4], "big")
        return reply(0, bytes(copy[at : at + size])) if size else reply(1, remark="can not find message")

    def gap(self, first: int, last: int) -> Gap:
        begin, end = self.places[first][0], sum(self.places[last])
        return Gap(begin, end, self.places[first - 1] if first else NOTHING, self.places[last + 1])

    async def pieces(self, first: int, last: int) -> tuple[str, list[int]]:
        gap = self.gap(first, last)
        address, found = await self.subject.pieces(self.scrub, gap, gap.begin)
        for piece in found:
            assert piece.data == bytes(self.log[piece.begin : piece.end])
        return address, [piece.begin for piece in found]

    def begins(self, first: int, last: int) -> list[int]:
        return [at for at, _ in self.places[first : last + 1]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    stores = Stores(Path("/store"), MemoryFileSystem())
    yield Cluster(stores)
    stores.close()


async def test_the_first_broker_that_has_the_records_is_asked(cluster: Cluster) -> None:
    assert await cluster.pieces(3, 6) == (ONE, cluster.begins(3, 6))
    assert {asked.address for asked in cluster.client.asked} == {ONE}
    assert {asked.command.code for asked in cluster.client.asked} == {33}


async def test_a_slave_asks_its_master_first(cluster: Cluster) -> None:
    cluster.role.update_master("ns", TWO, None)
    assert await cluster.pieces(3, 3) == (TWO, cluster.begins(3, 3))


async def test_a_broker_that_is_alone_asks_nobody(cluster: Cluster) -> None:
    cluster.members = {0: OWN}
    assert await cluster.pieces(3, 3) == ("", [])
    assert cluster.client.asked == []


async def test_another_is_asked_if_one_cannot_be_reached(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    del cluster.copies[ONE]
    for _ in range(2):
        assert await cluster.pieces(3, 4) == (TWO, cluster.begins(3, 4))
    assert caplog.text.count(f"replica {ONE} cannot be asked for damaged records: nobody") == 1
    cluster.copies[ONE] = 16
    assert (await cluster.pieces(3, 4))[0] == TWO
    cluster.copies[ONE] = cluster.copies[TWO]
    assert (await cluster.pieces(3, 4))[0] == ONE
    cluster.copies[ONE] = 16
    assert (await cluster.pieces(3, 4))[0] == TWO
    assert caplog.text.count(f"replica {ONE} cannot be asked") == 2, "told again after it has worked"


async def test_what_one_lacks_another_is_asked_for(cluster: Cluster) -> None:
    copy = cluster.copies[ONE]
    assert isinstance(copy, bytearray)
    at = cluster.places[5][0]
    copy[at + 90] ^= 1
    assert await cluster.pieces(3, 7) == (ONE, cluster.begins(3, 4))
    assert await cluster.pieces(5, 7) == (TWO, cluster.begins(5, 7))


@pytest.mark.parametrize("near", [2, 5])
async def test_a_broker_with_another_record_near_the_gap_is_not_used(
    cluster: Cluster, near: int, caplog: pytest.LogCaptureFixture
) -> None:
    del cluster.copies[TWO]
    cluster.members = {1: ONE}
    copy = cluster.copies[ONE]
    assert isinstance(copy, bytearray)
    copy[cluster.places[near][0] + 12 : cluster.places[near][0] + 16] = b"\0\0\0\7"  # the queue id
    assert await cluster.pieces(3, 4) == ("", [])
    assert f"replica {ONE} has another record at {cluster.places[near][0]} of the commit log" in caplog.text


async def test_one_whole_record_near_the_gap_is_enough_and_none_is_not(cluster: Cluster) -> None:
    gap = cluster.gap(3, 4)
    for before, after, is_used in (
        (NOTHING, gap.after, True), (gap.before, NOTHING, True), (NOTHING, NOTHING, False),
    ):  # fmt: skip
        _, found = await cluster.subject.pieces(cluster.scrub, Gap(*gap[:2], before, after), gap.begin)
        assert bool(found) == is_used


async def test_damaged_properties_of_the_record_before_are_taken_too(cluster: Cluster) -> None:
    end = sum(cluster.places[2])
    whole = bytes(cluster.log)
    cluster.log[end - 2] ^= 1
    gap = cluster.gap(3, 4)
    _, found = await cluster.subject.pieces(cluster.scrub, gap, gap.begin)
    assert [piece.begin for piece in found] == cluster.begins(2, 4)
    assert found[0].data == whole[cluster.places[2][0] : end]
    _, found = await cluster.subject.pieces(cluster.scrub, gap, cluster.places[4][0])
    assert [piece.begin for piece in found] == cluster.begins(4, 4), "only with the begin of the gap"


async def test_much_is_taken_in_parts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketmq_py.broker.ha.replicas._MOST_BYTES", cluster.places[5][0] - cluster.places[3][0])
    assert await cluster.pieces(3, 9) == (ONE, cluster.begins(3, 4))


def test_its_connections_are_closed(cluster: Cluster) -> None:
    cluster.subject.close()
    assert cluster.client.is_closed


@pytest.mark.parametrize(
    ("own", "theirs", "is_used"),
    [
        ((12, 1), None, True), ((20, 1), None, True), ((27, 1), None, True), (None, None, True),
        ((27, 1), (27, 1), False), ((27, 1), (15, 1), False), ((27, 1), (16, 1), False), ((27, 1), (40, 1), False),
        ((27, 1), (90, 1), False), ((16, 1), None, False), ((90, 1), None, False), ((200, 1), None, False),
    ],
)  # fmt: skip
async def test_a_head_is_taken_from_a_record_that_differs_in_nothing_else(
    cluster: Cluster, own: tuple[int, int] | None, theirs: tuple[int, int] | None, *, is_used: bool
) -> None:
    """Positions 12 to 15 have the queue id, 20 to 27 the queue offset, 16 to 19 flags."""
    del cluster.copies[TWO]
    cluster.members = {1: ONE}
    at, size = cluster.places[3]
    whole = bytes(cluster.log[at : at + size])
    copy = cluster.copies[ONE]
    assert isinstance(copy, bytearray)
    for log, change in ((cluster.log, own), (copy, theirs)):
        if change is not None:
            log[at + change[0]] ^= change[1]
    gap = Gap(at, at + size, NOTHING, NOTHING, Place(0, 3))
    address, found = await cluster.subject.pieces(cluster.scrub, gap, at)
    assert (address, [piece.data for piece in found]) == ((ONE, [whole]) if is_used else ("", []))
    assert {int(asked.command.ext["offset"]) for asked in cluster.client.asked} == {at}


async def test_a_head_of_a_record_that_has_expired_is_not_asked_for(cluster: Cluster) -> None:
    gap = Gap(1 << 30, (1 << 30) + 100, NOTHING, NOTHING, Place(0, 3))
    assert await cluster.subject.pieces(cluster.scrub, gap, gap.begin) == ("", [])
