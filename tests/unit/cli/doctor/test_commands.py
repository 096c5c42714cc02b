"""``rocketmq doctor``: its report and exit status."""

import json

import pytest
from click.testing import CliRunner

from rocketmq_py.cli import main
from rocketmq_py.client.doctor import queries
from rocketmq_py.client.doctor.checks import FAIL, OK, WARN, Check

GOOD = Check("broker", "a:0", OK, "reachable")
ODD = Check("clock", "a:0", WARN, "1h behind", "Synchronise it")
BAD = Check("disk", "a:0", FAIL, "95% full", "Free space")


@pytest.fixture
def doctor(run, monkeypatch):
    def report(checks, words=""):
        asked = []

        async def examine(open_admin, namesrv, topic, group):
            asked.append((namesrv, topic, group))
            return checks

        monkeypatch.setattr(queries, "examine", examine)
        result = run(f"doctor --namesrv h:1 {words}")
        return result, asked

    return report


@pytest.mark.parametrize(
    ("checks", "status"), [([], 0), ([GOOD], 0), ([GOOD, ODD], 0), ([GOOD, BAD], 4), ([BAD, GOOD], 4)]
)
def test_a_failed_check_is_the_exit_status(doctor, checks, status):
    assert doctor(checks)[0].exit_code == status


def test_a_report_has_advice_and_counts(doctor):
    result, asked = doctor([GOOD, ODD, BAD, GOOD])
    assert asked == [("h:1", None, None)]
    assert result.output.splitlines() == [
        "h:1 (--namesrv)",
        "ok    broker a:0  reachable",
        "warn  clock a:0   1h behind",
        "      Synchronise it",
        "fail  disk a:0    95% full",
        "      Free space",
        "ok    broker a:0  reachable",
        "2 ok, 1 warn, 1 fail",
    ]


def test_a_report_is_rows_for_programs(doctor):
    result, asked = doctor([GOOD, BAD], "--topic t --group g -o jsonl")
    assert asked == [("h:1", "t", "g")]
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"check": "broker", "target": "a:0", "status": "ok", "detail": "reachable", "advice": ""},
        {"check": "disk", "target": "a:0", "status": "fail", "detail": "95% full", "advice": "Free space"},
    ]
    assert result.exit_code == 4


def test_each_status_has_its_colour(monkeypatch):
    async def examine(*_):
        return [GOOD, ODD, BAD]

    monkeypatch.setattr(queries, "examine", examine)
    shown = CliRunner().invoke(main, ["doctor"], color=True).output
    assert [f"\x1b[{colour}m{word:<4}\x1b[0m" in shown for colour, word in ((32, OK), (33, WARN), (31, FAIL))] == (
        [True] * 3
    )
