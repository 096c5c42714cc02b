"""Bytes and positions of appended messages."""

from __future__ import annotations

from itertools import pairwise
from struct import pack, unpack_from

import msgspec
import pytest

from rocketmq_py.errors import CorruptRecord, MessageIllegal, StoreNotWritable
from rocketmq_py.model import RecordHead
from rocketmq_py.store import NewBatch, StoreConfig
from rocketmq_py.store.queue.runs import AppendedRun, HalfPlace, KindTarget
from rocketmq_py.store.write.batches import uniform_messages
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.java_hash import string_hash, tags_code
from rocketmq_py.wire.record import decode_records, encode_record, pack_host
from tests.unit.store.helpers import CLIENT, HOST, NOW, SMALL, fill, numbers, read_queue, record


def expected(message, queue_offset, physical, sys_flag=0, store_host=HOST):
    head = RecordHead(
        0, 0, 0, message.queue_id, message.flag, queue_offset, physical, sys_flag, message.born_timestamp,
        message.born_host, NOW, store_host, message.reconsume_times, message.prepared_transaction_offset, 0,
    )  # fmt: skip
    return encode_record(head, message.topic, message.body, message.properties)


def test_a_record_has_the_bytes_of_the_record_codec(stores):
    store = stores.open()
    message = record(7, flag=3, reconsume_times=2, prepared_transaction_offset=9, queue_id=5)
    done = store.append(message)
    wanted = expected(message, 0, 0)
    assert (done.queue_offset, done.physical_offset, done.store_timestamp, done.size) == (0, 0, NOW, len(wanted))
    assert store.message_at(0) == store.message_at(0, done.size) == wanted


def test_the_time_of_a_turn_in_which_nothing_was_appended_is_not_that_of_the_next(stores):
    """A delayed message asks for the time before it is refused: the next one would be delivered too early."""
    store = stores.open()
    assert store.now() == NOW
    store.commit_pending()
    stores.clock.now += 5_000
    assert store.append(record(0)).store_timestamp == NOW + 5_000
    stores.clock.now += 1
    assert store.append(record(1)).store_timestamp == store.now() == NOW + 5_000, "one time for one turn"


def test_offsets_are_dense_per_queue_and_physical_offsets_follow_each_other(stores):
    store = stores.open(
        StoreConfig(
            mapped_file_size_commit_log=1 << 16,
            mapped_file_size_consume_queue=1 << 16,
            max_hash_slot_num=8,
            max_index_num=999,
        )
    )
    done = [store.append(record(i, queue_id=i % 3)) for i in range(30)]
    assert [d.queue_offset for d in done] == [i // 3 for i in range(30)]
    assert all(a.physical_offset + a.size == b.physical_offset for a, b in pairwise(done))
    for queue_id in range(3):
        assert numbers(read_queue(store, queue_id=queue_id)) == list(range(queue_id, 30, 3))


def test_consume_queue_entries_equal_those_of_java(stores):
    store = stores.open()
    done = fill(store, 25)
    store.close()
    directory = store.layout.queue_directory("T", 0)
    names = ["00000000000000000000", "00000000000000000400"]
    assert stores.fs.names(directory) == names
    data = b"".join(stores.fs.read(directory / name) for name in names)
    wanted = b"".join(
        pack(">qiq", d.physical_offset, d.size, tags_code("odd" if i % 2 else "even")) for i, d in enumerate(done)
    )
    assert data == wanted.ljust(800, b"\0")


def test_a_file_that_is_full_ends_with_a_blank(stores):
    store = stores.open()
    done = fill(store, 40, size=300)
    last = max(d.physical_offset + d.size for d in done if d.physical_offset < 4096)
    store.close()
    first = stores.fs.read(store.layout.commit_log / f"{0:020d}")
    assert unpack_from(">ii", first, last) == (4096 - last, -875286124)
    assert first[last + 8 :] == bytes(4096 - last - 8)
    assert any(d.physical_offset == 4096 for d in done)
    assert stores.fs.names(store.layout.commit_log) == [f"{4096 * i:020d}" for i in range(5)]


@pytest.mark.parametrize("rest", [7, 8, 9])
def test_a_record_needs_eight_bytes_behind_it(stores, rest):
    store = stores.open(StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=8, max_index_num=9))
    overhead = len(expected(record(0, size=0), 0, 0)) - 2
    done = (
        store.append(record(0, size=4096 - overhead - rest - 2, body=b"x" * (4096 - overhead - rest)))
        if rest >= 8
        else None
    )
    if done is None:
        with pytest.raises(MessageIllegal, match="must fit into a commit log file of 4096"):
            store.append(record(0, body=b"x" * (4096 - overhead - rest)))
    else:
        assert done.size == 4096 - rest
        assert store.append(record(1)).physical_offset == 4096
        assert numbers(read_queue(store)[1:]) == [1]


