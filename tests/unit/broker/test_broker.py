"""The broker put together: the order of start and stop, failed starts, periodic jobs, ports and addresses."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker import broker as module
from rocketmq_py.broker.broker import Broker
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.config.lane_limits import lane_limits
from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.server import Peer, Reply
from rocketmq_py.server.tls import TlsSettings
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire.command import Command


def test_the_settings_of_the_store_are_those_given_or_the_usual_ones() -> None:
    given = StoreConfig(file_reserved_time=7)
    assert Broker(BrokerConfig(), given).store_config is given
    assert Broker(BrokerConfig()).store_config == StoreConfig()


class Part:
    """A part of the broker that notes its calls under its name; ``failures`` of calls are raised."""

    def __init__(self, site: Site, name: str, **attributes: Any) -> None:
        self._site, self._name = site, name
        vars(self).update(attributes)

    def __getattr__(self, call: str) -> Any:
        def note(*args: Any) -> Any:
            what = f"{self._name}.{call}"
            self._site.calls.append((what, *args))
            if what in self._site.failures:
                raise self._site.failures[what]

        return note


class AsyncPart(Part):
    """As :class:`Part`, with calls that are awaited."""

    def __getattr__(self, call: str) -> Any:
        note = super().__getattr__(call)

        async def note_later(*args: Any) -> Any:
            await asyncio.sleep(0)
            note(*args)

        return note_later


def _required(_request: Command, *, residency: object) -> None:
    del residency


class Site:
    """A broker whose parts note what happens to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **config: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failures: dict[str, BaseException] = {}
        self.server_options: dict[str, Any] = {}
        self.services_options: tuple[Any, ...] = ()
        self.jobs: list[Any] = []
        self.access = SimpleNamespace(
            inner=None, table="users", enabled=False, admit_run="admit_run", admit=self._admit, saved=self._saved
        )  # fmt: skip
        self.is_slave = False
        monkeypatch.setattr(module, "Services", self._services)
        monkeypatch.setattr(module, "Server", self._server)
        monkeypatch.setattr(module, "Ticker", self._ticker)
        monkeypatch.setattr(module, "AccessHandlers", lambda table: ("handlers of", table))
        settings = {"listen_port": 10911, "broker_ip1": "10.0.0.1", "bind_address": "127.0.0.1"} | config
        self.broker = Broker(BrokerConfig(**settings), StoreConfig(), lambda: 7, access=self.access)  # type: ignore[arg-type]

    async def _saved(self) -> None:
        failure = self.failures.get("access.saved")
        if failure is not None:
            raise failure

    def _admit(self, peer: Peer, request: Command, required: Any) -> Reply | None:
        self.calls.append(("access.admit", request.code, required.func))
        return None

    def _services(self, *args: Any, **options: Any) -> Any:
        self.services_options = (*args, options)
        ticks = ("tick_store", "tick_delays", "tick_clients", "tick_timers", "sweep", "catch_up", "clean_store",
                 "clean_mappings", "persist_pops", "persist_filters")  # fmt: skip
        return Part(
            self, "services", take_back=AsyncPart(self, "services").take_back, slow_turns="slow turns",
            commit_read="commit", role=SimpleNamespace(is_slave=self.is_slave),
            replication=_mixed(self, "replication", "start", "stop", "hand_over", tick="replication.tick"),
            registration=AsyncPart(self, "registration"), slave_sync=_mixed(self, "slave_sync", "stop"),
            membership=_mixed(self, "membership", "stop"), mapping_clean_up=AsyncPart(self, "mapping_clean_up"),
            forwarder=AsyncPart(self, "forwarder"), other_masters=AsyncPart(self, "other_masters"),
            acting=AsyncPart(self, "acting"),
            scrubber=_mixed(self, "scrubber", "stop", tick="scrubber.tick"),
            rebuilder=_mixed(self, "rebuilder", "stop", tick="rebuilder.tick"),
            pull_request_hold=Part(self, "pull_request_hold"),
            pop=Part(self, "pop", remote_fetcher=AsyncPart(self, "remote_fetcher")),
            clients=SimpleNamespace(expire="clients.expire"), offsets=SimpleNamespace(persist="offsets.persist"),
            delay=SimpleNamespace(persist="delay.persist"),
            keep_hold="keep_hold", disconnected="disconnected", full_lanes="full_lanes",
            record_permissions=SimpleNamespace(required=_required, store=SimpleNamespace(new_residency=lambda: None)),
            router=lambda handlers: ("router", handlers),
            **{name: name for name in ticks},
        )  # fmt: skip

    def _server(self, router: Any, **options: Any) -> Any:
        self.server_options = {"router": router, **options}
        return _mixed(self, "server", "start", "listen", "stop", "send_away")

    def _ticker(self, jobs: list[Any], slow_turns: Any) -> Any:
        self.jobs = jobs
        assert slow_turns == "slow turns"
        return _mixed(self, "ticker", "stop")

    def names(self) -> list[str]:
        """What was called since, without limits of the server."""
        calls, self.calls = self.calls, []
        return [name for name, *_ in calls if name != "server.limit"]


