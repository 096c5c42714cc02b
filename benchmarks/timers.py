"""How late timed messages are delivered, at a steady rate and when very many are due in one second.

``python -m benchmarks.timers`` starts our server, sends ``--rate`` messages per second for ``--seconds``, each due some
seconds later, and prints how late they were stored in their topic; then it sends ``--burst`` messages that are all due
in one second and waits for them. The exit status is 1 if one is missing or early, or if the 99th percentile is above
200 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from benchmarks.servers import start_ours
from rocketmq_py import ConsumeFromWhere, LitePullConsumer, Message, Producer

WAIT_SECONDS = 120.0
_LIMIT_MS = 200
_AHEAD_MS = 3_000


@click.command()
@click.option("--rate", default=1_000, show_default=True, help="Messages due a second.")
@click.option("--seconds", default=20, show_default=True, help="For so long.")
@click.option("--burst", default=100_000, show_default=True, help="Messages due in one second.")
def main(rate: int, seconds: int, burst: int) -> None:
    """Measure the timers of a server of ours."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-timers-") as work:
        server = start_ours(Path(work))
        try:
            late = _steady(server.namesrv, rate, seconds)
            missing = _burst(server.namesrv, burst)
        finally:
            server.kill()
    if late > _LIMIT_MS or missing:
        sys.exit(1)


def _steady(namesrv: str, rate: int, seconds: int) -> float:
    total = rate * seconds
    with Producer("timers", namesrv) as producer:
        begin = time.time()
        sends = []
        for number in range(total):
            moment = begin + number / rate
            time.sleep(max(0.0, moment - time.time()))
            due = round(moment * 1000) + _AHEAD_MS
            sends.append(producer.send_async(Message("steady", str(due), deliver_at=due)))
        for sent in sends:
            sent.result()
    lates = sorted(stored - due for due, stored in _delivered(namesrv, "steady", total))
    if len(lates) < total or lates[0] < 0:
        sys.exit(f"{total - len(lates)} messages are missing, the earliest came {-lates[0] if lates else 0} ms early")
    p99 = lates[int(0.99 * (total - 1))]
    click.echo(f"{rate}/s for {seconds} s: p50 {lates[total // 2]} ms, p99 {p99} ms, at most {lates[-1]} ms late")
    return p99


def _burst(namesrv: str, count: int) -> int:
    due = (round(time.time()) + 20 + count // 5_000) * 1000
    with Producer("timers", namesrv, send_timeout=WAIT_SECONDS) as producer:
        producer.send(Message("burst", str(due), deliver_at=due))
        for begin in range(1, count, 1_000):
            sends = [
                producer.send_async(Message("burst", str(due + number % 1000), deliver_at=due + number % 1000))
                for number in range(begin, min(begin + 1_000, count))
            ]
            for sent in sends:
                sent.result()
    ready = due / 1000 - time.time()
    found = list(_delivered(namesrv, "burst", count))
    last = max((stored for _, stored in found), default=due) - due
    click.echo(f"{len(found)} of {count} due in one second, sent {ready:.1f} s before: the last came after {last} ms")
    return count - len(found)


def _delivered(namesrv: str, topic: str, count: int) -> Iterator[tuple[int, int]]:
    """Iterate over delivery time and store time (milliseconds) of ``count`` messages; fewer after ``WAIT_SECONDS``."""
    with LitePullConsumer(f"timers-{topic}", namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic)
        deadline = time.monotonic() + WAIT_SECONDS
        while count and time.monotonic() < deadline:
            for message in consumer.poll(1.0):
                count -= 1
                yield int(message.body), message.store_timestamp


if __name__ == "__main__":
    main()