def test_long_topics_need_v2_records_and_ipv6_hosts_wider_ones(stores):
    store = stores.open()
    long, six = record(1, topic="t" * 200), record(2, born_host=pack_host("2001:db8::7", 1234))
    at = [store.append(long), store.append(six)]
    assert store.message_at(at[0].physical_offset) == expected(long, 0, 0)
    assert store.message_at(at[1].physical_offset) == expected(six, 0, at[1].physical_offset, sys_flag=0x10)
    assert read_queue(store)[0].born_host == "[2001:db8:0:0:0:0:0:7]:1234"
    assert store.store_time("T", 0, 0) == NOW


def test_a_store_can_have_an_ipv6_address(stores):
    store_host = pack_host("2001:db8::1", 10911)
    stores.open().close()
    from rocketmq_py.store import MessageStore

    store = MessageStore(stores.root, SMALL, store_host=store_host, fs=stores.fs, clock=stores.clock)
    store.open()
    message = record(1)
    store.append(message)
    batch = store.append_batch(NewBatch("T", 0, encode_batch([(0, b"b", b"")] * 5), born_host=CLIENT))
    assert store.message_at(0) == expected(message, 0, 0, sys_flag=0x20, store_host=store_host)
    assert [m.store_host for m in read_queue(store)] == ["[2001:db8:0:0:0:0:0:1]:10911"] * 6
    assert batch.queue_offset == 1
    assert {m.reconsume_times for m in read_queue(store)[1:]} == {0}
    store.close()


@pytest.mark.parametrize(("flag", "queued", "indexed"), [(0x4, False, True), (0x8, True, True), (0xC, False, False)])
def test_prepared_and_rolled_back_messages_have_no_queue_entry(stores, flag, queued, indexed):
    store = stores.open()
    fill(store, 2)
    done = store.append(record(2, sys_flag=flag))
    assert done.queue_offset == (2 if queued else 0)
    assert store.queue_range("T", 0) == (0, 3 if queued else 2)
    assert store.query("T", "k2", 10, 0, NOW).count == int(indexed)
    assert decode_records(store.message_at(done.physical_offset))[0].sys_flag == flag


def test_messages_beyond_the_limits_are_refused(stores):
    store = stores.open()
    store.append(record(body=b"x" * 2000))
    for wrong in (record(body=b"x" * 2001), record(properties=b"x" * 32768), record(body=b"x" * 5000)):
        with pytest.raises(MessageIllegal, match="maxMessageSize"):
            store.append(wrong)
    assert store.queue_range("T", 0) == (0, 1)
    assert store.append(record()).queue_offset == 1


def test_messages_appended_together_lie_in_one_file(stores):
    store = stores.open()
    fill(store, 10, size=250)
    done = store.append_many([record(i, size=400) for i in range(5)])
    assert {d.physical_offset // 4096 for d in done} == {1}
    assert all(a.physical_offset + a.size == b.physical_offset for a, b in pairwise(done))
    with pytest.raises(MessageIllegal, match="do not fit"):
        store.append_many([record(i, size=900) for i in range(6)])
    assert store.queue_range("T", 0) == (0, 15)


@pytest.mark.parametrize("rest", [8, 7])
def test_the_largest_message_that_fits_a_file_can_be_appended_with_others(stores, rest):
    """The widest record: an IPv6 host, and a topic whose length takes two bytes."""
    store = stores.open(StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=8, max_index_num=9))
    wide = {"topic": "t" * 200, "born_host": pack_host("2001:db8::7", 1)}
    overhead = len(expected(record(0, body=b"", **wide), 0, 0, sys_flag=0x10))
    message = record(0, body=b"x" * (4096 - overhead - rest), **wide)
    if rest < 8:
        with pytest.raises(MessageIllegal, match="do not fit"):
            store.append_many([message])
        return
    fill(store, 1)
    [done] = store.append_many([message])
    assert (done.physical_offset, done.size) == (4096, 4088)
    assert store.message_at(4096) == expected(message, 0, 4096, sys_flag=0x10)


