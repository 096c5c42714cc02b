"""Every mode of Apache's Python client for gRPC, against one endpoint: ``probe.py ENDPOINT PREFIX tls|plain [ak sk]``.

Topics and groups exist: ``PREFIX-MODE`` of the mode's type, and groups ``PREFIX-g-MODE``. One JSON line for each step.
"""

import json
import sys
import threading
import time
import traceback

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

ENDPOINT, PREFIX, TLS = sys.argv[1], sys.argv[2], sys.argv[3] == "tls"
KEYS = sys.argv[4:6]
CONFIGURATION = ClientConfiguration(ENDPOINT, Credentials(*KEYS), request_timeout=10)
SECONDS = 60


def topic_of(mode):
    return f"{PREFIX}-{mode}"


def group_of(mode):
    return f"{PREFIX}-g-{mode}"


def new_message(mode, body, tag=None, key=None, group=None, **properties):
    message = Message()
    message.topic = topic_of(mode)
    message.body = body.encode()
    if tag:
        message.tag = tag
    if key:
        message.keys = key
    if group:
        message.message_group = group
    for name, value in properties.items():
        message.add_property(name, value)
    return message


def receive_all(consumer, count, invisible=15, ack=True, seconds=SECONDS):
    found, end = [], time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        messages = consumer.receive(16, invisible) or []
        for message in messages:
            found.append(message)
            if ack:
                consumer.ack(message)
    return found


def simple(mode, expression=None):
    consumer = SimpleConsumer(
        CONFIGURATION, group_of(mode), {topic_of(mode): expression or FilterExpression()}, 5, tls_enable=TLS
    )
    consumer.startup()
    return consumer


def seen(messages):
    return sorted(m.body.decode() for m in messages)


def normal(producer):
    sent = [producer.send(new_message("normal", f"n{i}", "A", f"k{i}", own=str(i))) for i in range(10)]
    assert len({r.message_id for r in sent}) == 10, sent
    consumer = simple("normal")
    got = receive_all(consumer, 10)
    assert seen(got) == sorted(f"n{i}" for i in range(10)), seen(got)
    first = min(got, key=lambda m: m.body)
    assert (first.tag, list(first.keys), first.properties.get("own")) == ("A", ["k0"], "0"), first
    assert first.delivery_attempt == 1, first.delivery_attempt
    assert {m.message_id for m in got} == {r.message_id for r in sent}
    assert not any(m.corrupted for m in got)
    big = new_message("normal", "b" * 3_000_000)
    producer.send(big)
    [huge] = receive_all(consumer, 1)
    assert len(huge.body) == 3_000_000
    consumer.shutdown()


def tag(producer):
    for i in range(9):
        producer.send(new_message("tag", f"t{i}", "ABC"[i % 3]))
    consumer = simple("tag", FilterExpression("A || C"))
    got = receive_all(consumer, 6)
    assert seen(got) == ["t0", "t2", "t3", "t5", "t6", "t8"], seen(got)
    consumer.shutdown()


def sql(producer):
    from rocketmq.grpc_protocol import FilterType

    for i in range(6):
        producer.send(new_message("sql", f"s{i}", a=str(i)))
    consumer = simple("sql", FilterExpression("a > 3", FilterType.SQL))
    got = receive_all(consumer, 2)
    assert seen(got) == ["s4", "s5"], seen(got)
    consumer.shutdown()


def delay(producer):
    consumer = simple("delay")
    message = new_message("delay", "late")
    message.delivery_timestamp = int(time.time()) + 3
    due = message.delivery_timestamp
    producer.send(message)
    [got] = receive_all(consumer, 1)
    assert time.time() >= due - 0.1, (time.time(), due)
    assert got.body == b"late"
    recalled = new_message("delay", "never")
    recalled.delivery_timestamp = int(time.time()) + 4
    receipt = producer.send(recalled)
    assert receipt.recall_handle, receipt
    producer.recall_message(topic_of("delay"), receipt.recall_handle)
    assert receive_all(consumer, 1, seconds=8) == []
    consumer.shutdown()


def redelivery(producer):
    producer.send(new_message("redelivery", "again"))
    consumer = simple("redelivery")
    [first] = receive_all(consumer, 1, ack=False)
    assert first.delivery_attempt == 1
    consumer.change_invisible_duration(first, 10)
    [second] = receive_all(consumer, 1, ack=True)
    assert (second.body, second.delivery_attempt, second.message_id) == (b"again", 2, first.message_id), second
    assert receive_all(consumer, 1, seconds=6) == []
    consumer.shutdown()


