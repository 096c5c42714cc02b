"""``rocketmq serve``: one broker or several, what they are started with, and when they are ready."""

import asyncio
import contextlib
import json
import logging
import os
from itertools import pairwise
from pathlib import Path

import pytest

import rocketmq_py.broker
import rocketmq_py.namesrv
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.cli.server import serve
from rocketmq_py.cli.server.broker_plan import PlannedBroker
from rocketmq_py.cli.server.serve import ConsolePlan
from rocketmq_py.cli.supervisor import python_command
from rocketmq_py.errors import ConfigError
from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.server import garbage, runner
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.tls import TlsSettings
from rocketmq_py.store.tools import offline

FIRST = PlannedBroker("broker-a", Path("/s"), 10911, 10912)


# -- settings


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"store": "/s", "port": 0, "id": 0}, {"storePathRootDir": "/s", "listenPort": "0", "brokerId": "0"}),
        ({"name": "n", "cluster": "c"}, {"brokerName": "n", "brokerClusterName": "c"}),
        ({"namesrv": "h:1", "role": "SLAVE"}, {"namesrvAddr": "h:1", "brokerRole": "SLAVE"}),
    ],
)
def test_options_are_settings(options, settings):
    nothing = dict.fromkeys(("store", "port", "name", "cluster", "namesrv", "role", "id", "accept_loss"))
    assert serve._as_settings({**nothing, **options}) == settings


@pytest.mark.parametrize(
    ("key", "known"),
    [("brokerName", True), ("listenPort", True), ("orderMessageEnable", True), ("authenticationEnabled", True),
     ("tls.server.mode", True), ("nix", False)],
)  # fmt: skip
def test_settings_of_any_server_are_known(key, known):
    assert serve._is_known(key) is known


def test_an_advertised_address_goes_before_all_others():
    settings = {"brokerIP1": "10.0.0.1", "bindAddress": "10.0.0.2"}
    assert serve._addresses(settings, "10.0.0.3", "a.example") == {"bindAddress": "10.0.0.3", "brokerIP1": "a.example"}
    assert serve._addresses({}, "::", "a.example")["bindAddress"] == "::"
    assert serve._addresses({}, "::")["brokerIP1"] != "::"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("::1", True), ("127.0.0.1", True), ("127.9.9.9", True), ("0.0.0.0", False), ("h", False)],
)
def test_addresses_of_this_machine_are_known(host, loopback):
    assert serve.is_loopback(host) is loopback


def test_a_slave_needs_name_servers_of_others():
    broker = BrokerConfig(broker_role="SLAVE", broker_id=1)
    with pytest.raises(ConfigError, match="a SLAVE finds its master through their common name servers"):
        serve._check(AccessSettings(), broker, NamesrvConfig())
    serve._check(AccessSettings(), broker, None)


def test_access_control_without_a_name_server_of_its_own_needs_no_credentials(caplog):
    serve._check(AccessSettings(authentication_enabled=True), BrokerConfig(bind_address="0.0.0.0"), None)
    assert caplog.records == []


@pytest.fixture
def files(tmp_path):
    """A settings file, and another one in the store with what administrators changed."""
    (tmp_path / "conf").write_text("brokerName=file\nlistenPort=1\n")
    (tmp_path / "store" / "config").mkdir(parents=True)
    (tmp_path / "store" / "config" / "broker.properties").write_text("brokerName=kept\n")
    return tmp_path


def test_a_named_file_keeps_the_changes_of_one_broker(files):
    given = {"storePathRootDir": str(files / "store")}
    found = serve._from_file(files / "conf", given, shared=False)
    assert found == {"brokerConfigPath": str(files / "conf"), "brokerName": "file", "listenPort": "1"}


def test_brokers_that_share_a_file_keep_changes_in_their_stores(files):
    given = {"storePathRootDir": str(files / "store")}
    assert serve._from_file(files / "conf", given, shared=True) == {"brokerName": "kept", "listenPort": "1"}
    assert serve._from_file(None, given, shared=False) == {"brokerName": "kept"}


def test_without_a_file_there_are_no_settings(tmp_path):
    assert serve._from_file(None, {"storePathRootDir": str(tmp_path)}, shared=False) == {}


# -- one broker


class Server:
    """Notes what it was made with, and when it started and stopped."""

    states: list[object]
    kind = ""
    address = ""

    def __init__(self, *parts, **options):
        self.states.append((self.kind, *parts, *options.items()))

    async def start(self):
        self.states.append(f"{self.kind} started")

    async def stop(self):
        self.states.append(f"{self.kind} stopped")

    @contextlib.contextmanager
    def unwatched(self):
        self.states.append(f"{self.kind} unwatched")
        yield
        self.states.append(f"{self.kind} watched")


