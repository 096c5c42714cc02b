"""Reading a topic backwards, within a budget."""

import asyncio

import pytest

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
    queue = _Backward(admin, QUEUES[0], (0, 30), 100, "*")
    sizes = []
    for _ in range(3):
        asyncio.run(queue.fill())
        sizes.append(queue._chunk)
    assert sizes == [400, 1024, 1024]


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
