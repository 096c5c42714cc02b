"""The command in process: help, version, options to settings, errors as one line. Nothing is started here."""

import asyncio
import subprocess
import sys

import pytest
from click.testing import CliRunner

import rocketmq_py
from rocketmq_py.cli import main, root
from rocketmq_py.cli.server import serve
from rocketmq_py.cli.server.settings import assigned
from rocketmq_py.errors import ConnectError, StoreLocked
from rocketmq_py.server.tls import TlsSettings


def run(*args):
    return CliRunner().invoke(main, args)


def test_the_version_is_printed():
    assert run("--version").output == f"rocketmq, version {rocketmq_py.__version__}\n"


def test_help_lists_every_verb():
    listed = run("--help")
    assert listed.exit_code == 0
    for verb in root.VERBS:
        assert f"\n  {verb} " in listed.output
        assert run(verb, "--help").exit_code == 0


def test_an_unknown_verb_is_refused():
    result = run("brew")
    assert result.exit_code == 2
    assert "No such command 'brew'" in result.output


def test_a_mistyped_verb_suggests_the_nearest():
    result = run("topc", "ls")
    assert (result.exit_code, "Did you mean 'topic'?" in result.output) == (2, True)


def test_a_broker_id_needs_the_slave_role(tmp_path):
    result = run("serve", "--store", str(tmp_path), "--id", "1")
    assert (result.exit_code, "add --role SLAVE" in result.output) == (2, True)


def test_an_invalid_store_is_reported_in_one_line(tmp_path):
    (tmp_path / "store").touch()
    result = run("serve", "--store", str(tmp_path / "store"), "--port", "0", "--namesrv-port", "0")
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].endswith("cannot be used: Not a directory")
    assert isinstance(run("--debug", "serve", "--store", str(tmp_path / "store")).exception, NotADirectoryError)


def test_a_settings_file_may_be_in_latin_1(tmp_path):
    (tmp_path / "broker.conf").write_bytes("brokerName=Gr\u00fc\u00dfe\n".encode("latin-1"))
    result = run("serve", "-c", str(tmp_path / "broker.conf"))
    assert (result.exit_code, "brokerName is 'Gr\u00fc\u00dfe'" in result.output) == (2, True)


def test_help_does_not_import_what_it_does_not_need():
    code = "import sys, rocketmq_py.cli; print([m for m in sys.modules if m.startswith('rocketmq_py.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for package in ("broker", "client", "namesrv", "server", "store"):
        assert f"'rocketmq_py.{package}'" not in loaded


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("namesrv", "--port", "70000"), "listenPort is 70000: 0 to 65535 is expected"),
        (("namesrv", "--set", "x"), "'x' is not a setting: key=value is expected"),
        (("namesrv", "--set", "x=1"), "unknown setting 'x'"),
        (("namesrv", "-c", "no/such/file"), "does not exist"),
        (("serve", "--port", "70000"), "listenPort is 70000: 0 to 65535 is expected"),
        (("serve", "--set", "brokernam=x"), "unknown setting 'brokernam'; did you mean 'brokerName'?"),
        (("serve", "--set", "flushDiskType=NEVER"), "flushDiskType is 'NEVER'"),
        (("serve", "--name", "a b"), "brokerName is 'a b'"),
        (("serve", "--namesrv", "nowhere"), "'nowhere' is not an address"),
        (("serve", "--namesrv-port", "-1"), "listenPort is -1"),
    ],
)
def test_invalid_options_are_one_line_and_status_2(args, said, tmp_path):
    store = ("--store", str(tmp_path)) if args[0] == "serve" else ()
    result = run(*args, *store)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("error", "status"), [(StoreLocked("held"), 2), (ConnectError("nobody there"), 1)])
def test_an_error_of_a_verb_is_one_line(monkeypatch, error, status):
    def fail(*_):
        raise error

    monkeypatch.setattr(serve, "_configure", fail)
    result = run("serve")
    assert (result.exit_code, result.output) == (status, f"Error: {error}\n")


def test_an_unexpected_exception_is_not_hidden(monkeypatch):
    monkeypatch.setattr(serve, "_configure", lambda *_: 1 / 0)
    assert isinstance(run("serve").exception, ZeroDivisionError)


def test_set_options_are_parsed():
    assert assigned(["a=1", " b = x=y "]) == {"a": "1", "b": "x=y"}


# -- serve


@pytest.fixture
def configured(monkeypatch):
    """Runs ``rocketmq serve`` up to its configurations: (name server or None, broker, store)."""
    seen = []

    def keep(*configs, supervised, console):
        seen.append(configs)

        async def nothing():
            return None

        return nothing()

    monkeypatch.setattr(serve, "_serve", keep)

    def configure(*args):
        result = run("serve", *args)
        assert result.exit_code == 0, result.output
        return seen.pop()[:3]

    return configure


