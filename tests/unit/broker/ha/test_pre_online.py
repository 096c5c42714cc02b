"""A master that comes back asks the slave that may have acted for it; what it was not told is delivered twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectionLost
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import InProcess, broker


class Returning:
    """A starting master and the slave it asks; ``reloaded``: what it read again."""

    def __init__(self, master: InProcess, slave: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
        self.master, self.slave = master, slave
        self.members = {0: "here", 1: "first", 2: "second"}
        self.asked: list[tuple[str, int]] = []
        self.reloaded: list[str] = []
        self.silent: set[int] = set()
        services = master.services
        monkeypatch.setattr(services.membership, "members", self._members)
        monkeypatch.setattr(services, "route_client", self)
        monkeypatch.setattr(services.transactions, "load", lambda: self.reloaded.append("transactions"))
        monkeypatch.setattr(services.pop.revive_log, "reload", lambda: self.reloaded.append("pops"))

    async def _members(self) -> dict[int, str]:
        return self.members

    async def ask(self, address: str, command: Command, timeout: float) -> Reply:
        del timeout
        self.asked.append((address, command.code))
        if command.code in self.silent:
            raise ConnectionLost("it is gone")
        answer = (await self.slave.connect()._serve_tasks([command], 1))[0]
        fields = msgspec.Raw(msgspec.json.encode(answer.ext))
        return Reply(answer.code, answer.opaque, remark=answer.remark, fields=fields, body=answer.body)

    def close(self) -> None:
        """Nothing is open."""

    def take_back(self) -> None:
        asyncio.run(self.master.services.take_back())


@pytest.fixture
def returning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Returning]:
    with (
        broker(tmp_path / "master", enable_slave_acting_master=True) as master,
        broker(tmp_path / "slave", broker_role="SLAVE", broker_id=1, enable_slave_acting_master=True) as slave,
    ):
        master.services.offsets.commit("g", "t", 0, 5, "c")
        master.services.offsets.commit("g", "t", 1, 9, "c")
        slave.services.offsets.commit("g", "t", 0, 8, "c")
        slave.services.offsets.commit("g", "t", 1, 2, "c")
        master.services.delay.commit(1, 4)
        slave.services.delay.commit(1, 3)
        slave.services.delay.commit(2, 6)
        yield Returning(master, slave, monkeypatch)


def offsets(returning: Returning) -> list[int]:
    return [returning.master.services.offsets.query("g", "t", queue) for queue in range(2)]


def test_a_master_takes_what_is_ahead_of_it(returning: Returning) -> None:
    returning.take_back()
    assert offsets(returning) == [8, 9]
    delay = returning.master.services.delay.offsets
    assert (delay[1], delay[2]) == (4, 6)
    assert {address for address, _ in returning.asked} == {"first"}, "the one that acts has the smallest id"


def test_what_depends_on_the_offsets_is_read_again(returning: Returning) -> None:
    returning.take_back()
    assert returning.reloaded == ["transactions", "pops"]


@pytest.mark.parametrize("code", [Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET])
def test_a_silent_slave_does_not_keep_a_master_from_starting(
    returning: Returning, code: Code, caplog: pytest.LogCaptureFixture
) -> None:
    returning.silent.add(code)
    returning.take_back()
    assert returning.reloaded == []
    assert "cannot read from slave first how far it has acted for this broker: it is gone" in caplog.text


def test_timers_that_are_not_told_do_not_cost_the_offsets(
    returning: Returning, caplog: pytest.LogCaptureFixture
) -> None:
    returning.silent.add(Code.GET_TIMER_CHECK_POINT)
    returning.take_back()
    assert offsets(returning) == [8, 9]
    assert returning.reloaded == ["transactions", "pops"]
    assert "which timed messages it has delivered for this broker: it is gone" in caplog.text


def test_a_master_alone_asks_nobody(returning: Returning) -> None:
    returning.members = {0: "here"}
    returning.take_back()
    assert (returning.asked, returning.reloaded) == ([], [])


def test_nobody_is_asked_where_no_slave_acts(returning: Returning) -> None:
    returning.master.config.enable_slave_acting_master = False
    returning.take_back()
    assert returning.asked == []


def test_a_slave_takes_nothing_back(returning: Returning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returning.slave.services.membership, "members", returning._members)
    monkeypatch.setattr(returning.slave.services, "route_client", returning)
    asyncio.run(returning.slave.services.take_back())
    assert returning.asked == []


def test_what_was_taken_over_is_written_before_the_broker_serves(
    returning: Returning, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = returning.master.services
    written: list[str] = []
    taken: list[tuple[bytes, object]] = []
    for name in ("offsets", "delay"):
        monkeypatch.setattr(getattr(services, name), "persist", lambda name=name: written.append(name))
    monkeypatch.setattr(services.timers, "take_over", lambda check, more: taken.append((check, more)))
    returning.take_back()
    assert written == ["offsets", "delay"]
    [(check, more)] = taken
    assert check == returning.slave.services.timers.checkpoint()
    assert more is not None
    assert (returning.asked[-1], len(returning.asked)) == (("first", Code.GET_TIMER_CHECK_POINT), 3)


def test_without_timers_none_are_asked_for(returning: Returning) -> None:
    returning.master.services.timers._files = None
    returning.take_back()
    assert Code.GET_TIMER_CHECK_POINT not in [code for _, code in returning.asked]
    assert returning.reloaded == ["transactions", "pops"]
