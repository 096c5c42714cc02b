"""``rocketmq proxy``: where it listens, how it reaches the cluster, what calls need."""

import pytest

from rocketmq_py.cli.server import proxy
from rocketmq_py.proxy import CallNeeds
from rocketmq_py.server import runner
from rocketmq_py.server.tls import TlsMode
from rocketmq_py.wire.signing import Credentials


@pytest.fixture
def configured(run, monkeypatch):
    """Runs the command up to its configuration and TLS settings."""

    def configure(words):
        seen = []
        monkeypatch.setattr(proxy, "_serve", lambda *parts: seen.append(parts))
        monkeypatch.setattr(runner, "run", lambda _: None)
        monkeypatch.setattr(proxy, "log_as", lambda *_: None)
        result = run(f"proxy --namesrv ns:9876 {words}")
        assert result.exit_code == 0, result.output
        [parts] = seen
        return parts

    return configure


def test_it_listens_on_this_machine_only_unless_told(configured, caplog):
    config, tls = configured("")
    assert (config.namesrv, config.host, config.port, config.advertised) == ("ns:9876", "127.0.0.1", 8081, None)
    assert (config.credentials, config.tls, config.access) == (None, None, CallNeeds.NOTHING)
    assert (tls.server_mode, tls.generates_certificate) == (TlsMode.PERMISSIVE, True)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("given", "host", "port"),
    [("0.0.0.0:81", "0.0.0.0", 81), ("h:0", "h", 0), ("h", "h", 8081), ("[::]:82", "::", 82), ("[::1]", "::1", 8081)],
)
def test_the_address_to_listen_on_may_lack_its_port(configured, given, host, port):
    config, _ = configured(f"--listen {given}")
    assert (config.host, config.port) == (host, port)


@pytest.mark.parametrize("given", [":81", "h:x", "h:", "h:65536", "h:²"])
def test_other_texts_are_no_addresses(run, given):
    result = run("proxy", "--namesrv", "ns:9876", "--listen", given)
    assert result.exit_code == 2
    assert f"--listen {given}: HOST:PORT is expected, for example 127.0.0.1:8081" in result.output


@pytest.mark.parametrize(
    ("words", "access"),
    [
        ("", CallNeeds.PERMISSION),
        ("--access open", CallNeeds.NOTHING),
        ("--access authenticate", CallNeeds.SIGNATURE),
    ],
)
def test_with_an_access_key_calls_are_checked_unless_told_otherwise(configured, monkeypatch, words, access):
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "secret")
    config, _ = configured(f"--access-key proxy {words}")
    assert (config.credentials, config.access) == (Credentials("proxy", "secret"), access)


@pytest.mark.parametrize(
    ("words", "warns"), [("--listen 0.0.0.0", True), ("--listen 0.0.0.0 --access authorize", False)]
)
def test_an_open_proxy_that_others_reach_is_logged(configured, caplog, words, warns):
    configured(words)
    assert any("listening on 0.0.0.0 without access control" in said for said in caplog.messages) == warns


def test_certificates_are_those_of_the_options(configured, monkeypatch):
    monkeypatch.setenv("ROCKETMQ_PROXY_KEY_PASSWORD", "word")
    config, tls = configured(
        "--server-cert c.pem --server-key k.pem --server-tls enforcing --tls-ca ca.pem --timeout 7"
    )
    assert (tls.server_cert_path, tls.server_key_path, tls.server_key_password) == ("c.pem", "k.pem", "word")
    assert tls.server_mode is TlsMode.ENFORCING
    assert (config.tls.ca, config.timeout) == ("ca.pem", 7)


def test_metrics_are_served_on_request(configured):
    config, _ = configured("")
    assert config.metrics is None
    config, _ = configured("--metrics-port 0 --metrics-host 0.0.0.0")
    assert config.metrics == ("0.0.0.0", 0)
