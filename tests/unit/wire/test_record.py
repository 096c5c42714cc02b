from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import CorruptBody, CorruptRecord, DecompressionLimit
from rocketmq_py.model import MessageExt, RecordHead
from rocketmq_py.properties import encode_properties
from rocketmq_py.wire import record as r
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.compression import DecompressionLimits, compress
from tests.golden import files

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = {0: 8, 1: 20}
TOPICS = st.text("abcXYZ019_-%|", min_size=1, max_size=200)
PROPERTIES = st.dictionaries(
    st.text("abcé", min_size=1, max_size=5), st.text("xyz漢", min_size=1, max_size=9), max_size=4
)


@st.composite
def heads(draw: st.DrawFn) -> RecordHead:
    born_v6, store_v6 = draw(st.booleans()), draw(st.booleans())
    flags = draw(st.sampled_from([0, 2, 4, 8, 12])) | r.BORN_HOST_V6 * born_v6 | r.STORE_HOST_V6 * store_v6
    width = {True: 20, False: 8}
    return RecordHead(
        0, 0, 0, draw(I32), draw(I32), draw(I64), draw(I64), flags, draw(I64),
        draw(st.binary(min_size=width[born_v6], max_size=width[born_v6])), draw(I64),
        draw(st.binary(min_size=width[store_v6], max_size=width[store_v6])), draw(I32), draw(I64), 0,
    )  # fmt: skip


def pull_body() -> bytes:
    return files.header_and_body(files.response("pull_found"))[1]


@given(heads(), TOPICS, st.binary(max_size=80), PROPERTIES)
def test_encoding_and_decoding_are_inverse(
    head: RecordHead, topic: str, body: bytes, properties: dict[str, str]
) -> None:
    data = r.encode_record(head, topic, body, encode_properties(properties))
    for message in (r.decode_record(data, broker_name="b"), *r.decode_records(data, "b")):
        assert message.head[3:14] == head[3:14]
        assert (message.topic, message.body, message.properties, message.broker_name) == (topic, body, properties, "b")
        assert (message.store_size, message.body_crc) == (len(data), r.body_crc(body))
        assert message.head.magic == (r.MAGIC_V1 if len(topic) <= 127 else r.MAGIC_V2)
    assert r.record_properties(data) == encode_properties(properties)


@pytest.mark.parametrize("name", ["ipv4", "ipv6", "bornIpv6", "prepared"])
def test_records_of_java_are_decoded(name: str) -> None:
    fact = files.fact("record", name=name)
    data, seen = files.unbase64(fact["bytes"]), fact["decoded"]
    message = r.decode_record(data)
    assert (message.topic, message.queue_id, message.queue_offset) == (
        seen["topic"],
        seen["queueId"],
        seen["queueOffset"],
    )
    assert (message.commit_log_offset, message.flag, message.sys_flag) == (
        seen["commitLogOffset"], seen["flag"], seen["sysFlag"])  # fmt: skip
    assert (message.born_timestamp, message.store_timestamp) == (seen["bornTimestamp"], seen["storeTimestamp"])
    assert message.born_host == _java_host(seen["bornHost"])
    assert message.store_host == _java_host(seen["storeHost"])
    assert (message.reconsume_times, message.prepared_transaction_offset, message.body_crc, message.store_size) == (
        seen["reconsumeTimes"], seen["preparedTransactionOffset"], seen["bodyCRC"], seen["storeSize"])  # fmt: skip
    assert message.body == files.unbase64(seen["body"])
    assert message.properties == seen["properties"]
    assert message.offset_msg_id == seen["msgId"]
    assert r.encode_record(message.head, message.topic, message.body, message.raw_properties) == data


def _java_host(text: str) -> str:
    ip, _, port = text.rpartition("|")
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def test_a_pull_body_gives_what_the_java_consumer_saw() -> None:
    seen = {row["queueOffset"]: row for row in files.deliveries() if row["queueId"] == 0}
    messages = r.decode_records(pull_body(), "broker-a")
    assert [m.queue_offset for m in messages] == sorted(seen)
    for message in messages:
        row = seen[message.queue_offset]
        assert message.body == files.unbase64(row["body"])
        assert (message.msg_id, message.offset_msg_id) == (row["msgId"], row["offsetMsgId"])
        assert (message.tags, message.keys, message.flag, message.body_crc) == (
            row["tags"], row["keys"], row["flag"], row["bodyCRC"])  # fmt: skip
        assert message.sys_flag & r.COMPRESSED == 0
        assert message.properties.items() <= row["properties"].items()


