"""Frames for the fuzz run: a valid request of a code, most of them mutated.

Frame ``n`` of a seed depends on both numbers alone, so one frame can be made again without those before it. All hostile
values come from finite lists: what a server may store for each (topics, groups, settings) is bounded, so memory that
grows during a run is a fault.
"""

from __future__ import annotations

import json
import random
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import inspect

from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo
from rocketmq_py.protocol.bodies.base import Body, DataVersion
from rocketmq_py.protocol.bodies.client import CheckClientConfig, HeartbeatData, LockBatchRequest
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupList
from rocketmq_py.protocol.bodies.pop import BatchAckRequest, MessageRequestMode, QueryAssignmentRequest
from rocketmq_py.protocol.bodies.route import TopicRouteData
from rocketmq_py.protocol.bodies.static_topic import MappingDetail
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfigList
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import NoHeader
from rocketmq_py.protocol.requests import REQUEST_HEADERS
from rocketmq_py.wire.command import LANGUAGES, Command, encode_binary_header
from rocketmq_py.wire.frame import JSON, ROCKETMQ, encode_frame

BODIES: dict[Code, type[Body]] = {
    Code.HEART_BEAT: HeartbeatData,
    Code.CHECK_CLIENT_CONFIG: CheckClientConfig,
    Code.LOCK_BATCH_MQ: LockBatchRequest,
    Code.UNLOCK_BATCH_MQ: LockBatchRequest,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: TopicConfigList,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SubscriptionGroupList,
    Code.QUERY_ASSIGNMENT: QueryAssignmentRequest,
    Code.SET_MESSAGE_REQUEST_MODE: MessageRequestMode,
    Code.BATCH_ACK_MESSAGE: BatchAckRequest,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: MappingDetail,
    Code.AUTH_CREATE_USER: UserInfo,
    Code.AUTH_UPDATE_USER: UserInfo,
    Code.AUTH_CREATE_ACL: AclInfo,
    Code.AUTH_UPDATE_ACL: AclInfo,
    Code.REGISTER_BROKER: RegisterBrokerBody,
    Code.QUERY_DATA_VERSION: DataVersion,
    Code.REGISTER_TOPIC_IN_NAMESRV: TopicRouteData,
}
"""The JSON body of each request that has one."""

TEXTS = ("", " ", ".", "..", "../../victim", "/etc/passwd", "..\\..", "a/b", "\x00", "a\nb=c", "a\u0085b", "\u2028",
         "\ud800", "\udfff\ud800", "ünïcødé", "💥" * 40, "%RETRY%group-1", "%DLQ%group-1", "%SYS%",
         "SCHEDULE_TOPIC_XXXX",
         "RMQ_SYS_TRANS_HALF_TOPIC", "TBW102", "x" * 127, "x" * 128, "x" * 256, "x" * 32768, "x" * 65536, "null",
         "true", "-", "*", "a && b", "a || b || " * 200, "a = 1 OR " * 1500 + "a = 1", "((((" * 500, "'", '"', "{}",
         "[]", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8 9 x", "0 99999999999999999999 1 0 0 b 0 0", ":::", "@",
         "a@b@c", "127.0.0.1:1", "127.0.0.1:99999", "[::1]:1", "256.1.1.1:1", "AA==", "djE=",
         "KEYS\x01k\x02", "\x01\x02\x01\x02",
         "DELAY\x01-1\x02", "DELAY\x0199999999999\x02", "TIMER_DELAY_MS\x01nan\x02", "TIMER_DELIVER_MS\x01-1\x02",
         "TRAN_MSG\x01true\x02PGROUP\x01\x02", "INNER_NUM\x01-5\x02", "WAIT\x01?\x02UNIQ_KEY\x01\x02")  # fmt: skip
NUMBERS = ("-1", "0", "1", "-0", "+1", "7", "32", "2147483647", "2147483648", "-2147483648", "-2147483649",
           "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1" + "0" * 400, "1e400", "-1e9",
           "1.5", "NaN", "Infinity", "0x10", "²", "٣", "1_000", " 1 ", "", "true", "null", "one")  # fmt: skip
VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, float("nan"),
                           float("inf"), [], {}, [[]], {"a": {"b": []}}, [1, "2", None])  # fmt: skip
"""Values of types that a member does not have."""
NAMES = ("topic", "queueId", "a", "b", "e", "i", "", "extFields", "code", "Signature", "AccessKey", "ns", "nsd", "lo",
         "bname", "\ud800", "x" * 65536)  # fmt: skip