def test_a_message_that_is_too_large_is_refused_with_those_that_are_appended_with_it(stores):
    store = stores.open(msgspec.structs.replace(SMALL, max_message_size=500))
    store.append_many([record(0, size=500)])
    with pytest.raises(MessageIllegal, match="501"):
        store.append_many([record(1), record(2, size=501), record(3)])
    assert store.queue_range("T", 0) == (0, 1), "none of them is stored"


def alike(n, body=b"body-%03d", tail=b"\x02TAGS\x01A"):
    return [(9, body % i, b"UNIQ_KEY\x01B%05d\x02KEYS\x01w%03d" % (i, i) + tail) for i in range(n)]


def numbered(n, name=b"row"):
    return [(0, b"x", b"a\x01b\x02%b\x01%04d\x02UNIQ_KEY\x01B%05d\x02TAGS\x01A\x02" % (name, i, i)) for i in range(n)]


SAME_SHAPE = {
    "alike": alike(20),
    "another value differs": numbered(20),
    "two other values differ": [(0, b"x", b"a\x01%d\x02b\x01%d" % (i, 9 - i)) for i in range(10)],
}
BATCHES = {
    **SAME_SHAPE,
    "different flags": [(i, body, properties) for i, (_, body, properties) in enumerate(alike(20))],
    "other values differ in the middle only": [*numbered(3), *numbered(3)[:1], *numbered(1)],
    "names differ": [*numbered(9), *numbered(5, b"col")],
    "a separator in another value": [
        *numbered(9),
        (0, b"x", numbered(1)[0][2].replace(b"0000", b"0\x02cd", 1)),
        *numbered(3),
    ],
    "values of other lengths": [(0, b"x", b"a\x01%d\x02b\x01%d" % (10**i, 10 ** (8 - i))) for i in range(9)],
    "two": alike(2),
    "different lengths": [(i, b"x" * i, b"UNIQ_KEY\x01%d" % i) for i in range(20)],
    "different tags": [(0, b"x", b"TAGS\x01A" if i % 2 else b"TAGS\x01B") for i in range(20)],
    "no properties": [(i, b"x", b"") for i in range(20)],
    "empty bodies": [(i, b"", b"TAGS\x01A\x02") for i in range(20)],
    "a separator in a value": [(0, b"x", b"UNIQ_KEY\x01ab\x02c\x01d"), *[(0, b"x", b"UNIQ_KEY\x01abXc\x01d")] * 5],
    "one key empty": [*alike(6), (9, b"body-009", b"UNIQ_KEY\x01\x02____\x02KEYS\x01w%03d\x02TAGS\x01A" % 9)],
}


@pytest.mark.parametrize("name", BATCHES)
def test_uniform_batches_are_recognized(name):
    assert (uniform_messages(encode_batch(BATCHES[name])) is not None) == (name in SAME_SHAPE)


@pytest.mark.parametrize("common", [b"", b"CLUSTER\x01c\x02"])
@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_equals_single_messages_on_disk(stores, name, common):
    config = StoreConfig(
        mapped_file_size_commit_log=1 << 16,
        mapped_file_size_consume_queue=1 << 16,
        max_hash_slot_num=97,
        max_index_num=999,
    )
    store = stores.open(config)
    fill(store, 1)
    batch = NewBatch("T", 0, encode_batch(BATCHES[name]), common, 0, NOW - 9, CLIENT, 1)
    done = store.append_batch(batch)
    assert (done.queue_offset, done.store_timestamp, len(done.physical_offsets)) == (1, NOW, len(BATCHES[name]))
    total = 0
    for i, ((flag, body, own), physical) in enumerate(zip(BATCHES[name], done.physical_offsets, strict=True)):
        glue = b"\x02" if own and common and not own.endswith(b"\x02") else b""
        single = record(body=body, properties=own + glue + common, flag=flag, born_timestamp=NOW - 9, reconsume_times=1)
        assert store.message_at(physical) == expected(single, i + 1, physical)
        total += len(store.message_at(physical))
    assert done.size == total
    messages = read_queue(store)[1:]
    codes = [code for _, _, code in store.queue_entries("T", 0, 1, 99)]
    assert codes == [tags_code(m.tags) for m in messages]
    for message in messages:
        for key in [message.properties.get("UNIQ_KEY"), *(message.keys or "").split()]:
            if key:
                found = decode_records(store.query("T", key, 64, 0, NOW).body)
                assert message.queue_offset in {m.queue_offset for m in found}


