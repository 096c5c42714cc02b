"""Login with an access key of the cluster: proof by a broker, sessions, and a growing delay after failures."""

from __future__ import annotations

import dataclasses
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketmq_py.console.connection import Connection
from rocketmq_py.console.security import Refused, new_cookie
from rocketmq_py.errors import BrokerError, NetworkError, PermissionDenied
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.wire.signing import Credentials

if TYPE_CHECKING:
    from rocketmq_py.console.state import Console

IDLE_SECONDS = 30 * 60
LONGEST_SECONDS = 12 * 3600
MOST_SESSIONS = 256
"""Number of sessions at a time; a further login ends the one that was idle for the longest."""

FREE_FAILURES = 5
MOST_DELAY = 300
_FORGET_SECONDS = 3600
_MOST_WATCHED = 4096


class Throttle:
    """Delays logins after failures: none for the first ``FREE_FAILURES``, then 1, 2, 4 … ``MOST_DELAY`` seconds.

    :param clock: monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, *who: str) -> None:
        """Refuse an attempt that comes too early, and count it as failed until :meth:`succeeded`.

        An attempt counts from its start: otherwise many at a time would all be free.

        :param who: the names under which failures are counted.
        :raises Refused: somebody must wait.
        """
        now = self._clock()
        wait = max(self._wait(name, now) for name in who)
        if wait > 0:
            raise Refused(429, f"too many failed logins: try again in {int(wait) + 1} seconds")
        for name in who:
            count, _ = self._known(name, now)
            self._failures[name] = (count + 1, now)
            self._failures.move_to_end(name)
        while len(self._failures) > _MOST_WATCHED:
            self._failures.popitem(last=False)

    def succeeded(self, *who: str) -> None:
        """Forget the failures of somebody who logged in."""
        for name in who:
            self._failures.pop(name, None)

    def _known(self, name: str, now: float) -> tuple[int, float]:
        count, last = self._failures.get(name, (0, now))
        return (count, last) if now - last < _FORGET_SECONDS else (0, now)

    def _wait(self, name: str, now: float) -> float:
        count, last = self._known(name, now)
        return last + min(2 ** min(count - FREE_FAILURES, 10), MOST_DELAY) - now if count >= FREE_FAILURES else 0.0


@dataclass
class Session:
    """Somebody who is logged in; their pages ask the cluster with their own access key.

    :ivar console: what their pages share.
    :ivar began: when they logged in, in seconds of the clock.
    :ivar seen: when they were seen last.
    """

    console: Console
    began: float
    seen: float


class Sessions:
    """Who is logged in. The secret keys are in memory only, in the connections of the sessions.

    :param connect: opens a connection that signs with the given credentials.
    :param clock: monotonic clock, in seconds.
    """

    def __init__(self, connect: Callable[[Credentials], Connection], clock: Callable[[], float]) -> None:
        self._connect = connect
        self._clock = clock
        self._throttle = Throttle(clock)
        self._open: OrderedDict[str, Session] = OrderedDict()
        """By cookie; the one that was idle for the longest is first."""
        self.others: list[Sessions] = []
        """Sessions with the other clusters of the console; a browser has one cookie for all."""

    async def login(self, console: Console, address: str, access_key: str, secret_key: str) -> str:
        """Start a session for an access key that the cluster accepts; returns its cookie.

        :param address: where the browser is.
        :raises Refused: the cluster refuses the key, does not check keys at all, or there were too many failures.
        """
        if not access_key or not secret_key:
            raise Refused(401, "give an access key and its secret key")
        who = (f"key {access_key}", f"address {address}")
        self._throttle.check(*who)
        await self._prove(Credentials(access_key, secret_key), Credentials(access_key, secrets.token_urlsafe(24)))
        self._throttle.succeeded(*who)
        await self._make_room()
        cookie, now = new_cookie(), self._clock()
        connection = self._connect(Credentials(access_key, secret_key))
        self._open[cookie] = Session(dataclasses.replace(console, connection=connection, who=access_key), now, now)
        return cookie

    async def _prove(self, given: Credentials, wrong: Credentials) -> None:
        """Check that the cluster accepts a key, and that it does not accept the same name with another secret."""
        if await self._accepts(wrong):
            raise Refused(403, "this cluster does not check access keys: nobody can log in with one")
        if not await self._accepts(given):
            raise Refused(401, "the cluster does not accept this access key with this secret key")

    async def _accepts(self, credentials: Credentials) -> bool:
        connection = self._connect(credentials)
        try:
            return await is_accepted(connection)
        finally:
            await connection.close()

    async def find(self, cookie: str | None) -> Console | None:
        """Return what the pages of a session share; None if there is no such session, or no longer."""
        await self._end_old()
        session = self._open.get(cookie or "")
        if session is None:
            return None
        session.seen = self._clock()
        self._open.move_to_end(cookie or "")
        return session.console

    async def logout(self, cookie: str | None) -> None:
        """End a session."""
        session = self._open.pop(cookie or "", None)
        if session is not None:
            await session.console.close()

    async def replace(self, old: str | None, new: str) -> None:
        """End the session of a browser's old cookie; its sessions with other clusters go on under the new one."""
        await self.logout(old)
        for other in self.others:
            other.rename(old, new)

    def rename(self, old: str | None, new: str) -> None:
        """Keep the session of a browser's old cookie under its new one."""
        session = self._open.pop(old or "", None)
        if session is not None:
            self._open[new] = session

    async def logout_everywhere(self, cookie: str | None) -> None:
        """End the sessions of a browser with all clusters."""
        for sessions in (self, *self.others):
            await sessions.logout(cookie)

    async def close(self) -> None:
        """End all sessions."""
        for cookie in list(self._open):
            await self.logout(cookie)

    async def _end_old(self) -> None:
        now = self._clock()
        for cookie, session in list(self._open.items()):
            if now - session.seen > IDLE_SECONDS or now - session.began > LONGEST_SECONDS:
                await self.logout(cookie)

    async def _make_room(self) -> None:
        await self._end_old()
        while len(self._open) >= MOST_SESSIONS:
            await self.logout(next(iter(self._open)))


async def is_accepted(connection: Connection) -> bool:
    """Return True if a broker accepts the signature of a connection.

    A heartbeat without groups needs no permission, so that only the signature decides.

    :raises RocketMQError: no broker answers.
    """
    try:
        info = await connection.admin().cluster()
    except PermissionDenied:
        return False
    lost: NetworkError | None = None
    for data in info.broker_addr_table.values():
        for _, address in sorted(data.broker_addrs.items()):
            try:
                await connection.invoke(address, RequestCode.HEART_BEAT, HeartbeatData(client_id="console").encode())
            except PermissionDenied:
                return False
            except NetworkError as e:
                lost = e
                continue
            return True
    raise lost or BrokerError.of(1, "no broker is registered that could check the access key", connection.namesrv)