def _mixed(site: Site, name: str, *awaited: str, **attributes: Any) -> Part:
    waiting = AsyncPart(site, name)
    return Part(site, name, **{call: getattr(waiting, call) for call in awaited}, **attributes)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


STARTED = ["services.open", "services.take_back", "server.start", "server.listen", "replication.start",
           "ticker.start", "registration.start", "membership.start"]  # fmt: skip
STOPPED = ["ticker.stop", "slave_sync.stop", "membership.stop", "remote_fetcher.stop", "mapping_clean_up.stop",
           "other_masters.stop", "forwarder.stop", "acting.stop", "scrubber.stop", "rebuilder.stop",
           "registration.stop", "pull_request_hold.release", "pop.release",
           "server.stop", "replication.hand_over", "replication.stop", "services.close"]  # fmt: skip


def test_a_broker_starts_and_stops_in_order(site: Site) -> None:
    async def run() -> None:
        await site.broker.start()
        assert site.names() == STARTED
        assert site.broker.services is not None
        await site.broker.stop()
        assert site.names() == STOPPED
        await site.broker.stop()
        assert site.names() == []
        await site.broker.start()
        assert site.names() == STARTED

    asyncio.run(run())


def test_a_slave_also_follows_the_tables_of_its_master(site: Site) -> None:
    site.is_slave = True
    asyncio.run(site.broker.start())
    assert site.names() == [*STARTED[:-1], "slave_sync.start", "membership.start"]


def test_a_broker_that_does_not_run_has_no_services(site: Site) -> None:
    with pytest.raises(ClosedError, match="broker broker-a is not running: start it first"):
        _ = site.broker.services
    asyncio.run(site.broker.stop())
    assert site.names() == []


@pytest.mark.parametrize(
    ("failing", "count"), [("services.take_back", 2), ("server.start", 3), ("server.listen", 4),
                           ("replication.start", 5)]
)  # fmt: skip
def test_a_start_that_fails_leaves_nothing_open(site: Site, failing: str, count: int) -> None:
    site.failures[failing] = ConfigError("taken")
    with pytest.raises(ConfigError, match="taken"):
        asyncio.run(site.broker.start())
    assert site.names() == [*STARTED[:count], "replication.stop", "server.stop", "services.close"]
    with pytest.raises(ClosedError):
        _ = site.broker.services


def test_a_registration_that_is_cancelled_stops_the_broker(site: Site) -> None:
    site.failures["registration.start"] = asyncio.CancelledError()

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await site.broker.start()

    asyncio.run(run())
    assert site.names() == [*STARTED[:7], *STOPPED]


def test_the_store_is_closed_even_if_the_end_fails(site: Site) -> None:
    async def run() -> None:
        await site.broker.start()
        site.names()
        site.failures["registration.stop"] = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            await site.broker.stop()
        assert site.names()[-1] == "services.close"

    asyncio.run(run())


