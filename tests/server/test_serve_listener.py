"""The server on real sockets with handlers of its own: ports, idle and slow peers, pushes, the end."""

import asyncio

import pytest

from rocketmq_py.errors import ConfigError, ConnectionLost
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server import Hold, Peer, Reply, Router, Server, handles
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

QUEUE = {"topic": "t", "queueId": "0"}
LARGE = bytes(1_000_000)


class Handlers:
    def __init__(self):
        self.peers: list[Peer] = []
        self.gate = asyncio.Event()

    @handles(Code.GET_MAX_OFFSET)
    def echo(self, peer, request, body):
        self.peers.append(peer)
        return Reply(body=body)

    @handles(Code.GET_MIN_OFFSET)
    def large(self, peer, request, body):
        return Reply(body=LARGE)

    @handles(Code.GET_EARLIEST_MSG_STORETIME)
    async def wait(self, peer, request, body):
        await self.gate.wait()
        return Reply(body=b"at last")

    @handles(Code.DELETE_TOPIC_IN_BROKER)
    def hold(self, peer, request, body):
        return Hold(request.header.topic, 0)


class Client:
    """An asyncio stream that speaks commands."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self._frames = FrameDecoder()
        self._received = []

    async def receive(self):
        while not self._received:
            data = await self.reader.read(1 << 20)
            assert data, "the connection was closed"
            self._received += map(decode_command, self._frames.feed(data))
        return self._received.pop(0)

    def send(self, code, ext=None, **fields):
        self.writer.write(encode_command(Command(code, ext=QUEUE if ext is None else ext, **fields)))

    async def ask(self, code, **fields):
        self.send(code, **fields)
        return await self.receive()

    async def wait_closed(self):
        try:
            while await self.reader.read(1 << 20):
                pass
        except ConnectionResetError:
            pass


class Site:
    def __init__(self, **options):
        self.handlers = Handlers()
        self.gone = asyncio.Queue()
        self.holds = []
        options = {"on_hold": lambda *held: self.holds.append(held), **options}
        self.server = Server(
            Router(self.handlers), host="127.0.0.1", on_disconnect=self.gone.put_nowait, **options
        )  # fmt: skip
        self._clients = []

    async def connect(self, port=None):
        client = Client(*await asyncio.open_connection("127.0.0.1", port or self.server.port))
        self._clients.append(client)
        return client

    async def end(self):
        await self.server.stop()
        for client in self._clients:
            client.writer.close()


def with_site(scenario, **options):
    """Runs ``scenario(site)`` around a started server."""

    async def main():
        site = Site(**options)
        await site.server.start()
        try:
            async with asyncio.timeout(240):
                await scenario(site)
        finally:
            await site.end()

    asyncio.run(main())


def test_a_server_can_listen_on_several_ports():
    async def scenario(site):
        other = await site.server.listen(0)
        for port in (site.server.port, other):
            client = await site.connect(port)
            assert (await client.ask(30, body=b"x")).body == b"x"
        assert len(site.server.connections) == 2
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{other}: another process"):
            await site.server.listen(other)

    with_site(scenario)


def test_an_unavailable_port_or_address_is_named():
    async def start(host, port):
        await Server(Router(), host=host, port=port).start()

    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:0: this machine has no such address"):
        asyncio.run(start("192.0.2.1", 0))


def test_a_peer_has_both_addresses_and_reports_its_end():
    async def scenario(site):
        client = await site.connect()
        await client.ask(30)
        (peer,) = site.handlers.peers
        host, port = client.writer.get_extra_info("sockname")
        assert peer.address == f"{host}:{port}"
        assert peer.local_address == f"127.0.0.1:{site.server.port}"
        client.writer.close()
        assert await site.gone.get() is peer
        assert peer.closed
        with pytest.raises(ConnectionLost):
            await peer.invoke(Command(307), 1)

    with_site(scenario)


def test_only_a_silent_connection_is_closed():
    async def scenario(site):
        silent, busy = await site.connect(), await site.connect()
        closed = asyncio.create_task(silent.wait_closed())
        while not closed.done():
            await busy.ask(30)
        assert (await busy.ask(30, body=b"still here")).body == b"still here"

    with_site(scenario, idle_timeout=2.0)  # a busy machine may do nothing at all for a second


def test_a_client_that_does_not_read_loses_no_answer():
    async def scenario(site):
        client = await site.connect()
        for opaque in range(40):
            client.send(31, opaque=opaque)
        await client.writer.drain()
        assert [(await client.receive()).opaque for _ in range(40)] == list(range(40))

    with_site(scenario)


def test_a_client_that_never_reads_is_disconnected(caplog):
    async def scenario(site):
        client = await site.connect()
        await client.ask(30)
        (peer,) = site.handlers.peers
        client.writer.transport.pause_reading()
        while not peer.closed:
            peer.write(LARGE)
            await asyncio.sleep(0)
        assert "bytes wait for it to read" in caplog.text

    with_site(scenario, write_limit=8_000_000)


def test_a_request_to_the_client_is_answered():
    async def scenario(site):
        client = await site.connect()
        await client.ask(30)
        (peer,) = site.handlers.peers
        asked = asyncio.create_task(peer.invoke(Command(307, ext={"consumerGroup": "g"}), 10))
        question = await client.receive()
        client.send(0, {}, opaque=question.opaque, flag=RESPONSE_FLAG, body=b"info")
        assert (await asked).body == b"info"

    with_site(scenario)


def test_a_held_request_is_answered_later():
    async def scenario(site):
        client = await site.connect()
        client.send(215, {"topic": "t"}, opaque=9)
        await client.ask(30)
        ((hold, responder),) = site.holds
        assert hold.key == "t"
        responder.reply(Reply(body=b"now"))
        answer = await client.receive()
        assert (answer.opaque, answer.body) == (9, b"now")

    with_site(scenario)


def test_a_stop_waits_for_handlers():
    async def scenario(site):
        client = await site.connect()
        client.send(32, opaque=1)
        await client.ask(30)
        stopping = asyncio.create_task(site.server.stop())
        await asyncio.sleep(0)
        site.handlers.gate.set()
        answers = [await client.receive()]
        assert answers[0].body == b"at last"
        await stopping
        await client.wait_closed()
        assert site.server.connections == ()

    with_site(scenario)


def test_a_stop_does_not_wait_for_clients_that_do_not_read():
    async def scenario(site):
        client = await site.connect()
        client.writer.transport.pause_reading()
        for opaque in range(40):
            client.send(31, opaque=opaque)
        await client.writer.drain()
        other = await site.connect()
        await other.ask(30)
        await site.server.stop()
        assert site.server.connections == ()

    with_site(scenario)
