"""The name server put together: what its listener is told, scans, lost connections, changes of settings."""

import asyncio
import logging
from ipaddress import ip_network
from types import SimpleNamespace

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.namesrv import NameServer, NamesrvConfig, nameserver
from rocketmq_py.namesrv.registry import MinIdChanged
from rocketmq_py.protocol.codes import Version
from rocketmq_py.protocol.headers.topic import GetRouteInfo
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer
from rocketmq_py.server.tls import TlsSettings
from tests.unit.namesrv.conftest import Site

NOW = 1_700_000_000_000


class Listener:
    """In the place of the server: accepts nothing."""

    def __init__(self, router, **options):
        self.router, self.options = router, options
        self.port = options["port"] or 4711
        self.connections = ("a peer",)
        self.states = []
        self.failure = None

    async def start(self):
        if self.failure is not None:
            raise self.failure
        self.states.append("started")

    async def stop(self):
        self.states.append("stopped")


class ClosingPeer(Peer):
    """Notes that it is closed."""

    def __init__(self, name, closed):
        super().__init__()
        self.name, self.noted = name, closed

    def close(self):
        self.noted.append(self.name)


class Told:
    """In the place of the notifier."""

    def __init__(self, tls):
        self.tls = tls
        self.changes = []
        self.closed = 0

    def notify(self, change):
        self.changes.append(change)

    async def close(self):
        self.closed += 1


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    monkeypatch.setattr(nameserver, "Server", Listener)
    monkeypatch.setattr(nameserver, "Notifier", Told)


@pytest.fixture
def now():
    return [NOW]


def make(now=(NOW,), tls=None, access=None, **settings):
    return NameServer(NamesrvConfig(**settings), tls, access, clock=lambda: now[0])


def site_of(server):
    """Registers brokers at the name server."""
    site = Site()
    site.registry = server.registry
    return site


def brokers(server):
    return set(server.registry.cluster_info().broker_addr_table)


def test_the_listener_has_the_settings():
    settings = {"listen_port": 7, "server_channel_max_idle_time_seconds": 99, "proxy_protocol_sources": "10.0.0.7"}
    server = make(bind_address="10.0.0.1", **settings)
    options = dict(server._server.options)
    del options["on_disconnect"]
    assert options.pop("proxies") == (ip_network("10.0.0.7"),)
    assert options == {"host": "10.0.0.1", "port": 7, "idle_timeout": 99, "tls": None, "authorize": None}
    assert (server.port, server.address, server.connections) == (7, "10.0.0.1:7", ("a peer",))
    assert NameServer().config == NamesrvConfig()


@pytest.mark.parametrize(
    ("host", "address"),
    [("", "127.0.0.1:7"), ("0.0.0.0", "127.0.0.1:7"), ("::", "[::1]:7"), ("name.example", "name.example:7")],
)
def test_the_address_is_one_that_clients_can_use(host, address):
    assert make(bind_address=host, listen_port=7).address == address


def test_every_request_of_java_has_a_handler():
    codes = {int(route.code) for route in make().routes}
    assert codes == {
        100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901,
        904,
    }  # fmt: skip


@pytest.mark.parametrize(("enabled", "asks"), [(True, True), (False, False)])
def test_access_control_is_asked_if_it_is_on(enabled, asks):
    access = SimpleNamespace(enabled=enabled, admit=object())
    assert make(access=access)._server.options["authorize"] is (access.admit if asks else None)


def test_tls_is_for_both_directions(monkeypatch):
    monkeypatch.setattr(TlsSettings, "client_context", lambda _: "the context")
    tls = TlsSettings.of({})
    server = make(tls=tls)
    assert server._server.options["tls"] is tls
    assert server._notifier.tls == "the context"
    assert make()._notifier.tls is None


# -- running


def running(server, test):
    """Start a name server, run a test, stop it."""

    async def run():
        await server.start()
        assert server._server.states == ["started"]
        await test()
        await server.stop()
        assert server._server.states[-1] == "stopped"
        assert server._notifier.closed == 1

    asyncio.run(run())


def test_settings_without_effect_are_logged_in_order(caplog):
    async def nothing():
        pass

    running(make(), nothing)
    assert caplog.records == []
    running(make(ignored={"b": "2", "a": "1"}), nothing)
    assert [record.getMessage() for record in caplog.records] == [
        "settings of Apache RocketMQ that have no effect here: a=1, b=2"
    ]  # fmt: skip
    assert caplog.records[0].levelno == logging.WARNING


