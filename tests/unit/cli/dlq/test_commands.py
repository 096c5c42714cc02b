"""``rocketmq dlq``: ls, show and export."""

import json

import pytest

from rocketmq_py.cli.dlq import commands
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.errors import ConnectError
from rocketmq_py.model import MessageQueue
from tests.unit.cli.messages import STORED, message

TOPIC = "%DLQ%g"
Q0, Q1 = MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-a", 1)


def dead(offset, queue=0, **properties):
    return message(b"%d" % offset, topic=TOPIC, queue=queue, offset=offset, stored=STORED + offset,
                   RETRY_TOPIC="orders", **properties)  # fmt: skip


@pytest.fixture
def dlq(admin):
    """Group g has dead letters 2 to 5 in one queue, of which 2 and 3 were resent, and 0 in another; h has none."""
    admin.add_topic(TOPIC, 2)
    admin.add_topic("%DLQ%h")
    admin.add_topic("orders")
    admin.deleted_before[Q0] = 2
    admin.add_messages(*(dead(offset) for offset in range(2, 6)), dead(0, 1))
    admin.commit("TOOLS_CONSUMER", Q0, 4)
    return admin


def test_every_command_is_there():
    assert sorted(commands.command.commands) == ["export", "ls", "resend", "show"]


# -- ls


def test_groups_with_dead_letters_are_listed(dlq, run):
    assert json.loads(run("dlq ls -o json").stdout) == [
        {"group": "g", "messages": 5, "resent": 2, "lastStored": STORED + 5}
    ]  # fmt: skip
    assert run("dlq ls").output.splitlines()[1].split() == ["g", "5", "2", *show_time(STORED + 5).split()]
    assert dlq.skips_silent is True


@pytest.mark.parametrize(("mark", "resent"), [(0, 0), (2, 0), (3, 1), (6, 4), (99, 4)])
def test_what_was_resent_is_counted_within_the_queue(dlq, run, mark, resent):
    dlq.commit("TOOLS_CONSUMER", Q0, mark)
    [row] = json.loads(run("dlq ls -o json").stdout)
    assert row["resent"] == resent


def test_a_silent_broker_makes_the_listing_unhealthy(dlq, run):
    dlq.unreachable = {"b": ConnectError("refused")}
    assert run("dlq ls").exit_code == 4


# -- show


def test_the_newest_dead_letters_are_shown(dlq, run):
    rows = json.loads(run("dlq show g -n 2 -o json").stdout)
    assert [(row["offset"], row["origin"], row["body"]) for row in rows] == [(4, "orders", "4"), (5, "orders", "5")]
    assert len(json.loads(run("dlq show g -o json --body hex").stdout)) == 5
    lines = run("dlq show g -n 1").output.splitlines()
    assert lines[0].split() == [
        "stored", "broker", "queue", "offset", "msgId", "origin", "tags", "keys", "reconsumeTimes", "body"
    ]  # fmt: skip
    assert lines[1].startswith(f"{show_time(STORED + 5)}  broker-a ")


def test_ten_dead_letters_are_shown_unless_told(dlq, run):
    dlq.add_messages(*(dead(offset) for offset in range(6, 20)))
    assert len(json.loads(run("dlq show g -o json").stdout)) == 10
    assert run("dlq show g -n 0").exit_code == 2


@pytest.mark.parametrize("verb", ["show", "export", "resend"])
def test_a_group_without_dead_letters_is_not_found(dlq, run, verb):
    refused = run(f"dlq {verb} nix")
    assert refused.exit_code == 3
    assert "consumer group nix has no dead letters" in refused.output


# -- export


def offsets(text):
    return [(row["queue"], row["offset"]) for row in map(json.loads, text.splitlines())]


def test_dead_letters_are_written_to_a_file(dlq, run, tmp_path):
    result = run("dlq", "export", "g", str(tmp_path / "out"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "exported 5 dead letters of group g\n"
    written = (tmp_path / "out").read_text()
    assert offsets(written) == [(0, 2), (0, 3), (0, 4), (0, 5), (1, 0)]
    assert json.loads(written.splitlines()[0])["origin"] == "orders"
    assert list(tmp_path.glob("*out*")) == [tmp_path / "out"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", [2, 3, 4, 5]),
        (f"--since {STORED + 3}", [3, 4, 5]),
        (f"--until {STORED + 3}", [2]),
        (f"--since {STORED + 3} --until {STORED + 5}", [3, 4]),
        (f"--since {STORED + 4} --until {STORED + 3}", []),
        (f"--since {STORED + 9}", []),
    ],
)
def test_dead_letters_of_a_time_are_written_to_standard_output(dlq, run, options, found):
    dlq.stored[Q1].clear()
    result = run(f"dlq export g - {options}")
    assert result.exit_code == 0
    assert offsets(result.stdout) == [(0, offset) for offset in found]
    assert result.stderr == f"exported {len(found)} dead letters of group g\n"


def test_the_body_is_written_as_told(dlq, run):
    assert json.loads(run("dlq export g - --body hex").stdout.splitlines()[0])["body"] == "32"


def test_a_failed_export_leaves_the_old_file(dlq, run, tmp_path):
    (tmp_path / "out").write_text("old")
    dlq.failures["read"] = ConnectError("refused")
    assert run("dlq", "export", "g", str(tmp_path / "out")).exit_code == 1
    assert (tmp_path / "out").read_text() == "old"
    assert list(tmp_path.glob("*out*")) == [tmp_path / "out"]


def test_a_file_that_cannot_be_written_is_named(dlq, run, tmp_path):
    file = tmp_path / "nix" / "out"
    result = run("dlq", "export", "g", str(file))
    assert (result.exit_code, result.output) == (1, f"Error: {file} cannot be written: No such file or directory\n")
