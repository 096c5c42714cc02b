"""``rocketmq store`` on the store of a Java broker and on damaged copies of it."""

import datetime
import json
import shutil

import pytest
from click.testing import CliRunner

from rocketmq_py.cli import main, store as verb
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.store.tools.inspect import preview
from tests.golden import files

GOLDEN = str(files.STORE)


def run(*args):
    return CliRunner().invoke(main, ("store", *map(str, args)))


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(files.STORE, tmp_path / "store")


@pytest.fixture
def damaged(copy):
    with (copy / "commitlog" / ("0" * 20)).open("r+b") as file:
        file.seek(420)
        file.write(b"\xff")
    return copy


# -- verify


def test_a_valid_store_is_reported_as_valid():
    result = run("verify", GOLDEN)
    assert result.exit_code == 0
    assert result.output == (
        f"{GOLDEN} (closed): checked 13 records from 0 to 4562 of the log, 13 entries in 4 consume queues, "
        "31 entries in 1 index files and 4 config files\nvalid\n"
    )


def test_a_damaged_store_lists_its_findings(damaged):
    result = run("verify", damaged)
    assert result.exit_code == 1
    first, *_, last = result.output.splitlines()
    log = damaged / "commitlog" / ("0" * 20)
    assert first == f"problem: {log}: the log is damaged from 332 to 664: the checksum of a body is wrong"
    assert last.endswith("problems found")


@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_verify_prints_json(damaged, output):
    result = run("verify", damaged, "-o", output)
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert (report["valid"], report["state"], report["logEnd"]) == (False, "closed", 4562)
    assert report["checked"]["configFiles"] == 4
    assert report["findings"][0]["severity"] == "problem"
    assert len(result.output.splitlines()) == 1 or output == "json"


def test_a_running_broker_is_reported(copy):
    lock = OsFileSystem().lock(copy / "lock")
    try:
        assert "(a broker runs on it)" in run("verify", copy).output
        assert json.loads(run("inspect", copy, "-o", "json").output)["state"] == "a broker runs on it"
    finally:
        lock.release()
    assert "(closed)" in run("verify", copy).output


@pytest.mark.parametrize("what", ["verify", "inspect"])
def test_a_directory_without_a_store_is_refused(what, tmp_path):
    result = run(what, tmp_path)
    assert result.exit_code == 2
    assert "is no store: it has no directory commitlog" in result.output
    assert run(what, tmp_path / "nowhere").exit_code == 2
    assert run(what).exit_code == 2


def test_progress_is_shown_at_terminals_only(monkeypatch, capsys):
    with verb._progress() as tell:
        assert tell is None
    monkeypatch.setattr(verb.sys.stderr, "isatty", lambda: True)
    with verb._progress() as tell:
        tell(1 << 29, 1 << 30)
        tell(1 << 30, 1 << 30)
    assert "1024/1024" in capsys.readouterr().err


# -- inspect


def test_inspect_shows_the_whole_store():
    result = run("inspect", GOLDEN)
    assert result.exit_code == 0
    assert "\nlogEnd         4562\n" in result.output
    assert "\ngolden                   0    0   10        10\n" in result.output
    overview = json.loads(run("inspect", GOLDEN, "-o", "json").output)
    assert overview["newestMessage"] == 1795233166443
    assert overview["queueList"][-1] == {"topic": "golden", "queue": 1, "min": 0, "max": 1, "messages": 1}


def test_inspect_shows_the_queues_of_a_topic():
    rows = [json.loads(line) for line in run("inspect", GOLDEN, "--topic", "golden", "-o", "jsonl").output.splitlines()]
    assert [(row["queue"], row["max"]) for row in rows] == [(0, 10), (1, 1)]


def test_inspect_shows_messages_of_a_queue():
    args = ("inspect", GOLDEN, "--topic", "golden", "--queue", 0, "--offset", 4, "--count", 2)
    rows = json.loads(run(*args, "-o", "json").output)
    assert [(row["offset"], row["properties"]["KEYS"]) for row in rows] == [(4, "b-1"), (5, "b-2")]
    assert rows[0]["body"].startswith("00000001|")
    header, first, second = run(*args).output.splitlines()
    assert header.split() == ["offset", "physical", "size", "stored", "tags", "keys", "msgId", "body"]
    assert first.split()[:3] == ["4", "1515", "253"]
    delivered = {row["msgId"] for row in files.deliveries()}
    assert {second.split()[-2]} <= delivered
    assert run("inspect", GOLDEN, "--topic", "golden", "--queue", 0, "--offset", 99).output.count("\n") == 1


