"""Running a program: its result, its orderly end on a signal, services that are always stopped."""

import asyncio
import os
import signal
import sys
from types import SimpleNamespace

import pytest

from rocketmq_py.accelerator import VARIABLE
from rocketmq_py.server import run, runner
from rocketmq_py.server.runner import _on_signal, loop_factory, speedups, started


class Service:
    def __init__(self, fails=False):
        self.fails = fails
        self.events = []

    async def start(self):
        self.events.append("start")
        if self.fails:
            raise OSError("no")

    async def stop(self):
        self.events.append("stop")


def test_the_result_is_returned():
    async def main():
        return 7

    assert run(main()) == 7


def test_an_error_is_raised():
    async def main():
        raise KeyError("x")

    with pytest.raises(KeyError):
        run(main())


@pytest.mark.skipif(os.name == "nt", reason="processes cannot be signalled alike there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_services_in_order_and_a_second_one_is_ignored(number):
    service = Service()

    async def main():
        async with started(service):
            try:
                os.kill(os.getpid(), number)
                await asyncio.Event().wait()
            finally:
                os.kill(os.getpid(), number)
                await asyncio.sleep(0.01)
                service.events.append("ended")

    assert run(main()) is None
    assert service.events == ["start", "ended", "stop"]


def test_a_cancelled_program_raises_cancelled_error():
    async def main():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run(main())


def test_a_service_whose_start_fails_is_stopped():
    service = Service(fails=True)

    async def main():
        async with started(service):
            pass

    with pytest.raises(OSError, match="no"):
        asyncio.run(main())
    assert service.events == ["start", "stop"]


def test_a_loop_without_signal_handlers_gets_plain_ones():
    class WindowsLoop:
        def __init__(self):
            self.called = []

        def add_signal_handler(self, *_):
            raise NotImplementedError

        def call_soon_threadsafe(self, callback):
            self.called.append(callback)

    before = signal.getsignal(signal.SIGTERM)
    loop = WindowsLoop()
    try:
        _on_signal(loop, signal.SIGTERM, print)
        signal.raise_signal(signal.SIGTERM)
        assert loop.called == [print]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_loop_is_that_of_uvloop_where_it_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=asyncio.SelectorEventLoop))
    assert loop_factory() is asyncio.SelectorEventLoop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is None


@pytest.mark.parametrize(("uvloop", "native", "wanted", "line"), [
    (True, True, True, "event loop: uvloop; accelerator: rocketmq-py-native; Python 3.11.0"),
    (False, True, True,
     "event loop: asyncio (uvloop, extra [fast], is not installed); accelerator: rocketmq-py-native; Python 3.11.0"),
    (True, False, True,
     "event loop: uvloop; accelerator: none (rocketmq-py-native, extra [native], is not installed); Python 3.11.0"),
    (True, False, False,
     ("event loop: uvloop; accelerator: none (rocketmq-py-native, extra [native], is turned off by "
      f"{VARIABLE}=0); Python 3.11.0")),
])  # fmt: skip
def test_the_speedups_of_a_server_are_named(monkeypatch, uvloop, native, wanted, line):
    monkeypatch.setattr(runner, "loop_factory", lambda: print if uvloop else None)
    monkeypatch.setattr(runner, "installed", lambda: object() if native else None)
    monkeypatch.setattr(runner, "is_wanted", lambda _: wanted)
    monkeypatch.setattr(runner.platform, "python_version", lambda: "3.11.0")
    monkeypatch.setattr(runner.sysconfig, "get_config_var", lambda _: None)
    assert speedups() == line


@pytest.mark.parametrize(("options", "flag", "build"), [
    ("'--enable-optimizations' '--with-lto'", "-fprofile-use", ", an optimised build"),
    ("'--without-ensurepip'", "-fprofile-use", ", not an optimised build (--enable-optimizations)"),
    ("'--prefix=/usr'", "", ""),
    (None, None, ""),
])  # fmt: skip
def test_a_python_that_is_not_optimised_is_named(monkeypatch, options, flag, build):
    """Debian's Python is optimised without the option (third case); on Windows nothing is recorded."""
    found = {"CONFIG_ARGS": options, "PGO_PROF_USE_FLAG": flag}
    monkeypatch.setattr(runner.platform, "python_version", lambda: "3.12.1")
    monkeypatch.setattr(runner.sysconfig, "get_config_var", found.get)
    assert speedups().endswith(f"; Python 3.12.1{build}")


def test_running_out_of_files_is_told_with_the_raised_limit(monkeypatch, caplog):
    async def main():
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "accept failed", "exception": OSError(24, "too many open files")})

    monkeypatch.setattr(runner, "raise_limit", lambda: 4711)
    run(main())
    assert [message[:62] for message in caplog.messages] == [
        "no connection more can be taken: 4711 files are open, the limi"
    ]
