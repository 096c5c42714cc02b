"""Topics as Arrow data: what the settings of a read mean."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from rocketmq_py import arrow
from rocketmq_py.arrow.options.selection import Matching, Topics
from rocketmq_py.arrow.topics import read_options
from rocketmq_py.errors import ConfigError, NetworkError
from rocketmq_py.model import MessageQueue
from tests.unit.arrow.scripted import scripted
from tests.unit.arrow.stored import STORED_AT, StoredMessages

ADDRESS = "127.0.0.1:9876"


def test_a_read_gives_every_message_in_the_order_of_its_queue() -> None:
    with scripted(StoredMessages(40), queues=2) as peer:
        found = arrow.read("t", namesrv=peer.address, columns=["queueId", "body"], text=True).read_all()
        assert found.schema == pa.schema([("queueId", pa.int32()), ("body", pa.string())])
        assert found.to_pylist() == [{"queueId": queue, "body": str(i)} for queue in range(2) for i in range(40)]
        assert "properties" not in arrow.read("t", namesrv=peer.address).schema.names
        assert arrow.to_pandas("t", namesrv=peer.address, columns=["tags"])["tags"].tolist() == ["A", "B"] * 40


def test_a_read_starts_and_ends_where_it_is_told() -> None:
    queue = MessageQueue("t", "broker-a", 0)
    with scripted(StoredMessages(40)) as peer:
        for settings, expected in (
            ({"start": "latest"}, range(0)),
            ({"start": "earliest", "end": {queue: 3}}, range(3)),
            ({"start": {queue: 38}}, range(38, 40)),
            ({"start": datetime.fromtimestamp(STORED_AT / 1000 + 35, UTC)}, range(35, 40)),
            ({"start": "-1 minute"}, range(0)),
        ):
            found = arrow.read("t", namesrv=peer.address, columns=["queueOffset"], **settings).read_all()
            assert found["queueOffset"].to_pylist() == list(expected), settings


def test_topics_are_named_or_matched() -> None:
    pattern = re.compile("a|b")
    assert read_options(["a", "b", "a"], {"namesrv": ADDRESS}).selection == Topics(("a", "b"))
    assert read_options(pattern, {"namesrv": ADDRESS}).selection == Matching(pattern)
    with pytest.raises(ConfigError, match="at least one topic"):
        read_options([], {"namesrv": ADDRESS})


def test_wrong_settings_are_refused_by_name() -> None:
    for settings, told in (
        ({"columns": ["Body"]}, "unknown column 'Body'"),
        ({"columns": []}, "names none"),
        ({"columns": ["body", "body"]}, "one twice"),
        ({"tags": "A", "sql": "n > 1"}, "choose one"),
        ({"start": "yesterday"}, "start='yesterday'"),
        ({"mode": "DLQ"}, "mode=DLQ is for Spark"),
        ({"topics": "x"}, "unknown setting 'topics'"),
    ):
        with pytest.raises(ConfigError, match=told):
            arrow.read("t", namesrv=ADDRESS, **settings)
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        arrow.absent  # noqa: B018


def test_name_servers_are_fetched_from_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(StoredMessages(5)) as peer:
        monkeypatch.setattr("rocketmq_py.client.name_servers._get", lambda _: f"{peer.address}\n")
        url = "http://host:8080/rocketmq/nsaddr"
        assert arrow.read("t", namesrv=url).read_all().num_rows == 5
        assert arrow.write(pa.table({"body": ["x"]}), "t", namesrv=url) == 1


def test_a_url_that_cannot_be_read_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> str:
        raise OSError("refused")

    monkeypatch.setattr("rocketmq_py.client.name_servers._get", refuse)
    with pytest.raises(NetworkError, match="cannot be fetched from http://host:8080/nsaddr: refused"):
        arrow.read("t", namesrv="http://host:8080/nsaddr")