SETTINGS = ("defaultTopicQueueNums", "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "longPollingEnable",
            "messageDelayLevel", "enablePropertyFilter", "storePathRootDir", "brokerConfigPath", "kvConfigPath",
            "configStorePath", "orderMessageEnable", "enableTopicList", "unknown", "", "a\u0085b")  # fmt: skip
"""Settings that requests change. None of them makes the broker refuse sends or delete messages early: a run with such a
setting would no longer show that messages are kept.
"""
DEEP = (b"[" * 100, b"[" * 100_000, b'{"a":' * 5_000, b"[" * 400 + b"]" * 400, b'"\\ud800"', b"\xff\xfe", b"{" * 9)
"""Bodies that are nested deeply or malformed."""


class Case(NamedTuple):
    """One frame: its number in the run, the code it was made for, and its bytes."""

    number: int
    code: Code
    data: bytes


class Draft:
    """A request whose parts are mutated one by one before it is encoded."""

    def __init__(self, code: Code, opaque: int, chance: random.Random) -> None:
        self.code: Any = int(code)
        self.chance = chance
        self.members: dict[str, Any] = {}
        self.ext: dict[str, Any] = header_fields(code, chance)
        self.body = body_of(code, chance)
        self.opaque = opaque
        self.repeated = b""
        self.is_json = chance.random() < 0.8 or code > 0x7FFF  # a ROCKETMQ header has 16 bits for the code

    def encode(self) -> bytes:
        return encode_frame(
            *((self._json(), self.body, JSON) if self.is_json else (self._binary(), self.body, ROCKETMQ))
        )

    def _json(self) -> bytes:
        common = {"code": self.code, "language": "JAVA", "opaque": self.opaque, "version": 433, "flag": 0}
        tree = common | {"extFields": self.ext} | self.members
        return json.dumps(tree).encode()[:-1] + self.repeated + b"}"  # lone surrogates travel as escapes

    def _binary(self) -> bytes:
        ext = {_plain(name)[:32767]: _plain(value) for name, value in self.ext.items()}
        flag = self.members.get("flag", 0)
        flag = flag if isinstance(flag, int) and 0 <= flag < 2**31 else 0
        return encode_binary_header(Command(int(self.code), self.opaque, flag, ext=ext, language="JAVA", version=433))


