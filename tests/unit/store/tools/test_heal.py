"""Repair with the records of a replica: what it takes and refuses, and that every byte of the log is right then."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketmq_py.errors import StoreError
from rocketmq_py.store.tools.heal import Part
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.repair import Plan, apply, make_plan
from rocketmq_py.store.tools.scanned_log import Gap, left
from rocketmq_py.store.tools.verify import verify
from rocketmq_py.store.write.records import Appended
from tests.unit.store.helpers import Stores, fill
from tests.unit.store.tools.conftest import COUNT
from tests.unit.store.tools.test_repair import DAMAGES, FILE, log_file, overwrite, served

Read = Callable[[int], bytes | None]


@pytest.fixture
def read(stores: Stores, done: list[Appended], tmp_path: Path) -> Iterator[Read]:
    """A copy of the undamaged store, read as a broker answers."""
    store = Stores(shutil.copytree(stores.root, tmp_path / "replica"), None).open()
    yield store.message_at
    store.close()


def log(stores: Stores) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((stores.root / "commitlog").iterdir()))


def repaired(stores: Stores, read: Read) -> Plan:
    plan = make_plan(stores.root, read=read)
    apply(stores.root, plan, read=read)
    return plan


@pytest.mark.parametrize("number", [0, 1, 3, 4])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_log_is_what_it_was(stores: Stores, read: Read, damage: Callable[[Path], None], number: int) -> None:
    before = log(stores)
    damage(log_file(stores, number))
    plan = make_plan(stores.root, read=read)
    assert (plan.records, plan.lost) == (COUNT, [])
    apply(stores.root, plan, read=read)
    assert log(stores) == before
    with OfflineStore(stores.root) as store:
        assert verify(store).is_valid
    assert served(stores) == list(range(COUNT))


def test_several_files_are_taken_from_the_replica(stores: Stores, read: Read) -> None:
    before = log(stores)
    log_file(stores, 1).unlink()
    log_file(stores, 2).unlink()
    log_file(stores, 4).unlink()
    plan = repaired(stores, read)
    assert [(part.begin, part.end) for part in plan.healed][:2] == [(FILE, 2 * FILE), (2 * FILE, 3 * FILE)]
    assert sum(part.records for part in plan.healed) > 30
    assert log(stores) == before


def test_what_the_replica_does_not_have_stays_lost(stores: Stores, done: list[Appended], read: Read) -> None:
    """It is found behind that again by the consume queue."""
    overwrite(log_file(stores, 1), 0, bytes(FILE))
    hit = [at for at, one in enumerate(done) if FILE <= one.physical_offset < 2 * FILE]
    gone = {done[hit[2]].physical_offset, done[hit[3]].physical_offset, done[hit[7]].physical_offset}

    def partial(offset: int) -> bytes | None:
        return None if offset in gone else read(offset)

    plan = repaired(stores, partial)
    assert [(one.first, one.last) for one in plan.lost] == [(hit[2], hit[3]), (hit[7], hit[7])]
    assert [(gap.begin, gap.end) for gap in plan.gaps] == [
        (done[hit[2]].physical_offset, done[hit[4]].physical_offset),
        (done[hit[7]].physical_offset, done[hit[8]].physical_offset),
    ]
    assert served(stores) == [at for at in range(COUNT) if at not in (hit[2], hit[3], hit[7])]


def bit(record: bytes, at: int) -> bytes:
    return record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :]


WRONG: dict[str, Callable[[bytes], bytes | None]] = {
    "a size": lambda record: bit(record, 3),
    "a magic": lambda record: bit(record, 7),
    "its own offset": lambda record: bit(record, 35),
    "a body": lambda record: bit(record, 100),
    "the length of properties": lambda record: bit(record, 88 + 200 + 3),
    "an end": lambda record: record[:-1],
    "nothing": lambda record: b"",
    "a few bytes": lambda record: record[:6],
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_record_that_is_damaged_in_the_replica_is_not_taken(
    stores: Stores, done: list[Appended], read: Read, wrong: Callable[[bytes], bytes | None]
) -> None:
    place = done[15].physical_offset
    overwrite(log_file(stores, 1), place - FILE + 95, bytes(50))
    plan = repaired(stores, lambda offset: wrong(read(offset) or b"") if offset == place else read(offset))
    assert plan.healed == []
    assert [(one.first, one.last) for one in plan.lost] == [(15, 15)]
    assert served(stores) == [at for at in range(COUNT) if at != 15]


def test_damage_that_begins_in_properties_is_healed(stores: Stores, done: list[Appended], read: Read) -> None:
    """No checksum covers them: the record counts as whole, but the replica has another one."""
    before = log(stores)
    overwrite(log_file(stores, 1), done[16].physical_offset - FILE - 8, bytes(100))
    plan = repaired(stores, read)
    assert (plan.records, [part.begin for part in plan.healed]) == (COUNT, [done[15].physical_offset])
    assert log(stores) == before


def test_a_replica_with_another_log_is_refused(stores: Stores, read: Read, tmp_path: Path) -> None:
    other = Stores(tmp_path / "other", None).open()
    fill(other, COUNT, size=200, born_timestamp=1)
    overwrite(log_file(stores, 1), 1000, random.Random(3).randbytes(500))
    before = log(stores)
    with pytest.raises(StoreError, match=r"the replica has another record at \d+ of the commit log: it is of another"):
        make_plan(stores.root, read=other.message_at)
    assert log(stores) == before
    other.close()


def test_a_replica_that_has_no_record_beside_the_damage_heals_nothing(
    stores: Stores, done: list[Appended], read: Read
) -> None:
    """Nothing shows that its log is the same."""
    place = done[15].physical_offset
    overwrite(log_file(stores, 1), place - FILE + 95, bytes(50))
    plan = make_plan(stores.root, read=lambda offset: read(offset) if offset == place else None)
    assert (plan.healed, len(plan.lost)) == ([], 1)


def test_a_replica_that_loses_records_before_they_are_written_ends_the_repair(
    stores: Stores, done: list[Appended], read: Read
) -> None:
    before = log(stores)
    overwrite(log_file(stores, 1), 1000, bytes(700))
    plan = make_plan(stores.root, read=read)
    last = max(one.physical_offset for one in done if one.physical_offset < plan.healed[0].end)
    with pytest.raises(StoreError, match=f"does not have the record at {last} of the commit log any more: start again"):
        apply(stores.root, plan, read=lambda offset: None if offset == last else read(offset))
    repaired(stores, read)
    assert log(stores) == before


def test_messages_behind_the_end_of_a_log_come_from_the_replica(
    stores: Stores, done: list[Appended], tmp_path: Path
) -> None:
    replica = Stores(shutil.copytree(stores.root, tmp_path / "replica"), None).open()
    fill(replica, 30, start=COUNT, size=200)
    plan = repaired(stores, replica.message_at)
    assert (plan.records, plan.gaps, plan.lost) == (COUNT + 30, [], [])
    assert plan.end == replica.max_physical_offset
    store = stores.open()
    assert store.queue_range("T", 0) == (0, COUNT + 30)
    store.close()
    replica.close()


def test_a_damaged_last_record_is_told(stores: Stores, done: list[Appended]) -> None:
    """No whole record follows; what was there is kept."""
    place = done[-1].physical_offset
    path = log_file(stores, place // FILE)
    overwrite(path, place % FILE + 95, b"garbage")
    damaged = path.read_bytes()[place % FILE :][: done[-1].size]
    plan = make_plan(stores.root)
    assert plan.gaps == [Gap(place, place + done[-1].size, "the checksum of a body is wrong")]
    assert [(one.first, one.last) for one in plan.lost] == [(COUNT - 1, COUNT - 1)]
    kept = apply(stores.root, plan)
    assert (kept / "commitlog" / f"{place}-{place + done[-1].size}").read_bytes() == damaged
    assert served(stores) == list(range(COUNT - 1))


def test_gaps_without_their_healed_parts() -> None:
    cases = [
        ([(10, 20)], [(10, 50)], [(20, 50)]), ([(40, 50)], [(10, 50)], [(10, 40)]),
        ([(20, 30)], [(10, 50)], [(10, 20), (30, 50)]), ([(10, 50)], [(10, 50)], []), ([], [(10, 50)], [(10, 50)]),
        ([(30, 40), (15, 20)], [(10, 50)], [(10, 15), (20, 30), (40, 50)]),
        ([(0, 10), (50, 60)], [(10, 50)], [(10, 50)]), ([(40, 90)], [(10, 50), (80, 99)], [(10, 40), (90, 99)]),
    ]  # fmt: skip
    for healed, gaps, rest in cases:
        found = left([Gap(*gap, "x") for gap in gaps], [Part(*part, 1) for part in healed])
        assert [one[:2] for one in found] == rest, (healed, gaps)