def test_brokers_without_a_heartbeat_are_removed_at_the_next_scan(now):
    server = make(now, scan_not_active_broker_interval=5000)
    closed = []
    silent, alive = ClosingPeer("silent", closed), ClosingPeer("alive", closed)

    async def test():
        site = site_of(server)
        site.register("broker-a", owner=silent)
        site.register("broker-b", address="10.0.0.9:1", owner=alive)
        site.register("broker-c", address="10.0.0.8:1", owner="no connection")
        now[0] += 120_001
        server.registry.heartbeat("C", "10.0.0.9:1", now[0])
        await asyncio.sleep(4.9)
        assert brokers(server) == {"broker-a", "broker-b", "broker-c"}
        await asyncio.sleep(0.2)
        assert (brokers(server), closed) == ({"broker-b"}, ["silent"])
        now[0] += 120_001
        await asyncio.sleep(5)
        assert (brokers(server), closed) == (set(), ["silent", "alive"])

    running(server, test)


def test_a_stopped_name_server_does_not_scan(now):
    server = make(now, scan_not_active_broker_interval=5000)

    async def test():
        site_of(server).register("broker-a")

    running(server, test)
    now[0] += 120_001
    asyncio.run(asyncio.sleep(20))
    assert brokers(server) == {"broker-a"}
    assert server._scan is None
    asyncio.run(server.stop())


def test_a_lost_connection_removes_its_brokers_only(now):
    server = make(now)
    lost, other = Peer(), Peer()

    async def test():
        site = site_of(server)
        site.register("broker-a", owner=lost)
        site.register("broker-b", address="10.0.0.9:1", owner=other)
        server._server.options["on_disconnect"](lost)
        assert brokers(server) == {"broker-b"}

    running(server, test)
    server._server.options["on_disconnect"](other)
    assert brokers(server) == {"broker-b"}, "it is the name server that ends"


def test_a_start_that_fails_does_not_scan():
    server = make()
    server._server.failure = ConfigError("the port is taken")
    with pytest.raises(ConfigError, match="the port is taken"):
        asyncio.run(server.start())
    assert server._scan is None
    asyncio.run(server.stop())


# -- settings


@pytest.mark.parametrize(("setting", "count"), [(True, 1), (False, 0)])
def test_brokers_are_told_of_a_smallest_id_if_configured(setting, count):
    server = make(notify_min_broker_id_changed=setting)
    site = site_of(server)
    site.register(broker_id=1)
    server._notifier.changes.clear()
    site.register(broker_id=0)
    assert len(server._notifier.changes) == count
    assert all(isinstance(change, MinIdChanged) for change in server._notifier.changes)


def test_changed_settings_take_effect_at_once():
    server = make()
    registry = server.registry
    assert (registry.support_acting_master, registry.delete_missing_topics) == (False, False)
    server._settings.update("supportActingMaster=true\ndeleteTopicWithBrokerRegistration=true")
    assert (registry.support_acting_master, registry.delete_missing_topics) == (True, True)
    assert server.config.support_acting_master
    server._settings.update("supportActingMaster=false")
    assert (registry.support_acting_master, registry.delete_missing_topics) == (False, True)


def test_settings_hold_from_the_start():
    registry = make(support_acting_master=True, delete_topic_with_broker_registration=True).registry
    assert (registry.support_acting_master, registry.delete_missing_topics) == (True, True)


def test_order_topics_are_in_the_configured_file(tmp_path):
    path = tmp_path / "kv.json"
    path.write_text('{"configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4"}}}')
    server = make(kv_config_path=str(path), order_message_enable=True)
    site_of(server).register()
    [route] = [route for route in server.routes if int(route.code) == 105]
    body = route.method(Peer(), Request(header=GetRouteInfo(topic="T"), version=Version.V5_3_3), b"").body
    assert b'"orderTopicConf":"broker-a:4"' in body


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "kv.json"
    path.write_text("[")
    with pytest.raises(ConfigError, match="cannot be understood"):
        make(kv_config_path=str(path))


def test_the_clock_counts_milliseconds_since_the_epoch():
    assert nameserver.wall_clock() // 10**12 in (1, 2)


def test_monitoring_hears_that_it_stops_before_its_listener_does():
    async def main():
        server = make()
        await server.start()
        told = server._server.states
        told.clear()

        async def stop():
            told.append("monitoring stopped")

        server._monitor = SimpleNamespace(draining=lambda: told.append("draining"), stop=stop)
        await server.stop()
        assert told == ["draining", "stopped", "monitoring stopped"]

    asyncio.run(main())
