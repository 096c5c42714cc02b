"""A broker of ours ends in the middle of a rebuild of consume queues, and a Java broker opens the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.javapeer import JavaPeer
from tests.interop.ours import LOG_FILE_BYTES, OurServers
from tests.killing import read_everything, send
from tests.server.test_rebuild_killed import QUEUES, SETTINGS, TOPIC, begin_a_rebuild, held, lose_a_queue

SIZES = {
    "mappedFileSizeCommitLog": LOG_FILE_BYTES,
    "mappedFileSizeConsumeQueue": SETTINGS["mappedFileSizeConsumeQueue"],
}


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_java_broker_rebuilds_the_queue_itself(
    java: JavaPeer, servers: OurServers, tmp_path: Path, end: str
) -> None:
    store = tmp_path / "store"
    with held(tmp_path) as ours:
        sent = await lose_a_queue(ours, store)
        getattr(await begin_a_rebuild(ours, store, sent), end)()
    theirs = java.broker(servers.namesrv().namesrv, store=store, conf=SIZES)
    assert await read_everything(theirs.address, QUEUES) == sent
    more = await send(theirs.address, range(9_000, 9_010), QUEUES)
    for queue, messages in more.items():
        assert min(messages) == len(sent[queue]), "an offset was given twice, or one was left out"
        sent[queue].update(messages)
    theirs.process.stop()
    last = servers.serve(store, **SETTINGS)
    assert await read_everything(last.broker, QUEUES) == sent
    assert json.loads((store / "config" / "topics.json").read_text())["topicConfigTable"][TOPIC]
    last.stop()
