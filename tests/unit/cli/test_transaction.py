"""``rocketmq transaction``: half messages as rows, and which of them are listed."""

import json

import pytest

from rocketmq_py.cli import transaction
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.errors import ConnectError
from tests.unit.cli.messages import STORED, message


def half(number, topic="orders", group="p", **properties):
    fields = {"PGROUP": group, "REAL_TOPIC": topic, "REAL_QID": "3", "UNIQ_KEY": f"ID{number}", **properties}
    return message(b"four", topic="RMQ_SYS_TRANS_HALF_TOPIC", offset=number, stored=STORED, **fields)


def test_a_half_message_becomes_a_row():
    row = transaction.half_row(half(1, TRANSACTION_CHECK_TIMES="2", TAGS="a", KEYS="k"))
    assert row.pop("offsetMsgId") == half(1).offset_msg_id
    assert row == {
        "transactionId": "ID1", "group": "p", "topic": "orders", "queue": 3, "checks": 2, "tags": "a", "keys": "k",
        "born": STORED - 1, "stored": STORED, "broker": "broker-a", "offset": 1, "bytes": 4,
    }  # fmt: skip
    bare = transaction.half_row(message())
    assert (bare["group"], bare["topic"], bare["queue"], bare["checks"]) == (None, None, -1, 0)


@pytest.fixture
def open_halves(admin):
    admin.halves = [half(1), half(2, group="q"), half(3, topic="bills")]
    admin.given_up = [half(9)]
    return admin


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ("", ["ID1", "ID2", "ID3"]),
        ("--topic orders", ["ID1", "ID2"]),
        ("--group p", ["ID1", "ID3"]),
        ("--topic orders --group p", ["ID1"]),
        ("--topic nix", []),
        ("--given-up", ["ID9"]),
        ("--given-up --group q", []),
    ],
)
def test_transactions_are_listed_by_topic_and_group(open_halves, run, options, ids):
    result = run(f"transaction ls -o json {options}")
    assert result.exit_code == 0, result.output
    assert [row["transactionId"] for row in json.loads(result.stdout)] == ids
    assert open_halves.skips_silent is True


def test_a_table_has_ages(open_halves, run, monkeypatch):
    monkeypatch.setattr(transaction, "now_ms", lambda: STORED - 1 + 65_000)
    lines = run("transaction ls").output.splitlines()
    assert lines[0].split() == [
        "stored", "age", "transactionId", "group", "topic", "queue", "checks", "keys", "broker", "offsetMsgId",
    ]  # fmt: skip
    assert lines[1].startswith(f"{show_time(STORED)}  1m05s  ID1 ")


def test_a_silent_broker_makes_it_unhealthy(open_halves, run):
    open_halves.unreachable = {"b": ConnectError("refused")}
    assert run("transaction ls").exit_code == 4


def test_a_transaction_is_resumed(admin, run):
    assert run("transaction resume 0A").exit_code == 0
    assert admin.changes == [("resume_transaction", "0A")]