def test_a_pull_body_has_zlib_lz4_and_zstd_in_it() -> None:
    kinds = {
        struct.unpack_from(">i", pull_body(), at + r.SYS_FLAG_AT)[0] & 0x701 for at, _ in r.record_sizes(pull_body())
    }
    assert kinds == {0, 0x301, 0x101, 0x201}


def test_uncompressed_records_encode_to_javas_bytes() -> None:
    same = 0
    for at, size in r.record_sizes(pull_body()):
        data = pull_body()[at : at + size]
        message = r.decode_record(data)
        if len(message.body) == message.head.body_length:
            assert r.encode_record(message.head, message.topic, message.body, message.raw_properties) == data
            same += 1
    assert same == 7


def test_the_commit_log_of_a_java_broker_reads_to_its_blank_end() -> None:
    data = (files.STORE / "commitlog" / "00000000000000000000").read_bytes()
    at = 0
    while struct.unpack_from(">i", data, at + 4)[0] != r.MAGIC_BLANK:
        message = r.decode_record(data, at)
        assert message.commit_log_offset == at
        at += message.store_size
    assert struct.unpack_from(">i", data, at)[0] == len(data) - at


def batch_record(properties: dict[str, str]) -> bytes:
    inner = encode_batch([(1, b"one", encode_properties({"TAGS": "A"})), (2, b"two", b"")])
    head = RecordHead(0, 0, 0, 3, 0, 40, 4711, r.NEED_UNWRAP | r.INNER_BATCH, 5, bytes(8), 6, bytes(8), 0, 0, 0)
    return r.encode_record(head, "t", inner, encode_properties(properties))


@pytest.mark.parametrize(
    ("properties", "base"), [({"INNER_NUM": "2", "INNER_BASE": "40"}, 40), ({"INNER_NUM": "2"}, 40)]
)
def test_an_inner_batch_is_unwrapped(properties: dict[str, str], base: int) -> None:
    messages = r.decode_records(batch_record(properties), "b")
    assert [(m.body, m.flag, m.tags, m.queue_offset, m.queue_id) for m in messages] == [
        (b"one", 1, "A", base, 3), (b"two", 2, None, base + 1, 3)]  # fmt: skip
    assert not any(m.sys_flag & (r.NEED_UNWRAP | r.INNER_BATCH) for m in messages)


def sample() -> bytes:
    head = RecordHead(0, 0, 0, 1, 0, 2, 3, 0, 4, bytes(8), 5, bytes(8), 0, 0, 0)
    return r.encode_record(head, "topic", b"body", b"TAGS\x01A\x02")


@pytest.mark.parametrize("cut", range(1, len(sample())))
def test_a_record_cut_off_anywhere(cut: int) -> None:
    with pytest.raises(CorruptRecord):
        r.decode_record(sample()[:cut])
    with pytest.raises(CorruptRecord):
        r.record_properties(sample()[:cut])
    with pytest.raises(CorruptRecord):
        r.decode_records(sample() + sample()[:cut])
    with pytest.raises(CorruptRecord):
        list(r.record_sizes(sample() + sample()[:cut]))


@pytest.mark.parametrize("at", [0, 84])
@pytest.mark.parametrize("value", [-(2**31), -200, -89, -1, 0, 1, 2**31 - 1])
def test_a_record_with_a_hostile_length(at: int, value: int) -> None:
    data = bytearray(sample() * 3)
    struct.pack_into(">i", data, len(sample()) + at, value)
    with pytest.raises(CorruptRecord):
        r.decode_records(bytes(data))
    with pytest.raises(CorruptRecord):
        r.decode_record(bytes(data), len(sample()))
    if at:
        with pytest.raises(CorruptRecord):
            r.record_properties(bytes(data[len(sample()) : 2 * len(sample())]))


