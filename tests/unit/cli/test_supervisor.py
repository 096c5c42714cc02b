"""Child processes: started, watched, started again, stopped. No process runs here."""

import asyncio
import logging
import os
import subprocess
import sys

import pytest

from rocketmq_py.cli import supervisor
from rocketmq_py.cli.supervisor import ChildProcess, end_of_input, python_command, running
from rocketmq_py.errors import ConfigError


class Input:
    def __init__(self, process):
        self.process = process
        self.closed = False

    def close(self):
        self.closed = True
        if not self.process.is_stuck:
            self.process.end(0)


class FakeProcess:
    """A process whose standard output is ``output``; it ends when its input ends, unless it is stuck."""

    pid = 42

    def __init__(self, output=b"READY x=1\n", *, is_stuck=False):
        self.stdin = Input(self)
        self.stdout = asyncio.StreamReader()
        self.is_stuck = is_stuck
        self.status = None
        self._ended = asyncio.Event()
        self.stdout.feed_data(output)

    def end(self, status):
        if self.status is None:
            self.status = status
            self.stdout.feed_eof()
            self._ended.set()

    async def wait(self):
        await self._ended.wait()
        return self.status


class Launcher:
    """Starts fake processes; ``outputs``: of the starts to come, READY otherwise."""

    def __init__(self, *outputs):
        self.outputs = list(outputs)
        self.launched = []
        self.commands = []
        self.at = []
        self.more = asyncio.Event()

    async def launch(self, command):
        self.commands.append(list(command))
        output = self.outputs.pop(0) if self.outputs else b"READY x=1\n"
        process = FakeProcess(output)
        if not output.startswith(b"READY"):
            process.end(3)
        self.launched.append(process)
        self.at.append(asyncio.get_running_loop().time())
        self.more.set()
        return process

    async def until(self, count):
        while len(self.launched) < count:
            self.more.clear()
            await self.more.wait()
        await asyncio.sleep(0.01)


def child(launcher, name="process 1", ready=None):
    return ChildProcess(name, lambda: ["run", name], (ready if ready is not None else []).append,
                        launch=launcher.launch)  # fmt: skip


@pytest.fixture
def jitter(monkeypatch):
    monkeypatch.setattr(supervisor.random, "random", lambda: 1.0)


# -- one process


def test_a_start_waits_for_the_ready_line():
    async def test():
        launcher, ready = Launcher(), []
        process = child(launcher, ready=ready)
        await process.start()
        assert (launcher.commands, ready) == ([["run", "process 1"]], ["READY x=1\n"])
        assert not launcher.launched[0].stdin.closed
        await process.stop()
        assert launcher.launched[0].stdin.closed
        await process.stop()

    asyncio.run(test())


@pytest.mark.parametrize("output", [b"", b"Error: no\n", b"NOT READY\nREADY\n"])
def test_a_process_that_does_not_get_ready_is_reported(output):
    async def test():
        launcher, ready = Launcher(output), []
        with pytest.raises(ConfigError, match=r"process 1 did not start \(exit status 3\); its error is printed above"):
            await child(launcher, ready=ready).start()
        assert ready == []
        assert launcher.launched[0].stdin.closed

    asyncio.run(test())


def test_a_process_that_was_not_started_is_not_waited_for():
    asyncio.run(child(Launcher()).stop())


def test_a_process_that_takes_long_to_stop_is_named_every_ten_seconds(caplog):
    async def test():
        launcher = Launcher()
        process = child(launcher)
        await process.start()
        launcher.launched[0].is_stuck = True
        stopping = asyncio.ensure_future(process.stop())
        await asyncio.sleep(25)
        assert not stopping.done()
        launcher.launched[0].end(0)
        await stopping

    asyncio.run(test())
    assert [record.getMessage() for record in caplog.records] == ["waiting for process 1 (process 42) to stop"] * 2
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_the_program_is_started_in_a_session_of_its_own(monkeypatch):
    seen = []

    async def create(*command, **options):
        seen.append((command, options))
        return FakeProcess()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    asyncio.run(ChildProcess("x", lambda: ["a", "b"]).start())
    assert seen == [
        (("a", "b"), {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True})
    ]  # fmt: skip


# -- a process that is kept running


