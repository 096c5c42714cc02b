"""``rocketmq plan``."""

from __future__ import annotations

import json

from click.testing import CliRunner

from rocketmq_py.cli.plan import command
from rocketmq_py.cli.root import VERBS
from rocketmq_py.core.capacity import Load, Plan, plan


def run(*args: str) -> str:
    result = CliRunner().invoke(command, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_json_has_all_figures() -> None:
    found = json.loads(run("--messages", "5000", "--groups", "3", "--size", "200", "-o", "json"))
    expected = plan(Load(messages=5000, groups=3, message_bytes=200))
    assert found == {name: getattr(expected, name) for name in Plan.__struct_fields__}


def test_the_table_has_units() -> None:
    lines = {
        line.split()[0]: " ".join(line.split()[1:]) for line in run("--messages", "38500", "--groups", "0").splitlines()
    }
    assert lines["masters"] == "2"
    assert lines["sends_each"] == "19,250 messages/s"
    assert lines["core_share_each"] == "0.25 of a core"
    assert lines["heartbeats_each"] == "3.33 /s"
    assert set(lines) == set(Plan.__struct_fields__)


def test_the_verb_is_known() -> None:
    assert VERBS["plan"] == "plan"