def test_slaves_get_three_seconds_for_the_rest(site: Site) -> None:
    async def run() -> None:
        await site.broker.start()
        await site.broker.stop()

    asyncio.run(run())
    assert [call for call in site.calls if call[0] == "replication.hand_over"] == [("replication.hand_over", 3.0)]


def test_an_orderly_end_sends_producers_away_first(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, enable_shutdown_gracefully=True, shutdown_wait_time_seconds=20)

    async def run() -> None:
        await site.broker.start()
        site.names()
        await site.broker.stop()

    asyncio.run(run())
    assert [name for name, *_ in site.calls][:3] == [
        "registration.refuse_writes", "server.send_away", "replication.hand_over"
    ]  # fmt: skip
    assert site.calls[1][1:] == (20, (10, 310, 320, module.RequestCode.SEND_HALF_MESSAGES))
    assert site.calls[2][1] == pytest.approx(20, abs=0.5)
    assert site.names()[3:] == STOPPED


# -- the server


def test_the_server_has_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, server_channel_max_idle_time_seconds=99)
    asyncio.run(site.broker.start())
    grpc = site.server_options.pop("grpc")
    assert (grpc.func.__name__, grpc.args) == ("note", (site.broker._used_access,))
    assert site.server_options == {
        "router": ("router", ("handlers of", "users")), "host": "127.0.0.1", "port": 10911, "after_read": "commit",
        "on_hold": "keep_hold", "on_disconnect": "disconnected", "idle_timeout": 99, "full_lanes": "full_lanes",
        "tls": None, "authorize": None, "slow_turns": "slow turns", "authorize_run": None, "proxies": (),
    }  # fmt: skip
    limits = ("server.limit", lane_limits(site.broker.config), 1000)
    assert [call for call in site.calls if call[0] == "server.limit"] == [limits]


def test_limits_that_change_are_applied_every_second(site: Site) -> None:
    asyncio.run(site.broker.start())
    site.calls.clear()
    [job] = [job for job in site.jobs if job.interval_ms == 1_000 and callable(job.run)]
    site.broker.config.os_page_cache_busy_time_out_mills = 7
    job.run()
    assert site.calls == [("server.limit", lane_limits(site.broker.config), 7)]


def test_the_services_get_what_the_broker_has(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    monkeypatch.setattr(TlsSettings, "client_context", lambda _: "context")
    site.broker._tls = tls = TlsSettings()
    site.access.inner = "keys"
    asyncio.run(site.broker.start())
    config, store_config, port, clock, _, new_client, fs, seen_tls, options = site.services_options
    assert (config, store_config, port, clock()) == (site.broker.config, site.broker.store_config, 10911, 7)
    assert (new_client.args, fs, seen_tls) == (("context", "keys"), None, tls)
    assert options == {"store_ip": "10.0.0.1", "workers": None}
    assert site.server_options["tls"] is tls


def test_requests_are_checked_if_access_control_is_on(site: Site) -> None:
    site.access.enabled = True
    asyncio.run(site.broker.start())
    assert site.server_options["authorize_run"] == "admit_run"
    site.calls.clear()
    authorize = site.server_options["authorize"]
    assert authorize(Peer(), Command(10)) is None
    assert site.calls == [("access.admit", 10, _required)]
    refused = authorize(Peer(), Command(34, body=bytes(100 << 20)))
    assert refused.code == 29
    assert len(site.calls) == 1, "a body that is too large is not decoded for its permissions"


# -- ports and addresses


@pytest.mark.parametrize(
    ("port", "needed", "fails"), [(10911, None, True), (0, None, False), (10911, False, False), (0, True, True)]
)
def test_the_fast_port_is_optional_if_the_port_was_picked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, port: int, needed: bool | None, fails: bool
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "_free_port", lambda _: 20_000)
    site = Site(monkeypatch, listen_port=port)
    site.failures["server.listen"] = ConfigError("taken")
    site.broker._needs_fast_port = Broker(site.broker.config, needs_fast_port=needed)._needs_fast_port
    if fails:
        with pytest.raises(ConfigError, match="the fast port, two below the broker's port: taken"):
            asyncio.run(site.broker.start())
    else:
        asyncio.run(site.broker.start())
        assert "no fast port: taken" in caplog.text
        ports = (port or 20_000, (port or 20_000) - 2)
        assert ("server.listen", ports[1]) in site.calls
        assert (site.broker.port, site.broker.address) == (ports[0], f"10.0.0.1:{ports[0]}")


