"""Whole numbers in header fields: what Java's Integer.parseInt and Long.parseLong take or refuse, ours do, too."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from msgspec import inspect

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.headers.base import Header
from tests.interop.java_json import HEADERS, read_by_java

NO_NUMBER = "x"
ZEROS = {"0", "-0", "+0"}
VALUES = [
    "0", "5", "+5", "-5", "-0", "+0", "007", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1" + "0" * 400,
    "0" * 40 + "7", " 5", "5 ", "5\n", "5.0", "5.", "1e2", "0x5", "5L", "1_000", "+", "-", "--5", "+-5", "\u0663",
    "\uff15", "\u00b2", "null", "true", "NaN", NO_NUMBER,
]  # fmt: skip
"""Among them a digit of another script, which Java takes, and a superscript, which it refuses."""
REFUSED = "refused"
AS_IN_BODIES = "read as fastjson reads it in a body; Java's servers ignore the field"
OTHER_DIGITS = "no client writes digits of other scripts; Java reads them"
DIFFERENCES = {
    "5.0": AS_IN_BODIES,
    "5.": AS_IN_BODIES,
    "1e2": AS_IN_BODIES,
    "true": AS_IN_BODIES,
    "null": "no value: a field that may be absent is",
    "\u0663": OTHER_DIGITS,
    "\uff15": OTHER_DIGITS,
}
"""Differences that stay, and why; none of them concerns a range."""

SAMPLES = {"topicFilterType": "SINGLE_TAG"}
CHECKED_LATER = {("EndTransaction", "commitOrRollback")}
"""Java's header class allows three values; here the handler does."""


class Case(NamedTuple):
    """A header in which one number has a text."""

    cls: type[Header]
    member: inspect.Field
    value: str

    def fields(self) -> dict[str, str]:
        required = {field.encode_name: sample(field.type) for field in members(self.cls) if field.required}
        required |= {name: text for name, text in SAMPLES.items() if name in required}
        return required | {self.member.encode_name: self.value}

    def read(self) -> object:
        """The number as we read it; REFUSED when the header is."""
        try:
            return getattr(self.cls.from_ext(self.fields()), self.member.name)
        except BadHeader:
            return REFUSED


def members(cls: type[Header]) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(cls)
    assert isinstance(described, inspect.StructType)
    return described.fields


def core(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.UnionType):
        return core(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
    return core(kind.type) if isinstance(kind, inspect.Metadata) else kind


def sample(kind: inspect.Type) -> str:
    return {inspect.IntType: "0", inspect.BoolType: "true"}.get(type(core(kind)), "s")


def cases() -> list[Case]:
    return [
        Case(cls, member, value)
        for cls in HEADERS
        for member in members(cls)
        if isinstance(core(member.type), inspect.IntType) and (cls.__name__, member.encode_name) not in CHECKED_LATER
        for value in VALUES
    ]


@pytest.mark.usefixtures("java")
def test_every_number_is_read_as_java_reads_it() -> None:
    """Java logs a field that it cannot read and leaves it at its default; ours refuse the request by name."""
    asked = cases()
    assert len(asked) > 3000
    answers = read_by_java((HEADERS[case.cls], json.dumps(case.fields()).encode()) for case in asked)
    read = [
        REFUSED if answer.value is None else json.loads(answer.value).get(case.member.encode_name)
        for case, answer in zip(asked, answers, strict=True)
    ]
    unread = {
        (case.cls, case.member.name): value for case, value in zip(asked, read, strict=True) if case.value == NO_NUMBER
    }
    wrong, seen = [], set()
    for case, value in zip(asked, read, strict=True):
        is_default = value == unread[case.cls, case.member.name]
        theirs = REFUSED if is_default and case.value not in ZEROS else value
        ours = case.read()
        if ours == theirs:
            continue
        if case.value in DIFFERENCES:
            seen.add(case.value)
        else:
            wrong.append((case.cls.__name__, case.member.encode_name, case.value, ours, theirs))
    assert not wrong, f"{len(wrong)} of {len(asked)}\n" + "\n".join(map(repr, wrong[:60]))
    assert seen == DIFFERENCES.keys(), "a difference is listed that is none any more"
