"""Blocking consumers without a second thread: their event loop runs in the calling thread while a call waits."""

import asyncio
from concurrent.futures import Future

from rocketmq_py.client import blocking_instance, facade
from rocketmq_py.client.consumer import blocking_member


class OneThread:
    """Stands for the portal, so that timers take no time and nothing happens between two calls."""

    def __init__(self):
        self._runner = asyncio.Runner()

    def run(self, coroutine, timeout=None):
        return self._runner.run(coroutine)

    def call(self, function, *arguments):
        async def called():
            return function(*arguments)

        return self.run(called())

    def submit(self, coroutine):
        """Starts a coroutine; its future runs the loop until there is a result."""
        task = self._runner.get_loop().create_task(coroutine)
        waiting = Future()
        waiting.result = lambda timeout=None: self.run(asyncio.wait_for(task, timeout))
        return waiting

    def wait(self, seconds):
        self.run(asyncio.sleep(seconds))

    def replace(self, monkeypatch):
        """Makes blocking clients use this portal until the end of the test."""
        for module in (facade, blocking_instance, blocking_member):
            monkeypatch.setattr(module, "portal", lambda: self)
        return self

    def close(self):
        self._runner.close()


def on(instance):
    """A blocking client instance on an asyncio one, which a test has made with a scripted network."""
    made = blocking_instance.ClientInstance.__new__(blocking_instance.ClientInstance)
    made._portal, made._aio = facade.portal(), instance
    return made