class Inbox(MessageListener):
    def __init__(self, judge=lambda message: ConsumeResult.SUCCESS):
        self.messages = []
        self.changed = threading.Condition()
        self.judge = judge

    def consume(self, message):
        with self.changed:
            self.messages.append((message.body.decode(), message.delivery_attempt, time.monotonic()))
            self.changed.notify_all()
        return self.judge(message)

    def wait(self, wanted, seconds=SECONDS):
        with self.changed:
            assert self.changed.wait_for(lambda: wanted(self.messages), seconds), self.messages


def push(producer):
    inbox = Inbox(
        lambda m: ConsumeResult.FAILURE if m.body == b"p3" and m.delivery_attempt == 1 else ConsumeResult.SUCCESS
    )
    consumer = PushConsumer(
        CONFIGURATION, group_of("push"), inbox, {topic_of("push"): FilterExpression()}, tls_enable=TLS
    )
    consumer.startup()
    for i in range(10):
        producer.send(new_message("push", f"p{i}"))
    inbox.wait(lambda got: {body for body, _, _ in got} == {f"p{i}" for i in range(10)})
    inbox.wait(lambda got: ("p3", 2) in [one[:2] for one in got])
    assert len(inbox.messages) == 11, inbox.messages
    consumer.shutdown()


def fifo(producer):
    inbox = Inbox()
    consumer = PushConsumer(
        CONFIGURATION, group_of("fifo"), inbox, {topic_of("fifo"): FilterExpression()}, tls_enable=TLS
    )
    consumer.startup()
    for i in range(12):
        producer.send(new_message("fifo", f"f{i % 3}-{i:02}", group=f"group-{i % 3}"))
    inbox.wait(lambda got: len(got) >= 12)
    for one in range(3):
        bodies = [body for body, _, _ in inbox.messages if body.startswith(f"f{one}")]
        assert bodies == sorted(bodies), inbox.messages
    consumer.shutdown()


def dead(producer):
    """The group retries once at most."""
    inbox = Inbox(lambda message: ConsumeResult.FAILURE)
    consumer = PushConsumer(
        CONFIGURATION, group_of("dead"), inbox, {topic_of("dead"): FilterExpression()}, tls_enable=TLS
    )
    consumer.startup()
    producer.send(new_message("dead", "bad"))
    inbox.wait(lambda got: len(got) >= 2)
    print(json.dumps({"attempts": [one[1] for one in inbox.messages]}), flush=True)
    time.sleep(20)  # the dead letter is what the test looks for; nothing here can be awaited
    consumer.shutdown()


class Checker(TransactionChecker):
    def __init__(self):
        self.asked = []

    def check(self, message):
        self.asked.append(message.body)
        return TransactionResolution.COMMIT if message.body == b"orphan-commit" else TransactionResolution.ROLLBACK


def transaction(_):
    checker = Checker()
    producer = Producer(CONFIGURATION, [topic_of("transaction")], checker, TLS)
    producer.startup()
    consumer = simple("transaction")
    for body, action in (("yes", "commit"), ("no", "rollback"), ("orphan-commit", None), ("orphan-rollback", None)):
        one = producer.begin_transaction()
        producer.send(new_message("transaction", body), one)
        if action:
            getattr(one, action)()
    got = receive_all(consumer, 2)
    assert seen(got) == ["orphan-commit", "yes"], seen(got)
    end = time.monotonic() + SECONDS
    while b"orphan-rollback" not in checker.asked and time.monotonic() < end:
        time.sleep(0.2)
    assert b"orphan-rollback" in checker.asked, checker.asked
    late = seen(receive_all(consumer, 1, seconds=6))
    assert late in ([], ["orphan-commit"]), late  # a busy broker asks twice, and two commits are two messages
    consumer.shutdown()
    producer.shutdown()


def main():
    modes = [normal, tag, sql, delay, redelivery, push, fifo, transaction, dead]
    producer = Producer(CONFIGURATION, [topic_of("normal")], tls_enable=TLS)
    producer.startup()
    wanted = sys.argv[6].split(",") if len(sys.argv) > 6 else [mode.__name__ for mode in modes]
    failed = False
    for mode in modes:
        if mode.__name__ not in wanted:
            continue
        try:
            mode(producer)
            print(json.dumps({"mode": mode.__name__, "ok": True}), flush=True)
        except Exception:  # noqa: BLE001 - the next mode is tried
            failed = True
            print(json.dumps({"mode": mode.__name__, "ok": False, "why": traceback.format_exc()}), flush=True)
    producer.shutdown()
    sys.stdout.flush()
    import os

    os._exit(failed)  # threads of the client that do not end


if __name__ == "__main__":
    main()
