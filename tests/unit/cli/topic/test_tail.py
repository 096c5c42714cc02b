"""``rocketmq topic tail``: where it starts, what it prints, how it follows, when it ends."""

import asyncio
import json

import pytest

from rocketmq_py.cli.topic import tail
from rocketmq_py.errors import ConnectError, NoRouteError, TopicNotExist
from rocketmq_py.model import MessageQueue
from tests.unit.cli.memory_admin import MemoryAdmin
from tests.unit.cli.messages import STORED, message

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def bodies(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line)["body"] for line in result.stdout.splitlines()]


@pytest.fixture
def stored(admin):
    admin.add_topic("t", 1)
    admin.add_messages(*(message(b"%d" % number, offset=number, stored=STORED + number) for number in range(12)))
    return admin


@pytest.mark.parametrize(
    ("options", "first"),
    [("", 2), ("-n 12", 0), ("-n 1", 11), ("-n 0", 12), ("-n 3", 9)],
)
def test_the_newest_messages_are_printed(stored, run, options, first):
    assert bodies(run(f"topic tail t --no-follow -o jsonl {options}")) == [str(number) for number in range(first, 12)]
    assert stored.changes == []


def test_a_message_is_a_line_or_a_document(stored, run):
    line = run("topic tail t -n 1 --no-follow").output
    assert line.endswith("  broker-a:0+11  -  -  11\n")
    assert json.loads(run("topic tail t -n 1 --no-follow -o json").output)["offset"] == 11


@pytest.mark.parametrize(("count", "printed"), [(1, ["2"]), (3, ["2", "3", "4"]), (10, list(map(str, range(2, 12))))])
def test_it_ends_after_a_number_of_messages(stored, run, count, printed):
    assert bodies(run(f"topic tail t -c {count} -o jsonl")) == printed
    assert run("topic tail t -c 0").exit_code == 2


def test_it_follows_until_the_number_is_reached(stored, run, monkeypatch):
    pulled, ended = [], []

    async def pull(queue, offset, *, tags, sql, wait):
        pulled.append((queue, offset, tags, sql, wait))
        stored.add_messages(message(b"%d" % offset, offset=offset))
        return await MemoryAdmin.pull(stored, queue, offset, tags=tags, sql=sql, wait=wait)

    async def close(follower, close=tail._Follower.close):
        await close(follower)
        ended.append((stored.closed, all(task.done() for task in follower._tasks.values())))

    monkeypatch.setattr(stored, "pull", pull)
    monkeypatch.setattr(tail._Follower, "close", close)
    assert bodies(run("topic tail t -n 1 -c 3 -o jsonl --tags a||b")) == ["11", "12", "13"]
    assert ended == [(0, True)], "polls end before the connection is closed"
    assert pulled[:2] == [(Q0, 12, "a||b", None, 15.0), (Q0, 13, "a||b", None, 15.0)]


def test_the_filter_goes_with_every_request(stored, run, monkeypatch):
    asked = []

    async def newest(topic, count, *, tags, sql):
        asked.append((topic, count, tags, sql))
        return [], {}

    monkeypatch.setattr(stored, "newest", newest)
    assert run("topic", "tail", "t", "--sql", "a > 1", "--no-follow").exit_code == 0
    assert asked == [("t", 10, "*", "a > 1")]


# -- following, by the iterator


async def following(admin, **options):
    """The iterator behind the command, and a function that returns the body of the next message."""
    messages = tail.follow(admin, "t", 0, **options)

    async def following_body():
        return (await asyncio.wait_for(anext(messages), 100)).body

    return messages, following_body


def played(test):
    """Run a coroutine with a cluster in memory with topic t."""
    admin = MemoryAdmin()
    admin.add_topic("t", 1)
    asyncio.run(test(admin))
    return admin


def arrive(admin, *messages):
    admin.add_messages(*messages)
    admin.arrived.set()


def test_new_messages_follow_in_the_order_of_their_queue():
    async def test(admin):
        messages, following_body = await following(admin)
        first = asyncio.ensure_future(following_body())
        await asyncio.sleep(0.1)
        arrive(admin, message(b"a", offset=0), message(b"b", offset=1))
        assert [await first, await following_body()] == [b"a", b"b"]
        second = asyncio.ensure_future(following_body())
        await asyncio.sleep(0.1)
        arrive(admin, message(b"c", offset=2))
        assert await second == b"c"
        await messages.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    played(test)


def test_a_queue_that_is_added_later_is_read_from_its_beginning():
    async def test(admin):
        messages, following_body = await following(admin)
        late = asyncio.ensure_future(following_body())
        await asyncio.sleep(0.1)
        admin.add_topic("t", 2)
        admin.add_messages(message(b"late", queue=1, offset=0))
        assert await late == b"late"
        await messages.aclose()

    admin = played(test)
    assert [change[1:3] for change in admin.changes if change[1] == Q1][:1] == [(Q1, 0)]
    assert sum(change[1:3] == (Q0, 0) for change in admin.changes) == 1


def test_added_queues_are_looked_for_every_ten_seconds():
    async def test(admin):
        began = asyncio.get_running_loop().time()
        messages, following_body = await following(admin)
        late = asyncio.ensure_future(following_body())
        await asyncio.sleep(0.1)
        admin.add_topic("t", 2)
        admin.add_messages(message(b"late", queue=1, offset=0))
        await late
        assert asyncio.get_running_loop().time() - began == pytest.approx(10.0, abs=0.9)
        await messages.aclose()

    played(test)


@pytest.mark.parametrize("error", [ConnectError("refused"), NoRouteError("no route")])
def test_a_queue_that_cannot_be_reached_is_reported_once_and_tried_again(capsys, error):
    async def test(admin):
        admin.failures["pull"] = error
        messages, following_body = await following(admin)
        body = asyncio.ensure_future(following_body())
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(2.5)
        tried = [change for change in admin.changes if change[0] == "pull"]
        assert len(tried) == 3, "at once, after a second, after two"
        del admin.failures["pull"]
        admin.add_messages(message(b"back", offset=0))
        assert await body == b"back"
        assert asyncio.get_running_loop().time() - began < 4
        admin.failures["pull"] = error
        admin.arrived.set()
        body = asyncio.ensure_future(following_body())
        await asyncio.sleep(1.5)
        body.cancel()
        await asyncio.gather(body, return_exceptions=True)
        await messages.aclose()

    played(test)
    assert capsys.readouterr().err == f"{Q0}: {error}; retrying until it answers\n" * 2


def test_a_route_that_cannot_be_read_leaves_the_queues_alone():
    async def test(admin):
        messages, following_body = await following(admin)
        body = asyncio.ensure_future(following_body())
        await asyncio.sleep(0.1)
        admin.failures["route"] = ConnectError("refused")
        await asyncio.sleep(15)
        del admin.failures["route"]
        arrive(admin, message(b"a", offset=0))
        assert await body == b"a"
        await messages.aclose()

    played(test)


def test_another_error_ends_it():
    async def test(admin):
        admin.failures["pull"] = TopicNotExist(17, "gone")
        messages, following_body = await following(admin)
        with pytest.raises(TopicNotExist):
            await following_body()
        await messages.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    played(test)
