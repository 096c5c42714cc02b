"""A damaged store is healed from a replica of the other kind, by ``store repair --from`` and while it serves."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from rocketmq_py import Admin
from rocketmq_py.cli import main
from tests.interop.javapeer import JavaPeer, free_port_block
from tests.interop.ours import OurServers
from tests.interop.side import eventually
from tests.interop.test_store_repair import COUNT, QUEUES, damage, served
from tests.interop.test_store_survival import SIZES
from tests.killing import send
from tests.replicas import caught_up


def log(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))


def lose_the_end(root: Path) -> None:
    """Garbage over the last record, and all before it in the last 2 KiB."""
    last = [path for path in sorted((root / "commitlog").iterdir()) if any(path.read_bytes())][-1]
    written = len(last.read_bytes().rstrip(b"\0"))
    with last.open("r+b") as file:
        file.seek(max(0, written - 2048))
        file.write(random.Random(5).randbytes(min(written, 2048)))


def repair(root: Path, *flags: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ("store", "repair", str(root), "-o", "json", *flags))
    found: dict[str, Any] = json.loads(result.output)
    assert result.exit_code == (1 if found["lost"] else 0)
    return found


def heal(root: Path, replica: str) -> None:
    """Damage a closed store and heal it; its log must be what it was."""
    before = log(root)
    damage(root)
    lose_the_end(root)
    damaged = log(root)
    assert sum(one["last"] - one["first"] + 1 for one in repair(root)["lost"]) > 100
    dry = repair(root, "--from", replica)
    assert (dry["damaged"], dry["lost"], dry["repaired"]) == ([], [], False)
    assert sum(part["records"] for part in dry["healed"]) > 100
    assert log(root) == damaged
    assert repair(root, "--from", replica, "--apply")["repaired"]
    assert log(root).rstrip(b"\0") == before.rstrip(b"\0")


def wanted() -> dict[tuple[str, int], dict[int, int]]:
    return {queue: {at: 3 * at + place for at in range(COUNT // 3)} for place, queue in enumerate(QUEUES)}


def test_a_master_of_ours_is_healed_from_a_java_slave(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    root = tmp_path / "store"
    master = servers.serve(root, **SIZES)
    flags: dict[str, Any] = {"role": "SLAVE", "id": 1, "conf": SIZES}
    slave = java.broker(master.namesrv, store=tmp_path / "slave", port=free_port_block(), **flags)
    asyncio.run(send(master.broker, range(3), QUEUES))
    asyncio.run(caught_up(master.namesrv))  # an empty Java slave begins with the last file that there is
    asyncio.run(send(master.broker, range(3, COUNT), QUEUES))
    asyncio.run(caught_up(master.namesrv))
    master.stop()
    heal(root, slave.address)
    again = servers.serve(root, **SIZES)
    assert asyncio.run(served(again.broker)) == wanted()
    again.stop()


def test_a_java_master_is_healed_from_a_slave_of_ours(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    """The healed store is served by Java."""
    root, namesrv = tmp_path / "store", servers.namesrv().namesrv
    first = servers.serve(root, **SIZES)  # creates the topics
    asyncio.run(send(first.broker, range(3), QUEUES))
    first.stop()
    port = free_port_block()
    master = java.broker(namesrv, store=root, port=port, conf=SIZES)
    slave = servers.serve(
        tmp_path / "slave", "--namesrv", namesrv, "--role", "SLAVE", "--id", "1", slaveSyncInterval=500, **SIZES
    )
    asyncio.run(caught_up(namesrv))
    asyncio.run(send(master.address, range(3, COUNT), QUEUES))
    asyncio.run(caught_up(namesrv))
    master.process.stop()
    heal(root, slave.broker)
    again = java.broker(namesrv, store=root, port=port, conf=SIZES)
    assert asyncio.run(served(again.address)) == wanted()
    again.process.stop()


def garble(root: Path) -> None:
    """Garbage over several records in the middle of a log file that is in use."""
    path = sorted((root / "commitlog").iterdir())[1]
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(random.Random(3).randbytes(4096))


def heal_running(namesrv: str, address: str, root: Path) -> None:
    """Damage the store of a running broker of ours; its check of the store must make the log what it was."""
    before = log(root)
    garble(root)
    assert log(root) != before
    with Admin(namesrv) as admin:
        admin.update_broker_config(address, {"scrubBytesPerSecond": "1000000000"})
        eventually(lambda: log(root) == before, bool)
        state = admin.broker_state(address)
    assert int(state["scrubHealedRecords"]) > 1
    assert state["scrubDamages"] == "1"


def test_a_running_master_of_ours_takes_lost_records_from_a_java_slave(
    java: JavaPeer, servers: OurServers, tmp_path: Path
) -> None:
    master = servers.serve(tmp_path / "store", **SIZES)
    asyncio.run(send(master.broker, range(3), QUEUES))
    java.broker(master.namesrv, store=tmp_path / "slave", port=free_port_block(), role="SLAVE", id=1, conf=SIZES)
    asyncio.run(caught_up(master.namesrv))
    asyncio.run(send(master.broker, range(3, COUNT), QUEUES))
    asyncio.run(caught_up(master.namesrv))
    heal_running(master.namesrv, master.broker, tmp_path / "store")
    assert asyncio.run(served(master.broker)) == wanted()


def test_a_running_slave_of_ours_takes_lost_records_from_a_java_master(
    java: JavaPeer, servers: OurServers, tmp_path: Path
) -> None:
    root, namesrv = tmp_path / "store", servers.namesrv().namesrv
    first = servers.serve(root, **SIZES)  # creates the topics
    asyncio.run(send(first.broker, range(3), QUEUES))
    first.stop()
    master = java.broker(namesrv, store=root, port=free_port_block(), conf=SIZES)
    slave = servers.serve(
        tmp_path / "slave", "--namesrv", namesrv, "--role", "SLAVE", "--id", "1", slaveSyncInterval=500, **SIZES
    )
    asyncio.run(caught_up(namesrv))
    asyncio.run(send(master.address, range(3, COUNT), QUEUES))
    asyncio.run(caught_up(namesrv))
    heal_running(namesrv, slave.broker, tmp_path / "slave")
