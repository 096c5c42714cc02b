"""A small HTTP/1.1 server for a few pages that are made when they are asked for.

Clients are not trusted: a request has limits of bytes and seconds, connections have a limit, bodies are not read, and
paths are looked up in a table. Each connection serves one request.
"""

from __future__ import annotations

import asyncio
import logging
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qs

_log = logging.getLogger(__name__)

HEAD_LIMIT = 8 * 1024
"""Maximum size in bytes of a request line and its header."""
REQUEST_SECONDS = 5.0
"""A client must have sent its request within this time."""
ANSWER_SECONDS = 30.0
"""A page must be made, and the client must have read it, within this time."""
MOST_CONNECTIONS = 64
UNREAD_LIMIT = 64 * 1024 * 1024
"""Maximum size in bytes of the answers that clients have not read, unless it is one: a page may have 13 MB."""
_GZIP_FROM = 1024
_GZIP_LEVEL = 1
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_PIECE = 256 * 1024
"""Bytes that are compressed or written at once, so that probes of health are answered in between."""
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,4096}) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*?)[ \t]*")


class HttpRequest(NamedTuple):
    """A request for a page; names of header fields are in lower case."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    fields: Mapping[str, str]

    def accepts(self, text: str) -> bool:
        """Return True if the client names a media type, or part of one, as acceptable."""
        return text in self.fields.get("accept", "").lower()


class Page(NamedTuple):
    """The answer to a request."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


MakePage = Callable[[HttpRequest], Awaitable[Page]]


class Malformed(ValueError):
    """A request that is not HTTP as this server understands it; its text is for the client."""


def parse_head(head: bytes) -> HttpRequest:
    """Parse a request line and header, which end with an empty line.

    :raises Malformed: they do not have the form of HTTP/1.x.
    """
    line, *rest = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise Malformed("a request line of HTTP/1.1 is expected")
    fields = {}
    for text in rest:
        field = _FIELD.fullmatch(text)
        if field is None:
            raise Malformed("the header is malformed")
        fields[field[1].decode().lower()] = field[2].decode("latin-1")
    path, _, query = found[2].decode().partition("?")
    try:
        asked = parse_qs(query, keep_blank_values=True, max_num_fields=100)
    except ValueError as e:
        raise Malformed("the query has too many fields") from e
    return HttpRequest(found[1].decode(), path, asked, fields)


class HttpServer:
    """Serves pages on one port.

    :param pages: functions that make the pages, by path.
    """

    def __init__(self, pages: Mapping[str, MakePage]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._unread = 0
        """Bytes of the answers that are being sent."""

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port.

        :raises OSError: the port cannot be listened on.
        """
        self._server = await asyncio.start_server(self._connected, host, port, limit=HEAD_LIMIT)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._running) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._running.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.CancelledError) as e:
            _log.debug("a connection for HTTP ended: %s", e)
        finally:
            self._running.discard(task)
            writer.transport.abort()  # a finished one has sent everything

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = parse_head(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            await self._send(writer, _fault(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the header is too large"))
            return
        except Malformed as e:
            await self._send(writer, _fault(HTTPStatus.BAD_REQUEST, str(e)))
            return
        async with asyncio.timeout(ANSWER_SECONDS):
            await self._send(writer, await self._page(request), request)

    async def _page(self, request: HttpRequest) -> Page:
        make = self._pages.get(request.path)
        if make is None:
            return _fault(HTTPStatus.NOT_FOUND, f"pages are: {' '.join(sorted(self._pages))}")
        if request.method not in ("GET", "HEAD"):
            return _fault(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are possible")
        try:
            return await make(request)
        except Exception:  # noqa: BLE001 - one page that fails must not end the endpoint
            _log.exception("the page %s cannot be made", request.path)
            return _fault(HTTPStatus.INTERNAL_SERVER_ERROR, "the page cannot be made: see the log")

    async def _send(self, writer: asyncio.StreamWriter, page: Page, request: HttpRequest | None = None) -> None:
        body, more = page.body, b""
        if request is not None and len(body) >= _GZIP_FROM and "gzip" in request.fields.get("accept-encoding", ""):
            body, more = await _compressed(body), b"Content-Encoding: gzip\r\n"
        if self._unread and self._unread + len(body) > UNREAD_LIMIT:
            page, more = _fault(HTTPStatus.SERVICE_UNAVAILABLE, "other clients have not read their answers"), b""
            body = page.body
        phrase = HTTPStatus(page.status).phrase
        head = (
            f"HTTP/1.1 {page.status} {phrase}\r\nContent-Type: {page.content_type}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        )
        is_head = request is not None and request.method == "HEAD"
        await self._write(writer, head.encode() + more + b"\r\n", memoryview(b"" if is_head else body))
        writer.close()
        await writer.wait_closed()

    async def _write(self, writer: asyncio.StreamWriter, head: bytes, body: memoryview) -> None:
        """Write an answer as fast as the client reads it."""
        self._unread += len(body)
        try:
            writer.write(head + body[:_PIECE])
            await writer.drain()
            for begin in range(_PIECE, len(body), _PIECE):
                writer.write(body[begin : begin + _PIECE])
                await writer.drain()
        finally:
            self._unread -= len(body)


async def _compressed(body: bytes) -> bytes:
    """Compress a body; others have their turn after each piece."""
    packer, view = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT), memoryview(body)
    packed = []
    for begin in range(0, len(view), _PIECE):
        packed.append(packer.compress(view[begin : begin + _PIECE]))
        await asyncio.sleep(0)
    return b"".join([*packed, packer.flush()])


def _fault(status: HTTPStatus, text: str) -> Page:
    return Page(f"{text}\n".encode(), status)
