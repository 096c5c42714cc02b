"""The name servers of a client: reads their addresses from options or a URL, and sends requests to one of them."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from rocketmq_py.core.address import parse_address
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.remoting.single_flight import SingleFlight
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

NAMESRV_VARIABLE = "NAMESRV_ADDR"
FETCH_INTERVAL_SECONDS = 120.0
"""Seconds between fetches of the addresses from a URL, as in Java."""
_FETCH_SECONDS = 3.0
_MAX_RESPONSE_BYTES = 64 * 1024


def name_servers(namesrv: str | Sequence[str] | None) -> list[str]:
    """Parse the option ``namesrv``.

    :param namesrv: ``"host:9876;other:9876"`` (or with commas), a sequence, or None for the environment's NAMESRV_ADDR.
        An address may begin with ``http://``, as in Alibaba Cloud's consoles and Go clients. Or a URL with a path, from
        which the addresses are fetched: ``http://host:8080/rocketmq/nsaddr``.
    :returns: a list of addresses ``host:port``, or of one URL.
    :raises ConfigError: no address is given, or one is illegal.
    """
    given = os.environ.get(NAMESRV_VARIABLE, "") if namesrv is None else namesrv
    found = _entries(given)
    if not found:
        raise ConfigError(
            f"no name server is given: pass namesrv='host:9876' (several separated by ';') or set {NAMESRV_VARIABLE}"
        )
    if any(map(is_url, found)):
        if len(found) > 1:
            raise ConfigError(f"namesrv={given!r}: give either one URL to fetch addresses from, or addresses")
        return found
    for address in found:
        parse_address(address)
    return found


def name_server_addresses(namesrv: str | Sequence[str] | None) -> list[str]:
    """Parse the option ``namesrv`` as :func:`name_servers`, and fetch the addresses if it is a URL; blocks the thread.

    :raises ConfigError: no address is given, or one is illegal.
    :raises NetworkError: the addresses cannot be fetched.
    """
    found = name_servers(namesrv)
    return _fetched(found[0]) if is_url(found[0]) else found


def _fetched(url: str) -> list[str]:
    """Fetch the addresses that a URL names; blocks the thread.

    :raises NetworkError: it cannot be read, or what it names are no addresses.
    """
    try:
        found = name_servers(_get(url).replace("\n", ";"))
    except (OSError, ValueError) as e:  # ValueError: not text, no address
        raise NetworkError(f"the addresses of name servers cannot be fetched from {url}: {e}") from e
    if any(map(is_url, found)):
        raise NetworkError(f"the addresses of name servers cannot be fetched from {url}: it names another URL")
    return found


def _entries(given: str | Sequence[str]) -> list[str]:
    entries = given.replace(",", ";").split(";") if isinstance(given, str) else list(given)
    return [_without_scheme(entry.strip()) for entry in entries if entry.strip()]


def is_url(entry: str) -> bool:
    """True for an http or https URL, from which addresses are fetched."""
    return entry.lower().startswith(("http://", "https://"))


def _without_scheme(entry: str) -> str:
    """Return ``host:port`` for ``http://host:port``; return any other entry unchanged."""
    if is_url(entry):
        parts = urlsplit(entry)
        if parts.scheme.lower() == "http" and parts.path in ("", "/") and not parts.query:
            return parts.netloc
    return entry


