"""What protects the console: checks of Host, origin and token, sizes of requests, headers of answers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rocketmq_py.console.roles import Roles
from rocketmq_py.errors import ConfigError

_audit_log = logging.getLogger("rocketmq_py.console.audit")

MOST_BODY_BYTES = 512 * 1024
MOST_QUERY_BYTES = 16 * 1024
MOST_FIELDS = 4_096
FORM_SECONDS = 30.0
"""A form must have arrived within this time."""

COOKIE = "rocketmq_console"
TOKEN_FIELD = "csrf"  # noqa: S105 - the name of a form field
_COOKIE_DIGITS = 43
_MOST_NAME = 255

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every answer."""


class Refused(ConfigError):
    """A request that the console refuses; ``status`` is the HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def is_loopback(host: str) -> bool:
    """Return True if an address or name to listen on can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_bind(host: str, *, insecure: bool, login: bool = False, https: bool = False) -> None:
    """Refuse to listen on an address that others reach without a login, or without TLS.

    :param insecure: the user insists.
    :raises ConfigError: ``host`` is no loopback address, and something is missing.
    """
    if is_loopback(host) or insecure or (login and https):
        return
    if not login:
        raise ConfigError(
            f"--host {host} can be reached from other machines, and the console has no login: whoever reaches "
            "it can read every message and reset every group. Listen on 127.0.0.1 and forward the port (ssh "
            "-L), add --login and --https-cert, put a proxy with a login in front of it, or say --insecure"
        )
    raise ConfigError(
        f"--host {host} can be reached from other machines, and without TLS they can read the secret keys on the "
        "wire: add --https-cert and --https-key, or say --insecure"
    )


class ProxyLogin:
    """Takes the name of the user from a header that a proxy sets, from the addresses of proxies only.

    :param header: name of the header.
    :param sources: addresses and networks of the proxies.
    :param roles: what each user may do; None if everybody may do everything.
    :raises ConfigError: one of them is none, or there is none.
    """

    def __init__(self, header: str, sources: Iterable[str], roles: Roles | None = None) -> None:
        self._header = header
        self.roles = roles
        try:
            self._sources = [ipaddress.ip_network(source, strict=False) for source in sources]
        except ValueError as e:
            raise ConfigError(f"--auth-from: {e}") from e
        if not self._sources or not header.replace("-", "").isalnum() or not header.isascii():
            raise ConfigError("--auth-header needs the name of a header, and --auth-from the addresses of the proxies")

    def user(self, scope: Scope) -> str:
        """Return the name of the user.

        :raises Refused: the request comes from elsewhere, or names no user, or more than one.
        """
        client = scope.get("client")
        try:
            address = ipaddress.ip_address(client[0].partition("%")[0] if client else "")
        except ValueError:
            raise Refused(403, "this console is reached through its proxy only") from None
        mapped = getattr(address, "ipv4_mapped", None) or address
        if not any(mapped in source for source in self._sources):
            raise Refused(403, "this console is reached through its proxy only")
        names = Headers(scope=scope).getlist(self._header)
        if len(names) != 1 or not names[0].strip() or len(names[0]) > _MOST_NAME or not names[0].isprintable():
            raise Refused(401, f"the proxy did not say who you are: header {self._header}")
        return names[0].strip()

    def state(self, scope: Scope) -> dict[str, str]:
        """Return what pages know about the user: the name, and the role if there are roles.

        :raises Refused: as :meth:`user`, or the user has no role.
        """
        user = self.user(scope)
        if self.roles is None:
            return {"proxied_user": user}
        role = self.roles.of(user)
        if role is None:
            raise Refused(403, f"user {user} has no role in this console; see --proxy-roles")
        return {"proxied_user": user, "role": role}


