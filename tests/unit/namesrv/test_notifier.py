"""Who is told of a smallest id, with what, and what happens if nobody is there."""

import asyncio
import logging

import pytest

from rocketmq_py.errors import ConnectError
from rocketmq_py.namesrv import notifier as notifier_module
from rocketmq_py.namesrv.notifier import Notifier
from rocketmq_py.namesrv.registry import MinIdChanged

CHANGE = MinIdChanged("broker-a", 1, "h:1", ("h:1", "h:2"), "h:0", "ha:1")


class Outward:
    """Notes what is sent; ``unreachable`` addresses refuse, ``held`` ones never answer."""

    def __init__(self, tls):
        self.tls = tls
        self.sent = []
        self.unreachable = set()
        self.held = set()
        self.closed = 0

    async def oneway(self, address, command, seconds):
        if address in self.held:
            await asyncio.Event().wait()
        if address in self.unreachable:
            raise ConnectError(f"{address} refused")
        self.sent.append((address, command.code, dict(command.ext), seconds))

    def close(self):
        self.closed += 1


@pytest.fixture
def outward(monkeypatch):
    made = []

    def make(tls):
        made.append(Outward(tls))
        return made[0]

    monkeypatch.setattr(notifier_module, "RpcClient", make)
    return made


def told(outward, change, *, unreachable=(), held=()):
    """What is sent of a change within a second, and the client."""

    async def test():
        notifier = Notifier("the context")
        [client] = outward
        client.unreachable, client.held = set(unreachable), set(held)
        notifier.notify(change)
        await asyncio.sleep(1)
        await notifier.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return client

    return asyncio.run(test())


def test_every_broker_is_told_with_java_s_fields(outward):
    client = told(outward, CHANGE)
    fields = {
        "minBrokerId": "1", "brokerName": "broker-a", "minBrokerAddr": "h:1", "offlineBrokerAddr": "h:0",
        "haBrokerAddr": "ha:1",
    }  # fmt: skip
    assert client.sent == [("h:1", 905, fields, 3.0), ("h:2", 905, fields, 3.0)]
    assert (client.tls, client.closed) == ("the context", 1)


def test_what_is_not_known_is_not_sent(outward):
    [(_, _, fields, _)] = told(outward, MinIdChanged("b", 0, "h:1", ("h:1",))).sent
    assert fields == {"minBrokerId": "0", "brokerName": "b", "minBrokerAddr": "h:1"}


def test_a_broker_that_cannot_be_reached_is_logged_and_the_others_are_told(outward, caplog):
    client = told(outward, CHANGE, unreachable=["h:1"])
    assert [address for address, *_ in client.sent] == ["h:2"]
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "broker at h:1 could not be notified of the smallest id: h:1 refused"
    ]  # fmt: skip


def test_a_notification_that_hangs_does_not_keep_it_open(outward):
    assert [address for address, *_ in told(outward, CHANGE, held=["h:2"]).sent] == ["h:1"]
