"""``rocketmq group reset``: its target, the plan it shows, and the offsets it sets."""

import json

import click
import pytest

from rocketmq_py.cli.group import reset
from rocketmq_py.model import MessageQueue
from tests.unit.cli.messages import STORED, message

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def test_a_reset_needs_exactly_one_target():
    with pytest.raises(click.UsageError, match="give one of --earliest"):
        reset.offset_choice(False, False, None, None, None)
    with pytest.raises(click.UsageError, match="give one of --earliest"):
        reset.offset_choice(True, False, None, 0, None)
    assert reset.offset_choice(False, False, None, 0, None) is not None


@pytest.fixture
def group(admin):
    """Group g is at 12 of the offsets 10 to 15 in the first queue, and has committed nothing of 0 to 4 in the other."""
    admin.add_group("g")
    admin.add_topic("t", 2)
    admin.deleted_before[Q0] = 10
    admin.add_messages(*(message(offset=offset, stored=STORED + offset) for offset in range(10, 15)))
    admin.add_messages(*(message(queue=1, offset=offset, stored=STORED + offset) for offset in range(4)))
    admin.commit("g", Q0, 12)
    return admin


@pytest.mark.parametrize(
    ("target", "first", "second"),
    [
        ("--earliest", 10, 0),
        ("--latest", 15, 4),
        ("--to-offset 0", 10, 0),
        ("--to-offset 3", 10, 3),
        ("--to-offset 14", 14, 4),
        ("--to-offset 99", 15, 4),
        ("--shift-by 0", 12, 0),
        ("--shift-by 1", 13, 1),
        ("--shift-by -1", 11, 0),
        ("--shift-by -99", 10, 0),
        ("--shift-by 99", 15, 4),
        (f"--to-time {STORED + 11}", 11, 4),
        (f"--to-time {STORED + 2}", 10, 2),
    ],
)
def test_each_queue_is_set_within_its_range(group, run, target, first, second):
    result = run(f"group reset g t {target} --yes -o json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [(row["queue"], row["minOffset"], row["maxOffset"], row["from"], row["to"]) for row in rows] == [
        (0, 10, 15, 12, first), (1, 0, 4, None, second)
    ]  # fmt: skip
    moved = [(Q0, first)] * (first != 12) + [(Q1, second)]
    assert group.changes == [("reset_group_offset", "g", queue, to) for queue, to in moved]
    assert result.stderr == f"set {len(moved)} queues of t for group g\n"


@pytest.mark.parametrize("target", ["", "--earliest --latest", "--to-offset 0 --shift-by 0", "--to-offset -1"])
def test_other_targets_are_refused(group, run, target):
    assert run(f"group reset g t {target} --yes").exit_code == 2
    assert group.changes == []


def test_one_queue_alone_is_set(group, run):
    assert run("group reset g t --earliest --queue broker-a:0 --yes").exit_code == 0
    assert group.changes == [("reset_group_offset", "g", Q0, 10)]


def test_queues_that_are_not_there_are_refused(group, run):
    refused = run("group reset g t --earliest --queue broker-b:0 --queue broker-a:2 --queue broker-a:0 --yes")
    assert refused.exit_code == 2
    assert "topic t has no queue broker-a:2, broker-b:0" in refused.output
    assert group.changes == []


def test_a_dry_run_changes_nothing(group, run):
    result = run("group reset g t --earliest --dry-run")
    assert (result.exit_code, group.changes) == (0, [])
    assert result.output.splitlines() == [
        "broker    queue  minOffset  maxOffset  from  to",
        "broker-a      0         10         15    12  10",
        "broker-a      1          0          4     -   0",
    ]


def test_offsets_that_stay_need_no_question(group, run):
    group.commit("g", Q1, 4)
    for output, said in (("table", "nothing to do\n"), ("json", "")):
        result = run(f"group reset g t --shift-by 0 --yes -o {output}")
        assert (result.exit_code, group.changes) == (0, [])
        assert result.stdout.endswith(said)
    assert result.stderr == "set 0 queues of t for group g\n"


def test_the_result_of_a_table_is_on_standard_output(group, run):
    result = run("group reset g t --latest --yes")
    assert result.stdout.endswith("set 2 queues of t for group g\n")
    assert result.stderr == ""


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("answer", "status", "sets"), [("y", 0, 2), ("n", 1, 0)])
def test_offsets_are_set_after_the_question_only(group, run, answer, status, sets):
    result = run("group reset g t --earliest", input=f"{answer}\n")
    assert result.exit_code == status
    assert "Set 2 queues of t to these offsets for group g?" in result.output
    assert len(group.changes) == sets


@pytest.mark.parametrize(("words", "said"), [("nix t", "there is no consumer group nix"), ("g nix", "topic nix")])
def test_what_is_not_there_is_not_found(group, run, words, said):
    refused = run(f"group reset {words} --earliest --yes")
    assert (refused.exit_code, said in refused.output) == (3, True)
    assert group.changes == []