class Guard:
    """ASGI middleware that refuses forbidden requests before a page sees them, and adds the headers of answers.

    :param hosts: names under which the console is served, besides those of the loopback interface.
    :param proxy: says who the user is, if a proxy in front of the console knows it.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = (), proxy: ProxyLogin | None = None) -> None:
        self._app = app
        self._proxy = proxy
        self._hosts = _LOOPBACK_NAMES | {host.strip("[]").lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # websockets are not served

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            status, why = refusal
            await PlainTextResponse(why + "\n", status)(scope, receive, send_protected)
            return
        if self._proxy is not None:
            try:
                scope.setdefault("state", {}).update(self._proxy.state(scope))
            except Refused as e:
                await PlainTextResponse(f"{e}\n", e.status)(scope, receive, send_protected)
                return
        await self._app(scope, receive, send_protected)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name_of(hosts[0]) not in self._hosts:
            # Without this check, a page whose name an attacker resolves to 127.0.0.1 could read everything.
            return 421, "this console is not served under that name; see --allowed-host"
        if len(scope["query_string"]) > MOST_QUERY_BYTES:
            return 414, f"the query is longer than {MOST_QUERY_BYTES} bytes"
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return None
        return _refusal_of_change(headers, hosts[0])


def _refusal_of_change(headers: Headers, host: str) -> tuple[int, str] | None:
    """Return status and reason if a change does not come from a page of this console, or is too long."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return 403, "a change must come from a page of this console"
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return 403, "a change must come from a page of this console"
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
        return 413, f"the body is longer than {MOST_BODY_BYTES} bytes"
    return None


def _name_of(host: str) -> str | None:
    """Return the name in a Host header without the port; None if it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


class Tokens:
    """Tokens that bind forms to the browser which got them: HMAC of a random cookie."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def of(self, cookie: str) -> str:
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def check(self, request: Request, given: str) -> None:
        """Refuse a change without the token of the browser's cookie.

        :raises Refused: there is no cookie, or ``given`` is not its token.
        """
        cookie = cookie_of(request)
        if cookie is None or not hmac.compare_digest(self.of(cookie).encode(), given.encode()):
            raise Refused(403, "the form is not from this console, or older than its last start: reload the page")


def cookie_name(request: Request) -> str:
    """Return the name of the console's cookie: with TLS one that only this host can set, for all of its paths."""
    return f"__Host-{COOKIE}" if request.url.scheme == "https" else COOKIE


def cookie_of(request: Request) -> str | None:
    """Return the console's cookie of a request; None if there is none or it is malformed."""
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(cookie_name(request))
    except CookieError:
        return None
    return found.value if found is not None and len(found.value) == _COOKIE_DIGITS else None


def set_cookie(request: Request, response: Response, value: str) -> None:
    """Set the console's cookie: no script reads it, no other site sends it, and it lasts as long as the browser."""
    secure = request.url.scheme == "https"
    response.set_cookie(cookie_name(request), value, httponly=True, samesite="strict", path="/", secure=secure)


def new_cookie() -> str:
    """Return a random value for the console's cookie."""
    return secrets.token_urlsafe(32)


async def read_form(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form.

    :raises Refused: the body is too long, too slow, of another type, or no form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "a change is a form: application/x-www-form-urlencoded")
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY_BYTES:  # a body in chunks has no length to check before
                    raise Refused(413, f"the body is longer than {MOST_BODY_BYTES} bytes")
    except TimeoutError:
        raise Refused(408, f"the form did not arrive within {FORM_SECONDS:g} s") from None
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as e:
        raise Refused(400, f"the body is no form: {e}") from e


class Audit:
    """Records every change, in the log and for a page of the last ones.

    :param now: returns the time in milliseconds since the epoch.
    :param cluster: name of the cluster, if the console shows several.
    """

    KEPT = 1000

    def __init__(self, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000, cluster: str = "") -> None:
        self._cluster = cluster
        self.entries: deque[Mapping[str, Any]] = deque(maxlen=self.KEPT)
        self._now = now
        self.on_record: Callable[[str], None] = lambda _: None
        """Called with the action of each change."""

    def record(self, request: Request, action: str, *, is_kept: bool = True, **what: Any) -> None:
        """Record a change: one JSON line in the log.

        :param is_kept: also keep it for the page; refused logins would push out everything else.
        """
        client = request.client
        entry = {
            "at": self._now(),
            "from": f"{client.host}:{client.port}" if client else None,
            "who": getattr(request.state, "who", None),
            **({"role": request.state.role} if hasattr(request.state, "role") else {}),
            **({"cluster": self._cluster} if self._cluster else {}),
            "action": action,
            **what,
        }
        self.on_record(action)
        if is_kept:
            self.entries.appendleft(entry)
        _audit_log.warning("%s", json.dumps(entry, ensure_ascii=True))