class NameServers:
    """Sends requests to one of several name servers: at first a random one, after a failure the next one.

    :param entries: addresses ``host:port``, or one URL: see :func:`name_servers`.
    :param timeout: seconds to wait for the answer of each name server.
    :param unit_name: the unit whose addresses are fetched; it is added to the URL, as in Java.
    """

    def __init__(
        self, entries: Sequence[str], connections: ConnectionPool, timeout: float = 3.0, unit_name: str | None = None
    ) -> None:
        self.url = _unit_url(entries[0], unit_name) if is_url(entries[0]) else None
        """The URL that addresses are fetched from; None if the addresses were given."""
        self.addresses = [] if self.url else list(entries)
        self.timeout = timeout
        self._connections = connections
        self._fetching: SingleFlight[str, list[str]] = SingleFlight(self._fetch)
        self._current = random.randrange(len(self.addresses)) if self.addresses else 0

    async def invoke(
        self, code: int, header: Header | None = None, body: bytes = b"", *, check: bool = True
    ) -> Command:
        """Send a request to the current name server, or to the next ones if it does not answer; returns the answer.

        :param check: False returns answers of any response code.
        :raises BrokerError: with ``check``, the name server answered with another code than success.
        :raises NetworkError: no name server answers; the message has the error of each.
        """
        failures: list[NetworkError] = []
        for number in await self._order():
            try:
                return await self._ask(number, code, header, body, check=check)
            except NetworkError as e:
                failures.append(e)
        raise _none_answers(failures)

    async def invoke_any(self, code: int, header: Header | None = None) -> Command:
        """Send a request to one name server after the other until one answers with success; returns this answer.

        A name server that has just started refuses requests for topics whose brokers have not registered yet.

        :raises BrokerError: no name server answers with success; the error of the first answer.
        :raises NetworkError: no name server answers.
        """
        refusal: BrokerError | None = None
        failures: list[NetworkError] = []
        for number in await self._order():
            try:
                return await self._ask(number, code, header, b"", check=True)
            except BrokerError as e:
                refusal = refusal or e
                self._pass_over(number)
            except NetworkError as e:
                failures.append(e)
        raise refusal or _none_answers(failures)

    async def refresh(self) -> None:
        """Fetch the addresses from the URL again; do nothing if there is no URL.

        :raises NetworkError: the addresses cannot be fetched; the old ones stay in use.
        """
        if self.url is not None:
            await self._fetching.get(self.url)

    async def _order(self) -> list[int]:
        """Return the indexes of all addresses in the order to try them: first that of the name server in use.

        Fetches the addresses if there are none.
        """
        if not self.addresses:
            await self.refresh()
        return [*range(self._current, len(self.addresses)), *range(self._current)]

    async def _fetch(self, url: str) -> list[str]:
        found = await asyncio.to_thread(_fetched, url)
        if found != self.addresses:
            _log.info("name servers fetched from %s: %s", url, ";".join(found))
            self.addresses = found
            self._current = random.randrange(len(found))
        return found

    async def _ask(self, number: int, code: int, header: Header | None, body: bytes, *, check: bool) -> Command:
        """Send a request to the name server with index ``number``; returns the answer.

        :raises BrokerError: with ``check``, it answered with another code than success.
        :raises NetworkError: it does not answer, or is shutting down.
        """
        if number >= len(self.addresses):
            raise NetworkError("the list of name servers has changed")
        address = self.addresses[number]
        try:
            answer = await self._connections.invoke(address, code, header, body, self.timeout, check=False)
        except NetworkError:
            self._connections.drop(address)
            self._pass_over(number)
            raise
        if answer.code == ResponseCode.GO_AWAY:
            self._pass_over(number)
            raise NetworkError(f"{address} is shutting down")
        self._current = number
        if check and answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address)
        return answer

    def _pass_over(self, number: int) -> None:
        """Make the next name server the current one, unless another request has already changed it."""
        if self._current == number:
            self._current = (number + 1) % len(self.addresses)

    def __str__(self) -> str:
        return ";".join(self.addresses) or str(self.url)


def _unit_url(url: str, unit_name: str | None) -> str:
    """The URL of a unit's addresses, as in Java's DefaultTopAddressing; ``url`` itself without a unit name."""
    return f"{url}-{unit_name}?nofix=1" if unit_name else url


def _get(url: str) -> str:
    """Fetch the text at a URL; blocks the thread.

    :raises OSError: the URL cannot be read.
    :raises ValueError: the response is too long, or not UTF-8 text.
    """
    with urllib.request.urlopen(url, timeout=_FETCH_SECONDS) as response:  # noqa: S310 - http and https only: is_url
        body: bytes = response.read(_MAX_RESPONSE_BYTES + 1)
    if len(body) > _MAX_RESPONSE_BYTES:
        raise ValueError(f"the response is longer than {_MAX_RESPONSE_BYTES} bytes")
    return body.decode()


def _none_answers(failures: Sequence[NetworkError]) -> NetworkError:
    if len(failures) == 1:
        return failures[0]
    causes = "; ".join(map(str, failures))
    error = NetworkError(f"none of {len(failures)} name servers answers: {causes}")
    error.__cause__ = failures[-1] if failures else None
    return error
