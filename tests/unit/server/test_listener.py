"""Ports, their connections, idle timeouts and the end of a server, on sockets of this machine."""

import asyncio
import errno
import socket
from contextlib import suppress
from types import SimpleNamespace

import pytest

from rocketmq_py.core.networks import parse_networks
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.server import LaneLimit, Peer, Reply, Router, Server, handles, listener as module
from rocketmq_py.server.tls import TlsMode, TlsSettings
from rocketmq_py.server.tls_acceptor import TlsAcceptor
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.proxy_header import SIGNATURES


class Connection:
    """What a server knows of a connection; ``obeys``: it ends when it is closed."""

    def __init__(self, server, obeys=True):
        self.server, self.obeys, self.quiet_sweeps, self.calls, self.peer = server, obeys, 0, [], Peer()
        server.connected(self)

    def close(self, why=""):
        self.calls.append(("close", why))
        if self.obeys:
            self.server.disconnected(self)

    def abort(self):
        self.calls.append("abort")
        asyncio.get_running_loop().call_soon(self.server.disconnected, self)


def server(**options):
    return Server(Router(), host="127.0.0.1", **options)


def test_a_new_server_has_the_limits_it_was_given():
    one = server(port=7, max_frame=8, write_limit=9)
    assert (one.host, one.port, one.max_frame, one.write_limit, one.connections) == ("127.0.0.1", 7, 8, 9, ())
    assert (Server(Router()).host, Server(Router()).port) == ("0.0.0.0", 0)
    assert server().write_limit == 64 * 1024 * 1024
    assert server().max_frame == 16 * 1024 * 1024
    assert server()._loop_monitor.writing_limit_ms == 1_000


def test_the_buffers_of_all_connections_have_a_limit():
    class Holder:
        def __init__(self, buffered, cut_off):
            self.buffered, self.cut_off = buffered, cut_off

    for limit, options in ((536_870_912, {}), (1_000_000, {"buffer_limit": 1_000_000})):
        ends = []
        for buffered in (limit, limit + 1):
            server(**options).buffers.grown(Holder(buffered, ends.append))
        assert len(ends) == 1


def test_the_limits_of_a_running_server_may_change():
    one = server(lanes={"send": LaneLimit(5, 100)}, writing_limit_ms=300)
    assert (one.dispatcher.lanes["send"].limit, one._loop_monitor.writing_limit_ms) == (5, 300)
    one.limit({"send": LaneLimit(7, 200)}, 400)
    assert (one.dispatcher.lanes["send"].limit, one._loop_monitor.writing_limit_ms) == (7, 400)
    assert one.dispatcher.lanes.waits == {"send": 200}


def test_turns_are_not_watched_while_something_else_starts():
    async def run():
        one, looks = server(), []
        one._loop_monitor.look = lambda: looks.append(1)
        await one.start()

        async def looked():
            looks.clear()
            await asyncio.sleep(0.12)
            return len(looks)

        found = [await looked()]
        with suppress(KeyError), one.unwatched():
            found.append(await looked())
            raise KeyError
        found.append(await looked())
        await one.stop()
        return found

    assert asyncio.run(run()) == [2, 0, 2]


def test_faults_of_clients_are_logged_within_a_limit(caplog):
    one = server()
    for _ in range(5):
        one.fault_log.closing(Peer(("10.0.0.9", 5)), "no frame")
    assert caplog.messages == ["closing the connection of 10.0.0.9:5: no frame"] * 3


async def test_the_checks_of_a_server_begin_and_end_with_it(monkeypatch):
    one, loop, timers = server(), asyncio.get_running_loop(), Timers()
    monkeypatch.setattr(loop, "call_later", timers.call_later)
    await one.start()
    assert [timer.seconds for timer in timers.made] == [15.0, 0.05]
    await one.stop()
    assert [timer.cancelled for timer in timers.made] == [True, True]


async def test_a_server_listens_on_its_port_and_on_more():
    one = server()
    port = await one.start()
    more = await one.listen(0)
    assert port == one.port
    assert 0 < more != port
    for each in (port, more):
        with socket.create_connection(("127.0.0.1", each)):
            pass
    await one.stop()
    for each in (port, more):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", each))
    assert one._listeners == []
    await one.stop()


async def test_a_taken_port_is_an_error_that_says_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: another process listens there"):
            await server().listen(port)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.EACCES, "denied"), "this user may not listen there; choose a port above 1023"),
        (OSError(errno.EADDRNOTAVAIL, "no"), "this machine has no such address; choose one of its own, 127.0.0.1"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("odd"), "odd"),
    ],
)
async def test_a_port_that_cannot_be_had_is_an_error_that_says_why(monkeypatch, error, why):
    async def create_server(*_, backlog):
        assert backlog == 1024
        raise error

    monkeypatch.setattr(asyncio.get_running_loop(), "create_server", create_server)
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:7: {why}"):
        await server().listen(7)


