"""``rocketmq message export``."""

import csv
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketmq_py.arrow.column_names import DEFAULT_COLUMNS
from rocketmq_py.cli.message import export_files
from rocketmq_py.cli.message.rows import message_of_row
from tests.unit.arrow.scripted import scripted
from tests.unit.arrow.stored import STORED_AT, StoredMessages


@pytest.fixture
def export(run):
    """Exports topic t, two queues of five messages, with options."""
    with scripted(StoredMessages(5), queues=2) as peer:
        yield lambda file, *options: run(
            "message", "export", "t", "--to", str(file), "--namesrv", peer.address, *options
        )


def test_parquet_has_the_columns_of_a_read_and_the_properties(export, tmp_path):
    result = export(tmp_path / "t.parquet")
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert "exported 10 messages of topic t\n" in result.stderr
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.schema.names == [*DEFAULT_COLUMNS, "properties"]
    assert table["body"].to_pylist() == [b"%d" % i for i in range(5)] * 2
    assert table["properties"].to_pylist()[1] == [("TAGS", "B")]
    assert pq.read_metadata(tmp_path / "t.parquet").num_row_groups == 1


def test_csv_has_bodies_as_text(export, tmp_path):
    assert export(tmp_path / "t.csv", "--columns", "queueOffset, tags,body", "--body", "hex").exit_code == 0
    with (tmp_path / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[2] == {"queueOffset": "2", "tags": "A", "bodyEncoding": "hex", "body": b"2".hex()}
    assert len(rows) == 10


def test_the_lines_of_a_jsonl_file_can_be_sent_again(export, tmp_path):
    assert export(tmp_path / "t.jsonl", "--since", str(STORED_AT + 3000)).exit_code == 0
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [(row["queueId"], row["queueOffset"]) for row in rows] == [(0, 3), (0, 4), (1, 3), (1, 4)]
    assert rows[0]["storeTimestamp"] == STORED_AT + 3000
    message = message_of_row("other", rows[0])
    assert (message.topic, message.body, message.tags) == ("other", b"3", "B")


def test_only_what_is_asked_for_is_written(export, tmp_path):
    assert (
        export(tmp_path / "t.csv", "--tags", "A", "--until", str(STORED_AT + 4000), "--columns", "body").exit_code == 0
    )
    assert (tmp_path / "t.csv").read_text().splitlines()[1:] == ['"text","0"', '"text","2"'] * 2


def test_a_dash_is_the_standard_output(export, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = export("-", "--format", "jsonl", "--columns", "queueId,queueOffset")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["queueId"], row["queueOffset"]) for row in rows] == [(q, at) for q in range(2) for at in range(5)]
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_complete_or_as_it_was(export, tmp_path, monkeypatch):
    file = tmp_path / "t.jsonl"
    file.write_text("as it was")
    monkeypatch.setattr(export_files, "encode_body", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left")))
    result = export(file)
    assert (result.exit_code, file.read_text(), list(tmp_path.glob(".t*"))) == (1, "as it was", [])
    assert f"{file} cannot be written: no space left" in result.stderr


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("t.txt", [], "does not say which format"),
        ("-", [], "does not say which format"),
        ("t.csv", ["--columns", "body,properties"], "CSV has no column for properties"),
        ("t.csv", ["--columns", "Body"], "unknown column 'Body'"),
        ("t.csv", ["--tags", "A", "--sql", "n > 1"], "choose one"),
    ],
)
def test_what_cannot_be_written_is_refused(export, tmp_path, name, options, told):
    result = export(name if name == "-" else tmp_path / name, *options)
    assert result.exit_code == 2
    assert told in result.stderr
    assert not list(tmp_path.glob("t*"))


def test_mapped_addresses_are_refused(run, tmp_path):
    result = run("message", "export", "t", "--to", str(tmp_path / "t.csv"), "--map", "a:1=b:2")
    assert "cannot map addresses" in result.stderr


def test_a_missing_extra_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.delitem(sys.modules, export_files.__name__)
    result = run("message", "export", "t", "--to", str(tmp_path / "t.csv"))
    assert result.exit_code == 2
    assert "pip install 'rocketmq-py[arrow]'" in result.stderr


def test_other_bytes_are_hexadecimal_and_null_stays_null(tmp_path):
    schema = pa.schema([("_corrupt_record", pa.binary()), ("body", pa.binary())])
    batch = pa.RecordBatch.from_pylist([{"_corrupt_record": b"\xff", "body": None}, {"body": b"\xff"}], schema)
    with (
        (tmp_path / "x").open("wb") as out,
        export_files.writer(out, schema, export_files.FileFormat.JSONL, "auto") as write,
    ):
        write(batch)
    rows = [json.loads(line) for line in (tmp_path / "x").read_text().splitlines()]
    assert rows == [
        {"_corrupt_record": "ff", "bodyEncoding": None, "body": None},
        {"_corrupt_record": None, "bodyEncoding": "base64", "body": "/w=="},
    ]


def test_full_row_groups_are_written_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(export_files, "_ROW_GROUP_BYTES", 32)
    batch = pa.RecordBatch.from_pydict({"queueOffset": pa.array(range(3), pa.int64())})
    with (
        (tmp_path / "x").open("wb") as out,
        export_files.writer(out, batch.schema, export_files.FileFormat.PARQUET, "auto") as write,
    ):
        for _ in range(5):
            write(batch)
    metadata = pq.read_metadata(tmp_path / "x")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [6, 6, 3]


def test_a_file_without_messages_has_the_columns(tmp_path):
    schema = pa.schema([("queueOffset", pa.int64())])
    with (
        (tmp_path / "x").open("wb") as out,
        export_files.writer(out, schema, export_files.FileFormat.PARQUET, "auto"),
    ):
        pass
    found = pq.read_table(tmp_path / "x")
    assert (found.num_rows, found.schema.names) == (0, ["queueOffset"])