@pytest.fixture
def states(monkeypatch):
    noted = []
    for module, name, kind, address in (
        (rocketmq_py.namesrv, "NameServer", "namesrv", "h:1"), (rocketmq_py.broker, "Broker", "broker", "h:2")
    ):  # fmt: skip
        monkeypatch.setattr(module, name, type(name, (Server,), {"states": noted, "kind": kind, "address": address}))
    collections = type("LongCollections", (), {"start": lambda _: noted.append("watched")})
    monkeypatch.setattr(garbage, "LongCollections", collections)
    return noted


async def until_ready(coroutine, check):
    """Run a coroutine that would serve for ever, and cancel it after a while."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(1)
    assert not task.done()
    check()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_broker_joins_the_name_server_of_its_process(states, capsys):
    def check():
        assert [state for state in states if isinstance(state, str)] == [
            "namesrv started", "namesrv unwatched", "broker started", "namesrv watched", "watched",
        ]  # fmt: skip
        assert capsys.readouterr().out == "READY namesrv=h:1 broker=h:2\n"

    config = BrokerConfig(namesrv_addr="")
    asyncio.run(until_ready(serve._serve("config", config, "store", "tls", "access", supervised=False), check))
    [namesrv, broker] = [state for state in states if isinstance(state, tuple)]
    assert namesrv == ("namesrv", "config", "tls", "access")
    assert broker[1].namesrv_addr == "h:1"
    assert broker[2:] == ("store", ("tls", "tls"), ("access", "access"))
    assert states[-2:] == ["broker stopped", "namesrv stopped"]


def test_a_broker_joins_other_name_servers(states, capsys):
    config = BrokerConfig(namesrv_addr="n:1;n:2")
    asyncio.run(until_ready(serve._serve(None, config, "store", None, None, supervised=False), lambda: None))
    assert capsys.readouterr().out == "READY namesrv=n:1;n:2 broker=h:2\n"
    assert "namesrv started" not in states


def test_a_supervised_broker_ends_with_its_input(states, monkeypatch):
    streams = []

    async def end_of_input(stream):
        streams.append(stream)

    monkeypatch.setattr(serve, "end_of_input", end_of_input)
    asyncio.run(serve._serve(None, BrokerConfig(namesrv_addr="n:1"), "store", None, None, supervised=True))
    assert streams == [serve.sys.stdin]
    assert states[-1] == "broker stopped"


# -- several brokers


def test_children_are_started_with_the_settings_that_they_share():
    given = {
        "storePathRootDir": "/s", "listenPort": "1", "haListenPort": "2", "brokerName": "n", "namesrvAddr": "h:1",
        "brokerClusterName": "c", "fileReservedTime": "7",
    }  # fmt: skip
    level = logging.getLevelName(logging.getLogger().level).lower()
    command = [*python_command(), "serve", "--supervised", "--log-format", "json", "--log-level", level]
    shared = ["--set", "brokerClusterName=c", "--set", "fileReservedTime=7"]
    assert serve._child_command(None, given, "json") == [*command, *shared]
    assert serve._child_command(Path("/conf"), given, "json") == [*command, "-c", "/conf", *shared]


def test_a_child_keeps_the_port_of_its_first_start():
    child = serve.Child(PlannedBroker("broker-b", Path("/s/b"), 0, 0), ["run"], "n:1")
    words = ["run", "--name", "broker-b", "--store", "/s/b", "--port", "0", "--set", "haListenPort=0", "--set",
             "metricsPromExporterPort=0", "--set", "healthPort=-1", "--set",
             "grpcServerPort=-1", "--namesrv", "n:1"]  # fmt: skip
    assert (child.process.name, child.address) == ("broker-b", "")
    assert child.process._command() == words
    child.process._on_ready("READY namesrv=n:1 broker=10.0.0.1:4711\n")
    assert child.address == "10.0.0.1:4711"
    words[6] = "4711"
    assert child.process._command() == words


@pytest.fixture
def children(monkeypatch):
    """Children that are ready at once, on ports from 100 on."""
    entered = []

    @contextlib.asynccontextmanager
    async def running(processes):
        for number, process in enumerate(processes):
            process._on_ready(f"READY namesrv=x broker=h:{100 + number}\n")
        entered.append([process._command() for process in processes])
        try:
            yield
        finally:
            entered.append("left")

    monkeypatch.setattr(serve, "running", running)
    return entered


BROKERS = [FIRST, PlannedBroker("broker-b", Path("/s/broker-b"), 10921, 10922)]


def with_tables(folder):
    brokers = [broker._replace(store=folder / broker.name) for broker in BROKERS]
    (brokers[0].store / "config").mkdir(parents=True)
    table = {"topicConfigTable": {"t": {"topicName": "t"}, "broker-a": {"topicName": "broker-a"}}}
    (brokers[0].store / "config" / "topics.json").write_text(json.dumps(table))
    return brokers


def test_brokers_join_the_name_server_of_the_supervisor(states, children, capsys, tmp_path):
    brokers = with_tables(tmp_path)

    def check():
        assert capsys.readouterr().out == "READY namesrv=h:1 broker=h:100;h:101\n"
        assert states[-2:] == ["namesrv started", "watched"]

    asyncio.run(until_ready(serve._supervise("config", "", brokers, ["run"], "tls", "access"), check))
    assert states[0] == ("namesrv", "config", "tls", "access")
    assert [words[-2:] for words in children[0]] == [["--namesrv", "h:1"]] * 2
    assert (children[1], states[-1]) == ("left", "namesrv stopped")
    copied = json.loads((brokers[1].store / "config" / "topics.json").read_text())
    assert list(copied["topicConfigTable"]) == ["t"], "topics of the first broker, without its own"


def test_brokers_of_the_supervisor_join_other_name_servers(states, children, capsys, tmp_path):
    asyncio.run(
        until_ready(serve._supervise(None, "n:1;n:2", with_tables(tmp_path), ["run"], None, None), lambda: None)
    )
    assert capsys.readouterr().out == "READY namesrv=n:1;n:2 broker=h:100;h:101\n"
    assert [words[-1] for words in children[0]] == ["n:1;n:2"] * 2
    assert states == ["watched"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_console_runs_beside_brokers_and_keeps_its_port(states, monkeypatch, capsys, tmp_path, count):
    commands = []

    @contextlib.asynccontextmanager
    async def running(processes):
        for process in processes:
            commands.append(process._command())
            process._on_ready("READY broker=h:100 console=http://127.0.0.1:4711\n")
            commands.append(process._command())
        try:
            yield
        finally:
            states.append(f"{processes[0].name} stopped")

    monkeypatch.setattr(serve, "running", running)
    config = BrokerConfig(namesrv_addr="n:1")
    serving = (
        serve._serve(None, config, "store", None, None, supervised=False, console=ConsolePlan(0, ("--login",)))
        if count == 1
        else serve._supervise(None, "n:1", with_tables(tmp_path), ["run"], None, None, ConsolePlan(0, ("--login",)))
    )
    asyncio.run(until_ready(serving, lambda: None))
    assert capsys.readouterr().out.endswith(" console=http://127.0.0.1:4711\n")
    command = [*python_command(), "console", "--supervised", "--port"]
    words = ["--namesrv", "n:1", "--login"]
    assert commands[-2:] == [[*command, "0", *words], [*command, "4711", *words]]
    assert "console stopped" in states


@pytest.mark.parametrize(("words", "port"), [("", None), ("--console", 8080), ("--console 0", 0)])
def test_the_port_of_the_console_arrives(run_serve, tmp_path, words, port):
    _, (*_, options) = run_serve(f"--store {tmp_path} {words}")
    assert options["console"] == (None if port is None else ConsolePlan(port))
    _, (*_, given) = run_serve(f"--store {tmp_path} --brokers 2 {words}")
    assert given == options["console"]


TLS = {"tls.server.certPath": "c.pem", "tls.server.keyPath": "k.pem", "tls.server.keyPassword": "word"}


def test_a_console_has_the_certificate_and_the_login_of_its_broker(monkeypatch):
    monkeypatch.setenv("ROCKETMQ_CONSOLE_KEY_PASSWORD", "")
    monkeypatch.delenv("ROCKETMQ_ACCESS_KEY", raising=False)
    guarded = AccessSettings(authentication_enabled=True)
    assert ConsolePlan.of(1, TlsSettings(), AccessSettings()) == ConsolePlan(1)
    assert ConsolePlan.of(1, TlsSettings.of(TLS), guarded).words == (
        "--https-cert", "c.pem", "--https-key", "k.pem", "--login",
    )  # fmt: skip
    assert os.environ["ROCKETMQ_CONSOLE_KEY_PASSWORD"] == "word"
    enforcing = TLS | {"tls.server.mode": "enforcing", "tls.client.certPath": "own.pem"}
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "root")
    assert ConsolePlan.of(1, TlsSettings.of(enforcing), guarded).words[4:] == (
        "--tls-insecure",
        "--tls-cert",
        "own.pem",
    )
    verifying = enforcing | {"tls.client.authServer": "true", "tls.client.trustCertPath": "ca.pem"}
    assert ConsolePlan.of(1, TlsSettings.of(verifying), guarded).words[4:7] == ("--tls", "--tls-ca", "ca.pem")


@pytest.fixture
def run_serve(run, monkeypatch):
    """Runs the command up to the coroutine; returns the arguments of it."""
    seen = []
    monkeypatch.setattr(serve, "_supervise", lambda *parts: seen.append(parts))
    monkeypatch.setattr(serve, "_serve", lambda *parts, **options: seen.append((*parts, options)))
    monkeypatch.setattr(serve, "log_as", lambda *args: seen.append(args))
    monkeypatch.setattr(runner, "run", lambda _: None)

    def invoke(words):
        seen.clear()
        result = run(f"serve {words}")
        assert result.exit_code == 0, result.output
        return seen

    return invoke


def test_several_brokers_are_planned_from_the_first(run_serve, tmp_path):
    _, (namesrv, others, brokers, command, _, _, _) = run_serve(
        f"--store {tmp_path} --brokers 2 --host 10.0.0.1 --port 100 --set fileReservedTime=7"
    )
    assert (namesrv.listen_port, others) == (9876, "")
    assert brokers == [
        PlannedBroker("broker-a", tmp_path, 100, 0, 5557),
        PlannedBroker("broker-b", tmp_path / "broker-b", 110, 0, 5567),
    ]  # fmt: skip
    given = [word for flag, word in pairwise(command) if flag == "--set"]
    assert sorted(given) == ["bindAddress=10.0.0.1", "brokerIP1=10.0.0.1", "fileReservedTime=7"]


def test_several_brokers_cannot_share_one_place(run, tmp_path):
    refused = run(f"serve --store {tmp_path} --brokers 2 --set storePathCommitLog=/x")
    assert (refused.exit_code, "names one place for all brokers" in refused.output) == (2, True)


def test_a_broker_with_messages_is_not_left_out(run, tmp_path, monkeypatch):
    looked_at = []

    def has_messages(path):
        looked_at.append(path)
        return path.name == "broker-c"

    monkeypatch.setattr(offline, "has_messages", has_messages)
    refused = run(f"serve --store {tmp_path} --brokers 2")
    assert (refused.exit_code, "has messages, and with --brokers 2" in refused.output) == (2, True)
    assert looked_at == [tmp_path / "broker-c"]


def test_a_supervised_broker_names_itself_and_looks_at_no_sibling(run_serve, tmp_path, monkeypatch):
    monkeypatch.setattr(offline, "has_messages", lambda _: True)
    logged, (_, broker, _, _, _, options) = run_serve(f"--store {tmp_path} --name broker-b --supervised --namesrv n:1")
    assert logged == (None, "text", "broker-b")
    assert (broker.broker_name, options) == ("broker-b", {"supervised": True, "console": None})
    monkeypatch.setattr(offline, "has_messages", lambda _: False)
    logged, (*_, options) = run_serve(f"--store {tmp_path} --name broker-b")
    assert (logged, options) == ((None, "text", ""), {"supervised": False, "console": None})


def test_a_drain_arrives(run_serve, tmp_path):
    _, (_, broker, *_) = run_serve(f"--store {tmp_path} --drain 5")
    assert (broker.enable_shutdown_gracefully, broker.shutdown_wait_time_seconds) == (True, 5)


def test_a_slave_has_its_number(run_serve, tmp_path):
    _, (namesrv, broker, *_) = run_serve(f"--store {tmp_path} --role SLAVE --id 2 --namesrv n:1")
    assert (namesrv, broker.broker_id, broker.is_slave) == (None, 2, True)


ENFORCING = "--tls-cert c.pem --tls-ca a.pem --tls-mode enforcing"


def test_a_broker_must_be_able_to_talk_to_its_own_name_server(run, run_serve, tmp_path):
    refused = run(f"serve --store {tmp_path} {ENFORCING}")
    assert (refused.exit_code, "set tls.client.certPath" in refused.output) == (2, True)
    assert run_serve(f"--store {tmp_path} {ENFORCING} --namesrv n:1")


def test_the_accelerators_in_use_are_logged(run_serve, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        run_serve(f"--store {tmp_path}")
    assert any(record.getMessage().startswith("event loop: ") for record in caplog.records)