def test_inspect_shows_a_record():
    result = run("inspect", GOLDEN, "--physical", 332)
    assert result.exit_code == 0
    assert "\noffset                     1\n" in result.output
    assert "\n                           city = Zürich\n" in result.output
    row = json.loads(run("inspect", GOLDEN, "--physical", 332, "-o", "jsonl").output)
    assert row["bornHost"] == "127.0.0.1:44430"
    local = datetime.datetime.fromtimestamp(row["stored"] / 1000).astimezone()
    assert local.isoformat(sep=" ", timespec="milliseconds") in result.output
    assert str(row["stored"]) not in result.output


@pytest.mark.parametrize(
    ("physical", "said"),
    [(333, "is not that of a record"), (8000, "nothing was written there"), (1 << 40, "the log has no such offset"),
     (3640, "the file ends before this offset: the next record is at 4096")],
)  # fmt: skip
def test_a_missing_record_is_reported(physical, said):
    result = run("inspect", GOLDEN, "--physical", physical)
    assert result.exit_code == 1
    assert said in result.output


def test_an_expired_record_is_reported(copy):
    (copy / "commitlog" / ("0" * 20)).unlink()
    result = run("inspect", copy, "--physical", 332)
    assert result.exit_code == 1
    assert "it has expired: the log begins at 4096" in result.output


def test_a_damaged_message_does_not_hide_the_others(damaged):
    rows = json.loads(run("inspect", damaged, "--topic", "golden", "--queue", 0, "--count", 3, "-o", "json").output)
    assert [row.get("error") for row in rows] == [None, "the checksum of a body is wrong", None]
    assert run("inspect", damaged, "--topic", "golden", "--queue", 0).exit_code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--topic", "nope"), "it has those of %RETRY%golden-retry, SCHEDULE_TOPIC_XXXX, golden"),
        (("--topic", "golden", "--queue", "7"), "has no queue 7 in this store; it has 0, 1"),
        (("--queue", "1"), "--queue needs --topic"),
        (("--topic", "golden", "--offset", "1"), "--offset and --count need --topic and --queue"),
        (("--topic", "golden", "--physical", "1"), "--physical cannot be combined"),
        (("--count", "0"), "Invalid value"),
        (("-o", "xml"), "Invalid value"),
    ],
)
def test_wrong_arguments_are_refused(args, said):
    result = run("inspect", GOLDEN, *args)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", ""), (b"plain", "plain"), (b"a\nb", "0x610a62"), (b"\xff\x00", "0xff00"), ("ü".encode() * 32, "ü" * 32),
        (b"x" * 65, "x" * 64 + "…"), (b"x" + "ü".encode() * 40, "x" + "ü" * 31 + "…"), (b"x\xff" + b"y" * 70,
         "0x78ff" + "79" * 62 + "…"),
    ],
)  # fmt: skip
def test_bodies_are_abbreviated(body, shown):
    assert preview(body) == shown


# -- repair


def test_a_repair_shows_what_is_lost_and_changes_nothing(damaged):
    before = {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()}
    result = run("repair", damaged)
    assert result.exit_code == 1
    first, second, last = result.output.splitlines()
    assert first.startswith("damaged: commit log 332 to ")
    assert first.endswith(": the checksum of a body is wrong")
    assert second.startswith("lost: ")
    assert last == f"{damaged}: 12 whole records, 1 damaged parts; nothing was changed, repair with --apply"
    assert {path: path.read_bytes() for path in damaged.rglob("*") if path.is_file()} == before


def test_a_repaired_store_can_be_read_to_its_end(damaged):
    result = run("repair", damaged, "--apply", "-o", "json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert report["repaired"]
    assert len(report["lost"]) == 1
    assert (damaged / "replaced-1" / "consumequeue").is_dir()
    again = run("repair", damaged)
    assert "0 damaged parts" in again.output
    assert "the log is damaged" not in run("verify", damaged).output
