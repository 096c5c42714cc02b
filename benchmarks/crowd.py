"""Memory and CPU time of our server with thousands of idle connections and hundreds of waiting pulls.

``python -m benchmarks.crowd`` starts a server, connects, waits, answers all pulls at once by one message, and prints
memory and CPU time. The exit status is 1 if a pull was not answered.
"""

from __future__ import annotations

import selectors
import socket
import sys
import tempfile
import time
from pathlib import Path

import click

from benchmarks.control import connect
from benchmarks.machine import anonymous_mib, cpu_seconds
from benchmarks.servers import start_ours
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.offset import QueueHeader
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

WAIT_SECONDS = 60.0
_SEND = SendMessageV2(
    producer_group="crowd", topic="crowd", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
    born_timestamp=1, flag=0, properties="",
)  # fmt: skip


@click.command()
@click.option("--idle", default=5_000, show_default=True, help="Connections that say nothing.")
@click.option("--held", default=500, show_default=True, help="Pulls that wait for a message.")
@click.option("--rest", default=20.0, show_default=True, help="Seconds in which nothing happens.")
def main(idle: int, held: int, rest: float) -> None:
    """Measure a server of ours with many connections."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-crowd-") as work:
        server = start_ours(Path(work))
        try:
            _measure(server.broker, server.pid, idle, held, rest)
        finally:
            server.kill()


def _measure(broker: str, pid: int, idle: int, held: int, rest: float) -> None:
    _ask(broker, Command(RequestCode.SEND_MESSAGE_V2, ext=_SEND.to_ext(), body=b"first"))
    before = anonymous_mib(pid)
    begin, worked = time.monotonic(), cpu_seconds(pid)
    crowd = [connect(broker) for _ in range(idle)]
    took, work = time.monotonic() - begin, cpu_seconds(pid) - worked
    _tell(f"{idle} connections", took, work, anonymous_mib(pid) - before)
    before = anonymous_mib(pid)
    waiting = [_hold(broker, number) for number in range(held)]
    _ask(broker, Command(RequestCode.GET_MIN_OFFSET, ext=QueueHeader(topic="crowd", queue_id=0).to_ext()))
    click.echo(f"{held} held pulls: {anonymous_mib(pid) - before:.1f} MiB more")
    worked = cpu_seconds(pid)
    time.sleep(rest)
    work = cpu_seconds(pid) - worked
    click.echo(f"at rest for {rest:g} s: {work:.2f} s of CPU ({100 * work / rest:.1f} % of a core)")
    begin, worked = time.monotonic(), cpu_seconds(pid)
    _ask(broker, Command(RequestCode.SEND_MESSAGE_V2, ext=_SEND.to_ext(), body=b"for all"))
    answered = _answered(waiting)
    _tell(f"{answered} pulls answered", time.monotonic() - begin, cpu_seconds(pid) - worked, 0)
    for sock in (*crowd, *waiting):
        sock.close()
    if answered < held:
        sys.exit(f"{held - answered} pulls were not answered within {WAIT_SECONDS:g} s")


def _tell(what: str, took: float, work: float, mib: float) -> None:
    memory = f", {mib:.1f} MiB more" if mib else ""
    click.echo(f"{what}: {took:.2f} s, {work:.2f} s of CPU{memory}")


def _hold(broker: str, number: int) -> socket.socket:
    sock = connect(broker)
    header = PullMessage(
        consumer_group=f"crowd-{number}", topic="crowd", queue_id=0, queue_offset=1, max_msg_nums=32, sys_flag=6,
        commit_offset=0, suspend_timeout_millis=600_000, sub_version=0, subscription="*",
    )  # fmt: skip
    sock.sendall(encode_command(Command(RequestCode.PULL_MESSAGE, ext=header.to_ext())))
    return sock


def _ask(broker: str, command: Command) -> None:
    with connect(broker) as sock:
        sock.sendall(encode_command(command))
        (answer,) = map(decode_command, FrameDecoder().feed(sock.recv(1 << 16)))
        if answer.code:
            sys.exit(f"{broker} answered {answer.code}: {answer.remark}")


def _answered(waiting: list[socket.socket]) -> int:
    """Wait for the answers to pulls; return how many had the message."""
    selector = selectors.DefaultSelector()
    for sock in waiting:
        selector.register(sock, selectors.EVENT_READ)
    deadline, answered = time.monotonic() + WAIT_SECONDS, 0
    while selector.get_map() and time.monotonic() < deadline:
        for key, _ in selector.select(1.0):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            (answer,) = map(decode_command, FrameDecoder().feed(sock.recv(1 << 16)))
            answered += b"for all" in answer.body
            selector.unregister(sock)
    return answered


if __name__ == "__main__":
    main()
