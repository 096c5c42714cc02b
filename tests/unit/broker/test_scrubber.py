"""The check of the whole store while the broker serves: at a bounded rate, once a day, with failures that pass."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.store.log import log_parts
from rocketmq_py.store.log.pieces import Piece
from rocketmq_py.store.read.scrub import Gap, Scrub
from rocketmq_py.wire import fastjson
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.requests import send
from tests.unit.store.coldfs import ByHand, ColdFileSystem, HandWorkers

PART, DAY = 1_000, 24 * 3600 * 1000


class Bench:
    """A broker with 40 messages of some 200 bytes, whose scrubber is ticked by hand; its thread works at once."""

    def __init__(self, running: InProcess, thread: ByHand, fs: ColdFileSystem) -> None:
        self.running, self.thread, self.fs = running, thread, fs
        self.scrubber = running.services.scrubber

    async def tick(self, forward_ms: int = 1_000) -> int:
        """Tick after a time; return the number of bytes that were checked."""
        before = self.scrubber.counts.bytes
        self.running.now += forward_ms
        self.scrubber.tick()
        while self.scrubber._work.runs:
            await asyncio.sleep(0)
            self.running.run_callbacks()
            while self.thread.work:
                self.thread.finish()
        return self.scrubber.counts.bytes - before

    def table(self) -> dict[str, str]:
        answer = self.running.connect().ask(Code.GET_BROKER_RUNTIME_INFO)
        table: dict[str, str] = fastjson.loads(answer.body)["table"]
        return {key: value for key, value in table.items() if key.startswith("scrub")}


@pytest.fixture
def fs() -> ColdFileSystem:
    return ColdFileSystem()


@pytest.fixture
def bench(tmp_path: Path, fs: ColdFileSystem, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(log_parts, "PART_BYTES", PART)
    workers = HandWorkers("scrub")
    with broker(tmp_path, fs=fs, workers=workers, store={"scrub_bytes_per_second": 4 * PART}) as running:
        for number in range(40):
            assert running.connect().ask(Code.SEND_MESSAGE_V2, send("t"), b"%d" % number).code == 0
        yield Bench(running, workers.threads["rocketmq-scrub"], fs)


def test_a_second_reads_what_the_rate_allows(bench: Bench) -> None:
    async def run() -> None:
        end = bench.running.services.store.max_physical_offset
        assert end > 8 * PART
        assert 3 * PART < await bench.tick() <= 5 * PART
        first = bench.scrubber.counts.bytes
        assert await bench.tick(10) <= PART, "the rate holds between ticks, too"
        for _ in range(5):
            await bench.tick()
        assert bench.scrubber.counts == (end, 40, 0, 0, 1, 0)
        assert first < end

    asyncio.run(run())


def test_the_next_pass_begins_a_day_after_the_last_one_began(bench: Bench) -> None:
    async def run() -> None:
        for _ in range(6):
            await bench.tick()
        assert bench.scrubber.counts.passes == 1
        assert await bench.tick(DAY - 10_000) == 0
        assert await bench.tick(10_000) > 0

    asyncio.run(run())


def test_nothing_is_read_while_the_rate_is_0_and_it_may_be_set_later(bench: Bench) -> None:
    async def run() -> None:
        config = bench.running.services.store.config
        config.scrub_bytes_per_second = 0
        assert await bench.tick() == await bench.tick() == 0
        assert bench.thread.work == []
        config.scrub_bytes_per_second = 1 << 20
        await bench.tick()
        assert bench.scrubber.counts.passes == 1

    asyncio.run(run())


def test_findings_are_in_the_runtime_table(bench: Bench, fs: ColdFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        [log] = [node for path, node in list(fs.nodes.items()) if path.parent.name == "commitlog"]
        log.content[88] ^= 1  # the body
        for _ in range(6):
            await bench.tick()
        assert "the commit log is damaged from 0 to " in caplog.text

    asyncio.run(run())
    table = bench.table()
    assert int(table.pop("scrubbedBytes")) > 7 * PART
    assert table == {
        "scrubbedRecords": "39",
        "scrubDamages": "1",
        "scrubRebuiltEntries": "0",
        "scrubPasses": "1",
        "scrubHealedRecords": "0",
    }


def test_the_index_is_checked_to_its_end_at_the_same_rate(
    bench: Bench, fs: ColdFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        store = bench.running.services.store
        store._index.build_everything()
        [index] = [node for path, node in list(fs.nodes.items()) if path.parent.name == "index"]
        file = store._index.files[0]
        assert file.count > 1
        index.content[file.entries_part(1, 1).position] ^= 1
        await bench.tick()
        assert bench.scrubber._scrub is not None
        assert 4 * PART - bench.scrubber._allowed >= bench.scrubber._scrub.position + 20 * (file.count - 1)
        for _ in range(60):
            await bench.tick()
        assert bench.scrubber.counts.passes == 1
        assert f"{store.layout.index} is damaged: 1 keys of messages from 0 to 0 of the commit log" in caplog.text
        assert f"{file.path} is damaged: 2 of its slots and entries point elsewhere" in caplog.text
        assert bench.table()["scrubDamages"] == "2"

    asyncio.run(run())


def test_a_disk_that_fails_is_logged_once_and_tried_again(
    bench: Bench, fs: ColdFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        fs.failing = {"load"}
        for _ in range(3):
            assert await bench.tick() == 0
        assert caplog.text.count("the store cannot be checked, trying again") == 1
        fs.failing = set()
        for _ in range(6):
            await bench.tick()
        assert bench.scrubber.counts[1:] == (40, 0, 0, 1, 0)

    asyncio.run(run())


def test_a_stop_ends_a_check_that_waits_for_the_disk(bench: Bench) -> None:
    async def run() -> None:
        bench.running.now += 1_000
        bench.scrubber.tick()
        await asyncio.sleep(0)
        assert len(bench.thread.work) == 1
        await bench.scrubber.stop()
        assert bench.scrubber.counts.bytes == 0

    asyncio.run(run())


@pytest.mark.parametrize("number", [3, 39], ids=["in the middle", "at the end of the log"])
def test_what_a_pull_has_met_is_looked_at_once_and_then_more_and_more_seldom(bench: Bench, number: int) -> None:
    async def run() -> None:
        services = bench.running.services
        services.store.config.scrub_bytes_per_second = 0
        asked: list[int] = []

        async def pieces(scrub: Scrub, gap: Gap, at: int) -> tuple[str, list[Piece]]:
            asked.append(at)
            whole = scrub.piece(at, gap.end, bytes(before[at : gap.end])) if len(asked) > 2 else None
            return ("", []) if whole is None else ("127.0.0.1:1", [whole])

        bench.scrubber._replicas.pieces = pieces  # type: ignore[method-assign]
        [log] = [node for path, node in bench.fs.nodes.items() if path.parent.name == "commitlog"]
        before, begin = bytes(log.content), services.store.queue_entries("t", 0, number, 1)[0][0]
        log.content[begin + 4] ^= 1
        services.store._commit_log.written_from = 1 << 30  # as after a restart
        assert services.store.get("t", 0, number - 3, 5).damaged == (number,)
        for forward, count in (
            (1_000, 1), (1_000, 1), (57_000, 1), (1_000, 1), (1_000, 2), (119_000, 2), (1_000, 3), (DAY, 3),
        ):  # fmt: skip
            await bench.tick(forward)
            assert asked == [begin] * count
        assert bytes(log.content) == before
        assert services.store.get("t", 0, number - 3, 5).damaged == ()
        counts = bench.scrubber.counts
        assert (counts.passes, counts.damages, counts.records_healed) == (0, 1, 1)
        assert not bench.scrubber._left

    asyncio.run(run())


def test_reads_that_meet_the_same_damage_make_one_attempt(bench: Bench) -> None:
    async def run() -> None:
        services = bench.running.services
        services.store.config.scrub_bytes_per_second = 0
        asked: list[int] = []

        async def pieces(scrub: Scrub, gap: Gap, at: int) -> tuple[str, list[Piece]]:
            del scrub
            asked.append(at)
            assert gap.begin == at
            return "", []

        bench.scrubber._replicas.pieces = pieces  # type: ignore[method-assign]
        [log] = [node for path, node in bench.fs.nodes.items() if path.parent.name == "commitlog"]
        places = [entry[0] for entry in services.store.queue_entries("t", 0, 0, 40)]
        for number in (3, 4, 5, 20):
            log.content[places[number] + 4] ^= 1
        services.store._commit_log.written_from = 1 << 30
        assert services.store.get("t", 0, 0, 30).damaged == (3, 4, 5, 20)
        await bench.tick()
        assert asked == [places[3], places[20]]
        await bench.tick(60_000)
        assert asked == [places[3], places[20]] * 2

    asyncio.run(run())
