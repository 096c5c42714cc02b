"""Stores with a damaged commit log, repaired by ``rocketmq store repair``: a Java broker serves everything whole."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store import NewRecord
from rocketmq_py.store.tools.repair import apply, make_plan
from rocketmq_py.wire.record import decode_records
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.test_store_survival import SIZES, java_broker, opened
from tests.killing import Queue, ask, body, number_of, pull_command, queues, send

COUNT = 1200
QUEUES = queues()[:3]


def damage(root: Path) -> None:
    """Garbage in the second log file, the third one cut, the fourth one missing.

    Not the one at 0: at the entry of a lost message, whose place is 0, a Java broker skips the rest of that file.
    """
    _, first, second, third, *_ = sorted((root / "commitlog").iterdir())
    content = bytearray(first.read_bytes())
    content[50_000:54_096] = random.Random(3).randbytes(4096)
    first.write_bytes(content)
    second.write_bytes(second.read_bytes()[:100_000])
    third.unlink()


async def served(address: str) -> dict[Queue, dict[int, int]]:
    """What pulls return: the numbers of the messages by queue and offset, with gaps where messages are lost."""
    caller, found = RpcClient(), {}
    try:
        for queue in QUEUES:
            found[queue] = await served_queue(caller, address, queue)
    finally:
        caller.close()
    return found


async def served_queue(caller: RpcClient, address: str, queue: Queue) -> dict[int, int]:
    found: dict[int, int] = {}
    offset = 0
    while (answer := await ask(caller, address, pull_command(queue, offset))).code != ResponseCode.PULL_NOT_FOUND:
        if answer.code == ResponseCode.SUCCESS:
            found |= {message.queue_offset: number_of(message.body) for message in decode_records(answer.body)}
        assert int(answer.ext["nextBeginOffset"]) > offset, answer
        offset = int(answer.ext["nextBeginOffset"])
    return found


def test_java_serves_a_repaired_store_of_ours(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with opened(root) as store:
        for i in range(COUNT):
            store.append(NewRecord(*QUEUES[i % 3], body(i), b""))
        store.commit_pending()
    damage(root)
    plan = make_plan(root)
    apply(root, plan)
    lost = {(one.topic, one.queue_id, at) for one in plan.lost for at in range(one.first, one.last + 1)}
    assert 100 < len(lost) < COUNT / 2
    table = {topic: {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for topic, _ in QUEUES}
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))

    theirs = java_broker(java, servers, root)
    found = asyncio.run(served(theirs.address))
    sent = asyncio.run(send(theirs.address, [900_000], QUEUES[:1]))
    theirs.process.stop()
    for position, queue in enumerate(QUEUES):
        wanted = {at: 3 * at + position for at in range(COUNT // 3) if (*queue, at) not in lost}
        assert found[queue] == wanted
    assert sent[QUEUES[0]] == {COUNT // 3: 900_000}


def test_a_store_of_java_is_repaired(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    root = tmp_path / "store"
    ours = servers.serve(root, **SIZES)  # creates the topics
    asyncio.run(send(ours.broker, range(3), QUEUES))
    ours.stop()
    theirs = java_broker(java, servers, root)
    asyncio.run(send(theirs.address, range(3, COUNT), QUEUES))
    theirs.process.stop()
    damage(root)
    plan = make_plan(root)
    apply(root, plan)
    lost = {(one.topic, one.queue_id, at) for one in plan.lost for at in range(one.first, one.last + 1)}
    assert 100 < len(lost) < COUNT / 2
    wanted = {
        queue: {at: 3 * at + position for at in range(COUNT // 3) if (*queue, at) not in lost}
        for position, queue in enumerate(QUEUES)
    }
    again = java_broker(java, servers, root)
    assert asyncio.run(served(again.address)) == wanted
    again.process.stop()
    ours = servers.serve(root, **SIZES)
    assert asyncio.run(served(ours.broker)) == wanted
    ours.stop()
