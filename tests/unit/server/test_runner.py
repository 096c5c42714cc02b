"""Running a program: its result, its orderly end on a signal, services that are always stopped."""

import asyncio
import os
import signal

import pytest

from rocketmq_py.server import run
from rocketmq_py.server.runner import _on_signal, started


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
