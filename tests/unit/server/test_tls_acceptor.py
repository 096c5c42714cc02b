"""The first byte of a connection decides: TLS, plain text, or the end."""

import asyncio
import errno
import socket
import ssl
from contextlib import suppress
from types import SimpleNamespace

import pytest

from rocketmq_py.core.networks import parse_networks
from rocketmq_py.server import tls_acceptor as module
from rocketmq_py.server.self_signed import generate_certificate
from rocketmq_py.server.tls_acceptor import Opening, Proxies, TlsAcceptor


class Protocol(asyncio.Protocol):
    """Notes what it receives."""

    def __init__(self, opened):
        self.opened = opened

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.opened.put_nowait(data)
        self.transport.close()


class Contexts:
    """Gives no context, as if the certificate could not be read; counts who asks."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.wait = asyncio.Event()
        self.wait.set()

    async def context(self):
        self.asked.set()
        await self.wait.wait()


@pytest.fixture
def listening():
    sock = socket.create_server(("127.0.0.1", 0))
    yield sock
    sock.close()


def acceptor(sock, opened=None, *, enforcing=False, silence=60.0, contexts=None):
    opened = asyncio.Queue() if opened is None else opened
    return TlsAcceptor(sock, contexts or Contexts(), lambda _: Protocol(opened), enforcing=enforcing, silence=silence)


class Client:
    """A connection to the socket ``listening``."""

    def __init__(self, listening, first=b""):
        self._address, self._first = listening.getsockname(), first

    async def __aenter__(self):
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(self._first)
        return self

    async def __aexit__(self, *_):
        self._writer.close()
        with suppress(OSError):  # the other side ended it
            await self._writer.wait_closed()

    def leave(self):
        self._writer.write_eof()

    async def is_closed(self):
        async with asyncio.timeout(30):
            try:
                return await self._reader.read(1) == b""
            except ConnectionResetError:  # bytes were not read
                return True


async def test_a_plain_connection_gets_all_of_its_bytes(listening):
    opened = asyncio.Queue()
    serving = acceptor(listening, opened)
    async with Client(listening, b"\x00plain") as client:
        async with asyncio.timeout(30):
            assert await opened.get() == b"\x00plain"
        assert await client.is_closed()
        assert not serving._silent
    serving.close()


async def test_a_plain_connection_is_closed_where_tls_is_required(listening, caplog):
    opened = asyncio.Queue()
    serving = acceptor(listening, opened, enforcing=True)
    async with Client(listening, b"\x00") as client:
        assert await client.is_closed()
    assert opened.empty()
    assert not serving._silent
    assert "it does not use TLS, which this port requires" in caplog.text
    serving.close()


@pytest.mark.parametrize("enforcing", [False, True])
async def test_a_handshake_without_a_certificate_ends_the_connection(listening, enforcing):
    opened, contexts = asyncio.Queue(), Contexts()
    serving = acceptor(listening, opened, enforcing=enforcing, contexts=contexts)
    async with Client(listening, b"\x16") as client:
        assert await client.is_closed()
    assert contexts.asked.is_set()
    assert opened.empty()
    serving.close()


@pytest.fixture(scope="module")
def server_context(tmp_path_factory):
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    generate_certificate(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


class Prepared:
    """Gives every connection this context, or raises."""

    def __init__(self, context=None, fault=None):
        self._context, self._fault = context, fault

    async def context(self):
        if self._fault is not None:
            raise self._fault
        return self._context


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("enforcing", [False, True])
async def test_a_tls_connection_gets_all_of_its_bytes(listening, server_context, enforcing):
    opened = asyncio.Queue()
    serving = acceptor(listening, opened, enforcing=enforcing, contexts=Prepared(server_context))
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(*listening.getsockname(), ssl=trusting())
        writer.write(b"secret")
        assert await opened.get() == b"secret"
        assert await reader.read(1) == b""
    writer.close()
    serving.close()


async def test_a_client_that_refuses_the_certificate_is_named(listening, server_context, caplog):
    serving = acceptor(listening, contexts=Prepared(server_context))
    verifying = trusting()
    verifying.verify_mode = ssl.CERT_REQUIRED
    async with asyncio.timeout(30):
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection(*listening.getsockname(), ssl=verifying)
        while serving._opening:
            await asyncio.wait(serving._opening)
            await asyncio.sleep(0)
    [message] = caplog.messages
    assert message.startswith("no TLS connection with 127.0.0.1:")
    serving.close()


async def test_a_handshake_has_ten_seconds_and_its_failure_ends_the_connection(listening, monkeypatch, caplog):
    given = []

    async def connect(factory, sock, **options):
        given.append((type(factory()), options))
        raise TimeoutError("too slow")

    monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", connect)
    serving = acceptor(listening, contexts=Prepared("context"))
    for first, options in ((b"\x16", {"ssl": "context", "ssl_handshake_timeout": 10.0}), (b"\x00", {})):
        async with Client(listening, first) as client:
            assert await client.is_closed()
        assert given.pop() == (Protocol, options)
    tls, plain = caplog.messages
    assert tls.startswith("no TLS connection with 127.0.0.1:")
    assert plain == "no connection with a closed connection: too slow"
    serving.close()


async def test_a_certificate_that_cannot_be_read_ends_the_connection(listening, caplog):
    fault = FileNotFoundError(errno.ENOENT, "gone")
    serving = acceptor(listening, contexts=Prepared(fault=fault))
    async with Client(listening, b"\x16") as client:
        assert await client.is_closed()
    [message] = caplog.messages
    assert message.endswith(": No such file or directory")
    serving.close()


async def test_a_first_byte_is_waited_for_and_a_broken_connection_forgotten(listening):
    serving, silent = acceptor(listening), []

    def first_byte(error):
        def recv(size, flags):
            assert (size, flags) == (1, socket.MSG_PEEK)
            raise error

        sock = Unconnected(recv)
        serving._silent[sock] = SimpleNamespace(cancel=lambda: silent.append("cancelled"))
        serving._first_byte(sock, Opening())
        return sock

    waiting = [first_byte(error) for error in (BlockingIOError(), InterruptedError())]
    assert list(serving._silent) == waiting
    assert silent == []
    broken = first_byte(ConnectionResetError())
    assert broken.closed
    assert list(serving._silent) == waiting
    assert silent == ["cancelled"]
    serving.close()
    assert all(sock.closed for sock in waiting)


class Unconnected:
    """A socket whose first byte cannot be read."""

    def __init__(self, recv):
        self.recv, self.closed = recv, False

    def fileno(self):
        return 1_000_000

    def close(self):
        self.closed = True


async def test_a_silent_connection_is_closed_in_time(listening):
    serving = acceptor(listening, silence=0.0)
    async with Client(listening) as client:
        assert await client.is_closed()
    assert not serving._silent
    serving.close()


async def test_a_client_that_leaves_without_a_byte_is_forgotten(listening):
    serving = acceptor(listening)
    async with Client(listening) as client:
        client.leave()
        assert await client.is_closed()
    assert not serving._silent
    serving.close()


async def test_closing_ends_the_port_and_those_who_have_not_begun(listening):
    address, contexts = listening.getsockname(), Contexts()
    contexts.wait.clear()
    serving = acceptor(listening, contexts=contexts)
    async with Client(listening) as silent, Client(listening, b"\x16") as in_handshake:
        async with asyncio.timeout(30):
            await contexts.asked.wait()
        assert (len(serving._silent), len(serving._opening)) == (1, 1)
        assert not any(sock.getblocking() for sock in serving._silent)
        serving.close()
        assert await silent.is_closed()
        assert await in_handshake.is_closed()
    assert not serving._silent
    assert not serving._opening
    assert listening.fileno() < 0
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)
    serving.close()  # again, without effect


class Task:
    """A task that does not begin."""

    def add_done_callback(self, callback):
        pass

    def cancel(self):
        pass


class Turns:
    """The part of an event loop that an acceptor uses to open connections: counts tasks, and runs turns by hand."""

    def __init__(self):
        self.calls, self.tasks = [], []

    def call_soon(self, callback):
        self.calls.append(callback)

    def create_task(self, coroutine):
        coroutine.close()
        self.tasks.append(Task())
        return self.tasks[-1]

    def call_later(self, *_):
        return SimpleNamespace(cancel=lambda: None)

    def add_reader(self, *_):
        pass

    remove_reader = add_reader

    def turn(self):
        """Run the calls of one turn; return how many connections it has begun to open."""
        before, calls, self.calls = len(self.tasks), self.calls, []
        for call in calls:
            call()
        return len(self.tasks) - before


def begun(serving, number, first):
    """Let connections send their first byte, all in one turn."""
    socks = [Unconnected(lambda *_: first) for _ in range(number)]
    for sock in socks:
        serving._silent[sock] = serving._loop.call_later()
        serving._first_byte(sock, Opening())
    assert not serving._silent
    return socks


@pytest.mark.parametrize(
    ("first", "number", "turns"),
    [
        (b"\x00", 64, [64, 0]), (b"\x00", 65, [64, 1, 0]), (b"\x00", 150, [64, 64, 22, 0]),
        (b"\x16", 8, [8, 0]), (b"\x16", 17, [8, 8, 1, 0]),
    ],
)  # fmt: skip
async def test_connections_that_begin_at_once_are_opened_in_many_turns(listening, first, number, turns):
    serving = acceptor(listening)
    loop, serving._loop = serving._loop, Turns()
    begun(serving, number, first)
    assert len(serving._loop.calls) == 1
    assert [serving._loop.turn() for _ in turns] == turns
    begun(serving, 1, first)
    assert serving._loop.turn() == 1, "the next one is opened as if it was the first"
    assert not serving._loop.calls
    serving._loop = loop
    serving.close()


async def test_those_who_began_first_are_opened_first_and_closing_ends_the_others(listening):
    serving = acceptor(listening)
    serving._loop.remove_reader(listening.fileno())
    serving._loop = Turns()
    socks = begun(serving, 70, b"\x00")
    serving._loop.turn()
    assert [sock for sock, _, _ in serving._waiting] == socks[64:]
    serving.close()
    assert [sock.closed for sock in socks] == [False] * 64 + [True] * 6
    assert serving._loop.turn() == 0
    assert not serving._loop.calls


async def test_a_turn_accepts_at_most_64_connections(listening):
    serving = acceptor(listening)
    loop, serving._loop = serving._loop, Turns()
    loop.remove_reader(listening.fileno())
    accepted = []

    def accept():
        sock = Unconnected(None)
        sock.setblocking = lambda _: None
        accepted.append(sock)
        return sock, None

    serving.sock = SimpleNamespace(accept=accept, fileno=lambda: -1)
    serving._accept()
    assert len(accepted) == 64
    assert list(serving._silent) == accepted
    serving.close()


@pytest.mark.parametrize("error", [BlockingIOError(), OSError(24, "Too many open files")])
async def test_accepting_ends_at_an_error_and_goes_on_after_an_aborted_connection(listening, error, caplog):
    serving = acceptor(listening)
    asyncio.get_running_loop().remove_reader(listening.fileno())
    steps = [ConnectionAbortedError(), ConnectionAbortedError(), error]

    def accept():
        raise steps.pop(0)

    serving.sock = SimpleNamespace(accept=accept)
    serving._accept()
    assert steps == []
    assert not serving._silent
    assert ("a connection cannot be accepted: " in caplog.text) is not isinstance(error, BlockingIOError)


@pytest.mark.parametrize(
    ("error", "why"),
    [(ConnectionResetError(), "the client ended the handshake"), (TimeoutError("slow"), "slow")],
)
def test_a_failed_handshake_says_why(error, why):
    assert why in module._why(error)


def test_the_limits_of_a_handshake():
    assert (module._HANDSHAKE, module._HANDSHAKE_SECONDS) == (22, 10.0)


def test_a_connection_is_named_by_its_address_while_it_has_one():
    assert module._who(SimpleNamespace(getpeername=lambda: ("fe80::1%eth0", 5, 0, 2)), Opening()) == "[fe80::1]:5"
    closed = socket.socket()
    closed.close()
    assert module._who(closed, Opening()) == "a closed connection"


# -- headers of the PROXY protocol

LINE = b"PROXY TCP4 203.0.113.7 10.0.0.1 50000 10911\r\n"
BINARY = bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 000c cb007107 0a000001 c350 2a9f")
LONG = BINARY[:14] + b"\x01\x0c" + BINARY[16:] + b"\x04\0\xfd" + bytes(253)


class Noted(Protocol):
    """Notes what its acceptor has learnt, and what it receives behind the bytes that were read already."""

    def __init__(self, opened, opening):
        super().__init__(opened)
        self.opening = opening

    def data_received(self, data):
        self.opened.put_nowait((self.opening.source, self.opening.first + data))
        self.transport.close()


def proxied(sock, opened=None, *, networks="127.0.0.1", refused=None, enforcing=False, silence=60.0, contexts=None):
    opened = asyncio.Queue() if opened is None else opened
    proxies = Proxies(parse_networks(networks, "aKey"), lambda *it: refused.append(it))
    return TlsAcceptor(
        sock, contexts, lambda opening: Noted(opened, opening), enforcing=enforcing, silence=silence, proxies=proxies
    )


@pytest.mark.parametrize("header", [LINE, BINARY, LONG])
async def test_a_header_names_the_client_and_its_bytes_follow(listening, header):
    opened = asyncio.Queue()
    serving = proxied(listening, opened)
    async with Client(listening, header + b"\x00plain") as client:
        async with asyncio.timeout(30):
            assert await opened.get() == (("203.0.113.7", 50_000), b"\x00plain")
        assert await client.is_closed()
        assert not serving._silent
    serving.close()


@pytest.mark.parametrize("first", [b"\x00plain", b"PRI * HTTP/2.0", b"P5", b"\r\nx"])
async def test_a_connection_of_a_proxy_may_have_no_header(listening, first):
    opened = asyncio.Queue()
    serving = proxied(listening, opened)
    async with Client(listening, first):
        async with asyncio.timeout(30):
            assert await opened.get() == (None, first)
    serving.close()


@pytest.mark.parametrize(
    ("sent", "decided", "source"),
    [
        (LINE + b"\x00x", len(LINE), ("203.0.113.7", 50_000)),
        (BINARY + b"\x00x", len(BINARY), ("203.0.113.7", 50_000)),
        (b"PRI * HTTP/2.0", 3, None),
        (b"PROXIED!", 5, None),
    ],
)
async def test_first_bytes_that_come_one_by_one_are_each_read_once(listening, sent, decided, source):
    opened, called, calls = asyncio.Queue(), asyncio.Event(), []
    serving = proxied(listening, opened)
    read = serving._header

    def header(*given):
        calls.append(given)
        read(*given)
        called.set()

    serving._header = header
    async with Client(listening) as client, asyncio.timeout(30):
        for number in range(decided):
            client._writer.write(sent[number : number + 1])
            await called.wait()
            called.clear()
            await asyncio.sleep(0)  # bytes that were left would make the event loop call it again
        assert len(calls) == decided
        client._writer.write(sent[decided:])
        got_source, got = await opened.get()
        assert got_source == source
        assert got
        assert sent.removeprefix(LINE).removeprefix(BINARY).startswith(got)
    serving.close()


async def test_only_proxies_are_asked_for_a_header(listening):
    opened = asyncio.Queue()
    serving = proxied(listening, opened, networks="127.0.0.2,10.0.0.0/8")
    async with Client(listening, LINE):
        async with asyncio.timeout(30):
            assert await opened.get() == (None, LINE)
    serving.close()


async def test_a_wrong_header_ends_the_connection_and_names_the_proxy(listening):
    opened, refused = asyncio.Queue(), []
    serving = proxied(listening, opened, refused=refused)
    async with Client(listening, b"PROXY TCP4 x\r\n") as client:
        assert await client.is_closed()
    [(proxy, why)] = refused
    assert proxy[0] == "127.0.0.1"
    assert why.startswith("a PROXY header b'PROXY TCP4 x\\r\\n' is not TCP4")
    assert opened.empty()
    assert not serving._silent
    serving.close()


@pytest.mark.parametrize("begun", [b"", b"PROXY TCP4 1", BINARY[:20], LINE])
async def test_a_header_without_an_end_and_one_without_a_client_end_in_time(listening, begun):
    opened = asyncio.Queue()
    serving = proxied(listening, opened, silence=0.05)
    async with Client(listening, begun) as client:
        assert await client.is_closed()
    assert opened.empty()
    assert not serving._silent
    serving.close()


@pytest.mark.parametrize("begun", [b"", b"PROXY TCP4 1", LINE])
async def test_a_proxy_that_leaves_is_forgotten(listening, begun):
    serving = proxied(listening)
    async with Client(listening, begun) as client:
        client.leave()
        assert await client.is_closed()
    assert not serving._silent
    serving.close()


@pytest.mark.parametrize("header", [b"", LINE, BINARY])
async def test_tls_begins_after_the_header(listening, server_context, header):
    opened = asyncio.Queue()
    serving = proxied(listening, opened, enforcing=True, contexts=Prepared(server_context))
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(header)
        await writer.start_tls(trusting())
        writer.write(b"secret")
        assert await opened.get() == (("203.0.113.7", 50_000) if header else None, b"secret")
        assert await reader.read(1) == b""
    writer.close()
    serving.close()


async def test_a_client_behind_a_proxy_that_must_use_tls_is_named(listening, caplog):
    serving = proxied(listening, enforcing=True, contexts=Contexts())
    async with Client(listening, LINE + b"\x00") as client:
        assert await client.is_closed()
    assert "closing the connection of 203.0.113.7:50000: it does not use TLS" in caplog.text
    serving.close()


async def test_a_port_without_tls_gives_a_handshake_to_the_protocol(listening):
    """It names the fault as every port without TLS does."""
    opened = asyncio.Queue()
    serving = proxied(listening, opened)
    async with Client(listening, LINE + b"\x16\3"):
        async with asyncio.timeout(30):
            assert await opened.get() == (("203.0.113.7", 50_000), b"\x16\3")
    serving.close()
