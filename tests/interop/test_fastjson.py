"""JSON bodies as fastjson reads them: every member of every body class, with values of every kind, as Java has them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import inspect

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.bodies.topic import TopicConfig
from tests.interop.java_json import BODIES, read_by_java
from tests.interop.javapeer import JavaPeer

NUMBERS = ["5", '"5"', '"+5"', '"-5"', "5.0", "5.7", '"5.0"', "true", '"true"', '"x"', "2147483648", '"2147483648"',
           "9223372036854775807", "9223372036854775808", "99999999999999999999", "1e2", '"1e2"', "05", "-0", "-1",
           "null", '""', '"null"', "[]", "{}"]  # fmt: skip
TEXTS = ['"a"', "'a'", "'it\\'s'", "5", "5.5", "5.50", "true", "null", '""', "[]", '["a"]', '["a","b"]', "{}",
         '{"a":1}', "12345678901234567890"]  # fmt: skip
FLAGS = ["true", "0", "1", "2", '"0"', '"1"', '"true"', '"TRUE"', '"false"', '"yes"', '"Y"', '"N"', "null", '""',
         '"null"', "[]"]  # fmt: skip
CONTAINERS = ["[]", "{}", "null", '""', "5", "true", '"a"', "[null]"]
VALUES: dict[type[inspect.Type], list[str]] = {
    inspect.IntType: NUMBERS, inspect.FloatType: ["5", '"5"', "5.5", '"x"', "null", '""', "NaN", "1e400"],
    inspect.StrType: TEXTS, inspect.BoolType: FLAGS, inspect.ListType: CONTAINERS, inspect.DictType: CONTAINERS,
    inspect.StructType: CONTAINERS,
}  # fmt: skip

NULL_NUMBER = "Java reads 0, whatever the default; here null stands for the default, and a required number is refused"
BOTH_WAYS = "Java reads 2 as false and -1 as true"
KEPT_APART = "Java reads an object as the number 0, or as a list of its text"
DIFFERENCES: dict[tuple[type[inspect.Type], str], str] = {
    (inspect.IntType, "null"): NULL_NUMBER,
    (inspect.IntType, '""'): NULL_NUMBER,
    (inspect.IntType, '"null"'): NULL_NUMBER,
    (inspect.IntType, "{}"): KEPT_APART,
    (inspect.BoolType, "null"): "Java reads false, whatever the default",
    (inspect.BoolType, '""'): "Java reads false, whatever the default",
    (inspect.BoolType, '"null"'): "Java reads false, whatever the default",
    (inspect.BoolType, "2"): BOTH_WAYS,
    (inspect.FloatType, "NaN"): "Java has NaN, which it writes as null",
    (inspect.FloatType, "1e400"): "Java has Infinity, which it writes as null",
    (inspect.StrType, "5.50"): "a number that stands for a text loses the zeros at its end",
    (inspect.ListType, "5"): "Java reads one number as a list of some classes and as nothing for others",
    (inspect.ListType, "true"): "as of a number",
    (inspect.ListType, "{}"): KEPT_APART,
    (inspect.ListType, '""'): "Java has no list where none is the default, here it is empty",
    (inspect.StructType, "{}"): "Java's data versions begin with the present time, and its maps are empty, not absent",
}
"""Differences that stay, by the kind of the member and the value, and why."""
SINGLE: dict[tuple[str, str, str], str] = {
    ("CheckPoint", "bm", "2147483648"): "the bit map of 32 messages, which Java writes as a negative number",
    ("CheckPoint", "bm", '"2147483648"'): "the same, as a text",
}
WHOLE_MEMBERS = {
    ("BatchAck", "b"): "decoded and checked by pop_handle.decode_bits, when it is used",
    ("GroupRetryPolicy", "customizedRetryPolicy"): "kept as it is, for Java's tools",
    ("GroupRetryPolicy", "exponentialRetryPolicy"): "kept as it is, for Java's tools",
    ("SubscriptionGroupConfig", "subscriptionDataSet"): "kept as it is, for Java's tools",
}
"""Members that are not read here."""


class Case(NamedTuple):
    """A body whose ``member`` has a value; its other required members are in order."""

    cls: type[Body]
    member: inspect.Field
    value: str

    def text(self) -> bytes:
        rest = {name: sample for name, sample in samples(self.cls).items() if name != self.member.encode_name}
        members = [f"{json.dumps(name)}:{json.dumps(sample)}" for name, sample in rest.items()]
        return ("{" + ",".join([*members, f'"{self.member.encode_name}":{self.value}']) + "}").encode()

    def read(self, text: bytes) -> tuple[Any] | None:
        """The member as we read it; None when the body is refused."""
        try:
            return (getattr(self.cls.decode(text), self.member.name),)
        except BadHeader:
            return None


def plain(kind: inspect.Type) -> inspect.Type:
    """The type of a member that may be None."""
    if isinstance(kind, inspect.UnionType):
        return plain(next(one for one in kind.types if not isinstance(one, inspect.NoneType)))
    return kind


def core(kind: inspect.Type) -> inspect.Type:
    kind = plain(kind)
    return core(kind.type) if isinstance(kind, inspect.Metadata) else kind


def enum_of(kind: inspect.Type) -> list[str] | None:
    kind = plain(kind)
    return list((kind.extra or {}).get("java_enum", ())) if isinstance(kind, inspect.Metadata) else None


def fields(cls: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(cls)
    assert isinstance(described, inspect.StructType)
    return described.fields


def samples(cls: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: sample(field.type) for field in fields(cls) if field.required}


def sample(kind: inspect.Type) -> Any:
    kind = core(kind)
    if isinstance(kind, inspect.StructType):
        return samples(kind.cls)
    return {inspect.IntType: 1, inspect.StrType: "s", inspect.ListType: [], inspect.BoolType: True}[type(kind)]


def values(member: inspect.Field) -> list[str]:
    names = enum_of(member.type)
    if names:
        words = [names[-1], names[-1].lower(), names[0].replace("_", "").title(), "unknown", "", "0", "99"]
        return [*map(json.dumps, words), "0", str(len(names) - 1), str(len(names)), "99", "-1", "1.0", "true", "null"]
    return VALUES.get(type(core(member.type)), [])


def explained(case: Case) -> bool:
    name = (case.cls.__name__, case.member.encode_name)
    kind = type(core(case.member.type))
    return name in WHOLE_MEMBERS or (*name, case.value) in SINGLE or (kind, case.value) in DIFFERENCES


def cases() -> list[Case]:
    return [Case(cls, member, value) for cls in BODIES for member in fields(cls) for value in values(member)]


def test_every_member_is_read_as_java_reads_it(java: JavaPeer) -> None:
    """What ours makes of a body is what it makes of the body that Java writes after reading the same."""
    del java
    asked = cases()
    wrong, seen = [], set()
    for case, answer in zip(asked, read_by_java((BODIES[case.cls], case.text()) for case in asked), strict=True):
        theirs = None if answer.value in (None, "null") else case.read(answer.value.encode())
        ours = case.read(case.text())
        if ours == theirs:
            continue
        if explained(case):
            seen.add((type(core(case.member.type)), case.value))
        else:
            wrong.append((case.cls.__name__, case.member.encode_name, case.value, ours, answer))
    assert not wrong, "\n".join(map(repr, wrong))
    assert seen >= DIFFERENCES.keys() - {(inspect.BoolType, '"null"')}, "a difference is listed that is none any more"


SYNTAX = [
    '{"topicName":"t"}', "{'topicName':'t'}", '{"topicName":"t",}', '{"topicName":"t","x":{"y":[1]}}',
    '/*c*/{"topicName":"t"}', '{"topicName":"a","topicName":"b"}', '{"topicName":"a\tb\nc"}', '{"topicName":"\\x41"}',
    ' {"topicName" : "t" } ', '{"topicName":"t","attributes":{"a":1,"b":true,"c":null,"d":"x"}}',
    '{"topicName":"t","attributes":null}', '{"topicName":"t","attributes":""}', '{"topicName":"t","perm":05}',
    "{\"topicName\":'it\\'s'}", '{"topicname":"t"}', '{"@type":"x","topicName":"t"}', "[]", "3", '"x"',
    '{"topicName":"t"} x', '[{"topicName":"t"}]', '{,"topicName":"t"}', '{"topicName":"t",,"perm":3}',
    '{"topicName":"t";"perm":3}', '{"topicName":"t","attributes":[]}', '{"topicName":"\\q"}', "{", '{"topicName":"t"',
]  # fmt: skip
MORE_LENIENT = [
    "{topicName:'t'}",  # fastjson 1 and clients in other languages
    '{"topicName":/*c*/"t"}', '{"topicName":"t"//c\n}',  # fastjson 2 knows comments at some places only
    '{"topicName":undefined}',
]  # fmt: skip
STRICTER = ['{"topicName":"t" "perm":6}', '{"topicName":"t"}\0', "", "null"]
"""Members without a comma, bytes after the end, and no object at all, on which Java's handlers fail."""


def topic_name(text: str | None) -> tuple[Any, ...] | None:
    try:
        config = TopicConfig.decode((text or "null").encode())
    except BadHeader:
        return None
    return config.topic_name, config.perm, config.attributes


@pytest.mark.parametrize(("texts", "same"), [(SYNTAX, True), (MORE_LENIENT, False), (STRICTER, False)],
                         ids=["same", "more lenient", "stricter"])  # fmt: skip
def test_syntax_is_read_as_java_reads_it(java: JavaPeer, texts: list[str], same: bool) -> None:
    del java
    answers = read_by_java((BODIES[TopicConfig], text.encode()) for text in texts)
    for text, answer in zip(texts, answers, strict=True):
        theirs, ours = topic_name(answer.value), topic_name(text)
        assert (ours == theirs) is same or text in ("", "null"), (text, ours, answer)
        assert (ours is None) is (texts is STRICTER) or texts is SYNTAX, (text, ours, answer)