# -- ports that serve TLS


class Echo:
    @handles(RequestCode.GET_MAX_OFFSET)
    def echo(self, peer: Peer, request, body):
        return Reply(body=body)


ASK = encode_command(Command(30, ext={"topic": "t", "queueId": "0"}, body=b"hello"))


async def answer(port):
    """What a client without TLS reads until the server closes the connection, or up to an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(ASK)
    try:
        async with asyncio.timeout(30):
            return await reader.readuntil(b"hello")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("tls", "accepts", "answers"),
    [
        (None, False, True),
        (TlsSettings(server_mode=TlsMode.DISABLED), False, True),
        (TlsSettings(), True, True),
        (TlsSettings(server_mode=TlsMode.ENFORCING, test_mode=True), True, False),
    ],
)
async def test_plain_requests_are_served_unless_tls_is_enforced(tls, accepts, answers):
    one = Server(Router(Echo()), host="127.0.0.1", tls=tls, idle_timeout=77.0)
    port = await one.start()
    assert one.port == port
    assert [type(listener) is TlsAcceptor for listener in one._listeners] == [accepts]
    if accepts:
        assert one._listeners[0]._silence == 77.0
    answered = await answer(port)
    assert (answered is not None) is answers
    await one.stop()
    with pytest.raises(ConnectionRefusedError):
        await answer(port)


@pytest.mark.parametrize("own_certificate", [False, True])
async def test_a_loop_without_tls_serves_plain_requests_unless_a_certificate_is_configured(
    monkeypatch, own_certificate
):
    class Unavailable:
        def __init__(self, sock, *_, **__):
            made.append(sock)
            raise NotImplementedError

    made = []
    monkeypatch.setattr(module, "TlsAcceptor", Unavailable)
    monkeypatch.setattr(module, "tls_contexts", lambda _: object())
    tls = TlsSettings(server_cert_path="server.pem" if own_certificate else "")
    one = Server(Router(Echo()), host="127.0.0.1", tls=tls)
    if own_certificate:
        with pytest.raises(ConfigError, match=r"this event loop cannot serve TLS: set tls\.server\.mode=disabled"):
            await one.listen(0)
    else:
        for _ in range(2):
            assert b"hello" in await answer(await one.listen(0))
    assert [sock.fileno() for sock in made] == [-1], "it is not tried again"
    await one.stop()


HEADER = b"PROXY TCP4 203.0.113.7 10.0.0.1 50000 10911\r\n"


async def first_connection(one, data):
    """The address of a client that sends these bytes, as the server knows it."""
    known = asyncio.get_running_loop().create_future()
    one.connected = lambda connection: known.set_result(connection.peer.address)
    one.disconnected = lambda _: None
    _, writer = await asyncio.open_connection("127.0.0.1", one.port)
    writer.write(data)
    async with asyncio.timeout(30):
        address = await known
    writer.close()
    return address


@pytest.mark.parametrize("tls", [None, TlsSettings()])
async def test_proxies_name_their_clients(tls):
    one = server(tls=tls, proxies=parse_networks("127.0.0.0/8", ""), idle_timeout=77.0)
    await one.start()
    assert [(type(listener), listener._silence) for listener in one._listeners] == [(TlsAcceptor, 77.0)]
    assert await first_connection(one, HEADER + ASK) == "203.0.113.7:50000"
    assert (await first_connection(one, ASK)).startswith("127.0.0.1:")
    await one.stop()


async def test_a_wrong_header_of_a_proxy_is_logged_within_a_limit(caplog):
    one = server(proxies=parse_networks("127.0.0.1", ""))
    await one.start()
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
        writer.write(b"PROXY x\r\n")
        async with asyncio.timeout(30):
            with suppress(ConnectionResetError):  # bytes were not read
                assert await reader.read() == b""
        writer.close()
    assert len(caplog.messages) == 3
    assert all(message.startswith("closing the connection of 127.0.0.1:") for message in caplog.messages)
    assert ": a PROXY header b'PROXY x" in caplog.text
    await one.stop()


@pytest.mark.parametrize("header", [HEADER, SIGNATURES[1] + b"\x21\x11\0\0"])
@pytest.mark.parametrize("networks", ["", "127.0.0.2"])
async def test_a_header_from_elsewhere_ends_its_connection_and_is_named(caplog, header, networks):
    one = server(proxies=parse_networks(networks, ""))
    await one.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
    writer.write(header + ASK)
    async with asyncio.timeout(30):
        with suppress(ConnectionResetError):  # bytes were not read
            assert await reader.read() == b""
    writer.close()
    [message] = caplog.messages
    assert message.startswith("closing the connection of 127.0.0.1:")
    assert "it begins with a PROXY header, which is accepted once, from addresses in proxyProtocolSources" in message
    await one.stop()


async def test_a_loop_that_cannot_watch_sockets_serves_no_proxies(monkeypatch):
    class Unavailable:
        def __init__(self, *_, **__):
            raise NotImplementedError

    monkeypatch.setattr(module, "TlsAcceptor", Unavailable)
    with pytest.raises(ConfigError, match="this event loop cannot serve proxies: set no proxyProtocolSources"):
        await server(proxies=parse_networks("127.0.0.1", "")).listen(0)


async def test_connections_are_listed_in_order_until_they_end():
    gone = []
    one = server(on_disconnect=gone.append)
    first, second = Connection(one), Connection(one)
    assert one.connections == (first.peer, second.peer)
    one.disconnected(first)
    assert one.connections == (second.peer,)
    assert gone == [first.peer]


async def test_all_connections_are_closed_at_the_end():
    one = server()
    connections = [Connection(one) for _ in range(2)]
    await one.stop()
    assert [connection.calls for connection in connections] == [[("close", "")]] * 2
    assert one.connections == ()


async def test_a_connection_that_does_not_end_is_aborted(monkeypatch):
    monkeypatch.setattr(module, "_DRAIN_SECONDS", 0.0)
    one = server()
    one.disconnected(Connection(one))  # all were gone before
    stuck, good = Connection(one, obeys=False), Connection(one)
    await one.stop()
    assert stuck.calls == [("close", ""), "abort"]
    assert good.calls == [("close", "")]
    assert one.connections == ()


async def test_the_handlers_that_run_may_end_within_a_second(monkeypatch):
    one, waited = server(), []

    async def drain(seconds):
        waited.append(seconds)

    monkeypatch.setattr(one.dispatcher, "drain", drain)
    await one.stop()
    assert waited == [1.0]
    loop = asyncio.get_running_loop()
    stuck, begin = Connection(one, obeys=False), loop.time()
    await one.stop()
    assert stuck.calls == [("close", ""), "abort"]
    assert loop.time() - begin >= 1.0


class Timers:
    """Records what is to be called later, instead of a loop."""

    def __init__(self):
        self.made = []

    def call_later(self, seconds, what, *about):
        timer = SimpleNamespace(seconds=seconds, call=lambda: what(*about), cancelled=False)
        timer.cancel = lambda: setattr(timer, "cancelled", True)
        self.made.append(timer)
        return timer


async def test_a_connection_without_data_is_closed_after_the_idle_timeout(monkeypatch):
    one, timers = server(idle_timeout=80.0), Timers()
    idle, busy = Connection(one), Connection(one)
    monkeypatch.setattr(module.asyncio, "get_running_loop", lambda: timers)
    for _ in range(8):
        one._sweep_idle()
        busy.quiet_sweeps = 0
    assert (idle.calls, busy.calls) == ([], [])
    assert {timer.seconds for timer in timers.made} == {10.0}
    timers.made[-1].call()
    assert (idle.calls, busy.calls) == ([("close", "idle")], [])
    assert one.connections == (busy.peer,)
    monkeypatch.undo()
    await one.stop()
    assert timers.made[-1].cancelled


async def test_all_addresses_of_a_host_get_the_same_port():
    one = server()
    sockets = await one._bound_sockets(0)
    try:
        assert {sock.getsockname()[0] for sock in sockets} == {"127.0.0.1"}
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.parametrize(("code", "kept"), [(errno.EADDRNOTAVAIL, True), (errno.EADDRINUSE, False)])
async def test_a_second_address_that_this_machine_lacks_is_left_out(monkeypatch, code, kept):
    one, made = server(), []
    found = [(socket.AF_INET, 0, 0, "", ("127.0.0.1", 0)), (socket.AF_INET6, 0, 0, "", ("::1", 0, 0, 0)),
             (socket.AF_INET, 0, 0, "", ("127.0.0.1", 0))]  # fmt: skip

    async def addresses(*_, **__):
        return found

    def create(address, *, family, backlog):
        assert backlog == 1024
        if family == socket.AF_INET6:
            assert address == ("::1", 4711)
            raise OSError(code, "no")
        made.append(SimpleNamespace(getsockname=lambda: ("127.0.0.1", 4711), closed=False))
        made[-1].close = lambda: setattr(made[-1], "closed", True)
        return made[-1]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
    monkeypatch.setattr(module.socket, "create_server", create)
    if kept:
        assert await one._bound_sockets(0) == made
    else:
        with pytest.raises(OSError, match="no"):
            await one._bound_sockets(0)
    assert [sock.closed for sock in made] == [not kept]


async def test_clients_are_sent_away_until_none_asks_any_more(monkeypatch):
    steps = []

    class GoAway:
        def __init__(self, codes):
            steps.append(codes)

        async def wait(self, seconds):
            steps.append(seconds)

    one = server()
    monkeypatch.setattr(module, "GoAway", GoAway)
    monkeypatch.setattr(one.dispatcher, "send_away", lambda away: steps.append(type(away)))
    await one.send_away(2.5, [10, 11])
    assert steps == [[10, 11], GoAway, 2.5]
