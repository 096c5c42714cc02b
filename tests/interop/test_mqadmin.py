"""Every sub-command of mqadmin prints on our servers what it prints on Java's, prepared in the same way.

Requests no sub-command makes are answered by our broker as by Java's: the same bodies, field by field.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.interop.admin_requests import REQUESTS
from tests.interop.javapeer import JavaPeer
from tests.interop.mqadmin_cases import CASES, DIFFERENT, EXPORTED, LEFT_OUT, PREPARATION
from tests.interop.mqadmin_run import Answers

Both = tuple[Answers, Answers]
"""Java's answers and ours."""


@pytest.mark.parametrize("number", range(len(PREPARATION + CASES)), ids=[case.line for case in PREPARATION + CASES])
def test_mqadmin_prints_the_same(number: int, asked: Both) -> None:
    case = (PREPARATION + CASES)[number]
    theirs, ours = asked
    assert ours.normal(number, case) == theirs.normal(number, case)


@pytest.mark.parametrize("number", range(len(DIFFERENT)), ids=[case.line for case in DIFFERENT])
def test_intended_differences_of_mqadmin_are_listed(number: int, asked: Both) -> None:
    theirs, ours = asked
    assert re.search(DIFFERENT[number].java, theirs.different[number]), theirs.different[number]
    assert DIFFERENT[number].ours in ours.different[number]


@pytest.mark.parametrize(
    "number", range(len(REQUESTS)), ids=[f"{code.name} {' '.join(ext.values())}" for code, ext, _ in REQUESTS]
)
def test_bodies_of_answers_are_equal(number: int, asked: Both) -> None:
    theirs, ours = asked
    assert ours.raw[number] == theirs.raw[number]


@pytest.mark.parametrize("file", EXPORTED)
def test_exports_are_equal(file: str, asked: Both) -> None:
    theirs, ours = (_export(side.work / file) for side in asked)
    assert ours == theirs


def _export(path: Path) -> object:
    """A file of an export command, without times, versions and addresses."""
    tree = json.loads(path.read_text())
    tree.pop("exportTime", None)
    tree.pop("topicConfigTable", {}).pop("", None)
    return tree


def test_every_sub_command_is_compared_or_left_out_with_a_reason(asked: Both, java: JavaPeer) -> None:
    listed = set(re.findall(r"(?m)^ {3}(\w+) ", java.say_admin()))
    compared = {case.command for case in PREPARATION + CASES}
    assert listed == compared | LEFT_OUT.keys()
    assert not compared & LEFT_OUT.keys()
    assert len(compared) >= 40