def test_a_batch_rolls_over_as_a_whole(stores):
    store = stores.open()
    fill(store, 12, size=250)
    done = store.append_batch(NewBatch("T", 0, encode_batch(alike(8))))
    assert {at // 4096 for at in done.physical_offsets} == {1}
    varied = store.append_batch(NewBatch("T", 0, encode_batch([(0, b"x" * (i + 200), b"") for i in range(10)])))
    assert {at // 4096 for at in varied.physical_offsets} == {2}


def test_no_message_of_an_invalid_batch_is_stored(stores):
    store = stores.open()
    good = encode_batch(alike(8))
    for bad in (good[:-1], good + b"xx", good[:16] + b"\xff" + good[17:], b"\0" * 200):
        with pytest.raises(CorruptRecord):
            store.append_batch(NewBatch("T", 0, bad))
    for large in ([(0, b"x" * 2001, b"")], [(0, b"x" * 900, b"")] * 5, [(0, b"x" * n, b"") for n in range(890, 899)]):
        with pytest.raises(MessageIllegal):
            store.append_batch(NewBatch("T", 0, encode_batch(large)))
    assert store.queue_range("T", 0) == (0, 0)
    assert store.max_physical_offset == 0


def test_arrivals_name_the_newly_readable_messages(stores):
    seen = []
    store = stores.open(on_arrival=seen.extend)
    done = [store.append(record(i, queue_id=i % 2)) for i in range(3)]
    assert seen == []
    store.commit_pending()
    store.commit_pending()
    first, second = seen
    assert (first.topic, first.queue_id, first.queue_offset, first.next_offset) == ("T", 0, 0, 2)
    assert (second.queue_id, second.queue_offset, second.next_offset, second.store_timestamp) == (1, 0, 1, NOW)
    assert first.tags_codes == [tags_code("even")] * 2
    assert first.entries[0:2] == [done[0].physical_offset, done[0].size]


def test_a_listener_can_read_the_arrived_messages(stores):
    seen = []
    store = stores.open(
        on_arrival=lambda arrivals: seen.extend(
            numbers(decode_records(store.get(a.topic, a.queue_id, a.queue_offset, 9).body)) for a in arrivals
        )
    )
    fill(store, 3)
    assert seen == [[0, 1, 2]]


def test_the_store_time_never_goes_back(stores):
    store = stores.open()
    assert store.append(record()).store_timestamp == NOW
    store.commit_pending()
    stores.clock.now -= 500
    assert store.now() == store.append(record()).store_timestamp == NOW
    store.commit_pending()
    stores.clock.now = NOW + 5
    assert store.append(record()).store_timestamp == NOW + 5


def test_a_full_disk_refuses_messages_until_there_is_room(stores):
    store = stores.open()
    fill(store, 3)
    stores.fs.failing.add("allocate")
    with pytest.raises(StoreNotWritable, match="No space left"):
        store.append_many([record(i, size=500) for i in range(6)])
    stores.fs.failing.clear()
    assert store.append(record(3)).queue_offset == 3, "of several messages all are stored or none"
    assert len(read_queue(store)) == 4


def test_no_part_of_several_messages_is_stored_if_the_next_file_cannot_be_made(stores):
    store = stores.open()
    fill(store, 3)
    stores.fs.fails = lambda _, path: path.parent.name == "commitlog" and path.name != f"{0:020d}"
    with pytest.raises(StoreNotWritable, match="the commit log cannot grow"):
        store.append_many([record(i, size=500) for i in range(6)])
    stores.fs.fails = lambda *_: False
    assert store.append(record(3)).queue_offset == 3
    assert len(read_queue(store)) == 4


def test_a_closed_store_refuses(stores):
    from rocketmq_py.errors import ClosedError

    store = stores.open()
    fill(store, 1)
    store.close()
    store.close()
    with pytest.raises(StoreNotWritable, match="closing"):
        store.append(record())
    with pytest.raises(ClosedError, match="is closed"):
        store.get("T", 0, 0, 1)


def test_deleting_a_topic_removes_its_queues_and_a_new_one_starts_at_zero(stores):
    store = stores.open()
    fill(store, 30)
    fill(store, 3, topic="U")
    store.delete_topic("T")
    assert store.queues() == [("U", 0)]
    assert store.queue_range("T", 0) == (0, 0)
    assert fill(store, 1, start=9)[0].queue_offset == 0
    store.close()
    assert numbers(read_queue(stores.open())) == [9]


@pytest.mark.parametrize("kind", ["many", "batch", "properties"])
def test_a_store_that_refuses_leaves_its_log_as_it_is(stores, kind):
    """Even where the messages would not fit into this file: a slave's log has the bytes of its master's only."""
    store = stores.open()
    store.append(record(0, size=1_500))
    store.commit_pending()
    end, size = store.max_physical_offset, 700
    store._writer.refuse("it is a slave's")
    own = b"K\x01v\x02" if kind == "properties" else b""
    body = encode_batch([(0, bytes(size), own)] * 4)
    append = {"many": lambda: store.append_many([record(i, size=size) for i in range(4)])}.get(
        kind, lambda: store.append_batch(NewBatch("T", 0, body))
    )
    with pytest.raises(StoreNotWritable, match="the store refuses messages: it is a slave's"):
        append()
    store.commit_pending()
    assert store.max_physical_offset == end
    store._writer.allow()
    assert store.append(record(1)).physical_offset == end


def test_a_batch_with_a_message_that_is_too_large_leaves_the_log_as_it_is(stores):
    store = stores.open(StoreConfig(
        mapped_file_size_commit_log=1 << 14, max_hash_slot_num=8, max_index_num=999, max_message_size=5_000
    ))  # fmt: skip
    store.append(record(0, size=4_000))
    store.append(record(1, size=4_000))
    store.commit_pending()
    end = store.max_physical_offset
    with pytest.raises(MessageIllegal, match="too large"):
        store.append_batch(
            NewBatch("T", 0, encode_batch([(0, bytes(4_000), b"K\x01v\x02"), (0, bytes(5_001), b"")]), b"")
        )
    store.commit_pending()
    assert store.max_physical_offset == end


# -- sends appended together by compiled code


class Run:
    """Compiled code that notes what it is given, and appends what the test says."""

    def __init__(self, appended):
        self.appended, self.given = appended, None

    def append(self, *given):
        self.given = given
        return self.appended


class Added:
    """Notes the packed keys that are added to the index."""

    def __init__(self, store):
        self.keys = []
        store._writer._packed_keys = self

    def add(self, keys):
        self.keys.append(keys)


def test_a_run_is_appended_behind_what_is_pending(stores):
    config = msgspec.structs.replace(SMALL, mapper_file_size_batch_consume_queue=460)
    store = stores.open(config, is_batched=lambda topic: topic == "B")
    done = [store.append(record(0)), store.append(record(0, queue_id=1)), store.append(record(0, topic="B"))]
    end = done[-1].physical_offset + done[-1].size
    queues = [store._queues.by_key["T", queue_id] for queue_id in (1, 0)]
    kinds = [
        KindTarget("T", 1, 0, 97), None, KindTarget("T", 0, 1, 98), KindTarget("T", 1, 2, 99), KindTarget("B", 0, 0, 1),
        KindTarget("U", 0, 0, 1), KindTarget("T", 0, 4, 96, HalfPlace("later", 7, "p", (b"1", b"2", b"3"))),
    ]  # fmt: skip
    entries = [[end, 10, 97, end + 10, 10, 99], [end + 20, 5, 98]]
    prefix, added = string_hash("T#"), Added(store)
    run = Run((5, b"r" * 25, entries, b"keys", "answers", ["half"]))
    assert store.append_run(run, 2, kinds, CLIENT, b"suffix") == AppendedRun(5, "answers", ["half"])
    begin, targets, given, hosts, suffix, place, limits = run.given
    assert (begin, suffix, limits) == (2, b"suffix", (2000, 32767))
    assert targets == [
        (0, 0, 97, 1, None), None, (1, 1, 98, 0, None), (0, 2, 99, 1, None), None, None,
        (1, 4, 96, 7, (b"1", b"2", b"3")),
    ]  # fmt: skip
    assert given == [(queue.queue_id, -626843481, b"\x01T", 1, prefix) for queue in queues]
    assert hosts == (CLIENT, HOST)
    assert place == (NOW, end, 4096 - 8 - end)
    assert [queue.next_offset for queue in queues] == [3, 2]
    assert [one.topic for one in store._writer.touched] == ["T", "T", "B"]
    assert store.append(record(1)).physical_offset == end + 25
    store.commit_pending()
    assert store.queue_entries("T", 1, 1, 9) == [(end, 10, 97), (end + 10, 10, 99)]
    assert store.message_at(end, 48) is not None
    assert stores.fs.read(store.layout.commit_log / f"{0:020d}")[end : end + 25] == b"r" * 25
    run = Run((1, b"r" * 5, [[end, 5, 1]], b"", "more", []))
    assert store.append_run(run, 0, kinds[:1], CLIENT, b"") == (1, "more", [])
    assert added.keys == [b"keys", b""]
    assert [queue.queue_id for queue in store._writer.touched] == [1], "once for each write"
    assert store.queue_range("T", 1) == (0, 4)


def test_a_batch_that_compiled_code_encodes_is_appended_behind_what_is_pending(stores):
    store = stores.open(is_batched=lambda topic: topic == "B")
    store.append(record(0, topic="B"))
    done = store.append(record(0))
    end = done.physical_offset + done.size
    prefix, given, added = string_hash("T#"), [], Added(store)
    body = encode_batch([(0, b"a", b""), (0, b"b", b"")])
    encoded = [(b"r" * 15, [end, 10, 97, end + 10, 5, 98], b"keys")]
    store._writer._encode_batch = lambda *one: given.append(one) or encoded.pop()
    batch = NewBatch("T", 0, body, sys_flag=1, born_timestamp=5, born_host=CLIENT, reconsume_times=2)
    appended = store.append_batch(batch)
    assert (appended.queue_offset, list(appended.physical_offsets), appended.size) == (1, [end, end + 10], 15)
    assert appended.store_timestamp == NOW
    [(data, queue, hosts, fields, place, limits)] = given
    assert (data, hosts, fields, limits) == (body, (CLIENT, HOST), (1, 5, 2), (2000, 32767))
    assert queue == (0, -626843481, b"\x01T", 1, prefix)
    assert place == (NOW, end, 4096 - 8 - end)
    assert store._writer.touched == [store._queues.by_key["B", 0], store._queues.by_key["T", 0]]
    assert store.append(record(1)).physical_offset == end + 15
    store.commit_pending()
    assert store.queue_entries("T", 0, 1, 2) == [(end, 10, 97), (end + 10, 5, 98)]
    assert store.queue_range("T", 0) == (0, 4)
    encoded.append((b"r" * 5, [end, 5, 1], b""))
    store.append_batch(batch)
    assert added.keys == [b"keys", b""]
    assert store._writer.touched == [store._queues.by_key["T", 0]], "a queue with nothing pending is written, too"


@pytest.mark.parametrize("changes", [{"topic": "B"}, {"topic": "new"}, {}])
def test_a_batch_that_compiled_code_does_not_encode_is_appended_by_ours(stores, changes):
    store, given = stores.open(is_batched=lambda topic: topic == "B"), []
    store._writer._encode_batch = lambda *one: given.append(one)
    batch = {"topic": "T", "queue_id": 0, "body": encode_batch([(0, b"a", b""), (0, b"b", b"")]), "born_host": CLIENT}
    store.append_batch(NewBatch(**batch))
    assert given == [], "no file is open"
    store.append(record(0, topic="B"))
    done = store.append_batch(NewBatch(**{**batch, **changes}))
    assert [decode_records(store.message_at(at))[0].body for at in done.physical_offsets] == [b"a", b"b"]
    assert len(given) == (not changes), "of a queue that exists and has single entries"


def test_a_run_is_left_to_single_appends_where_it_does_not_fit(stores):
    store = stores.open()
    run = Run(None)
    kinds = [KindTarget("T", 0, 0, 1)]
    assert store.append_run(run, 0, kinds, CLIENT, b"") is None
    assert run.given is None, "no file is open"
    store.append(record(0))
    assert store.append_run(run, 0, kinds, pack_host("2001:db8::7", 1), b"") is None
    assert run.given is None
    assert store.append_run(run, 0, kinds, CLIENT, b"") is None
    assert run.given is not None
    store._writer.refuse("x")
    run.given = None
    assert store.append_run(run, 0, kinds, CLIENT, b"") is None
    assert run.given is None
    assert store.queue_range("T", 0) == (0, 1)


def test_a_full_file_has_room_for_no_run(stores):
    overhead = 88 + 2 + 2
    properties = b"K\x01v\x02"
    run = Run(None)
    for rest, asked in ((1, True), (0, False)):
        store = type(stores)(stores.root, type(stores.fs)()).open()
        store.append(record(0, body=b"x" * 2000, properties=properties))
        store.append(record(0, body=b"x" * (4088 - rest - 2000 - 2 * (overhead + 4)), properties=properties))
        run.given = None
        store.append_run(run, 0, [KindTarget("T", 0, 0, 1)], CLIENT, b"")
        assert (run.given is not None) is asked
        assert not asked or run.given[5][2] == rest
        store.close()
