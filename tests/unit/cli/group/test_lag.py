"""Lag and rates of a group, once and repeatedly."""

import json
import re
import time

import pytest

from rocketmq_py.cli.group import lag
from rocketmq_py.cli.group.lag import LagSnapshot
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.errors import ConnectError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def states(*pairs):
    return {q: OffsetWrapper(broker_offset=end, consumer_offset=at) for q, (at, end) in zip((Q0, Q1), pairs)}  # noqa: B905


def test_lag_and_rates_are_computed_from_two_snapshots():
    before = LagSnapshot(10.0, states((0, 100), (50, 50)))
    now = LagSnapshot(12.0, states((60, 110), (50, 50)))
    first, second = lag.lag_rows(now, before)
    assert (first["lag"], first["inPerS"], first["outPerS"]) == (50, 5.0, 30.0)
    assert (second["lag"], second["inPerS"], second["outPerS"]) == (0, 0.0, 0.0)
    assert lag.summary("g", [first, second]) == (
        "g: 50 messages wait in 2 queues, 5.0/s in, 30.0/s out, done in about 2s"
    )


def test_a_single_snapshot_has_no_rates():
    rows = lag.lag_rows(LagSnapshot(10.0, states((0, 3))), None)
    assert rows[0]["inPerS"] is None
    assert lag.summary("g", rows) == "g: 3 messages wait in 1 queues"
    new_queue = lag.lag_rows(LagSnapshot(12.0, states((0, 3), (0, 1))), LagSnapshot(10.0, states((0, 3))))
    assert [row["inPerS"] for row in new_queue] == [0.0, None]


def test_a_growing_lag_is_reported():
    rows = lag.lag_rows(LagSnapshot(2.0, states((1, 30))), LagSnapshot(1.0, states((0, 10))))
    assert lag.summary("g", rows).endswith("20.0/s in, 1.0/s out, it falls behind")


@pytest.mark.parametrize(
    ("now", "before", "end"),
    [
        ((1, 30), (0, 10), ", 20.0/s in, 1.0/s out, it falls behind"),
        ((5, 30), (0, 25), ", 5.0/s in, 5.0/s out"),
        ((30, 30), (0, 0), ", 30.0/s in, 30.0/s out"),
        ((30, 30), (20, 25), ", 5.0/s in, 10.0/s out"),
        ((30, 30), (30, 20), ", 10.0/s in, 0.0/s out"),
    ],
)
def test_what_the_rates_mean_is_said_only_if_something_waits(now, before, end):
    rows = lag.lag_rows(LagSnapshot(2.0, states(now)), LagSnapshot(1.0, states(before)))
    assert lag.summary("g", rows).endswith(f"messages wait in 1 queues{end}")


def test_two_snapshots_of_one_moment_have_no_rates():
    [row] = lag.lag_rows(LagSnapshot(1.0, states((1, 2))), LagSnapshot(1.0, states((0, 0))))
    assert (row["inPerS"], row["outPerS"]) == (None, None)
    assert lag.summary("g", []) == "g: 0 messages wait in 0 queues"


# -- the command


CONSUMED_AT = 1_700_000_000_000


@pytest.fixture
def group(admin):
    """Group g with a lag of 2 in one queue of topic t and 0 in the other."""
    admin.add_group("g")
    admin.add_topic("t", 2)
    admin.commit("g", Q0, 8, 10, CONSUMED_AT)
    admin.commit("g", Q1, 5, 5)
    return admin


@pytest.fixture
def moving(group, monkeypatch):
    """Each query finds ten messages more in the first queue and five of them consumed."""
    queries = []

    async def progress(name, topic=None):
        number = len(queries)
        queries.append((name, topic, time.monotonic()))
        failure = group.failures.get(f"query {number}")
        if failure is not None:
            raise failure
        return {Q0: OffsetWrapper(broker_offset=100 + 10 * number, consumer_offset=50 + 5 * number)}

    monkeypatch.setattr(group, "progress", progress)
    return queries