@pytest.mark.usefixtures("jitter")
def test_a_process_that_ends_is_started_again_after_growing_pauses(caplog):
    async def test():
        launcher = Launcher()
        process = child(launcher)
        await process.start()
        watcher = asyncio.ensure_future(process.keep_running())
        for number, pause in enumerate([0.5, 1.0, 2.0], 1):
            ended_at = asyncio.get_running_loop().time()
            launcher.launched[-1].stdout.feed_data(b"more output\n")
            launcher.launched[-1].end(9)
            await launcher.until(number + 1)
            assert launcher.at[-1] - ended_at == pytest.approx(pause, abs=0.2)
        await asyncio.sleep(61)
        ended_at = asyncio.get_running_loop().time()
        launcher.launched[-1].end(9)
        await launcher.until(5)
        assert launcher.at[-1] - ended_at == pytest.approx(0.5, abs=0.2), "it ran for a minute"
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)

    asyncio.run(test())
    texts = [record.getMessage() for record in caplog.records if record.name.endswith("supervisor")]
    assert texts[:3] == [
        "process 1 ended with status 9 and is started again in 0.5 s", "process 1 is ready again",
        "process 1 ended with status 9 and is started again in 1.0 s",
    ]  # fmt: skip


@pytest.mark.usefixtures("jitter")
def test_a_start_that_fails_is_tried_again(caplog):
    async def test():
        launcher = Launcher(b"READY\n", b"", b"")
        process = child(launcher)
        await process.start()
        watcher = asyncio.ensure_future(process.keep_running())
        launcher.launched[0].end(1)
        await launcher.until(4)
        pauses = [later - earlier for earlier, later in zip(launcher.at[1:], launcher.at[2:], strict=False)]
        assert pauses == pytest.approx([1.0, 2.0], abs=0.2)
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)

    asyncio.run(test())
    texts = [record.getMessage() for record in caplog.records if record.name.endswith("supervisor")]
    assert texts[1] == "process 1 did not start (exit status 3); its error is printed above"
    assert texts[-1] == "process 1 is ready again"


# -- several processes


def test_processes_run_and_stop_together():
    async def test():
        launcher = Launcher()
        async with running([child(launcher, "a"), child(launcher, "b")]):
            assert launcher.commands == [["run", "a"], ["run", "b"]]
            launcher.launched[0].end(1)
            await launcher.until(3)
            assert launcher.commands[2] == ["run", "a"]
        assert [process.status is not None for process in launcher.launched] == [True] * 3
        await asyncio.sleep(100)
        assert len(launcher.launched) == 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(test())


def test_one_that_does_not_start_stops_the_others():
    async def test():
        launcher = Launcher(b"READY\n", b"")
        with pytest.raises(ConfigError, match="b did not start"):
            async with running([child(launcher, "a"), child(launcher, "b")]):
                raise AssertionError("it must not get here")
        assert launcher.launched[0].stdin.closed

    asyncio.run(test())


def test_an_error_inside_stops_all():
    async def test():
        launcher = Launcher()
        with pytest.raises(ZeroDivisionError):
            async with running([child(launcher)]):
                raise ZeroDivisionError
        assert launcher.launched[0].stdin.closed

    asyncio.run(test())


def test_nothing_is_stopped_before_those_that_start_it_again_have_ended():
    told = []

    class Slow:
        async def start(self):
            told.append("start")

        async def keep_running(self):
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                told.append("watched no more")

        async def stop(self):
            told.append("stop")

    async def test():
        async with running([Slow(), Slow()]):
            await asyncio.sleep(0)

    asyncio.run(test())
    assert told == ["start", "start", "watched no more", "watched no more", "stop", "stop"]


# -- the program


def test_a_child_runs_this_program():
    assert python_command() == [sys.executable, "-m", "rocketmq_py.cli"]


def test_the_end_of_a_stream_is_awaited():
    read, write = os.pipe()

    async def test():
        with os.fdopen(read) as stream:
            ended = asyncio.ensure_future(end_of_input(stream))
            os.write(write, b"ignored")
            await asyncio.sleep(0)
            assert not ended.done()
            os.close(write)
            await asyncio.wait_for(ended, 10)

    asyncio.run(test())


def test_a_stream_that_cannot_be_read_has_ended():
    class Broken:
        def fileno(self):
            raise OSError("closed")

    asyncio.run(asyncio.wait_for(end_of_input(Broken()), 10))
