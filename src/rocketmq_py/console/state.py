"""What all pages share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.checkpoints import Checkpoints
from rocketmq_py.console.connection import Answer, Connection
from rocketmq_py.console.figures import Figures
from rocketmq_py.console.history import History
from rocketmq_py.console.masks import Masks
from rocketmq_py.console.security import Audit, Tokens
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError

T = TypeVar("T")


@dataclass(frozen=True)
class Console:
    """What all pages share.

    :ivar read_only: nothing can be changed.
    :ivar who: the access key of who is logged in; None without a login.
    :ivar name: the name of the cluster, and ``clusters`` those of all that this console shows; empty for only one.
    :ivar checkpoints: those of streaming queries, if the operator named some.
    :ivar masks: what of bodies pages may show.
    :ivar now: returns the time in milliseconds since the epoch.
    """

    connection: Connection
    read_only: bool = False
    who: str | None = None
    name: str = ""
    clusters: tuple[str, ...] = ()
    tokens: Tokens = field(default_factory=Tokens)
    audit: Audit = field(default_factory=Audit)
    figures: Figures = field(default_factory=Figures)
    checkpoints: Checkpoints | None = None
    masks: Masks = field(default_factory=Masks)
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    history: History = field(init=False)
    """Samples over time; a session has its own, because its user may not see everything."""

    def __post_init__(self) -> None:
        self.audit.on_record = self.figures.changed
        object.__setattr__(self, "history", History(self.connection, self.now, time.monotonic))

    async def close(self) -> None:
        """Take no more samples, and close the connections."""
        await self.history.close()
        await self.connection.close()

    async def topics(self) -> list[str]:
        """The names of all topics; may be some seconds old."""
        found: list[str] = (await self.connection.shared("topics", lambda admin: admin.topics())).value
        return found

    async def system_topics(self) -> list[str]:
        """The names of the brokers' internal topics; may be some seconds old."""
        return (await self.connection.shared("system topics", lambda admin: admin.system_topics())).value  # type: ignore[no-any-return]

    async def topic_configs(self) -> Answer:
        """The configurations of all topics; may be some seconds old."""
        return await self.connection.shared("topic configs", lambda admin: admin.topic_configs())

    async def groups(self) -> Answer:
        """The configurations of all groups; may be some seconds old."""
        return await self.connection.shared("groups", lambda admin: admin.groups())

    async def all_progress(self) -> Answer:
        """The progress of all groups; may be some seconds old."""
        return await self.connection.shared("progress", lambda admin: admin.all_progress())


async def or_unknown(answer: Awaitable[T]) -> T | None:
    """Await an answer; None if nobody gives it."""
    try:
        return await answer
    except (NetworkError, BrokerError, NoRouteError):
        return None


def silent_brokers(*admins: Admin, answers: Collection[Answer] = ()) -> list[dict[str, str]]:
    """Return the brokers that did not answer, with the reason, for the page to say what it lacks."""
    found = {name: str(error) for admin in admins for name, error in admin.silent.items()}
    found |= {name: str(error) for answer in answers for name, error in answer.silent.items()}
    return [{"broker": name, "error": error} for name, error in sorted(found.items())]