def test_the_lag_of_each_queue_is_printed(group, run):
    result = run("group lag g -o json")
    assert (result.exit_code, group.skips_silent) == (0, True)
    first, second = json.loads(result.stdout)
    assert first == {
        "topic": "t", "broker": "broker-a", "queue": 0, "offset": 8, "end": 10, "lag": 2, "lastConsumed": CONSUMED_AT
    }  # fmt: skip
    assert (second["queue"], second["lag"], second["lastConsumed"]) == (1, 0, None)
    lines = run("group lag g").output.splitlines()
    assert lines[0].split() == ["topic", "broker", "queue", "offset", "end", "lag", "lastConsumed"]
    assert lines[1].split()[:6] == ["t", "broker-a", "0", "8", "10", "2"]
    assert lines[1].endswith(show_time(CONSUMED_AT))
    assert lines[3:] == ["g: 2 messages wait in 2 queues"]


def test_a_topic_that_is_not_consumed_yet_needs_its_name(group, run):
    group.add_group("idle")
    refused = run("group lag idle")
    assert refused.exit_code == 3
    assert "group idle has committed nothing yet. Use --topic NAME to show the lag on a topic" in refused.output
    assert [row["queue"] for row in json.loads(run("group lag idle --topic t -o json").stdout)] == [0, 1]
    assert run("group lag idle --topic nix").exit_code == 3


@pytest.mark.parametrize(("most", "status"), [(0, 4), (1, 4), (2, 0), (3, 0)])
def test_a_lag_above_the_limit_is_unhealthy(group, run, most, status):
    result = run(f"group lag g --max {most}")
    assert result.exit_code == status
    said = f"2 messages wait for group g, more than {most}\n" if status else ""
    assert result.stderr == said


def test_a_watch_repeats_with_rates(moving, run):
    result = run("group lag g --watch --count 3 --interval 4 -o jsonl")
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert [document["group"] for document in documents] == ["g"] * 3
    assert [document["queues"][0]["lag"] for document in documents] == [50, 55, 60]
    rates = [(document["queues"][0]["inPerS"], document["queues"][0]["outPerS"]) for document in documents]
    assert rates[0] == (None, None)
    assert rates[1:] == [pytest.approx((2.5, 1.25), rel=0.2)] * 2
    assert documents[0]["at"] > CONSUMED_AT
    at = [when for _, _, when in moving]
    assert [at[1] - at[0], at[2] - at[1]] == pytest.approx([4, 4], abs=1)


def test_a_watch_has_an_interval_of_two_seconds(moving, run):
    assert run("group lag g --watch --count 2").exit_code == 0
    assert moving[1][2] - moving[0][2] == pytest.approx(2, abs=0.9)


def test_a_watch_prints_tables_one_after_another(moving, run):
    lines = run("group lag g -w -c 2").output.splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith("topic")] == [["inPerS", "outPerS"]] * 2
    assert lines[3] == ""
    said = re.search(r"([\d.]+)/s in, ([\d.]+)/s out, it falls behind", lines[6])
    assert said is not None
    assert [float(rate) for rate in said.groups()] == pytest.approx([5.0, 2.5], rel=0.3)


def test_a_watch_survives_a_broker_that_does_not_answer(moving, group, run):
    group.failures["query 2"] = ConnectError("refused")
    result = run("group lag g -w -c 3 -o jsonl")
    assert (result.exit_code, result.stderr) == (0, "refused; asked again\n")
    assert len(result.stdout.splitlines()) == 2
    assert group.skips_silent is False


def test_a_first_query_that_fails_ends_a_watch(moving, group, run):
    group.failures["query 0"] = ConnectError("refused")
    result = run("group lag g -w -c 3")
    assert (result.exit_code, "refused" in result.output, len(moving)) == (1, True, 1)


@pytest.mark.parametrize("words", ["-c 2", "-w -c 0", "-w --interval 0", "--max -1"])
def test_options_that_cannot_be_meant_are_refused(group, run, words):
    assert run(f"group lag g {words}").exit_code == 2


def test_a_terminal_is_cleared_for_each_table(group, monkeypatch, capsys):
    monkeypatch.setattr(lag.sys.stdout, "isatty", lambda: True, raising=False)
    rows = lag.lag_rows(LagSnapshot(1.0, states((0, 3))), None)
    lag._echo("g", rows, "table", watch=True)
    assert capsys.readouterr().out.startswith("\x1b[2J\x1b[H")
    lag._echo("g", rows, "table", watch=False)
    assert "\x1b[2J" not in capsys.readouterr().out
