"""Push consumers in POP mode with scripted brokers and recording listeners."""

import pytest

from rocketmq_py.client.consumer.push import pop_strategy
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.core.consumer import flow_control, rebalance
from rocketmq_py.model import ConsumeResult
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import GROUP, RETRY, TOPIC, PopBrokers

POP = [("b", -1, "POP")]
PULL = [("b", 0, "PULL")]
POP_RETRY = f"{RETRY}_{TOPIC}"


def hurry(monkeypatch: pytest.MonkeyPatch):
    """What takes a second takes a millisecond."""
    monkeypatch.setattr(rebalance, "WAIT_UNBALANCED", 0.001)
    monkeypatch.setattr(flow_control, "STATE_DELAY", 0.001)
    monkeypatch.setattr(pop_strategy, "ACK_AGAIN", 0.001)


class Listener:
    """Takes messages and remembers them; ``fails`` says of a message what to return for it."""

    def __init__(self, fails=lambda message: None):
        self.seen = []
        self.fails = fails

    async def __call__(self, message):
        self.seen.append(message.queue_offset)
        return self.fails(message)


def consumer(brokers: PopBrokers, listener, assigned=POP, **options):
    brokers.assigned = {TOPIC: assigned, RETRY: []}
    brokers.topics.add(RETRY)
    options = {"pull_delay_after_error": 0.001, "first_pull_delay": 0.001, **options}
    made = PushConsumer(GROUP, instance=brokers.instance, client_rebalance=False, **options)
    made.subscribe(TOPIC, listener=listener)
    return made


def later(message):
    return ConsumeResult.RECONSUME_LATER


def pops(brokers):
    return brokers.asked(Code.POP_MESSAGE)


def dead_letters(brokers):
    return [request for _, request in brokers.network.sent() if request.ext["b"] == RETRY]


def take_sends(brokers):
    brokers.special[Code.SEND_MESSAGE_V2] = lambda request: Command(
        0, ext={"msgId": "OFF", "queueId": "0", "queueOffset": "5"}
    )
