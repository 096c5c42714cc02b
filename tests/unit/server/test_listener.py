"""Ports, their connections, idle timeouts and the end of a server, on sockets of this machine."""

import asyncio
import errno
import socket
from types import SimpleNamespace

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.server import Peer, Server, listener as module
from rocketmq_py.server.requests.router import Router


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
        self.server.disconnected(self)


def server(**options):
    return Server(Router(), host="127.0.0.1", **options)


def test_a_new_server_has_the_limits_it_was_given():
    one = server(port=7, max_frame=8, write_limit=9)
    assert (one.host, one.port, one.max_frame, one.write_limit, one.connections) == ("127.0.0.1", 7, 8, 9, ())
    assert (Server(Router()).host, Server(Router()).port) == ("0.0.0.0", 0)
    assert server().write_limit == 64 * 1024 * 1024


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
    await one.stop()


async def test_a_taken_port_is_an_error_that_says_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: another process listens there"):
            await server().listen(port)


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
    stuck, good = Connection(one, obeys=False), Connection(one)
    await one.stop()
    assert stuck.calls == [("close", ""), "abort"]
    assert good.calls == [("close", "")]


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
