"""Rows of Arrow data as messages: which data is sent, and which is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from rocketmq_py import arrow
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.wire.batch import decode_batch
from tests.unit.arrow.scripted import ScriptedPeer, scripted
from tests.unit.arrow.stored import StoredMessages


def bodies(peer: ScriptedPeer) -> list[bytes]:
    """Those of the messages that the broker got."""
    found = [request.body for request in peer.asked(RequestCode.SEND_MESSAGE_V2)]
    for request in peer.asked(RequestCode.SEND_BATCH_MESSAGE):
        found += [one[1] for one in decode_batch(request.body)]
    return sorted(map(bytes, found))


def test_every_row_is_sent() -> None:
    table = pa.table({"body": ["a", "b", "c"], "tags": pa.array(["x", None, "y"], pa.large_string())})
    for data in (table, table.to_batches()[0], table.to_reader()):
        with scripted(StoredMessages(0)) as peer:
            assert arrow.write(data, "t", namesrv=peer.address) == 3
            assert bodies(peer) == [b"a", b"b", b"c"]


def test_rows_with_all_columns_are_sent() -> None:
    columns = {
        "topic": pa.array(["t", "t"]),
        "body": pa.array([b"a", b"b"], pa.large_binary()),
        "keys": pa.nulls(2),
        "properties": pa.array([[("x", "1")], None], pa.map_(pa.string(), pa.string())),
        "shardingKey": ["k", "k"],
        "delayLevel": pa.array([None, 3], pa.int64()),
        "deliverAt": pa.array([datetime(2020, 1, 1, tzinfo=UTC), None]),
    }
    with scripted(StoredMessages(0)) as peer:
        assert arrow.write(pa.table(columns), namesrv=peer.address) == 2
        assert bodies(peer) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"value": ["x"]}, "value"),
        ({"tags": ["x"]}, "needs a column body"),
        ({"body": [1]}, "column body must be binary, it is int64"),
        ({"body": ["x"], "queueId": ["q"]}, "column queueId must be int32"),
        ({"body": ["x"], "properties": ["q"]}, "column properties must be map"),
        ({"body": ["x"], "deliverAt": [datetime(2020, 1, 1)]}, "column deliverAt must be timestamp"),  # noqa: DTZ001
    ],
)
def test_a_table_that_does_not_fit_is_refused(columns: dict[str, list[object]], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        arrow.write(pa.table(columns), "t", namesrv="127.0.0.1:9876")


def test_other_data_is_refused() -> None:
    with pytest.raises(ConfigError, match="Arrow data is expected"):
        arrow.write([1], "t", namesrv="127.0.0.1:9876")