@given(st.data())
def test_a_flipped_byte_decodes_or_is_a_corrupt_record(data: st.DataObject) -> None:
    broken = bytearray(sample() * 3)
    for _ in range(data.draw(st.integers(1, 6))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    try:
        messages = r.decode_records(bytes(broken))
    except CorruptRecord:
        return
    assert all(isinstance(m, MessageExt) for m in messages)


def test_negative_lengths_are_a_corrupt_record() -> None:
    """Body length and size both negative and in agreement: the walk must not go round in circles."""
    data = bytearray(sample() * 3)
    start = len(sample())
    inside = sample().index(b"\x05topic")
    struct.pack_into(">i", data, start + 84, inside - start - r.FIXED_SIZE)
    struct.pack_into(">i", data, start, 0)
    with pytest.raises(CorruptRecord):
        r.decode_records(bytes(data))


@pytest.mark.parametrize(("ip", "packed"), [
    ("127.0.0.1", "7f000001"), ("::1", "0" * 31 + "1"), ("[2001:db8::7]", "20010db8000000000000000000000007"),
    ("fe80::1%eth0", "fe80" + "0" * 27 + "1"),
])  # fmt: skip
def test_ip_addresses_are_packed(ip: str, packed: str) -> None:
    assert r.pack_host(ip, 10911) == bytes.fromhex(packed) + struct.pack(">i", 10911)


def compressed_records(count: int, size: int) -> bytes:
    head = RecordHead(0, 0, 0, 0, 0, 0, 0, r.COMPRESSED, 0, b"\x7f\0\0\1\0\0\0\1", 0, b"\x7f\0\0\1\0\0\0\1", 0, 0, 0)
    body = compress(bytes(size))
    return b"".join(r.encode_record(head._replace(queue_offset=i), "t", body, b"") for i in range(count))


def test_the_bodies_of_a_pull_share_a_budget() -> None:
    """Eight small records may stand for gigabytes."""
    limits = DecompressionLimits(max_body=1 << 20, max_total=4 << 20)
    assert len(r.decode_records(compressed_records(4, 1 << 20), limits=limits)) == 4
    with pytest.raises(DecompressionLimit, match=r"\(max_decompressed_pull\)"):
        r.decode_records(compressed_records(5, 1 << 20), limits=limits)
    with pytest.raises(DecompressionLimit, match=r"\(max_decompressed_body;"):
        r.decode_records(compressed_records(1, (1 << 20) + 1), limits=limits)


def test_each_pull_has_a_budget_of_its_own() -> None:
    limits = DecompressionLimits(max_body=1 << 20, max_total=1 << 20)
    for _ in range(3):
        assert len(r.decode_records(compressed_records(1, 1 << 20), limits=limits)) == 1


def test_one_record_has_the_limit_of_one_body() -> None:
    budget = DecompressionLimits(max_body=10).budget()
    with pytest.raises(DecompressionLimit, match=r"more than 10 bytes, the limit of one body"):
        r.decode_record(compressed_records(1, 11), budget=budget)


# -- bodies that are not decoded


def compressed(offset: int, size: int, stored: bytes | None = None, flag: int = r.COMPRESSED) -> bytes:
    head = RecordHead(0, 0, 0, 1, 0, offset, 3, flag, 4, bytes(8), 5, bytes(8), 0, 0, 0)
    return r.encode_record(head, "orders", stored or compress(bytes(size)), b"TAGS\x01A\x02")


def offsets(records: object) -> list[int]:
    return [record.message.queue_offset for record in records]  # type: ignore[attr-defined]


def test_a_body_over_the_limit_is_kept_apart() -> None:
    data = compressed(0, 10) + compressed(1, 101) + compressed(2, 100) + sample()
    found = r.decode_response(data, "b", r.BodyRules(DecompressionLimits(100, 1000)))
    assert [len(message.body) for message in found.messages] == [10, 100, 4]
    assert (offsets(found.undecoded), found.postponed) == ([1], [])
    assert isinstance(found.undecoded[0].error, DecompressionLimit)


@pytest.mark.parametrize(
    "bad",
    [
        compressed(1, 0, b"no zlib"),
        compressed(1, 0, b"x", r.COMPRESSED | 5 << 8),
        compressed(1, 0, b"no batch", r.NEED_UNWRAP | r.INNER_BATCH),
        batch_record({"INNER_BASE": "x"}),
    ],
)
def test_a_body_that_cannot_be_decoded_is_kept_apart(bad: bytes) -> None:
    found = r.decode_response(sample() + bad + sample(), "b")
    assert [message.body for message in found.messages] == [b"body"] * 2
    assert len(found.undecoded) == 1
    with pytest.raises(CorruptBody):
        r.decode_records(sample() + bad + sample(), "b")


def test_what_has_no_room_is_postponed_with_all_that_follows() -> None:
    data = compressed(0, 60) + compressed(1, 60) + compressed(2, 30) + sample()
    found = r.decode_response(data, "b", r.BodyRules(DecompressionLimits(100, 100)))
    assert [message.queue_offset for message in found.messages] == [0]
    assert (found.undecoded, offsets(found.postponed)) == ([], [1, 2, 2])


def test_bodies_over_the_limit_use_up_the_work_of_a_response() -> None:
    data = b"".join(compressed(offset, 101) for offset in range(5))
    found = r.decode_response(data, "b", r.BodyRules(DecompressionLimits(100, 200)))
    assert (offsets(found.undecoded), offsets(found.postponed)) == ([0, 1], [2, 3, 4])


def test_a_body_is_over_its_own_limit_while_the_room_of_one_is_left() -> None:
    found = r.decode_response(compressed(0, 100) + compressed(1, 101), "b", r.BodyRules(DecompressionLimits(100, 200)))
    assert (offsets(found.undecoded), found.postponed) == ([1], [])
    assert "max_decompressed_body" in str(found.undecoded[0].error)


def test_no_room_at_all_is_left_by_two_bodies_over_the_limit() -> None:
    data = compressed(0, 101) + compressed(1, 101) + compressed(2, 1)
    found = r.decode_response(data, "b", r.BodyRules(DecompressionLimits(100, 200)))
    assert (offsets(found.undecoded), offsets(found.postponed)) == ([0, 1], [2])


def test_the_first_record_is_never_postponed() -> None:
    found = r.decode_response(compressed(0, 60) + compressed(1, 0), "b", r.BodyRules(DecompressionLimits(100, 50)))
    assert (offsets(found.undecoded), found.postponed) == ([0], [])
    assert [message.queue_offset for message in found.messages] == [1], "an empty body needs no room"


def test_bodies_may_be_left_out_or_as_they_are_stored() -> None:
    data = sample() + compressed(1, 60) + batch_record({})
    out = r.decode_response(data, "b", r.BodyRules(read=False))
    assert [message.body for message in out.messages] == [b""] * 4
    stored = r.decode_response(data, "b", r.BodyRules(decompress=False))
    assert [message.body for message in stored.messages] == [b"body", compress(bytes(60)), b"one", b"two"]
    assert [message.sys_flag for message in stored.messages] == [0, r.COMPRESSED, 0, 0]


# -- where records come from


def at(offset: int, topic: str = "t", queue_id: int = 1, body: bytes = b"body", flag: int = 0) -> bytes:
    """A record of queue ``queue_id``."""
    head = RecordHead(0, 0, 0, queue_id, 0, offset, 3, flag, 4, bytes(8), 5, bytes(8), 0, 0, 0)
    return r.encode_record(head, topic, body, b"")


def unwrapped_at(offset: int, topic: str = "t", queue_id: int = 1) -> bytes:
    """An inner batch of two messages."""
    return at(offset, topic, queue_id, encode_batch([(0, b"one", b""), (0, b"two", b"")]), r.NEED_UNWRAP)


V6 = r.BORN_HOST_V6 | r.STORE_HOST_V6


def v6_at(offset: int, topic: str = "t", queue_id: int = 1, body: bytes = b"body") -> bytes:
    head = RecordHead(0, 0, 0, queue_id, 0, offset, 3, V6, 4, bytes(20), 5, bytes(20), 0, 0, 0)
    return r.encode_record(head, topic, body, b"")


ORIGIN = r.Origin("t", 1, 10, 20)
ELSEWHERE = "a record of queue {} offset {} is where one of queue 1 offset {} or more, below 20, belongs"


@pytest.mark.parametrize("record", [at, v6_at])
@pytest.mark.parametrize(
    ("places", "found", "damage"),
    [
        ([(10,), (11,), (19,)], [10, 11, 19], None),
        ([(9,)], [], ELSEWHERE.format(1, 9, 10)),
        ([(10,), (20,)], [], ELSEWHERE.format(1, 20, 11)),
        ([(10,), (12,), (12,)], [10], ELSEWHERE.format(1, 12, 13)),
        ([(10,), (12,), (11,), (13,)], [10], ELSEWHERE.format(1, 11, 13)),
        ([(10,), (11,), (12,), (11,)], [10, 11], ELSEWHERE.format(1, 11, 13)),
        ([(10,), (11, "t", 2)], [], ELSEWHERE.format(2, 11, 11)),
        ([(10,), (11, "u")], [10], "a record of topic 'u' is where one of 't' belongs"),
        ([(10,), (11,), (12, "t2"), (13,)], [10, 11], "a record of topic 't2' is where one of 't' belongs"),
    ],
)
def test_records_of_another_queue_or_out_of_order_are_damage(record, places, found, damage) -> None:  # type: ignore[no-untyped-def]
    body = b"".join(record(*place) for place in places)
    decoded = r.decode_response(body, "b", origin=ORIGIN)
    assert [message.queue_offset for message in decoded.messages] == found
    assert (decoded.damage and str(decoded.damage)) == damage
    anywhere = r.decode_response(body, "b")
    assert ([message.queue_offset for message in anywhere.messages], anywhere.damage) == ([p[0] for p in places], None)


def test_the_record_before_a_misplaced_one_is_left_out_also_if_it_cannot_be_decoded() -> None:
    bad = [at(offset, body=b"no zlib", flag=r.COMPRESSED) for offset in (10, 12)]
    decoded = r.decode_response(bad[0] + bad[1] + at(11), "b", origin=ORIGIN)
    assert (decoded.messages, offsets(decoded.undecoded), decoded.postponed) == ([], [10], ())
    assert decoded.damage is not None


def test_the_first_inner_batch_may_begin_before_the_offset_that_was_pulled() -> None:
    decoded = r.decode_response(unwrapped_at(9) + at(11), "b", origin=ORIGIN)
    assert ([message.queue_offset for message in decoded.messages], decoded.damage) == ([9, 10, 11], None)
    for wrong in (at(10) + unwrapped_at(9), unwrapped_at(20), unwrapped_at(-1), unwrapped_at(9, queue_id=2)):
        assert r.decode_response(wrong, "b", origin=ORIGIN).damage is not None


def test_records_have_a_new_queue_and_moved_offsets() -> None:
    body = at(10) + v6_at(11) + at(2**40)
    assert r.relocate_records(body, 7, 5) == at(15, queue_id=7) + v6_at(16, queue_id=7) + at(2**40 + 5, queue_id=7)
    assert r.relocate_records(body, 1, -10) == at(0) + v6_at(1) + at(2**40 - 10)
    assert r.relocate_records(b"", 7, 5) == b""
    size = len(at(10))
    for wrong, words in (
        (body[:-1], f"record at byte {size + len(v6_at(11))} of {len(body) - 1} has size {size}"),
        (at(10) + bytes(87), f"record at byte {size} of {size + 87} has size 0"),
        (at(10) + bytes(88), f"record at byte {size} of {size + 88} has size 0"),
        (struct.pack(">i", 90) + at(10)[4:], f"record at byte 0 of {size} has size 90"),
    ):
        with pytest.raises(CorruptRecord) as caught:
            r.relocate_records(wrong, 7, 5)
        assert str(caught.value) == words


def test_the_smallest_record_is_relocated() -> None:
    smallest = at(10, topic="", body=b"")
    assert len(smallest) == r.MIN_SIZE == 91
    assert r.relocate_records(smallest, 2, 1) == at(11, topic="", body=b"", queue_id=2)
    assert list(r.record_sizes(smallest * 2)) == [(0, 91), (91, 91)]
    assert len(r.decode_records(smallest * 2)) == 2


@pytest.mark.parametrize(("size", "magic", "length"), [(127, b"\xda\xa3\x20\xa7", 1), (128, b"\xda\xa3\x20\xab", 2)])
def test_long_topics_have_another_layout(size: int, magic: bytes, length: int) -> None:
    number, part = r.topic_part("x" * size)
    assert struct.pack(">i", number) == magic
    assert part == size.to_bytes(length, "big") + b"x" * size
    data = at(10, topic="x" * size)
    assert (r.decode_record(data).topic, r.record_properties(data)) == ("x" * size, b"")
    assert [message.body for message in r.decode_records(data * 2)] == [b"body"] * 2


def test_fields_are_where_the_layout_has_them() -> None:
    data = at(0x0102030405060708, queue_id=0x0A0B0C0D, flag=0x100)
    head = data[: r.FIXED_SIZE]
    assert head[r.QUEUE_ID_AT :][:4].hex() == "0a0b0c0d"
    assert head[r.QUEUE_OFFSET_AT :][:8].hex() == "0102030405060708"
    assert head[r.PHYSICAL_OFFSET_AT :][:8].hex() == "0000000000000003"
    assert head[r.SYS_FLAG_AT :][:4].hex() == "00000100"


# -- checksums


@pytest.mark.parametrize("record", [at, v6_at])
def test_a_checksum_is_compared_where_the_rules_say_so(record) -> None:  # type: ignore[no-untyped-def]
    body = record(10) + record(11).replace(b"body", b"b0dy")
    checked, unchecked, unread = (
        r.decode_response(body, "b", rules)
        for rules in (r.BodyRules(check_crc=True), r.BodyRules(), r.BodyRules(read=False, check_crc=True))
    )
    assert [message.body for message in checked.messages] == [b"body"]
    assert str(checked.damage) == "record of offset 11: the checksum of its body is 0x3c48623f, stored is 0x5ba80bb2"
    assert ([message.body for message in unchecked.messages], unchecked.damage) == ([b"body", b"b0dy"], None)
    assert ([message.body for message in unread.messages], unread.damage) == ([b"", b""], None)
    whole = r.decode_response(record(10) * 2, "b", r.BodyRules(check_crc=True))
    assert (len(whole.messages), whole.damage) == (2, None)


# -- with an accelerator


class Accelerator:
    """Decodes the first records of a body, as the compiled one would."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[tuple[object, ...]] = []

    def plain_messages(self, body, origin, reads, check_crc, broker_name):  # type: ignore[no-untyped-def]
        self.asked.append((body, origin, reads, check_crc, broker_name))
        plain = r.decode_records(body, broker_name)[: self.count]
        found = [(m.head, m.topic, m.body, m.raw_properties, m.broker_name) for m in plain]
        return found, sum(m.store_size for m in plain)


@pytest.mark.parametrize(
    ("rules", "reads", "checks"),
    [
        (r.BodyRules(), True, False),
        (r.BodyRules(check_crc=True), True, True),
        (r.BodyRules(read=False, check_crc=True), False, False),
    ],
)
def test_the_records_behind_those_of_the_accelerator_are_decoded(rules: r.BodyRules, reads: bool, checks: bool) -> None:
    body = at(10) + at(11) + at(12)
    for count in (0, 1, 3):
        accelerator = Accelerator(count)
        decoded = r.decode_response(body, "b", rules._replace(accelerator=accelerator), ORIGIN)  # type: ignore[arg-type]
        assert ([message.queue_offset for message in decoded.messages], decoded.damage) == ([10, 11, 12], None)
        assert accelerator.asked == [(body, ORIGIN, reads, checks, "b")]
    for count, damage in ((0, 10), (1, 11), (2, 12)):
        wrong = at(10) + (at(11) if count == 2 else b"") + at(10) if count else at(9)
        rules = r.BodyRules(accelerator=Accelerator(count))  # type: ignore[arg-type]
        found = r.decode_response(wrong, "b", rules, ORIGIN).damage
        assert str(found) == ELSEWHERE.format(1, 10 if count else 9, damage)


# -- bodies that are postponed or left out


def test_plain_records_behind_postponed_ones_are_postponed_too() -> None:
    rules = r.BodyRules(DecompressionLimits(100, 100), check_crc=True)
    data = compressed(0, 60) + compressed(1, 60) + v6_at(2) + at(3) + compressed(4, 10)
    found = r.decode_response(data, "b", rules)
    assert (offsets(found.undecoded), offsets(found.postponed)) == ([], [1, 2, 3, 4])
    assert len({id(record.error) for record in found.postponed}) == 1
    with pytest.raises(DecompressionLimit, match=r"max_decompressed_pull"):
        r.decode_records(data, limits=rules.limits)


def test_a_body_that_is_not_read_is_not_decompressed() -> None:
    data = compressed(0, 0, b"no zlib") + v6_at(1) + unwrapped_at(2)
    found = r.decode_response(data, "b", r.BodyRules(read=False))
    assert [(message.body, message.sys_flag) for message in found.messages] == [
        (b"", r.COMPRESSED), (b"", V6), (b"", 0), (b"", 0),
    ]  # fmt: skip
    assert found.undecoded == []


@pytest.mark.parametrize(("at_byte", "value", "words"), [
    (4, 0, "no record at byte 0: magic 0x0, size "), (84, -1, "no record at byte 0: magic 0xdaa320ab, size "),
    (0, 90, "no record at byte 0: magic 0xdaa320ab, size 90"),
])  # fmt: skip
def test_a_record_that_is_none_is_named(at_byte: int, value: int, words: str) -> None:
    data = bytearray(at(1, topic="x" * 200))
    struct.pack_into(">i", data, at_byte, value)
    with pytest.raises(CorruptRecord) as caught:
        r.decode_record(bytes(data))
    assert str(caught.value).startswith(words)
