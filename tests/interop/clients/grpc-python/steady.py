"""Apache's Python client for gRPC under a broker that is killed: ``steady.py ENDPOINT PREFIX``.

Sends to ``PREFIX-normal`` and, in four message groups, to ``PREFIX-fifo`` until a line comes on standard input.
Consumes both until all acknowledged messages have come. A message that was not acknowledged is sent again before the
next one of its group. One JSON line for each acknowledged and for each received message, in this order.
"""

import json
import sys
import threading
import time

from rocketmq import ClientConfiguration, Credentials, Message, Producer, SimpleConsumer

ENDPOINT, PREFIX = sys.argv[1:]
GROUPS = 4
PATIENCE_SECONDS = 240
over = threading.Event()
lock = threading.Lock()
acknowledged, received = set(), set()


def say(step, body):
    with lock:
        (acknowledged if step == "sent" else received).add(body)
        print(json.dumps({"step": step, "body": body}), flush=True)


def configuration():
    return ClientConfiguration(ENDPOINT, Credentials(), request_timeout=5)


def started(make):
    """A client, as soon as the broker is there."""
    while True:
        try:
            client = make()
            client.startup()
            return client
        except Exception as e:  # noqa: BLE001 - the broker is away
            print("not started:", e, file=sys.stderr)
            time.sleep(0.5)


def sending(lane, producer, mode):
    number = 0
    while not over.is_set():
        message = Message()
        message.topic, message.body = f"{PREFIX}-{mode}", f"{mode} {lane} {number}".encode()
        if mode == "fifo":
            message.message_group = f"lane-{lane}"
        try:
            producer.send(message)
        except Exception as e:  # noqa: BLE001 - as above
            print("not sent:", e, file=sys.stderr)
            time.sleep(0.2)
            continue
        say("sent", message.body.decode())
        number += 1
        time.sleep(0.02)


def consuming(mode, is_complete):
    consumer = started(lambda: SimpleConsumer(configuration(), f"{PREFIX}-g-{mode}"))
    consumer.subscribe(f"{PREFIX}-{mode}")
    while not is_complete():
        try:
            for message in consumer.receive(16, 10) or []:
                say("got", message.body.decode())
                consumer.ack(message)
        except Exception as e:  # noqa: BLE001 - as above
            print("not received:", e, file=sys.stderr)
            time.sleep(0.2)
    consumer.shutdown()


def main():
    end = [0.0]

    def is_complete():
        if not over.is_set():
            return False
        end[0] = end[0] or time.monotonic() + PATIENCE_SECONDS
        with lock:
            return acknowledged <= received or time.monotonic() > end[0]

    producer = started(lambda: Producer(configuration(), [f"{PREFIX}-normal", f"{PREFIX}-fifo"]))
    threads = [threading.Thread(target=sending, args=(lane, producer, "fifo")) for lane in range(GROUPS)]
    threads += [threading.Thread(target=sending, args=(lane, producer, "normal")) for lane in range(2)]
    threads += [threading.Thread(target=consuming, args=(mode, is_complete)) for mode in ("normal", "fifo")]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    over.set()
    for thread in threads:
        thread.join()
    producer.shutdown()


if __name__ == "__main__":
    main()