def _plain(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()


# -- valid requests


def header_fields(code: Code, chance: random.Random) -> dict[str, Any]:
    """The header fields of a valid request; optional ones are there by chance."""
    described = inspect.type_info(REQUEST_HEADERS.get(code, NoHeader))
    assert isinstance(described, inspect.StructType)
    fields = [field for field in described.fields if field.required or chance.random() < 0.5]
    return {field.encode_name: _text(plausible(field.type, field.name, chance)) for field in fields}


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


_TYPES = inspect.type_info
_STRINGS: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    ("topic", lambda chance: f"fuzz-{chance.randrange(6)}"),
    ("group", lambda chance: f"group-{chance.randrange(4)}"),
    ("expression_type", lambda chance: chance.choice(("TAG", "SQL92"))),
    ("exp", lambda chance: chance.choice(("*", "a", "a || b", "a = 1", "a > 3 AND b IS NULL"))),
    ("subscription", lambda chance: chance.choice(("*", "a", "a || b", "a = 1"))),
    ("sub_string", lambda chance: chance.choice(("*", "a"))),
    ("propert", lambda chance: chance.choice(("", "KEYS\x01k\x02", "TAGS\x01a\x02", "DELAY\x011\x02",
                                              "TRAN_MSG\x01true\x02PGROUP\x01g\x02"))),
    ("extra_info", lambda chance: f"{chance.randrange(9)} {time.time_ns() // 10**6} 60000 0 0 broker-0 0 0"),
    ("addr", lambda chance: f"127.0.0.1:{chance.randrange(1, 4)}"),
    ("broker_name", lambda chance: f"broker-{chance.randrange(3)}"),
    ("bname", lambda chance: f"broker-{chance.randrange(3)}"),
    ("cluster", lambda chance: f"cluster-{chance.randrange(2)}"),
    ("client_id", lambda chance: f"127.0.0.1@{chance.randrange(4)}"),
    ("namespace", lambda chance: chance.choice(("ORDER_TOPIC_CONFIG", "n"))),
    ("msg_id", lambda chance: "7F000001" + "00002A9F" + f"{chance.randrange(2000):016X}"),
    ("subject", lambda chance: "User:u"),
)  # fmt: skip
_NUMBERS: tuple[tuple[str, Callable[[random.Random], int]], ...] = (
    ("timestamp", lambda _: time.time_ns() // 1_000_000),
    ("born_time", lambda _: time.time_ns() // 1_000_000),
    ("suspend", lambda chance: chance.randrange(60)),
    ("poll_time", lambda chance: chance.randrange(60)),
    ("invisible", lambda _: 1_000),
    ("queue_nums", lambda chance: chance.randrange(1, 5)),
    ("perm", lambda chance: chance.choice((2, 4, 6))),
    ("offset", lambda chance: chance.randrange(50)),
    ("sys_flag", lambda chance: chance.randrange(16)),
)


def plausible(  # noqa: PLR0911 - one for each kind of type
    kind: inspect.Type, name: str, chance: random.Random, depth: int = 0
) -> Any:
    """A value that a member of this type and name may have."""
    match kind:
        case inspect.UnionType():
            return plausible(chance.choice([one for one in kind.types if not isinstance(one, inspect.NoneType)]),
                             name, chance, depth)  # fmt: skip
        case inspect.StructType():
            return {one.encode_name: plausible(one.type, one.name, chance, depth + 1) for one in kind.fields}
        case inspect.ListType() | inspect.SetType() | inspect.VarTupleType():
            many = chance.randrange(3) if depth < 4 else 0
            return [plausible(kind.item_type, name, chance, depth + 1) for _ in range(many)]
        case inspect.DictType():
            many = chance.randrange(3) if depth < 4 else 0
            keys = [plausible(kind.key_type, name, chance, depth) for _ in range(many)]
            return {_text(key): plausible(kind.value_type, name, chance, depth + 1) for key in keys}
        case inspect.Metadata():
            return plausible(kind.type, name, chance, depth)
        case inspect.BoolType():
            return chance.random() < 0.5
        case inspect.IntType() | inspect.FloatType():
            return next((make(chance) for part, make in _NUMBERS if part in name), chance.randrange(4))
    return next((make(chance) for part, make in _STRINGS if part in name), chance.choice(("x", "y", "1", "CLUSTERING")))


def body_of(code: Code, chance: random.Random) -> bytes:
    """A valid body for a request."""
    cls = BODIES.get(code)
    if code == Code.REGISTER_BROKER and chance.random() < 0.3:
        return compressed_registration(chance)
    if cls is not None:
        return json.dumps(plausible(_TYPES(cls), "", chance)).encode()
    if code in (Code.UPDATE_BROKER_CONFIG, Code.UPDATE_NAMESRV_CONFIG):
        lines = (f"{chance.choice(SETTINGS)}={chance.choice(NUMBERS + TEXTS[:12])}" for _ in range(chance.randrange(4)))
        return "\n".join(lines).encode("utf-8", "replace")
    return b"fuzzed " + chance.randbytes(chance.randrange(1, 40)) if chance.random() < 0.5 else b""


def compressed_registration(chance: random.Random) -> bytes:
    """A registration as brokers with ``compressedRegister`` send it; blocks are mutated before compression."""
    topics = [
        f"fuzz-{n} 4 4 6 SINGLE_TAG {chance.choice(('{}', '', '[1]', '{1:2}', '5', '[' * 5000))}" for n in range(2)
    ]
    mapping = chance.choice(('{"topic":"fuzz-1","bname":"broker-0"}', '{"topic":"t","bname":[]}', "[]", "[" * 5000))
    filters = chance.choice(("[]", "5", '["a"]', "[[]]", "[" * 5000))
    version = json.dumps(plausible(_TYPES(DataVersion), "", chance))
    blocks = [version, 2, *topics, filters, 1, mapping]
    if chance.random() < 0.3:
        blocks[chance.randrange(len(blocks))] = chance.choice((-1, 2**31 - 1, "", "x", "fuzz-1 a b c d"))
    raw = b"".join(one.to_bytes(4, signed=True) if isinstance(one, int) else _block(one) for one in blocks)
    return zlib.compress(flipped(raw, chance) if chance.random() < 0.2 else raw)


def _block(text: str) -> bytes:
    return len(text).to_bytes(4) + text.encode()


# -- mutations of requests


def _text_value(draft: Draft) -> None:
    if draft.ext:
        draft.ext[draft.chance.choice(list(draft.ext))] = draft.chance.choice(TEXTS)


def _number_value(draft: Draft) -> None:
    if draft.ext:
        draft.ext[draft.chance.choice(list(draft.ext))] = draft.chance.choice(NUMBERS)


def _other_type(draft: Draft) -> None:
    if draft.ext:
        draft.ext[draft.chance.choice(list(draft.ext))] = draft.chance.choice(VALUES)


def _missing(draft: Draft) -> None:
    if draft.ext:
        del draft.ext[draft.chance.choice(list(draft.ext))]


def _unknown(draft: Draft) -> None:
    draft.ext[draft.chance.choice(NAMES)] = draft.chance.choice(TEXTS + VALUES)


def _duplicate(draft: Draft) -> None:
    member = draft.chance.choice(("extFields", "flag", "language", "unknown"))
    draft.repeated = f', "{member}": {draft.chance.choice(("{}", "0", "null", "[[1]]", chr(34) * 2))}'.encode()


def _common(draft: Draft) -> None:
    name = draft.chance.choice(("flag", "version", "language", "remark", "extFields", "serializeTypeCurrentRPC"))
    draft.members[name] = draft.chance.choice((*VALUES, *TEXTS, *NUMBERS, 1, 2, 3, *LANGUAGES))


def _one_way(draft: Draft) -> None:
    draft.members["flag"] = 2


def _tree_member(draft: Draft) -> None:
    """Replace one value somewhere in a JSON body."""
    try:
        tree = json.loads(draft.body)
    except (ValueError, RecursionError):
        return
    node, chance = tree, draft.chance
    while isinstance(node, (dict, list)) and node:
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if not isinstance(node[key], (dict, list)) or not node[key] or chance.random() < 0.3:
            node[key] = chance.choice((*VALUES, *TEXTS, *NUMBERS))
            break
        node = node[key]
    draft.body = json.dumps(tree).encode()


def _body_bytes(draft: Draft) -> None:
    draft.body = flipped(draft.body, draft.chance)


def _body_cut(draft: Draft) -> None:
    draft.body = draft.body[: draft.chance.randrange(len(draft.body) + 1)]


def _body_deep(draft: Draft) -> None:
    draft.body = draft.chance.choice(DEEP) + draft.chance.choice((b"", draft.body))


def _body_long(draft: Draft) -> None:
    draft.body = (draft.body or b"x") * draft.chance.choice((2, 50, 1_000))
    draft.body = draft.body[:200_000]


MUTATIONS = (_text_value, _text_value, _number_value, _number_value, _other_type, _missing, _unknown, _duplicate,
             _common, _one_way, _tree_member, _tree_member, _body_bytes, _body_cut, _body_deep, _body_long)  # fmt: skip


# -- mutations of frames


def flipped(data: bytes, chance: random.Random) -> bytes:
    """The data with up to three bytes changed."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4) if changed else 0):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _header_cut(data: bytes, chance: random.Random) -> bytes:
    header = int.from_bytes(data[5:8])
    cut = chance.randrange(header + 1)
    return encode_frame(data[8 : 8 + cut], data[8 + header :], data[4])


def _wrong_lengths(data: bytes, chance: random.Random) -> bytes:
    place = chance.choice((0, 4))
    length = chance.choice((0, 3, 4, 5, 2**24 - 1, 2**24 + 1, 2**31 - 1, 2**32 - 1, chance.randrange(400)))
    return data[:place] + length.to_bytes(4) + data[place + 4 :]


def _other_form(data: bytes, chance: random.Random) -> bytes:
    return data[:4] + bytes([chance.choice((0, 1, 2, 255))]) + data[5:]


FRAME_MUTATIONS: Sequence[Callable[[bytes, random.Random], bytes]] = (
    lambda data, chance: data[:8] + flipped(data[8:], chance), flipped, _header_cut, _wrong_lengths, _other_form,
)  # fmt: skip


def make_case(seed: int, number: int, codes: Sequence[Code]) -> Case:
    """Frame ``number`` of a seed: one in ten is valid, one in ten has wrong bytes."""
    chance = random.Random(f"{seed}:{number}")
    code = codes[number % len(codes)]
    draft = Draft(code, number & 0x7FFFFFFF, chance)
    for _ in range(chance.choice((0, 1, 1, 1, 1, 1, 2, 2, 3, 3))):
        chance.choice(MUTATIONS)(draft)
    data = draft.encode()
    if chance.random() < 0.1:
        data = chance.choice(FRAME_MUTATIONS)(data, chance)
    return Case(number, code, data)


def make_report(seed: int, number: int, log_end: int) -> bytes:
    """What a slave may send to the HA port: reports of its log end, whole, cut, many, or wrong."""
    chance = random.Random(f"{seed}:ha:{number}")
    good = chance.randrange(log_end + 1).to_bytes(8, signed=True)
    bad = chance.choice((-1, -(2**63), 2**63 - 1, log_end + 1, log_end + 2**40)).to_bytes(8, signed=True)
    return chance.choice((good, good, good, good * 3, good[:3], bad, chance.randbytes(chance.randrange(1, 40)),
                          b"\x00" * 8, flipped(good, chance), good * 2000))  # fmt: skip
