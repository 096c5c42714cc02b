"""``rocketmq consume``: its listener, its consumer, and the processes it runs."""

import asyncio
import contextlib
import sys
import threading
from itertools import pairwise
from types import SimpleNamespace

import click
import pytest

import rocketmq_py
from rocketmq_py import ConsumeFromWhere
from rocketmq_py.cli import consume
from rocketmq_py.cli.supervisor import python_command
from rocketmq_py.server import runner

MODULE = """
def listener(message): ...
class Holder:
    def method(message): ...
text = "no function"
"""


@pytest.fixture(autouse=True)
def listeners(tmp_path, monkeypatch):
    """The current directory has a module with listeners."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "listening_module.py").write_text(MODULE)
    yield
    sys.modules.pop("listening_module", None)


# -- the listener


def test_a_listener_is_found_in_the_current_directory(tmp_path):
    found = consume.load_listener("listening_module:listener")
    assert found is sys.modules["listening_module"].listener
    assert consume.load_listener("listening_module:Holder.method").__name__ == "method"
    assert sys.path.count(str(tmp_path)) == 1
    assert sys.path[0] == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("listening_module", "'listening_module': module:function is expected"),
        (":listener", "':listener': module:function is expected"),
        ("listening_module:", "'listening_module:': module:function is expected"),
        ("no_such_module:f", "there is no module 'no_such_module'"),
        ("listening_module:nix", "listening_module has no function 'nix'"),
        ("listening_module:nix.more", "listening_module has no function 'nix.more'"),
        ("listening_module:text", "listening_module has no function 'text'"),
    ],
)
def test_what_is_no_listener_is_refused(name, said):
    with pytest.raises(click.BadParameter) as refused:
        consume.load_listener(name)
    assert refused.value.message == said


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("256", 256), ("auto", 3)])
def test_the_number_of_processes(monkeypatch, text, count):
    monkeypatch.setattr(consume, "available_cores", lambda: 3)
    assert consume._count(text) == count


@pytest.mark.parametrize("text", ["0", "257", "-1", "x", ""])
def test_other_numbers_of_processes_are_refused(text):
    with pytest.raises(click.BadParameter, match="is neither a number from 1 to 256 nor auto"):
        consume._count(text)


# -- the consumer


class Consumer:
    """Notes how it was made."""

    made = None

    def __init__(self, group, namesrv, **options):
        self.group, self.namesrv, self.options = group, namesrv, options
        self.subscribed = []
        self.states = []
        self.threads = set()
        Consumer.made = self

    def subscribe(self, topic, tags, *, sql):
        self.subscribed.append((topic, tags, sql))

    def start(self):
        self.states.append("started")
        self.threads.add(threading.get_ident())

    def close(self):
        self.states.append("closed")
        self.threads.add(threading.get_ident())


@pytest.fixture
def started(monkeypatch):
    """Runs the command until the coroutine that it would run; returns it."""
    monkeypatch.setattr(rocketmq_py, "PushConsumer", Consumer)
    monkeypatch.setattr(consume, "log_as", lambda *args: logged.append(args))
    logged, coroutines = [], []
    monkeypatch.setattr(runner, "run", coroutines.append)

    def start(run, words):
        result = run(f"consume listening_module:listener --group g --topic t {words}")
        assert result.exit_code == 0, result.output
        [coroutine] = coroutines
        return SimpleNamespace(coroutine=coroutine, logged=logged.pop())

    yield start
    for coroutine in coroutines:
        coroutine.close()


def test_a_consumer_has_the_defaults_of_the_help(started, run):
    begun = started(run, "--namesrv h:1")
    made = Consumer.made
    assert (made.group, made.namesrv, made.subscribed) == ("g", "h:1", [("t", "*", None)])
    assert made.options.pop("listener") is sys.modules["listening_module"].listener
    assert made.options == {
        "orderly": False, "consume_batch_size": 1, "consume_threads": 20,
        "consume_from": ConsumeFromWhere.LAST_OFFSET, "address_map": {}, "tls": None, "credentials": None,
        "timeout": 5.0,
    }  # fmt: skip
    assert begun.logged == (None, "text", "")


def test_options_arrive_at_the_consumer(started, run):
    started(run, "--topic u --tags a --orderly --batch 7 --threads 3 --from earliest --map a=b --timeout 9")
    made = Consumer.made
    assert made.subscribed == [("t", "a", None), ("u", "a", None)]
    made.options.pop("listener")
    assert made.options == {
        "orderly": True, "consume_batch_size": 7, "consume_threads": 3,
        "consume_from": ConsumeFromWhere.FIRST_OFFSET, "address_map": {"a": "b"}, "tls": None, "credentials": None,
        "timeout": 9.0,
    }  # fmt: skip


def test_a_property_filter_arrives(started, run):
    started(run, "--sql a>1")
    assert Consumer.made.subscribed == [("t", "*", "a>1")]


@pytest.mark.parametrize("words", ["--batch 0", "--batch 1025", "--threads 0", "--threads 1001", "--processes 0"])
def test_numbers_outside_their_range_are_refused(run, words):
    assert run(f"consume listening_module:listener --group g --topic t {words}").exit_code == 2


def test_a_listener_that_is_not_there_is_refused_before_anything_starts(run, monkeypatch):
    monkeypatch.setattr(runner, "run", lambda _: pytest.fail("nothing may run"))
    refused = run("consume listening_module:nix --group g --topic t --processes 2")
    assert (refused.exit_code, "has no function 'nix'" in refused.output) == (2, True)


def test_a_consumer_runs_until_it_is_interrupted(capsys):
    consumer = Consumer("g", "h:1")

    async def test():
        task = asyncio.ensure_future(consume._consume(consumer, supervised=False))
        while not consumer.states:  # noqa: ASYNC110 - another thread appends
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert consumer.states == ["started"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(test())
    assert capsys.readouterr().out == "READY group=g processes=1\n"
    assert consumer.states == ["started", "closed"]
    assert threading.get_ident() not in consumer.threads, "start and close block"


def test_a_supervised_consumer_ends_with_its_input(monkeypatch):
    consumer = Consumer("g", "h:1")
    ended = []

    async def end_of_input(stream):
        ended.append(stream)

    monkeypatch.setattr(consume, "end_of_input", end_of_input)
    asyncio.run(consume._consume(consumer, supervised=True))
    assert (ended, consumer.states) == ([sys.stdin], ["started", "closed"])


def test_a_consumer_that_does_not_start_is_closed():
    class Failing(Consumer):
        def start(self):
            raise ZeroDivisionError

    consumer = Failing("g", "h:1")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(consume._consume(consumer, supervised=False))
    assert consumer.states == ["closed"]


# -- several processes


@pytest.fixture
def supervised(monkeypatch):
    """What the supervisor is told, as arguments of ``_supervise``."""
    told = []

    def supervise(*args):
        told.append(args)
        return "the coroutine"

    monkeypatch.setattr(consume, "_supervise", supervise)
    return told


def test_child_processes_have_the_same_command_line(supervised, run, monkeypatch):
    monkeypatch.setattr(runner, "run", lambda _: None)
    options = "--topic u --processes 3 --orderly --namesrv h:1 --batch 7 --no-tls --map a=b --map c=d"
    assert run(f"consume listening_module:listener --group g --topic t {options}").exit_code == 0
    [(group, count, words)] = supervised
    assert (group, count) == ("g", 3)
    start = [*python_command(), "consume"]
    assert (words[: len(start)], words[-1]) == (start, "--supervised")
    given = words[len(start) : -1]
    assert "listening_module:listener" in given
    pairs = set(pairwise(given))
    for pair in [("--group", "g"), ("--topic", "t"), ("--topic", "u"), ("--namesrv", "h:1"), ("--batch", "7"),
                 ("--map", "a=b"), ("--map", "c=d")]:  # fmt: skip
        assert pair in pairs
    assert "--orderly" in given
    assert "--no-tls" in given
    assert not {"--processes", "--threads", "--tags", "--supervised", "--from"} & set(given)


def test_a_child_names_itself_in_the_log(started, run, monkeypatch):
    monkeypatch.setattr(consume.os, "getpid", lambda: 4711)
    assert started(run, "--supervised --log-level info --log-format json").logged == ("info", "json", "4711")


def test_children_are_ready_together(monkeypatch, capsys):
    entered = []

    @contextlib.asynccontextmanager
    async def running(children):
        entered.append([(child.name, child._command()) for child in children])
        assert capsys.readouterr().out == ""
        yield
        entered.append("left")

    monkeypatch.setattr(consume, "running", running)

    async def test():
        task = asyncio.ensure_future(consume._supervise("g", 2, ["a", "b"]))
        await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())
    assert entered[0] == [("process 1 of group g", ["a", "b"]), ("process 2 of group g", ["a", "b"])]
    assert capsys.readouterr().out == "READY group=g processes=2\n"
