"""Names of topics and groups: lengths, characters, folders."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.metadata.name_validator import folder_fault, group_fault, topic_fault, without_unsafe

ALLOWED = "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"


TOO_LONG = (
    f"The specified topic is DLQ or Retry topic: %DLQ%{'g' * 251}, and it's longer than topic max length: 255"
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("t", None),
        ("%RETRY%g", None),
        ("a" * 127, None),
        ("a" * 128, f"The specified topic: {'a' * 128}, is longer than topic max length: 127"),
        ("%RETRY%" + "g" * 248, None),
        ("%DLQ%" + "g" * 250, None),
        ("%DLQ%" + "g" * 251, TOO_LONG),
        ("", "The specified topic is blank."),
        (" \t", "The specified topic is blank."),
        ("a b", f"The specified topic: a b, {ALLOWED}"),
    ],
)  # fmt: skip
def test_topics_have_java_s_rules(name: str, fault: str | None) -> None:
    assert topic_fault(name) == fault


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("g", None),
        ("g" * 255, None),
        ("g" * 256, f"The specified group: {'g' * 256}, is longer than group max length: 255"),
        ("", "The specified group is blank."),
        (" ", "The specified group is blank."),
        ("a/b", f"The specified group: a/b, {ALLOWED}"),
    ],
)
def test_groups_have_java_s_rules(name: str, fault: str | None) -> None:
    assert group_fault(name) == fault


@pytest.mark.parametrize(("name", "safe"), [("t", True), ("a b", True), ("..", False), ("a/b", False), ("a\0", False)])
def test_names_that_leave_their_folder_are_refused(name: str, safe: bool, caplog: pytest.LogCaptureFixture) -> None:
    assert (folder_fault(name) is None) is safe
    assert without_unsafe("topics of a file", {name: 1, "kept": 2}) == ({name: 1, "kept": 2} if safe else {"kept": 2})
    assert ("1 topics of a file with names that cannot be folder names are ignored" in caplog.text) is not safe


def test_a_blank_name_is_no_folder() -> None:
    assert folder_fault("") == folder_fault(" ") == "The specified topic is blank."