def test_an_address_of_version_6_is_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Site(monkeypatch, broker_ip1="::1").broker.address == "[::1]:10911"


def test_a_free_port_is_free() -> None:
    port = module._free_port("127.0.0.1")
    with socket.create_server(("127.0.0.1", port)):
        assert port > 0


def test_names_become_addresses_of_version_4_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolved() -> str:
        async def getaddrinfo(host: str, port: object, *, type: int) -> list[Any]:  # noqa: A002
            assert (host, port, type) == ("broker", None, socket.SOCK_STREAM)
            return [
                (socket.AF_INET6, 1, 6, "", ("::1", 0, 0, 0)), (socket.AF_INET, 1, 6, "", ("10.0.0.9", 0)),
                (socket.AF_INET, 1, 6, "", ("10.0.0.8", 0)),
            ]  # fmt: skip

        asyncio.get_running_loop().getaddrinfo = getaddrinfo  # type: ignore[assignment, method-assign]
        return await module._resolved("broker")

    assert asyncio.run(resolved()) == "10.0.0.9"


def test_a_name_that_cannot_be_resolved_is_an_error() -> None:
    async def resolved() -> str:
        async def getaddrinfo(*_: object, **__: object) -> list[Any]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        asyncio.get_running_loop().getaddrinfo = getaddrinfo  # type: ignore[assignment, method-assign]
        return await module._resolved("broker")

    with pytest.raises(ConfigError, match="brokerIP1 is 'broker', which cannot be resolved: Name or service not known"):
        asyncio.run(resolved())


# -- jobs and log


def test_every_job_has_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(
        monkeypatch, flush_consumer_offset_interval=11, flush_delay_offset_interval=12, store_path_root_dir="/nowhere"
    )
    site.broker.store_config = StoreConfig(clean_resource_interval=13)
    asyncio.run(site.broker.start())
    assert [tuple(job) for job in site.jobs if not callable(job.run)] == [
        (100, "tick_store", None), (100, "tick_delays", None), (100, "tick_clients", None),
        (100, "replication.tick", None), (20, "tick_timers", None), (5_000, "sweep", None),
        (10_000, "clients.expire", None), (11, "offsets.persist", None), (11, "persist_pops", None),
        (12, "delay.persist", None), (10_000, "persist_filters", None), (1_000, "catch_up", None),
        (13, "clean_store", 60_000), (300_000, "clean_mappings", None),
        (1_000, "scrubber.tick", None),
        (1_000, "rebuilder.tick", None),
    ]  # fmt: skip


def test_settings_without_effect_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(monkeypatch, ignored={"b": "2", "a": "1"})
    asyncio.run(site.broker.start())
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        f"settings of Apache RocketMQ that have no effect here: {site.broker.config.ignored_text()}"
    ]  # fmt: skip


def test_without_access_control_the_file_of_the_store_is_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = Site(monkeypatch, store_path_root_dir=str(tmp_path), broker_cluster_name="c")
    site.broker._access = None
    opened = []

    def open_access(settings: Any, root: Path, cluster: str) -> Any:
        opened.append((settings.authentication_enabled, root, cluster))
        return site.access

    monkeypatch.setattr(module, "open_access", open_access)
    asyncio.run(site.broker.start())
    assert opened == [(False, tmp_path, "c")]


def test_the_clock_counts_milliseconds_since_the_epoch() -> None:
    assert module.wall_clock() // 10**12 in (1, 2)
