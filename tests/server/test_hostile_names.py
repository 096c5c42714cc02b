"""Deleting topics whose names lead out of the store removes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py import Admin, Message, Producer
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.testing import Cluster
from tests.server.rawpeer import RawPeer

NAMES = ["{outside}", "../../../victim", "..", ".", "../commitlog", "../config", "t/../..", "..\\..", "", " ", "../"]


def folders(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.suffix not in (".tmp", ".journal", ".bak")}


@pytest.fixture
def own(tmp_path: Path):
    with Cluster(store_dir=tmp_path / "stores") as cluster, Producer("p", cluster.namesrv) as producer:
        cluster.create_topic("t", queues=1)
        for number in range(50):
            producer.send(Message("t", f"{number}"))
        yield cluster, producer


@pytest.mark.parametrize("name", NAMES)
def test_hostile_topic_names_remove_nothing(own, tmp_path: Path, name: str) -> None:
    cluster, producer = own
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    before = folders(tmp_path)
    with RawPeer(cluster.addresses[0]) as peer:
        answer = peer.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": name.format(outside=victim)})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark
    assert before <= folders(tmp_path)
    producer.send(Message("t", "more"))
    with Admin(cluster.namesrv) as admin:
        assert sum(extent.max_offset for extent in admin.topic_stats("t").values()) == 51
    cluster.stop()
    cluster.start()
    with Admin(cluster.namesrv) as admin:
        assert sum(extent.max_offset for extent in admin.topic_stats("t").values()) == 51
