"""Reading a topic backwards, within a budget."""

import asyncio

import pytest

from rocketmq_py.client.admin.messages import Pulled
from rocketmq_py.console.scan import Budget, _Backward, cursor_of, newest_first, parse_cursor
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from tests.unit.cli.memory_admin import MemoryAdmin
from tests.unit.cli.messages import message

QUEUES = [MessageQueue("t", "broker-a", number) for number in range(3)]


@pytest.fixture
def admin():
    made = MemoryAdmin()
    made.add_topic("t", 3)
    for number in range(90):  # stored in turn
        made.add_messages(message(b"%d" % number, queue=number % 3, offset=number // 3, stored=1000 + number))
    return made


def scan(admin, windows, count, **options):
    return asyncio.run(newest_first(admin, windows, count, **options))


def test_pages_follow_one_another_without_gap_or_repetition(admin):
    left, seen = dict.fromkeys(QUEUES, (0, 30)), []
    while left:
        page = scan(admin, left, 7)
        seen += [int(one.body) for one in page.messages]
        left = parse_cursor("t", cursor_of(page.left))
        assert page.stopped is None
    assert seen == list(range(89, -1, -1))


def test_a_scan_that_costs_too_much_says_where_it_stopped(admin):
    for number in range(90, 300):
        admin.add_messages(message(b"%d" % number, queue=number % 3, offset=number // 3, stored=1000 + number))
    page = scan(admin, dict.fromkeys(QUEUES, (0, 100)), 200, budget=Budget(offsets=40))
    assert (page.stopped, page.looked_at) == ("offsets", 96)
    rest = scan(admin, page.left, 200)
    assert [int(one.body) for one in page.messages + rest.messages][:200] == list(range(299, 99, -1))


def test_parts_grow_to_1024_offsets(admin):
    queue = _Backward(admin, QUEUES[0], (0, 30), 100, 1024, "*", lambda _: True)
    sizes = []
    for _ in range(3):
        asyncio.run(queue.fill())
        sizes.append(queue._chunk)
    assert sizes == [400, 1024, 1024]


def test_later_parts_of_many_queues_stay_within_the_budget(admin):
    for number in range(90, 3_000):
        admin.add_messages(message(b"%d" % number, queue=number % 3, offset=number // 3, stored=1000 + number))
    page = scan(admin, dict.fromkeys(QUEUES, (0, 1_000)), 1, accepts=lambda _: False, budget=Budget(offsets=150))
    # 2 offsets of each queue, then 8, 32, and 50, a third of the budget, instead of 128
    assert (page.looked_at, page.stopped, page.messages) == (3 * (1 + 4 + 16 + 50), "offsets", [])
    assert page.left == dict.fromkeys(QUEUES, (0, 1_000 - 71))


def test_a_part_has_at_most_1024_offsets(admin):
    admin.stored[QUEUES[0]] = [message(b"x", queue=0, offset=number, stored=1000) for number in range(3_000)]
    page = scan(admin, {QUEUES[0]: (0, 3_000)}, 16, accepts=lambda _: False, budget=Budget(offsets=1_700))
    assert page.looked_at == 32 + 128 + 512 + 1_024 + 1_024


def test_messages_are_found_by_what_they_are_asked_for_and_a_long_search_goes_on(admin):
    left, found, stops = dict.fromkeys(QUEUES, (0, 30)), [], []
    while left:
        page = scan(admin, left, 2, accepts=lambda one: int(one.body) % 10 == 7, budget=Budget(offsets=9))
        found += [int(one.body) for one in page.messages]
        stops.append(page.stopped)
        left = page.left
    assert found == list(range(87, 0, -10))
    assert "offsets" in stops


def test_a_scan_ends_in_time(admin):
    times = iter([0.0, 9.0])
    page = scan(admin, dict.fromkeys(QUEUES, (0, 30)), 5, clock=lambda: next(times))
    assert (page.stopped, page.messages) == ("seconds", [])


@pytest.mark.parametrize("text", ["x", "a:1:2", "a:1:2:x", "a:-1:0:1", "a:1:2:" + "9" * 40])
def test_a_wrong_cursor_is_refused(text):
    with pytest.raises(ConfigError, match="is no range of a queue"):
        parse_cursor("t", text)


def test_a_cursor_names_at_most_256_queues():
    def cursor(count):
        return " ".join(f"b:{number}:0:1" for number in range(count))

    assert len(parse_cursor("t", cursor(256))) == 256
    with pytest.raises(ConfigError, match="257 queues are more than one scan reads: 256"):
        parse_cursor("t", cursor(257))


def test_a_scan_may_cost_so_much():
    assert Budget() == (20_000, 33_554_432, 5.0)


def reads(admin):
    return [(change[1].queue_id, change[2]) for change in admin.changes if change[0] == "pull"]


@pytest.mark.parametrize(
    ("queues", "count", "starts"), [(3, 7, [26] * 3), (3, 1, [29] * 3), (1, 3, [24]), (1, 90, [0]), (2, 90, [0, 0])]
)
def test_the_first_parts_have_twice_what_a_queue_adds_to_the_page(admin, queues, count, starts):
    scan(admin, dict.fromkeys(QUEUES[:queues], (0, 30)), count)
    assert reads(admin)[:queues] == list(enumerate(starts))


def test_a_part_is_at_most_thirty_two_messages(admin):
    for number in range(90, 300):
        admin.add_messages(message(b"%d" % number, queue=number % 3, offset=number // 3, stored=1000 + number))
    scan(admin, {QUEUES[0]: (0, 100)}, 20)
    assert reads(admin) == [(0, 68)]
    admin.changes.clear()
    assert len(scan(admin, {QUEUES[0]: (0, 100)}, 100).messages) == 100
    assert reads(admin) == [(0, 68), (0, 0), (0, 32), (0, 64)], "the second part is read in three pulls"


@pytest.mark.parametrize(("size", "stopped"), [(100, "bytes"), (99, "bytes"), (101, None)])
def test_a_scan_ends_when_it_has_read_too_many_bytes(admin, size, stopped):
    page = scan(admin, {QUEUES[0]: (28, 30)}, 2, budget=Budget(size=size * 2))
    assert (page.stopped, len(page.messages)) == (None, 2)
    page = scan(admin, {QUEUES[0]: (0, 30)}, 1, budget=Budget(size=size * 2))
    assert page.stopped is None
    budget = Budget(size=size * 2)
    page = scan(admin, {QUEUES[0]: (0, 30)}, 3, budget=budget)
    assert page.stopped is None, "six messages were read at once"
    admin.stored[QUEUES[0]] = admin.stored[QUEUES[0]][:1] + admin.stored[QUEUES[0]][28:]
    page = scan(admin, {QUEUES[0]: (0, 30)}, 3, budget=budget)
    assert page.stopped == stopped
    assert page.left == ({QUEUES[0]: (0, 24)} if stopped else {})


@pytest.mark.parametrize(
    ("offsets", "stopped", "looked_at"), [(6, "offsets", 6), (5, "offsets", 6), (7, "offsets", 13), (30, None, 30)]
)
def test_a_scan_ends_when_it_has_looked_at_too_many_offsets(admin, offsets, stopped, looked_at):
    admin.stored[QUEUES[0]] = admin.stored[QUEUES[0]][:1] + admin.stored[QUEUES[0]][28:]
    page = scan(admin, {QUEUES[0]: (0, 30)}, 3, budget=Budget(offsets=offsets))
    assert (page.stopped, len(page.messages)) == (stopped, 2 if stopped else 3)
    assert page.looked_at == looked_at


def test_a_scan_may_take_exactly_its_time(admin):
    times = iter([1.0, 6.0, 6.0])
    assert scan(admin, dict.fromkeys(QUEUES, (0, 30)), 1, clock=lambda: next(times)).stopped is None
    times = iter([1.0, 6.1])
    assert scan(admin, dict.fromkeys(QUEUES, (0, 30)), 1, clock=lambda: next(times)).stopped == "seconds"


def test_messages_of_the_same_time_are_in_the_order_of_the_log():
    admin = MemoryAdmin()
    admin.add_topic("t", 2)
    admin.add_messages(message(b"late", queue=0, offset=0, at=900), message(b"early", queue=1, offset=0, at=100))
    page = scan(admin, dict.fromkeys(QUEUES[:2], (0, 1)), 2)
    assert [one.body for one in page.messages] == [b"late", b"early"]
    page = scan(admin, dict.fromkeys(QUEUES[:2], (0, 1)), 1)
    assert (page.messages[0].body, page.left) == (b"late", {QUEUES[1]: (0, 1)})


def test_an_empty_queue_is_not_read(admin):
    page = scan(admin, {QUEUES[0]: (5, 5), QUEUES[1]: (9, 3)}, 2)
    assert (page, reads(admin)) == (([], {}, None, 0), [])


def test_a_broker_that_does_not_go_on_ends_a_part_and_later_messages_are_left(admin):
    asked = []

    class Stuck(MemoryAdmin):
        async def pull(self, queue, offset, *, max_messages=32, tags="*", sql=None, wait=0.0):
            asked.append((offset, max_messages, tags))
            assert len(asked) < 3
            return Pulled(admin.stored[queue][offset : offset + 8], offset, 0, 30)

    found = scan(Stuck(), {QUEUES[0]: (0, 4)}, 9, tags="A")
    assert ([one.queue_offset for one in found.messages], asked) == ([3, 2, 1, 0], [(0, 4, "A")])
    assert (found.left, found.looked_at) == ({}, 4)


def test_numbers_of_a_cursor_have_at_most_eighteen_digits():
    text = "a:b:1:2:" + "9" * 18
    assert parse_cursor("t", text) == {MessageQueue("t", "a:b", 1): (2, 10**18 - 1)}
    with pytest.raises(ConfigError, match="is no range"):
        parse_cursor("t", text + "9")
    assert cursor_of({}) == ""
