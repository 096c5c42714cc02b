"""``rocketmq message``: get, query and recall."""

import json

import pytest

from rocketmq_py.cli.connect.connect import Target
from rocketmq_py.cli.message import commands
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.errors import ConnectError
from tests.unit.cli.messages import STORED, message


@pytest.fixture
def stored(admin):
    admin.add_topic("t")
    admin.add_messages(*(
        message(b"body %d\n" % number, offset=number, stored=STORED + number, UNIQ_KEY=f"ID{number}", KEYS="k l")
        for number in range(3)
    ))  # fmt: skip
    return admin


def test_every_command_is_there():
    assert sorted(commands.command.commands) == ["export", "get", "query", "recall", "send", "trace"]


def test_get_shows_a_message(stored, run):
    row = json.loads(run("message get ID1 --topic t -o json").stdout)
    assert (row["msgId"], row["body"], row["bodyEncoding"], row["stored"]) == ("ID1", "body 1\n", "text", STORED + 1)
    assert json.loads(run("message get ID1 --topic t -o json --body hex").stdout)["body"] == b"body 1\n".hex()
    lines = run("message get ID1 --topic t").output.splitlines()
    assert f"stored          {show_time(STORED + 1)}" in lines
    assert f"born            {show_time(STORED)}" in lines


def test_get_writes_the_bare_body(stored, run):
    result = run("message get ID1 --topic t --raw -o json")
    assert (result.exit_code, result.stdout_bytes) == (0, b"body 1\n")


def test_get_without_a_topic_needs_an_offset_id(stored, run):
    assert run("message get ID1").exit_code == 2
    assert run("message get NIX --topic t").exit_code == 3


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", [0, 1, 2]),
        ("-n 1", [2]),
        ("-n 2", [1, 2]),
        (f"--since {STORED + 1}", [1, 2]),
        (f"--until {STORED + 1}", [0, 1]),
        (f"--since {STORED + 1} --until {STORED + 1}", [1]),
    ],
)
def test_query_finds_messages_by_key_and_time(stored, run, options, found):
    result = run(f"message query t k -o jsonl {options}")
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == found
    assert stored.skips_silent is True


def test_query_finds_a_unique_id_and_prints_a_table(stored, run):
    lines = run("message query t ID2").output.splitlines()
    assert lines[0].split() == ["stored", "broker", "queue", "offset", "msgId", "tags", "keys", "body"]
    assert lines[1].split()[-6:] == ["ID2", "-", "k", "l", "body", "2\\n"]
    assert lines[1].startswith(show_time(STORED + 2))


def test_query_asks_for_64_messages_of_each_broker(stored, run, monkeypatch):
    asked = []

    async def messages_by_key(topic, key, **options):
        asked.append((topic, key, options))
        return [message()]

    monkeypatch.setattr(stored, "messages_by_key", messages_by_key)
    assert run("message query t k").exit_code == 0
    assert asked == [("t", "k", {"max_messages": 64, "begin_ms": 0, "end_ms": 2**63 - 1})]
    assert run("message query t k -n 0").exit_code == 2


def test_query_without_a_result_is_not_found(stored, run):
    missing = run("message query t nix")
    assert missing.exit_code == 3
    assert "topic t has no message with key 'nix'. New messages are indexed after a moment" in missing.output
    stored.unreachable = {"broker-b": ConnectError("refused")}
    assert run("message query t nix").exit_code == 4


def test_recall_names_the_message(run, monkeypatch):
    seen = []

    class Recaller:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            seen.append("closed")

        def recall(self, topic, handle):
            seen.append((topic, handle))
            return "ID"

    def connect(target):
        assert isinstance(target, Target)
        return Recaller()

    monkeypatch.setattr(commands, "connect", connect)
    assert run("message recall t handle").output == "message ID is recalled\n"
    assert seen == [("t", "handle"), "closed"]