def test_serve_listens_on_this_machine_only_unless_told(configured):
    namesrv, broker, _ = configured("--store", "/s")
    assert (namesrv.listen_port, namesrv.bind_address) == (9876, "127.0.0.1")
    assert namesrv.kv_config_path == "/s/namesrv/kvConfig.json"
    assert (broker.listen_port, broker.bind_address, broker.broker_ip1) == (10911, "127.0.0.1", "127.0.0.1")
    assert (broker.broker_name, broker.broker_cluster_name, broker.store_path_root_dir) == (
        "broker-a",
        "DefaultCluster",
        "/s",
    )


def test_serve_takes_every_option(configured):
    namesrv, broker, store = configured(
        "--store", "/s", "--host", "10.1.2.3", "--namesrv-port", "1", "--port", "2", "--name", "n", "--cluster", "c",
        "--set", "flushDiskType=SYNC_FLUSH", "--set", "orderMessageEnable=true", "--set", "autoCreateTopicEnable=false",
    )  # fmt: skip
    assert (namesrv.listen_port, namesrv.bind_address, namesrv.order_message_enable) == (1, "10.1.2.3", True)
    assert (broker.listen_port, broker.broker_name, broker.broker_cluster_name) == (2, "n", "c")
    assert (broker.bind_address, broker.broker_ip1, broker.auto_create_topic_enable) == ("10.1.2.3", "10.1.2.3", False)
    assert store.flush_disk_type == "SYNC_FLUSH"


def test_serve_joins_name_servers_instead_of_running_one(configured):
    namesrv, broker, _ = configured("--namesrv", "10.0.0.1:9876;10.0.0.2:9876")
    assert namesrv is None
    assert broker.namesrv_addresses == ("10.0.0.1:9876", "10.0.0.2:9876")


def test_options_take_precedence_over_set_and_set_over_the_file(configured, tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "# a Java file\nbrokerName=file\nbrokerClusterName=file\nlistenPort=1\nsendThreadPoolQueueCapacity=5\n"
    )
    _, broker, _ = configured("-c", str(conf), "--set", "brokerName=set", "--set", "listenPort=2", "--port", "3")
    assert (broker.broker_name, broker.broker_cluster_name, broker.listen_port) == ("set", "file", 3)


@pytest.mark.parametrize(
    ("settings", "bind", "told"),
    [
        ({}, "127.0.0.1", "127.0.0.1"),
        ({"bindAddress": "10.0.0.1"}, "10.0.0.1", "10.0.0.1"),
        ({"brokerIP1": "10.0.0.1"}, "0.0.0.0", "10.0.0.1"),
        ({"brokerIP1": "10.0.0.1", "bindAddress": "10.0.0.2"}, "10.0.0.2", "10.0.0.1"),
    ],
)
def test_listen_and_advertised_addresses_can_be_set(settings, bind, told):
    assert serve._addresses(settings, None) == {"bindAddress": bind, "brokerIP1": told}
    assert serve._addresses(settings, "10.9.9.9") == {"bindAddress": "10.9.9.9", "brokerIP1": "10.9.9.9"}


def test_listening_on_all_interfaces_advertises_an_address_of_the_machine():
    told = serve._addresses({}, "0.0.0.0")["brokerIP1"]
    assert told != "0.0.0.0"
    assert told.count(".") == 3


def test_serve_takes_options_for_tls(monkeypatch):
    seen = []

    def keep(*parts, supervised, console):
        seen.extend(parts)
        return asyncio.sleep(0)

    monkeypatch.setattr(serve, "_serve", keep)
    result = run("serve", "--tls-cert", "c.pem", "--tls-key", "k.pem", "--tls-ca", "a.pem", "--tls-mode", "enforcing",
                 "--set", "tls.client.certPath=c.pem")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert seen[3] == TlsSettings.of({
        "tls.client.certPath": "c.pem",
        "tls.server.certPath": "c.pem", "tls.server.keyPath": "k.pem", "tls.server.trustCertPath": "a.pem",
        "tls.server.authClient": "true", "tls.server.need.client.auth": "require", "tls.server.mode": "enforcing",
    })  # fmt: skip


GUARDED = ("--set", "authenticationEnabled=true")


@pytest.mark.parametrize(
    ("args", "warned"),
    [
        ((), False),
        (("--host", "0.0.0.0"), True),
        (("--host", "10.1.2.3"), True),
        (("--host", "0.0.0.0", "--namesrv", "10.0.0.1:9876", *GUARDED), False),
    ],
)
def test_serve_warns_when_it_listens_outside_without_access_control(configured, tmp_path, caplog, args, warned):
    configured("--store", str(tmp_path), *args)
    assert ("without access control" in caplog.text) is warned


def test_a_broker_with_access_control_needs_credentials_for_its_name_server(tmp_path):
    refused = run("serve", "--store", str(tmp_path), *GUARDED)
    assert refused.exit_code == 2
    assert "innerClientAuthenticationCredentials" in refused.output
