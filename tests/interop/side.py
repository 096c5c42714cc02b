"""The servers that a test runs against, and messages as either client shows them."""

from __future__ import annotations

import base64
import queue
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rocketmq_py import Admin
from rocketmq_py.model import MessageExt
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.interop.javapeer import PATIENCE_SECONDS, JavaPeer, Row
from tests.server.rawpeer import RawPeer

T = TypeVar("T")

WAIT_SECONDS = PATIENCE_SECONDS
"""How long a test waits for what must come, since no clock decides a test; as for Java's processes."""


@dataclass(frozen=True, slots=True)
class Side:
    """A name server and broker ``broker-a`` of ``DefaultCluster``."""

    name: str
    namesrv: str
    broker: str

    def topic(self, java: JavaPeer, queues: int = 4) -> str:
        """A new topic, made by mqadmin, that clients find."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        java.admin(
            "updateTopic", "-n", self.namesrv, "-b", self.broker, "-t", name, "-r", str(queues), "-w", str(queues)
        )
        self.await_route(name)
        return name

    def await_route(self, topic: str) -> None:
        """Until the name server knows the topic: a broker does not wait for it for long."""
        with RawPeer(self.namesrv) as peer:
            eventually(lambda: peer.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code, lambda code: code == 0)


def eventually(look: Callable[[], T], wanted: Callable[[T], object], seconds: float = WAIT_SECONDS) -> T:
    """Looks until it is as wanted; for states of a server that nobody announces."""
    deadline = time.monotonic() + seconds
    while not wanted(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    return seen


def await_readable(namesrv: str, topic: str, number: int) -> None:
    """Until a topic has this many messages in its queues: a Java broker answers a send before it writes the entry."""
    with Admin(namesrv) as admin:
        eventually(lambda: sum(map(admin.max_offset, admin.queues(topic))), lambda end: end >= number)


def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True)
class Seen:
    """A delivered message, comparable whichever client received it."""

    body: bytes
    queue: int
    offset: int
    msg_id: str
    tags: str | None
    keys: str | None
    reconsume_times: int
    topic: str
    properties: dict[str, str] = field(compare=False, hash=False)

    @classmethod
    def of_java(cls, row: Row) -> Seen:
        return cls(base64.b64decode(row["body"]), row["queueId"], row["queueOffset"], row["msgId"], row["tags"],
                   row["keys"], row["reconsumeTimes"], row["topic"], row["properties"])  # fmt: skip

    @classmethod
    def of_ours(cls, message: MessageExt) -> Seen:
        return cls(message.body, message.queue_id, message.queue_offset, message.msg_id, message.tags, message.keys,
                   message.reconsume_times, message.topic, dict(message.properties))  # fmt: skip


class Inbox:
    """Takes what listeners of our consumer receive, from any thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Seen] = queue.SimpleQueue()
        self.seen: list[Seen] = []

    def __call__(self, message: MessageExt) -> None:
        self._queue.put(Seen.of_ours(message))

    def wait(self, n: int) -> list[Seen]:
        """The first ``n`` messages, in the order of arrival."""
        self.until(lambda seen: len(seen) >= n)
        return self.seen

    def until(self, enough: Callable[[list[Seen]], Any], seconds: float = WAIT_SECONDS) -> list[Seen]:
        """Everything received, once it is enough."""
        deadline = time.monotonic() + seconds
        while not enough(self.seen):
            try:
                self.seen.append(self._queue.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"not enough within {seconds:.0f} s: {len(self.seen)} messages") from None
        return self.seen
